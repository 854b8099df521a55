"""An exception as the log tells it: its kind, and the places in code that it came through.

Guarantees: nothing of what the exception says and no value, since that may be a path or somebody's
words; no directory of this machine; and a bounded length, however deep it went.
"""

import errno
import hashlib
import os
import traceback
from types import TracebackType
from typing import Final

# The ends of a deep recursion are what matters; 40 places are 2 KB.
PLACES_MAX: Final = 40

# Causes of causes, and parts of groups.
PARTS_MAX: Final = 8

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def trace_of(error: BaseException) -> tuple[str, str]:
    """Its kind, and a line for each place with the innermost last, its causes after it."""
    parts: list[str] = []
    seen: set[int] = set()
    todo: list[tuple[str, BaseException]] = [("", error)]
    while todo and len(seen) < PARTS_MAX:
        word, each = todo.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        parts.append(f"{word}{kind_of(each)}")
        parts += _places(each.__traceback__)
        if isinstance(each, BaseExceptionGroup):
            todo += [("part: ", part) for part in each.exceptions]
        before = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        if before is not None:
            todo.append(("from: ", before))
    return kind_of(error), "\n".join(parts)


def kind_of(error: BaseException) -> str:
    """ "OSError(ENOSPC)" says more than "OSError", and nothing about whose file it was."""
    name = type(error).__qualname__
    if isinstance(error, OSError) and error.errno is not None:
        return f"{name}({errno.errorcode.get(error.errno, error.errno)})"
    return name


def bug_id(error: BaseException) -> str:
    """Always the same one for the same mistake, so that repeated ones are put together."""
    return hashlib.blake2b(trace_of(error)[1].encode(), digest_size=4).hexdigest()


def _places(tb: TracebackType | None) -> list[str]:
    # Not `extract_tb`: it reads every line of source from the disk.
    found = [
        f"  {_short(frame.f_code.co_filename)}:{line} in {frame.f_code.co_qualname}"
        for frame, line in traceback.walk_tb(tb)
    ]
    if len(found) <= PLACES_MAX:
        return found
    half = PLACES_MAX // 2
    return [*found[:half], f"  … {len(found) - 2 * half} more", *found[-half:]]


def _short(path: str) -> str:
    """amend's own from the package on, others by their last two names."""
    if path.startswith(_PACKAGE + os.sep + "amend" + os.sep):
        return path[len(_PACKAGE) + 1 :]
    return "/".join(path.split(os.sep)[-2:])
