"""What every test gets: places of its own, an environment without git's variables, and `git`.

The home directory of whoever runs the tests is out of reach from the first import on, so that not
even a test that forgets about it can touch a real cache, store, socket or git configuration.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Nothing real may be found before the first fixture runs either: modules are imported by then.
NOWHERE = "/nonexistent/amend-tests"

# A socket's path has room for 107 bytes, and pytest's own directories use most of it.
SHORT = "/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir()

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    print_blob=True,
    # Two shared cores: a slow draw says more about the neighbours than about the strategy.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", settings.get_profile("ci"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def places(home: Path, runtime: str) -> dict[str, str]:
    """The variables that say where everything is, all below `home` and `runtime`."""
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_RUNTIME_DIR": runtime,
        "AMEND_RUNTIME_DIR": f"{runtime}/amend",
        "AMEND_STATE_DIR": str(home / "state"),
        "AMEND_CONFIG": str(home / "config.toml"),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "Ada Tester",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada Tester",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
    }


def _is_leaky(name: str) -> bool:
    """A variable that leads out of the private places, or that changes what amend does."""
    return name.startswith(("GIT_", "XDG_", "AMEND_", "_AMEND")) or name in (
        "NOTIFY_SOCKET",
        "LISTEN_FDS",
        "LISTEN_PID",
        "LISTEN_FDNAMES",
    )


for _name in [name for name in os.environ if _is_leaky(name)]:
    del os.environ[_name]

# A run in the background of a script begins with Ctrl-C ignored, and so would all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.update(places(Path(NOWHERE), NOWHERE))


@pytest.fixture(autouse=True)
def private_home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A home directory and runtime directory of the test's own, outside its `tmp_path`."""
    home = tmp_path_factory.mktemp("home")
    runtime = tempfile.mkdtemp(prefix="amend-", dir=SHORT)
    (home / ".gitconfig").write_text(
        "[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n[gc]\n\tauto = 0\n"
        "[maintenance]\n\tauto = false\n"
    )
    for name in [name for name in os.environ if _is_leaky(name)]:
        monkeypatch.delenv(name)
    for name, value in places(home, runtime).items():
        monkeypatch.setenv(name, value)
    yield home
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(runtime)


@dataclass(frozen=True)
class Repository:
    """A real repository with a few verbs; anything else is `git("…")`."""

    root: Path

    def __call__(self, *arguments: str) -> str:
        """git's output without the last line end."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr}"
        return done.stdout.rstrip("\n")

    def write(self, path: str, text: str | bytes) -> Path:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(text if isinstance(text, bytes) else text.encode())
        return full

    def commit(self, subject: str, files: dict[str, str | bytes] | None = None) -> str:
        """Writes `files`, commits everything there is, gives the commit's name."""
        for path, text in (files or {}).items():
            self.write(path, text)
        self("add", "-A")
        self("commit", "-q", "--allow-empty", "-m", subject)
        return self("rev-parse", "HEAD")


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., Repository]:
    """Makes a repository: `git()`, `git("name")`, `git("name", {"a.py": "one"})`."""

    def make(name: str = "repo", files: dict[str, str | bytes] | None = None) -> Repository:
        root = tmp_path / name
        root.mkdir(parents=True)
        repository = Repository(root)
        repository("init", "-q")
        if files is not None:
            repository.commit("first", files)
        return repository

    return make
