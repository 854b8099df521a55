"""Which hooks amend wants of each agent, where they are written down, and the command of each.

A command sends the hook's stdin to the daemon and prints what it answers. Whatever goes wrong, it
ends with 0 and prints nothing: the answer is caught first, and printed where the client has ended
well and the answer is whole (it opens and closes as an object does). Reads nothing and starts
nothing: which client works on a machine is measured elsewhere.
"""

import enum
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from amend.errors import Refused
from amend.formats.agent_settings import SENTINEL, HookGroup

# What a person waits at most for each hook when the daemon hangs. It answers in 50 ms.
TIMEOUT_S: Final = 0.5

# The same for commands that end themselves, with time to start and to end before `TIMEOUT_S`.
OWN_TIMEOUT_S: Final = 0.4

# A live daemon's kernel accepts at once.
_CONNECT_S: Final = 0.1


class Client(enum.Enum):
    """What speaks to the daemon, the cheapest first: 1.8, 9 and 15 ms for a whole hook."""

    NC = "nc"
    CURL = "curl"
    PYTHON = "python"


class Bound(enum.Enum):
    """Who ends a hook that gets no answer."""

    AGENT = "agent"  # by the entry's timeout; the client itself would wait for a second or two
    ITSELF = "itself"  # where the agent tells the person, or takes whole seconds only


@dataclass(frozen=True, slots=True)
class Wanted:
    event: str
    matcher: str | None
    bound: Bound


@dataclass(frozen=True, slots=True)
class Target:
    """An agent as something to install into.

    Its settings are `file` in the directory of its own in the home, which `variable` can move, and
    in the directory of the same name in a project.
    """

    name: str
    title: str
    variable: str
    directory: str
    file: str
    timeout_s: float
    has_shell: bool  # it runs commands in a POSIX shell, whatever the person's own shell is
    wanted: tuple[Wanted, ...]

    def user_path(self, env: Mapping[str, str], home: str) -> str:
        return os.path.join(env.get(self.variable) or os.path.join(home, self.directory), self.file)

    def project_path(self, root: str) -> str:
        return os.path.join(root, self.directory, self.file)


# Claude Code 2.1.332, measured: a matcher of letters and `|` is a list of names, any other one an
# unanchored regular expression; compaction is a subagent of no type, which `.+` leaves out; a
# prompt's hook that is cut is shown to the person, other ones are not.
_CLAUDE: Final = Target(
    name="claude",
    title="Claude Code",
    variable="CLAUDE_CONFIG_DIR",
    directory=".claude",
    file="settings.json",
    timeout_s=TIMEOUT_S,
    has_shell=True,
    wanted=(
        Wanted("SessionStart", None, Bound.AGENT),
        Wanted("UserPromptSubmit", None, Bound.ITSELF),
        Wanted("PreToolUse", "Agent|Task", Bound.AGENT),
        Wanted("PostToolUse", "Agent|Task|Edit|Write|MultiEdit|NotebookEdit", Bound.AGENT),
        Wanted("PostToolUseFailure", "Agent|Task", Bound.AGENT),
        Wanted("SubagentStop", ".+", Bound.AGENT),
        Wanted("StopFailure", None, Bound.AGENT),
    ),
)

# Codex 0.171.0: its timeouts are whole seconds, one at least, and a fraction makes it drop the
# whole file; it runs commands in the person's login shell. Shell commands that edit files are left
# to the watch: a hook after every command would cost more than it tells.
_CODEX: Final = Target(
    name="codex",
    title="Codex",
    variable="CODEX_HOME",
    directory=".codex",
    file="hooks.json",
    timeout_s=1,
    has_shell=False,
    wanted=(
        Wanted("SessionStart", None, Bound.ITSELF),
        Wanted("UserPromptSubmit", None, Bound.ITSELF),
        Wanted("PreToolUse", "Agent|Task|spawn_agent", Bound.ITSELF),
        Wanted("PostToolUse", "Agent|Task|spawn_agent|apply_patch", Bound.ITSELF),
        Wanted("SubagentStop", None, Bound.ITSELF),
    ),
)

TARGETS: Final[Mapping[str, Target]] = MappingProxyType({t.name: t for t in (_CLAUDE, _CODEX)})


def hook_socket(target: Target, runtime: str) -> str:
    return f"{runtime}/hooks/{target.name}.sock"


def api_socket(runtime: str) -> str:
    return f"{runtime}/api.sock"


def command(target: Target, client: Client, bound: Bound, runtime: str) -> str:
    """The shell command of a hook. Raises `Refused` for a path that settings cannot hold."""
    try:
        runtime.encode()
    except UnicodeEncodeError:
        raise Refused(
            f"{runtime} is no UTF-8, which a settings file must be",
            hint="set AMEND_RUNTIME_DIR to a directory with a plain name",
        ) from None
    ask = _ASK[client](target, bound, runtime)
    socket = api_socket(runtime) if client is Client.CURL else hook_socket(target, runtime)
    # Without a daemon no program is started: the shell's own test costs next to nothing.
    is_there = f"[ -S {shlex.quote(socket)} ]"
    told = 'case $o in \\{*\\}) printf %s "$o";; esac'
    script = f"{is_there} && o=$({ask} 2>/dev/null) && {told}; exit 0"
    if not target.has_shell:
        script = f"sh -c {shlex.quote(script)}"
    return f"{script} {SENTINEL}"


def _nc(target: Target, bound: Bound, runtime: str) -> str:
    socket = shlex.quote(hook_socket(target, runtime))
    if bound is Bound.ITSELF:
        return f"timeout {OWN_TIMEOUT_S} nc -N -U {socket}"
    return f"nc -N -w 1 -U {socket}"


def _curl(target: Target, bound: Bound, runtime: str) -> str:
    return (
        f"curl -qsf --noproxy \\* --connect-timeout {_CONNECT_S} -m {OWN_TIMEOUT_S} "
        f"--unix-socket {shlex.quote(api_socket(runtime))} -H Expect: "
        f"-H Content-Type:application/json --data-binary @- http://amend/v1/hooks/{target.name}"
    )


# The alarm bounds the whole of it, where a socket's timeout would bound each step.
_PYTHON: Final = (
    "import os,signal,socket,sys;"
    "signal.signal(signal.SIGALRM,lambda *_:os._exit(1));"
    f"signal.setitimer(signal.ITIMER_REAL,{OWN_TIMEOUT_S});"
    "s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);"
    "s.sendall(sys.stdin.buffer.read());s.shutdown(socket.SHUT_WR);"
    'sys.stdout.buffer.write(s.makefile("rb").read())'
)


def _python(target: Target, bound: Bound, runtime: str) -> str:
    socket = shlex.quote(hook_socket(target, runtime))
    return f"python3 -I -S -c {shlex.quote(_PYTHON)} {socket}"


_ASK: Final = {Client.NC: _nc, Client.CURL: _curl, Client.PYTHON: _python}


def groups(target: Target, clients: Mapping[Bound, Client], runtime: str) -> tuple[HookGroup, ...]:
    """What is to be in the settings, in order."""
    return tuple(
        HookGroup(
            wanted.event,
            wanted.matcher,
            command(target, clients[wanted.bound], wanted.bound, runtime),
            target.timeout_s,
        )
        for wanted in target.wanted
    )


def bounds(target: Target) -> tuple[Bound, ...]:
    """The bounds its hooks need, in the order in which it needs them."""
    return tuple(dict.fromkeys(wanted.bound for wanted in target.wanted))


def client_of(text: str, target: Target, bound: Bound, runtime: str) -> Client | None:
    """The client of a command that this amend would write; None: it is another one's."""
    return next((c for c in Client if command(target, c, bound, runtime) == text), None)
