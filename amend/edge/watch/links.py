"""The names that lead to a path: every symbolic link on the way, and where the way ends."""

import os
import stat
from collections import deque
from itertools import takewhile
from typing import Final

# What the kernel itself follows before it says ELOOP.
LINKS_MAX: Final = 40


def names_on_the_way(start: bytes, path: bytes) -> list[bytes]:
    """Absolute names whose change can change what `start/path` leads to: each link passed, then
    the end of the way; just the end where no link is on it. Links in `start` are not looked for.
    After more than `LINKS_MAX` links there is no end: only the links are returned.
    """
    names: list[bytes] = []
    at = start
    rest = deque(path.split(b"/"))
    while rest:
        part = rest.popleft()
        if part in (b"", b"."):
            continue
        if part == b"..":
            at = at.rpartition(b"/")[0]
            continue
        name = at + b"/" + part
        try:
            is_link = stat.S_ISLNK(os.lstat(name).st_mode)
            target = os.readlink(name) if is_link else b""
        except (OSError, ValueError):
            # Nothing there, or no name at all. The rest would be beneath it, as far as that can be
            # told by names.
            beneath = takewhile(lambda part: part != b"..", rest)
            at = b"/".join((name, *(part for part in beneath if part not in (b"", b"."))))
            break
        if not is_link:
            at = name
            continue
        names.append(name)
        if len(names) > LINKS_MAX:
            return names
        if target.startswith(b"/"):
            at = b""
        rest.extendleft(reversed(target.split(b"/")))
    return [*names, at]
