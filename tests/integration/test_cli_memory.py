"""`amend memory`: without a daemon on real files, and what it asks a daemon and shows of it."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from amend.cli.main import main
from benchmarks.running import Daemon
from tests.conftest import Repository
from tests.integration.cli_fakes import Fake, fake_daemon
from tests.memory_trees import write

Capture = pytest.CaptureFixture[str]

NO_DAEMON = re.compile("amend: no daemon answers; (read and verified|wrote) the files directly\n")
NOTE = "2026-04-10: JWT, revoked through Redis\n  - sessions are stateless\n"
SAVE = ["save", "--category", "decisions", "--topic", "auth", "--title", "JWT"]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["memory", *arguments])
    out, err = capsys.readouterr()
    return code, out, NO_DAEMON.sub("", err)


@pytest.fixture
def shop(git: Callable[..., Repository], monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = git("shop", {"src/auth.ts": "one\n"})
    monkeypatch.chdir(made.root)
    return made


@pytest.fixture
def memory(shop: Repository) -> Path:
    """A tree that is in order."""
    at = shop.root / "memory"
    write(
        at,
        {
            "index.aicontext": "# memory/ - what is known\n\ndir: decisions/ | what was chosen\n",
            "decisions/index.aicontext": "# decisions/ - what was chosen\n\n"
            "file: auth.aicontext | JWT, revoked through Redis\n",
            "decisions/auth.aicontext": NOTE,
        },
    )
    return at


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# -- save --------------------------------------------------------------------------------------


def test_save_makes_the_tree_the_note_and_the_indexes(shop: Repository, capsys: Capture) -> None:
    code, out, err = run(
        capsys, *SAVE, "--date", "2026-04-10", "--bullet", "stateless", "--bullet", "- it scales"
    )

    note = shop.root / "memory/decisions/auth.aicontext"
    assert note.read_text() == "2026-04-10: JWT\n  - stateless\n  - it scales\n"
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "created memory/decisions/auth.aicontext",
        "  2026-04-10: JWT",
        "    - stateless",
        "    - it scales",
        "listed in memory/index.aicontext",
        "listed in memory/decisions/index.aicontext",
    ]
    assert "dir: decisions/" in (shop.root / "memory/index.aicontext").read_text()


def test_save_without_a_date_is_of_today_and_merges(memory: Path, capsys: Capture) -> None:
    before = datetime.now().astimezone().date()

    code, out, _ = run(
        capsys, *SAVE, "--bullet", "kept in Redis", "--replaces", "sessions are stateless"
    )

    assert code == 0
    dates = {str(day) for day in (before, datetime.now().astimezone().date())}
    saved = (memory / "decisions/auth.aicontext").read_text()
    assert saved.partition(": ")[0] in dates
    assert saved.endswith(": JWT\n  - kept in Redis\n")
    assert out.startswith("merged into memory/decisions/auth.aicontext\n")


def test_an_index_that_was_written_a_moment_ago_gets_its_line_as_well(
    shop: Repository, capsys: Capture
) -> None:
    write(shop.root / "memory", {"index.aicontext": "# memory/ - what is known\n"})

    code, out, _ = run(capsys, *SAVE, "--bullet", "a fact")

    assert code == 0
    assert "listed in memory/index.aicontext" in out
    assert "dir: decisions/" in (shop.root / "memory/index.aicontext").read_text()


def test_bullets_come_from_stdin_one_a_line(
    shop: Repository, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin(monkeypatch, b"- one\n\n  - two  \nthree - four\r\n-\n")

    code, out, _ = run(capsys, *SAVE, "--json")

    assert code == 0
    assert json.loads(out)["bullets"] == ["one", "two", "three - four"]


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"\n- \n", "stdin has none"), (b"caf\xe9\n", "byte 0xe9")],
)
def test_a_stdin_without_bullets_is_told(
    data: bytes, said: str, shop: Repository, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin(monkeypatch, data)

    code, out, err = run(capsys, *SAVE)

    assert (code, out) == (1, "")
    assert said in err
    assert not (shop.root / "memory").exists()


def test_at_a_terminal_nobody_waits_for_bullets(
    shop: Repository, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())

    code, _, err = run(capsys, *SAVE)

    assert code == 2
    assert "--bullet" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--category", "../x"], "category is '../x', must be kebab-case"),
        (["--topic", "Auth"], "topic is 'Auth'"),
        (["--topic", ""], "topic"),
        (["--date", "tomorrow"], "date"),
        (["--date", "2026-02-30"], "date is '2026-02-30'"),
        (["--bullet", "password = hunter2hunter2"], "password assignment"),
        (["--tree", "notes"], "'notes'"),
    ],
)
def test_what_cannot_be_saved_is_told_and_nothing_is_written(
    arguments: list[str], said: str, shop: Repository, capsys: Capture
) -> None:
    code, out, err = run(capsys, *SAVE, "--bullet", "a fact", *arguments)

    assert (code, out) == (1, "")
    assert said in err
    assert "hunter2" not in err
    assert not (shop.root / "memory").exists()


# -- show --------------------------------------------------------------------------------------


def test_show_gives_the_indexes_and_last_what_they_cost(memory: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "show")

    assert code == 0
    assert out == (
        "==> memory/index.aicontext <==\n"
        "# memory/ - what is known\n\ndir: decisions/ | what was chosen\n"
        "\n==> memory/decisions/index.aicontext <==\n"
        "# decisions/ - what was chosen\n\nfile: auth.aicontext | JWT, revoked through Redis\n"
    )
    assert err.startswith("amend: ")
    assert "token" in err.splitlines()[-1]


@pytest.mark.parametrize("path", ["decisions/auth", "memory/decisions/auth.aicontext"])
def test_a_note_alone_is_shown_as_it_is(path: str, memory: Path, capsys: Capture) -> None:
    code, out, _ = run(capsys, "show", path, "--cwd", "src")

    assert (code, out) == (0, NOTE)


def test_show_json_is_the_apis_answer(memory: Path, capsys: Capture) -> None:
    (memory / "dict.aicontext").write_text("RPQ: retry policy of queues\n")

    code, out, err = run(capsys, "show", "decisions/auth", "--json")

    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert [each["kind"] for each in answer["files"]] == ["dict", "note"]
    assert answer["tokens"] > 0


def test_what_a_terminal_would_obey_is_not_shown(memory: Path, capsys: Capture) -> None:
    (memory / "decisions/auth.aicontext").write_text("2026-04-10: a\x1b[2J\u202eb\n")

    _, out, _ = run(capsys, "show", "decisions/auth")

    assert out == "2026-04-10: a[2Jb\n"


def test_what_cannot_be_read_is_a_warning(memory: Path, capsys: Capture) -> None:
    (memory / "decisions/index.aicontext").unlink()
    (memory / "decisions/index.aicontext").symlink_to(memory / "decisions/auth.aicontext")

    code, out, err = run(capsys, "show")

    assert code == 0
    assert "sessions" not in out
    assert "amend: warning: memory/decisions/index.aicontext: is a symlink" in err


def test_show_names_what_is_near(memory: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "show", "auth")

    assert (code, out) == (1, "")
    assert "hint: near: decisions/auth" in err


@pytest.mark.parametrize("words", [["show"], ["lint"], ["sync"], ["dict", "suggest"]])
def test_without_a_tree_every_command_says_how_to_get_one(
    words: list[str], shop: Repository, capsys: Capture
) -> None:
    code, out, err = run(capsys, *words)

    assert (code, out) == (1, "")
    assert "hint: `amend memory save` makes one" in err


def test_a_tree_without_indexes_is_told_apart_from_none(shop: Repository, capsys: Capture) -> None:
    write(shop.root / "memory", {"decisions/auth.aicontext": NOTE})

    code, _, err = run(capsys, "show")

    assert code == 1
    assert "hint: `amend memory sync` makes them" in err


def test_a_directory_that_happens_to_be_called_memory_is_no_tree(
    shop: Repository, capsys: Capture
) -> None:
    write(shop.root / "memory", {"allocator.c": "", "src/deep/notes.aicontext": NOTE})

    codes = [run(capsys, *words)[0] for words in (["show"], ["lint", "--fix"], ["sync"])]

    assert codes == [1, 1, 1]
    assert sorted(path.name for path in shop.root.rglob("memory/**/*") if path.is_file()) == [
        "allocator.c",
        "notes.aicontext",
    ]


# -- lint, sync, dict --------------------------------------------------------------------------


def test_lint_of_a_tree_that_is_in_order_says_nothing(memory: Path, capsys: Capture) -> None:
    assert run(capsys, "lint") == (0, "", "")


def test_lint_prints_path_line_rule_and_message_and_exits_1(memory: Path, capsys: Capture) -> None:
    (memory / "decisions/auth.aicontext").write_text("2026-04-10: JWT\n- crooked\n")

    code, out, err = run(capsys, "lint")

    assert code == 1
    assert out.startswith("memory/decisions/auth.aicontext:2: bad-indentation: ")
    assert out.count("\n") == 1
    assert err == "amend: 1 finding, 1 of them for `amend memory lint --fix`\n"


def test_lint_json_has_the_same(memory: Path, capsys: Capture) -> None:
    (memory / "decisions/db.aicontext").write_text(NOTE)

    code, out, _ = run(capsys, "lint", "--json")

    finding = json.loads(out)["findings"][0]
    assert code == 1
    assert (finding["path"], finding["rule"]) == (
        "memory/decisions/index.aicontext",
        "missing-line",
    )
    assert finding["is_fixable"] is True


def test_lint_only_looks(memory: Path, capsys: Capture) -> None:
    (memory / "decisions/db.aicontext").write_text("2026-04-10: PostgreSQL\n- crooked\n")
    before = {path: path.read_bytes() for path in memory.rglob("*.aicontext")}

    run(capsys, "lint")
    run(capsys, "show")
    run(capsys, "dict", "suggest")

    assert {path: path.read_bytes() for path in memory.rglob("*.aicontext")} == before


def test_lint_fix_mends_and_then_there_is_nothing(memory: Path, capsys: Capture) -> None:
    (memory / "decisions/db.aicontext").write_text("2026-04-10: PostgreSQL\n- crooked\n")

    code, out, err = run(capsys, "lint", "--fix")

    assert (code, out) == (0, "")
    assert sorted(err.splitlines()) == [
        "amend: wrote memory/decisions/db.aicontext",
        "amend: wrote memory/decisions/index.aicontext",
    ]
    assert (memory / "decisions/db.aicontext").read_text().endswith("\n  - crooked\n")
    index = (memory / "decisions/index.aicontext").read_text()
    assert "file: db.aicontext | PostgreSQL\n" in index
    assert run(capsys, "lint") == (0, "", "")


def test_lint_fix_exits_1_with_what_only_a_person_can_mend(memory: Path, capsys: Capture) -> None:
    (memory / "decisions/auth.aicontext").write_text("2026-13-10: JWT\n  - a\n")

    code, out, _ = run(capsys, "lint", "--fix")

    assert code == 1
    assert ": bad-date: " in out


def test_sync_lists_what_it_wrote_and_then_has_nothing_to_do(memory: Path, capsys: Capture) -> None:
    write(memory, {"bugs/clock.aicontext": NOTE})

    first, second = run(capsys, "sync"), run(capsys, "sync")

    assert first[0] == second[0] == 0
    assert sorted(first[1].splitlines()) == [
        "wrote memory/bugs/index.aicontext",
        "wrote memory/index.aicontext",
    ]
    assert second[1] == "every index is in step\n"


def test_dict_suggest_shows_lines_for_the_dictionary_and_what_they_bring(
    memory: Path, capsys: Capture
) -> None:
    phrase = "distributed session revocation strategy"
    write(memory, {f"bugs/b{n}.aicontext": f"2026-04-10: {n}\n  - {phrase}\n" for n in range(12)})

    code, out, _ = run(capsys, "dict", "suggest")

    *terms, reason = out.splitlines()
    assert code == 0
    assert [f": {phrase}  (12 uses, saves " in line for line in terms] == [True]
    assert reason


# -- with a daemon -----------------------------------------------------------------------------


@pytest.fixture
def fake() -> Iterator[Fake]:
    with fake_daemon() as fake:
        yield fake


def shown(verdict: str) -> dict[str, Any]:
    cause = {"cause": "edited", "source": "src/auth.ts"}
    note = {"path": "memory/d/a.aicontext", "kind": "note", "text": NOTE, "tokens": 20}
    judged = {"verdict": verdict, "causes": [] if verdict == "fresh" else [cause], "drift": []}
    return {
        "files": [note | judged],
        "tokens": 20,
        "tokens_are_estimated": False,
        "tokenizer": "o200k_base",
    }


@pytest.mark.parametrize(("verdict", "code"), [("fresh", 0), ("stale", 3), ("unknown", 5)])
def test_show_exits_with_the_verdict_and_says_why(
    verdict: str, code: int, shop: Repository, fake: Fake, capsys: Capture
) -> None:
    fake.answers["GET /v1/memory"] = 200, shown(verdict)

    got, out, err = run(capsys, "show", "d/a")

    assert (got, out) == (code, NOTE)
    reason = f"amend: {verdict}: src/auth.ts: edited, not committed"
    assert (reason in err) is (verdict != "fresh")
    assert err.splitlines()[-1] == "amend: 20 tokens by o200k_base"
    assert fake.asked[0].query == {"cwd": str(shop.root), "path": "d/a"}


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["lint", "--tree", "notes"], ("GET", "/v1/memory/lint")),
        (["lint", "--tree", "notes", "--fix"], ("POST", "/v1/memory/fix")),
        (["sync", "--tree", "notes"], ("POST", "/v1/memory/sync")),
        (["dict", "suggest", "--tree", "notes"], ("GET", "/v1/memory/dict")),
    ],
)
def test_the_daemon_is_asked_first(
    words: list[str], asked: tuple[str, str], shop: Repository, fake: Fake, capsys: Capture
) -> None:
    code, _, err = run(capsys, *words)

    question = fake.asked[0]
    assert (question.method, question.path) == asked
    assert (question.body or question.query) == {"cwd": str(shop.root), "tree": "notes"}
    assert (code, "Not Found" in err) == (1, True)


def test_what_is_saved_through_the_daemon_is_an_entry_at_once(
    git: Callable[..., Repository],
) -> None:
    shop = git("shop", {"src/auth.ts": "one\n"})
    with Daemon() as daemon:
        daemon.add(shop.root)

        saved = amend(daemon, shop.root, "memory", *SAVE, "--bullet", "files: src/auth.ts")
        before = amend(daemon, shop.root, "get", "decisions/auth", "--kind", "note")
        shop.write("src/auth.ts", "two\n")
        after = amend(daemon, shop.root, "memory", "show", "decisions/auth")

    assert (saved.returncode, saved.stderr) == (0, "")
    assert (before.returncode, after.returncode) == (0, 3)
    assert "amend: stale: src/auth.ts: edited, not committed" in after.stderr


def amend(daemon: Daemon, cwd: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "amend.cli.main", *words],
        env={**daemon.env, "HOME": os.environ["HOME"]},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
