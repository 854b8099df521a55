"""A daemon that is dead or hangs, as a person sees it: nothing on the screen, and little delay."""

import json
import re
import statistics
from typing import Final

from tests.e2e.claude_story import ASK, exploring
from tests.e2e.model import Lanes, Model, text, tool
from tests.e2e.seen import Seen
from tests.e2e.stage import Stage
from tests.e2e.terminal import Terminal

# One that amend answers nothing about, so that every run is the same.
AGENT: Final = tool(
    "Agent",
    {
        "description": "Explore auth",
        "subagent_type": "general-purpose",
        "prompt": "[[lane:sub]] Read what there is.",
    },
)

# What Claude Code writes where a hook has failed or was cut. Words come without their blanks, of
# which a terminal needs none.
NOTICE: Final = re.compile(
    r"hook(?:failed|error|cancelled)|timedout|outputwasdiscarded|nc:|curl:|refused|Traceback",
    re.IGNORECASE,
)

# Where a notice stands, a person may have read this much of it.
_AROUND: Final = 120

# A screen that says nothing for so long is at rest; a hook is cut after 0.5 s.
_QUIET_S: Final = 1.0
_SHOWN_S: Final = 60.0

# The hooks of such a run: its start, two prompts (one is the notification), the call of the
# subagent before and after, and the subagent's end.
EVENTS: Final = 6
DELAY_S_MAX: Final = 0.6
ROUNDS: Final = 3

FAILING: Final = "nc -N -U /nonexistent/amend.sock"


def lanes(stage: Stage) -> Lanes:
    said = [[text("MAIN-1")], [text("MAIN-2")], [text("MAIN-3")]]
    return {"main": [[AGENT], *said], "sub": exploring(stage.root, "read")}


# -- on the screen -----------------------------------------------------------------------------


def notices(stage: Stage, seen: Seen) -> None:
    settings = stage.home / ".claude/settings.json"
    stage.amend("hooks", "install", "claude", "--user")
    seen.figure("healthy", _screen_says(stage, seen, "a daemon that is well") or "no notice")
    stage.hang()
    try:
        _screen_says(stage, seen, "a daemon that hangs")
    finally:
        stage.go_on()
    stage.daemon.stop(kill=True)
    _screen_says(stage, seen, "a daemon that was killed")
    events = json.loads(settings.read_bytes())["hooks"]
    for groups in events.values():
        groups[0]["hooks"][0]["command"] = FAILING
    settings.write_text(json.dumps({"hooks": events}))
    shown, is_done = _screen(stage)
    found = NOTICE.search(shown)
    seen.that(
        "while hooks that do fail are seen to, so that the look is worth something",
        is_done and found,
        _around(shown, found),
    )


def _screen_says(stage: Stage, seen: Seen, what: str) -> str:
    shown, is_done = _screen(stage)
    found = NOTICE.search(shown)
    seen.that(f"with {what} the session goes on to its end", is_done)
    seen.that(f"with {what} no notice is on the screen", not found, _around(shown, found))
    return _around(shown, found)


def _around(shown: str, found: re.Match[str] | None) -> str:
    return shown[max(0, found.start() - _AROUND) : found.end() + _AROUND] if found else ""


def _screen(stage: Stage) -> tuple[str, bool]:
    """All that a session in the terminal has shown, without blanks; whether it went to its end."""
    with Model(stage.rig, lanes(stage)) as model:
        env = stage.claude_env(model)
        known = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [env["ANTHROPIC_API_KEY"][-20:]]},
            "projects": {str(stage.root): {"hasTrustDialogAccepted": True}},
        }
        (stage.home / ".claude.json").write_text(json.dumps(known))
        command = [str(stage.clients.claude), "--permission-mode", "default"]
        with Terminal(command, cwd=stage.root, env=env) as terminal:
            terminal.until("❯", _SHOWN_S)
            terminal.quiet(_QUIET_S)
            terminal.type(ASK)
            terminal.quiet(_QUIET_S)
            terminal.type("\r")
            is_done = terminal.until("MAIN-2", _SHOWN_S)
            terminal.quiet(_QUIET_S)
            return re.sub(r"\s", "", terminal.shown()), is_done


# -- in time -----------------------------------------------------------------------------------


def delay(stage: Stage, seen: Seen) -> None:
    """Rounds of a run with each, since a machine that others use is not always as quick."""
    stage.amend("hooks", "install", "claude", "--user")
    _run_s(stage)  # the first one makes the client's own files
    well, hanging, dead = [], [], []
    for _ in range(ROUNDS):
        well.append(_run_s(stage))
        stage.hang()
        try:
            hanging.append(_run_s(stage))
        finally:
            stage.go_on()
        stage.daemon.stop(kill=True)
        dead.append(_run_s(stage))
        stage.daemon.start()
    well_s = statistics.median(well)
    for what, taken in (("hangs", hanging), ("was killed", dead)):
        taken_s = statistics.median(taken)
        added_s = (taken_s - well_s) / EVENTS
        seen.that(
            f"a daemon that {what} adds at most {DELAY_S_MAX} s to a hooked event",
            added_s <= DELAY_S_MAX,
            f"{added_s:+.2f} s each of {EVENTS}: {taken_s:.2f} s a run, {well_s:.2f} s with one"
            f" that is well (medians of {ROUNDS})",
        )


def _run_s(stage: Stage) -> float:
    played = stage.claude(ASK, lanes(stage))
    if played.code != 0 or not played.model.requests("sub"):
        raise RuntimeError(f"the client ended with {played.code}: {played.err}")
    return played.elapsed_s
