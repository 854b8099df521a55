"""What may be said of a memory tree, given how it looked when amend last settled, how a person left
it, and how it looks now that amend has settled again.

The oracle knows nothing of plans, records or moves: it compares three snapshots of the disk. What
it claims of renames is only what is certain: a note whose content is unique among those that left
and among those that came. Words that begin with `BY_HAND` are a person's; any other description is
amend's.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from amend.core.aicontext import LISTS, Child, Line, LineKind
from amend.core.index_sync import derived_description
from amend.formats.aicontext import can_list, parse_index, purpose_of, title_of

INDEX: Final = "index.aicontext"
DICTIONARY: Final = "dict.aicontext"
SUFFIX: Final = ".aicontext"
BY_HAND: Final = "by hand "

Listed = tuple[LineKind, str]


# -- snapshots -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Snapshot:
    """Paths are below the tree, "" is its root, which is among the directories if it is there."""

    files: Mapping[str, bytes]
    directories: frozenset[str]

    @classmethod
    def of(cls, tree: Path) -> "Snapshot":
        files: dict[str, bytes] = {}
        directories: set[str] = set()
        for where, names, file_names in os.walk(tree):
            path = "" if where == str(tree) else os.path.relpath(where, tree)
            directories.add(path)
            names.sort()
            files |= {join(path, name): Path(where, name).read_bytes() for name in file_names}
        return cls(files, frozenset(directories))

    @cached_property
    def notes(self) -> dict[str, bytes]:
        return {
            path: data
            for path, data in self.files.items()
            if path.endswith(SUFFIX)
            and name_of(path) not in (INDEX, DICTIONARY)
            and not any(is_hidden(part) for part in path.split("/"))
        }

    def lines(self, directory: str) -> tuple[Line, ...] | None:
        """Of its index."""
        data = self.files.get(join(directory, INDEX))
        return None if data is None else parse_index(data).lines

    def listing(self, directory: str) -> list[Line]:
        return [line for line in self.lines(directory) or () if line.kind in LISTS]

    @cached_property
    def is_tree(self) -> bool:
        """Whether its top shows that it is one."""
        tops = [path for path in self.files if path.count("/") <= 1]
        tops = [p for p in tops if p.endswith(SUFFIX) and not any(map(is_hidden, p.split("/")))]
        return any(path == INDEX or name_of(path) != DICTIONARY for path in tops)

    @cached_property
    def counting(self) -> frozenset[str]:
        """The directories that shall have an index."""
        counts: set[str] = set()
        for path in sorted(self.directories, key=len, reverse=True):
            if any(is_hidden(part) for part in path.split("/") if part):
                continue
            names = [name_of(each) for each in self.files if parent_of(each) == path]
            names = [name for name in names if not is_hidden(name)]
            inside = [d for d in self.directories if d and parent_of(d) == path]
            inside = [d for d in inside if not is_hidden(name_of(d))]
            own = [name for name in names if name.endswith(SUFFIX)]
            is_known = own and own != [DICTIONARY]
            others = [name for name in names if not name.endswith(SUFFIX)]
            if is_known or any(d in counts for d in inside) or not (others or inside):
                counts.add(path)
        return frozenset(counts)

    def children(self, directory: str) -> set[Listed]:
        """What its index shall list, as far as a line can."""
        here = {
            (LineKind.DIRECTORY, name_of(path))
            for path in self.counting
            if path and parent_of(path) == directory
        }
        here |= {
            (LineKind.FILE, name_of(path)) for path in self.notes if parent_of(path) == directory
        }
        if join(directory, DICTIONARY) in self.files:
            here.add((LineKind.DICTIONARY, DICTIONARY))
        return {each for each in here if can_list(*each) and "|" not in each[1]}

    def derived(self, directory: str, listed: Listed) -> str:
        """What amend shall call it."""
        kind, name = listed
        path = join(directory, name)
        title = ""
        if kind is LineKind.FILE:
            title = title_of(self.notes[path])
        elif kind is LineKind.DIRECTORY and join(path, INDEX) in self.files:
            title = purpose_of(parse_index(self.files[join(path, INDEX)]))
        return derived_description(Child(kind, name, title))


def is_hidden(name: str) -> bool:
    return name.startswith((".", "#")) or name.endswith("~")


def join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def parent_of(path: str) -> str:
    return path.rpartition("/")[0]


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def listed_by(line: Line) -> Listed:
    return line.kind, line.name


# -- renames ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moves:
    """Between two snapshots. `certain`: new path → old path of notes; `directories` likewise, where
    there is one answer; `doubtful`: new directories for which there are several."""

    certain: Mapping[str, str]
    lost: Mapping[str, bytes]
    directories: Mapping[str, str]
    doubtful: frozenset[str]

    @classmethod
    def between(cls, then: Snapshot, now: Snapshot) -> "Moves":
        lost = {path: data for path, data in then.notes.items() if path not in now.notes}
        came = {path: data for path, data in now.notes.items() if path not in then.notes}
        certain = _certain(lost, came)
        indexes = _certain(_indexes_only_in(then, now), _indexes_only_in(now, then))
        went = {
            pair for new, old in [*certain.items(), *indexes.items()] for pair in _levels(old, new)
        }
        went = {
            (old, new)
            for old, new in went
            if old not in now.directories and new not in then.directories
        }
        olds, news = Counter(old for old, _ in went), Counter(new for _, new in went)
        clear = {new: old for old, new in went if olds[old] == 1 and news[new] == 1}
        # Equal contents and titles may tell amend of more than what is certain.
        unclear = {d for d in now.directories - then.directories if d not in clear}
        return cls(certain, lost, clear, frozenset(unclear))


def _certain(lost: Mapping[str, bytes], came: Mapping[str, bytes]) -> dict[str, str]:
    """New path → old path, where just one on either side has that content."""
    of_lost, of_came = Counter(lost.values()), Counter(came.values())
    places = {data: path for path, data in came.items() if of_came[data] == 1}
    return {
        places[data]: path for path, data in lost.items() if of_lost[data] == 1 and data in places
    }


def _indexes_only_in(snapshot: Snapshot, other: Snapshot) -> dict[str, bytes]:
    """Those of directories that are not in the other."""
    return {
        path: data
        for path, data in snapshot.files.items()
        if name_of(path) == INDEX and parent_of(path) not in other.directories
    }


def _levels(old: str, new: str) -> Iterable[tuple[str, str]]:
    """The directories that went where, if that note went with its directory."""
    old_parts, new_parts = old.split("/")[:-1], new.split("/")[:-1]
    while old_parts and new_parts:
        yield "/".join(old_parts), "/".join(new_parts)
        if old_parts.pop() != new_parts.pop():
            return


# -- the oracle ------------------------------------------------------------------------------------


@dataclass
class Oracle:
    """What is known from before: `settled` is the tree when amend last looked, None if that says
    nothing; `seen` what ever was in a directory then, `maybe_seen` what perhaps was; `adopted` the
    words of amend's that it may take for a person's by now, of directories that came from nobody
    knows where."""

    settled: Snapshot | None = None
    adopted: set[str] = field(default_factory=set)
    seen: set[tuple[str, str]] = field(default_factory=set)
    maybe_seen: set[tuple[str, str]] = field(default_factory=set)

    def check(self, left: Snapshot, now: Snapshot, *, was_away: bool) -> None:
        """`left`: as it was when amend was told to settle; `now`: after that. `was_away`: amend has
        been started again in between, and remembers notes but not what indexes said."""
        indexes = {path for path in (*left.files, *now.files) if name_of(path) == INDEX}
        others_left = {path: d for path, d in left.files.items() if path not in indexes}
        others_now = {path: d for path, d in now.files.items() if path not in indexes}
        assert others_now == others_left, "a note or another file is not as it was written"
        assert now.directories == left.directories
        if not left.is_tree:
            assert now == left, "something was written where there is no tree"
            self.settled = None
            return
        moves = Moves.between(self.settled or left, left)
        self._inherit(moves)
        for directory in left.counting:
            self._check_index(directory, left, now, moves, was_away)
        for path in indexes:
            if parent_of(path) not in left.counting:
                assert now.files.get(path) == left.files.get(path), f"{path} is none of amend's"
        self.settled = now
        self.seen |= {(d, name) for d in now.counting for _, name in now.children(d)}

    def check_loosely(self, left: Snapshot, now: Snapshot) -> None:
        """As `check`, of a tree that amend may have looked at any number of times since."""
        assert now.notes == left.notes, "a note is not as it was written"
        self.settled = now if now.is_tree else None
        if not now.is_tree:
            return
        for directory in now.counting:
            here = now.children(directory)
            there = {listed_by(line) for line in now.listing(directory)}
            before = {listed_by(line) for line in left.listing(directory)}
            assert here <= there <= here | before, f"{directory or '(root)'}: wrong lines"
            known = {each for each in there - here if (directory, each[1]) in self.seen}
            assert not known, f"{directory or '(root)'}: lists what is gone"
        self.seen |= {(d, name) for d in now.counting for _, name in now.children(d)}

    def _inherit(self, moves: Moves) -> None:
        for new, old in moves.directories.items():
            self.seen |= {(new, name) for directory, name in self.seen if directory == old}
            self.maybe_seen |= {(new, n) for directory, n in self.maybe_seen if directory == old}
        for new in moves.doubtful:
            self.maybe_seen |= {(new, name) for _, name in self.seen | self.maybe_seen}

    def _check_index(
        self, directory: str, left: Snapshot, now: Snapshot, moves: Moves, was_away: bool
    ) -> None:
        here = left.children(directory)
        before, after = left.listing(directory), now.listing(directory)
        absent = {listed_by(line) for line in before} - here
        stays = {each for each in absent if (directory, each[1]) not in self.seen}
        doubtful = {each for each in stays if (directory, each[1]) in self.maybe_seen}
        there = {listed_by(line) for line in after} - doubtful
        where = f"{directory or '(root)'}: "
        wanted = here | (stays - doubtful)
        assert there == wanted, where + f"lists {there!r}, not {wanted!r}"
        self._adopt(directory, left, now, moves)
        renamed = self._renamed_here(directory, left, moves)
        self._check_texts(directory, left, now, moves, was_away=was_away)
        self._check_kept(where, before, after, renamed)
        rest_before = [line.raw.strip() for line in left.lines(directory) or () if _is_rest(line)]
        rest_after = [line.raw.strip() for line in now.lines(directory) or () if _is_rest(line)]
        if left.lines(directory) is not None:
            assert rest_after == rest_before, where + "comments or unknown lines were changed"
            in_step = {listed_by(line) for line in before} == here | stays and all(
                line.text == now.derived(directory, listed_by(line))
                for line in before
                if _is_ours(line) and listed_by(line) in here
            )
            same = now.files[join(directory, INDEX)] == left.files[join(directory, INDEX)]
            is_clear = not doubtful and not any(line.text in self.adopted for line in before)
            assert same or not in_step or not is_clear, where + "written without need"

    def _adopt(self, directory: str, left: Snapshot, now: Snapshot, moves: Moves) -> None:
        if directory not in moves.doubtful:
            return
        here = left.children(directory)
        for line in left.listing(directory):
            listed = listed_by(line)
            if _is_ours(line) and listed in here and line.text != now.derived(directory, listed):
                self.adopted.add(line.text)

    def _renamed_here(self, directory: str, left: Snapshot, moves: Moves) -> dict[Listed, Listed]:
        """Old → new, for what has a line under its old name in this very index."""
        listed = {listed_by(line) for line in left.listing(directory)}
        found: dict[Listed, Listed] = {}
        for new, old in moves.certain.items():
            was, now = (LineKind.FILE, name_of(old)), (LineKind.FILE, name_of(new))
            came = parent_of(new) == directory
            stayed = parent_of(old) in (directory, moves.directories.get(directory))
            if came and stayed and was in listed and was not in left.children(directory):
                found[was] = now
        return {was: now for was, now in found.items() if now not in listed and can_list(*now)}

    def _check_texts(
        self, directory: str, left: Snapshot, now: Snapshot, moves: Moves, *, was_away: bool
    ) -> None:
        """Of new lines, and of lines that amend described."""
        before = {listed_by(line) for line in left.listing(directory)}
        here = left.children(directory)
        counts = Counter(listed_by(line) for line in now.listing(directory))
        for line in now.listing(directory):
            listed = listed_by(line)
            if listed not in here or counts[listed] > 1:
                continue
            where = f"{join(directory, line.name)}: described as {line.text!r}, "
            derived = now.derived(directory, listed)
            if listed in before:
                if _is_ours(line) and line.text not in self.adopted:
                    assert line.text == derived, where + f"should be {derived!r}"
                continue
            wanted = self._wanted(directory, listed, left, moves, was_away=was_away)
            if wanted is not None:
                assert line.text in wanted, where + f"should be one of {wanted!r}"
            elif line.text != derived and line.text not in self.adopted:
                assert self._may_be_taken(line, left, now, directory, moves), where + "from where?"

    def _wanted(
        self, directory: str, listed: Listed, left: Snapshot, moves: Moves, *, was_away: bool
    ) -> set[str] | None:
        """The descriptions of which one must be there; None: no claim."""
        kind, name = listed
        path = join(directory, name)
        if kind is LineKind.DIRECTORY:
            old = self._whole_directory(path, left, moves)
        else:
            old = moves.certain.get(path)
        if old is None or self.settled is None:
            return None
        was = (kind, name_of(old))
        places = [left.listing(parent_of(old))]
        if moves.directories.get(directory) == parent_of(old):
            places.append(left.listing(directory))
        if parent_of(old) not in left.directories and not was_away:
            places.append(self.settled.listing(parent_of(old)))
        for lines in places:
            texts = [line.text for line in lines if listed_by(line) == was]
            if len(texts) == 1 and texts[0].startswith(BY_HAND):
                return {texts[0]}
            if texts:
                return None
        return None

    def _whole_directory(self, new: str, left: Snapshot, moves: Moves) -> str | None:
        """The directory that has become `new` with all its notes, none added."""
        old = moves.directories.get(new)
        if old is None or self.settled is None:
            return None
        notes = {p.removeprefix(new) for p in left.notes if p.startswith(new + "/")}
        were = {p.removeprefix(old) for p in self.settled.notes if p.startswith(old + "/")}
        is_whole = notes == were and all(moves.certain.get(new + p) == old + p for p in notes)
        return old if is_whole else None

    def _may_be_taken(
        self, line: Line, left: Snapshot, now: Snapshot, directory: str, moves: Moves
    ) -> bool:
        """Whether a person's words may stand there: those of something that has left."""
        known = [left, self.settled] if self.settled is not None else [left]
        said = {
            each.text
            for snapshot in known
            for path in snapshot.directories
            for each in snapshot.listing(path)
        }
        return not _is_ours(line) and line.text in said

    def _check_kept(
        self,
        where: str,
        before: list[Line],
        after: list[Line],
        renamed: Mapping[Listed, Listed],
    ) -> None:
        """Lines that are still good keep their bytes and their order."""
        there = {listed_by(line) for line in after}
        kept = [renamed.get(listed_by(line), listed_by(line)) for line in before]
        kept = [listed for listed in kept if listed in there]
        order = [listed_by(line) for line in after if listed_by(line) in set(kept)]
        assert order == kept, where + "lines were moved, doubled or lost"
        raws = Counter(line.raw.strip() for line in after)
        for line in before:
            if listed_by(line) in there and not _is_ours(line):
                assert raws[line.raw.strip()] > 0, where + f"a person's line is gone: {line.raw!r}"
        for was, new in renamed.items():
            said = {line.text for line in before if listed_by(line) == was}
            says = {line.text for line in after if listed_by(line) == new}
            by_hand = {text for text in said if text.startswith(BY_HAND)}
            assert by_hand <= says, where + f"{new[1]} says {says!r}, {was[1]} said {said!r}"


def _is_rest(line: Line) -> bool:
    return line.kind not in LISTS and line.kind is not LineKind.BLANK


def _is_ours(line: Line) -> bool:
    return bool(line.text) and not line.text.startswith(BY_HAND)
