"""What agents live through with amend's hooks installed, from the client's side.

A script plays Claude Code and Codex against a real daemon: all that it knows of amend is what
`amend hooks install` has written down. The second half has no daemon worth the name.
"""

import contextlib
import ctypes
import json
import os
import platform
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.running import Daemon, git
from tests.agent_exchanges import ClaudePlace, CodexPlace
from tests.integration.agent_driver import (
    ClaudeCode,
    Codex,
    Handler,
    Ran,
    handlers,
    reads,
    run_hook,
    runs,
)

FILES: Final = {
    "README.md": "# shop\nSells things.\n",
    "src/auth.py": "import session\n\n\ndef login(user, password):\n"
    "    token = session.issue(user)\n    return token\n",
    "src/session.py": "TOKENS = {}\n\n\ndef issue(user):\n    TOKENS[user] = 'token'\n"
    "    return TOKENS[user]\n",
    "src/cart.py": "def add(cart, item):\n    cart.append(item)\n",
}
TASK: Final = "Find out how login works and where the session tokens of users are issued."
FOUND: Final = (
    "Login is src/auth.py:4: `login` takes a user and a password and asks `session.issue` for a "
    "token.\nTokens live in the dictionary TOKENS of src/session.py:1; issue() fills it."
)

CLIENTS: Final = ("nc", "curl", "python")
SETTINGS: Final = {"claude": ".claude/settings.json", "codex": ".codex/hooks.json"}


# -- the stage ---------------------------------------------------------------------------------


@dataclass
class Stage:
    """A daemon, and the settings that `amend hooks install` makes, each once."""

    daemon: Daemon
    base: Path
    made: int = 0

    def installed(self, agent: str, client: str) -> Path:
        """The settings of a home directory of its own; the client may be missing here."""
        settings = self.home(agent, client) / SETTINGS[agent]
        if not settings.exists():
            if shutil.which({"python": "python3"}.get(client, client)) is None:
                pytest.skip(f"{client} is not installed")
            if client == "nc" and sys.platform != "linux":
                pytest.skip("nc is another program here")
            settings.parent.mkdir(parents=True)
            self.amend(
                *("hooks", "install", agent, "--client", client), home=self.home(agent, client)
            )
        return settings

    def home(self, agent: str, client: str) -> Path:
        return self.base / f"{agent}-{client}"

    def amend(self, *arguments: str, home: Path, cwd: Path | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "amend.cli.main", *arguments],
            env={**self.daemon.env, "HOME": str(home)},
            cwd=cwd or home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def repository(self) -> Path:
        """A new one, which the daemon tends."""
        self.made += 1
        root = self.base / f"shop-{self.made}"
        for path, text in FILES.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        git(root, "init", "-q", "-b", "main")
        commit(root, "first")
        self.daemon.add(root)
        return root

    def live(self) -> "Stage":
        if self.daemon.process is None:
            self.daemon.start()
        return self

    def dead(self) -> "Stage":
        self.daemon.stop()
        return self


def commit(root: Path, subject: str) -> str:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", subject)
    return git(root, "rev-parse", "HEAD").strip()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    base = tmp_path_factory.mktemp("story")
    with contextlib.closing(Daemon(base / "daemon")) as daemon:
        yield Stage(daemon, base)


def entry(stage: Stage, root: Path) -> dict[str, Any]:
    """The only one, when all that was told is done."""
    stage.daemon.sync()
    [found] = stage.daemon.entries(root).values()
    return found


def uses(stage: Stage) -> dict[str, Any]:
    hooks: dict[str, Any] = stage.daemon.get("/v1/status")["hooks"]
    return hooks


# -- stories -----------------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_what_claude_code_explores_is_known_as_long_as_it_is_true(
    stage: Stage, client: str
) -> None:
    settings = stage.live().installed("claude", client)
    root = stage.repository()
    agent = ClaudeCode(stage.home("claude", client), root, settings)
    looks = [
        runs("grep -n 'def login' -r src"),
        reads("src/auth.py", 3, 4),
        reads("src/session.py"),
    ]

    # Nobody knows anything, so the exploration runs, and what it found is kept.
    session = agent.session()
    first = session.explore(TASK, looks, FOUND, description="Explore login")
    known = entry(stage, root)

    assert (session.told, first.refused, first.prompt, first.beside) == ("", "", TASK, "")
    assert sorted(known["files"]) == ["src/auth.py", "src/session.py"]
    assert known["verdict"] == "fresh"
    assert "login takes a user and a password" in known["summary"]  # plain text

    # Another session is told that it is known, and the same exploration is answered once.
    session = agent.session()
    denied = session.explore(TASK, looks, FOUND, description="Explore login")
    again = session.explore(TASK, looks, FOUND, description="Explore login")

    assert known["key"] in session.told
    assert "src/auth.py" in denied.refused
    assert "src/session.py" in denied.refused
    assert "| Tokens live in the dictionary TOKENS" in denied.refused
    assert git(root, "rev-parse", "HEAD")[:10] in denied.refused
    assert (again.refused, again.prompt) == ("", TASK)
    assert entry(stage, root)["key"] == known["key"]

    # An edit takes it away at once: the next exploration runs, knowing where to look. It breaks
    # off, so that nobody finds out anew.
    session = agent.session()
    session.edit("src/auth.py", "return token", "return token, user")
    after = session.explore(TASK, looks, None, description="Explore login")

    assert after.refused == ""
    assert after.prompt.startswith(TASK + "\n")
    assert "| src/auth.py: " in after.prompt
    assert "Unchanged, so verified: src/session.py" in after.prompt
    assert "| Tokens live in the dictionary TOKENS" in after.prompt
    assert entry(stage, root)["verdict"] == "stale"

    # The next session is told what became untrue, and by which commit.
    oid = commit(root, "login gives the user back")
    stage.daemon.sync()
    told = agent.session().told

    assert "No longer true since the last session here" in told
    assert f"| {known['key']}: src/auth.py: changed by commit {oid[:10]}" in told
    assert "login gives the user back" in told

    # What is found out anew is true again.
    agent.session().explore(TASK, looks, FOUND + "\nIt gives the user back as well.")
    anew = entry(stage, root)

    assert (anew["key"], anew["verdict"]) == (known["key"], "fresh")
    assert "No longer true" not in agent.session().told
    assert all(ran.code == 0 and ran.err == b"" for ran in session.hooks.ran)


@pytest.mark.parametrize("client", ["nc"])
def test_what_codex_explores_is_known_as_long_as_it_is_true(stage: Stage, client: str) -> None:
    settings = stage.live().installed("codex", client)
    root = stage.repository()
    agent = Codex(stage.home("codex", client), root, settings)
    looks = [reads("src/auth.py", 3, 4), reads("src/session.py")]

    session = agent.session()
    first = session.explore(TASK, looks, FOUND)
    known = entry(stage, root)

    assert (session.told, first.refused, first.beside) == ("", "", "")
    assert sorted(known["files"]) == ["src/auth.py", "src/session.py"]

    session = agent.session()
    denied = session.explore(TASK, looks, FOUND)
    session.edit("src/session.py", "'token'", "'secret'")
    after = session.explore(TASK, looks, FOUND)

    assert known["key"] in session.told
    assert "| Tokens live in the dictionary TOKENS" in denied.refused
    assert after.refused == ""
    assert "| src/session.py: " in after.beside
    assert entry(stage, root)["verdict"] == "fresh"

    (root / "src/auth.py").write_text("# nobody logs in\n")
    oid = commit(root, "no login")
    stage.daemon.sync()
    told = agent.session().told

    assert f"| {known['key']}: src/auth.py: changed by commit {oid[:10]}" in told
    assert all(ran.code == 0 and ran.err == b"" for ran in session.hooks.ran)


@pytest.fixture
def claude(stage: Stage) -> ClaudeCode:
    """In a repository of its own."""
    settings = stage.live().installed("claude", "python")
    return ClaudeCode(stage.home("claude", "python"), stage.repository(), settings)


def test_a_transcript_that_lags_behind_gives_all_files_in_the_end(
    stage: Stage, claude: ClaudeCode
) -> None:
    looks = [reads("src/auth.py"), reads("src/session.py"), reads("src/cart.py")]

    claude.session().explore(TASK, looks, FOUND, is_lagging=True)

    assert sorted(entry(stage, claude.root)["files"]) == [
        "src/auth.py",
        "src/cart.py",
        "src/session.py",
    ]


def test_a_file_that_was_looked_for_in_vain_counts_when_it_appears(
    stage: Stage, claude: ClaudeCode
) -> None:
    claude.session().explore(TASK, [reads("src/auth.py"), reads("src/tokens.py")], FOUND)
    before = entry(stage, claude.root)["verdict"]

    (claude.root / "src/tokens.py").write_text("TOKENS = {}\n")

    assert (before, entry(stage, claude.root)["verdict"]) == ("fresh", "stale")


def test_a_file_that_changes_while_a_subagent_reads_on_makes_its_finding_stale_at_birth(
    stage: Stage, claude: ClaudeCode
) -> None:
    def edits(root: Path) -> Any:
        (root / "src/auth.py").write_text("# somebody else was here\n")
        return reads("src/session.py")(root)

    claude.session().explore(TASK, [reads("src/auth.py"), edits], FOUND)

    assert entry(stage, claude.root)["verdict"] == "stale"


def test_an_exploration_that_was_killed_leaves_nothing_behind(
    stage: Stage, claude: ClaudeCode
) -> None:
    session = claude.session()

    session.explore(TASK, [reads("src/auth.py")], None)
    session.prompt_of("killed", "a1", "toolu_1")
    stage.daemon.sync()

    assert stage.daemon.entries(claude.root) == {}


def test_the_projects_own_settings_do_the_same(stage: Stage, claude: ClaudeCode) -> None:
    stage.amend(
        *("hooks", "install", "claude", "--project", "--client", "python"),
        home=claude.home,
        cwd=claude.root,
    )
    agent = ClaudeCode(claude.home, claude.root, claude.root / SETTINGS["claude"])

    found = "Users log in through `login`, which has the session tokens issued elsewhere."
    agent.session().explore(TASK, [reads("src/auth.py")], found)
    denied = agent.session().explore(TASK, [], "")

    assert entry(stage, claude.root)["files"] == ["src/auth.py"]
    assert f"| {found}" in denied.refused


def test_an_edit_beside_the_lines_that_were_read_leaves_a_finding_true(
    stage: Stage, claude: ClaudeCode
) -> None:
    claude.session().explore(TASK, [reads("src/auth.py", 3, 4), reads("src/session.py")], FOUND)

    session = claude.session()
    session.edit("src/auth.py", "import session", "import session, time")
    known = entry(stage, claude.root)

    assert (known["verdict"], known["drift"]) == ("fresh", ["src/auth.py"])
    assert "| Tokens live in" in session.explore(TASK, [], "").refused


def test_a_session_is_told_once_that_its_own_edit_undermined_what_it_was_told(
    stage: Stage, claude: ClaudeCode
) -> None:
    claude.session().explore(TASK, [reads("src/auth.py"), reads("src/session.py")], FOUND)
    key = entry(stage, claude.root)["key"]
    session = claude.session()
    ask = "Where does login get the session tokens of users from?"

    shown = session.prompt(ask)
    again = session.prompt(ask)
    session.edit("src/auth.py", "return token", "return token, user")
    after = session.prompt("Now write a test for that, please.")
    later = session.prompt("Now write a test for that, please.")

    assert "Tokens live in the dictionary TOKENS" in shown
    assert again == ""
    assert f"{key}, which this session was told, is no longer true: src/auth.py: " in after
    assert f"`amend put {key} src/auth.py src/session.py --summary" in after
    assert later == ""


def test_the_last_word_of_a_subagent_that_goes_on_counts(stage: Stage, claude: ClaudeCode) -> None:
    session = claude.session()
    first = session.explore(TASK, [reads("src/auth.py")], FOUND)
    stage.daemon.sync()

    session.stop_again(first.subagent, "Login is in src/auth.py, tokens are never revoked.")

    assert entry(stage, claude.root)["summary"].endswith("tokens are never revoked.")


# -- no daemon worth the name ------------------------------------------------------------------

# An agent and a hook client; Codex has its own forms of the same commands.
INSTALLED: Final = (*(("claude", client) for client in CLIENTS), ("codex", "nc"))

# What a hook may take on a machine with two busy cores, beyond the time that its entry grants.
SLACK_S: Final = 0.5

# nc's own bound is a second, and its start.
OWN_BOUND_S: Final = 1.6

Talk = Callable[[socket.socket], object]


def documents(agent: str) -> list[dict[str, Any]]:
    """One for every hook that is installed."""
    if agent == "codex":
        place = CodexPlace()
        return [
            place.session_start(),
            place.prompt("Where is the login?"),
            place.before_spawn("call_1"),
            place.after_spawn("call_1", "01a2"),
            place.stop("01a2"),
        ]
    here = ClaudePlace()
    return [
        here.session_start(),
        here.prompt("Where is the login?"),
        here.before_agent("toolu_1"),
        here.after_launch("toolu_1", "a1"),
        {**here.before_agent("toolu_1"), "hook_event_name": "PostToolUseFailure", "error": "no"},
        here.after_edit("/home/ada/shop/src/auth.py"),
        here.stop("a1"),
        here.stop_failure(agent_id="a1", agent_type="Explore"),
    ]


def all_hooks(settings: Path, agent: str, **more: Any) -> list[Ran]:
    """Each installed hook run once. A machine that is busy for a moment decides nothing: what was
    cut runs once more."""
    told = installed_hooks(settings, agent)
    ran = [run_hook(handler, document, **places(settings), **more) for handler, document in told]
    return [
        each if each.code is not None else run_hook(*pair, **places(settings), **more)
        for each, pair in zip(ran, told, strict=True)
    ]


def all_hooks_at_once(settings: Path, agent: str, cut_s: float | None = None) -> list[Ran]:
    """For those that take their time. `cut_s`: otherwise as long as their entries grant."""

    def ran(pair: tuple[Handler, dict[str, Any]]) -> Ran:
        handler = Handler(pair[0].command, cut_s or pair[0].timeout_s)
        return run_hook(handler, pair[1], **places(settings))

    told = installed_hooks(settings, agent)
    with ThreadPoolExecutor(len(told)) as pool:
        return list(pool.map(ran, told))


def installed_hooks(settings: Path, agent: str) -> list[tuple[Handler, dict[str, Any]]]:
    """Every one, with a document for it."""
    told = [(h, d) for d in documents(agent) for h in handlers(settings, d)]
    written = json.loads(settings.read_bytes())["hooks"].values()
    assert {h.command for h, _ in told} == {g["hooks"][0]["command"] for gs in written for g in gs}
    assert len(told) == len(documents(agent))
    return told


def places(settings: Path) -> dict[str, Any]:
    env = {"HOME": str(settings.parent.parent), "PATH": os.environ["PATH"]}
    return {"env": env, "cwd": "/"}


def timeouts(settings: Path, agent: str) -> set[float]:
    return {h.timeout_s for d in documents(agent) for h in handlers(settings, d)}


@contextlib.contextmanager
def answering(paths: list[Path], talk: Talk) -> Iterator[None]:
    """Something at `paths` that listens, and does `talk` with whoever comes."""
    ended = threading.Event()
    listeners, threads = [], []

    def serve(listener: socket.socket) -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(5)
                    talk(connection)

    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(16)
        listeners.append(listener)
        threads.append(threading.Thread(target=serve, args=(listener,), daemon=True))
        threads[-1].start()
    try:
        yield
    finally:
        ended.set()
        for listener in listeners:
            listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        for thread in threads:
            thread.join()
        for listener, path in zip(listeners, paths, strict=True):
            listener.close()
            path.unlink()


def sockets(stage: Stage, agent: str) -> list[Path]:
    return [stage.daemon.runtime / "hooks" / f"{agent}.sock", stage.daemon.socket]


def heard(connection: socket.socket) -> bytes:
    """The whole question, as far as it comes."""
    data = b""
    while not data.rstrip().endswith(b"}"):
        piece = connection.recv(1 << 16)
        if not piece:
            break
        data += piece
    return data


def says(reply: bytes, *, breaks_off: bool = False) -> Talk:
    """`reply` to the letter; `breaks_off`: and the connection is reset, as if the daemon died."""

    def talk(connection: socket.socket) -> None:
        heard(connection)
        connection.sendall(reply)
        if breaks_off:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    return talk


def http(status: str, body: bytes, kind: str = "application/json", length: int = -1) -> bytes:
    length = len(body) if length < 0 else length
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n"
        "connection: close\r\n\r\n"
    ).encode() + body


REPLY: Final = (
    b'{"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"known"}}'
)
PROBLEM: Final = b'{"title":"Not found","detail":"no such path","hint":"update amend"}'
NOTHING_AT_ALL: Final = b""

# What a hook client hears at the hook socket, and over HTTP.
BAD_REPLIES: Final[dict[str, tuple[Talk, Talk]]] = {
    "half a reply, then killed": (
        says(REPLY[:40], breaks_off=True),
        says(http("200 OK", REPLY[:40], length=len(REPLY)), breaks_off=True),
    ),
    "half a reply, then the end": (
        says(REPLY[:40]),
        says(http("200 OK", REPLY[:40], length=len(REPLY))),
    ),
    "killed before a reply": (
        says(NOTHING_AT_ALL, breaks_off=True),
        says(NOTHING_AT_ALL, breaks_off=True),
    ),
    "garbage": (says(b"\x00\xff garbage\n"), says(b"\x00\xff garbage\n")),
    "an error page": (
        says(http("502 Bad Gateway", b"<html>", "text/html")),
        says(http("502 Bad Gateway", b"<html>", "text/html")),
    ),
    "an older daemon, which has no hooks": (
        says(NOTHING_AT_ALL),
        says(http("404 Not Found", PROBLEM, "application/problem+json")),
    ),
    "a newer daemon, which speaks another protocol": (
        says(b"amend/2 426 upgrade\r\n{}\r\n"),
        says(http("426 Upgrade Required", PROBLEM, "application/problem+json")),
    ),
}


@pytest.fixture(params=INSTALLED, ids="-".join)
def installed(request: pytest.FixtureRequest, stage: Stage) -> tuple[str, Path]:
    """An agent and its settings, and no daemon."""
    agent, client = request.param
    return agent, stage.dead().installed(agent, client)


@pytest.mark.parametrize("reply", BAD_REPLIES)
def test_a_hook_is_silent_whatever_it_hears(
    stage: Stage, installed: tuple[str, Path], reply: str
) -> None:
    agent, settings = installed
    at_hook, at_api = sockets(stage, agent)
    over_socket, over_http = BAD_REPLIES[reply]

    with answering([at_hook], over_socket), answering([at_api], over_http):
        ran = all_hooks(settings, agent)

    assert_silent(ran, timeouts(settings, agent))


def test_a_hook_tells_what_it_hears_in_whole(stage: Stage, installed: tuple[str, Path]) -> None:
    agent, settings = installed
    at_hook, at_api = sockets(stage, agent)

    with answering([at_hook], says(REPLY)), answering([at_api], says(http("200 OK", REPLY))):
        ran = all_hooks(settings, agent)

    assert [(each.code, each.out, each.err) for each in ran] == [(0, REPLY, b"")] * len(ran)


def test_a_hook_without_a_daemon_is_silent(stage: Stage, installed: tuple[str, Path]) -> None:
    agent, settings = installed
    for path in sockets(stage, agent):
        path.unlink(missing_ok=True)

    assert_silent(all_hooks(settings, agent), timeouts(settings, agent))


def test_a_hook_after_a_killed_daemon_is_silent(stage: Stage, installed: tuple[str, Path]) -> None:
    agent, settings = installed
    stage.daemon.start()
    stage.daemon.stop(kill=True)

    assert all(path.is_socket() for path in sockets(stage, agent))
    assert_silent(all_hooks(settings, agent), timeouts(settings, agent))


def test_a_hook_of_a_daemon_that_hangs_ends_in_its_time_and_is_silent(
    stage: Stage, installed: tuple[str, Path]
) -> None:
    agent, settings = installed
    stage.daemon.start()
    os.kill(stage.daemon.pid, signal.SIGSTOP)
    try:
        cut = all_hooks_at_once(settings, agent)
        alone = all_hooks_at_once(settings, agent, cut_s=20.0)
        prompted = next(each for each in prompts(settings, agent) if each.code is not None)
    finally:
        os.kill(stage.daemon.pid, signal.SIGCONT)

    assert all(each.is_silent for each in (*cut, *alone, prompted))
    assert {each.code for each in cut} <= {0, None}
    assert {each.code for each in alone} == {0}
    assert prompted.code == 0  # a person is shown that a prompt's hook was cut
    assert max(each.elapsed_s for each in cut) < max(timeouts(settings, agent)) + SLACK_S
    assert max(each.elapsed_s for each in alone) < OWN_BOUND_S + SLACK_S


def prompts(settings: Path, agent: str) -> Iterator[Ran]:
    """The hook of a prompt, as often as a busy machine may need it to end in time."""
    for handler, document in installed_hooks(settings, agent) * 5:
        if document["hook_event_name"] == "UserPromptSubmit":
            yield run_hook(handler, document, **places(settings))


@pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")
def test_a_hook_in_a_sandbox_without_sockets_is_silent(
    stage: Stage, installed: tuple[str, Path]
) -> None:
    agent, settings = installed
    at_hook, at_api = sockets(stage, agent)

    with answering([at_hook], says(REPLY)), answering([at_api], says(http("200 OK", REPLY))):
        ran = all_hooks(settings, agent, preexec_fn=forbid_connecting())

    assert_silent(ran, timeouts(settings, agent))


def test_a_hook_that_may_not_use_the_socket_is_silent(
    stage: Stage, installed: tuple[str, Path]
) -> None:
    agent, settings = installed
    at_hook, at_api = sockets(stage, agent)
    # Modes bind nobody who is root.
    other = {"user": 65_534, "group": 65_534, "extra_groups": []} if os.geteuid() == 0 else {}

    with answering([at_hook], says(REPLY)), answering([at_api], says(http("200 OK", REPLY))):
        at_hook.chmod(0)
        at_api.chmod(0)
        ran = all_hooks(settings, agent, **other)

    assert_silent(ran, timeouts(settings, agent))


def assert_silent(ran: list[Ran], granted_s: set[float]) -> None:
    assert [each for each in ran if not each.is_silent] == []
    assert {each.code for each in ran} == {0}
    assert max(each.elapsed_s for each in ran) < max(granted_s) + SLACK_S


def forbid_connecting() -> Callable[[], None]:
    """What makes a process unable to connect (EPERM), as the sandboxes of agents do."""
    connect = {"x86_64": 42, "aarch64": 203}.get(platform.machine())
    if connect is None:
        pytest.skip("no number of connect(2) for this machine")
    # Load the call's number; the one of connect gives EPERM, every other one passes.
    program = b"".join(
        struct.pack("HBBI", *each)
        for each in (
            (0x20, 0, 0, 0),
            (0x15, 0, 1, connect),
            (0x06, 0, 0, 0x00050000 | 1),
            (0x06, 0, 0, 0x7FFF0000),
        )
    )
    kept = ctypes.create_string_buffer(program)
    filtered = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(kept)))
    libc = ctypes.CDLL(None, use_errno=True)

    def forbid() -> None:
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges, without which the next fails
        assert libc.prctl(22, 2, filtered, 0, 0) == 0, os.strerror(ctypes.get_errno())
        assert kept  # as long as the kernel reads it

    return forbid
