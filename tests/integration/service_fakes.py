"""Stand-ins for systemctl, launchctl and journalctl: programs on PATH that note what they are told.

Each answers with the first line of its script whose pattern its arguments match; without one it
does nothing and succeeds.
"""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_PROGRAM = """#!{python}
import fnmatch, json, os, sys
base = {base!r}
words = " ".join(sys.argv[1:])
with open(base + "/told", "a") as told:
    told.write({name!r} + " " + words + chr(10))
with open(base + "/{name}.json") as file:
    answers = json.load(file)
for index, (pattern, code, out, err, times) in enumerate(answers):
    if times and fnmatch.fnmatchcase(words, pattern):
        answers[index][4] -= 1
        with open(base + "/{name}.json", "w") as file:
            json.dump(answers, file)
        sys.stdout.write(out)
        sys.stderr.write(err)
        sys.exit(code)
"""


@dataclass
class Programs:
    base: Path
    _answers: dict[str, list[list[object]]] = field(default_factory=dict)

    def add(self, name: str) -> None:
        program = self.base / name
        program.write_text(_PROGRAM.format(python=sys.executable, base=str(self.base), name=name))
        program.chmod(0o755)
        self._answers[name] = []
        self._save(name)

    def answer(
        self,
        name: str,
        pattern: str,
        *,
        code: int = 0,
        out: str = "",
        err: str = "",
        times: int = -1,
    ) -> None:
        self._answers[name].append([pattern, code, out, err, times])
        self._save(name)

    def _save(self, name: str) -> None:
        (self.base / f"{name}.json").write_text(json.dumps(self._answers[name]))

    def told(self) -> list[str]:
        """Everything, in order; then it is forgotten."""
        path = self.base / "told"
        if not path.exists():
            return []
        lines = path.read_text().splitlines()
        path.unlink()
        return lines


def programs(directory: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> Programs:
    directory.mkdir()
    made = Programs(directory)
    for name in names:
        made.add(name)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    return made
