"""No endpoint and no command runs anything of a repository that names a program everywhere.

What there is to ask is read from the daemon's own description and from the command line's, so that
what is added is asked as well.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import click
import pytest

from amend.cli.main import COMMANDS, cli
from benchmarks.running import Daemon, UnixConnection
from tests.integration.canaries import Hostile, make_hostile
from tests.integration.canary_daemon import (
    STALL_S,
    Neighbour,
    recorded_daemon,
    write_older_entries,
)

# A command line of ours on a busy machine; only one that hangs meets it.
CALL_S: Final = 20.0


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    return make_hostile(tmp_path / "hostile")


def test_every_endpoint_can_be_asked_and_fires_nothing(hostile: Hostile, tmp_path: Path) -> None:
    write_older_entries(hostile.root)
    write_memory(hostile.root)
    with recorded_daemon(tmp_path) as daemon, Neighbour(daemon, tmp_path) as neighbour:
        daemon.add(hostile.root)
        routes = every_route(daemon.get("/openapi.json"))
        answered = {}

        bare = {"root": str(hostile.root / "vendor" / "bare")}
        status, problem = daemon.request("POST", "/v1/repos", bare)
        assert (status, "is a bare repository" in problem["detail"]) == (403, True)
        for at in (hostile.root, hostile.root / "vendor" / "bare", hostile.root / ".git"):
            repo = daemon.add(hostile.root)
            values = sensible(at) | {"repo_id": repo["id"], "since": daemon.sync()["clock"]}
            for method, path, operation in routes:
                known = values
                if path == "/v1/activity":  # since a time there, not since a clock
                    known = values | {"since": "2026-01-01T00:00:00Z"}
                answered[at.name, method, path] = call(daemon, method, path, operation, known)

        unanswered = {route: status for route, status in answered.items() if status >= 500}
        assert (unanswered, hostile.fired()) == ({}, set())
        assert {status for (at, *_), status in answered.items() if at == "repo"} <= {200, 201, 204}
    assert set(neighbour.answers) == {"fresh"}
    assert neighbour.slowest_s < STALL_S


def sensible(root: Path) -> dict[str, Any]:
    """A value for each parameter, field, argument and option, by its name."""
    at = str(root)
    files = ["a.py", "src/", "*.py", "!gone.py", "vendor/bare/config"]
    return {"cwd": at, "root": at, "files": files} | {
        "agent": "claude",
        "kind": "topic",
        "key": "old",
        "keys": ["old"],
        "summary": "found out",
        "path": "decisions/auth",
        "category": "decisions",
        "topic": "auth",
        "title": "found out",
        "bullets": [f"files: {', '.join(files)}"],
    }


def write_memory(root: Path) -> None:
    """A tree with everything that lint and the index sync have something to do with."""
    note = "2026-04-10: found out\n- files: a.py, src/\n  - `vendor/bare/config` says so\n"
    for name, text in {"decisions/auth": note, "index": "dir: gone/ | x\n"}.items():
        path = root / "memory" / f"{name}.aicontext"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def every_route(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and description, in an order in which each finds what it is about."""
    order = ["get", "put", "post", "patch", "delete"]
    found = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return sorted(found, key=lambda r: (r[1].startswith("/v1/repos/"), order.index(r[0])))


def call(
    daemon: Daemon, method: str, path: str, operation: dict[str, Any], values: dict[str, Any]
) -> int:
    """The status; of a stream once it has begun."""
    query = {}
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        if parameter["in"] == "path":
            path = path.replace(f"{{{name}}}", quote(str(values[name])))
        elif name in values:
            query[name] = values[name]
    content = operation.get("requestBody", {}).get("content", {})
    fields = content.get("application/json", {}).get("schema", {}).get("properties", {})
    body = json.dumps({name: values[name] for name in fields if name in values})
    connection = UnixConnection(daemon.socket, CALL_S)
    connection.request(
        method.upper(),
        f"{path}?{urlencode(query)}",
        body if content else None,
        {"content-type": "application/json"} if content else {},
    )
    answer = connection.getresponse()
    if answer.headers.get_content_type() != "text/event-stream":
        answer.read()
    connection.close()
    return answer.status


# These talk to nothing of a repository, or are what the test runs anyway.
NOT_CALLED = {"run", "demo", "completion", "manual", "watch", "top", "ui", "service"}


def every_command() -> list[tuple[list[str], click.Command]]:
    """The words of each command that can be called, and what click knows of it; in an order in
    which each finds what it is about."""
    context = click.Context(cli)
    found: list[tuple[list[str], click.Command]] = []
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        if name not in NOT_CALLED:
            found += below([name], command)
    turns = {"add": 0, "put": 1, "rm": 3, "remove": 4}
    return sorted(found, key=lambda one: turns.get(one[0][0], 2))


def below(words: list[str], command: click.Command) -> list[tuple[list[str], click.Command]]:
    """The command itself, or what a group of commands holds."""
    if not isinstance(command, click.Group):
        return [(words, command)]
    inner = command.commands.items()
    return [found for name, each in inner for found in below([*words, name], each)]


def typed(command: click.Command, values: dict[str, Any]) -> list[str]:
    """What a person types after the command's words: its arguments, and the options it needs."""
    words: list[str] = []
    for parameter in command.params:
        value = values.get(parameter.name or "")
        if isinstance(parameter, click.Option) and parameter.required and value is not None:
            words += [parameter.opts[0], str(value)]
        elif parameter.name == "bullets":  # else they are read from stdin
            words += [word for bullet in values["bullets"] for word in ("--bullet", bullet)]
        elif isinstance(parameter, click.Argument) and value is not None:
            words += value if isinstance(value, list) else [value]
    return words


def amend(daemon: Daemon, root: Path, words: list[str]) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "amend.cli.main", *words],
        env=daemon.env,
        cwd=root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=CALL_S,
        check=False,
    )
    assert done.returncode in range(6), (words, done.stderr.decode())
    return done.returncode


def test_every_command_can_be_called_and_fires_nothing(hostile: Hostile, tmp_path: Path) -> None:
    write_older_entries(hostile.root)
    write_memory(hostile.root)
    (tmp_path / "config.toml").write_text("")
    values = sensible(hostile.root)
    # Else a PATH is the repository's.
    paths = {"config": str(tmp_path / "config.toml"), "memory": values["path"]}
    with recorded_daemon(tmp_path) as daemon, Neighbour(daemon, tmp_path) as neighbour:
        codes = {
            " ".join(words): amend(
                daemon,
                hostile.root,
                [
                    *words,
                    *typed(command, values | {"path": paths.get(words[0], str(hostile.root))}),
                ],
            )
            for words, command in every_command()
        }

        assert hostile.fired() == set()
        assert {codes[name] for name in ("add", "status", "put", "ls", "rm", "remove")} == {0}
        assert {codes[f"memory {name}"] for name in ("save", "sync", "dict suggest")} == {0}
    assert set(neighbour.answers) == {"fresh"}
    assert neighbour.slowest_s < STALL_S


def test_without_a_daemon_a_command_fires_nothing_either(hostile: Hostile, tmp_path: Path) -> None:
    write_older_entries(hostile.root)
    write_memory(hostile.root)
    hostile.repository.write("a.py", "edited\n")
    daemon = Daemon(tmp_path / "daemon")  # its places; it is not started
    try:
        codes = [
            amend(daemon, hostile.root, words)
            for words in (["get", "old"], ["ls"], ["verify"], ["memory", "lint", "--fix"])
        ]
    finally:
        daemon.close()

    assert hostile.fired() == set()
    assert codes == [3, 0, 3, 1]
