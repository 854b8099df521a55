"""Contracts: the seed's document loads, and a broken field hides no other."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.endpoint import asked, endpoint
from amend.core.model import EntryName, Kind, Problem, Source, SourceKind, path_bytes
from amend.errors import DocumentInvalid
from amend.formats import contract as format_
from amend.formats.contract import (
    DOCUMENT_BYTES_MAX,
    EVIDENCE_MAX,
    FILES_MAX,
    PROBLEMS_MAX,
    Citation,
    Contract,
    Document,
    Reference,
    json_schema,
    new_document,
    parse,
)

SCHEMA = Path(format_.__file__).with_name("contract.schema.json")

COMMIT = "52add4438edd5b38" + "0" * 24
BLOB = "3c462416592191" + "F" * 26

# The seed's example; its elided lists and hashes filled in.
SEED: dict[str, Any] = {
    "version": 1,
    "generated_at": "2026-01-20T00:00:00.000Z",
    "endpoint": {"method": "GET", "path": "/items/:id"},
    "success_responses": [{"status": 200, "body": {"id": "string", "price": "number"}}],
    "error_responses": [{"status": 404, "code": "ITEM_NOT_FOUND"}],
    "evidence": [{"file": "src/routes/items.js", "line": 42}],
    "referenced_files": {"src/routes/items.js": COMMIT, "src/serializers/item.js": BLOB},
}

PATH = b".agent-cache.d/backend/items.json"


def load(document: Any, path: bytes = PATH) -> Contract:
    return parse(json.dumps(document).encode(), path)


def without(field: str) -> dict[str, Any]:
    return {key: value for key, value in SEED.items() if key != field}


def file(path: str, repository: str | None = "backend") -> Source:
    return Source(SourceKind.FILE, path_bytes(path), repository)  # type: ignore[arg-type]


def problems(**fields: Any) -> list[tuple[str, str]]:
    return [(each.pointer, each.rule) for each in load({**SEED, **fields}).problems]


# -- what it says --------------------------------------------------------------------------------


def test_the_seeds_document_is_understood() -> None:
    assert load(SEED) == Contract(
        name=EntryName(Kind.CONTRACT, "backend/items"),
        keys=("backend/items",),
        endpoint=endpoint("GET", "/items/:id"),
        repository="backend",
        generated_at=datetime(2026, 1, 20, tzinfo=UTC),
        references=(
            Reference(file("src/routes/items.js"), COMMIT),
            Reference(file("src/serializers/item.js"), BLOB.lower()),
        ),
        evidence=(Citation(file("src/routes/items.js"), (42, 42), None),),
        urls=(),
        problems=(),
    )


def test_fields_amend_does_not_know_are_kept() -> None:
    document = {**SEED, "auth": {"scopes": ["read"]}, "evidence": [{**SEED["evidence"][0], "x": 1}]}

    model = Document.model_validate(document)

    assert load(document).problems == ()
    assert model.model_dump(exclude_unset=True) == document


@pytest.mark.parametrize(
    ("path", "name", "repository"),
    [
        (b".agent-cache.d/items.json", "items", None),
        (b".agent-cache.d/backend/items.json", "backend/items", "backend"),
        (b".agent-cache.d/backend/v1/items.json", "backend/v1/items", "backend"),
        (b"web/.agent-cache.d/backend/items.json", "backend/items", "backend"),
        (b".agent-cache.d/.hidden/items.json", ".hidden/items", None),
        (b".agent-cache.d/data base/items.json", "data base/items", None),
        (b"docs/contracts/items.json", "docs/contracts/items", None),
        (b".agent-cache.d", ".agent-cache.d", None),
        (b".agent-cache.d/caf\xff.json", "caf\udcff", None),
    ],
)
def test_the_files_own_place_names_it_and_its_repository(
    path: bytes, name: str, repository: str | None
) -> None:
    found = load(SEED, path)

    assert (found.name.key, found.repository) == (name, repository)
    assert {each.source.repository for each in found.references} == {repository}


def test_the_repository_that_is_named_goes_before_the_directory() -> None:
    named = load({**SEED, "repository": "payments"})
    here = load({**SEED, "repository": "."})

    assert (named.repository, named.references[0].source.repository) == ("payments", "payments")
    assert (here.repository, here.references[0].source.repository) == (None, None)


def test_a_file_may_be_cited_from_yet_another_sibling() -> None:
    found = load({**SEED, "referenced_files": {"shared:api/types.ts": BLOB, "a.js": COMMIT}})

    assert [each.source for each in found.references] == [
        file("api/types.ts", "shared"),
        file("a.js", "backend"),
    ]


def test_a_document_without_an_endpoint_is_asked_for_by_key_query_or_name() -> None:
    schema = {**without("endpoint"), "key": "schema of items", "query": "items table"}

    found = load(schema)

    assert found.problems == ()
    assert found.endpoint is None
    assert found.keys == ("schema of items", "items table", "backend/items")


def test_an_endpoint_may_leave_its_method_out() -> None:
    found = load({**SEED, "endpoint": {"path": "/items/{id}"}}).endpoint

    assert found is not None
    assert found.method is None
    assert asked("PUT /items/1") is not None


def test_evidence_is_a_line_lines_or_a_quote() -> None:
    evidence = [
        {"file": "a.js", "line": 3},
        {"file": "a.js", "start": 3, "end": 5},
        {"file": "a.js", "quote": "res.json(item)"},
        {"file": "a.js", "line": 3, "quote": "res.json(item)"},
    ]

    found = load({**SEED, "evidence": evidence})

    assert found.problems == ()
    assert [(each.lines, each.quote) for each in found.evidence] == [
        ((3, 3), None),
        ((3, 5), None),
        (None, "res.json(item)"),
        ((3, 3), "res.json(item)"),
    ]


def test_urls_are_named() -> None:
    urls = [{"url": "https://example.org/api", "etag": '"1"'}, {"url": "https://example.org/b"}]

    found = load({**SEED, "url_sources": urls})

    assert found.problems == ()
    assert found.urls == ("https://example.org/api", "https://example.org/b")


def test_names_that_are_no_utf8_are_names() -> None:
    data = json.dumps(SEED).encode().replace(b"src/serializers", b"src/caf\xe9")

    found = parse(data, PATH)

    assert found.problems == ()
    assert found.references[1].source.path == b"src/caf\xe9/item.js"


def test_trailing_commas_and_a_byte_order_mark_do_no_harm() -> None:
    text = json.dumps(SEED, indent=2).replace("\n  }\n}", "\n  },\n}")

    assert parse(b"\xef\xbb\xbf" + text.encode(), PATH) == load(SEED)


# -- what it breaks ------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["version", "generated_at", "referenced_files"])
def test_what_must_be_there_is_missed(field: str) -> None:
    assert load(without(field)).problems == (Problem(f"/{field}", "is missing"),)


WHOLE = "must be the whole hash of a commit or a blob (40 or 64 hex digits), not "


@pytest.mark.parametrize(
    ("fields", "pointer", "rule"),
    [
        ({"version": "1"}, "/version", "must be a whole number of 1 or more, not '1'"),
        ({"version": True}, "/version", "must be a whole number of 1 or more, not True"),
        ({"version": 0}, "/version", "must be a whole number of 1 or more, not 0"),
        ({"generated_at": "soon"}, "/generated_at", "must be an ISO 8601 date or time, not 'soon'"),
        ({"endpoint": "GET /"}, "/endpoint", "must be an object, not 'GET /'"),
        ({"endpoint": None}, "/endpoint", "must be an object, not None"),
        ({"endpoint": {"method": "GET"}}, "/endpoint/path", "is missing"),
        (
            {"endpoint": {"path": "/a\0"}},
            "/endpoint/path",
            "must be one line of text, not '/a\\x00'",
        ),
        (
            {"endpoint": {"path": "/a", "method": 1}},
            "/endpoint/method",
            "must be a string, not 1",
        ),
        ({"key": ""}, "/key", "must be one line of text, not ''"),
        ({"key": "a\nb"}, "/key", "must be one line of text, not 'a\\nb'"),
        (
            {"repository": "../backend"},
            "/repository",
            "must be a sibling's name, or '.' for this one, not '../backend'",
        ),
        ({"success_responses": {}}, "/success_responses", "must be a list, not an object"),
        ({"error_responses": "none"}, "/error_responses", "must be a list, not 'none'"),
        ({"evidence": [1]}, "/evidence/0", "must be an object, not 1"),
        ({"evidence": [{"line": 1}]}, "/evidence/0/file", "is missing"),
        (
            {"evidence": [{"file": "a"}]},
            "/evidence/0",
            "must have `line`, `start` and `end`, or `quote`",
        ),
        (
            {"evidence": [{"file": "a", "start": 1}]},
            "/evidence/0",
            "must have both `start` and `end`, or neither",
        ),
        (
            {"evidence": [{"file": "a", "start": 3, "end": 2}]},
            "/evidence/0",
            "must not end (2) before it starts (3)",
        ),
        (
            {"evidence": [{"file": "a", "line": 0}]},
            "/evidence/0/line",
            "must be a whole number of 1 or more, not 0",
        ),
        (
            {"evidence": [{"file": "a", "quote": " "}]},
            "/evidence/0/quote",
            "must quote something, not ' '",
        ),
        ({"referenced_files": ["a"]}, "/referenced_files", "must be an object, not a list"),
        (
            {"referenced_files": {"a": COMMIT[:39]}},
            "/referenced_files/a",
            f"{WHOLE}'{COMMIT[:39]}'",
        ),
        (
            {"referenced_files": {"src/a.js": "52add4438edd5b38..."}},
            "/referenced_files/src~1a.js",
            f"{WHOLE}'52add4438edd5b38...'",
        ),
        ({"referenced_files": {"a": None}}, "/referenced_files/a", f"{WHOLE}None"),
        (
            {"referenced_files": {"/etc/passwd": BLOB}},
            "/referenced_files/~1etc~1passwd",
            "'/etc/passwd' is absolute; write it relative to the repository's root",
        ),
        (
            {"referenced_files": {"../b.js": BLOB}},
            "/referenced_files/..~1b.js",
            "'../b.js' contains `..`; cite another repository as `sibling:path`",
        ),
        (
            {"referenced_files": {"a\0b": BLOB}},
            "/referenced_files/a\0b",
            "'a\\x00b' holds a NUL byte",
        ),
        (
            {"referenced_files": {"src/": BLOB}},
            "/referenced_files/src~1",
            "'src/' must name one file; a file whose name looks so is `./name`",
        ),
        (
            {"referenced_files": {"~a/\udcff": 1}},
            "/referenced_files/~0a~1\udcff",
            f"{WHOLE}1",
        ),
        ({"url_sources": ["https://a"]}, "/url_sources/0", "must be an object, not 'https://a'"),
        ({"url_sources": [{}]}, "/url_sources/0/url", "is missing"),
        (
            {"referenced_files": {f"f{n}": BLOB for n in range(FILES_MAX + 1)}},
            "/referenced_files",
            f"has {FILES_MAX + 1} members, at most {FILES_MAX} are read",
        ),
        (
            {"evidence": [{"file": "a", "line": 1}] * (EVIDENCE_MAX + 1)},
            "/evidence",
            f"has {EVIDENCE_MAX + 1} members, at most {EVIDENCE_MAX} are read",
        ),
    ],
)
def test_a_broken_rule_has_a_pointer_and_says_the_value(
    fields: dict[str, Any], pointer: str, rule: str
) -> None:
    assert problems(**fields) == [(pointer, rule)]


def test_a_name_that_stands_twice_is_a_problem() -> None:
    text = json.dumps(SEED)
    twice = text[:-2] + f', "src/routes/items.js": "{BLOB}"}}, "version": 1}}'

    found = parse(twice.encode(), PATH)

    assert found.problems == (
        Problem("/version", "stands twice"),
        Problem("/referenced_files", "names one of its members twice"),
    )


def test_many_problems_are_told_as_a_hundred_and_a_count() -> None:
    found = problems(referenced_files={f"f{n}": "" for n in range(PROBLEMS_MAX + 7)})

    assert len(found) == PROBLEMS_MAX + 1
    assert found[-1] == ("", "breaks 7 more rules")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "line 1, column 1: found the end, expected an object `{`"),
        (b'{"version": 1,\n  version}', "line 2, column 3: found 'v'"),
        (b"[]", "line 1, column 1: found '['"),
        (b'{"success_responses": [...]}', "line 1, column 24: found '.', expected a value"),
        (b" " * (DOCUMENT_BYTES_MAX + 1), "at most"),
    ],
)
def test_no_json_object_is_no_contract(data: bytes, said: str) -> None:
    with pytest.raises(DocumentInvalid) as caught:
        parse(data, PATH)

    assert said in caught.value.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(BLOB),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["file", "line", "path", "a/b", "\udcff", "url"]), inner)
    ),
    max_leaves=6,
)
fields = st.sampled_from([*Document.model_fields, "else"])


@given(st.dictionaries(fields, json_values))
def test_nothing_but_a_contract_comes_of_any_object(changes: dict[str, Any]) -> None:
    found = load({**SEED, **changes})

    # What breaks no rule of its own is as it was.
    hurt = {each.pointer.split("/")[1] for each in found.problems if each.pointer}
    if not {"referenced_files", "repository"} & (changes.keys() | hurt):
        assert found.references == load(SEED).references
    if "endpoint" not in changes:
        assert found.endpoint == load(SEED).endpoint
    assert hurt <= changes.keys()


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\ 1e9nul\n', max_size=60))
def test_any_bytes_are_a_contract_or_invalid(data: bytes | str) -> None:
    try:
        found = parse(data if isinstance(data, bytes) else data.encode(), PATH)
    except DocumentInvalid:
        return
    assert found.problems


@given(
    st.dictionaries(st.text(min_size=1, max_size=8), st.sampled_from([COMMIT, BLOB, "x", 1])),
    st.data(),
)
def test_a_broken_reference_hides_no_other(files: dict[str, Any], data: st.DataObject) -> None:
    mixed = dict(data.draw(st.permutations([*files.items(), ("good.js", COMMIT)])))

    found = load({**SEED, "referenced_files": mixed})

    told = {each.pointer for each in found.problems}
    kept = {each.source.path for each in found.references}
    assert b"good.js" in kept
    # Each is either told or kept, so that none is silently without a check.
    assert len(told) + len(found.references) == len(mixed)
    assert not any(path.startswith(b"/") or b".." in path.split(b"/") for path in kept)


# -- the schema ----------------------------------------------------------------------------------


def test_the_published_schema_is_the_models() -> None:
    # To renew it: python -c "from amend.formats.contract import *; print(json_schema(), end='')"
    assert SCHEMA.read_text() == json_schema()


def test_the_published_schema_accepts_the_seeds_document_and_names_what_is_broken() -> None:
    schema = jsonschema_rs.validator_for(json.loads(SCHEMA.read_text()))

    assert list(schema.iter_errors(SEED)) == []
    broken = {**SEED, "evidence": [{"file": "a"}], "referenced_files": {"a": "52add..."}}
    assert sorted(each.instance_path[0] for each in schema.iter_errors(broken)) == [
        *("evidence", "referenced_files")
    ]


@given(st.dictionaries(fields, json_values))
def test_what_breaks_no_rule_of_amends_breaks_none_of_the_schema(changes: dict[str, Any]) -> None:
    document = {**SEED, **changes}
    text = json.dumps(document)
    if "\\udcff" in text:  # no JSON for other readers
        return
    schema = jsonschema_rs.validator_for(json.loads(SCHEMA.read_text()))

    if not load(document).problems:
        assert schema.is_valid(json.loads(text))


# -- a new one -----------------------------------------------------------------------------------

NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_a_new_contract_about_an_endpoint_breaks_no_rule() -> None:
    about = endpoint("get", "/items/:id")

    data = new_document(about, {"a.js": b"\x01" * 20, "caf\udce9.js": b"\x02" * 20}, NOW, "backend")

    found = parse(data, b".agent-cache.d/items.json")
    assert found.problems == ()
    assert (found.endpoint, found.repository, found.generated_at) == (about, "backend", NOW)
    assert [(each.source.path, each.oid) for each in found.references] == [
        (b"a.js", "01" * 20),
        (b"caf\xe9.js", "02" * 20),
    ]
    assert list(json.loads(data)) == [
        *("version", "generated_at", "endpoint", "repository", "success_responses"),
        *("error_responses", "evidence", "referenced_files"),
    ]


def test_a_new_contract_under_a_key_has_no_responses() -> None:
    data = new_document("schema of items", {"db/schema.rb": b"\x01" * 20}, NOW)

    assert parse(data, PATH).keys == ("schema of items", "backend/items")
    assert list(json.loads(data)) == [
        *("version", "generated_at", "key", "evidence", "referenced_files")
    ]
