"""One memory tree on a real disk: what `sync` makes of it, without a watch and without a daemon."""

import os
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import pytest
import pytest_asyncio

from amend.core.aicontext import Noted
from amend.daemon.memory_tree import MemoryTree
from amend.edge.git.places import discover
from amend.edge.store import Store
from amend.errors import Refused, RequestInvalid
from tests.integration.git_repositories import new_repository


class Tree:
    """A tree in `root`, and what a person does to it."""

    def __init__(self, root: Path, store: Store) -> None:
        self.root = root
        self.store = store
        self.tree = self.new()

    def new(self) -> MemoryTree:
        return MemoryTree(
            os.fsencode(self.root),
            b"memory",
            places=discover(os.fsencode(self.root)),
            store=self.store,
            watch=None,
            retain_dir=os.fsencode(self.root.parent / "displaced"),
        )

    def restart(self) -> None:
        self.tree.stop()
        self.tree = self.new()

    def path(self, name: str) -> Path:
        return self.root / "memory" / name

    def write(self, name: str, text: str | bytes) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def note(self, name: str, title: str) -> None:
        self.write(name, f"2026-04-10: {title}\n  - a bullet\n")

    def read(self, name: str = "index.aicontext") -> str:
        return self.path(name).read_text()

    async def sync(self) -> tuple[str, ...]:
        return await self.tree.sync()


@pytest_asyncio.fixture
async def tree(tmp_path: Path) -> AsyncIterator[Tree]:
    root = tmp_path / "repository"
    root.mkdir()
    store = Store(":memory:")
    tree = Tree(root, store)
    yield tree
    tree.tree.stop()
    store.close()


async def test_a_new_note_gets_a_line_in_every_index_above_it(tree: Tree) -> None:
    tree.note("decisions/auth.aicontext", "JWT and Redis")

    written = await tree.sync()

    assert set(written) == {"memory/index.aicontext", "memory/decisions/index.aicontext"}
    assert "file: auth.aicontext | JWT and Redis\n" in tree.read("decisions/index.aicontext")
    assert "dir: decisions/ | decisions\n" in tree.read()


async def test_what_is_in_step_is_not_written(tree: Tree) -> None:
    tree.note("decisions/auth.aicontext", "JWT and Redis")
    await tree.sync()
    before = tree.path("index.aicontext").stat().st_ino

    written = await tree.sync()

    assert written == ()
    assert tree.path("index.aicontext").stat().st_ino == before


async def test_a_removed_note_loses_its_line(tree: Tree) -> None:
    tree.note("auth.aicontext", "JWT")
    tree.note("db.aicontext", "PostgreSQL")
    await tree.sync()

    tree.path("auth.aicontext").unlink()
    await tree.sync()

    assert "auth" not in tree.read()
    assert "file: db.aicontext | PostgreSQL\n" in tree.read()


async def test_a_placeholder_that_a_person_wrote_is_kept(tree: Tree) -> None:
    tree.write("index.aicontext", "dir: infra/ | to come\nfile: auth.aicontext | ours\n")
    tree.note("auth.aicontext", "JWT")

    written = await tree.sync()

    assert written == ()
    assert tree.read() == "dir: infra/ | to come\nfile: auth.aicontext | ours\n"


async def test_a_renamed_note_keeps_the_description_that_a_person_wrote(tree: Tree) -> None:
    tree.note("auth.aicontext", "JWT")
    tree.write("index.aicontext", "# top\nfile: auth.aicontext | by hand\n")
    await tree.sync()

    tree.path("auth.aicontext").rename(tree.path("login.aicontext"))
    await tree.sync()

    assert tree.read() == "# top\nfile: login.aicontext | by hand\n"


async def test_a_moved_note_takes_its_description_along(tree: Tree) -> None:
    tree.note("a/auth.aicontext", "JWT")
    tree.note("b/db.aicontext", "PostgreSQL")
    tree.write("a/index.aicontext", "file: auth.aicontext | by hand\n")
    await tree.sync()

    tree.path("a/auth.aicontext").rename(tree.path("b/auth.aicontext"))
    await tree.sync()

    assert "file: auth.aicontext | by hand\n" in tree.read("b/index.aicontext")
    assert "auth" not in tree.read("a/index.aicontext")


async def test_a_renamed_directory_keeps_its_line(tree: Tree) -> None:
    tree.note("a/auth.aicontext", "JWT")
    tree.note("a/db.aicontext", "PostgreSQL")
    await tree.sync()
    tree.write("index.aicontext", tree.read().replace("| a\n", "| by hand\n"))
    await tree.sync()

    tree.path("a").rename(tree.path("z"))
    await tree.sync()

    assert "dir: z/ | by hand\n" in tree.read()
    assert "dir: a/" not in tree.read()


async def test_what_was_renamed_while_amend_was_away_keeps_its_description(tree: Tree) -> None:
    tree.note("a/auth.aicontext", "JWT")
    tree.note("b/db.aicontext", "PostgreSQL")
    tree.write("a/index.aicontext", "file: auth.aicontext | by hand\n")
    await tree.sync()

    tree.path("a/auth.aicontext").rename(tree.path("b/login.aicontext"))
    tree.restart()
    await tree.sync()

    assert "file: login.aicontext | by hand\n" in tree.read("b/index.aicontext")
    assert "auth" not in tree.read("a/index.aicontext")


async def test_what_was_removed_while_amend_was_away_loses_its_line(tree: Tree) -> None:
    tree.note("auth.aicontext", "JWT")
    tree.note("db.aicontext", "PostgreSQL")
    await tree.sync()

    tree.path("auth.aicontext").unlink()
    tree.restart()
    await tree.sync()

    assert "auth" not in tree.read()


async def test_a_new_title_is_a_new_description_where_amend_derived_the_old(tree: Tree) -> None:
    tree.note("auth.aicontext", "JWT")
    tree.note("db.aicontext", "PostgreSQL")
    await tree.sync()
    tree.write("index.aicontext", tree.read().replace("| PostgreSQL", "| by hand"))

    tree.note("auth.aicontext", "OAuth")
    tree.note("db.aicontext", "SQLite")
    await tree.sync()

    assert "file: auth.aicontext | OAuth\n" in tree.read()
    assert "file: db.aicontext | by hand\n" in tree.read()


async def test_a_directory_with_a_stated_purpose_is_described_by_it(tree: Tree) -> None:
    tree.note("decisions/auth.aicontext", "JWT")
    await tree.sync()

    index = tree.read("decisions/index.aicontext").splitlines(keepends=True)
    tree.write("decisions/index.aicontext", "".join(["# decisions/ - Why we chose\n", *index[1:]]))
    await tree.sync()

    assert "dir: decisions/ | Why we chose\n" in tree.read()


async def test_a_directory_that_happens_to_be_called_memory_is_left_alone(tree: Tree) -> None:
    tree.write("allocator.py", "code\n")
    tree.write("pool/arena.py", "code\n")

    written = await tree.sync()

    assert written == ()
    assert sorted(os.listdir(tree.path(""))) == ["allocator.py", "pool"]


async def test_directories_of_other_files_and_hidden_names_are_not_listed(tree: Tree) -> None:
    tree.note("auth.aicontext", "JWT")
    tree.write("pictures/a.png", b"\x89PNG")
    tree.write(".drafts/b.aicontext", "2026-01-01: x\n")
    tree.write("c.aicontext~", "an editor's\n")

    await tree.sync()

    assert [line for line in tree.read().splitlines() if ":" in line] == [
        "file: auth.aicontext | JWT"
    ]
    assert os.listdir(tree.path("pictures")) == ["a.png"]


async def test_an_emptied_directory_keeps_its_index_and_its_line(tree: Tree) -> None:
    tree.note("bugs/leak.aicontext", "a leak")
    tree.note("auth.aicontext", "JWT")
    await tree.sync()

    tree.path("bugs/leak.aicontext").unlink()
    await tree.sync()

    assert "leak" not in tree.read("bugs/index.aicontext")
    assert "dir: bugs/" in tree.read()


async def test_a_removed_directory_loses_its_line(tree: Tree) -> None:
    tree.note("bugs/leak.aicontext", "a leak")
    tree.note("auth.aicontext", "JWT")
    await tree.sync()

    for path in tree.path("bugs").iterdir():
        path.unlink()
    tree.path("bugs").rmdir()
    await tree.sync()

    assert "bugs" not in tree.read()


async def test_the_dictionary_is_listed(tree: Tree) -> None:
    tree.note("auth.aicontext", "JWT")
    tree.write("dict.aicontext", "SMS: session management strategy\n")

    await tree.sync()

    assert "dict: dict.aicontext | " in tree.read()


@pytest.mark.parametrize(
    "index",
    [
        b"<<<<<<< HEAD\nfile: a.aicontext | a\n=======\nfile: b.aicontext | b\n>>>>>>> other\n",
        b"file: auth.aicontext | caf\xe9\n",
    ],
    ids=["conflict markers", "no UTF-8"],
)
async def test_an_index_that_is_not_understood_is_left_alone_and_reported(
    tree: Tree, index: bytes
) -> None:
    tree.note("login.aicontext", "OAuth")
    tree.write("index.aicontext", index)

    written = await tree.sync()

    assert written == ()
    assert tree.path("index.aicontext").read_bytes() == index
    assert [p for p in tree.tree.problems() if p.startswith("memory/index.aicontext: ")]


async def test_a_symlinked_tree_is_refused(tree: Tree, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.aicontext").write_text("2026-01-01: x\n")
    (tree.root / "memory").symlink_to(elsewhere)

    written = await tree.tree.sync()

    assert written == ()
    assert os.listdir(elsewhere) == ["a.aicontext"]
    assert any("symlink" in problem for problem in tree.tree.problems())


async def test_a_symlinked_index_is_refused(tree: Tree, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("file: other.aicontext | other\n")
    tree.note("auth.aicontext", "JWT")
    tree.path("index.aicontext").symlink_to(target)

    await tree.tree.sync()

    assert target.read_text() == "file: other.aicontext | other\n"
    assert any("symlink" in problem for problem in tree.tree.problems())


async def test_a_saved_note_is_written_with_its_indexes(tree: Tree) -> None:
    entry = Noted(date(2026, 4, 10), "JWT", ("stateless",))

    saved = await tree.tree.save("decisions", "auth", entry)

    assert (saved.path, saved.created) == ("memory/decisions/auth.aicontext", True)
    assert tree.read("decisions/auth.aicontext") == "2026-04-10: JWT\n  - stateless\n"
    assert set(saved.indexes) == {"memory/index.aicontext", "memory/decisions/index.aicontext"}
    assert "file: auth.aicontext | JWT\n" in tree.read("decisions/index.aicontext")


async def test_saving_a_topic_again_merges_it(tree: Tree) -> None:
    await tree.tree.save("decisions", "auth", Noted(date(2026, 4, 10), "JWT", ("stateless", "old")))

    saved = await tree.tree.save(
        "decisions",
        "auth",
        Noted(date(2026, 5, 1), "JWT and Redis", ("Stateless.", "new")),
        ["old"],
    )

    assert not saved.created
    assert tree.read("decisions/auth.aicontext") == (
        "2026-05-01: JWT and Redis\n  - Stateless.\n  - new\n"
    )


async def test_a_save_that_replaces_what_is_not_there_changes_nothing(tree: Tree) -> None:
    await tree.tree.save("decisions", "auth", Noted(date(2026, 4, 10), "JWT", ("stateless",)))
    before = tree.read("decisions/auth.aicontext")

    with pytest.raises(RequestInvalid, match="no such bullet"):
        await tree.tree.save(
            "decisions", "auth", Noted(date(2026, 5, 1), "JWT", ("new",)), ["no such bullet"]
        )

    assert tree.read("decisions/auth.aicontext") == before


async def test_nothing_is_saved_behind_a_symlink(tree: Tree, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    tree.note("auth.aicontext", "JWT")
    tree.path("decisions").symlink_to(elsewhere)

    with pytest.raises(Refused, match="symlink"):
        await tree.tree.save("decisions", "auth", Noted(date(2026, 4, 10), "JWT", ("x",)))

    assert os.listdir(elsewhere) == []


async def test_what_git_is_told_to_ignore_is_not_listed(tmp_path: Path, tree: Tree) -> None:
    repository = new_repository(tree.root, tmp_path / "home")
    repository.write(".gitignore", "private*\ndrafts/\n")
    tree.tree = tree.new()
    tree.note("auth.aicontext", "JWT")
    tree.note("private-notes.aicontext", "mine")
    tree.note("drafts/idea.aicontext", "an idea")

    await tree.sync()

    assert [line for line in tree.read().splitlines() if ":" in line] == [
        "file: auth.aicontext | JWT"
    ]
    assert os.listdir(tree.path("drafts")) == ["idea.aicontext"]


async def test_a_tree_that_git_is_told_to_ignore_is_kept_in_step(
    tmp_path: Path, tree: Tree
) -> None:
    repository = new_repository(tree.root, tmp_path / "home")
    repository.write(".gitignore", "memory/\n")
    tree.tree = tree.new()
    tree.note("auth.aicontext", "JWT")

    await tree.sync()
    tree.note("db.aicontext", "PostgreSQL")
    await tree.sync()

    assert "file: auth.aicontext | JWT\nfile: db.aicontext | PostgreSQL\n" in tree.read()


async def test_nothing_is_written_while_git_is_in_the_middle_of_a_merge(
    tmp_path: Path, tree: Tree
) -> None:
    repository = new_repository(tree.root, tmp_path / "home")
    repository.commit("begin", **{"a.py": "one\n"})
    repository.write(".git/MERGE_HEAD", repository.head() + "\n")
    tree.tree = tree.new()
    tree.note("auth.aicontext", "JWT")

    with pytest.raises(Refused, match="in the middle of a merge"):
        await tree.sync()

    assert os.listdir(tree.path("")) == ["auth.aicontext"]
