"""A scripted model for real clients: the rig's API server, and the requests that it was sent.

    with Model(rig, {"main": [[{"text": "done"}]]}) as model:
        ...  # a client that is pointed at model.url
    model.requests("main")[0].texts()

A lane is a list of turns, a turn a list of blocks (the rig's README). The lane of a conversation is
the `[[lane:NAME]]` in its first prompt.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# A Python server's start on a busy machine.
_START_S: Final = 20.0

Lanes = Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]


@dataclass(frozen=True)
class Text:
    """A text of a request, where it stands and who says it."""

    at: int
    role: str
    text: str


@dataclass(frozen=True)
class Request:
    number: int
    lane: str
    body: Mapping[str, Any]

    def texts(self) -> Iterator[Text]:
        messages: Sequence[Any] = self.body.get("messages") or self.body.get("input") or []
        for at, message in enumerate(messages):
            who = message.get("role") or message.get("type", "")
            for text in _strings(message):
                yield Text(at, who, text)

    def says(self, pattern: str) -> str:
        """Where `pattern` stands in it, with its paragraph; "" where it does not."""
        for each in self.texts():
            if found := re.search(pattern, each.text):
                before = each.text[: found.start()].rpartition("\n\n")[2]
                after = each.text[found.start() :].partition("\n\n")[0]
                return f"request {self.number}, message {each.at} ({each.role}):\n{before}{after}"
        return ""


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)


class Model:
    def __init__(self, rig: Path, lanes: Lanes) -> None:
        self._rig = rig
        self._lanes = lanes
        self._directory = tempfile.TemporaryDirectory(prefix="amend-model-")
        self._out = Path(self._directory.name)
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: list[Request] = []
        self.url = ""

    def __enter__(self) -> "Model":
        scenario = self._out / "scenario.json"
        scenario.write_text(json.dumps({"lanes": self._lanes}))
        program = self._rig / "fake_api.py"
        self._process = subprocess.Popen(
            [sys.executable, "-B", str(program), str(scenario), str(self._out)],
            stdin=subprocess.DEVNULL,
        )
        port = self._out / "port"
        until_s = time.monotonic() + _START_S
        while not port.exists() or not port.read_text():
            if self._process.poll() is not None or time.monotonic() > until_s:
                self.__exit__()
                raise RuntimeError(f"{program} did not start")
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{port.read_text()}"
        return self

    def __exit__(self, *_: object) -> None:
        """What was asked stays known."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._requests = self._read()
        self._directory.cleanup()

    def requests(self, lane: str) -> list[Request]:
        """Of a conversation's lane, the first one first."""
        return [each for each in self._requests or self._read() if each.lane == lane]

    def _read(self) -> list[Request]:
        log = self._out / "api.jsonl"
        if not log.exists():
            return []
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        return [
            Request(row["n"], row["lane"], json.loads((self._out / row["file"]).read_text()))
            for row in rows
        ]


def tool(name: str, given: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A block that calls a tool. `more`: the rig's own keys, such as Codex's namespace."""
    return {"tool": name, "input": dict(given or {}), **more}


def text(words: str) -> dict[str, Any]:
    return {"text": words}
