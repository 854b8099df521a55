"""Paths as typed, from where the person is."""

from pathlib import Path

import pytest

from amend.cli.specs import from_here, nearest
from amend.errors import NotFound, RequestInvalid


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    for name in ("src/auth.ts", "src/routes/a.ts", "README", "src/a:b"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    return root


@pytest.mark.parametrize(
    ("where", "typed", "spec"),
    [
        (".", "src/auth.ts", "src/auth.ts"),
        ("src", "auth.ts", "src/auth.ts"),
        ("src", "./auth.ts", "src/auth.ts"),
        ("src/routes", "../auth.ts", "src/auth.ts"),
        ("src", "routes/", "src/routes/"),
        ("src", ".", "src/"),
        (".", ".", "./"),
        ("src", "..", "./"),
        ("src", "routes/*.ts", "src/routes/*.ts"),
        ("src", "!old.ts", "!src/old.ts"),
        ("src", "backend:src/api.ts", "backend:src/api.ts"),
        ("src", "!backend:src/api.ts", "!backend:src/api.ts"),
        ("src", "./a:b", "src/a:b"),
        # From the cache file, where specs begin at the root.
        ("src", "src/auth.ts", "src/auth.ts"),
        ("src", "gone.ts", "src/gone.ts"),
    ],
)
def test_a_typed_path_becomes_a_spec_from_the_root(
    root: Path, where: str, typed: str, spec: str
) -> None:
    assert from_here([typed], str(root / where), [str(root)]) == [spec]


def test_an_absolute_path_inside_is_taken(root: Path) -> None:
    assert from_here([str(root / "README")], str(root / "src"), [str(root)]) == ["README"]


def test_a_file_that_looks_like_a_siblings_keeps_its_dot(root: Path) -> None:
    (root / "a:b").write_text("x")

    assert from_here(["./a:b"], str(root), [str(root)]) == ["./a:b"]


@pytest.mark.parametrize("typed", ["../other", "/etc/passwd", "!../x", "!", ""])
def test_a_path_outside_is_refused(root: Path, typed: str) -> None:
    with pytest.raises(RequestInvalid):
        from_here([typed], str(root), [str(root)])


def test_the_nearest_root_counts(root: Path) -> None:
    roots = [str(root.parent), str(root), "/", str(root / "src-other")]

    assert nearest(str(root / "src"), roots) == str(root)
    assert nearest("/elsewhere", roots) == "/"


def test_a_directory_that_nobody_tends_is_told(root: Path) -> None:
    with pytest.raises(NotFound, match="no repository that amend tends"):
        from_here(["README"], str(root), ["/elsewhere"])


def test_a_link_to_the_repository_leads_into_it(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root / "src")

    assert from_here(["auth.ts"], str(tmp_path / "link"), [str(root)]) == ["src/auth.ts"]
