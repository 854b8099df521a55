"""The text of a `files` item → the source it names.

    src/a.ts         a file                     src/routes/     the names in a directory
    src/routes/*.ts  the names a glob matches   !src/legacy.ts  rests on its absence
    backend:src/a.ts in the sibling `backend`   ./a:b           a file whose name holds a colon

`*`, `?` and `**` make a glob; `[` and `]` stand for themselves, because `[id].tsx` is a real file.
"""

import re
from typing import Any, Final

from amend.core.model import RelPath, Source, SourceKind, path_bytes

# PATH_MAX on Linux; longer ones name nothing.
PATH_BYTES_MAX: Final = 4096

# What nearly every spec is: names that do not begin with a dot, no wild card, no colon.
_PLAIN_PATH: Final = r"(?:[\w@+-][\w@+.-]*+/)*+[\w@+-][\w@+.-]*+"
_PLAIN: Final = re.compile(_PLAIN_PATH, re.ASCII)
_PLAIN_LINES: Final = re.compile(rf"{_PLAIN_PATH}(?:\n{_PLAIN_PATH})*", re.ASCII)
_SIBLING: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]*):(.*)", re.DOTALL)


def parse_spec(text: str) -> Source:
    """The source that `text` names. Raises `ValueError` with the broken rule."""
    if len(text) < PATH_BYTES_MAX and _PLAIN.fullmatch(text):
        return Source(SourceKind.FILE, RelPath(text.encode("ascii")))
    rest = text
    absent = rest.startswith("!")
    if absent:
        rest = rest[1:]
    sibling = None
    if match := _SIBLING.fullmatch(rest):
        sibling, rest = match[1], match[2]
    if not rest:
        raise ValueError("names no path")
    try:
        path = path_bytes(rest)
    except UnicodeEncodeError:
        raise ValueError("holds a character that can stand in no file name") from None
    if len(path) > PATH_BYTES_MAX:
        raise ValueError(f"is longer than {PATH_BYTES_MAX} bytes")
    if b"\0" in path:
        raise ValueError("holds a NUL byte")
    if path.startswith(b"/"):
        raise ValueError("is absolute; write it relative to the repository's root")
    parts: list[bytes] = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise ValueError("contains `..`; cite another repository as `sibling:path`")
    if any(part.lower() == b".git" for part in parts):
        raise ValueError("is inside .git")
    clean = RelPath(b"/".join(parts))
    is_glob = b"*" in path or b"?" in path
    if absent:
        if is_glob:
            raise ValueError("asserts the absence of a pattern; name one path")
        if not clean:
            raise ValueError("asserts the absence of the root")
        return Source(SourceKind.ABSENT, clean, sibling)
    is_directory = path.endswith((b"/", b"/.")) or not clean
    if is_glob:
        if is_directory:
            raise ValueError("is a pattern that ends in `/`; a pattern matches files")
        if any(b"**" in part and part != b"**" for part in parts):
            raise ValueError("has `**` inside a name; it stands alone between slashes")
        return Source(SourceKind.GLOB, clean, sibling)
    return Source(SourceKind.LISTING if is_directory else SourceKind.FILE, clean, sibling)


def are_plain(specs: list[Any]) -> bool:
    """Whether all of these are texts that `parse_spec` takes, said fast and never wrongly; False
    also where it would have to look closer."""
    try:
        lines = "\n".join(specs)
    except TypeError:
        return False
    return len(lines) < PATH_BYTES_MAX and _PLAIN_LINES.fullmatch(lines) is not None
