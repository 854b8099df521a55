"""`.agent-cache.json` (AMEN): what its entries say, and edits that touch nothing else.

Guarantees: one broken entry never hides the others; an entry amend cannot understand is kept, with
the rules it breaks; marking and then unmarking gives the first bytes back. Raises `DocumentInvalid`
for a document that is no JSON object, and nothing else, whatever the bytes.

Source: the AMEN README (seeds/amen.txt); its template and example load unchanged.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import orjson

from amend.core.model import EntryName, Kind, Problem, Source
from amend.core.policy import ClearMark, Mark, Remove, SetMark
from amend.core.sources import are_plain, parse_spec
from amend.errors import DocumentInvalid
from amend.formats.json_text import (
    Member,
    Object,
    RepeatedKeys,
    Splice,
    Style,
    decode,
    edit_object,
    encode,
    escape_surrogates,
    line_indent,
    quote,
    render,
    render_members,
    splice,
    style_of,
    walk,
)
from amend.formats.times import parse_time, rfc3339

FILE_NAME: Final = b".agent-cache.json"

TEMPLATE: Final = b'{\n  "_meta": { "maxAgeDays": 7 },\n  "topics": {},\n  "patterns": {}\n}\n'

# The seed's defaults: README (7) and CLAUDE.md (30).
MAX_AGE_DAYS: Final = 7.0
PRUNE_AFTER_DAYS: Final = 30.0

SECTIONS: Final = {Kind.TOPIC: "topics", Kind.PATTERN: "patterns"}
_WALKED: Final = frozenset(("topics", "patterns", "_meta"))

# A rule quotes what broke it, so that a person finds it; two lines of a terminal are enough.
_SHOWN_CHARS_MAX: Final = 160


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One topic or pattern. What a list of sources or a copy of the text would cost is paid by who
    asks for it: a file is read far more often than an entry in it is new."""

    name: EntryName
    summary: str
    files: tuple[str, ...]
    ts: datetime | None
    problems: tuple[Problem, ...]
    stale: Mark | None
    has_stale_field: bool
    value: Any  # decoded, without amend's `stale` field; not to be changed

    @property
    def payload(self) -> bytes:
        """Its value as compact JSON without `stale`; equal payloads are the same finding."""
        return payload_of(self.value)

    @property
    def sources(self) -> tuple[Source, ...]:
        """What `files` names, each once, without those that are no specs (see `problems`)."""
        sources: dict[Source, None] = {}
        for spec in self.files:
            try:
                sources[parse_spec(spec)] = None
            except ValueError:
                continue
        return tuple(sources)


@dataclass(frozen=True, slots=True)
class CacheDocument:
    data: bytes
    text: str
    top: Object
    entries: Mapping[EntryName, CacheEntry]
    max_age_days: float
    prune_after_days: float
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Put:
    """Set an entry's value; with `mark`, marked from the start."""

    name: EntryName
    payload: bytes
    mark: Mark | None = None


Edit = SetMark | ClearMark | Remove | Put


# -- reading -----------------------------------------------------------------------------------


def parse(data: bytes) -> CacheDocument:
    """The document. Raises `DocumentInvalid` with line and column when it is no JSON object."""
    text = decode(data)
    top = walk(text, _WALKED)
    problems = [Problem(_pointer(key), "stands twice") for key in top.repeated() if key in _WALKED]
    entries: dict[EntryName, CacheEntry] = {}
    for kind, section in SECTIONS.items():
        member = top.get(section)
        if member is None:
            continue
        if not isinstance(member.value, Object):
            problems.append(Problem(f"/{section}", "must be an object"))
            continue
        for item in member.value.members:
            name = EntryName(kind, item.key)
            entries[name] = _entry(name, item.value)
        for key in member.value.repeated():
            name = EntryName(kind, key)
            twice = Problem(_pointer(section, key), "stands twice under this key")
            entries[name] = replace(entries[name], problems=(*entries[name].problems, twice))
    meta = _meta(top, problems)
    return CacheDocument(
        data,
        text,
        top,
        entries,
        _days(meta, "maxAgeDays", MAX_AGE_DAYS, problems),
        _days(meta, "pruneAfterDays", PRUNE_AFTER_DAYS, problems),
        tuple(problems),
    )


def _meta(top: Object, problems: list[Problem]) -> dict[str, Any]:
    member = top.get("_meta")
    if member is None:
        return {}
    if not isinstance(member.value, Object):
        problems.append(Problem("/_meta", "must be an object"))
        return {}
    problems += [Problem(_pointer("_meta", k), "stands twice") for k in member.value.repeated()]
    return {item.key: item.value for item in member.value.members}


def _days(meta: dict[str, Any], key: str, default: float, problems: list[Problem]) -> float:
    value = meta.get(key, default)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # A million days are 2,700 years; more overflows a time delta.
    if not number or not 0 < value <= 1_000_000:
        rule = f"must be a number of days above 0 and at most 1,000,000, not {_shown(value)}"
        problems.append(Problem(f"/_meta/{key}", rule))
        return default
    return float(value)


def _entry(name: EntryName, value: Any) -> CacheEntry:
    problems: list[Problem] = []
    stale, has_stale_field = None, False
    summary, ts = "", None
    files: tuple[str, ...] = ()
    if isinstance(value, str) and name.kind is Kind.PATTERN:
        summary = value
    elif isinstance(value, dict):
        if isinstance(value, RepeatedKeys):
            problems.append(_problem(name, "names one of its fields twice"))
        if "stale" in value:
            has_stale_field = True
            stale = _mark(value.pop("stale"))
        summary = _summary(name, value, problems)
        files = _files(name, value, problems)
        ts = _ts(name, value, problems)
    else:
        wanted = "an object" if name.kind is Kind.TOPIC else "a string or an object"
        problems.append(_problem(name, f"must be {wanted}, not {_shown(value)}"))
    try:
        payload_of(value)
    except ValueError:
        problems.append(_problem(name, "holds a number that is too large"))
        value = [repr(value)]  # never written; differs when the entry does
    return CacheEntry(name, summary, files, ts, tuple(problems), stale, has_stale_field, value)


def _problem(name: EntryName, rule: str, *field: str) -> Problem:
    return Problem(_pointer(SECTIONS[name.kind], name.key, *field), rule)


def _summary(name: EntryName, value: dict[str, Any], problems: list[Problem]) -> str:
    as_text = name.kind is Kind.PATTERN and "text" in value and "summary" not in value
    key = "text" if as_text else "summary"
    summary = value.get(key)
    if isinstance(summary, str):
        return summary
    problems.append(_problem(name, _must_be("a string", value, key), key))
    return ""


def _files(name: EntryName, value: dict[str, Any], problems: list[Problem]) -> tuple[str, ...]:
    files = value.get("files", [] if name.kind is Kind.PATTERN else None)
    if isinstance(files, list) and are_plain(files):
        return tuple(files)
    items = files if isinstance(files, list) else []
    if items is not files or any(not isinstance(item, str) for item in items):
        problems.append(_problem(name, _must_be("a list of strings", value, "files"), "files"))
    for index, spec in enumerate(items):
        try:
            if isinstance(spec, str):
                parse_spec(spec)
        except ValueError as error:
            rule = f"{_shown(spec)} {error}"
            problems.append(_problem(name, rule, "files", str(index)))
    return tuple(item for item in items if isinstance(item, str))


def _ts(name: EntryName, value: dict[str, Any], problems: list[Problem]) -> datetime | None:
    ts = value.get("ts")
    if ts is None and name.kind is Kind.PATTERN:
        return None
    parsed = parse_time(ts) if isinstance(ts, str) else None
    if parsed is None:
        problems.append(_problem(name, _must_be("an ISO 8601 date or time", value, "ts"), "ts"))
    return parsed


def _must_be(wanted: str, value: dict[str, Any], key: str) -> str:
    if key not in value:
        return "is missing"
    return f"must be {wanted}, not {_shown(value[key])}"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        value = value[: _SHOWN_CHARS_MAX + 1]  # before it is escaped: it may have megabytes
    shown = ascii(value)
    return shown if len(shown) <= _SHOWN_CHARS_MAX else shown[:_SHOWN_CHARS_MAX] + "..."


def _mark(value: Any) -> Mark | None:
    """The mark, or None for a `stale` field that is not of amend's making."""
    if not isinstance(value, dict) or set(value) != {"since", "cause", "files"}:
        return None
    since = parse_time(value["since"]) if isinstance(value["since"], str) else None
    cause, files = value["cause"], value["files"]
    if since is None or not isinstance(cause, str) or not isinstance(files, list):
        return None
    if not all(isinstance(item, str) for item in files):
        return None
    return Mark(since, cause, tuple(files))


def _pointer(*parts: str) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


# -- payloads ----------------------------------------------------------------------------------


def payload_of(value: Any) -> bytes:
    """Compact JSON. Raises `ValueError` for numbers that JSON cannot carry."""
    try:
        return orjson.dumps(value)
    except TypeError:  # lone surrogates, integers of more than 64 bits
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return escape_surrogates(text).encode()


def topic_payload(summary: str, files: Sequence[str], ts: datetime) -> bytes:
    return payload_of({"ts": rfc3339(ts), "summary": summary, "files": list(files)})


def pattern_payload(summary: str, files: Sequence[str]) -> bytes:
    """A plain string as in the seed; an object only where it rests on files."""
    return payload_of({"summary": summary, "files": list(files)} if files else summary)


def parse_payload(name: EntryName, payload: bytes) -> CacheEntry:
    return _entry(name, json.loads(payload))


def summary_and_files(name: EntryName, payload: bytes) -> tuple[str, Sequence[str]]:
    """Of a recorded payload: as `parse_payload` reads them, in a tenth of the time."""
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:  # lone surrogates
        value = None
    if isinstance(value, dict):
        summary, files = value.get("summary"), value.get("files")
        texts = [item for item in files if isinstance(item, str)] if isinstance(files, list) else []
        if isinstance(summary, str) and texts == files:
            return summary, texts
    entry = parse_payload(name, payload)
    return entry.summary, entry.files


# -- writing -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PutText:
    """Set an entry's value to this JSON text, as its writer laid it out."""

    name: EntryName
    text: str


_AnyEdit = Edit | _PutText


def apply(document: CacheDocument, edits: Sequence[Edit]) -> bytes:
    """The document's bytes with `edits` made. Names it does not hold are ignored, but for `Put`.

    Of several edits of one name the last counts. Raises `DocumentInvalid` when something is to be
    put into a section that is no object.
    """
    return _apply(document, edits)


def _apply(document: CacheDocument, edits: Sequence[_AnyEdit]) -> bytes:
    text, top = document.text, document.top
    style = style_of(text, top)
    by_name = {edit.name: edit for edit in edits}
    splices: list[Splice] = []
    new_sections: list[tuple[str, str]] = []
    for kind, section in SECTIONS.items():
        wanted = {name.key: edit for name, edit in by_name.items() if name.kind is kind}
        member = top.get(section)
        if member is not None and isinstance(member.value, Object):
            splices += _edit_section(document, member.value, wanted, style)
            continue
        puts = {k: edit for k, edit in wanted.items() if isinstance(edit, Put | _PutText)}
        if puts and member is not None:
            raise DocumentInvalid(
                f"/{section} is no object, so nothing can be put into it",
                hint=f'make it "{section}": {{}}',
            )
        if puts:
            base = line_indent(text, top.start) + style.indent
            members = [
                f"{quote(key)}{style.colon}{_value_text(edit, style, base + style.indent)}"
                for key, edit in puts.items()
            ]
            new_sections.append((section, render_members(members, style, base)))
    if new_sections:
        splices += edit_object(
            text, top, style, replace={}, remove=frozenset(), append=new_sections
        )
    return encode(splice(text, splices))


def _edit_section(
    document: CacheDocument, section: Object, wanted: Mapping[str, _AnyEdit], style: Style
) -> list[Splice]:
    text, members = document.text, section.members
    places: dict[str, list[int]] = {key: [] for key in wanted}
    for index, member in enumerate(members):
        if member.key in places:
            places[member.key].append(index)
    splices: list[Splice] = []
    replace: dict[int, str] = {}
    remove: set[int] = set()
    append: list[tuple[str, str]] = []
    for key, wish in wanted.items():
        at = places[key]
        edit = _without_rewriting(document, wish) if len(at) == 1 else wish
        if isinstance(edit, Remove):
            remove.update(at)
        elif isinstance(edit, SetMark | ClearMark):
            for index in at:
                splices += _edit_mark(text, members[index], edit)
        elif at:
            remove.update(at[:-1])  # a key that stood twice stands once
            replaced = members[at[-1]]
            layout = _layout(text, section, replaced, style)
            base = line_indent(text, replaced.key_start)
            replace[at[-1]] = _value_text(edit, layout, base)
        else:
            last = members[-1] if members else None
            layout = _layout(text, section, last, style)
            base = line_indent(text, section.start) + style.indent
            if last is not None:
                base = line_indent(text, last.key_start)
            append.append((key, _value_text(edit, layout, base)))
    if replace or remove or append:
        splices += edit_object(
            text, section, style, replace=replace, remove=frozenset(remove), append=append
        )
    return splices


def _without_rewriting(document: CacheDocument, edit: _AnyEdit) -> _AnyEdit:
    """The same edit; where the value stands there already only its mark is left to be edited."""
    if isinstance(edit, Put) and document.entries[edit.name].payload == edit.payload:
        return ClearMark(edit.name) if edit.mark is None else SetMark(edit.name, edit.mark)
    return edit


def _layout(text: str, section: Object, like: Member | None, style: Style) -> Style:
    """On one line where the section is, or where the entry `like` is an object on one line."""
    if like is None:
        return style
    if text.find("\n", section.start, section.end) < 0:
        return style.on_one_line
    is_object = text[like.value_start] == "{" and like.value_end - like.value_start > len("{}")
    one_line = is_object and text.find("\n", like.value_start, like.value_end) < 0
    return style.on_one_line if one_line else style


def _value_text(edit: Put | _PutText, style: Style, base: str) -> str:
    if isinstance(edit, _PutText):
        return edit.text
    value = json.loads(edit.payload)
    if edit.mark is not None and isinstance(value, dict):
        value["stale"] = _mark_value(edit.mark)
    return render(value, style, base)


def _mark_value(mark: Mark) -> dict[str, Any]:
    return {"since": rfc3339(mark.since), "cause": mark.cause, "files": list(mark.files)}


def _edit_mark(text: str, member: Member, edit: SetMark | ClearMark) -> list[Splice]:
    value = text[member.value_start : member.value_end]
    if not value.startswith("{"):
        return []  # a pattern of one string has no room for a mark
    shift = member.value_start
    return [(start + shift, end + shift, new) for start, end, new in _mark_splices(value, edit)]


def _mark_splices(text: str, edit: SetMark | ClearMark) -> list[Splice]:
    entry = walk(text)
    style = style_of(text, entry)
    marks = [index for index, field in enumerate(entry.members) if field.key == "stale"]
    if isinstance(edit, ClearMark):
        if marks and len(marks) == len(entry.members):
            # What stands after the mark stood in the empty object before it.
            rest = text[entry.members[-1].value_end : entry.end - 1]
            return [(1, entry.end - 1, rest.replace(",", "", 1))]
        return edit_object(text, entry, style, replace={}, remove=frozenset(marks), append=())
    value = render(_mark_value(edit.mark), style.on_one_line)
    if not entry.members:
        return [(1, 1, f'"stale"{style.colon}{value}')]
    replace = {marks[-1]: value} if marks else {}
    append = () if marks else (("stale", value),)
    return edit_object(text, entry, style, replace=replace, remove=frozenset(), append=append)


# -- merging -----------------------------------------------------------------------------------


def merge(base: bytes | None, theirs: bytes, onto: bytes) -> bytes:
    """`onto` with every change from `base` to `theirs` made, entry by entry; `theirs` wins.

    Likewise `_meta`, field by field, and other members of the document, whole. `stale` fields are
    amend's own and do not count. `base` None: an empty document. Idempotent, and `onto` itself when
    nothing is to be changed. Raises `DocumentInvalid` when one of them cannot be parsed.
    """
    was = parse(base if base is not None else b"{}")
    new, now = parse(theirs), parse(onto)
    written: list[EntryName] = []
    for name, entry in new.entries.items():
        before, present = was.entries.get(name), now.entries.get(name)
        changed = before is None or before.payload != entry.payload
        if changed and (present is None or present.payload != entry.payload):
            written.append(name)
    edits: list[_AnyEdit] = [*_puts_of(new, written)]
    edits += [Remove(n) for n in was.entries if n not in new.entries and n in now.entries]
    merged = parse(_apply(now, edits)) if edits else now
    others = _other_splices(was, new, merged)
    return encode(splice(merged.text, others)) if others else merged.data


def _puts_of(document: CacheDocument, names: Sequence[EntryName]) -> list[_PutText]:
    """Puts of these entries' text, to the letter but for amend's mark."""
    if not names:
        return []
    members = {
        EntryName(kind, member.key): member
        for kind, section in SECTIONS.items()
        for member in _members(document.top, section)
    }
    puts = []
    for name in names:
        member = members[name]
        text = document.text[member.value_start : member.value_end]
        if document.entries[name].has_stale_field:
            text = splice(text, _mark_splices(text, ClearMark(name)))
        puts.append(_PutText(name, text))
    return puts


def _members(top: Object, key: str) -> tuple[Member, ...]:
    member = top.get(key)
    return member.value.members if member is not None and isinstance(member.value, Object) else ()


def _other_splices(was: CacheDocument, new: CacheDocument, now: CacheDocument) -> list[Splice]:
    """The edits of `now` that make the changes outside the entries."""
    skip = set(SECTIONS.values())
    splices: list[Splice] = []
    theirs, ours = new.top.get("_meta"), now.top.get("_meta")
    if theirs and ours and isinstance(theirs.value, Object) and isinstance(ours.value, Object):
        skip.add("_meta")
        before = _texts(was.text, _members(was.top, "_meta"))
        after = _texts(new.text, theirs.value.members)
        splices += _member_splices(before, after, now.text, ours.value)
    before = _texts(was.text, was.top.members)
    after = _texts(new.text, new.top.members)
    for key in skip:
        before.pop(key, None)
        after.pop(key, None)
    return splices + _member_splices(before, after, now.text, now.top)


def _texts(text: str, members: Sequence[Member]) -> dict[str, str]:
    return {member.key: text[member.value_start : member.value_end] for member in members}


def _member_splices(
    before: Mapping[str, str], after: Mapping[str, str], text: str, target: Object
) -> list[Splice]:
    """The edits of the object `target` in `text` that make the changes from `before` to `after`."""
    at = {member.key: index for index, member in enumerate(target.members)}
    present = _texts(text, target.members)
    changed = {
        key: value
        for key, value in after.items()
        if before.get(key) != value and present.get(key) != value
    }
    gone = before.keys() - after.keys()
    return edit_object(
        text,
        target,
        style_of(text, target),
        replace={at[key]: value for key, value in changed.items() if key in at},
        remove=frozenset(i for i, member in enumerate(target.members) if member.key in gone),
        append=[(key, value) for key, value in changed.items() if key not in at],
    )
