"""`amend hooks` on real settings files: foreign ones, links, races, and what the status tells."""

import json
import os
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from amend.agents.install_trust import _hash, _snake
from amend.agents.installing import TARGETS, Bound, Client, Target, bounds, groups
from amend.cli import hooks_canary, hooks_files
from amend.cli.hooks_canary import run as run_hook
from amend.cli.hooks_canary import server
from amend.cli.main import main
from amend.edge.files.exchange import FileDoor
from amend.edge.service import runtime_dir
from amend.formats.agent_settings import add_hooks, own_hooks
from tests.foreign_settings import FOREIGN, REFUSED

CLAUDE, CODEX = TARGETS["claude"], TARGETS["codex"]


@pytest.fixture(autouse=True)
def nc_works(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary has tests of its own, and takes a second."""
    if request.node.name == "test_installed_hooks_reach_the_daemon":
        return

    def choose(target: Target, only: Client | None = None) -> Mapping[Bound, Client]:
        return dict.fromkeys(bounds(target), only or Client.NC)

    monkeypatch.setattr(hooks_canary, "choose", choose)


@dataclass
class Shell:
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """stdout; stderr too where it failed."""
        found = main(["hooks", *arguments])
        out, err = self.capsys.readouterr()
        assert found == code, out + err
        return out + err if code else out

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code).partition("\namend:")[0])


@pytest.fixture
def amend(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Shell:
    os.chdir(tmp_path)
    return Shell(capsys)


@pytest.fixture(autouse=True)
def _back(tmp_path: Path) -> Iterator[None]:
    before = os.getcwd()
    yield
    os.chdir(before)


@pytest.fixture
def settings(private_home: Path) -> Path:
    """Of Claude Code, where nothing is yet."""
    path = private_home / ".claude/settings.json"
    path.parent.mkdir()
    return path


def names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


def is_installed(data: bytes) -> bool:
    return {hook.event for hook in own_hooks(data)} == {each.event for each in CLAUDE.wanted}


# -- install, install again, uninstall ---------------------------------------------------------


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN.keys())
def test_foreign_settings_are_as_they_were_after_install_and_uninstall(
    amend: Shell, settings: Path, data: bytes
) -> None:
    settings.write_bytes(data)

    amend("install", "claude")
    once = settings.read_bytes()
    amend("install", "claude")
    twice = settings.read_bytes()
    backup = Path(f"{settings}.amend-backup").read_bytes()
    amend("uninstall", "claude")

    assert is_installed(once)
    assert twice == once
    assert backup == data
    assert settings.read_bytes() == data
    assert names(settings.parent) == ["settings.json"]


@pytest.mark.parametrize(("data", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_edited_is_refused_untouched(
    amend: Shell, settings: Path, data: bytes, said: str
) -> None:
    settings.write_bytes(data)
    before = settings.stat()

    told = amend("install", "claude", code=1)

    assert f"amend: error: {settings}: " in told
    assert said in told
    assert settings.read_bytes() == data
    assert settings.stat() == before
    assert names(settings.parent) == ["settings.json"]


@pytest.mark.parametrize("agent", TARGETS)
def test_an_absent_file_is_made_and_gone_again(
    amend: Shell, private_home: Path, agent: str
) -> None:
    target = TARGETS[agent]
    path = Path(target.user_path({}, str(private_home)))

    amend("install", agent)
    made = path.read_bytes()
    told = amend("uninstall", agent)

    assert {hook.event for hook in own_hooks(made)} == {each.event for each in target.wanted}
    assert "is gone" in told
    assert not path.parent.exists()


@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf", b"{}", b"{\n}\n"])
def test_a_file_without_a_word_in_it_stays_one(amend: Shell, settings: Path, data: bytes) -> None:
    settings.write_bytes(data)

    amend("install", "claude")
    amend("uninstall", "claude")

    assert settings.read_bytes() == data
    assert names(settings.parent) == ["settings.json"]


def test_a_file_that_was_there_before_is_not_removed(amend: Shell, settings: Path) -> None:
    settings.write_bytes(b'{\n  "model": "opus"\n}\n')
    amend("install", "claude")
    only_hooks = json.loads(settings.read_bytes())
    del only_hooks["model"]
    settings.write_text(json.dumps(only_hooks, indent=2))

    told = amend("uninstall", "claude")

    assert settings.read_bytes() == b"{}\n"
    assert "settings.json.amend-backup is from before" in told


def test_what_changed_in_between_stays_and_so_does_the_backup(amend: Shell, settings: Path) -> None:
    settings.write_bytes(b'{\n  "model": "opus"\n}\n')
    amend("install", "claude")
    settings.write_bytes(settings.read_bytes().replace(b"opus", b"sonnet"))

    amend("uninstall", "claude")

    assert settings.read_bytes() == b'{\n  "model": "sonnet"\n}\n'
    assert Path(f"{settings}.amend-backup").read_bytes() == b'{\n  "model": "opus"\n}\n'


def test_the_backup_is_from_before_the_first_install(amend: Shell, settings: Path) -> None:
    settings.write_bytes(b'{"model": "opus"}')

    amend("install", "claude")
    amend("install", "claude", "--client", "curl")

    assert Path(f"{settings}.amend-backup").read_bytes() == b'{"model": "opus"}'
    assert names(settings.parent) == ["settings.json", "settings.json.amend-backup"]


def test_another_client_takes_the_place_of_the_first(amend: Shell, settings: Path) -> None:
    amend("install", "claude")

    told = amend.json("install", "claude", "--client", "python")

    assert told["changed"]
    assert told["clients"] == ["python"]
    assert told["backup"] is None
    assert all("python3 -I -S" in hook.command for hook in own_hooks(settings.read_bytes()))


def test_where_nothing_is_installed_uninstall_says_so(amend: Shell, settings: Path) -> None:
    assert "has no hooks of amend's" in amend("uninstall", "claude")

    settings.write_bytes(b"[] nonsense")
    assert "nothing was changed" in amend("uninstall", "claude", code=1)
    assert settings.read_bytes() == b"[] nonsense"


def test_a_dry_run_shows_the_difference_and_writes_nothing(amend: Shell, settings: Path) -> None:
    settings.write_bytes(b'{\n  "model": "opus"\n}\n')

    told = amend("install", "claude", "--dry-run")
    as_json = amend.json("install", "claude", "--dry-run")

    assert told.startswith(f"--- a{settings}\n+++ b{settings}\n")
    assert '-  "model": "opus"\n+  "model": "opus",\n+  "hooks": {\n' in told
    assert as_json["changed"]
    assert as_json["diff"] == told
    assert settings.read_bytes() == b'{\n  "model": "opus"\n}\n'
    assert names(settings.parent) == ["settings.json"]


def test_the_variable_of_the_agent_moves_its_settings(
    amend: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))

    told = amend("install", "codex")

    assert own_hooks((tmp_path / "codex/hooks.json").read_bytes())
    assert "Hooks need review: 5 hooks are new or changed" in told


# -- links, modes, owners ----------------------------------------------------------------------


def test_a_dotfile_stays_a_link_and_what_it_leads_to_is_edited(
    amend: Shell, settings: Path, tmp_path: Path
) -> None:
    dotfile = tmp_path / "dotfiles/claude.json"
    dotfile.parent.mkdir()
    dotfile.write_bytes(b'{"model": "opus"}')
    dotfile.chmod(0o600)
    settings.symlink_to(dotfile)

    told = amend("install", "claude")

    assert f"it is a link; {dotfile} was written" in told
    assert settings.is_symlink()
    assert is_installed(dotfile.read_bytes())
    assert stat.S_IMODE(dotfile.stat().st_mode) == 0o600
    assert names(settings.parent) == ["settings.json"]
    assert names(dotfile.parent) == ["claude.json", "claude.json.amend-backup"]

    amend("uninstall", "claude")

    assert settings.is_symlink()
    assert dotfile.read_bytes() == b'{"model": "opus"}'
    assert names(dotfile.parent) == ["claude.json"]


def test_a_linked_directory_and_a_link_to_nothing_are_followed(
    amend: Shell, private_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "dotfiles").mkdir()
    (private_home / ".claude").symlink_to(tmp_path / "dotfiles")
    (tmp_path / "dotfiles/settings.json").symlink_to("real.json")

    amend("install", "claude")

    assert names(tmp_path / "dotfiles") == ["real.json", "settings.json"]
    assert is_installed((tmp_path / "dotfiles/real.json").read_bytes())


def test_a_link_to_itself_is_refused(amend: Shell, settings: Path) -> None:
    settings.symlink_to("settings.json")

    assert "symlink" in amend("install", "claude", code=1)
    assert os.readlink(settings) == "settings.json"


def test_the_backup_is_as_private_as_the_settings(amend: Shell, settings: Path) -> None:
    settings.write_bytes(b'{"env": {"KEY": "secret"}}')
    settings.chmod(0o640)

    amend("install", "claude")

    for path in (settings, Path(f"{settings}.amend-backup")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_read_only_file_is_left_alone(amend: Shell, settings: Path) -> None:
    settings.write_bytes(b"{}")
    settings.chmod(0o444)

    told = amend("install", "claude", code=1)

    assert f"{settings}: it is read-only; nothing was changed" in told
    assert settings.read_bytes() == b"{}"
    assert names(settings.parent) == ["settings.json"]


def test_a_file_with_two_names_is_left_alone(amend: Shell, settings: Path) -> None:
    settings.write_bytes(b"{}")
    os.link(settings, settings.parent / "other")

    assert "2 hard links" in amend("install", "claude", code=1)
    assert settings.read_bytes() == b"{}"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_left_alone(
    amend: Shell, settings: Path, make: Callable[[Path], None]
) -> None:
    make(settings)

    assert f"{settings}: it is a" in amend("install", "claude", code=1)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root writes wherever it likes."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_read_only_directory_is_a_clear_error(
    amend: Shell, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    home = Path(tempfile.mkdtemp(prefix="amend-", dir="/tmp"))
    settings = home / "claude/settings.json"
    settings.parent.mkdir()
    try:
        if is_there:
            settings.write_bytes(b"{}")
            os.chown(settings, 65534 if os.geteuid() == 0 else -1, -1)
        home.chmod(0o755)
        settings.parent.chmod(0o555)
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(settings.parent))
        amend("status", "claude")  # imports what it needs, which nobody may not read

        with as_nobody():
            told = amend("install", "claude", "--cwd", "/", code=1)

        assert f"{settings}: its directory is read-only for amend; nothing was changed" in told
        assert names(settings.parent) == ["settings.json"] * is_there
    finally:
        settings.parent.chmod(0o755)
        shutil.rmtree(home)


# -- in a project ------------------------------------------------------------------------------


def test_a_projects_settings_are_those_at_its_root(
    amend: Shell, git: Any, private_home: Path
) -> None:
    root = git("shop", {"src/a.py": "one"}).root

    told = amend("install", "claude", "--project", "--cwd", str(root / "src"))

    assert is_installed((root / ".claude/settings.json").read_bytes())
    assert not (private_home / ".claude").exists()
    assert "for others they do nothing" in told
    assert f"when it is started in {root}" in told

    amend("uninstall", "claude", "--project", "--cwd", str(root / "src"))
    assert names(root) == [".git", "src"]


def test_a_link_out_of_the_project_is_refused(amend: Shell, git: Any, tmp_path: Path) -> None:
    root = git("shop", {"a.py": "one"}).root
    outside = tmp_path / "outside.json"
    outside.write_bytes(b"{}")
    (root / ".claude").mkdir()
    (root / ".claude/settings.json").symlink_to(outside)

    told = amend("install", "claude", "--project", "--cwd", str(root), code=1)

    assert f"outside of {root}" in told
    assert outside.read_bytes() == b"{}"


def test_a_link_into_the_git_directory_is_refused(amend: Shell, git: Any) -> None:
    root = git("shop", {"a.py": "one"}).root
    (root / ".claude").symlink_to(".git")

    amend("install", "claude", "--project", "--cwd", str(root), code=1)

    assert not (root / ".git/settings.json").exists()


# -- others write at the same moment -----------------------------------------------------------


def at(monkeypatch: pytest.MonkeyPatch, step: str, act: Callable[[], None]) -> None:
    """Let something happen once, at a step of the exchange."""
    done: list[str] = []

    def told(found: str) -> None:
        if found == step and not done:
            done.append(found)
            act()

    def door(place: hooks_files.Place) -> FileDoor:
        return FileDoor(os.fsencode(place.root), os.fsencode(place.path), None, told)

    monkeypatch.setattr(hooks_files, "_door", door)


def replace(path: Path, data: bytes) -> None:
    """As editors and agents save."""
    beside = path.with_name("saving")
    beside.write_bytes(data)
    beside.rename(path)


@pytest.mark.parametrize("step", ["opened", "staged", "exchanging"])
@pytest.mark.parametrize("in_place", [True, False])
def test_what_another_program_writes_meanwhile_is_kept(
    amend: Shell,
    settings: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    in_place: bool,
) -> None:
    settings.write_bytes(b'{\n  "model": "opus"\n}\n')
    theirs = b'{\n  "model": "sonnet",\n  "theme": "dark"\n}\n'
    at(monkeypatch, step, lambda: (Path.write_bytes if in_place else replace)(settings, theirs))

    amend("install", "claude")

    found = settings.read_bytes()
    assert is_installed(found)
    assert json.loads(found) | {"hooks": None} == json.loads(theirs) | {"hooks": None}
    amend("uninstall", "claude")
    assert settings.read_bytes() == theirs


def test_what_another_program_made_meanwhile_is_kept(
    amend: Shell, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, "creating", lambda: replace(settings, b'{"theme": "dark"}'))

    amend("install", "claude")

    assert json.loads(settings.read_bytes())["theme"] == "dark"
    assert is_installed(settings.read_bytes())


def test_half_a_file_of_another_program_is_kept_beside(
    amend: Shell, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.write_bytes(b'{"model": "opus"}')
    at(monkeypatch, "exchanging", lambda: replace(settings, b'{"model": "son'))

    told = amend("install", "claude", code=1)

    kept = Path(told.partition("is kept in ")[2].splitlines()[0])
    assert kept.read_bytes() == b'{"model": "son'
    assert is_installed(settings.read_bytes())


@pytest.mark.parametrize("step", ["opened", "written", "staged", "exchanging", "exchanged"])
def test_a_kill_leaves_the_file_whole_and_the_next_run_cleans_up(
    amend: Shell, settings: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    data = FOREIGN["comments"]
    settings.write_bytes(data)

    def die() -> None:
        os._exit(9)

    with monkeypatch.context() as patch:
        at(patch, step, die)
        child = os.fork()
        if child == 0:
            main(["hooks", "install", "claude"])
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9

    assert settings.read_bytes() in (data, add_hooks(data, own_groups()))
    amend("install", "claude", "--client", "nc")
    assert is_installed(settings.read_bytes())
    amend("uninstall", "claude")
    assert settings.read_bytes() == data
    assert names(settings.parent) == ["settings.json"]


def own_groups() -> Any:
    runtime = str(runtime_dir(os.environ))
    return groups(CLAUDE, dict.fromkeys(bounds(CLAUDE), Client.NC), runtime)


# -- status ------------------------------------------------------------------------------------


def places(document: Any) -> dict[str, str]:
    return {place["scope"]: place["state"] for place in document["places"]}


def test_status_tells_what_is_installed_where(amend: Shell, settings: Path, git: Any) -> None:
    root = git("shop", {"a.py": "one"}).root
    amend("install", "claude", "--project", "--cwd", str(root), "--client", "curl")

    told = amend("status", "claude", "--cwd", str(root))
    document = amend.json("status", "claude", "--cwd", str(root))

    assert places(document) == {"user": "absent", "project": "installed"}
    assert document["places"][1]["clients"] == ["curl"]
    assert f"  project  installed, through curl  {root}/.claude/settings.json\n" in told
    assert "there is none; no daemon runs" in told


def test_status_of_all_agents_is_a_list(amend: Shell) -> None:
    assert [document["agent"] for document in amend.json("status")] == list(TARGETS)


def test_status_tells_what_is_missing(amend: Shell, settings: Path) -> None:
    amend("install", "claude")
    document = json.loads(settings.read_bytes())
    del document["hooks"]["PreToolUse"]
    settings.write_text(json.dumps(document))

    told = amend("status", "claude", code=1)

    assert "  user     partly, through nc" in told
    assert "no hook at PreToolUse; `amend hooks install claude --user` mends it" in told


@pytest.mark.parametrize(
    ("before", "after"), [(b"claude.sock", b"other.sock"), (b"0.5", b"60"), (b'".+"', b'"x"')]
)
def test_status_tells_hooks_of_another_amend(
    amend: Shell, settings: Path, before: bytes, after: bytes
) -> None:
    amend("install", "claude")
    settings.write_bytes(settings.read_bytes().replace(before, after))

    assert "hooks of another amend or another socket" in amend("status", "claude", code=1)

    amend("install", "claude")
    assert places(amend.json("status", "claude"))["user"] == "installed"


def test_status_tells_what_cannot_be_read(amend: Shell, settings: Path) -> None:
    settings.write_bytes(b"{")

    told = amend("status", "claude", code=1)

    assert "unreadable" in told
    assert f"{settings}: line 1, column 2" in told


def test_status_tells_that_all_hooks_are_switched_off(amend: Shell, settings: Path) -> None:
    settings.write_bytes(b'{"disableAllHooks": true}')
    amend("install", "claude")

    assert "disableAllHooks is true" in amend("status", "claude", code=1)


def test_the_plugin_beside_the_settings_is_told_and_hinders_an_install(
    amend: Shell, settings: Path
) -> None:
    amend("install", "claude")
    document = json.loads(settings.read_bytes())
    document["enabledPlugins"] = {"amend@amend": True}
    settings.write_text(json.dumps(document))

    told = amend("status", "claude", code=1)
    refused = amend("install", "claude", code=1)

    assert "plugin   amend@amend" in told
    assert "installed twice" in told
    assert "each event would be told twice" in refused
    amend("uninstall", "claude")
    assert amend.json("status", "claude")["plugins"] == ["amend@amend"]


def test_status_knows_whether_codex_trusts_the_hooks(
    amend: Shell, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMEND_RUNTIME_DIR", "/run/user/1000/amend")
    amend("install", "codex")
    assert "5 not trusted yet" in amend("status", "codex", code=1)

    path = private_home / ".codex/hooks.json"
    states = [
        f'[hooks.state."{path}:{_snake(h.event)}:{h.group}:{h.handler}"]\n'
        f'trusted_hash = "{_hash(h)}"\n'
        for h in own_hooks(path.read_bytes())
    ]
    (private_home / ".codex/config.toml").write_text("\n".join(states))
    assert "installed, through nc; 5 trusted" in amend("status", "codex")

    amend("install", "codex", "--client", "curl")
    told = amend("status", "codex", code=1)
    assert "5 hooks changed since trusted, which Codex leaves out without a word" in told


def answering(reply: bytes) -> hooks_canary.Talk:
    def talk(connection: socket.socket, _: bytes, __: threading.Event) -> None:
        connection.sendall(reply)

    return talk


@contextmanager
def daemon(metrics: bytes) -> Iterator[Path]:
    """A daemon's sockets: one that hears hooks, and one that tells how many it has heard."""
    runtime = runtime_dir(os.environ)
    (runtime / "hooks").mkdir(parents=True)
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(metrics)
    api = socket.socket(socket.AF_UNIX)
    api.bind(str(runtime / "api.sock"))
    api.listen(8)

    def tell() -> None:
        while True:
            try:
                connection, _ = api.accept()
            except OSError:
                return
            with connection:
                connection.recv(1 << 16)
                connection.sendall(head + metrics)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        with server(str(runtime / "hooks/claude.sock"), answering(b"")):
            yield runtime
    finally:
        api.shutdown(socket.SHUT_RDWR)
        api.close()
        thread.join(5)


METRICS = b"""# TYPE amend_hook_exchanges_total counter
amend_hook_exchanges_total{agent="claude",outcome="told"} 3
amend_hook_exchanges_total{agent="claude",outcome="silent"} 39
amend_hook_exchanges_total{agent="codex",outcome="told"} 5
"""


def test_status_tells_whether_the_socket_answers_and_what_came(amend: Shell) -> None:
    with daemon(METRICS):
        document = amend.json("status", "claude")
        told = amend("status", "claude")

    assert document["socket"]["state"] == "answers"
    assert document["exchanges"] == 42
    assert "  heard    42 hooks since the daemon started\n" in told


def test_status_tells_a_socket_that_nobody_listens_at(amend: Shell) -> None:
    path = runtime_dir(os.environ) / "hooks/claude.sock"
    path.parent.mkdir(parents=True)
    with server(str(path), None):
        document = amend.json("status", "claude")

    assert document["socket"]["state"] == "nobody listens at it; the daemon was killed"
    assert document["exchanges"] is None


# -- the whole of it ---------------------------------------------------------------------------


@pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("nc", "timeout")),
    reason="nc or timeout is not on this machine",
)
def test_installed_hooks_reach_the_daemon(amend: Shell, settings: Path) -> None:
    reply = b'{"hookSpecificOutput": {}}'
    path = runtime_dir(os.environ) / "hooks/claude.sock"
    path.parent.mkdir(parents=True)

    amend("install", "claude")
    hooks = own_hooks(settings.read_bytes())
    with server(str(path), answering(reply)):
        ran = [run_hook(hook.command, b"{}") for hook in hooks]

    assert len(hooks) == len(CLAUDE.wanted)
    assert {(each.code, each.out, each.err) for each in ran} == {(0, reply, b"")}
