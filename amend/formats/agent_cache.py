"""`.agent-cache.json` (AMEN): what its entries say, and edits that touch nothing else.

Guarantees: one broken entry never hides the others; an entry amend cannot understand is kept, with
the rules it breaks; marking and then unmarking gives the first bytes back; `merge` only ever adds
what the other side wrote. Raises `DocumentInvalid` for a document that is no JSON object, and
nothing else, whatever the bytes.

Source: the AMEN README (seeds/amen.txt); its template and example load unchanged.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from amend.core.model import EntryName, Kind, Problem, Source
from amend.core.policy import ClearMark, Mark, Remove, SetMark
from amend.core.sources import parse_spec
from amend.errors import DocumentInvalid
from amend.formats.json_text import (
    Member,
    Object,
    RepeatedKeys,
    Splice,
    decode,
    edit_object,
    encode,
    line_indent,
    quote,
    render,
    splice,
    style_of,
    walk,
    walk_at,
)
from amend.formats.times import parse_time, rfc3339

FILE_NAME: Final = b".agent-cache.json"

TEMPLATE: Final = b'{\n  "_meta": { "maxAgeDays": 7 },\n  "topics": {},\n  "patterns": {}\n}\n'

# The seed's defaults: README (7) and CLAUDE.md (30).
MAX_AGE_DAYS: Final = 7.0
PRUNE_AFTER_DAYS: Final = 30.0

SECTIONS: Final = {Kind.TOPIC: "topics", Kind.PATTERN: "patterns"}
_WALKED: Final = frozenset(("topics", "patterns", "_meta"))


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One topic or pattern. `payload`: its value as compact JSON without amend's `stale` field;
    equal payloads are the same finding."""

    name: EntryName
    summary: str
    files: tuple[str, ...]
    ts: datetime | None
    sources: tuple[Source, ...]
    problems: tuple[Problem, ...]
    stale: Mark | None
    has_stale_field: bool
    payload: bytes


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
    name: EntryName
    payload: bytes


Edit = SetMark | ClearMark | Remove | Put


# -- reading -----------------------------------------------------------------------------------


def parse(data: bytes) -> CacheDocument:
    """The document. Raises `DocumentInvalid` with line and column when it is no JSON object."""
    text = decode(data)
    top = walk(text, _WALKED)
    entries: dict[EntryName, CacheEntry] = {}
    problems: list[Problem] = []
    for kind, section in SECTIONS.items():
        member = top.get(section)
        if member is None:
            continue
        if not isinstance(member.value, Object):
            problems.append(Problem(f"/{section}", "must be an object"))
            continue
        seen: set[str] = set()
        for item in member.value.members:
            name = EntryName(kind, item.key)
            entry = _entry(name, item.value)
            if item.key in seen:
                twice = Problem(_pointer(section, item.key), "stands twice under this key")
                entry = CacheEntry(
                    name=name,
                    summary=entry.summary,
                    files=entry.files,
                    ts=entry.ts,
                    sources=entry.sources,
                    problems=(*entry.problems, twice),
                    stale=entry.stale,
                    has_stale_field=entry.has_stale_field,
                    payload=entry.payload,
                )
            seen.add(item.key)
            entries[name] = entry
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
    return {item.key: item.value for item in member.value.members}


def _days(meta: dict[str, Any], key: str, default: float, problems: list[Problem]) -> float:
    value = meta.get(key, default)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # A million days are 2,700 years; more overflows a time delta.
    if not number or not 0 < value <= 1_000_000:
        problems.append(
            Problem(f"/_meta/{key}", f"must be a number of days above 0, not {value!r}")
        )
        return default
    return float(value)


def _entry(name: EntryName, value: Any) -> CacheEntry:
    pointer = _pointer(SECTIONS[name.kind], name.key)
    problems: list[Problem] = []
    stale, has_stale_field = None, False
    summary, ts = "", None
    files: tuple[str, ...] = ()
    if isinstance(value, RepeatedKeys):
        problems.append(Problem(pointer, "names one of its fields twice"))
    if isinstance(value, str) and name.kind is Kind.PATTERN:
        summary = value
    elif isinstance(value, dict):
        has_stale_field = "stale" in value
        stale = _mark(value.get("stale"))
        value = {key: item for key, item in value.items() if key != "stale"}
        summary = _summary(name.kind, value, pointer, problems)
        files = _files(name.kind, value, pointer, problems)
        ts = _ts(name.kind, value, pointer, problems)
    else:
        wanted = "an object" if name.kind is Kind.TOPIC else "a string or an object"
        problems.append(Problem(pointer, f"must be {wanted}"))
    sources = []
    for index, spec in enumerate(files):
        try:
            sources.append(parse_spec(spec))
        except ValueError as error:
            problems.append(Problem(f"{pointer}/files/{index}", f"{spec!a} {error}"))
    try:
        payload = payload_of(value)
    except ValueError:
        problems.append(Problem(pointer, "holds a number that is too large"))
        payload = payload_of(None)
    return CacheEntry(
        name,
        summary,
        files,
        ts,
        tuple(dict.fromkeys(sources)),
        tuple(problems),
        stale,
        has_stale_field,
        payload,
    )


def _summary(kind: Kind, value: dict[str, Any], pointer: str, problems: list[Problem]) -> str:
    key = "text" if kind is Kind.PATTERN and "summary" not in value else "summary"
    summary = value.get(key)
    if isinstance(summary, str):
        return summary
    rule = "is missing" if summary is None and key not in value else "must be a string"
    problems.append(Problem(f"{pointer}/{key}", rule))
    return ""


def _files(
    kind: Kind, value: dict[str, Any], pointer: str, problems: list[Problem]
) -> tuple[str, ...]:
    files = value.get("files", [] if kind is Kind.PATTERN else None)
    if isinstance(files, list) and all(isinstance(item, str) for item in files):
        return tuple(files)
    rule = "must be a list of strings" if "files" in value else "is missing"
    problems.append(Problem(f"{pointer}/files", rule))
    items = files if isinstance(files, list) else []
    return tuple(item for item in items if isinstance(item, str))


def _ts(
    kind: Kind, value: dict[str, Any], pointer: str, problems: list[Problem]
) -> datetime | None:
    ts = value.get("ts")
    if ts is None and kind is Kind.PATTERN:
        return None
    parsed = parse_time(ts) if isinstance(ts, str) else None
    if parsed is None:
        rule = "is missing" if "ts" not in value else f"must be an ISO 8601 time, not {ts!a}"
        problems.append(Problem(f"{pointer}/ts", rule[:200]))
    return parsed


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
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def topic_payload(summary: str, files: Sequence[str], ts: datetime) -> bytes:
    return payload_of({"ts": rfc3339(ts), "summary": summary, "files": list(files)})


def pattern_payload(summary: str, files: Sequence[str]) -> bytes:
    """A plain string as in the seed; an object only where it rests on files."""
    return payload_of({"summary": summary, "files": list(files)} if files else summary)


def parse_payload(name: EntryName, payload: bytes) -> CacheEntry:
    return _entry(name, json.loads(payload))


# -- writing -----------------------------------------------------------------------------------


def apply(document: CacheDocument, edits: Sequence[Edit]) -> bytes:
    """The document's bytes with `edits` made. Names it does not hold are ignored, but for `Put`.

    Of several edits of one name the last counts. Raises `DocumentInvalid` when something is to be
    put into a section that is no object.
    """
    text, top = document.text, document.top
    by_name = {edit.name: edit for edit in edits}
    splices: list[Splice] = []
    new_sections: list[tuple[str, str]] = []
    for kind, section in SECTIONS.items():
        wanted = {n.key: edit for n, edit in by_name.items() if n.kind is kind}
        if not wanted:
            continue
        member = top.get(section)
        if member is None:
            puts = [(k, edit) for k, edit in wanted.items() if isinstance(edit, Put)]
            if puts:
                new_sections.append((section, _new_section(text, top, puts)))
        elif isinstance(member.value, Object):
            splices += _edit_section(text, member.value, wanted)
        elif any(isinstance(edit, Put) for edit in wanted.values()):
            raise DocumentInvalid(
                f"/{section} is no object, so nothing can be put into it",
                hint=f'make it "{section}": {{}}',
            )
    if new_sections:
        splices += edit_object(text, top, replace={}, remove=frozenset(), append=new_sections)
    return encode(splice(text, splices))


def _edit_section(text: str, section: Object, wanted: Mapping[str, Edit]) -> list[Splice]:
    replace: dict[int, str] = {}
    remove: set[int] = set()
    splices: list[Splice] = []
    present = set()
    for index, member in enumerate(section.members):
        edit = wanted.get(member.key)
        if edit is None:
            continue
        present.add(member.key)
        if isinstance(edit, Remove):
            remove.add(index)
        elif isinstance(edit, Put):
            base = line_indent(text, member.key_start)
            replace[index] = render(json.loads(edit.payload), style_of(text), base)
        elif text[member.value_start] == "{":
            splices += _edit_mark(text, member, edit)
    append = [
        (key, _rendered_inside(text, section, edit))
        for key, edit in wanted.items()
        if isinstance(edit, Put) and key not in present
    ]
    if replace or remove or append:
        splices += edit_object(
            text, section, replace=replace, remove=frozenset(remove), append=append
        )
    return splices


def _edit_mark(text: str, member: Member, edit: SetMark | ClearMark) -> list[Splice]:
    entry = walk_at(text, member.value_start)
    at = [i for i, field in enumerate(entry.members) if field.key == "stale"]
    if isinstance(edit, ClearMark):
        return edit_object(text, entry, replace={}, remove=frozenset(at), append=())
    value = mark_text(edit.mark)
    if at:
        return edit_object(text, entry, replace={at[-1]: value}, remove=frozenset(), append=())
    return edit_object(text, entry, replace={}, remove=frozenset(), append=(("stale", value),))


def mark_text(mark: Mark) -> str:
    files = ", ".join(quote(spec) for spec in mark.files)
    since, cause = quote(rfc3339(mark.since)), quote(mark.cause)
    return f'{{"since": {since}, "cause": {cause}, "files": [{files}]}}'


def _rendered_inside(text: str, section: Object, edit: Put) -> str:
    style = style_of(text)
    base = line_indent(text, section.start) + style.indent
    if section.members:
        base = line_indent(text, section.members[-1].key_start)
    return render(json.loads(edit.payload), style, base)


def _new_section(text: str, top: Object, puts: Sequence[tuple[str, Edit]]) -> str:
    style = style_of(text)
    base = line_indent(text, top.start) + style.indent
    members = [
        f"{quote(key)}: {render(json.loads(edit.payload), style, base + style.indent)}"
        for key, edit in puts
        if isinstance(edit, Put)
    ]
    if style.newline is None:
        return "{" + ", ".join(members) + "}"
    inner = style.newline + base + style.indent
    return "{" + inner + f",{inner}".join(members) + style.newline + base + "}"


# -- merging -----------------------------------------------------------------------------------


def merge(base: bytes | None, theirs: bytes, onto: bytes) -> bytes:
    """`onto` with what `theirs` changed against `base`; DESIGN section 9.

    An entry they wrote is set unless `onto` holds yet another text of it, which is then a later
    write; one they removed is removed where `onto` still holds the base's. Other members of the
    document (`_meta`, unknown ones) likewise, whole. `stale` fields are amend's own and do not
    count. Idempotent. A document that cannot be parsed changes nothing.
    """
    try:
        was = parse(base if base is not None else b"{}")
        new, now = parse(theirs), parse(onto)
    except DocumentInvalid:
        return onto
    edits: list[Edit] = []
    for name, entry in new.entries.items():
        before, present = was.entries.get(name), now.entries.get(name)
        if before is not None and before.payload == entry.payload:
            continue
        if present is None or (before is not None and present.payload == before.payload):
            edits.append(Put(name, entry.payload))
    for name, before in was.entries.items():
        present = now.entries.get(name)
        if name not in new.entries and present is not None and present.payload == before.payload:
            edits.append(Remove(name))
    merged = apply(now, edits) if edits else onto
    return _merge_others(was, new, merged)


def _merge_others(was: CacheDocument, new: CacheDocument, onto: bytes) -> bytes:
    now = parse(onto)

    def others(document: CacheDocument) -> dict[str, str]:
        return {
            m.key: document.text[m.value_start : m.value_end]
            for m in document.top.members
            if m.key not in SECTIONS.values()
        }

    before, theirs, present = others(was), others(new), others(now)
    replace, append = {}, []
    for key, value in theirs.items():
        if before.get(key) == value or present.get(key) == value:
            continue
        if key not in present:
            append.append((key, value))
        elif present[key] == before.get(key):
            index = max(i for i, m in enumerate(now.top.members) if m.key == key)
            replace[index] = value
    gone = {k for k in before if k not in theirs and present.get(k) == before[k]}
    remove = frozenset(i for i, m in enumerate(now.top.members) if m.key in gone)
    if not (replace or append or remove):
        return onto
    return encode(
        splice(
            now.text,
            edit_object(now.text, now.top, replace=replace, remove=remove, append=append),
        )
    )
