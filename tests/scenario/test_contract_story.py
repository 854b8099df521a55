"""The second seed's own story, with two real repositories: a frontend remembers what a backend's
endpoint answers, and is told exactly when that is no longer so."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.running import Daemon, git
from tests.integration.test_daemon import causes, eventually

ROUTES = """\
const db = require("../db");

router.get("/items/:id", (req, res) => {
  const item = db.find(req.params.id);
  res.json({ id: item.id, name: item.name });
});
"""
CITED = "  res.json({ id: item.id, name: item.name });"
SERIALIZER = "module.exports = (item) => item;\n"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


class Story:
    def __init__(self, base: Path, daemon: Daemon) -> None:
        self.daemon = daemon
        self.backend, self.frontend = base / "backend", base / "frontend"
        (self.backend / "src/routes").mkdir(parents=True)
        (self.backend / "src/serializers").mkdir(parents=True)
        self.routes = self.backend / "src/routes/items.js"
        self.routes.write_text(ROUTES)
        (self.backend / "src/serializers/item.js").write_text(SERIALIZER)
        (self.backend / "README.md").write_text("backend\n")
        self.frontend.mkdir()
        (self.frontend / "app.js").write_text("app\n")
        for root in (self.backend, self.frontend):
            git(root, "init", "-q", "-b", "main")
            git(root, "add", "-A")
            git(root, "commit", "-qm", "begin")
        self.added = daemon.post(
            "/v1/repos",
            {
                "root": str(self.frontend),
                "siblings": [{"name": "backend", "path": str(self.backend)}],
            },
        )

    def record(self, **more: Any) -> Path:
        """As the seed's scout does: the last commit that touched each file."""
        files = ("src/routes/items.js", "src/serializers/item.js")
        hashes = {f: git(self.backend, "log", "-n1", "--format=%H", "--", f).strip() for f in files}
        document = {
            "version": 1,
            "generated_at": "2026-01-20T00:00:00.000Z",
            "endpoint": {"method": "GET", "path": "/items/:id"},
            "success_responses": [{"status": 200, "body": {"id": "string", "name": "string"}}],
            "error_responses": [{"status": 404}],
            "evidence": [{"file": "src/routes/items.js", "line": 5}],
            "referenced_files": hashes,
            **more,
        }
        path = self.frontend / ".agent-cache.d/backend/items.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2))
        self.daemon.sync()
        return path

    def ask(self, endpoint: str = "get /items/42") -> Any:
        return self.daemon.post("/v1/lookup", {"cwd": str(self.frontend), "endpoint": endpoint})

    def told(self) -> tuple[str, list[str], list[str]]:
        answer = self.ask()
        return answer["verdict"], causes(answer), answer["drift"]


@pytest.fixture
def story(tmp_path: Path, daemon: Daemon) -> Iterator[Story]:
    made = Story(tmp_path, daemon)
    yield made
    daemon.request("DELETE", f"/v1/repos/{made.added['id']}")


def test_a_contract_is_true_exactly_while_what_it_cites_is(story: Story) -> None:
    story.record()
    answer = story.ask()
    assert (answer["verdict"], answer["causes"]) == ("fresh", [])
    assert answer["entry"]["document"]["error_responses"] == [{"status": 404}]

    (story.backend / "README.md").write_text("edited elsewhere\n")
    assert story.told() == ("fresh", [], [])

    drift = ["backend:src/routes/items.js"]
    story.routes.write_text("// a comment above\n" + ROUTES)
    assert story.told() == ("fresh", [], drift)

    changed = ROUTES.replace("name: item.name", "title: item.name")
    story.routes.write_text(changed)
    story.daemon.sync()
    assert story.told()[:2] == ("stale", ["edited", "evidence"])

    git(story.backend, "commit", "-qam", "answer with a title")
    story.daemon.sync()
    answer = story.ask()
    assert (answer["verdict"], causes(answer)) == ("stale", ["committed", "evidence"])
    assert answer["causes"][0]["commit"]["subject"] == "answer with a title"
    assert answer["causes"][1]["lost"] == [CITED]

    git(story.backend, "revert", "--no-edit", "HEAD")
    assert story.told() == ("fresh", [], [])

    before = git(story.backend, "rev-parse", "HEAD")
    git(story.backend, "commit", "--amend", "-qm", "reworded")
    git(story.backend, "rebase", "-q", "--root", "--force-rebase", "--exec", "true")
    assert git(story.backend, "rev-parse", "HEAD") != before
    story.daemon.sync()
    assert story.told() == ("fresh", [], [])

    git(story.backend, "mv", "src/serializers/item.js", "src/serializers/product.js")
    git(story.backend, "commit", "-qm", "move the serializer")
    story.daemon.sync()
    assert story.told() == ("fresh", ["moved"], [])


def test_every_commit_hash_may_be_gone_and_the_contract_outlives_a_restart(
    tmp_path: Path,
) -> None:
    with Daemon(tmp_path / "daemon") as running:
        story = Story(tmp_path, running)
        story.record()
        git(story.backend, "checkout", "-q", "--orphan", "anew")
        git(story.backend, "commit", "-qm", "one commit of everything")
        git(story.backend, "branch", "-D", "main")
        git(story.backend, "reflog", "expire", "--expire=now", "--all")
        git(story.backend, "gc", "-q", "--prune=now")
        running.stop()
        running.start()
        running.sync()
        assert story.told() == ("fresh", [], [])


def test_a_citation_that_names_nothing_takes_the_others_with_it(story: Story) -> None:
    lines = [{"file": "src/routes/items.js", "line": line} for line in (5, 99)]
    story.record(evidence=lines)
    assert story.told() == ("fresh", [], [])

    story.routes.write_text("// a comment above\n" + ROUTES)

    assert story.told()[0] == "stale"
    assert any("cannot be found again" in p for p in story.daemon.get("/v1/repos")[0]["problems"])


def test_a_hash_that_is_nothing_in_this_clone_is_unknown(story: Story) -> None:
    story.record(referenced_files={"src/routes/items.js": "0" * 39 + "1"})

    answer = story.ask()

    assert (answer["verdict"], causes(answer)) == ("unknown", ["shallow"])


def test_the_blob_form_is_judged_at_once_and_mode_does_not_count(story: Story) -> None:
    blob = git(story.backend, "rev-parse", "HEAD:src/routes/items.js").strip()
    story.record(referenced_files={"src/routes/items.js": blob}, evidence=[])
    assert story.told() == ("fresh", [], [])

    story.routes.chmod(0o755)
    assert story.told() == ("fresh", [], [])
    story.routes.write_text(ROUTES + "\n")
    assert story.told()[0] == "stale"


def test_a_checkout_with_crlf_is_what_the_commit_holds(story: Story) -> None:
    git(story.backend, "config", "core.autocrlf", "true")
    story.routes.unlink()
    git(story.backend, "checkout", "-q", "--", "src/routes/items.js")
    assert b"\r\n" in story.routes.read_bytes()

    story.record(evidence=[])
    assert story.told() == ("fresh", [], [])

    story.routes.write_bytes(story.routes.read_bytes() + b"// more\r\n")
    assert story.told()[0] == "stale"


def test_contracts_come_change_and_go_with_their_files(story: Story) -> None:
    path = story.record(key="items")
    assert story.daemon.lookup(story.frontend, "items")["verdict"] == "fresh"
    assert story.daemon.lookup(story.frontend, "backend/items")["entry"]["key"] == "backend/items"
    assert story.ask("POST /items/42")["verdict"] == "missing"

    path.write_text("{")
    story.daemon.sync()
    assert story.told()[0] == "fresh"  # what was known stays
    problems = story.daemon.get("/v1/repos")[0]["problems"]
    assert [p for p in problems if p.startswith(".agent-cache.d/backend/items.json: line 1")]

    story.record(key="items", referenced_files={"src/routes/items.js": "short"})
    answer = story.ask()
    assert (answer["verdict"], causes(answer)) == ("stale", ["invalid"])
    assert answer["causes"][0]["pointer"] == "/referenced_files/src~1routes~1items.js"

    path.unlink()
    eventually(lambda: story.daemon.entries(story.frontend) == {})
    assert story.told()[0] == "missing"


def test_contracts_lie_where_the_configuration_says(tmp_path: Path) -> None:
    with Daemon(tmp_path / "daemon") as running:
        story = Story(tmp_path, running)
        path = story.record(key="items")
        (story.frontend / "docs/api").mkdir(parents=True)
        path.rename(story.frontend / "docs/api/items.json")
        running.sync()
        assert story.told()[0] == "missing"

        (running.base / "config.toml").write_text(
            f'[[repo]]\nroot = "{story.frontend}"\ncontracts = ["docs/api/*.json"]\n'
        )

        # Not below .agent-cache.d, no directory names a sibling: it speaks of its own repository.
        eventually(lambda: story.told()[0] in ("stale", "unknown"))
        story.record(repository="backend").rename(story.frontend / "docs/api/items.json")
        eventually(lambda: story.told()[0] == "fresh")


def test_a_page_on_the_network_makes_it_unknown_at_best(story: Story) -> None:
    story.record(url_sources=[{"url": "https://example.invalid/spec", "etag": "x"}])

    answer = story.ask()

    assert (answer["verdict"], causes(answer)) == ("unknown", ["unreadable"])
    assert answer["causes"][0]["source"] == "https://example.invalid/spec"


def test_no_contract_is_written_or_put_or_deleted_through_the_api(story: Story) -> None:
    path = story.record()
    before = path.read_bytes()
    target = f"/v1/entries/contract/{'backend%2Fitems'}?cwd={story.frontend}"

    status, _ = story.daemon.request("DELETE", target)

    assert status == 422
    story.routes.write_text("changed\n")
    story.daemon.sync()
    assert story.told()[0] == "stale"
    assert path.read_bytes() == before
    assert not (story.frontend / ".agent-cache.json").exists()
