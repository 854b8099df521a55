"""Contracts (Agent Retrieval Caching): a JSON document and the files that it is true of.

    .agent-cache.d/backend/items.json    {"version": 1, "generated_at": …,
                                          "endpoint": {"method": "GET", "path": "/items/:id"}, …
                                          "referenced_files": {"src/items.js": "<hash>"}}

A document about something else than an endpoint (a database schema, a configuration file) has a
`key`, or only its own name. `Document` is the format, and what the published JSON Schema is made
of; fields it does not know are kept and mean nothing to amend.

Guarantees: one broken field hides no other, each is a `Problem` with its JSON pointer; a reference
is never to anything but a file inside a repository, by a whole hash. Raises `DocumentInvalid` for a
document that is no JSON object, and nothing else, whatever the bytes. Changes no document.

Source: seeds/agent-retrieval-caching.txt.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from amend.core.endpoint import ENDPOINT_CHARS_MAX, Endpoint, endpoint
from amend.core.model import EntryName, Kind, Problem, Source, SourceKind, path_text
from amend.core.sources import parse_spec
from amend.errors import DocumentInvalid
from amend.formats.json_text import RepeatedKeys, decode, escape_surrogates, walk
from amend.formats.times import parse_time, rfc3339

DIRECTORY: Final = b".agent-cache.d"

# A contract is read instead of its sources; one of a million tokens would be no shortcut.
DOCUMENT_BYTES_MAX: Final = 4 << 20

# An answer looks at every one of them. Ten thousand files are a repository, not an endpoint.
FILES_MAX: Final = 10_000
EVIDENCE_MAX: Final = 10_000
URLS_MAX: Final = 100

# Each is a line that somebody reads; the rest comes after the first are mended.
PROBLEMS_MAX: Final = 100

# The value of `repository` for the one that the contract itself lies in.
HERE: Final = "."

# As in `name:path`.
_SIBLING: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

_HASH: Final = re.compile(r"[0-9a-fA-F]{40}(?:[0-9a-fA-F]{24})?")

# Files are smaller than this many bytes.
_LINE_MAX: Final = 1 << 31

# A rule quotes what broke it, so that a person finds it; half a line of a terminal is enough.
_SHOWN_CHARS_MAX: Final = 60


# -- the format --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a value must be: `check` raises `ValueError`, in whose words `{shown}` stands for the
    value. pydantic's own strings refuse names that are no UTF-8."""

    check: Callable[[Any], object]
    schema: dict[str, Any]

    def __get_pydantic_core_schema__(self, *_: object) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, *_: object) -> dict[str, Any]:
        return dict(self.schema)

    def _checked(self, value: Any) -> Any:
        self.check(value)
        return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string, not {shown}")
    return value


def _line_of_text(value: Any) -> str:
    text = _string(value)
    if not text or any(c < " " or c == "\x7f" for c in text):
        raise ValueError("must be one line of text, not {shown}")
    return text


def _quote(value: Any) -> None:
    if not _string(value).strip():
        raise ValueError("must quote something, not {shown}")


def _number(value: Any) -> None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or not 1 <= value <= _LINE_MAX:
        raise ValueError("must be a whole number of 1 or more, not {shown}")


def _time(value: Any) -> None:
    if not isinstance(value, str) or parse_time(value) is None:
        raise ValueError("must be an ISO 8601 date or time, not {shown}")


def _path(value: Any) -> None:
    text = _line_of_text(value)
    try:
        endpoint(None, text)
    except ValueError as error:
        raise ValueError(f"{{shown}} {error}") from None


def _file(value: Any) -> None:
    try:
        source = parse_spec(_string(value))
    except ValueError as error:
        raise ValueError(f"{{shown}} {error}") from None
    if source.kind is not SourceKind.FILE:
        raise ValueError("{shown} must name one file; a file whose name looks so is `./name`")


def _hash(value: Any) -> None:
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        whole = "the whole hash of a commit or a blob (40 or 64 hex digits)"
        raise ValueError(f"must be {whole}, not {{shown}}")


def _repository(value: Any) -> None:
    if value != HERE and not _SIBLING.fullmatch(_string(value)):
        raise ValueError(f"must be a sibling's name, or {HERE!r} for this one, not {{shown}}")


_FILE_SCHEMA: Final[dict[str, Any]] = {"type": "string", "pattern": r"^[^/!\u0000][^\u0000]*$"}
_HASH_SCHEMA: Final = {"type": "string", "pattern": f"^(?:{_HASH.pattern})$"}
_SIBLING_SCHEMA: Final = {"type": "string", "pattern": rf"^(?:\.|{_SIBLING.pattern})$"}
_PATH_SCHEMA: Final = {"type": "string", "minLength": 1, "maxLength": ENDPOINT_CHARS_MAX}
_NUMBER_SCHEMA: Final = {"type": "integer", "minimum": 1, "maximum": _LINE_MAX}

Line = Annotated[str, _Rule(_line_of_text, {"type": "string", "minLength": 1})]
Quote = Annotated[str, _Rule(_quote, {"type": "string", "minLength": 1})]
Time = Annotated[str, _Rule(_time, {"type": "string", "description": "ISO 8601"})]
Number = Annotated[int, _Rule(_number, _NUMBER_SCHEMA)]
Path = Annotated[str, _Rule(_path, _PATH_SCHEMA)]
File = Annotated[str, _Rule(_file, _FILE_SCHEMA)]
Hash = Annotated[str, _Rule(_hash, _HASH_SCHEMA)]
Repository = Annotated[str, _Rule(_repository, _SIBLING_SCHEMA)]

# A field that may be left out, but is never null.
_ABSENT: Final[Any] = None


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class EndpointPart(_Part):
    """The path in any router's notation; without a method it is any."""

    method: Line = _ABSENT
    path: Path


class EvidencePart(_Part):
    """Lines of a file: one, several from start to end, or those that a quote stands in."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": [field]} for field in ("line", "start", "quote")],
            "dependentRequired": {"start": ["end"], "end": ["start"]},
        }
    )

    file: File
    line: Number = _ABSENT
    start: Number = _ABSENT
    end: Number = _ABSENT
    quote: Quote = _ABSENT

    @model_validator(mode="after")
    def _says_where(self) -> "EvidencePart":
        where = self.model_fields_set & {"line", "start", "end", "quote"}
        if not where:
            raise ValueError("must have `line`, `start` and `end`, or `quote`")
        if len(where & {"start", "end"}) == 1:
            raise ValueError("must have both `start` and `end`, or neither")
        if "start" in where and self.start > self.end:
            raise ValueError(f"must not end ({self.end}) before it starts ({self.start})")
        return self


class UrlPart(_Part):
    """A web page that the document rests on, and what its server said of its state."""

    url: Line
    etag: Line = _ABSENT
    last_modified: Line = _ABSENT


class Document(_Part):
    """What an agent found out, about an endpoint or anything else, and the files it rests on."""

    version: Number
    generated_at: Time
    endpoint: EndpointPart = _ABSENT
    key: Line = _ABSENT
    query: Line = _ABSENT
    repository: Repository = _ABSENT
    success_responses: list[Any] = []
    error_responses: list[Any] = []
    evidence: list[EvidencePart] = Field([], max_length=EVIDENCE_MAX)
    referenced_files: dict[File, Hash] = Field(
        max_length=FILES_MAX, json_schema_extra={"propertyNames": _FILE_SCHEMA}
    )
    url_sources: list[UrlPart] = Field([], max_length=URLS_MAX)


# Whose members stand for themselves: a broken one does not take the others with it.
_LISTS: Final = frozenset(("evidence", "referenced_files", "url_sources"))


def json_schema() -> str:
    """The JSON Schema (draft 2020-12), as `contract.schema.json` has it."""
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(draft | _bare(Document.model_json_schema()), indent=2) + "\n"


def _bare(schema: Any) -> Any:
    """Without what pydantic adds: titles that repeat the names, defaults of null."""
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _bare(value)
        for key, value in schema.items()
        if key != "default" and not (key == "title" and isinstance(value, str))
    }


# -- reading -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reference:
    """A file and the hash, in lower case, of a commit that had it or of its bytes (a blob)."""

    source: Source
    oid: str


@dataclass(frozen=True, slots=True)
class Citation:
    """Cited lines: first and last, from 1, or those a quote stands in, or both."""

    source: Source
    lines: tuple[int, int] | None
    quote: str | None


@dataclass(frozen=True, slots=True)
class Contract:
    """`name` is the file's own, unique in its worktree; `keys` are all that it may be asked for by,
    besides its endpoint. `repository` None: the one it lies in."""

    name: EntryName
    keys: tuple[str, ...]
    endpoint: Endpoint | None
    repository: str | None
    generated_at: datetime | None
    references: tuple[Reference, ...]
    evidence: tuple[Citation, ...]
    urls: tuple[str, ...]
    problems: tuple[Problem, ...]


def parse(data: bytes, path: bytes) -> Contract:
    """The contract in `data`, a file at `path` (from its worktree's root).

    Raises `DocumentInvalid` with line and column when it is no JSON object.
    """
    if len(data) > DOCUMENT_BYTES_MAX:
        raise DocumentInvalid(
            f"the document has {len(data)} bytes, at most {DOCUMENT_BYTES_MAX} are read",
            hint="a contract is a summary; is this one?",
        )
    top = walk(decode(data))
    found = {m.key: m.value for m in top.members if m.key in Document.model_fields}
    problems = [
        Problem(_pointer(key), "stands twice") for key in top.repeated() if key in found
    ] + [
        Problem(_pointer(key), "names one of its members twice")
        for key, value in found.items()
        if isinstance(value, RepeatedKeys)
    ]
    broken = _broken(found)
    problems += [Problem(_pointer(*location), rule) for location, rule in broken]
    if len(problems) > PROBLEMS_MAX:
        more = len(problems) - PROBLEMS_MAX
        problems[PROBLEMS_MAX:] = [Problem("", f"breaks {more} more rules")]
    good = _unbroken(found, {location for location, _ in broken})
    return _contract(good, path, tuple(problems))


_Location = tuple[str | int, ...]


def _broken(found: Mapping[str, Any]) -> list[tuple[_Location, str]]:
    """Every rule that is broken, and where."""
    broken: list[tuple[_Location, str]] = []
    try:
        Document.model_validate(_plain(found))
    except ValidationError as error:
        broken += [(_location(each), _rule(each)) for each in error.errors(include_url=False)]
    files = found.get("referenced_files")
    for file, oid in files.items() if isinstance(files, dict) else ():
        if _is_unicode(file):
            continue
        for rule, value in ((_file, file), (_hash, oid)):
            try:
                rule(value)
            except ValueError as error:
                broken.append((("referenced_files", file), _with_shown(str(error), value)))
    return broken


def _plain(value: Any) -> Any:
    """Without members whose names are no UTF-8, of which pydantic tells only that there are any."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {name: _plain(each) for name, each in value.items() if _is_unicode(name)}


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _location(error: ErrorDetails) -> _Location:
    location = error["loc"]
    return location[:-1] if location[-1] == "[key]" and len(location) == 3 else location


def _rule(error: ErrorDetails) -> str:
    value, context = error["input"], error.get("ctx", {})
    match error["type"]:
        case "missing":
            return "is missing"
        case "value_error":
            return _with_shown(str(context["error"]), value)
        case "list_type":
            return _with_shown("must be a list, not {shown}", value)
        case "dict_type" | "model_type":
            return _with_shown("must be an object, not {shown}", value)
        case "too_long":
            return f"has {len(value)} members, at most {context['max_length']} are read"
        case kind:
            raise AssertionError(f"no rule of ours can end as {kind}")


def _with_shown(rule: str, value: Any) -> str:
    if isinstance(value, str):
        value = value[: _SHOWN_CHARS_MAX + 1]  # before it is escaped: it may have megabytes
    if isinstance(value, dict | list):
        return rule.replace("{shown}", "a list" if isinstance(value, list) else "an object")
    shown = ascii(value)
    if len(shown) > _SHOWN_CHARS_MAX:
        shown = shown[:_SHOWN_CHARS_MAX] + "..."
    return rule.replace("{shown}", shown)


def _unbroken(found: Mapping[str, Any], broken: Iterable[_Location]) -> dict[str, Any]:
    """Without the fields, or members of lists and of the files, that break a rule."""
    whole = {at[0] for at in broken if len(at) == 1 or at[0] not in _LISTS}
    members = {at[:2] for at in broken if len(at) > 1}
    good = {field: value for field, value in found.items() if field not in whole}
    for field in _LISTS & good.keys():
        value = good[field]
        if isinstance(value, dict):
            good[field] = {key: each for key, each in value.items() if (field, key) not in members}
        else:
            good[field] = [e for index, e in enumerate(value) if (field, index) not in members]
    return good


def _contract(good: Mapping[str, Any], path: bytes, problems: tuple[Problem, ...]) -> Contract:
    """From fields that break no rule."""
    name, directory = _place(path)
    repository = good.get("repository", directory)
    repository = None if repository == HERE else repository

    def source(text: str) -> Source:
        named = parse_spec(text)
        return named if named.repository is not None else replace(named, repository=repository)

    keys = [good[field] for field in ("key", "query") if field in good]
    part = good.get("endpoint")
    generated_at = good.get("generated_at")
    return Contract(
        EntryName(Kind.CONTRACT, name),
        tuple(dict.fromkeys([*keys, name])),
        endpoint(part.get("method"), part["path"]) if part is not None else None,
        repository,
        parse_time(generated_at) if generated_at is not None else None,
        tuple(
            Reference(source(file), oid.lower())
            for file, oid in good.get("referenced_files", {}).items()
        ),
        tuple(
            Citation(source(each["file"]), _lines(each), each.get("quote"))
            for each in good.get("evidence", [])
        ),
        tuple(each["url"] for each in good.get("url_sources", [])),
        problems,
    )


def document_of(data: bytes) -> dict[str, Any]:
    """All that the document says, for whoever asked for it; {} for what is none."""
    try:
        document = json.loads(decode(data).removeprefix("\ufeff"))
    except (ValueError, RecursionError, DocumentInvalid):  # trailing commas, say
        return {member.key: member.value for member in walk(decode(data)).members}
    return document if isinstance(document, dict) else {}


def name_of(path: bytes) -> EntryName:
    """Of the contract in the file at `path`, whatever is in it."""
    return EntryName(Kind.CONTRACT, _place(path)[0])


def _lines(part: Mapping[str, Any]) -> tuple[int, int] | None:
    if "start" in part:
        return part["start"], part["end"]
    return (part["line"], part["line"]) if "line" in part else None


def _place(path: bytes) -> tuple[str, str | None]:
    """The contract's own name, and the sibling that the first directory below ours names."""
    parts = path.split(b"/")
    below = parts[parts.index(DIRECTORY) + 1 :] if DIRECTORY in parts[:-1] else None
    name = path_text(b"/".join(below or parts)).removesuffix(".json")
    first = path_text(below[0]) if below is not None and len(below) > 1 else ""
    return name, first if _SIBLING.fullmatch(first) else None


def _pointer(*parts: str | int) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


# -- writing -----------------------------------------------------------------------------------


def new_document(
    about: Endpoint | str,
    blobs: Mapping[str, bytes],
    generated_at: datetime,
    repository: str | None = None,
) -> bytes:
    """A document about an endpoint or under a key, its findings still to be filled in. `blobs`: the
    hash of each file that it rests on."""
    document: dict[str, Any] = {"version": 1, "generated_at": rfc3339(generated_at)}
    if isinstance(about, Endpoint):
        method = {"method": about.method} if about.method else {}
        document["endpoint"] = {**method, "path": about.path}
        responses: dict[str, Any] = {"success_responses": [], "error_responses": []}
    else:
        document["key"] = about
        responses = {}
    if repository is not None:
        document["repository"] = repository
    document |= {
        **responses,
        "evidence": [],
        "referenced_files": {file: blob.hex() for file, blob in blobs.items()},
    }
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return escape_surrogates(text).encode() + b"\n"
