"""Claude Code with amend's hooks: explored, answered, edited, explored anew, committed."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.e2e.model import Lanes, text, tool
from tests.e2e.seen import Seen
from tests.e2e.stage import Played, Stage

ASK: Final = "[[lane:main]] Where is the auth system?"
TASK: Final = (
    "[[lane:sub]] Find the auth system: where users log in, and where their session tokens are "
    "issued and revoked."
)
FINDING: Final = (
    "Login and logout are in src/auth.py:4 and :9; both ask src/session.py, where issue() and "
    "revoke() keep the tokens in the dictionary TOKENS."
)
FINDING_ANEW: Final = FINDING + " Since lately login returns the user beside the token."

AGENT: Final = tool(
    "Agent",
    {"description": "Explore auth", "subagent_type": "Explore", "prompt": TASK},
)


def exploring(root: Path, finding: str) -> list[list[dict[str, Any]]]:
    """What the subagent does: it searches, reads a part of one file and the whole of another."""
    return [
        [
            tool("Bash", {"command": "grep -rn 'def login' src", "description": "Search"}),
            tool("Read", {"file_path": str(root / "src/auth.py"), "offset": 3, "limit": 5}),
        ],
        [tool("Read", {"file_path": str(root / "src/session.py")})],
        [text(finding)],
    ]


def claude_story(stage: Stage, seen: Seen) -> None:
    seen.figure("installed", stage.amend("hooks", "install", "claude", "--user").strip())
    key = _explored(stage, seen)
    _answered(stage, seen)
    _asked_again(stage, seen)
    _edited(stage, seen)
    _committed(stage, seen, key)


def _main(*turns: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The session's own turns, and enough words for what is notified later."""
    return [*turns, [text("MAIN-1")], [text("MAIN-2")], [text("MAIN-3")]]


def _lanes(stage: Stage, *turns: list[dict[str, Any]], finding: str = FINDING) -> Lanes:
    return {"main": _main(*turns), "sub": exploring(stage.root, finding)}


def _explored(stage: Stage, seen: Seen) -> str:
    played = stage.claude(ASK, _lanes(stage, [AGENT]))
    seen.that("an exploration of what nobody knows runs", played.model.requests("sub"))
    transcripts = transcripts_of(stage.home)
    read = files_in(transcripts[-1], stage.root) if transcripts else set()
    entries = stage.entries()
    files = {file for entry in entries for file in entry["files"]}
    seen.that(
        "its entry holds exactly the files that its transcript shows as read",
        len(entries) == 1 and files == read == {"src/auth.py", "src/session.py"},
        f"transcript: {sorted(read)}\nentry:      {json.dumps(entries, indent=1)}",
    )
    seen.that("it is fresh", entries and entries[0]["verdict"] == "fresh")
    return str(entries[0]["key"]) if entries else "?"


def _answered(stage: Stage, seen: Seen) -> None:
    played = stage.claude(ASK, _lanes(stage, [AGENT]))
    main = played.model.requests("main")
    seen.that("in a new session the same question runs no subagent", not ran(played))
    shown = main[1].says(r"not run, since what it would find out is known") if main[1:] else ""
    seen.that("and the model's next request holds the finding", FINDING[:60] in shown, shown)
    told = main[0].says("amend, about this repository") if main else ""
    seen.that("whose first request says what is known", "Known and verified" in told, told)


def _asked_again(stage: Stage, seen: Seen) -> None:
    played = stage.claude(ASK, _lanes(stage, [AGENT], [AGENT]))
    seen.that("asked once more in one session, it runs", ran(played))
    entries = stage.entries()
    seen.that("and what it finds is the same entry", len(entries) == 1, _short(entries))


def _edited(stage: Stage, seen: Seen) -> None:
    """The agent's own Edit tool, and then the question again."""
    path = str(stage.root / "src/auth.py")
    edit = {"file_path": path, "old_string": "return token", "new_string": "return token, user"}
    turns = [[tool("Read", {"file_path": path})], [tool("Edit", edit)], [AGENT]]
    played = stage.claude(ASK, _lanes(stage, *turns, finding=FINDING_ANEW))
    seen.that("the agent's Edit tool has edited", "token, user" in Path(path).read_text())
    sub = played.model.requests("sub")
    seen.that("after its edit the exploration runs", sub)
    shown = sub[0].says("An earlier finding") if sub else ""
    seen.that("with a head start that names the file", "| src/auth.py: " in shown, shown)
    seen.that("and what is still verified", "verified: src/session.py" in shown)
    entries = stage.entries()
    seen.that(
        "what it finds is the same entry, true again",
        [entry["verdict"] for entry in entries] == ["fresh"],
        _short(entries),
    )


def _committed(stage: Stage, seen: Seen, key: str) -> None:
    """An edit whose exploration breaks off, then a commit of it."""
    path = str(stage.root / "src/session.py")
    edit = {"file_path": path, "old_string": "'token'", "new_string": "'secret'"}
    turns = [[tool("Read", {"file_path": path})], [tool("Edit", edit)], [AGENT]]
    lanes = {"main": _main(*turns), "sub": [[{"status": 400}]]}
    played = stage.claude(ASK, lanes)
    seen.that("a subagent whose model fails was started", ran(played))
    entries = stage.entries()
    seen.that(
        "what broke off is no finding: the entry stays stale",
        [entry["verdict"] for entry in entries] == ["stale"],
        _short(entries),
    )
    oid = stage.commit("tokens are secret")
    stage.daemon.sync()
    played = stage.claude(ASK, {"main": _main()})
    main = played.model.requests("main")
    shown = main[0].says("No longer true since the last session here") if main else ""
    seen.that(
        "the next session's first request names the entry and the commit",
        key in shown and oid[:10] in shown,
        shown,
    )


# -- what the client itself has written down ---------------------------------------------------


def ran(played: Played) -> bool:
    return bool(played.model.requests("sub"))


def transcripts_of(home: Path) -> list[Path]:
    """Of the subagents, the newest last."""
    found = home.glob(".claude/projects/*/*/subagents/agent-*.jsonl")
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)


def files_in(transcript: Path, root: Path) -> set[str]:
    """Below `root`, what it shows as read: by the Read tool, or as lines that a search printed."""
    failed, asked, printed = set(), {}, set()
    for block in _blocks(transcript):
        if block.get("type") == "tool_use" and block["name"] == "Read":
            asked[block["id"]] = block["input"]["file_path"]
        if block.get("type") == "tool_result":
            if block.get("is_error"):
                failed.add(block["tool_use_id"])
            elif isinstance(block["content"], str):
                printed |= set(re.findall(r"^([^\s:]+):\d+:", block["content"], re.MULTILINE))
    read = {path for call, path in asked.items() if call not in failed}
    return {str((root / path).relative_to(root)) for path in read | printed}


def _blocks(transcript: Path) -> Iterator[dict[str, Any]]:
    for line in transcript.read_text().splitlines():
        content = json.loads(line).get("message", {}).get("content", [])
        yield from (block for block in content if isinstance(block, dict))


def _short(entries: list[dict[str, Any]]) -> str:
    wanted = ("key", "verdict", "versions", "files", "causes")
    return "\n".join(json.dumps({k: each[k] for k in wanted}) for each in entries)
