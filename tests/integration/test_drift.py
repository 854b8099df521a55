"""Evidence: cited lines that stand keep a finding fresh while the file around them changes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.running import Daemon, git
from tests.integration.test_daemon import causes, eventually, make_repo, topic_in_file

ITEMS = """\
def list_items():
    return db.all()


def get_item(id):
    item = db.get(id)
    return {"id": item.id, "name": item.name}
"""
CITED = '    return {"id": item.id, "name": item.name}\n'


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


@pytest.fixture
def repo(tmp_path: Path, daemon: Daemon) -> Iterator[Path]:
    root = make_repo(tmp_path / "repo")
    (root / "items.py").write_text(ITEMS)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "items")
    tended = daemon.add(root)
    yield root
    daemon.request("DELETE", f"/v1/repos/{tended['id']}")


def put(daemon: Daemon, root: Path, *evidence: dict[str, Any]) -> Any:
    return daemon.put(root, "items", ["items.py", "a.py"], evidence=list(evidence))


LINE = {"file": "items.py", "line": 7}


@pytest.mark.parametrize(
    "cited",
    [
        LINE,
        {"file": "items.py", "start": 6, "end": 7},
        {"file": "./items.py", "quote": '"id": item.id, "name": item.name'},
    ],
)
def test_what_changes_elsewhere_is_drift_and_not_stale(
    daemon: Daemon, repo: Path, cited: dict[str, Any]
) -> None:
    put(daemon, repo, cited)
    eventually(lambda: topic_in_file(repo, "items"))

    (repo / "items.py").write_text("# a comment above\n" + ITEMS)
    answer = daemon.lookup(repo, "items")
    assert (answer["verdict"], answer["causes"], answer["drift"]) == ("fresh", [], ["items.py"])

    daemon.sync()
    assert "stale" not in topic_in_file(repo, "items")


def test_a_cited_line_that_changes_is_stale_with_what_it_was_and_is(
    daemon: Daemon, repo: Path
) -> None:
    put(daemon, repo, LINE)

    (repo / "items.py").write_text(ITEMS.replace('"name"', '"title"'))
    daemon.sync()
    answer = daemon.lookup(repo, "items")
    assert (answer["verdict"], causes(answer)) == ("stale", ["edited", "evidence"])
    assert answer["causes"][1]["lost"] == [CITED.rstrip("\n")]
    assert answer["causes"][1]["gained"] == [CITED.rstrip("\n").replace('"name"', '"title"')]

    git(repo, "commit", "-qam", "rename the field")
    daemon.sync()
    answer = daemon.lookup(repo, "items")
    assert causes(answer) == ["committed", "evidence"]
    assert answer["causes"][0]["commit"]["subject"] == "rename the field"

    git(repo, "revert", "--no-edit", "HEAD")
    answer = daemon.lookup(repo, "items")
    assert (answer["verdict"], answer["drift"]) == ("fresh", [])


def test_a_file_without_evidence_counts_byte_by_byte(daemon: Daemon, repo: Path) -> None:
    put(daemon, repo, LINE)

    (repo / "a.py").write_text("nothing was cited of this one\n")
    (repo / "items.py").write_text("# a comment above\n" + ITEMS)

    answer = daemon.lookup(repo, "items")
    assert (answer["verdict"], answer["drift"]) == ("stale", ["items.py"])
    assert [cause["source"] for cause in answer["causes"]] == ["a.py"]


@pytest.mark.parametrize(
    ("cited", "rule"),
    [
        ({"file": "items.py", "line": 99}, "evidence/0: "),
        ({"file": "items.py", "line": 1, "quote": "x"}, "evidence/0: must have one of"),
        ({"file": "items.py", "start": 3}, "evidence/0: must have both"),
        ({"file": "items.py", "quote": "nowhere"}, "evidence/0: "),
        ({"file": "b.py", "line": 1}, "evidence/0/file: 'b.py' is not one of"),
    ],
)
def test_evidence_that_says_nothing_is_refused(
    daemon: Daemon, repo: Path, cited: dict[str, Any], rule: str
) -> None:
    body = {"summary": "s", "files": ["items.py"], "evidence": [cited]}

    status, problem = daemon.request("PUT", f"/v1/entries/topic/items?cwd={repo}", body)

    assert status == 422
    assert problem["detail"].startswith(rule)


def test_drift_survives_a_restart_and_strict_ends_it(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    (root / "items.py").write_text(ITEMS)
    with Daemon(tmp_path / "daemon") as running:
        running.add(root)
        put(running, root, LINE)
        running.stop()
        (root / "items.py").write_text("# a comment above\n" + ITEMS)
        running.start()
        assert running.lookup(root, "items")["drift"] == ["items.py"]

        (running.base / "config.toml").write_text('[policy]\nevidence = "strict"\n')
        eventually(lambda: running.lookup(root, "items")["verdict"] == "stale")
        eventually(lambda: "stale" in (topic_in_file(root, "items") or ()))
