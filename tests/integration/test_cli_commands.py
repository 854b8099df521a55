"""Each command against a daemon that answers as the API says."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from amend.cli.main import main
from tests.integration.cli_fakes import Fake, change, entry, fake_daemon, judged, lookup, repo

COMMITTED = {
    "cause": "committed",
    "source": "src/auth.ts",
    "commit": {
        "oid": "1a2b3c4d5e",
        "author_time": "2026-11-30T01:00:00Z",
        "subject": "rename tokens",
    },
}


@pytest.fixture
def daemon() -> Iterator[Fake]:
    with fake_daemon() as fake:
        yield fake


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    (root / "src/auth.ts").write_text("one")
    monkeypatch.chdir(root / "src")
    return root


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, click.unstyle(out), err


# -- get -------------------------------------------------------------------------------------------


def test_get_shows_a_fresh_finding(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["POST /v1/lookup"] = (200, lookup("fresh"))

    code, out, err = run(capsys, "get", "auth", "--kind", "topic")

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "fresh    topic auth",
        "  login goes through src/auth.ts",
        "  files: src/auth.ts, src/routes/",
    ]
    assert daemon.asked[0].body == {"cwd": str(shop / "src"), "key": "auth", "kind": "topic"}


def test_get_labels_what_a_stale_finding_said(
    daemon: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["POST /v1/lookup"] = (200, lookup("stale", [COMMITTED]))

    code, out, _ = run(capsys, "get", "auth")

    assert code == 3
    assert out.splitlines() == [
        "stale    topic auth",
        "  what it said before it went stale:",
        "    login goes through src/auth.ts",
        "  files: src/auth.ts, src/routes/",
        "  src/auth.ts: committed in 1a2b3c4 'rename tokens' on 2026-11-30",
    ]


def test_get_names_near_keys_of_a_missing_one(
    daemon: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = lookup("missing", candidates=["auth", "aut\x1bh2"])
    del answer["entry"]
    daemon.answers["POST /v1/lookup"] = (200, answer)

    code, out, _ = run(capsys, "get", "auht")

    assert code == 4
    assert out.splitlines() == ["missing  auht", "  near: auth, auth2"]


def test_get_says_why_it_does_not_know(daemon: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    causes = [{"cause": "too_large", "source": "dump.sql"}]
    daemon.answers["POST /v1/lookup"] = (200, lookup("unknown", causes))

    code, out, _ = run(capsys, "get", "auth")

    assert code == 5
    assert "what it said" not in out
    assert out.splitlines()[-1] == "  dump.sql: is too large to check"


def test_get_takes_control_characters_out_of_what_others_wrote(
    daemon: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    nasty = "a\x1b]52;c;x\x07\u202eb\nsecond\x00 line"
    daemon.answers["POST /v1/lookup"] = (
        200,
        lookup("fresh", entry=entry(summary=nasty, key="k\x1b[1m", files=["f\x9b31m"])),
    )

    _, out, _ = run(capsys, "get", "auth")

    assert out.splitlines() == [
        "fresh    topic k[1m",
        "  a]52;c;xb",
        "  second line",
        "  files: f31m",
    ]


def test_get_json_is_the_apis_answer_in_ascii(
    daemon: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = lookup("stale", [COMMITTED], entry=entry(summary="ключ \u202e"))
    daemon.answers["POST /v1/lookup"] = (200, answer)

    code, out, _ = run(capsys, "get", "auth", "--json")

    assert code == 3
    assert json.loads(out) == answer
    assert out.isascii()
    assert out.count("\n") == 1


def test_get_asks_from_the_directory_it_is_told(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["POST /v1/lookup"] = (200, lookup("fresh"))

    run(capsys, "get", "auth", "--cwd", "..")

    assert daemon.asked[0].body["cwd"] == str(shop)


def test_get_tells_the_daemons_refusal_with_its_hint(
    daemon: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["POST /v1/lookup"] = (404, {"detail": "/r is not tended", "hint": "`amend add`"})

    code, out, err = run(capsys, "get", "auth")

    assert (code, out) == (1, "")
    assert err == "amend: error: /r is not tended\namend: hint: `amend add`\n"


def test_getting_from_a_daemon_imports_no_model_and_no_framework(daemon: Fake) -> None:
    daemon.answers["POST /v1/lookup"] = (200, lookup("fresh"))
    code = (
        "import sys; from amend.cli.main import main; main(['get', 'auth']); "
        "print(sorted({'pydantic', 'fastapi', 'uvicorn', 'rich', 'asyncio', 'structlog', 'git',"
        " 'uvloop', 'orjson', 'watchdog', 'sqlite3', 'subprocess'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[0] == "fresh    topic auth"
    assert done.stdout.splitlines()[-1] == "[]"


# -- ls, verify ------------------------------------------------------------------------------------


def entries(*rows: Any) -> dict[str, Any]:
    return {"entries": list(rows), "problems": [], "checked_at": "", "clock": "c:1:1"}


def test_ls_prints_lines_that_other_programs_can_cut(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["GET /v1/entries"] = (
        200,
        entries(judged(), judged("stale", [COMMITTED], key="old\ttab")),
    )

    code, out, _ = run(capsys, "ls", "--kind", "topic", "--verdict", "stale")

    assert code == 0
    assert out.splitlines() == [
        "fresh\ttopic\tauth\t",
        "stale\ttopic\told tab\tsrc/auth.ts: committed in 1a2b3c4 'rename tokens' on 2026-11-30",
    ]
    assert daemon.asked[0].query == {
        "cwd": str(shop / "src"),
        "kind": "topic",
        "verdict": "stale",
    }


def test_ls_warns_of_a_cache_file_that_cannot_be_read(
    daemon: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["GET /v1/entries"] = (200, entries() | {"problems": ["line 3: no JSON"]})

    code, out, err = run(capsys, "ls")

    assert (code, out, err) == (0, "", "amend: warning: line 3: no JSON\n")


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [(["fresh"], 0), (["fresh", "stale", "unknown"], 3), (["fresh", "unknown"], 5), ([], 0)],
)
def test_verify_exits_with_the_worst_verdict(
    daemon: Fake, capsys: pytest.CaptureFixture[str], verdicts: list[str], code: int
) -> None:
    rows = [judged(verdict, key=f"k{number}") for number, verdict in enumerate(verdicts)]
    daemon.answers["POST /v1/verify"] = (200, entries(*rows) | {"hashed": 1})

    found, out, _ = run(capsys, "verify")

    assert found == code
    assert out.splitlines()[-1].endswith("; read 1 file")
    assert daemon.asked[0].body["keys"] is None


def test_verify_takes_keys(daemon: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["POST /v1/verify"] = (200, entries(judged("stale", [COMMITTED])) | {"hashed": 2})

    _, out, _ = run(capsys, "verify", "auth", "routes")

    assert daemon.asked[0].body["keys"] == ["auth", "routes"]
    assert out.splitlines() == [
        "stale    topic auth",
        "  src/auth.ts: committed in 1a2b3c4 'rename tokens' on 2026-11-30",
        "0 fresh, 1 stale, 0 unknown; read 2 files",
    ]


# -- put, rm ---------------------------------------------------------------------------------------


def put_answer(**changes: Any) -> dict[str, Any]:
    return {
        "entry": judged(files=["src/auth.ts"]),
        "etag": '"1"',
        "stored_in": "file",
        "clock": "c:1:1",
        **changes,
    }


def test_put_sends_paths_from_the_root(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["GET /v1/repos"] = (200, [repo(str(shop))])
    daemon.answers["PUT /v1/entries/topic/au/th"] = (200, put_answer())

    code, out, _ = run(
        capsys, "put", "au/th", "--summary", "s", "--ts", "2026-11-30", "auth.ts", "!old.ts"
    )

    assert (code, out) == (0, "fresh    stored topic auth on 1 source\n")
    assert daemon.asked[-1].body == {
        "summary": "s",
        "files": ["src/auth.ts", "!src/old.ts"],
        "ts": "2026-11-30",
    }
    assert daemon.asked[-1].query == {"cwd": str(shop / "src")}


def test_put_sends_the_lines_that_were_cited(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["GET /v1/repos"] = (200, [repo(str(shop))])
    daemon.answers["PUT /v1/entries/topic/auth"] = (200, put_answer())
    cited = ("--evidence", "auth.ts:7", "--evidence", "auth.ts:10-12")

    code, _, _ = run(capsys, "put", "auth", "--summary", "s", *cited, "auth.ts")

    assert code == 0
    assert daemon.asked[-1].body["evidence"] == [
        {"file": "src/auth.ts", "start": 7, "end": 7},
        {"file": "src/auth.ts", "start": 10, "end": 12},
    ]


def test_put_refuses_lines_that_name_none(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["GET /v1/repos"] = (200, [repo(str(shop))])

    code, _, err = run(capsys, "put", "auth", "--summary", "s", "--evidence", "auth.ts", "auth.ts")

    assert code == 2
    assert "'auth.ts' is not FILE:LINE or FILE:LINE-END" in err


def test_put_reads_the_summary_from_stdin(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answers["GET /v1/repos"] = (200, [repo(str(shop))])
    daemon.answers["PUT /v1/entries/pattern/p"] = (200, put_answer())
    stdin = io.TextIOWrapper(io.BytesIO("zwei\nWörter\n".encode()))
    monkeypatch.setattr(sys, "stdin", stdin)

    code, _, _ = run(capsys, "put", "p", "--pattern", "--summary", "-")

    assert code == 0
    assert daemon.asked[-1].body == {"summary": "zwei\nWörter", "files": []}


def test_put_refuses_a_summary_that_is_no_utf8(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9")))

    code, _, err = run(capsys, "put", "p", "--summary", "-", "auth.ts")

    assert code == 1
    assert "byte 0xe9, must be UTF-8" in err


def test_put_says_when_the_cache_file_is_not_written(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["GET /v1/repos"] = (200, [repo(str(shop))])
    daemon.answers["PUT /v1/entries/topic/auth"] = (
        200,
        put_answer(stored_in="store", reason="git tracks it"),
    )

    _, out, _ = run(capsys, "put", "auth", "--summary", "s", "auth.ts")

    assert out.splitlines()[-1] == "  kept in amend's own store: git tracks it"


def test_put_in_a_directory_nobody_tends_is_told(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["GET /v1/repos"] = (200, [])

    code, _, err = run(capsys, "put", "auth", "--summary", "s", "auth.ts")

    assert code == 1
    assert "amend: hint: add it: `amend add PATH`" in err


def test_rm_removes_a_topic_unless_told_otherwise(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["DELETE /v1/entries/topic/auth"] = (204, None)
    daemon.answers["DELETE /v1/entries/pattern/auth"] = (204, None)

    run(capsys, "rm", "auth")
    code, out, _ = run(capsys, "rm", "auth", "--kind", "pattern")

    assert (code, out) == (0, "removed pattern auth\n")
    assert [asked.path for asked in daemon.asked] == [
        "/v1/entries/topic/auth",
        "/v1/entries/pattern/auth",
    ]


def test_add_names_a_sibling_by_its_directory_or_as_told(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["POST /v1/repos"] = (201, repo(str(shop)))
    siblings = ("--sibling", "../backend", "--sibling", "docs=/srv/wiki")

    code, _, _ = run(capsys, "add", str(shop), *siblings, "--track", "head")

    assert code == 0
    beside = str(Path.cwd().parent / "backend")
    assert daemon.asked[0].body["siblings"] == [
        {"name": "backend", "path": beside, "track": "head"},
        {"name": "docs", "path": "/srv/wiki", "track": "head"},
    ]


# -- add, remove, status ---------------------------------------------------------------------------


def test_add_sends_the_whole_path(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["POST /v1/repos"] = (201, repo(str(shop), problems=["no git here"]))

    code, out, _ = run(capsys, "add", "..")

    assert code == 0
    assert daemon.asked[0].body == {"root": str(shop)}
    assert out.splitlines() == [
        f"tending {shop}: 3 entries: 2 fresh, 1 stale",
        "  no git here",
    ]


def test_remove_finds_the_repository_by_its_path(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["GET /v1/repos"] = (200, [repo("/other", id="r0"), repo(str(shop))])
    daemon.answers["DELETE /v1/repos/r1"] = (204, None)

    code, out, _ = run(capsys, "remove", "..")

    assert (code, out) == (0, f"no longer tending {shop}\n")


def test_removing_what_is_not_tended_is_told(
    daemon: Fake, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["GET /v1/repos"] = (200, [])

    code, _, err = run(capsys, "remove")

    assert code == 1
    assert "is not tended" in err


def test_status_shows_each_repository_and_its_troubles(
    daemon: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    trouble = repo("/b", branch=None, operation="rebase", problems=["git is too old"])
    trouble["watch"] |= {
        "overflows": 1,
        "unwatched": [{"path": "/b/x", "errno": 28, "reason": "No space left on device"}],
    }
    daemon.answers["GET /v1/status"] = (
        200,
        {
            "ready": True,
            "clock": "c:1:1",
            "repos": [repo("/a"), trouble],
            "rss_bytes": 50 << 20,
            "uptime_s": 7300.0,
            "version": "0.1.0",
            "config": "/c.toml",
            "config_error": "/c.toml: daemon.x is 1, must not",
        },
    )

    code, out, _ = run(capsys, "status")

    assert code == 0
    assert out.splitlines() == [
        "amend 0.1.0: ready, up 2 h, 50 MiB, config /c.toml",
        "the newest config is not in force:",
        "  /c.toml: daemon.x is 1, must not",
        "/a\tmain\t3 entries: 2 fresh, 1 stale\tinotify 9",
        "/b\t1a2b3c4 (rebase)\t3 entries: 2 fresh, 1 stale\tinotify 9, 1 overflow",
        "/b: git is too old",
        "/b/x: not watched, checked when asked: No space left on device",
    ]


# -- watch -----------------------------------------------------------------------------------------


def sse(*changes: dict[str, Any]) -> bytes:
    return b": amend\n\n" + b"".join(
        b"id: %s\nevent: verdict\ndata: %s\n\n"
        % (each["clock"].encode(), json.dumps(each).encode())
        for each in changes
    )


def test_watch_goes_on_after_a_restart_where_it_left_off(
    daemon: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.streams += [sse(change()), sse(change(clock="c:1:3", verdict="fresh", causes=[]))]

    # The third time the daemon has nothing to say to us any more, which ends it.
    code, out, err = run(capsys, "watch")

    assert code == 1
    assert out.splitlines() == [
        "12:03:04  stale    topic auth  src/auth.ts: edited, not committed",
        "12:03:04  fresh    topic auth",
    ]
    assert err.startswith("watching; Ctrl-C ends it\n")
    assert len(daemon.asked) == 3


def test_watch_json_gives_one_change_a_line(
    daemon: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.streams.append(sse(change(), change(clock="c:1:3")))

    _, out, _ = run(capsys, "watch", "--json")

    assert [json.loads(line)["clock"] for line in out.splitlines()] == ["c:1:2", "c:1:3"]


# -- config check ----------------------------------------------------------------------------------


def test_config_check_is_content_without_a_file(
    private_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "config", "check")

    assert code == 0
    assert out == f"{private_home}/config.toml does not exist; the defaults are in force\n"


def test_config_check_tells_every_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[daemon]\nlog_lvel = "x"\n[policy]\non_stale = "burn"\n')

    code, out, err = run(capsys, "config", "check", str(file))

    assert (code, out) == (1, "")
    lines = err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"amend: error: {file}: daemon.log_lvel is 'x'")
    assert lines[2].startswith("amend: hint: ")


def test_config_check_warns_of_a_root_that_is_not_there(
    private_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (private_home / "config.toml").write_text('[[repo]]\nroot = "~/nowhere"\n')

    code, out, err = run(capsys, "config", "check")

    assert (code, out) == (0, f"{private_home}/config.toml is good: 1 repository\n")
    assert (
        err == f"amend: warning: repo[0].root {private_home}/nowhere: there is no such directory\n"
    )


def test_config_check_json_carries_the_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.toml"
    file.write_text("x = 1\n")

    code, out, _ = run(capsys, "config", "check", str(file), "--json")

    said = json.loads(out)
    assert code == 1
    assert (said["ok"], len(said["problems"]), said["config"]) == (False, 1, None)


def test_config_check_json_shows_what_is_in_force(
    private_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (private_home / "config.toml").write_text('[policy]\non_stale = "evict"\n')

    _, out, _ = run(capsys, "config", "check", "--json")

    assert json.loads(out)["config"]["policy"]["on_stale"] == "evict"


# -- completion ------------------------------------------------------------------------------------


def complete(words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "amend.cli.main"],
        env=os.environ
        | {"_AMEND_COMPLETE": "bash_complete", "COMP_WORDS": words}
        | {"COMP_CWORD": str(len(words.split()) - 1)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_tab_completes_commands_and_keys(daemon: Fake) -> None:
    daemon.answers["GET /v1/entries"] = (200, entries(judged(), judged(key="routes")))

    assert complete("amend ver") == ["verify"]
    assert complete("amend get ro") == ["routes"]


def test_tab_is_silent_without_a_daemon() -> None:
    assert complete("amend get ro") == []


# -- a pipe that ends ------------------------------------------------------------------------------


def test_a_reader_that_has_gone_ends_it_quietly(daemon: Fake) -> None:
    rows = [judged(key=f"key-{number}", summary="x" * 500) for number in range(2000)]
    daemon.answers["GET /v1/entries"] = (200, entries(*rows))

    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m amend.cli.main ls --json; echo $? >&2"],
        stdout=_unread(),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert done.stderr == "1\n"


def _unread() -> int:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    return write_fd
