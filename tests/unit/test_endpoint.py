"""Which contract's endpoint a question means, in every notation that routers use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.endpoint import (
    ENDPOINT_CHARS_MAX,
    Endpoint,
    asked,
    covers,
    distance,
    endpoint,
)

ONE = [":{}", "{{{}}}", "<{}>", "<int:{}>", "[{}]", ":{}(\\d+)", "{{{}:int}}", "{{{}?}}"]
MANY = ["*", "*{}", "{{*{}}}", "{{{}...}}", "{{{}:path}}", "<path:{}>", "[...{}]", ":{}+"]
ANY = ["**", ":{}*", "[[...{}]]"]

words = st.text(alphabet="abcxyz019_", min_size=1, max_size=6)
literals = st.text(alphabet="abcxyz019-_.~%@!$&+,;=", min_size=1, max_size=6)


def named(notations: list[str]) -> st.SearchStrategy[str]:
    return st.builds(str.format, st.sampled_from(notations), words)


mixed = st.builds("{}.{}".format, named(["{{{}}}", "<{}>", ":{}"]), words)
segments = st.one_of(literals, named(ONE), named(MANY), named(ANY), mixed)
methods = st.sampled_from([None, "GET", "post", "Delete"])


@st.composite
def endpoints(draw: st.DrawFn, of: st.SearchStrategy[str] = segments) -> Endpoint:
    path = "/" + "/".join(draw(st.lists(of, max_size=5)))
    return endpoint(draw(methods), path)


def question(text: str) -> Endpoint:
    found = asked(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "same",
    [
        "GET /items/{id}",
        "GET /items/<id>",
        "GET /items/<int:id>",
        "GET /items/42",
        "GET /items/[id]",
        "get /items/:item_id",
        "/items/42",
        "GET /items/42/",
        "GET /items/42?expand=owner&x=/a/b",
        "GET /items/42#top",
        "GET https://api.example.org:8443/items/42?x=1",
        "  GET   /items/42 ",
    ],
)
def test_the_seeds_endpoint_is_found_in_every_notation(same: str) -> None:
    assert covers(endpoint("GET", "/items/:id"), question(same))


@pytest.mark.parametrize(
    "other",
    [
        "POST /items/42",
        "GET /items",
        "GET /items/",
        "GET /items//",
        "GET /items/42/reviews",
        "GET /Items/42",
        "GET /things/42",
        "GET /items/*",
        "GET /items/:path*",
        "GET /",
    ],
)
def test_another_endpoint_is_not_the_seeds(other: str) -> None:
    assert not covers(endpoint("GET", "/items/:id"), question(other))


@pytest.mark.parametrize(
    ("described", "inside", "outside"),
    [
        ("/files/*", ["/files/a", "/files/a/b", "/files/:x"], ["/files", "/filesystem"]),
        ("/files/**", ["/files", "/files/", "/files/a/b/c"], ["/file"]),
        ("/files/:path*", ["/files", "/files/a", "/files/a/b"], ["/x/files"]),
        ("/files/:path+", ["/files/a/b"], ["/files"]),
        ("/files/<path:rest>", ["/files/a/b", "/files/:path*"], ["/files"]),
        ("/docs/[...slug]", ["/docs/a/b"], ["/docs"]),
        ("/docs/[[...slug]]", ["/docs", "/docs/a/b"], ["/doc"]),
        ("/a/**/z", ["/a/z", "/a/b/z", "/a/b/c/z", "/a/z/z"], ["/a", "/a/z/b"]),
        ("**", ["/", "/a", "/a/b"], []),
        ("items/:id", ["/items/1"], ["/items"]),
        ("/items/{id}.json", ["/items/1.json", "/items/:id.json"], ["/items/.json", "/items/1"]),
        ("/c/{base}...{head}", ["/c/a...b", "/c/a...b...c"], ["/c/a...", "/c/...b", "/c/a"]),
        ("/v1/{name}:cancel", ["/v1/x:cancel"], ["/v1/:cancel", "/v1/x"]),
        ("/v1/items:batch", ["/v1/items:batch"], ["/v1/items1", "/v1/itemsx"]),
        ("/items/:id/reviews", ["/items/1/reviews"], ["/items//reviews", "/items/reviews"]),
        ("/items/:id?", ["/items/1"], ["/items"]),
        ("/items/:id(.:format)", ["/items/1"], ["/items"]),
        ("/a(b)[0]+", ["/a(b)x+"], ["/ab0"]),
    ],
)
def test_a_pattern_covers_what_a_router_would_send_there(
    described: str, inside: list[str], outside: list[str]
) -> None:
    pattern = endpoint(None, described)

    assert [path for path in inside if not covers(pattern, question(path))] == []
    assert [path for path in outside if covers(pattern, question(path))] == []


def test_a_missing_method_is_any_method_on_either_side() -> None:
    assert covers(endpoint(None, "/a"), question("PATCH /a"))
    assert covers(endpoint("patch", "/a"), question("/a"))
    assert covers(endpoint("", "/a"), question("PATCH /a"))


def test_a_contract_about_one_item_does_not_answer_for_all_of_them() -> None:
    assert not covers(endpoint("GET", "/items/42"), question("GET /items/:id"))


def test_the_closest_contract_comes_first() -> None:
    described = [
        endpoint("GET", path)
        for path in ("/**", "/users/*", "/:kind/me", "/users/:id", "/users/m{rest}", "/users/me")
    ]

    found = sorted(
        (each for each in described if covers(each, question("GET /users/me"))), key=distance
    )

    assert [each.path for each in found] == [
        *("/users/me", "/users/m{rest}", "/users/:id", "/users/*", "/:kind/me", "/**")
    ]


def test_a_contract_that_names_its_method_is_closer() -> None:
    assert distance(endpoint("GET", "/a/:b")) < distance(endpoint(None, "/a/:b"))
    assert distance(endpoint(None, "/a/b")) < distance(endpoint("GET", "/a/:b"))


@pytest.mark.parametrize("text", ["items", "GET", "GET items", "items/42", "", "schema of /a b"])
def test_a_key_is_no_endpoint(text: str) -> None:
    assert asked(text) is None


@pytest.mark.parametrize("path", ["/a\0b", "/" + "a" * ENDPOINT_CHARS_MAX])
def test_what_no_server_takes_is_no_path(path: str) -> None:
    with pytest.raises(ValueError, match=r"NUL|longer"):
        endpoint("GET", path)
    assert asked(path) is None


@given(endpoints())
def test_every_endpoint_covers_itself(one: Endpoint) -> None:
    assert covers(one, one)


@given(endpoints(), st.text(max_size=30), st.sampled_from(["GET", "Get", "gEt"]))
def test_slashes_query_fragment_and_the_methods_case_never_count(
    described: Endpoint, rest: str, method: str
) -> None:
    rest = rest.replace("\0", "").replace("}", "")
    plain = endpoint("GET", described.path)

    for path in (f"{described.path}/", f"{described.path}?{rest}", f"{described.path}/#{rest}"):
        assert endpoint(method, path).parts == plain.parts
        assert endpoint(method, path).method == plain.method


@given(st.lists(st.tuples(literals, st.booleans()), min_size=1, max_size=5), st.data())
def test_a_parameter_covers_one_segment_and_a_literal_itself(
    parts: list[tuple[str, bool]], data: st.DataObject
) -> None:
    shape = [data.draw(named(ONE)) if is_parameter else text for text, is_parameter in parts]
    filled = [data.draw(literals) if is_parameter else text for text, is_parameter in parts]
    at = data.draw(st.integers(0, len(parts) - 1))
    described = endpoint(None, "/" + "/".join(shape))

    assert covers(described, endpoint("GET", "/" + "/".join(filled)))
    emptied = [*filled[:at], "", *filled[at + 1 :]]
    assert not covers(described, endpoint("GET", "/" + "/".join(emptied)))
    assert not covers(described, endpoint("GET", "/" + "/".join([*filled, "more"])))
    if not parts[at][1]:
        other = [*filled[:at], filled[at] + "x", *filled[at + 1 :]]
        assert not covers(described, endpoint("GET", "/" + "/".join(other)))


@given(endpoints(), endpoints(), endpoints(literals))
def test_covering_is_transitive_down_to_a_real_path(
    wide: Endpoint, narrow: Endpoint, real: Endpoint
) -> None:
    wide, narrow = endpoint(None, wide.path), endpoint(None, narrow.path)

    if covers(wide, narrow) and covers(narrow, real):
        # A catch-all of any number lies in one of at least one, but for its empty case.
        assert covers(wide, real) or len(real.parts) < len(wide.parts)


@given(endpoints(literals), st.lists(endpoints(), max_size=6))
def test_a_literal_path_is_closest_to_itself(real: Endpoint, others: list[Endpoint]) -> None:
    exact = endpoint("GET", real.path)

    closest = min(
        (each for each in (*others, exact) if covers(each, exact)),
        key=distance,
    )

    assert distance(closest) == distance(exact)


def test_hostile_patterns_take_no_time() -> None:
    described = endpoint(None, "/**" * 300 + "/x")
    mixed_up = endpoint(None, "/" + "{a}b" * 400)

    assert not covers(described, endpoint(None, "/a" * 900))
    assert not covers(mixed_up, endpoint(None, "/" + "ab" * 399 + "a"))
