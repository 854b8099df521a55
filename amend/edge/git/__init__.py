"""git, asked safely: the only package that imports GitPython, and only to start commands.

`run` starts a command, `places` finds a repository's directories, `head` reads what is checked out,
`history` asks which commit, which move, which state at a time. Never on the path of a question.
"""
