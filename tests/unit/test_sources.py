"""What a `files` item names, and which items name nothing."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.model import RelPath, Source, SourceKind, path_text
from amend.core.sources import PATH_BYTES_MAX, are_plain, parse_spec

FILE, ABSENT = SourceKind.FILE, SourceKind.ABSENT
LISTING, GLOB = SourceKind.LISTING, SourceKind.GLOB


@pytest.mark.parametrize(
    ("spec", "kind", "path", "sibling"),
    [
        ("src/auth.ts", FILE, b"src/auth.ts", None),
        ("README", FILE, b"README", None),
        (".env.example", FILE, b".env.example", None),
        ("./src//auth.ts", FILE, b"src/auth.ts", None),
        ("src/./a.ts", FILE, b"src/a.ts", None),
        ("app/[id].tsx", FILE, b"app/[id].tsx", None),
        ("a file, with spaces.md", FILE, b"a file, with spaces.md", None),
        ("…/é.md", FILE, "…/é.md".encode(), None),
        ("caf\udce9.md", FILE, b"caf\xe9.md", None),
        ("..a/b..c/...", FILE, b"..a/b..c/...", None),
        ("git/.gitignore", FILE, b"git/.gitignore", None),
        ("src/routes/", LISTING, b"src/routes", None),
        ("src/routes/.", LISTING, b"src/routes", None),
        ("src//", LISTING, b"src", None),
        ("./", LISTING, b"", None),
        (".", LISTING, b"", None),
        ("src/routes/*.ts", GLOB, b"src/routes/*.ts", None),
        ("src/**/*.ts", GLOB, b"src/**/*.ts", None),
        ("**", GLOB, b"**", None),
        ("a?.ts", GLOB, b"a?.ts", None),
        ("app/[id]/*.tsx", GLOB, b"app/[id]/*.tsx", None),
        ("!src/legacy.ts", ABSENT, b"src/legacy.ts", None),
        ("!src/legacy/", ABSENT, b"src/legacy", None),
        ("!./a", ABSENT, b"a", None),
        ("!!a", ABSENT, b"!a", None),
        ("backend:src/a.ts", FILE, b"src/a.ts", "backend"),
        ("back_end-2:./src/", LISTING, b"src", "back_end-2"),
        ("backend:*.py", GLOB, b"*.py", "backend"),
        ("!backend:src/old.ts", ABSENT, b"src/old.ts", "backend"),
        ("backend:a:b", FILE, b"a:b", "backend"),
        ("a.ts:3", FILE, b"a.ts:3", None),
        ("-a:b", FILE, b"-a:b", None),
        ("src/a:b", FILE, b"src/a:b", None),
        ("./a:b", FILE, b"a:b", None),
        ("./!a", FILE, b"!a", None),
        ("a\nb", FILE, b"a\nb", None),
    ],
)
def test_a_spec_names_one_source(
    spec: str, kind: SourceKind, path: bytes, sibling: str | None
) -> None:
    assert parse_spec(spec) == Source(kind, RelPath(path), sibling)


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ("", "names no path"),
        ("!", "names no path"),
        ("backend:", "names no path"),
        ("/etc/passwd", "is absolute"),
        ("!/etc/passwd", "is absolute"),
        ("backend:/etc/passwd", "is absolute"),
        ("//", "is absolute"),
        ("..", "contains `..`"),
        ("../x", "contains `..`"),
        ("src/../x", "contains `..`"),
        ("src/..", "contains `..`"),
        ("!../x", "contains `..`"),
        ("backend:../x", "contains `..`"),
        ("*/../x", "contains `..`"),
        ("a\0b", "holds a NUL byte"),
        (".git", "is inside .git"),
        (".git/config", "is inside .git"),
        ("sub/.GIT/hooks/", "is inside .git"),
        ("!.git/index.lock", "is inside .git"),
        ("backend:.Git/HEAD", "is inside .git"),
        (".git/*", "is inside .git"),
        ("!src/*.ts", "asserts the absence of a pattern"),
        ("!a?", "asserts the absence of a pattern"),
        ("!./", "asserts the absence of the root"),
        ("src/*/", "is a pattern that ends in `/`"),
        ("src/a**/b", "has `**` inside a name"),
        ("***", "has `**` inside a name"),
        ("a\ud800b", "holds a character that can stand in no file name"),
        ("a" * (PATH_BYTES_MAX + 1), f"is longer than {PATH_BYTES_MAX} bytes"),
        ("é" * (PATH_BYTES_MAX // 2 + 1), f"is longer than {PATH_BYTES_MAX} bytes"),
    ],
)
def test_what_names_nothing_is_refused_with_the_rule(spec: str, rule: str) -> None:
    with pytest.raises(ValueError, match="^" + rule.replace("*", r"\*").replace(".", r"\.")):
        parse_spec(spec)


def test_a_path_of_the_longest_length_is_taken() -> None:
    longest = "a" * PATH_BYTES_MAX

    source = parse_spec(longest)

    assert len(source.path) == PATH_BYTES_MAX


SPECS = st.one_of(
    st.text(alphabet="ab.*?!:/[]~ \udcff\n", max_size=14),
    st.text(alphabet=string.ascii_letters + "/.", max_size=20),
    st.text(max_size=20),
    st.builds("{}{}{}".format, st.sampled_from(["", "!"]), st.sampled_from(["", "be:"]), st.text()),
)


def can_be_written_back(source: Source) -> bool:
    """Not: a root's listing, and names that look like another kind of spec; see `Source.spec`."""
    if not source.path:
        return False
    if source.repository is not None:
        return True
    name = source.path.split(b"/")[0]
    starts = source.kind is SourceKind.ABSENT or not name.startswith(b"!")
    return starts and b":" not in name


@given(SPECS)
def test_a_spec_is_refused_with_a_rule_or_names_a_source_inside_the_root(spec: str) -> None:
    try:
        source = parse_spec(spec)
    except ValueError as error:
        rule = str(error)
        assert rule
        assert rule[0].islower()
        assert not rule.endswith(".") or rule.endswith("`..`")
        return

    parts = source.path.split(b"/") if source.path else []
    assert all(part not in (b"", b".", b"..") for part in parts)
    assert all(part.lower() != b".git" for part in parts)
    assert b"\0" not in source.path


@given(SPECS)
def test_the_spec_of_a_source_names_that_source(spec: str) -> None:
    try:
        source = parse_spec(spec)
    except ValueError:
        return
    if not can_be_written_back(source):
        return

    assert parse_spec(source.spec) == source


@pytest.mark.parametrize("spec", ["./", "backend:./", "./a:b", "./!a", "!./a:b", "./a:b/", "./a:*"])
def test_a_spec_that_needs_its_dot_slash_keeps_it(spec: str) -> None:
    source = parse_spec(spec)

    assert parse_spec(source.spec) == source


@given(st.binary(min_size=1, max_size=30))
def test_any_file_name_can_be_cited(name: bytes) -> None:
    name = name.replace(b"/", b"").replace(b"\0", b"").replace(b"*", b"").replace(b"?", b"")
    if name.lower() in (b"", b".", b"..", b".git"):
        return

    source = parse_spec("./" + path_text(name))

    assert source == Source(SourceKind.FILE, RelPath(name))


@given(st.lists(st.one_of(SPECS, st.none(), st.integers()), max_size=4))
def test_specs_called_plain_are_all_taken(specs: list[object]) -> None:
    if not are_plain(specs):
        return

    for spec in specs:
        assert isinstance(spec, str)
        parse_spec(spec)


def test_the_specs_that_agents_write_are_plain() -> None:
    assert are_plain(["src/auth.ts", "README.md", "packages/@scope/a-b_c/index.d.ts", "Makefile"])
    assert not are_plain(["a" * (PATH_BYTES_MAX + 1)])
    assert not are_plain(["src/../x"])
    assert not are_plain(["src/a.ts", 3])
