"""Settings files of coding agents, rewritten so that nothing of anybody's is lost.

A person's settings may be a symlink to where they keep their dotfiles: the link stays, and what it
leads to is replaced in one step, in its own directory, with its mode. In a project, a link that
leads out of it is refused, since the project may be somebody else's.

Guarantees: the file is complete, old or new, at every moment; what was not read is not overwritten:
a file that changed in between is read again and edited anew. What was there before amend's hooks
came is kept beside it as `<name>.amend-backup`, the very file, until they go again without a trace.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from amend.edge.files.beneath import DIRECTORY_FLAGS
from amend.edge.files.exchange import Changed, FileDoor, Present
from amend.edge.files.straight import make_directories
from amend.edge.files.syscalls import rename_unless_taken
from amend.errors import AmendError, Conflict, DocumentInvalid, Refused, Unavailable, reason_of

BACKUP: Final = ".amend-backup"

# Whoever writes a settings file five times in a row while somebody waits is no person.
_TRIES: Final = 5

Plan = Callable[[bytes | None], bytes | None]
"""From what is in the file (None: there is none) to what is to be there (None: nothing)."""


@dataclass(frozen=True, slots=True)
class Place:
    """A settings file. `shown`: as the agent knows it; `root`/`path`: where it really is."""

    shown: str
    root: str
    path: str

    @property
    def real(self) -> str:
        return os.path.join(self.root, self.path)

    @property
    def backup(self) -> str:
        return self.real + BACKUP

    @property
    def is_link(self) -> bool:
        return os.path.normpath(self.shown) != os.path.normpath(self.real)


def users_place(path: str) -> Place:
    real = os.path.realpath(path)
    return Place(path, os.path.dirname(real), os.path.basename(real))


def projects_place(path: str, root: str) -> Place:
    """Raises `Refused` where a link leads out of the project."""
    real, real_root = os.path.realpath(path), os.path.realpath(root)
    if not real.startswith(os.path.join(real_root, "")):
        raise Refused(
            f"{path} leads to {real}, outside of {root}",
            hint="replace the link by a file, or install for yourself: --user",
        )
    return Place(path, real_root, os.path.relpath(real, real_root))


def read(place: Place) -> bytes | None:
    """What is there; None: nothing. Raises `Refused` and `Unavailable`."""
    with _told(place):
        return _read_present(_door(place), place).data


def planned(place: Place, plan: Plan) -> tuple[bytes | None, bytes | None]:
    """What is there, and what `plan` would make of it. Raises what `rewrite` does."""
    before = read(place)
    with _told(place):
        return before, plan(before)


def read_backup(place: Place) -> bytes | None:
    """None also where it cannot be read: it is of no use then."""
    try:
        return read(users_place(place.backup))
    except AmendError:
        return None


def rewrite(place: Place, plan: Plan, *, keeps: bool) -> bool:
    """Whether anything was written. `keeps`: what is replaced becomes the backup.

    Raises `Refused`, `Unavailable` and `Conflict`, and what `plan` raises; nothing is changed then.
    """
    with _told(place):
        door = _door(place)
        for _ in range(_TRIES):
            present = _read_present(door, place)
            if plan(present.data) == present.data:
                return False
            if present.data is None:
                _make_directory(place)
            _check(door)
            _forget_leftovers(door)
            try:
                _write(door, place, present, plan, keeps=keeps)
                return True
            except Changed:
                continue
    raise Conflict(
        f"{place.shown} keeps changing; nothing was written", hint="try again when it rests"
    )


def forget_backup(place: Place) -> None:
    with suppress(OSError):
        os.unlink(place.backup)


def remove_empty_directory(place: Place) -> None:
    """The agent's directory, where there is nothing in it."""
    with suppress(OSError):
        os.rmdir(os.path.dirname(place.real))


@contextmanager
def _told(place: Place) -> Iterator[None]:
    """Errors of the file get its name, and say what to do."""
    try:
        yield
    except DocumentInvalid as error:
        raise DocumentInvalid(f"{place.shown}: {error.message}", hint=error.hint) from error
    except Refused as error:
        if error.hint:
            raise
        raise Refused(
            f"{place.shown}: {error.message}; nothing was changed",
            hint="`--dry-run` shows what to change by hand",
        ) from error
    except OSError as error:
        raise Unavailable(
            f"{place.shown}: {reason_of(error)}",
            hint="it must be a file of yours, and its directory too",
        ) from error


def _door(place: Place) -> FileDoor:
    return FileDoor(os.fsencode(place.root), os.fsencode(place.path), None)


def _read_present(door: FileDoor, place: Place) -> Present:
    for _ in range(_TRIES):
        with suppress(Changed):
            return door.read()
    raise Conflict(f"{place.shown} changes while it is read", hint="try again when it rests")


def _check(door: FileDoor) -> None:
    reason = door.why_not_writable()
    if reason is not None:
        raise Refused(reason)


def _forget_leftovers(door: FileDoor) -> None:
    """Of an amend that was killed, where the file itself says all that they say."""
    for held in door.leftovers():
        if held.knows(held.read()):
            held.release(merged=True)
        else:
            held.close()


def _write(door: FileDoor, place: Place, present: Present, plan: Plan, *, keeps: bool) -> None:
    """Raises `Changed` where the file is not what was read; then it is as whoever wrote it."""
    new = plan(present.data)
    if new is None:
        _remove(place, present)
        return
    staged = door.stage(present, new)
    try:
        if door.read() != present:
            raise Changed
        if present.data is None:
            door.create(staged)
            return
        held, _ = door.exchange(staged)
    finally:
        door.discard(staged)
    displaced = os.path.join(os.path.dirname(place.real), os.fsdecode(staged.name))
    late = held.read()
    if late == present.data and not keeps:
        held.release(merged=True)
        return
    held.close()
    if late != present.data:
        _put_right(door, place, plan, ours=new, late=late, displaced=displaced)
    if keeps:
        os.rename(displaced, place.backup)
    else:
        os.unlink(displaced)


def _put_right(
    door: FileDoor, place: Place, plan: Plan, *, ours: bytes, late: bytes, displaced: str
) -> None:
    """Somebody wrote between the last look and the exchange: the file becomes what `plan` makes of
    theirs. Raises `Conflict`, and theirs is kept, where that cannot be."""
    try:
        present = door.read()
        if present.data != ours:
            raise Changed
        _write(door, place, present, lambda _: plan(late), keeps=False)
    except (Changed, AmendError, OSError) as error:
        raise Conflict(
            f"{place.shown} was written by another program at the same moment; what that wrote is "
            f"kept in {displaced}",
            hint="compare the two, and put back what is missing",
        ) from error


def _make_directory(place: Place) -> None:
    parent = os.path.dirname(place.path)
    if parent:
        make_directories(os.fsencode(place.root), os.fsencode(parent))
    else:
        os.makedirs(place.root, exist_ok=True)


def _remove(place: Place, present: Present) -> None:
    """Out of its name first, so that what is removed is what was read."""
    directory, name = os.path.split(os.fsencode(place.real))
    aside = b".%s.amend-gone-%d" % (name, os.getpid())
    fd = os.open(directory, DIRECTORY_FLAGS)
    try:
        os.rename(name, aside, src_dir_fd=fd, dst_dir_fd=fd)
        with open(os.path.join(directory, aside), "rb") as stream:
            is_it = stream.read() == present.data
        if is_it:
            os.unlink(aside, dir_fd=fd)
            return
        rename_unless_taken(fd, aside, name)
    finally:
        os.close(fd)
    raise Changed
