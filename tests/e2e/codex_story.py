"""Codex with amend's hooks: the same story, as far as its hooks go.

Its hooks run untrusted here, since its trust screen is a person's. It takes no changed input
without being told to allow the call, so that a head start is told beside the exploration.
"""

import json
from pathlib import Path
from typing import Any, Final

from tests.e2e.claude_story import FINDING
from tests.e2e.model import Lanes, text, tool
from tests.e2e.seen import Seen
from tests.e2e.stage import Stage

ASK: Final = "[[lane:main]] Where is the auth system?"
TASK: Final = (
    "[[lane:sub]] Find the auth system: where users log in, and where their session tokens are "
    "issued and revoked."
)
SPAWN: Final = tool(
    "spawn_agent", {"message": TASK, "agent_type": "explorer"}, namespace="multi_agent_v1"
)
WAIT: Final = tool(
    "wait_agent",
    {"targets": ['{{re:agent_id": ?"([0-9a-f-]+)}}'], "timeout_ms": 20_000},
    namespace="multi_agent_v1",
)
PATCH: Final = """*** Begin Patch
*** Update File: src/auth.py
@@
-    return token
+    return token, user
*** End Patch
"""


def codex_story(stage: Stage, seen: Seen) -> None:
    (stage.home / ".codex").mkdir()
    seen.figure("installed", stage.amend("hooks", "install", "codex", "--user").strip())
    played = stage.codex(ASK, _lanes([SPAWN], [WAIT]))
    seen.that("an exploration of what nobody knows runs", played.model.requests("sub"))
    read, entries = _files_read(stage), stage.entries()
    files = {file for entry in entries for file in entry["files"]}
    seen.that(
        "its entry holds exactly the files that its rollout shows as read",
        len(entries) == 1 and files == read == {"src/auth.py", "src/session.py"},
        f"rollout: {sorted(read)}\nentry:   {json.dumps(entries, indent=1)}",
    )
    key = entries[0]["key"] if entries else "?"

    played = stage.codex(ASK, _lanes([SPAWN]))
    main = played.model.requests("main")
    seen.that("in a new session the same question runs none", not played.model.requests("sub"))
    shown = main[1].says("not run, since what it would find out is known") if main[1:] else ""
    seen.that("and the model's next request holds the finding", FINDING[:60] in shown, shown)

    patch = tool("apply_patch", custom=PATCH)
    played = stage.codex(ASK, _lanes([patch], [SPAWN], [WAIT]))
    edited = (stage.root / "src/auth.py").read_text()
    seen.that("the agent's own patch has edited", "return token, user" in edited)
    seen.that("after its edit the exploration runs", played.model.requests("sub"))
    told = [request.says("An earlier finding") for request in played.model.requests("main")]
    shown = next((each for each in told if each), "")
    seen.that("with a head start beside it that names the file", "| src/auth.py: " in shown, shown)
    entries = stage.entries()
    seen.that("what it finds is true again", [e["verdict"] for e in entries] == ["fresh"])

    (stage.root / "src/session.py").write_text("TOKENS = ()\n")
    oid = stage.commit("no more tokens")
    stage.daemon.sync()
    played = stage.codex(ASK, _lanes())
    main = played.model.requests("main")
    shown = main[0].says("No longer true since the last session here") if main else ""
    seen.that(
        "the next session's first request names the entry and the commit",
        key in shown and oid[:10] in shown,
        shown,
    )


def _lanes(*turns: list[dict[str, Any]]) -> Lanes:
    return {
        "main": [*turns, [text("MAIN-1")], [text("MAIN-2")]],
        "sub": [
            [tool("exec_command", {"cmd": "cat src/auth.py"})],
            [tool("exec_command", {"cmd": "sed -n '1,6p' src/session.py"})],
            [text(FINDING)],
        ],
    }


def _files_read(stage: Stage) -> set[str]:
    """What Codex itself takes for reading, in the newest rollout of a subagent."""
    found: dict[Path, set[str]] = {}
    for rollout in (stage.home / ".codex/sessions").rglob("rollout-*.jsonl"):
        lines = [json.loads(line)["payload"] for line in rollout.read_text().splitlines()]
        if "parent_thread_id" not in lines[0]:
            continue
        items = [line.get("item") or {} for line in lines]
        parsed = [each for item in items for each in item.get("parsed_cmd") or ()]
        found[rollout] = {each["path"] for each in parsed if each["type"] == "read"}
    newest = max(found, key=lambda path: path.stat().st_mtime_ns, default=None)
    return found[newest] if newest else set()
