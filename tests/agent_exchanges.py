"""Hook inputs as Claude Code and Codex write them, and what amend makes of each.

The shapes are those measured on Claude Code 2.1.197 and 2.1.332 and on Codex 0.171; the values are
made up. `Place` says where a conversation takes place; its methods write one document each, with
whatever a test wants different. `EXCHANGES` are whole golden exchanges.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from amend.core.agent import (
    NOTHING,
    Answer,
    ExplorationEnded,
    ExplorationFailed,
    ExplorationLaunched,
    ExplorationStarting,
    FilesEdited,
    PromptGiven,
    Question,
    Session,
    SessionOpened,
)

Document = dict[str, Any]

FINDING = "Login is issued in src/auth.py:3 and revoked in src/session.py."
TASK = "Find out how the auth system works."


@dataclass(frozen=True)
class ClaudePlace:
    """A session of Claude Code. `projects`: the folder of its transcripts for this directory."""

    session: str = "5f0c9a52-3c1e-4c58-9d43-1b7b8f3f5a10"
    directory: str = "/home/ada/shop"
    projects: str = "/home/ada/.claude/projects/-home-ada-shop"

    @property
    def transcript(self) -> str:
        return f"{self.projects}/{self.session}.jsonl"

    def subagent_transcript(self, subagent: str) -> str:
        return f"{self.projects}/{self.session}/subagents/agent-{subagent}.jsonl"

    def document(self, event: str, **fields: Any) -> Document:
        return {
            "session_id": self.session,
            "transcript_path": self.transcript,
            "cwd": self.directory,
            "hook_event_name": event,
            **fields,
        }

    def session_start(self, source: str = "startup") -> Document:
        extra: Document = {}
        if source == "resume":
            extra = {"seconds_since_last_response": 4210, "context_tokens": 18_200}
        return self.document("SessionStart", source=source, **extra)

    def prompt(self, text: str, **fields: Any) -> Document:
        return self.document(
            "UserPromptSubmit",
            prompt_id="9a2d41c0",
            permission_mode="default",
            prompt=text,
            **fields,
        )

    def notification(self, status: str, subagent: str, call: str, result: str = "") -> Document:
        lines = [
            "<task-notification>",
            f"<task-id>{subagent}</task-id>",
            f"<tool-use-id>{call}</tool-use-id>",
            f"<output-file>/tmp/claude/tasks/{subagent}.output</output-file>",
            f"<status>{status}</status>",
            f'<summary>Agent "Explore auth" {status}</summary>',
            *([f"<result>{result}</result>"] if result else []),
            "</task-notification>",
        ]
        return self.prompt("\n".join(lines))

    def before_tool(self, tool: str, given: Document, call: str, **fields: Any) -> Document:
        return self.document(
            "PreToolUse",
            prompt_id="9a2d41c0",
            permission_mode="default",
            effort={"level": "medium"},
            tool_name=tool,
            tool_input=given,
            tool_use_id=call,
            **fields,
        )

    def after_tool(
        self, tool: str, given: Document, response: Document, call: str, **fields: Any
    ) -> Document:
        return {
            **self.before_tool(tool, given, call, **fields),
            "hook_event_name": "PostToolUse",
            "tool_response": response,
            "duration_ms": 19,
        }

    def before_agent(
        self,
        call: str,
        prompt: str = TASK,
        description: str = "Explore auth",
        subagent_type: str = "Explore",
        **fields: Any,
    ) -> Document:
        given = given_agent(prompt, description, subagent_type)
        return self.before_tool("Agent", given, call, **fields)

    def after_launch(self, call: str, subagent: str, **fields: Any) -> Document:
        response = {
            "isAsync": True,
            "status": "async_launched",
            "agentId": subagent,
            "description": "Explore auth",
            "resolvedModel": "claude-opus-5-5",
            "prompt": TASK,
            "outputFile": f"/tmp/claude/tasks/{subagent}.output",
            "canReadOutputFile": True,
            "canContinueAgent": True,
        }
        return self.after_tool("Agent", given_agent(), response, call, **fields)

    def after_foreground(
        self, call: str, subagent: str, text: str = FINDING, *, lists_tools: bool = True
    ) -> Document:
        """`lists_tools`: as 2.1.332 does, with a block of its own before the finding."""
        listed = "<tools-used-before-summary>Read</tools-used-before-summary>\n"
        response = {
            "status": "completed",
            "agentId": subagent,
            "agentType": "Explore",
            "toolsUsed": ["Read"],
            "content": [
                *([{"type": "text", "text": listed}] if lists_tools else []),
                {"type": "text", "text": text},
            ],
            "totalDurationMs": 201,
            "totalTokens": 1380,
            "totalToolUseCount": 1,
            "usage": {"input_tokens": 1000, "output_tokens": 50},
        }
        return self.after_tool("Agent", given_agent(), response, call)

    def after_edit(self, path: str, **fields: Any) -> Document:
        given = {"file_path": path, "old_string": "one", "new_string": "two"}
        response = {"filePath": path, "oldString": "one", "newString": "two", "structuredPatch": []}
        return self.after_tool("Edit", given, response, "toolu_ed17", **fields)

    def stop(
        self, subagent: str, agent_type: str = "Explore", text: str = FINDING, **fields: Any
    ) -> Document:
        return self.document(
            "SubagentStop",
            prompt_id="9a2d41c0",
            permission_mode="default",
            agent_id=subagent,
            agent_type=agent_type,
            effort={"level": "medium"},
            stop_hook_active=False,
            agent_transcript_path=self.subagent_transcript(subagent),
            last_assistant_message=text,
            background_tasks=[
                {"id": subagent, "type": "subagent", "status": "running", "agent_type": agent_type}
            ],
            session_crons=[],
            **fields,
        )

    def stop_failure(self, **fields: Any) -> Document:
        return self.document(
            "StopFailure",
            error="unknown",
            last_assistant_message="API Error: 400 scripted",
            **fields,
        )


def given_agent(
    prompt: str = TASK, description: str = "Explore auth", subagent_type: str = "Explore"
) -> Document:
    return {"description": description, "prompt": prompt, "subagent_type": subagent_type}


@dataclass(frozen=True)
class CodexPlace:
    session: str = "01a22c96-c7da-78f1-8e12-559c5aa4a13c"
    directory: str = "/home/ada/shop"
    sessions: str = "/home/ada/.codex/sessions/2026/11/30"

    def rollout(self, thread: str) -> str:
        return f"{self.sessions}/rollout-2026-11-30T13-13-28-{thread}.jsonl"

    def document(self, event: str, **fields: Any) -> Document:
        return {
            "session_id": self.session,
            "turn_id": "01a22c96-c7fc-7b12-aa30-8a9cdda84b75",
            "transcript_path": self.rollout(self.session),
            "cwd": self.directory,
            "hook_event_name": event,
            "model": "gpt-5.5",
            "permission_mode": "default",
            **fields,
        }

    def session_start(self, source: str = "startup") -> Document:
        document = self.document("SessionStart", source=source)
        del document["turn_id"]
        return document

    def prompt(self, text: str, **fields: Any) -> Document:
        return self.document("UserPromptSubmit", prompt=text, **fields)

    def before_tool(self, tool: str, given: Document, call: str, **fields: Any) -> Document:
        return self.document(
            "PreToolUse", tool_name=tool, tool_input=given, tool_use_id=call, **fields
        )

    def after_tool(
        self, tool: str, given: Document, response: object, call: str, **fields: Any
    ) -> Document:
        return {
            **self.before_tool(tool, given, call, **fields),
            "hook_event_name": "PostToolUse",
            "tool_response": response,
        }

    def before_spawn(
        self, call: str, prompt: str = TASK, agent_type: str = "explorer", **fields: Any
    ) -> Document:
        given = {"message": prompt, "agent_type": agent_type}
        return self.before_tool("spawn_agent", given, call, **fields)

    def after_spawn(self, call: str, subagent: str, **fields: Any) -> Document:
        given = {"message": TASK, "agent_type": "explorer"}
        response = json.dumps({"agent_id": subagent, "nickname": "Leibniz"}, separators=(",", ":"))
        return self.after_tool("spawn_agent", given, response, call, **fields)

    def after_patch(self, patch: str, **fields: Any) -> Document:
        response = "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated files.\n"
        given = {"command": patch}
        return self.after_tool("apply_patch", given, response, "call_9a7c", **fields)

    def stop(
        self, subagent: str, agent_type: str = "explorer", text: str | None = FINDING
    ) -> Document:
        return self.document(
            "SubagentStop",
            agent_transcript_path=self.rollout(subagent),
            stop_hook_active=False,
            agent_id=subagent,
            agent_type=agent_type,
            last_assistant_message=text,
        )


@dataclass(frozen=True)
class Exchange:
    """`document` asks `question`; `answer` is told as `reply`, b"" where nothing is."""

    name: str
    agent: str
    document: Mapping[str, Any]
    question: Question | None
    answer: Answer = field(default=NOTHING)
    reply: bytes = b""


CLAUDE = ClaudePlace()
CODEX = CodexPlace()

CALL = "toolu_a7e2"
SUBAGENT = "aa8af936e5238f386"
CODEX_CALL = "call_c78e3f72"
CODEX_SUBAGENT = "01a22c96-c87d-7de1-8874-2b5b9341b90a"

# What every answer says at once in `ALL_OF_IT`: an adapter tells the first that the event can take.
ALL_OF_IT = Answer(context="amend knows: a", instead="amend found: b", head_start="amend says: c")

PATCH = """\
*** Begin Patch
*** Update File: src/auth.py
*** Move to: src/login.py
@@
-import session
+*** Delete File: src/quoted.py
*** Add File: src/new file.py
+x = 1
*** Delete File: src/db.py
*** Update File: src/login.py
@@
 *** Delete File: src/context.py
*** End Patch
"""


def _claude(subagent: str | None = None) -> Session:
    return Session("claude", CLAUDE.session, CLAUDE.directory, subagent)


def _codex(subagent: str | None = None) -> Session:
    return Session("codex", CODEX.session, CODEX.directory, subagent)


def _starting(given: Document, **fields: Any) -> ExplorationStarting:
    return ExplorationStarting(
        **{
            "session": _claude(),
            "call": CALL,
            "agent_type": "Explore",
            "description": "Explore auth",
            "prompt": TASK,
            "given": given,
            **fields,
        }
    )


_RICH_GIVEN = {**given_agent(), "model": "haiku", "run_in_background": True, "name": None}
_IN_SUBAGENT = {"agent_id": SUBAGENT, "agent_type": "Explore"}
_CODEX_IN_SUBAGENT = {"agent_id": CODEX_SUBAGENT, "agent_type": "explorer"}
_CODEX_GIVEN = {"message": TASK, "agent_type": "explorer"}

CLAUDE_EXCHANGES = [
    *(
        Exchange(
            f"claude session {source}",
            "claude",
            CLAUDE.session_start(source),
            SessionOpened(_claude(), source),
            ALL_OF_IT,
            b'{"hookSpecificOutput":{"hookEventName":"SessionStart",'
            b'"additionalContext":"amend knows: a"}}',
        )
        for source in ("startup", "resume", "clear", "compact", "fork")
    ),
    Exchange(
        "claude session with nothing to tell",
        "claude",
        CLAUDE.session_start(),
        SessionOpened(_claude(), "startup"),
    ),
    Exchange(
        "claude prompt",
        "claude",
        CLAUDE.prompt("Where is the »login«?"),
        PromptGiven(_claude(), "Where is the »login«?"),
        Answer(context='it is in "src/auth.py"\nchecked at 14:02 – fresh'),
        '{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit",'
        '"additionalContext":"it is in \\"src/auth.py\\"\\nchecked at 14:02 – fresh"}}'.encode(),
    ),
    Exchange(
        "claude prompt inside a subagent",
        "claude",
        CLAUDE.prompt(TASK, **_IN_SUBAGENT),
        None,
        ALL_OF_IT,
    ),
    Exchange(
        "claude notification of a finished task",
        "claude",
        CLAUDE.notification("completed", SUBAGENT, CALL, "all done, not <status>killed</status>"),
        None,
        ALL_OF_IT,
    ),
    *(
        Exchange(
            f"claude notification of a {status} task",
            "claude",
            CLAUDE.notification(status, SUBAGENT, CALL),
            ExplorationFailed(_claude(), exploration=SUBAGENT, call=CALL),
            ALL_OF_IT,
        )
        for status in ("failed", "killed")
    ),
    Exchange(
        "claude exploration answered instead",
        "claude",
        CLAUDE.before_agent(CALL),
        _starting(given_agent()),
        ALL_OF_IT,
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny",'
        b'"permissionDecisionReason":"amend found: b"}}',
    ),
    Exchange(
        "claude exploration with a head start",
        "claude",
        CLAUDE.before_tool("Agent", _RICH_GIVEN, CALL),
        _starting(_RICH_GIVEN),
        Answer(head_start="Known: src/auth.py is unchanged."),
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{'
        b'"description":"Explore auth",'
        b'"prompt":"Find out how the auth system works.\\n\\nKnown: src/auth.py is unchanged.",'
        b'"subagent_type":"Explore","model":"haiku","run_in_background":true,"name":null}}}',
    ),
    Exchange(
        "claude exploration with context beside it",
        "claude",
        CLAUDE.before_tool("Task", given_agent(), CALL),
        _starting(given_agent()),
        Answer(context="amend knows: a"),
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse",'
        b'"additionalContext":"amend knows: a"}}',
    ),
    Exchange(
        "claude exploration with nothing to tell",
        "claude",
        CLAUDE.before_agent(CALL, subagent_type="amend:scout"),
        _starting(given_agent(subagent_type="amend:scout"), agent_type="amend:scout"),
    ),
    Exchange(
        "claude exploration started by a subagent",
        "claude",
        CLAUDE.before_agent(CALL, **_IN_SUBAGENT),
        _starting(given_agent(), session=_claude(SUBAGENT)),
        ALL_OF_IT,
    ),
    Exchange(
        "claude other tool",
        "claude",
        CLAUDE.before_tool("Read", {"file_path": "/home/ada/shop/src/auth.py"}, CALL),
        None,
        ALL_OF_IT,
    ),
    Exchange(
        "claude subagent start",
        "claude",
        CLAUDE.document("SubagentStart", **_IN_SUBAGENT),
        None,
        ALL_OF_IT,
    ),
    Exchange(
        "claude exploration launched",
        "claude",
        CLAUDE.after_launch(CALL, SUBAGENT),
        ExplorationLaunched(_claude(), CALL, SUBAGENT),
        ALL_OF_IT,
    ),
    Exchange(
        "claude exploration launched by a subagent",
        "claude",
        CLAUDE.after_launch(CALL, "bb11", **_IN_SUBAGENT),
        ExplorationLaunched(_claude(SUBAGENT), CALL, "bb11"),
        ALL_OF_IT,
    ),
    *(
        Exchange(
            f"claude exploration ended in the foreground of {version}",
            "claude",
            CLAUDE.after_foreground(CALL, SUBAGENT, lists_tools=lists_tools),
            ExplorationEnded(
                _claude(),
                exploration=SUBAGENT,
                agent_type="Explore",
                text=FINDING,
                transcript=CLAUDE.subagent_transcript(SUBAGENT),
                call=CALL,
                prompt=TASK,
                description="Explore auth",
            ),
            ALL_OF_IT,
        )
        for version, lists_tools in (("2.1.197", False), ("2.1.332", True))
    ),
    Exchange(
        "claude exploration that could not run",
        "claude",
        {
            **CLAUDE.before_agent(CALL),
            "hook_event_name": "PostToolUseFailure",
            "error": "Agent type 'Explore' not found",
            "is_interrupt": False,
        },
        ExplorationFailed(_claude(), call=CALL),
        ALL_OF_IT,
    ),
    Exchange(
        "claude exploration stopped",
        "claude",
        CLAUDE.stop(SUBAGENT),
        ExplorationEnded(
            _claude(SUBAGENT),
            exploration=SUBAGENT,
            agent_type="Explore",
            text=FINDING,
            transcript=CLAUDE.subagent_transcript(SUBAGENT),
        ),
        ALL_OF_IT,
    ),
    Exchange(
        "claude exploration stopped in a worktree of its own",
        "claude",
        {**CLAUDE.stop(SUBAGENT), "cwd": "/home/ada/shop/.claude/worktrees/agent-aa8a"},
        ExplorationEnded(
            Session(
                "claude",
                CLAUDE.session,
                "/home/ada/shop/.claude/worktrees/agent-aa8a",
                SUBAGENT,
            ),
            exploration=SUBAGENT,
            agent_type="Explore",
            text=FINDING,
            transcript=CLAUDE.subagent_transcript(SUBAGENT),
        ),
        ALL_OF_IT,
    ),
    Exchange(
        "claude compaction",
        "claude",
        CLAUDE.stop(SUBAGENT, agent_type="", text="<summary>so far</summary>"),
        None,
        ALL_OF_IT,
    ),
    Exchange(
        "claude subagent that met an error",
        "claude",
        CLAUDE.stop_failure(**_IN_SUBAGENT),
        ExplorationFailed(_claude(SUBAGENT), exploration=SUBAGENT),
        ALL_OF_IT,
    ),
    Exchange("claude session that met an error", "claude", CLAUDE.stop_failure(), None, ALL_OF_IT),
    Exchange(
        "claude edit",
        "claude",
        CLAUDE.after_edit("/home/ada/shop/src/auth.py"),
        FilesEdited(_claude(), ("/home/ada/shop/src/auth.py",)),
        ALL_OF_IT,
    ),
    Exchange(
        "claude edit by a subagent",
        "claude",
        CLAUDE.after_edit("/home/ada/shop/src/auth.py", **_IN_SUBAGENT),
        FilesEdited(_claude(SUBAGENT), ("/home/ada/shop/src/auth.py",)),
        ALL_OF_IT,
    ),
    *(
        Exchange(
            f"claude {tool}",
            "claude",
            CLAUDE.after_tool(tool, {key: "/home/ada/shop/a.ipynb"}, {"type": "create"}, CALL),
            FilesEdited(_claude(), ("/home/ada/shop/a.ipynb",)),
            ALL_OF_IT,
        )
        for tool, key in (
            ("Write", "file_path"),
            ("MultiEdit", "file_path"),
            ("NotebookEdit", "notebook_path"),
        )
    ),
    Exchange(
        "claude command",
        "claude",
        CLAUDE.after_tool("Bash", {"command": "ls"}, {"stdout": "", "stderr": ""}, CALL),
        None,
        ALL_OF_IT,
    ),
    Exchange(
        "claude stop",
        "claude",
        CLAUDE.document("Stop", stop_hook_active=False, last_assistant_message="done"),
        None,
        ALL_OF_IT,
    ),
    Exchange(
        "claude session end",
        "claude",
        CLAUDE.document("SessionEnd", reason="other"),
        None,
        ALL_OF_IT,
    ),
]

CODEX_EXCHANGES = [
    *(
        Exchange(
            f"codex session {source}",
            "codex",
            CODEX.session_start(source),
            SessionOpened(_codex(), source),
            ALL_OF_IT,
            b'{"hookSpecificOutput":{"hookEventName":"SessionStart",'
            b'"additionalContext":"amend knows: a"}}',
        )
        for source in ("startup", "resume", "clear", "compact")
    ),
    Exchange(
        "codex prompt",
        "codex",
        CODEX.prompt("Where is the login?"),
        PromptGiven(_codex(), "Where is the login?"),
        ALL_OF_IT,
        b'{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit",'
        b'"additionalContext":"amend knows: a"}}',
    ),
    Exchange(
        "codex prompt inside a subagent",
        "codex",
        CODEX.prompt(TASK, **_CODEX_IN_SUBAGENT),
        None,
        ALL_OF_IT,
    ),
    Exchange(
        "codex exploration answered instead",
        "codex",
        CODEX.before_spawn(CODEX_CALL),
        ExplorationStarting(_codex(), CODEX_CALL, "explorer", "", TASK, _CODEX_GIVEN),
        ALL_OF_IT,
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny",'
        b'"permissionDecisionReason":"amend found: b"}}',
    ),
    Exchange(
        "codex exploration with a head start beside it",
        "codex",
        CODEX.before_spawn(CODEX_CALL),
        ExplorationStarting(_codex(), CODEX_CALL, "explorer", "", TASK, _CODEX_GIVEN),
        Answer(head_start="Known: src/auth.py is unchanged."),
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse",'
        b'"additionalContext":"Known: src/auth.py is unchanged."}}',
    ),
    Exchange(
        "codex exploration with context beside it",
        "codex",
        CODEX.before_tool("spawn_agent", {"message": TASK}, CODEX_CALL),
        ExplorationStarting(_codex(), CODEX_CALL, "default", "", TASK, {"message": TASK}),
        Answer(context="amend knows: a"),
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse",'
        b'"additionalContext":"amend knows: a"}}',
    ),
    Exchange(
        "codex exploration started by a subagent",
        "codex",
        CODEX.before_spawn(CODEX_CALL, **_CODEX_IN_SUBAGENT),
        ExplorationStarting(_codex(CODEX_SUBAGENT), CODEX_CALL, "explorer", "", TASK, _CODEX_GIVEN),
        ALL_OF_IT,
    ),
    Exchange(
        "codex waiting for a subagent",
        "codex",
        CODEX.before_tool("multi_agent_v1wait_agent", {"targets": [CODEX_SUBAGENT]}, CODEX_CALL),
        None,
        ALL_OF_IT,
    ),
    Exchange(
        "codex subagent start",
        "codex",
        CODEX.document("SubagentStart", **_CODEX_IN_SUBAGENT),
        None,
        ALL_OF_IT,
    ),
    Exchange(
        "codex exploration launched",
        "codex",
        CODEX.after_spawn(CODEX_CALL, CODEX_SUBAGENT),
        ExplorationLaunched(_codex(), CODEX_CALL, CODEX_SUBAGENT),
        ALL_OF_IT,
    ),
    Exchange(
        "codex task of a collaboration launched",
        "codex",
        CODEX.after_tool(
            "collaborationspawn_agent",
            {"message": TASK, "task_name": "find_auth"},
            '{"task_name":"/root/find_auth"}',
            CODEX_CALL,
        ),
        None,
        ALL_OF_IT,
    ),
    Exchange(
        "codex exploration stopped",
        "codex",
        CODEX.stop(CODEX_SUBAGENT),
        ExplorationEnded(
            _codex(CODEX_SUBAGENT),
            exploration=CODEX_SUBAGENT,
            agent_type="explorer",
            text=FINDING,
            transcript=CODEX.rollout(CODEX_SUBAGENT),
        ),
        ALL_OF_IT,
    ),
    Exchange(
        "codex exploration stopped without a word",
        "codex",
        CODEX.stop(CODEX_SUBAGENT, text=None),
        ExplorationEnded(
            _codex(CODEX_SUBAGENT),
            exploration=CODEX_SUBAGENT,
            agent_type="explorer",
            text="",
            transcript=CODEX.rollout(CODEX_SUBAGENT),
        ),
        ALL_OF_IT,
    ),
    Exchange(
        "codex patch",
        "codex",
        CODEX.after_patch(PATCH),
        FilesEdited(_codex(), ("src/auth.py", "src/login.py", "src/new file.py", "src/db.py")),
        ALL_OF_IT,
    ),
    Exchange(
        "codex command",
        "codex",
        CODEX.after_tool("Bash", {"command": "cat src/auth.py"}, "import session\n", CODEX_CALL),
        None,
        ALL_OF_IT,
    ),
    Exchange(
        "codex stop",
        "codex",
        CODEX.document("Stop", stop_hook_active=False, last_assistant_message="done"),
        None,
        ALL_OF_IT,
    ),
    Exchange(
        "codex session end", "codex", CODEX.document("SessionEnd", reason="other"), None, ALL_OF_IT
    ),
]

EXCHANGES = [*CLAUDE_EXCHANGES, *CODEX_EXCHANGES]
