"""The Claude Code plugin: what its files say, and its hook command run by real shells.

`claude plugin validate --strict` is run on it by `make e2e`; here its rules are held as far as they
were measured (research/hooks-verified.md section 5).
"""

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amend.agents.installing import OWN_TIMEOUT_S, TARGETS
from amend.agents.known import AGENTS
from amend.agents.plugin import NAME, install_commands, plugin_dir, try_command
from amend.cli.main import COMMANDS
from amend.core.agent import Answer
from amend.formats.agent_settings import SENTINEL
from tests.integration.cli_fakes import fake_daemon

PLUGIN = plugin_dir()
CHECKOUT = Path(__file__).resolve().parents[2]

REPLY = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "known\n%s"}}
ASKED = json.dumps({"hook_event_name": "SessionStart", "session_id": "s", "cwd": "/r"}).encode()

# What a run may take here at most, far above its own bound, since the machine may be busy.
BOUND_S = 20

SHELLS = [shell for shell in ("dash", "bash", "sh") if shutil.which(shell)]
CLIENTS = [client for client in ("nc", "curl") if shutil.which(client)]


def document(path: str) -> Any:
    return json.loads((PLUGIN / path).read_text())


def handlers() -> list[tuple[str, str | None, dict[str, Any]]]:
    """(event, matcher, handler) of every hook."""
    return [
        (event, group.get("matcher"), handler)
        for event, groups in document("hooks/hooks.json")["hooks"].items()
        for group in groups
        for handler in group["hooks"]
    ]


def frontmatter(path: Path) -> dict[str, str]:
    head, _, body = path.read_text().removeprefix("---\n").partition("\n---\n")
    assert body.strip()
    return dict(line.split(": ", 1) for line in head.splitlines())


# -- its files ---------------------------------------------------------------------------------


def test_its_version_is_the_distributions() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]

    manifest = document(".claude-plugin/plugin.json")

    assert manifest["version"] == project["version"]
    assert (manifest["name"], manifest["license"]) == ("amend", project["license"])
    assert manifest["description"]
    assert manifest["author"]["name"]


def test_it_is_its_own_marketplace() -> None:
    market = document(".claude-plugin/marketplace.json")

    [plugin] = market["plugins"]
    assert f"{plugin['name']}@{market['name']}" == NAME
    assert plugin["source"] == "./"
    assert market["owner"]["name"]


def test_its_events_are_those_that_the_installer_writes_into_settings() -> None:
    wanted = [(each.event, each.matcher) for each in TARGETS["claude"].wanted]

    assert [(event, matcher) for event, matcher, _ in handlers()] == wanted


def test_every_edit_that_its_matcher_lets_through_is_understood() -> None:
    [matcher] = [matcher for event, matcher, _ in handlers() if event == "PostToolUse"]
    assert matcher is not None
    asked = {"hook_event_name": "PostToolUse", "session_id": "s", "cwd": "/r"}

    for tool in matcher.removeprefix("Agent|Task|").split("|"):
        given = {"file_path": "/r/a.py", "notebook_path": "/r/a.py"}
        question = AGENTS["claude"].question({**asked, "tool_name": tool, "tool_input": given})

        assert question is not None


def test_every_hook_is_the_same_bounded_synchronous_command() -> None:
    found = [handler for _, _, handler in handlers()]

    assert all(set(handler) == {"type", "command", "timeout"} for handler in found)
    assert {handler["type"] for handler in found} == {"command"}
    assert {handler["timeout"] for handler in found} == {TARGETS["claude"].timeout_s}
    assert len({handler["command"] for handler in found}) == 1


def test_its_command_names_no_place_of_a_machine_or_of_a_client() -> None:
    assert "CLAUDE_" not in COMMAND
    assert re.findall(r'"(/[^"$]*)', COMMAND) == ["/tmp/amend-"]
    assert COMMAND.endswith(f"; exit 0 {SENTINEL}")


def test_its_command_ends_itself_before_it_is_cut() -> None:
    # What the client cuts at UserPromptSubmit it shows to the person.
    bounds = {float(bound) for bound in re.findall(r" (?:timeout|-m) ([0-9.]+)", COMMAND)}

    assert bounds == {OWN_TIMEOUT_S}


def test_every_reply_ends_as_the_command_expects_of_a_whole_one() -> None:
    common = {"session_id": "s", "cwd": "/r"}
    given = {"prompt": "find it", "description": "find", "subagent_type": "Explore"}
    call = {"tool_name": "Agent", "tool_use_id": "t", "tool_input": given}
    said = Answer(context="a {brace}}", instead="it is known", head_start="look there")
    events = (
        {"hook_event_name": "SessionStart", "source": "startup"},
        {"hook_event_name": "UserPromptSubmit", "prompt": "where"},
        {"hook_event_name": "PreToolUse", **call},
    )
    answers = (said, replace(said, instead=""), replace(said, instead="", head_start=""))

    replies = [
        AGENTS["claude"].reply({**common, **event}, answer)
        for event in events
        for answer in answers
    ]

    assert all(reply.startswith(b"{") and reply.rstrip().endswith(b"}}") for reply in replies)


def test_the_agent_has_what_its_runtime_asks_for_and_cannot_edit() -> None:
    head = frontmatter(PLUGIN / "agents/scout.md")

    assert head["name"] == "scout"
    assert head["description"]
    assert not {"Edit", "Write", "NotebookEdit"} & set(head["tools"].split(", "))
    # A plugin's agent cannot set these; where they stand they are dropped without a word.
    assert not {"hooks", "mcpServers", "permissionMode"} & head.keys()


@pytest.mark.parametrize("name", ["recall", "save-memory"])
def test_a_skill_calls_commands_that_exist_and_cannot_abort(name: str) -> None:
    path = PLUGIN / f"skills/{name}/SKILL.md"
    text = path.read_text()

    head = frontmatter(path)

    assert head["name"] == name
    # A listing holds 1,536 characters.
    assert 0 < len(head["description"]) < 1536
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert blocks
    assert all(block.rstrip().endswith("|| true") for block in blocks)
    called = set(re.findall(r"amend ([a-z]+)", "\n".join(blocks)))
    assert called <= {*COMMANDS, "ask"}
    allowed = set(re.findall(r"Bash\(amend ([a-z ]+):\*\)", head["allowed-tools"]))
    assert {each.split()[0] for each in allowed} <= {*COMMANDS, "ask"}


def test_its_readme_says_enough() -> None:
    words = (PLUGIN / "README.md").read_text().split()

    assert len(words) >= 40  # fewer is an error of Claude's plugin directory


def test_the_commands_that_add_it_name_its_directory() -> None:
    directory = str(PLUGIN)

    assert (PLUGIN / ".claude-plugin/plugin.json").is_file()
    assert directory in try_command()
    assert directory in install_commands()[0]
    assert NAME in install_commands()[1]


# -- its command, run --------------------------------------------------------------------------

COMMAND: str = handlers()[0][2]["command"]


@pytest.fixture
def hook_socket() -> Path:
    """Where the daemon's hook socket is in this environment."""
    directory = Path(os.environ["AMEND_RUNTIME_DIR"]) / "hooks"
    directory.mkdir(parents=True)
    return directory / "claude.sock"


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes these programs the only ones on PATH; those that are not here are stand-ins."""

    def restrict(*names: str, broken: tuple[str, ...] = ()) -> None:
        bin_dir = tmp_path / "bin"
        bin_dir.mkdir()
        for name in names:
            found = shutil.which(name)
            assert found is not None
            (bin_dir / name).symlink_to(found)
        for name in broken:
            (bin_dir / name).write_text("#!/bin/sh\necho 'usage: nc' >&2\nexit 1\n")
            (bin_dir / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(bin_dir))

    return restrict


@contextmanager
def listening(path: Path, answer: Callable[[socket.socket], None]) -> Iterator[None]:
    """A daemon that does `answer` with each connection."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def run(shell: str = SHELLS[0], stdin: bytes = ASKED) -> tuple[int, bytes, bytes]:
    found = shutil.which(shell, path=os.defpath)
    assert found is not None
    done = subprocess.run(
        [found, "-c", COMMAND], input=stdin, capture_output=True, timeout=BOUND_S, check=False
    )
    return done.returncode, done.stdout, done.stderr


def received(connection: socket.socket) -> bytes:
    data = b""
    while piece := connection.recv(1 << 16):
        data += piece
    return data


@pytest.mark.parametrize("shell", SHELLS)
def test_a_live_daemons_reply_is_printed(shell: str, hook_socket: Path) -> None:
    heard: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        heard.append(received(connection))
        connection.sendall(json.dumps(REPLY).encode())

    with listening(hook_socket, answer):
        code, out, err = run(shell)

    assert (code, json.loads(out), err) == (0, REPLY, b"")
    assert heard == [ASKED]


def test_a_long_question_arrives_whole(hook_socket: Path) -> None:
    heard: list[bytes] = []
    asked = json.dumps({"last_assistant_message": "x" * 200_000}).encode()

    with listening(hook_socket, lambda connection: heard.append(received(connection))):
        code, out, err = run(stdin=asked)

    assert (code, out, err) == (0, b"", b"")
    assert heard == [asked]


@pytest.mark.parametrize(
    "reply",
    [b"", b'{"hookSpecificOutput":{"hookEv', b"not json", b"\0\0\0", b"HTTP/1.1 400 Bad\r\n\r\n"],
)
@pytest.mark.parametrize("shell", SHELLS[:2])
def test_what_is_no_whole_reply_is_not_printed(shell: str, reply: bytes, hook_socket: Path) -> None:
    def answer(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(reply)

    with listening(hook_socket, answer):
        assert run(shell) == (0, b"", b"")


def test_a_daemon_that_hangs_up_at_once_is_silence(hook_socket: Path) -> None:
    with listening(hook_socket, lambda connection: None):
        assert run() == (0, b"", b"")


def test_a_hung_daemon_ends_in_silence_by_the_commands_own_bound(hook_socket: Path) -> None:
    over = threading.Event()

    with listening(hook_socket, lambda connection: over.wait(BOUND_S) and None):
        try:
            assert run() == (0, b"", b"")
        finally:
            over.set()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_dead_daemons_socket_is_silence(shell: str, hook_socket: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(hook_socket))

    assert run(shell) == (0, b"", b"")


@pytest.mark.parametrize("shell", SHELLS)
def test_no_socket_is_silence(shell: str) -> None:
    assert run(shell) == (0, b"", b"")


@pytest.mark.parametrize("broken", [(), ("nc",)])
def test_where_nc_is_missing_or_another_one_curl_asks_the_api(
    broken: tuple[str, ...], hook_socket: Path, only: Callable[..., None]
) -> None:
    only("curl", "id", "timeout", broken=broken)

    with fake_daemon() as fake, listening(hook_socket, lambda connection: None):
        fake.answers["POST /v1/hooks/claude"] = (200, REPLY)
        code, out, err = run()

    assert (code, json.loads(out), err) == (0, REPLY, b"")
    assert [asked.body for asked in fake.asked] == [json.loads(ASKED)]


def test_an_api_error_is_silence(hook_socket: Path, only: Callable[..., None]) -> None:
    only("curl", "id")

    with fake_daemon(), listening(hook_socket, lambda connection: None):
        assert run() == (0, b"", b"")


def test_without_timeout_curl_asks_since_nc_would_wait(
    hook_socket: Path, only: Callable[..., None]
) -> None:
    only("curl", "id", "nc")

    with fake_daemon() as fake, listening(hook_socket, lambda connection: None):
        fake.answers["POST /v1/hooks/claude"] = (200, REPLY)
        code, out, err = run()

    assert (code, json.loads(out), err) == (0, REPLY, b"")


def test_without_any_client_it_is_silence(hook_socket: Path, only: Callable[..., None]) -> None:
    only("id")

    with listening(hook_socket, lambda connection: None):
        assert run() == (0, b"", b"")


# -- where it looks ----------------------------------------------------------------------------


def greeted(path: Path) -> bool:
    """Whether the command finds a daemon that listens at this runtime directory."""
    path.joinpath("hooks").mkdir(parents=True)

    def answer(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(json.dumps(REPLY).encode())

    with listening(path / "hooks/claude.sock", answer):
        code, out, err = run()
    assert (code, err) == (0, b"")
    return out != b""


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private, short directory; no variable says that amend's is there."""
    monkeypatch.delenv("AMEND_RUNTIME_DIR")
    return Path(os.environ["XDG_RUNTIME_DIR"])


def test_it_looks_in_the_sessions_runtime_directory(runtime: Path) -> None:
    assert greeted(runtime / "amend")


def test_it_looks_in_the_home_directory_where_there_is_no_other(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("HOME", str(runtime))

    assert greeted(runtime / ".local/state/amend/run")


def test_it_looks_nowhere_else_when_it_is_told_where(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMEND_RUNTIME_DIR", str(runtime / "elsewhere"))

    assert not greeted(runtime / "amend")
