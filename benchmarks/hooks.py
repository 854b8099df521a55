"""What a hook costs whoever waits for it: the whole process of each client, against its floor.

    python benchmarks/hooks.py [--quick] [--json FILE]

The question is the one that an exploration asks before it starts, and the answer is a finding of
20 sources among all entries, verified then: each from a session of its own, since a session is
refused an exploration only once. The clients take turns, one process each, so that drift meets all
alike.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from amend.agents.installing import TARGETS, Bound, Client, command
from benchmarks.asking import EchoServer, compiler
from benchmarks.measure import Row, Spread, apart, skipped, spread, wait_for_quiet, wait_until
from benchmarks.running import Daemon
from benchmarks.sizes import Sizes
from benchmarks.trees import fill, make_topics, make_tree, topic

SOURCE: Final = Path(__file__).resolve().parent / "hook_floor.c"

CITED: Final = 20
DENIED: Final = b'"deny"'

_SUMMARY: Final = (
    "Session tokens: login checks the password hash and issues a JWT of 15 minutes, refresh rotates"
    " the refresh token and revokes its family on reuse, logout deletes the session row."
)
_PROMPT: Final = (
    "How do session tokens work: what does login check and issue, how does refresh rotate the"
    " refresh token, what happens to the family on reuse, and what does logout delete?"
)

# As the installer writes it, without the shell around it.
_PYTHON: Final = (
    "import socket,sys;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);"
    "s.sendall(sys.stdin.buffer.read());s.shutdown(socket.SHUT_WR);"
    'sys.stdout.buffer.write(s.makefile("rb").read())'
)

_NO_CURL: Final = "there is no curl"
_NO_NC: Final = "there is no nc"


@dataclass(frozen=True, slots=True)
class Asked:
    """A client's process, and where its questions are, one for each run; none: it reads nothing."""

    arguments: Sequence[str]
    questions: Iterator[Path] | None = None


def measure_hooks(base: Path, sizes: Sizes) -> list[Row]:
    what = f"hook, {sizes.entries:,} entries, {CITED} sources verified"
    tree = make_tree(base / "tree", sizes.files)
    topics = make_topics(tree.files, sizes.entries - 1)
    topics["session-tokens"] = topic(tree.files[:CITED], 0) | {"summary": _SUMMARY}
    with Daemon(base / "daemon") as daemon:
        fill(daemon, tree.root, topics)
        questions = _questions(base / "questions", tree.root)
        reply = _reply(daemon, questions)
        if compiler():
            rows = _rows(what, *_compare(base, daemon, questions, reply, sizes))
        else:
            rows = [skipped(what, "there is no C compiler (cc), and so no floor")]
    return rows + _without_daemon(base, next(questions), sizes)


def _questions(directory: Path, root: Path) -> Iterator[Path]:
    directory.mkdir()
    session = str(uuid.UUID(int=0))
    transcripts = "/home/ada/.claude/projects/-home-ada-src-shop"
    while True:
        session = str(uuid.UUID(int=uuid.UUID(session).int + 1))
        path = directory / session
        document = {
            "session_id": session,
            "transcript_path": f"{transcripts}/{session}.jsonl",
            "cwd": str(root),
            "prompt_id": session,
            "permission_mode": "default",
            "effort": {"level": "medium"},
            "hook_event_name": "PreToolUse",
            "tool_name": "Agent",
            "tool_input": {
                "description": "Explore session tokens",
                "prompt": _PROMPT,
                "subagent_type": "Explore",
            },
            "tool_use_id": f"toolu_{session}",
        }
        path.write_text(json.dumps(document, separators=(",", ":")))
        yield path


def _reply(daemon: Daemon, questions: Iterator[Path]) -> bytes:
    """What amend answers once it has read all entries. Raises where that is not the finding:
    nothing else is worth measuring."""
    python = [*_python(), str(hook_socket(daemon.runtime))]
    told = b""

    def is_denied() -> bool:
        nonlocal told
        with next(questions).open("rb") as file:
            done = subprocess.run(python, stdin=file, capture_output=True, check=True, timeout=30)
        told = done.stdout
        return DENIED in told

    wait_until(is_denied, "an exploration is answered with the finding", deadline_s=30)
    return told


def hook_socket(runtime: Path) -> Path:
    return runtime / "hooks" / "claude.sock"


def _python() -> list[str]:
    return ["python3", "-I", "-S", "-c", _PYTHON]


def _curl(path: Path) -> list[str]:
    asking = ["curl", "-qsf", "--noproxy", "*", "--unix-socket", str(path), "-H", "Expect:"]
    asking += ["-H", "content-type: application/json", "--data-binary", "@-"]
    return [*asking, "http://amend/v1/hooks/claude"]


# -- with a daemon -------------------------------------------------------------------------------


def _compare(
    base: Path, daemon: Daemon, questions: Iterator[Path], reply: bytes, sizes: Sizes
) -> tuple[dict[str, float], str]:
    """Milliseconds of each client, and how quiet it was."""
    http = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
    mine = str(hook_socket(daemon.runtime))
    with (
        floor(base, reply) as (program, theirs, pid),
        EchoServer(http % (len(reply), reply)) as echo,
    ):
        clients = {
            "c": [program, "ask", theirs],
            "c amend": [program, "ask", mine],
            "python": [*_python(), theirs],
            "python amend": [*_python(), mine],
        }
        if shutil.which("nc"):
            clients |= {"nc": ["nc", "-N", "-U", theirs], "nc amend": ["nc", "-N", "-U", mine]}
            clients["installed"] = ["sh", "-c", _installed(Client.NC, daemon.runtime)]
        if shutil.which("curl"):
            clients |= {"curl": _curl(echo.socket), "curl amend": _curl(daemon.socket)}
        subjects = {name: Asked(each, questions) for name, each in clients.items()}
        subjects |= (
            {"nothing": Asked(["curl", "-s", "file:///dev/null"])} if "curl" in clients else {}
        )
        subjects |= {"shell": Asked(["sh", "-c", ":"])}
        with apart((daemon.pid, pid, echo.pid)):
            found, quiet = paired(subjects, sizes)
    return {name: each.p50 for name, each in found.items()}, quiet


def _rows(what: str, ms: Mapping[str, float], quiet: str) -> list[Row]:
    rows = []
    if "nc" in ms:
        rows += [
            Row(
                f"{what}, nc, floor: C client and server",
                ms["nc amend"],
                "ms",
                ms["c"],
                ratio_max=2.0,
                note=quiet,
            ),
            Row("  nc and the C server", ms["nc"], "ms", ms["c"]),
        ]
    else:
        rows.append(skipped(f"{what}, nc", _NO_NC))
    rows.append(Row("  the C client and amend", ms["c amend"], "ms", ms["c"]))
    if "curl" in ms:
        rows += [
            Row(
                f"{what}, curl, floor: curl file:///dev/null",
                ms["curl amend"],
                "ms",
                ms["nothing"],
                ratio_max=1.15,
            ),
            Row("  curl and a C server", ms["curl"], "ms", ms["nothing"]),
        ]
    else:
        rows.append(skipped(f"{what}, curl", _NO_CURL))
    told = "floor: the same client and the C server"
    rows.append(Row(f"{what}, python3 -I -S, {told}", ms["python amend"], "ms", ms["python"]))
    if "installed" in ms:
        told = "floor: sh -c :"
        rows.append(Row(f"{what}, nc as installed, {told}", ms["installed"], "ms", ms["shell"]))
    return rows


@contextmanager
def floor(base: Path, reply: bytes) -> Iterator[tuple[str, str, int]]:
    """The C program, the socket where it serves `reply`, and the server's process."""
    program = base / "hook_floor"
    subprocess.run([compiler(), "-O2", "-static", "-o", str(program), str(SOURCE)], check=True)
    (base / "reply").write_bytes(reply)
    with tempfile.TemporaryDirectory(prefix="am-", dir="/tmp") as short:
        path = f"{short}/floor.sock"
        serving = [str(program), "serve", path, str(base / "reply")]
        process = subprocess.Popen(serving, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError("the C server did not start")
            yield str(program), path, process.pid
        finally:
            process.terminate()
            process.wait(10)
            process.stdout.close()


# -- without one ---------------------------------------------------------------------------------


def _without_daemon(base: Path, question: Path, sizes: Sizes) -> list[Row]:
    """The installed commands where nobody listens: the socket is gone, or a killed daemon's."""
    subjects = {"shell": Asked(["sh", "-c", ":"])}
    questions = iter(lambda: question, None)
    with tempfile.TemporaryDirectory(prefix="am-", dir="/tmp") as short:
        gone, dead = Path(short) / "gone", Path(short) / "dead"
        for path in (hook_socket(dead), dead / "api.sock"):
            _leave_socket(path)
        for client in Client:
            program = {Client.PYTHON: "python3"}.get(client, client.value)
            if shutil.which(program) is None:
                continue
            for name, runtime in (("gone", gone), ("dead", dead)):
                asking = ["sh", "-c", _installed(client, runtime)]
                _check_silent(asking, question)
                subjects[f"{client.value} {name}"] = Asked(asking, questions)
        found, quiet = paired(subjects, sizes)
    shell_ms = found.pop("shell").p50
    rows = []
    for name, took in found.items():
        client, state = name.split()
        label = {"gone": "no daemon", "dead": "a killed daemon's socket"}[state]
        budget = 1.3 if state == "gone" else None
        what = f"hook as installed, {client}, {label}, floor: sh -c :"
        rows.append(Row(what, took.p50, "ms", shell_ms, ratio_max=budget, note=quiet))
        quiet = ""
    return rows


def _installed(client: Client, runtime: Path) -> str:
    return command(TARGETS["claude"], client, Bound.AGENT, str(runtime))


def _leave_socket(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def _check_silent(asking: Sequence[str], question: Path) -> None:
    with question.open("rb") as file:
        done = subprocess.run(asking, stdin=file, capture_output=True, check=False, timeout=30)
    if (done.returncode, done.stdout, done.stderr) != (0, b"", b""):
        raise RuntimeError(f"without a daemon, {asking} was not silent: {done}")


# -- taking turns --------------------------------------------------------------------------------


def paired(subjects: Mapping[str, Asked], sizes: Sizes) -> tuple[dict[str, Spread], str]:
    """Milliseconds of each. In a round every subject is run `hook_runs` times, in turns."""
    names = list(subjects)
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    quiet = 0
    for _ in range(sizes.rounds):
        quiet += wait_for_quiet(sizes.quiet_wait_s)
        for name in names:
            found[name].append([])
        for run in range(sizes.hook_runs):
            first = run % len(names)
            for name in names[first:] + names[:first]:
                found[name][-1].append(run_ms(subjects[name]))
    told = f"{quiet} of {sizes.rounds} rounds began on a quiet machine"
    return {name: spread(rounds) for name, rounds in found.items()}, told


def run_ms(asked: Asked) -> float:
    """From spawning to having reaped it; the output is thrown away. Raises when it fails."""
    stdin = os.devnull if asked.questions is None else str(next(asked.questions))
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, stdin, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    started_ns = time.perf_counter_ns()
    pid = os.posix_spawnp(
        asked.arguments[0], list(asked.arguments), dict(os.environ), file_actions=actions
    )
    _, status = os.waitpid(pid, 0)
    took_ms = (time.perf_counter_ns() - started_ns) / 1e6
    if status != 0:
        raise RuntimeError(f"{' '.join(asked.arguments)[:200]} ended with {status}")
    return took_ms


if __name__ == "__main__":
    from benchmarks import run

    sys.exit(run.main(["--only", "hooks", *sys.argv[1:]]))
