"""A file that `amend init` makes or adds to: what it would become, and making it so.

Guarantees: what others write at the same moment is kept, in the file or, where it cannot be merged,
beside amend's state; no link is followed; looking changes nothing.
"""

import difflib
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from amend.edge.files.exchange import Changed, FileDoor
from amend.edge.files.look import changed_at_ns, stat_key
from amend.edge.files.shared import WATCH_S, SharedFile
from amend.errors import DocumentInvalid, Refused, Unavailable, reason_of
from amend.formats.line_merge import merge

# Whoever truncates and writes a file is done by then (`shared.SETTLE_S`); nobody wants to wait
# longer for a file that was saved just before.
QUIET_S: Final = 0.1

# For so long what was replaced is watched for writes that were under way; 0.25 s lost none of
# 25,000 (`shared.WATCH_S`). A daemon can wait longer than a person who typed a command.
WATCHED_S: Final = 0.25

# A file that never rests for a tenth of a second in all this time is being generated.
WRITTEN_S: Final = 5.0

# A file that is being written is read at most so often.
_TRIES: Final = 3

Plan = Callable[[bytes | None], bytes | None]


@dataclass(frozen=True, slots=True)
class Change:
    """`path`: root-relative. `before` None: there is no file."""

    path: bytes
    before: bytes | None
    after: bytes


def planned(root: bytes, path: bytes, plan: Plan) -> Change | None:
    """What `plan` (as `SharedFile`'s) would make of the file, None where it stays as it is.

    Raises `Refused` or `DocumentInvalid` for what is to be left alone, naming the path.
    """
    before = read(root, path)
    try:
        after = plan(before)
    except DocumentInvalid as error:
        raise DocumentInvalid(f"{_shown(path)}: {error.message}", hint=error.hint) from error
    return None if after is None or after == before else Change(path, before, after)


def read(root: bytes, path: bytes) -> bytes | None:
    """The file's bytes, None where there is none. Raises `Refused`, naming the path."""
    door = FileDoor(root, path, None)
    said, hint = "it keeps changing", "try again when nothing writes to it"
    for _ in range(_TRIES):
        try:
            return door.read().data
        except Changed:
            continue
        except OSError as error:
            said, hint = reason_of(error), "it must be readable"
            break
        except Refused as error:
            said, hint = error.message, error.hint
            break
    raise Refused(f"{_shown(path)}: {said}", hint=hint)


def write(
    root: bytes,
    path: bytes,
    plan: Plan,
    *,
    retain_dir: bytes,
    now: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Make the file what `plan` wants, and stay until nobody's write can be lost.

    Raises `Refused` where it may not be written, `Unavailable` where it could not be.
    """
    shared = SharedFile(
        root,
        path,
        retain_dir=retain_dir,
        plan=plan,
        merge=merge,
        journal=lambda _: None,  # what is displaced is kept
        quiet_s=QUIET_S,
    )
    try:
        started_s = now()
        age_s = (time.time_ns() - changed_at_ns(stat_key(root, path))) / 1e9
        shared.noticed(started_s - max(0.0, age_s))
        shared.request(started_s)
        _drive(shared, path, started_s, now, pause)
        if shared.last_error:
            said = f"{_shown(path)}: {shared.last_error}"
            raise Unavailable(said, hint=f"look into {_shown(retain_dir)}, or try again")
    finally:
        shared.close()


def _drive(
    shared: SharedFile,
    path: bytes,
    started_s: float,
    now: Callable[[], float],
    pause: Callable[[float], None],
) -> None:
    """Step until it is written, and what it displaced has been watched."""
    written_s: float | None = None
    ahead_s = 0.0  # of the clock, so that the last look is taken now
    while True:
        at_s = now()
        due_s = shared.step(at_s + ahead_s)
        if shared.blocked:
            hint = "nothing was changed; see what --dry-run shows and do it by hand"
            raise Refused(f"{_shown(path)}: {shared.blocked}", hint=hint)
        if due_s is None or at_s > started_s + WRITTEN_S:
            break
        if not shared.is_wanted and not ahead_s:
            written_s = at_s if written_s is None else written_s
            if at_s >= written_s + WATCHED_S:
                ahead_s = WATCH_S
                continue
            due_s = min(due_s, written_s + WATCHED_S)
        pause(max(0.0, due_s - ahead_s - at_s))
    if shared.is_wanted:
        raise Unavailable(
            f"{_shown(path)}: could not be written: {shared.last_error or 'it keeps changing'}",
            hint="try again when nothing writes to it",
        )


# -- showing ---------------------------------------------------------------------------------------


def as_diff(changes: Iterable[Change]) -> bytes:
    """A unified diff that `git apply` takes."""
    return b"".join(_diff_of(change) for change in changes)


def _diff_of(change: Change) -> bytes:
    name = _text(change.path)
    lines = difflib.unified_diff(
        _lines(change.before or b""),
        _lines(change.after),
        "/dev/null" if change.before is None else f"a/{name}",
        f"b/{name}",
    )
    text = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    return text.encode("utf-8", "surrogateescape")


def _lines(data: bytes) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", _text(data))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _shown(path: bytes) -> str:
    return os.fsdecode(path)
