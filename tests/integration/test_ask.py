"""Questions in words: through the socket, on the command line, and without a daemon."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest

from amend.cli.main import main
from benchmarks.running import Daemon, git
from tests.conftest import Repository
from tests.integration.cli_fakes import Fake, fake_daemon, lookup

SUMMARIES = {
    "auth": "login checks bcrypt hashes and issues a JWT access token",
    "cart": "anonymous carts are merged at login, totals are computed on read",
}


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


@pytest.fixture
def repo(tmp_path: Path, daemon: Daemon) -> Iterator[Path]:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    for key in SUMMARIES:
        (root / f"src/{key}.ts").write_text(f"{key}\n")
    (root / ".gitignore").write_text(".agent-cache.json\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "begin")
    tended = daemon.add(root)
    for key, summary in SUMMARIES.items():
        document = {"summary": summary, "files": [f"src/{key}.ts"]}
        status, _ = daemon.request("PUT", f"/v1/entries/topic/{key}?cwd={root}", document)
        assert status == 200
    yield root
    daemon.request("DELETE", f"/v1/repos/{tended['id']}")


def asked(daemon: Daemon, root: Path, question: str, **more: Any) -> dict[str, Any]:
    status, answer = daemon.request(
        "POST", "/v1/lookup", {"cwd": str(root), "question": question, **more}
    )
    assert status == 200, answer
    return answer  # type: ignore[no-any-return]


# -- through the socket --------------------------------------------------------------------------


def test_the_confident_match_is_the_answer_and_its_files_are_verified(
    daemon: Daemon, repo: Path
) -> None:
    fresh = asked(daemon, repo, "how are anonymous carts merged at login?")
    (repo / "src/cart.ts").write_text("other\n")
    stale = asked(daemon, repo, "how are anonymous carts merged at login?")

    assert (fresh["verdict"], fresh["entry"]["key"]) == ("fresh", "cart")
    assert fresh["score"] == fresh["matches"][0]["score"] > 0.8
    assert (stale["verdict"], stale["entry"]["key"]) == ("stale", "cart")
    assert [cause["cause"] for cause in stale["causes"]] == ["edited"]


def test_what_is_not_certain_is_missing_with_what_it_may_be_and_why(
    daemon: Daemon, repo: Path
) -> None:
    answer = asked(daemon, repo, "abandoned cart reminder mails")

    assert (answer["verdict"], answer["candidates"]) == ("missing", ["cart"])
    assert "entry" not in answer
    [match] = answer["matches"]
    assert (match["kind"], match["key"], match["confident"]) == ("topic", "cart", False)
    assert 0 < match["score"] == answer["score"] < 0.8
    assert match["why"][0].startswith("its key: cart ")
    assert match["why"][-1].startswith("it lacks: ")


def test_a_question_about_nothing_that_is_known_has_no_match(daemon: Daemon, repo: Path) -> None:
    answer = asked(daemon, repo, "wie funktioniert die Anmeldung")

    assert (answer["verdict"], answer["candidates"], answer["matches"]) == ("missing", [], [])
    assert "score" not in answer


def test_what_was_stored_deleted_or_written_into_the_file_counts_at_once(
    daemon: Daemon, repo: Path
) -> None:
    question = "how do refunds restock"
    before = asked(daemon, repo, question)
    document = {"summary": "a refund restocks the lines", "files": ["src/cart.ts"]}
    daemon.request("PUT", f"/v1/entries/topic/refunds?cwd={repo}", document)
    stored = asked(daemon, repo, question)
    daemon.request("DELETE", f"/v1/entries/topic/refunds?cwd={repo}")
    deleted = asked(daemon, repo, question)

    assert [each["verdict"] for each in (before, stored, deleted)] == [
        "missing",
        "fresh",
        "missing",
    ]


def test_only_one_kind_is_asked_for(daemon: Daemon, repo: Path) -> None:
    document = {"summary": "carts are never deleted", "files": []}
    daemon.request("PUT", f"/v1/entries/pattern/carts?cwd={repo}", document)

    answer = asked(daemon, repo, "carts", kind="pattern")

    assert [(match["kind"], match["key"]) for match in answer["matches"]] == [("pattern", "carts")]


def test_a_contract_is_found_by_its_endpoint(daemon: Daemon, repo: Path) -> None:
    contract = {
        "version": 1,
        "generated_at": datetime.now(UTC).isoformat(),
        "endpoint": {"method": "GET", "path": "/warehouses/:id"},
        "success_responses": [],
        "error_responses": [],
        "evidence": [],
        "referenced_files": {},
    }
    (repo / ".agent-cache.d").mkdir()
    (repo / ".agent-cache.d/warehouse-get.json").write_text(json.dumps(contract))

    answer = asked(daemon, repo, "what does the warehouses endpoint return")

    assert [match["key"] for match in answer["matches"]] == ["warehouse-get"]


@pytest.mark.parametrize(
    "wrong",
    [{}, {"question": "auth", "key": "auth"}, {"question": "auth", "repository": "backend"}],
)
def test_a_question_stands_alone(wrong: dict[str, str], daemon: Daemon, repo: Path) -> None:
    status, problem = daemon.request("POST", "/v1/lookup", {"cwd": str(repo), **wrong})

    assert (status, bool(problem["hint"])) == (422, True)


# -- on the command line -------------------------------------------------------------------------

MATCH = {
    "kind": "topic",
    "key": "auth",
    "score": 0.91,
    "confident": True,
    "why": ["its key: auth 0.60", "its summary: jwt 0.40"],
}
OTHER = {
    "kind": "note",
    "key": "a\x1b[1m",
    "score": 0.3,
    "confident": False,
    "why": ["it lacks: x"],
}


@pytest.fixture
def fake() -> Iterator[Fake]:
    with fake_daemon() as listening:
        yield listening


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, click.unstyle(out), err


def test_ask_prints_the_ranking_and_then_the_answer(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = lookup("stale", matches=[MATCH, OTHER], score=0.91)
    fake.answers["POST /v1/lookup"] = (200, answer)

    code, out, err = run(capsys, "ask", "how", "does auth work", "--kind", "topic")

    assert (code, err) == (3, "")
    assert out.splitlines() == [
        "0.91  topic auth  certain",
        "      its key: auth 0.60",
        "      its summary: jwt 0.40",
        "0.30  note a[1m",
        "      it lacks: x",
        "stale    topic auth",
        "  what it said before it went stale:",
        "    login goes through src/auth.ts",
        "  files: src/auth.ts, src/routes/",
    ]
    assert fake.asked[0].body["question"] == "how does auth work"
    assert fake.asked[0].body["kind"] == "topic"


@pytest.mark.parametrize(
    ("matches", "said"), [([], "no entry fits"), ([OTHER], "no entry is certain to answer this")]
)
def test_ask_without_an_answer_exits_with_4(
    matches: list[Any], said: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = {**lookup("missing", matches=matches), "candidates": []}
    del answer["entry"]
    fake.answers["POST /v1/lookup"] = (200, answer)

    code, out, _ = run(capsys, "ask", "what is it")

    assert (code, out.splitlines()[-1]) == (4, f"missing  {said}")


def test_ask_json_is_the_apis_own(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    answer = lookup("fresh", matches=[MATCH], score=0.91)
    fake.answers["POST /v1/lookup"] = (200, answer)

    code, out, _ = run(capsys, "ask", "--json", "auth")

    assert (code, json.loads(out)) == (0, answer)


@pytest.mark.parametrize("question", [" ", "x" * 4001])
def test_ask_refuses_what_is_no_question(
    question: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "ask", question)

    assert code == 1
    assert "1 to 4000" in err


def test_ask_works_on_the_files_where_no_daemon_is(
    git: Callable[..., Repository],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Within one second nothing tells whether the entry or the commit came first.
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
    files = {f"src/{key}.ts": "one\n" for key in SUMMARIES}
    made = git("shop", {**files, ".gitignore": ".agent-cache.json\n"})
    now = datetime.now(UTC).isoformat()
    topics = {
        key: {"ts": now, "summary": summary, "files": [f"src/{key}.ts"]}
        for key, summary in SUMMARIES.items()
    }
    made.write(".agent-cache.json", json.dumps({"_meta": {"maxAgeDays": 9999}, "topics": topics}))
    monkeypatch.chdir(made.root)

    code, out, err = run(capsys, "ask", "where are cart totals computed?")

    assert code == 0
    assert "no daemon answers" in err
    assert "topic cart  certain" in out
    assert "totals are computed on read" in out
