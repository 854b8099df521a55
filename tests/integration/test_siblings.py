"""Entries that cite another repository: what a person does there and what amend then says here."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.running import Daemon, git
from tests.integration.test_daemon import causes, eventually, make_repo, topic_in_file

SOURCE = "backend:src/c.py"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


@pytest.fixture
def backend(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "backend")


@pytest.fixture
def shop(tmp_path: Path, daemon: Daemon) -> Iterator[Path]:
    root = make_repo(tmp_path / "shop")
    tended = daemon.add(root)
    yield root
    daemon.request("DELETE", f"/v1/repos/{tended['id']}")


def add(daemon: Daemon, root: Path, *siblings: dict[str, str]) -> Any:
    return daemon.post("/v1/repos", {"root": str(root), "siblings": list(siblings)})


def rule(path: Path, track: str = "worktree") -> dict[str, str]:
    return {"name": "backend", "path": str(path), "track": track}


def verdict(daemon: Daemon, root: Path, key: str = "contract") -> tuple[str, list[str]]:
    answer = daemon.lookup(root, key)
    return answer["verdict"], causes(answer)


def test_what_no_sibling_has_is_unknown_even_if_this_repository_has_it(
    daemon: Daemon, shop: Path
) -> None:
    daemon.put(shop, "contract", [SOURCE])

    answer = daemon.lookup(shop, "contract")

    assert (answer["verdict"], causes(answer)) == ("unknown", ["unreadable"])
    assert answer["causes"][0]["detail"] == "no sibling is named backend"


def test_a_siblings_edit_commit_revert_and_move_are_told_here(
    daemon: Daemon, shop: Path, backend: Path
) -> None:
    add(daemon, shop, rule(backend))
    daemon.put(shop, "contract", [SOURCE, "a.py"])
    assert verdict(daemon, shop) == ("fresh", [])
    eventually(lambda: topic_in_file(shop, "contract"))

    (backend / "b.py").write_text("not cited\n")
    (shop / "src/c.py").write_text("this repository's own file of that path\n")
    assert verdict(daemon, shop) == ("fresh", [])

    (backend / "src/c.py").write_text("another shape\n")
    assert verdict(daemon, shop)[0] == "stale"
    daemon.sync()
    assert verdict(daemon, shop) == ("stale", ["edited"])
    eventually(lambda: "stale" in topic_in_file(shop, "contract"))

    git(backend, "commit", "-qam", "another shape")
    daemon.sync()
    answer = daemon.lookup(shop, "contract")
    assert (answer["verdict"], causes(answer)) == ("stale", ["committed"])
    assert answer["causes"][0]["source"] == SOURCE
    assert answer["causes"][0]["commit"]["subject"] == "another shape"

    git(backend, "revert", "--no-edit", "HEAD")
    assert verdict(daemon, shop) == ("fresh", [])
    eventually(lambda: "stale" not in topic_in_file(shop, "contract"))

    git(backend, "mv", "src/c.py", "src/moved.py")
    git(backend, "commit", "-qm", "move it")
    daemon.sync()
    answer = daemon.lookup(shop, "contract")
    assert (answer["verdict"], causes(answer)) == ("fresh", ["moved"])
    assert answer["causes"][0]["moved_to"] == "src/moved.py"


def test_a_sibling_that_is_missing_is_told_of_and_recovers_by_itself(
    daemon: Daemon, shop: Path, backend: Path
) -> None:
    add(daemon, shop, rule(backend))
    daemon.put(shop, "contract", [SOURCE])
    assert verdict(daemon, shop) == ("fresh", [])

    backend.rename(backend.with_name("elsewhere"))

    assert verdict(daemon, shop) == ("unknown", ["unreadable"])
    told = next(r for r in daemon.get("/v1/repos") if r["root"] == str(shop))
    assert told["problems"] == [f"sibling backend: {backend} is no directory"]

    backend.with_name("elsewhere").rename(backend)
    assert verdict(daemon, shop) == ("fresh", [])
    eventually(lambda: daemon.get("/v1/repos")[0]["entries"]["fresh"] == 1)

    shutil.rmtree(backend / ".git")
    assert verdict(daemon, shop) == ("unknown", ["unreadable"])


def test_a_sibling_may_be_added_before_it_exists(daemon: Daemon, shop: Path) -> None:
    later = shop.with_name("later")
    repo = add(daemon, shop, rule(later))
    assert repo["siblings"][0]["problem"] == f"sibling backend: {later} is no directory"
    daemon.put(shop, "contract", [SOURCE])
    assert verdict(daemon, shop)[0] == "unknown"

    make_repo(later)
    daemon.put(shop, "contract", [SOURCE])

    assert verdict(daemon, shop) == ("fresh", [])


@pytest.mark.parametrize("track", ["head", "ref:main"])
def test_a_tracked_ref_is_what_counts_and_not_the_files(
    daemon: Daemon, shop: Path, backend: Path, track: str
) -> None:
    add(daemon, shop, rule(backend, track))
    daemon.put(shop, "contract", [SOURCE, "!backend:src/new.py"])
    assert verdict(daemon, shop) == ("fresh", [])

    (backend / "src/c.py").write_text("not committed\n")
    assert verdict(daemon, shop) == ("fresh", [])

    git(backend, "commit", "-qam", "now it is")
    assert verdict(daemon, shop)[0] == "stale"
    daemon.sync()
    answer = daemon.lookup(shop, "contract")
    assert (answer["verdict"], causes(answer)) == ("stale", ["committed"])
    assert answer["causes"][0]["commit"]["subject"] == "now it is"
    eventually(lambda: "stale" in (topic_in_file(shop, "contract") or ()))

    git(backend, "reset", "-q", "--hard", "HEAD~1")
    assert verdict(daemon, shop) == ("fresh", [])


def test_a_ref_that_does_not_exist_is_unknown(daemon: Daemon, shop: Path, backend: Path) -> None:
    add(daemon, shop, rule(backend, "ref:origin/main"))
    daemon.put(shop, "contract", [SOURCE])

    answer = daemon.lookup(shop, "contract")

    assert answer["verdict"] == "unknown"
    assert answer["causes"][0]["detail"].endswith("has nothing at ref:origin/main")
    git(backend, "update-ref", "refs/remotes/origin/main", "HEAD")
    daemon.put(shop, "contract", [SOURCE])
    assert verdict(daemon, shop) == ("fresh", [])


def test_a_bare_sibling_has_refs_and_no_files(daemon: Daemon, shop: Path, backend: Path) -> None:
    bare = backend.with_name("bare.git")
    git(backend, "clone", "-q", "--bare", str(backend), str(bare))
    repo = add(daemon, shop, rule(bare))
    assert repo["siblings"][0]["problem"].endswith("without files: track head or a ref")

    add(daemon, shop, rule(bare, "ref:main"))
    daemon.put(shop, "contract", [SOURCE])
    assert verdict(daemon, shop) == ("fresh", [])
    (backend / "src/c.py").write_text("pushed\n")
    git(backend, "commit", "-qam", "pushed")
    git(backend, "push", "-q", str(bare), "main")

    assert verdict(daemon, shop)[0] == "stale"
    daemon.sync()
    answer = daemon.lookup(shop, "contract")
    assert answer["causes"][0]["commit"]["subject"] == "pushed"


def test_one_sibling_serves_many_and_outlives_the_removal_of_one(
    daemon: Daemon, shop: Path, backend: Path, tmp_path: Path
) -> None:
    other = make_repo(tmp_path / "other")
    tended = add(daemon, other, rule(backend))
    add(daemon, shop, rule(backend))
    daemon.put(shop, "contract", [SOURCE])
    daemon.put(other, "contract", [SOURCE])
    own = daemon.add(backend)

    for repo in (tended, own):
        daemon.request("DELETE", f"/v1/repos/{repo['id']}")
    eventually(lambda: topic_in_file(shop, "contract"))
    (backend / "src/c.py").write_text("edited\n")

    eventually(lambda: "stale" in topic_in_file(shop, "contract"))  # told by the watch alone


def test_siblings_are_remembered_and_the_configuration_wins(tmp_path: Path, backend: Path) -> None:
    root = make_repo(tmp_path / "shop")
    with Daemon(tmp_path / "daemon") as running:
        add(running, root, rule(backend))
        running.put(root, "contract", [SOURCE])
        running.stop()
        running.start()
        assert verdict(running, root) == ("fresh", [])

        config = running.base / "config.toml"
        config.write_text(
            f'[[repo]]\nroot = "{root}"\n[[repo.sibling]]\nname = "backend"\npath = "../nowhere"\n'
        )
        eventually(lambda: verdict(running, root)[0] == "unknown")
        config.write_text("")
        eventually(lambda: verdict(running, root) == ("fresh", []))
