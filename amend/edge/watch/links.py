"""The names that lead to a path: every symbolic link on the way, and where the way ends."""

import os
import stat
from collections import deque
from typing import Final

# What the kernel itself follows before it says ELOOP.
LINKS_MAX: Final = 40


def names_on_the_way(root: bytes, path: bytes) -> list[bytes]:
    """Absolute names whose change can change what `root/path` leads to: each link passed, then the
    end of the way. One name, the path itself, when no link is on it. More than `LINKS_MAX` links
    end the way at the last one."""
    names = []
    at = root
    rest = deque(path.split(b"/") if path else [])
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
        except OSError:
            at = b"/".join((name, *rest))
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
