"""User files: what they look like now, and the only writes amend makes to them.

`beneath` opens, reads and lists what lies under a root and nothing else. `look` turns a source into
a fingerprint. `exchange` replaces a file without overwriting what somebody else put there, and
`shared` is the algorithm around it for files that others write too. `syscalls` holds what `os`
lacks. Blocking; no clock and no loop of its own.
"""
