"""Three-way merge of the files of a memory tree, line by line, as `SharedFile` needs it.

What counts is which lines there are, each under a key: for a line of an index the kind and the name
that it lists; for a term of a dictionary (`ABBR: phrase`) the abbreviation; for any other the line
itself. Equal keys are told apart by counting. Blank lines have no key: they belong to the two lines
that they are between.

Where lines go: in the order of `onto`, and what is new from `theirs` between the lines that it is
between there. Where `theirs` moved lines, in the order of `theirs` instead, and what only `onto`
has between the lines that it was between. Line endings, the final newline, a byte order mark and
blank lines are taken from `theirs` where it changed them.

Guarantees: nothing that `theirs` added or changed is missing, nothing is there twice that was not,
and merging again changes nothing. Not guaranteed: of two index lines or terms with one key, added
or changed by both sides, only that of `theirs` is left.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from amend.core.aicontext import LISTS, Document, Line, LineKind
from amend.errors import DocumentInvalid
from amend.formats.aicontext import (
    BOM,
    majority_ending,
    parse_index,
    split_ending,
    without_bom,
    without_marks,
)

# Capitals and digits only, as the seed's terms: another word before a colon may begin a sentence,
# and both sides' sentences are to be kept. What a key is depends on the line alone, or merges of
# the same changes into different files would not agree.
_TERM: Final = re.compile(rb"([A-Z][A-Z0-9]+)[ \t]*:")

_Name = tuple[str, bytes]
_Key = tuple[_Name, int]


@dataclass(frozen=True, slots=True)
class _Item:
    """A line, with the blank lines above it; `ending` is empty where the file ends without."""

    above: tuple[bytes, ...]
    body: bytes
    ending: bytes


# What stands below the last line, and has the blank lines at the end of the file.
_END: Final[_Key] = (("end", b""), 0)


@dataclass(frozen=True, slots=True)
class _File:
    """`items` in the order of the file, with their blank lines; `_END` is the last.

    `is_ended`: whether the last line has an ending; None: there is no line.
    """

    items: Mapping[_Key, _Item]
    bom: bytes
    is_ended: bool | None


def merge(base: bytes | None, theirs: bytes, onto: bytes) -> bytes:
    """`onto` with every change from `base` to `theirs` made, `onto` itself when there is none.

    `base` None: an empty file. Raises `DocumentInvalid` where one of them is to be left alone.
    """
    versions = (b"" if base is None else base, theirs, onto)
    parsed = [parse_index(version) for version in versions]
    for document in parsed:
        if document.problem is not None:
            raise DocumentInvalid(
                f"the file {document.problem}", hint="mend the file; nothing was changed"
            )
    if theirs in (versions[0], onto):
        return onto
    old, new, present = map(_file, parsed)
    merged = _merged(old, new, present)
    if merged == present and tuple(merged.items) == tuple(present.items):
        return onto
    return _bytes(merged, _style(parsed[2], parsed[1]))


# -- reading ---------------------------------------------------------------------------------------


def _file(document: Document) -> _File:
    bom, lines = without_bom(document.lines)
    if lines and not lines[-1].raw.strip(b"\r"):
        lines = lines[:-1]  # half an ending is no line
    counts: Counter[_Name] = Counter()
    items: dict[_Key, _Item] = {}
    above: list[bytes] = []
    for line in lines:
        is_ended = line.raw.endswith(b"\n")
        body, ending = split_ending(line.raw)
        if line.kind is LineKind.BLANK:
            above.append(line.raw if is_ended else body + b"\n")
            continue
        name = _name(line, body)
        items[name, counts[name]] = _Item(tuple(above), body, ending if is_ended else b"")
        counts[name] += 1
        above.clear()
    items[_END] = _Item(tuple(above), b"", b"")
    return _File(items, bom, lines[-1].raw.endswith(b"\n") if lines else None)


def _name(line: Line, body: bytes) -> _Name:
    if line.kind in LISTS:
        return line.kind.value, line.name.encode()
    body = without_marks(body)
    term = _TERM.match(body)
    return (LineKind.TERM.value, term[1]) if term is not None else ("", body)


# -- merging ---------------------------------------------------------------------------------------


def _merged(old: _File, new: _File, present: _File) -> _File:
    changed = {
        name
        for (name, at), item in new.items.items()
        if (was := old.items.get((name, at))) is None or was.body != item.body
    }
    before, after = _counts(old), _counts(new)
    wanted = {key for key in new.items if key[0] in changed}
    wanted |= {
        (name, at) for name, at in present.items if after[name] >= before[name] or at < after[name]
    }
    order = _order(old, new, present, wanted)
    blanks = _Blanks(_aboves(old), _aboves(new), _aboves(present))
    items: dict[_Key, _Item] = {}
    above: _Key | None = None
    for key in order:
        item = _item(old.items.get(key), new.items.get(key), present.items.get(key))
        items[key] = replace(item, above=blanks.between(above, key))
        above = key
    is_theirs = new.is_ended is not None and (
        new.is_ended != old.is_ended or present.is_ended is None
    )
    return _File(
        items,
        new.bom if new.bom != old.bom else present.bom,
        new.is_ended if is_theirs else present.is_ended,
    )


def _counts(file: _File) -> Counter[_Name]:
    return Counter(name for name, _ in file.items)


def _item(old: _Item | None, new: _Item | None, present: _Item | None) -> _Item:
    """The line that becomes of one in up to three files."""
    if new is None or present is None:
        item = new if present is None else present
        assert item is not None, "a line comes from one of the two"
        return item
    if old is None:
        return replace(new, ending=new.ending or present.ending)
    if present.ending:
        has_new_ending = old.ending and new.ending and old.ending != new.ending
        ending = new.ending if has_new_ending else present.ending
    else:
        ending = new.ending if new.ending != old.ending else b""
    body = new.body if new.body != old.body else present.body
    return replace(present, body=body, ending=ending)


_Aboves = Mapping[_Key, tuple[_Key | None, tuple[bytes, ...]]]


def _aboves(file: _File) -> _Aboves:
    """For each line which one is above it, None for the first, and the blank ones between them."""
    lines = (None, *file.items)
    return {
        key: (above, item.above)
        for above, (key, item) in zip(lines, file.items.items(), strict=False)
    }


@dataclass(frozen=True, slots=True)
class _Blanks:
    """The blank lines between two: whose they are depends on who put the one under the other."""

    old: _Aboves
    new: _Aboves
    present: _Aboves

    def between(self, above: _Key | None, key: _Key) -> tuple[bytes, ...]:
        was, theirs, ours = (f.get(key) for f in (self.old, self.new, self.present))
        if theirs and was and theirs[0] == was[0] and theirs != was:
            return theirs[1]
        is_theirs = theirs is not None and theirs[0] == above
        if ours is not None and ours[0] == above:
            is_new = is_theirs and (was is None or was[0] != above)
            return theirs[1] if theirs is not None and is_new else ours[1]
        if is_theirs and theirs is not None:
            return theirs[1]
        if above is not None and above[0][0] == key[0][0] in LISTS:
            return ()  # each was the first of its kind, and had the blank line for that
        own = ours or theirs
        return own[1] if own is not None else ()


def _order(old: _File, new: _File, present: _File, wanted: Collection[_Key]) -> list[_Key]:
    theirs = [key for key in new.items if key in wanted]
    ours = [key for key in present.items if key in wanted]
    if _is_order_of_theirs(old, new, present, wanted):
        return _woven(theirs, ours)
    return _woven(ours, theirs)


def _is_order_of_theirs(old: _File, new: _File, present: _File, wanted: Collection[_Key]) -> bool:
    """Whether `new` moved lines, or both added the same ones in another order."""
    if _common(old, new) != _common(new, old):
        return True
    in_new = [key for key in _common(new, present) if key in wanted]
    in_present = [key for key in _common(present, new) if key in wanted]
    if in_new == in_present:
        return False
    in_old = [key for key in _common(old, present) if key in new.items]
    return in_old == [key for key in _common(present, old) if key in new.items]


def _common(file: _File, other: _File) -> list[_Key]:
    return [key for key in file.items if key in other.items]


def _woven(order: Sequence[_Key], others: Sequence[_Key]) -> list[_Key]:
    """`order` with what only `others` has, between the two lines that it is between there.

    Equal names stay counted from the top, as they are when they are read again: of those, `others`
    has the higher numbers alone, and such a line is put no higher than the one before it.
    """
    places = {key: at for at, key in enumerate(order)}
    ranks: dict[_Key, tuple[int, bool]] = {}  # before which of `order`, and whether close to that
    above: _Key | None = None
    run: list[_Key] = []
    for key in others:
        if key not in places:
            run.append(key)
            continue
        split = _split(run, above, key)
        upper = (0 if above is None else places[above] + 1, False)
        for at, (name, count) in enumerate(run):
            rank = upper if at < split else (places[key], True)
            previous = name, count - 1
            if previous in places:
                rank = max(rank, (places[previous] + 1, False))
            ranks[name, count] = max(rank, ranks.get(previous, rank))
        above, run = key, []
    assert not run, "the end is in both"
    given = [((at, True), True, key) for key, at in places.items()]
    added = [(rank, False, key) for key, rank in ranks.items()]
    return [key for *_, key in sorted(given + added, key=lambda line: line[:2])]


def _split(run: Sequence[_Key], above: _Key | None, below: _Key) -> int:
    """How many lines of a run stay with the line above; the others go with the line below.

    Where something else came between the two, a line goes with its kind: the first file is not put
    above a directory.
    """
    if above is None:
        return 0
    (kind_above, _), _ = above
    kinds = [kind for (kind, _), _ in run]
    like_above = next((at for at, kind in enumerate(kinds) if kind != kind_above), len(run))
    (kind_below, _), _ = below
    return like_above if kinds[like_above:][-1:] == [kind_below] else len(run)


# -- writing ---------------------------------------------------------------------------------------


def _style(*documents: Document) -> bytes:
    """The line ending of the first of them that has any."""
    for document in documents:
        if any(line.raw.endswith(b"\n") for line in document.lines):
            return majority_ending(document.lines)
    return b"\n"


def _bytes(file: _File, style: bytes) -> bytes:
    raws: list[bytes] = []
    for key, item in file.items.items():
        raws += item.above
        if key != _END:
            raws.append(item.body + (item.ending or style))
    if raws and file.is_ended is False:
        # An empty line without an ending would be none.
        raws[-1] = split_ending(raws[-1])[0] or raws[-1]
    data = b"".join(raws)
    # A mark that begins the first line would be taken for the file's.
    return (file.bom or (BOM if data.startswith(BOM) else b"")) + data
