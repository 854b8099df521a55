"""A `.gitignore`: whether it says something about a file in its directory, and one more line.

Git itself is the judge where the file exists; this is for one that is still to be made. Of git's
patterns those that can name a file in the same directory are understood, without backslashes.
"""

import re
from fnmatch import translate

from amend.errors import DocumentInvalid


def says_ignored(data: bytes, name: bytes) -> bool | None:
    """What the last pattern that fits `name` says of it; None: none fits."""
    said: bool | None = None
    for raw in data.split(b"\n"):
        pattern = raw.removesuffix(b"\r").rstrip(b" ")
        is_negated = pattern.startswith(b"!")
        pattern = pattern.removeprefix(b"!") if is_negated else pattern
        if pattern and not pattern.startswith(b"#") and _fits(pattern, name):
            said = not is_negated
    return said


def with_line(data: bytes, name: bytes) -> bytes:
    """The file with `name` as its last line; every other line keeps its bytes.

    The new line ends as most lines do, and a last line without an ending gets one, since the new
    one would continue it. Raises `DocumentInvalid` where the file is no text.
    """
    if b"\0" in data:
        raise DocumentInvalid(
            f"holds NUL (byte {data.index(0) + 1}), must be text",
            hint=f"add a line {name.decode(errors='replace')} by hand; nothing was changed",
        )
    ending = b"\r\n" if 2 * data.count(b"\r\n") > data.count(b"\n") else b"\n"
    above = data if not data or data.endswith(b"\n") else data + ending
    return above + name + ending


def _fits(pattern: bytes, name: bytes) -> bool:
    bare = pattern.removeprefix(b"**/").removeprefix(b"/")
    if b"/" in bare or b"\\" in bare:  # of another directory, of a directory only, or too subtle
        return False
    return re.match(translate(bare.decode("latin-1")), name.decode("latin-1")) is not None
