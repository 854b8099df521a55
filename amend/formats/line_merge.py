"""Three-way merge of the files of a memory tree, line by line, as `SharedFile` needs it.

What counts is which lines there are, each under a key: in an index the kind and the name that it
lists; in a dictionary the abbreviation; anywhere else the line itself. Equal keys are told apart by
counting. Blank lines have no key: they belong to the line below them, or to the end of the file.

Where lines go: in the order of `onto`, and what is new from `theirs` after the line it follows
there. Where `theirs` moved lines, in the order of `theirs` instead, and what only `onto` has after
the line it follows there. Line endings, the final newline, a byte order mark and blank lines are
taken from `theirs` where it changed them.

Guarantees: nothing that `theirs` added or changed is missing, nothing is there twice that was not,
and merging again changes nothing. Not guaranteed: of two lines with one key in an index or a
dictionary, changed by both sides, only that of `theirs` is left.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from amend.core.aicontext import LISTS, Document, Line, LineKind
from amend.errors import DocumentInvalid
from amend.formats.aicontext import (
    majority_ending,
    parse_dictionary,
    parse_index,
    parse_note,
    split_ending,
    without_bom,
)

_Name = tuple[str, bytes]
_Key = tuple[_Name, int]


@dataclass(frozen=True, slots=True)
class _Item:
    """A line. `above`: the blank lines over it; `ending` is empty where the file ends without."""

    above: tuple[bytes, ...]
    body: bytes
    ending: bytes


@dataclass(frozen=True, slots=True)
class _File:
    """`items` in the order of the file; `tail`: the blank lines at its end, each with an ending.

    `is_ended`: whether the last line has an ending, None where there is no line.
    """

    items: Mapping[_Key, _Item]
    tail: tuple[bytes, ...]
    bom: bytes
    is_ended: bool | None


_EMPTY: _File = _File({}, (), b"", None)


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
    has_terms = all(map(_is_dictionary, versions))
    old, new, present = (_file(document, has_terms) for document in parsed)
    merged = _merged(old, new, present)
    if merged == present and tuple(merged.items) == tuple(present.items):
        return onto
    return _bytes(merged, _style(parsed[2], parsed[1]))


# -- reading ---------------------------------------------------------------------------------------


def _is_dictionary(data: bytes) -> bool:
    """Whether it has no line that would be something else in an index or a note."""
    return all(
        term.kind in (LineKind.TERM, LineKind.BLANK, LineKind.COMMENT)
        and listed.kind not in LISTS
        and entry.kind is not LineKind.ENTRY
        for term, listed, entry in zip(
            parse_dictionary(data).lines,
            parse_index(data).lines,
            parse_note(data).lines,
            strict=True,
        )
    )


def _file(document: Document, has_terms: bool) -> _File:
    bom, lines = without_bom(document.lines)
    counts: Counter[_Name] = Counter()
    items: dict[_Key, _Item] = {}
    above: list[bytes] = []
    for line in lines:
        is_ended = line.raw.endswith(b"\n")
        body, ending = split_ending(line.raw)
        if line.kind is LineKind.BLANK:
            above.append(line.raw if is_ended else body + b"\n")
            continue
        name = _name(line, body, has_terms)
        items[name, counts[name]] = _Item(tuple(above), body, ending if is_ended else b"")
        counts[name] += 1
        above.clear()
    return _File(items, tuple(above), bom, lines[-1].raw.endswith(b"\n") if lines else None)


def _name(line: Line, body: bytes, has_terms: bool) -> _Name:
    if line.kind in LISTS:
        return line.kind.value, line.name.encode()
    if has_terms and line.kind is LineKind.OTHER:
        return LineKind.TERM.value, body.partition(b":")[0].strip()
    return "", body


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
    order = _in_turn(_order(old, new, present, wanted))
    items = {
        key: _item(old.items.get(key), new.items.get(key), present.items.get(key)) for key in order
    }
    is_ended = new.is_ended
    if new.is_ended in (None, old.is_ended) and present.is_ended is not None:
        is_ended = present.is_ended
    return _File(
        items,
        new.tail if new.tail != old.tail else present.tail,
        new.bom if new.bom != old.bom else present.bom,
        is_ended,
    )


def _counts(file: _File) -> Counter[_Name]:
    return Counter(name for name, _ in file.items)


def _item(old: _Item | None, new: _Item | None, present: _Item | None) -> _Item:
    if new is None or present is None:
        item = new if present is None else present
        assert item is not None, "an item comes from one of the two"
        return item
    if old is None:
        return replace(new, ending=new.ending or present.ending)
    has_other_ending = old.ending and new.ending and old.ending != new.ending
    return _Item(
        new.above if new.above != old.above else present.above,
        new.body if new.body != old.body else present.body,
        new.ending if has_other_ending else present.ending,
    )


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
    """`order` with what only `others` has, between the two lines that it is between there."""
    known = frozenset(order)
    under: dict[_Key, list[_Key]] = {}
    over: dict[_Key, list[_Key]] = {}
    rest: list[_Key] = []
    above: _Key | None = None
    run: list[_Key] = []
    for key in (*others, None):
        if key is not None and key not in known:
            run.append(key)
            continue
        split = _split(run, above, key)
        if above is not None:
            under[above] = run[:split]
        if key is not None:
            over[key] = run[split:]
        elif above is None:
            rest = run
        above, run = key, []
    result: list[_Key] = []
    for key in order:
        result += (*over.get(key, ()), key, *under.get(key, ()))
    return result + rest


def _split(run: Sequence[_Key], above: _Key | None, below: _Key | None) -> int:
    """How many lines of a run stay at the line above; the others go to the line below.

    With something new between the two, a line stays with its kind: the first file is not put above
    a directory.
    """
    if above is None or below is None:
        return 0 if above is None else len(run)
    kinds = [kind for (kind, _), _ in run]
    (kind_above, _), _ = above
    (kind_below, _), _ = below
    like_above = next((at for at, kind in enumerate(kinds) if kind != kind_above), len(run))
    return like_above if kinds[like_above:][-1:] == [kind_below] else len(run)


def _in_turn(order: Sequence[_Key]) -> list[_Key]:
    """The order with equal names counted from the top, as they are when they are read again."""
    counts: Counter[_Name] = Counter()
    result: list[_Key] = []
    for name, _ in order:
        result.append((name, counts[name]))
        counts[name] += 1
    return result


# -- writing ---------------------------------------------------------------------------------------


def _style(*documents: Document) -> bytes:
    """The line ending of the first of them that has any."""
    for document in documents:
        if any(line.raw.endswith(b"\n") for line in document.lines):
            return majority_ending(document.lines)
    return b"\n"


def _bytes(file: _File, style: bytes) -> bytes:
    raws: list[bytes] = []
    for item in file.items.values():
        raws += item.above
        raws.append(item.body + (item.ending or style))
    raws += file.tail
    if raws and file.is_ended is False:
        raws[-1] = split_ending(raws[-1])[0]
    return file.bom + b"".join(raws)
