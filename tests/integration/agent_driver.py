"""Claude Code and Codex played by a script: the installed hooks are all that it knows of amend.

    agent = ClaudeCode(home, root)
    session = agent.session()
    told = session.explore("Find the login.", [reads("src/auth.py")], found="In src/auth.py.")

Settings are read as the client reads them, the commands found there get the JSON that the client
writes, in a process group of their own that ends with the entry's timeout, and transcripts lie
where the client puts them. The shapes are those of research/hooks-verified.md.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from amend.edge.files.look import RACY_NS
from tests.agent_exchanges import ClaudePlace, CodexPlace, Document, given_agent
from tests.transcripts import (
    Step,
    bash,
    claude_meta,
    claude_transcript,
    codex_rollout,
    failed_read,
    read,
    say,
)

# What Claude Code gives a hook whose entry names no timeout; none of amend's is without.
UNBOUNDED_S: Final = 60.0

# A matcher of these is a list of names, any other one an unanchored regular expression.
_NAMES: Final = re.compile(r"[A-Za-z0-9_|, ]*")

# What the matcher of an event is held against.
_SUBJECT: Final = {
    "SessionStart": "source",
    "PreToolUse": "tool_name",
    "PostToolUse": "tool_name",
    "PostToolUseFailure": "tool_name",
    "SubagentStart": "agent_type",
    "SubagentStop": "agent_type",
    "StopFailure": "error",
}

Doing = Callable[[Path], Step]
"""What a subagent does in a directory, done now."""


# -- hooks -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Handler:
    command: str
    timeout_s: float


@dataclass(frozen=True)
class Ran:
    """One hook command that has run. `code` None: cut by its timeout."""

    event: str
    command: str
    code: int | None
    out: bytes
    err: bytes
    elapsed_s: float

    @property
    def is_silent(self) -> bool:
        return (self.out, self.err) == (b"", b"")


def handlers(settings: Path, document: Mapping[str, Any]) -> list[Handler]:
    """The commands that `settings` wants run for `document`."""
    event = document["hook_event_name"]
    names = {document.get(_SUBJECT.get(event, ""), "")}
    if names & {"spawn_agent"}:
        names |= {"Agent", "Task"}  # as Codex also calls it
    hooks = json.loads(settings.read_bytes()).get("hooks", {})
    return [
        Handler(each["command"], each.get("timeout", UNBOUNDED_S))
        for group in hooks.get(event, ())
        if event not in _SUBJECT or any(_matches(group.get("matcher"), name) for name in names)
        for each in group["hooks"]
        if each["type"] == "command"
    ]


def _matches(matcher: str | None, name: str) -> bool:
    if matcher in (None, "", "*"):
        return True
    if _NAMES.fullmatch(matcher):
        return name in [each.strip() for each in re.split(r"[|,]", matcher)]
    return re.search(matcher, name) is not None


def run_hook(
    handler: Handler,
    document: Mapping[str, Any],
    *,
    env: Mapping[str, str],
    cwd: Path | str,
    **more: Any,
) -> Ran:
    """`more`: of the process, such as the user it runs as."""
    begun_s = time.monotonic()
    with subprocess.Popen(
        ["/bin/sh", "-c", handler.command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        cwd=cwd,
        start_new_session=True,
        **more,
    ) as process:
        code: int | None = None
        out = err = b""
        try:
            out, err = process.communicate(json.dumps(document).encode(), handler.timeout_s)
            code = process.returncode
        except subprocess.TimeoutExpired:
            pass
        elapsed_s = time.monotonic() - begun_s
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return Ran(document["hook_event_name"], handler.command, code, out, err, elapsed_s)


@dataclass
class Hooks:
    """The hooks in `settings`, and all that have run."""

    settings: Path
    env: Mapping[str, str]
    cwd: Path
    ran: list[Ran] = field(default_factory=list)

    def tell(self, document: Document) -> dict[str, Any]:
        """What they say of `document`: the keys of `hookSpecificOutput`, {} where nothing."""
        said: dict[str, Any] = {}
        for handler in handlers(self.settings, document):
            ran = run_hook(handler, document, env=self.env, cwd=self.cwd)
            self.ran.append(ran)
            if ran.code == 0 and ran.out:
                said |= _specific(ran)
        return said


def _specific(ran: Ran) -> dict[str, Any]:
    """The client drops what does not name the event that it is about."""
    output: dict[str, Any] = json.loads(ran.out)["hookSpecificOutput"]
    if output.pop("hookEventName") != ran.event:
        return {}
    return output


# -- what a subagent does ----------------------------------------------------------------------


def reads(path: str, offset: int | None = None, limit: int | None = None) -> Doing:
    """The Read tool, or Codex's `cat` or `sed`, on a file below the directory."""

    def look(root: Path) -> Step:
        full = root / path
        if not full.exists():
            return failed_read(str(full))
        return read(str(full), offset, limit, content=full.read_text())

    return look


def runs(command: str) -> Doing:
    """A shell command, which really runs."""

    def look(root: Path) -> Step:
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=root, capture_output=True, text=True, check=False
        )
        return bash(command, done.stdout + done.stderr, exit_code=done.returncode)

    return look


@dataclass(frozen=True)
class Explored:
    """What became of the wish to explore. `refused`: why it did not run; `prompt`: what the
    subagent read; `beside`: what the session itself was told."""

    refused: str
    prompt: str
    beside: str
    subagent: str


def _done(doing: Sequence[Doing], root: Path, found: str | None) -> tuple[datetime, list[Step]]:
    """When it began, and the steps as they went. `found` None: it broke off."""
    _wait_for_a_turn(root)
    began, begun_s = datetime.now(UTC), time.monotonic()
    steps = []
    for each in doing:
        at = time.monotonic() - begun_s
        steps.append(replace(each(root), at=at))
    if found is not None:
        steps.append(say(found, at=time.monotonic() - begun_s))
    return began, steps


def _wait_for_a_turn(root: Path) -> None:
    """A model takes seconds from an edit to its next look. What is looked at in the same instant
    as it is written cannot be told from what was written after the look."""
    written = [
        path.lstat().st_ctime_ns
        for path in root.rglob("*")
        if ".git" not in path.parts and path.is_file()
    ]
    while time.time_ns() < max(written, default=0) + 2 * RACY_NS:
        time.sleep(RACY_NS / 1e10)


# -- Claude Code -------------------------------------------------------------------------------


@dataclass
class ClaudeCode:
    """`claude`, started in the repository `root` by a person whose home is `home`."""

    home: Path
    root: Path
    settings: Path

    def session(self, source: str = "startup") -> "ClaudeSession":
        return ClaudeSession(self, source)


class ClaudeSession:
    def __init__(self, agent: ClaudeCode, source: str = "startup") -> None:
        dashed = str(agent.root).replace("/", "-")
        self.agent = agent
        self.place = ClaudePlace(
            session=str(uuid.uuid4()),
            directory=str(agent.root),
            projects=str(agent.home / ".claude/projects" / dashed),
        )
        env = {"HOME": str(agent.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        self.hooks = Hooks(agent.settings, env, agent.root)
        self.told = self._context(self.place.session_start(source))

    def _context(self, document: Document) -> str:
        said = self.hooks.tell(document)
        assert set(said) <= {"additionalContext"}, said
        return str(said.get("additionalContext", ""))

    def prompt(self, text: str) -> str:
        """What is told beside it."""
        return self._context(self.place.prompt(text))

    def explore(
        self,
        task: str,
        doing: Sequence[Doing],
        found: str | None,
        *,
        description: str = "Explore the code",
        is_lagging: bool = False,
    ) -> Explored:
        """Ask for a subagent in the background. `found` None: its API fails; `is_lagging`: its
        transcript is whole only after the end was told, as with 2.1.197."""
        call, subagent = f"toolu_{uuid.uuid4().hex[:22]}", f"a{uuid.uuid4().hex[:16]}"
        given = given_agent(task, description)
        said = self.hooks.tell(self.place.before_tool("Agent", given, call))
        assert said.get("permissionDecision") in (None, "deny")
        if said.get("permissionDecision") == "deny":
            return Explored(said["permissionDecisionReason"], "", "", "")
        updated = said.get("updatedInput", given)
        assert updated.keys() >= {"description", "prompt"}  # it fails a call with a key too few
        beside = str(said.get("additionalContext", ""))
        launched = {**self.place.after_launch(call, subagent), "tool_input": updated}
        self.hooks.tell(launched)
        self._explore(call, subagent, updated, doing, found, is_lagging=is_lagging)
        return Explored("", updated["prompt"], beside, subagent)

    def _explore(
        self,
        call: str,
        subagent: str,
        given: Document,
        doing: Sequence[Doing],
        found: str | None,
        *,
        is_lagging: bool,
    ) -> None:
        inside = {"agent_id": subagent, "agent_type": given["subagent_type"]}
        self._inside(self.place.document("SubagentStart", **inside))
        began, steps = _done(doing, self.agent.root, found)
        for step in steps:
            if step.tool:
                self._inside(self.place.before_tool(step.tool, step.input, "toolu_in", **inside))
                after = self.place.after_tool(step.tool, step.input, {}, "toolu_in", **inside)
                self._inside(after)
        path = Path(self.place.subagent_transcript(subagent))
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {"call": call, "description": given["description"]}
        path.with_suffix(".meta.json").write_bytes(claude_meta(**about, finished=found is not None))
        transcript = claude_transcript(
            prompt=given["prompt"],
            steps=steps,
            cwd=str(self.agent.root),
            agent_id=subagent,
            session_id=self.place.session,
            began=began,
        )
        path.write_bytes(_without_the_end(transcript) if is_lagging else transcript)
        if found is None:
            self._inside(self.place.stop_failure(**inside))
            return
        self._inside(self.place.stop(subagent, text=found))
        path.write_bytes(transcript)
        assert self.prompt_of("completed", subagent, call, found) == ""

    def _inside(self, document: Document) -> None:
        """What happens in a subagent is answered with nothing: it would make it run again."""
        assert self.hooks.tell(document) == {}

    def stop_again(self, subagent: str, found: str) -> None:
        """As after a message to a subagent that had ended."""
        self._inside(self.place.stop(subagent, text=found))

    def prompt_of(self, status: str, subagent: str, call: str, result: str = "") -> str:
        """The end of a background task, which the client gives to the session as a prompt."""
        return self._context(self.place.notification(status, subagent, call, result))

    def edit(self, path: str, old: str, new: str) -> None:
        full = self.agent.root / path
        text = full.read_text()
        assert old in text
        full.write_text(text.replace(old, new, 1))
        given = {"file_path": str(full), "old_string": old, "new_string": new}
        response = {"filePath": str(full), "oldString": old, "newString": new}
        after = self.place.after_tool("Edit", given, response, f"toolu_{uuid.uuid4().hex[:22]}")
        assert self.hooks.tell(after) == {}


def _without_the_end(transcript: bytes) -> bytes:
    """What 2.1.197 has written when it tells the end: not the last result, nor the last text."""
    return b"".join(transcript.splitlines(keepends=True)[:-3])


# -- Codex -------------------------------------------------------------------------------------


@dataclass
class Codex:
    """`codex`, started in the repository `root` by a person whose home is `home`."""

    home: Path
    root: Path
    settings: Path

    def session(self, source: str = "startup") -> "CodexSession":
        return CodexSession(self, source)


class CodexSession:
    def __init__(self, agent: Codex, source: str = "startup") -> None:
        self.agent = agent
        self.place = CodexPlace(
            session=str(uuid.uuid4()),
            directory=str(agent.root),
            sessions=str(agent.home / ".codex/sessions/2026/11/30"),
        )
        env = {"HOME": str(agent.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        self.hooks = Hooks(agent.settings, env, agent.root)
        self.told = self._context(self.place.session_start(source))

    def _context(self, document: Document) -> str:
        said = self.hooks.tell(document)
        assert set(said) <= {"additionalContext"}, said
        return str(said.get("additionalContext", ""))

    def prompt(self, text: str) -> str:
        return self._context(self.place.prompt(text))

    def explore(self, task: str, doing: Sequence[Doing], found: str) -> Explored:
        """Ask for a subagent, and wait for it."""
        call, subagent = f"call_{uuid.uuid4().hex[:16]}", str(uuid.uuid4())
        said = self.hooks.tell(self.place.before_spawn(call, task))
        assert said.get("permissionDecision") in (None, "deny")
        assert "updatedInput" not in said  # it would have to be allowed as well
        if said.get("permissionDecision") == "deny":
            return Explored(said["permissionDecisionReason"], "", "", "")
        launched = self.place.after_spawn(call, subagent)
        launched["tool_input"] = {"message": task, "agent_type": "explorer"}
        assert self.hooks.tell(launched) == {}
        inside = {"agent_id": subagent, "agent_type": "explorer"}
        assert self.hooks.tell(self.place.document("SubagentStart", **inside)) == {}
        assert self.hooks.tell(self.place.prompt(task, **inside)) == {}
        began, steps = _done(doing, self.agent.root, found)
        path = Path(self.place.rollout(subagent))
        path.parent.mkdir(parents=True, exist_ok=True)
        rollout = codex_rollout(
            prompt=task,
            steps=steps,
            cwd=str(self.agent.root),
            thread=subagent,
            parent=self.place.session,
            began=began,
        )
        path.write_bytes(rollout)
        assert self.hooks.tell(self.place.stop(subagent, text=found)) == {}
        return Explored("", task, str(said.get("additionalContext", "")), subagent)

    def edit(self, path: str, old: str, new: str) -> None:
        full = self.agent.root / path
        text = full.read_text()
        assert old in text
        full.write_text(text.replace(old, new, 1))
        patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch\n"
        assert self.hooks.tell(self.place.after_patch(patch)) == {}
