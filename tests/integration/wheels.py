"""amend as its users get it: built from the checkout, installed where nothing else is."""

import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Final

import pytest

from amend.edge.store import SCHEMA_VERSION

ROOT: Final = Path(__file__).resolve().parent.parent.parent

# What the build reads, beside the package itself.
_BESIDE: Final = ("pyproject.toml", "README.md", "LICENSE", "config.example.toml")

# What `make` leaves behind is in no package.
_LEFT: Final = shutil.ignore_patterns("__pycache__")

BUILD_S: Final = 120


def checkout(base: Path, version: str | None = None) -> Path:
    """A copy of the checkout, by another version's name."""
    made = base / "checkout"
    made.mkdir(parents=True)
    for directory in ("amend", "systemd", "launchd", "docs"):
        shutil.copytree(ROOT / directory, made / directory, ignore=_LEFT)
    for name in _BESIDE:
        shutil.copy(ROOT / name, made / name)
    if version is not None:
        _patch(made / "pyproject.toml", r'^version = ".*"$', f'version = "{version}"')
    return made


def with_next_schema(source: Path) -> Path:
    """The copy, as it would be once the store's schema has changed again."""
    store = source / "amend/edge/store.py"
    after = SCHEMA_VERSION + 1
    _patch(store, r"^SCHEMA_VERSION: Final = .*$", f"SCHEMA_VERSION: Final = {after}")
    step = f'_STEPS: Final = {{{after}: "CREATE TABLE later (id INTEGER);", '
    _patch(store, r"^_STEPS: Final = {", step)
    return source


def _patch(path: Path, pattern: str, text: str) -> None:
    patched, times = re.subn(pattern, text, path.read_text(), flags=re.MULTILINE)
    assert times == 1
    path.write_text(patched)


def build(source: Path, kind: str) -> Path:
    """The wheel or the sdist of `source`; skips where there is nothing to build it with."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed here; `make` installs it")
    out = source.parent / "dist"
    code = f"import hatchling.build as b; print(b.build_{kind}({str(out)!r}))"
    out.mkdir(exist_ok=True)
    name = _run([sys.executable, "-c", code], cwd=source).strip().splitlines()[-1]
    return out / name


class Place:
    """A virtual environment that has amend's dependencies, and amend once it is installed."""

    def __init__(self, directory: Path) -> None:
        venv.create(directory, with_pip=False, symlinks=True)
        self.python = directory / "bin/python"
        self.amend = directory / "bin/amend"
        site = self._site()
        (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def _site(self) -> Path:
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        return Path(_run([str(self.python), "-c", code]).strip())

    def install(self, wheel: Path) -> None:
        """As `pip install --upgrade` does, without a look at what is to be had elsewhere."""
        words = ["--no-deps", "--no-index", "--force-reinstall", "--quiet", str(wheel)]
        pip = [sys.executable, "-m", "pip", "--python", str(self.python)]
        _run([*pip, "install", *words])


def _run(words: list[str], cwd: Path | None = None) -> str:
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, check=False, timeout=BUILD_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
