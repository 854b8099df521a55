"""What the process's exit code says. The README has this table; a test compares them."""

from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    OK = 0  # done; for `get` and `verify`: fresh
    ERROR = 1  # an expected error, told on stderr; or whoever read the output has gone
    USAGE = 2  # the command line itself is wrong
    STALE = 3
    MISSING = 4
    UNKNOWN = 5
    BUG = 70  # EX_SOFTWARE of sysexits.h
    CONFIG = 78  # EX_CONFIG, of `run` alone: a service manager need not try again
    INTERRUPTED = 130  # 128 + SIGINT, as shells say it


_OF_VERDICT = {
    "fresh": Exit.OK,
    "stale": Exit.STALE,
    "missing": Exit.MISSING,
    "unknown": Exit.UNKNOWN,
}


def exit_of(verdict: str) -> Exit:
    # A newer daemon may know a verdict that this does not; what is not understood is not fresh.
    return _OF_VERDICT.get(verdict, Exit.UNKNOWN)


def worst(verdicts: Iterable[str]) -> Exit:
    """Stale before unknown before missing before fresh."""
    found = {exit_of(verdict) for verdict in verdicts}
    order = (Exit.STALE, Exit.UNKNOWN, Exit.MISSING)
    return next((code for code in order if code in found), Exit.OK)
