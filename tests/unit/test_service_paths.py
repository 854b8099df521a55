"""Where things live, resolved from an environment alone."""

import os
import pwd
from pathlib import Path

import pytest

from amend.edge.service import (
    AGENT_BYTES_MAX,
    SOCKET_PATH_BYTES_MAX,
    config_path,
    hook_socket_path,
    prepare_private_dir,
    runtime_dir,
    scrub_environment,
    socket_path,
    state_dir,
)
from amend.errors import ConfigInvalid, Refused

HOME = {"HOME": "/home/ada"}


def private(path: Path, mode: int = 0o700) -> Path:
    path.mkdir()
    path.chmod(mode)
    return path


def test_without_anything_set_all_is_in_the_home_directory() -> None:
    assert runtime_dir(HOME) == Path("/home/ada/.local/state/amend/run")
    assert state_dir(HOME) == Path("/home/ada/.local/state/amend")
    assert config_path(HOME) == Path("/home/ada/.config/amend/config.toml")


def test_without_a_home_it_is_the_one_of_the_user_database() -> None:
    own = Path(pwd.getpwuid(os.geteuid()).pw_dir)

    assert state_dir({}) == own / ".local/state/amend"
    assert state_dir({"HOME": "relative"}) == own / ".local/state/amend"


def test_the_xdg_directories_come_before_the_home(tmp_path: Path) -> None:
    run = private(tmp_path / "r")
    env = HOME | {
        "XDG_RUNTIME_DIR": str(run),
        "XDG_STATE_HOME": "/s",
        "XDG_CONFIG_HOME": "/c",
    }

    assert runtime_dir(env) == run / "amend"
    assert state_dir(env) == Path("/s/amend")
    assert config_path(env) == Path("/c/amend/config.toml")


def test_amends_own_variables_come_before_all(tmp_path: Path) -> None:
    env = HOME | {
        "XDG_RUNTIME_DIR": str(private(tmp_path / "r")),
        "AMEND_RUNTIME_DIR": "/a/r",
        "AMEND_STATE_DIR": "/a/s",
        "AMEND_CONFIG": "/a/c.toml",
    }

    assert runtime_dir(env) == Path("/a/r")
    assert socket_path(env) == Path("/a/r/api.sock")
    assert state_dir(env) == Path("/a/s")
    assert config_path(env) == Path("/a/c.toml")


def test_another_state_directory_moves_no_socket() -> None:
    env = HOME | {"XDG_STATE_HOME": "/s", "AMEND_STATE_DIR": "/a/s"}

    assert runtime_dir(env) == runtime_dir(HOME)


@pytest.mark.parametrize("name", ["AMEND_RUNTIME_DIR", "AMEND_STATE_DIR", "AMEND_CONFIG"])
def test_a_relative_path_of_amends_own_is_an_error(name: str) -> None:
    resolve = {
        "AMEND_RUNTIME_DIR": runtime_dir,
        "AMEND_STATE_DIR": state_dir,
        "AMEND_CONFIG": config_path,
    }[name]

    with pytest.raises(ConfigInvalid, match=f"{name} is 'x', must be an absolute path"):
        resolve(HOME | {name: "x"})


def test_a_relative_xdg_path_is_ignored() -> None:
    env = HOME | {"XDG_RUNTIME_DIR": "r", "XDG_STATE_HOME": "s", "XDG_CONFIG_HOME": "c"}

    assert (runtime_dir(env), state_dir(env), config_path(env)) == (
        runtime_dir(HOME),
        state_dir(HOME),
        config_path(HOME),
    )


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_a_runtime_directory_that_others_may_write_is_not_used(tmp_path: Path, mode: int) -> None:
    env = HOME | {"XDG_RUNTIME_DIR": str(private(tmp_path / "r", mode))}

    assert runtime_dir(env) == runtime_dir(HOME)


def test_a_runtime_directory_that_is_not_there_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for name in ("gone", "file"):
        assert runtime_dir(HOME | {"XDG_RUNTIME_DIR": str(tmp_path / name)}) == runtime_dir(HOME)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make somebody else's directory")
def test_a_runtime_directory_of_another_user_is_not_used(tmp_path: Path) -> None:
    run = private(tmp_path / "r")
    os.chown(run, 65534, 65534)

    assert runtime_dir(HOME | {"XDG_RUNTIME_DIR": str(run)}) == runtime_dir(HOME)


LONGEST_AGENT = "a" * AGENT_BYTES_MAX


def of_length(socket_bytes: int) -> str:
    """A directory in which the longest socket has a path of so many bytes."""
    rest = len("/") + 40 + len(f"/hooks/{LONGEST_AGENT}.sock")
    return "/" + "ä" * 20 + "x" * (socket_bytes - rest)


def test_the_longest_path_that_works_is_used_and_one_byte_more_is_an_error() -> None:
    fits = of_length(SOCKET_PATH_BYTES_MAX)
    too_long = of_length(SOCKET_PATH_BYTES_MAX + 1)

    assert runtime_dir({"AMEND_RUNTIME_DIR": fits}) == Path(fits)
    longest = hook_socket_path(Path(fits), LONGEST_AGENT)
    assert len(os.fsencode(longest)) == SOCKET_PATH_BYTES_MAX
    with pytest.raises(ConfigInvalid) as caught:
        runtime_dir({"AMEND_RUNTIME_DIR": too_long})

    limit = SOCKET_PATH_BYTES_MAX
    assert f"{limit + 1} bytes, at most {limit} work" in caught.value.message
    assert "shorter" in caught.value.hint


def test_a_default_that_is_too_long_has_a_short_stand_in() -> None:
    env = {"HOME": "/home/" + "x" * 100}

    assert runtime_dir(env) == Path(f"/tmp/amend-{os.geteuid()}")
    assert socket_path(env) == Path(f"/tmp/amend-{os.geteuid()}/api.sock")


def test_a_hooks_socket_is_called_by_its_agent() -> None:
    assert hook_socket_path(Path("/r"), "claude") == Path("/r/hooks/claude.sock")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "a\n", "x" * 13, "ä" * 7])
def test_what_is_no_agents_name_has_no_socket(name: str) -> None:
    with pytest.raises(ValueError, match="no agent's name"):
        hook_socket_path(Path("/r"), name)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_a_private_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    prepare_private_dir(tmp_path / "a/b")
    prepare_private_dir(tmp_path / "a/b")

    assert mode_of(tmp_path / "a/b") == 0o700


@pytest.mark.parametrize("name", ["lock", "api.sock", "amend.db", "run", None])
def test_an_open_one_of_our_own_is_closed(tmp_path: Path, name: str | None) -> None:
    parent = private(tmp_path / "p", 0o755)
    path = private(parent / "r", 0o755)
    if name:
        (path / name).touch()

    prepare_private_dir(path)

    assert mode_of(path) == 0o700
    assert mode_of(parent) == 0o755


def test_an_open_one_that_holds_other_things_keeps_its_mode(tmp_path: Path) -> None:
    path = private(tmp_path / "project", 0o755)
    (path / "README").touch()

    with pytest.raises(Refused, match="has mode 0755, must be closed to others"):
        prepare_private_dir(path)

    assert mode_of(path) == 0o755


def test_an_open_one_that_nobody_chose_is_closed_whatever_it_holds(tmp_path: Path) -> None:
    path = private(tmp_path / "hooks", 0o755)
    (path / "claude.sock").touch()

    prepare_private_dir(path, is_amends=True)

    assert mode_of(path) == 0o700


def test_a_link_or_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    private(tmp_path / "target")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").touch()

    for name in ("link", "dangling", "file"):
        with pytest.raises(Refused, match="no directory of its own"):
            prepare_private_dir(tmp_path / name)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make somebody else's directory")
def test_one_of_another_user_is_refused(tmp_path: Path) -> None:
    path = private(tmp_path / "r")
    os.chown(path, 65534, 65534)

    with pytest.raises(Refused, match="belongs to user 65534"):
        prepare_private_dir(path)


def test_a_parent_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(Refused, match="cannot be made or opened"):
        prepare_private_dir(tmp_path / "file/x")


def test_what_a_surrounding_git_says_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/x/.git")
    monkeypatch.setenv("GIT_INDEX_FILE", "x")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")

    scrub_environment()

    assert not [name for name in os.environ if name.startswith("GIT_")]
    assert os.environ["GITHUB_ACTIONS"] == "true"
