"""`amend init` on real repositories: what it makes, what it leaves alone, that it comes to rest."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amend.agents.plugin import plugin_dir
from amend.cli.init_files import write
from amend.cli.main import main
from amend.formats.agent_cache import TEMPLATE
from amend.formats.instructions import BEGIN, BLOCK, has_block, with_block, without_block
from tests.conftest import Repository
from tests.integration.cli_fakes import Fake, fake_daemon, repo

Capture = pytest.CaptureFixture[str]
CACHE = ".agent-cache.json"


@pytest.fixture
def shop(git: Callable[..., Repository], monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = git("shop", {"src/auth.ts": "one\n"})
    monkeypatch.chdir(made.root)
    return made


@pytest.fixture
def daemon() -> Iterator[Fake]:
    """A daemon that tends nothing yet, and anything it is told to."""
    with fake_daemon() as fake:
        fake.answers["GET /v1/repos"] = (200, [])
        fake.answers["POST /v1/repos"] = lambda asked: (201, repo(asked.body["root"]))
        yield fake


def run(capsys: Capture, *arguments: str) -> tuple[int, list[str], str]:
    capsys.readouterr()
    code = main(["init", *arguments])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def tree(root: Path) -> dict[str, bytes]:
    """Every file outside of .git, links as what they lead to."""
    found: dict[str, bytes] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = b"-> " + os.fsencode(os.readlink(path))
        elif path.is_file() and not name.startswith(".git/"):
            found[name] = path.read_bytes()
    return found


# -- what it makes -----------------------------------------------------------------------------


def test_it_makes_the_cache_has_git_ignore_it_and_tends_the_repository(
    shop: Repository, daemon: Fake, capsys: Capture
) -> None:
    code, out, err = run(capsys)

    assert (code, err) == (0, "")
    assert tree(shop.root) == {
        ".agent-cache.json": TEMPLATE,
        ".gitignore": b".agent-cache.json\n",
        "src/auth.ts": b"one\n",
    }
    assert shop("status", "--porcelain") == "?? .gitignore"
    assert out == [
        ".agent-cache.json: created, empty",
        ".gitignore: created with a line .agent-cache.json",
        "memory: not asked for; --memory begins a tree",
        "instructions: not added: there is neither CLAUDE.md nor AGENTS.md;"
        " --instructions makes one",
        f"{shop.root}: tended from now on",
        "hooks: not asked for; `amend hooks install AGENT` installs them",
    ]
    assert [asked.body for asked in daemon.asked if asked.method == "POST"] == [
        {"root": str(shop.root)}
    ]


def test_a_second_time_changes_nothing(shop: Repository, daemon: Fake, capsys: Capture) -> None:
    shop.write("CLAUDE.md", "# Shop\n")
    run(capsys, "--memory", "--instructions", "both")
    made = tree(shop.root)
    daemon.answers["GET /v1/repos"] = (200, [repo(str(shop.root))])

    code, out, err = run(capsys, "--memory", "--instructions", "both")

    assert (code, err) == (0, "")
    assert tree(shop.root) == made
    assert out[:6] == [
        ".agent-cache.json: there already",
        ".gitignore: git ignores .agent-cache.json already",
        "memory/index.aicontext: there already",
        "AGENTS.md: has the block for agents",
        "CLAUDE.md: has the block for agents",
        f"{shop.root}: tended already",
    ]


def test_a_dry_run_changes_nothing_and_its_diff_does_the_same(
    shop: Repository, daemon: Fake, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    shop.write("CLAUDE.md", b"# Shop\r\nno end, caf\xe9 \xff")
    shop.write(".gitignore", "dist/")
    options = ["--memory", "--instructions", "both"]
    before = tree(shop.root)

    assert main(["init", "--dry-run", *options]) == 0
    diff, said = capfdbinary.readouterr()
    untouched = tree(shop.root)
    subprocess.run(["git", "apply"], input=diff, cwd=shop.root, check=True)
    applied = tree(shop.root)
    for name in applied:
        (shop.root / name).write_bytes(before[name]) if name in before else (
            shop.root / name
        ).unlink()
    assert main(["init", *options]) == 0

    assert untouched == before
    assert applied == tree(shop.root) != before
    assert b"CLAUDE.md: would be given the block for agents\n" in said
    assert not [asked for asked in daemon.asked[:1] if asked.method == "POST"]


def test_a_dry_run_leaves_no_trace_at_all(shop: Repository, daemon: Fake, capsys: Capture) -> None:
    before = {path: os.stat(path).st_mtime_ns for path in [shop.root, *shop.root.rglob("*")]}

    run(capsys, "--dry-run", "--memory")

    after = {path: os.stat(path).st_mtime_ns for path in [shop.root, *shop.root.rglob("*")]}
    assert after == before
    assert [asked.method for asked in daemon.asked] == ["GET"]


def test_a_memory_tree_is_begun_in_order(shop: Repository, capsys: Capture) -> None:
    code, out, _ = run(capsys, "--memory")

    assert code == 0
    assert "memory/index.aicontext: created" in out
    assert main(["memory", "lint"]) == 0


def test_a_broken_configuration_fails_only_what_asks_for_it(
    shop: Repository, daemon: Fake, capsys: Capture
) -> None:
    Path(os.environ["AMEND_CONFIG"]).write_text("colour = 1\n")

    code, out, err = run(capsys, "--memory")

    assert code == 1
    assert err.startswith("amend: error: memory: ")
    assert f"{shop.root}: tended from now on" in out


def test_a_link_in_place_of_the_tree_is_left_alone(
    shop: Repository, daemon: Fake, tmp_path: Path, capsys: Capture
) -> None:
    (shop.root / "memory").symlink_to(tmp_path)

    code, _, err = run(capsys, "--memory")

    assert code == 1
    assert err.startswith("amend: error: memory: memory is a symlink")
    assert not (tmp_path / "index.aicontext").exists()


def test_from_a_subdirectory_it_is_the_repository_that_is_meant(
    shop: Repository, daemon: Fake, capsys: Capture
) -> None:
    run(capsys, "src")

    assert (shop.root / CACHE).exists()
    assert not (shop.root / "src" / CACHE).exists()


def test_json_says_the_same(shop: Repository, daemon: Fake, capsys: Capture) -> None:
    _, [line], _ = run(capsys, "--json", "--plugin")

    said = json.loads(line)
    assert said["root"] == str(shop.root)
    assert [step["did"] for step in said["steps"]] == [
        *("created", "created", "skipped", "skipped", "changed")
    ]
    assert said["diff"].startswith("--- /dev/null\n+++ b/.agent-cache.json\n")
    assert said["plugin"]["directory"] == str(plugin_dir())


# -- git ---------------------------------------------------------------------------------------


def test_a_cache_that_git_tracks_is_not_ignored(
    shop: Repository, daemon: Fake, capsys: Capture
) -> None:
    shop.commit("memory", {CACHE: TEMPLATE})

    _, out, _ = run(capsys)

    assert not (shop.root / ".gitignore").exists()
    assert out[1].startswith(".gitignore: left as it is: git tracks .agent-cache.json")


def test_a_cache_that_another_rule_ignores_needs_no_line(
    shop: Repository, daemon: Fake, capsys: Capture
) -> None:
    (shop.root / ".git/info/exclude").write_text(".agent-*\n")

    _, out, _ = run(capsys)

    assert not (shop.root / ".gitignore").exists()
    assert out[1] == ".gitignore: git ignores .agent-cache.json already"


def test_a_rule_that_says_not_to_ignore_it_is_obeyed(
    shop: Repository, daemon: Fake, capsys: Capture
) -> None:
    shop.write(".gitignore", "*\n!.agent-cache.json\n")

    _, out, _ = run(capsys)

    assert (shop.root / ".gitignore").read_text() == "*\n!.agent-cache.json\n"
    assert "not to be ignored" in out[1]


def test_where_there_is_no_git_the_rest_is_done(
    tmp_path: Path, daemon: Fake, capsys: Capture
) -> None:
    code, out, _ = run(capsys, str(tmp_path))

    assert code == 0
    assert tree(tmp_path) == {CACHE: TEMPLATE}
    assert out[1] == ".gitignore: not needed, there is no git repository"


def test_a_place_that_is_none_is_refused(tmp_path: Path, capsys: Capture) -> None:
    code, _, err = run(capsys, str(tmp_path / "gone"))

    assert code == 1
    assert "is no directory" in err


# -- instructions ------------------------------------------------------------------------------


def test_the_block_goes_into_the_files_that_are_there(
    shop: Repository, daemon: Fake, capsys: Capture
) -> None:
    shop.write("AGENTS.md", "# Shop")

    run(capsys)

    assert (shop.root / "AGENTS.md").read_bytes() == with_block(b"# Shop")
    assert not (shop.root / "CLAUDE.md").exists()


def test_a_file_that_is_asked_for_is_made(shop: Repository, daemon: Fake, capsys: Capture) -> None:
    run(capsys, "--instructions", "claude")

    assert (shop.root / "CLAUDE.md").read_text() == BLOCK + "\n"
    assert not (shop.root / "AGENTS.md").exists()


def test_none_leaves_them_alone(shop: Repository, daemon: Fake, capsys: Capture) -> None:
    shop.write("CLAUDE.md", "# Shop\n")

    run(capsys, "--instructions", "none")

    assert (shop.root / "CLAUDE.md").read_text() == "# Shop\n"


def test_an_older_block_is_replaced_in_place(
    shop: Repository, daemon: Fake, capsys: Capture
) -> None:
    old = BLOCK.replace("300", "200")
    path = shop.write("CLAUDE.md", f"# Shop\n\n{old}\n\nbelow\n")
    path.chmod(0o640)

    run(capsys)

    assert path.read_text() == f"# Shop\n\n{BLOCK}\n\nbelow\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_file_that_takes_in_the_other_gets_none_of_its_own(
    shop: Repository, daemon: Fake, capsys: Capture
) -> None:
    shop.write("AGENTS.md", "# Shop\n")
    shop.write("CLAUDE.md", "See @AGENTS.md for all.\n")

    _, out, _ = run(capsys)

    assert has_block((shop.root / "AGENTS.md").read_bytes())
    assert (shop.root / "CLAUDE.md").read_text() == "See @AGENTS.md for all.\n"
    assert "CLAUDE.md: left as it is: it takes in AGENTS.md" in out


def test_a_link_to_the_other_file_is_that_file(
    shop: Repository, daemon: Fake, capsys: Capture
) -> None:
    shop.write("AGENTS.md", "# Shop\n")
    (shop.root / "CLAUDE.md").symlink_to("AGENTS.md")

    code, out, _ = run(capsys)

    assert code == 0
    assert (shop.root / "CLAUDE.md").is_symlink()
    assert (shop.root / "AGENTS.md").read_text().count(BEGIN) == 1
    assert "CLAUDE.md: the same file as AGENTS.md" in out


def test_a_link_that_leads_out_is_refused_and_the_rest_is_done(
    shop: Repository, daemon: Fake, tmp_path: Path, capsys: Capture
) -> None:
    elsewhere = tmp_path / "mine.md"
    elsewhere.write_text("# Mine\n")
    (shop.root / "CLAUDE.md").symlink_to(elsewhere)

    code, out, err = run(capsys)

    assert code == 1
    assert elsewhere.read_text() == "# Mine\n"
    assert "amend: error: CLAUDE.md: it is a link to" in err
    assert f"{shop.root}: tended from now on" in out


@pytest.mark.parametrize("text", [f"# Shop\n{BEGIN}\n".encode(), "# Shop\n".encode("utf-16")])
def test_a_file_that_cannot_be_understood_is_left_alone(
    text: bytes, shop: Repository, daemon: Fake, capsys: Capture
) -> None:
    shop.write("CLAUDE.md", text)

    code, _, err = run(capsys)

    assert code == 1
    assert (shop.root / "CLAUDE.md").read_bytes() == text
    assert err.startswith("amend: error: CLAUDE.md: holds ")
    assert "amend: hint: " in err


def test_a_read_only_file_is_left_alone(shop: Repository, daemon: Fake, capsys: Capture) -> None:
    shop.write("CLAUDE.md", "# Shop\n").chmod(0o444)

    code, _, err = run(capsys)

    assert (code, (shop.root / "CLAUDE.md").read_text()) == (1, "# Shop\n")
    assert "CLAUDE.md: it is read-only" in err


# -- others write too --------------------------------------------------------------------------


def write_block(root: Path, at_rest: Callable[[], object]) -> list[str]:
    """Writes it on a clock that passes by waiting, with `at_rest` in the first wait after that.

    Gives the names of what is kept of what was replaced.
    """
    path, now_s, is_told = root / "CLAUDE.md", [0.0], [False]

    def pause(wait_s: float) -> None:
        now_s[0] += wait_s
        if not is_told[0] and has_block(path.read_bytes()):
            is_told[0] = True
            at_rest()

    write(
        os.fsencode(root),
        b"CLAUDE.md",
        lambda present: with_block(present or b""),
        retain_dir=os.fsencode(root / "kept"),
        now=lambda: now_s[0],
        pause=pause,
    )
    assert is_told == [True]
    return os.listdir(root / "kept")


def test_what_was_replaced_is_kept_and_nothing_else_is_left(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("# Shop\n")

    [kept] = write_block(tmp_path, lambda: None)

    assert kept.endswith(".kept")
    assert (tmp_path / "kept" / kept).read_text() == "# Shop\n"
    assert sorted(os.listdir(tmp_path)) == ["CLAUDE.md", "kept"]


def test_what_is_written_through_an_old_descriptor_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "CLAUDE.md"
    path.write_text("# Shop\n")

    with path.open("ab", buffering=0) as late:
        write_block(tmp_path, lambda: late.write(b"late\n"))

    done = path.read_bytes()
    assert sorted(without_block(done).split()) == [b"#", b"Shop", b"late"]


def test_a_file_that_another_saves_meanwhile_keeps_what_they_saved(tmp_path: Path) -> None:
    path = tmp_path / "CLAUDE.md"
    path.write_text("# Shop\n")

    write_block(tmp_path, lambda: path.write_text("# Shop, saved by an editor\n"))

    assert path.read_text() == "# Shop, saved by an editor\n"


# -- the daemon, hooks, the plugin -------------------------------------------------------------


def test_without_a_daemon_it_says_how(shop: Repository, capsys: Capture) -> None:
    code, out, _ = run(capsys)

    assert code == 0
    assert (shop.root / CACHE).exists()
    assert any("not tended yet: no daemon answers" in line for line in out)
    assert any("`amend run` starts one, then `amend add`" in line for line in out)


def test_a_daemon_that_refuses_is_a_failed_step(
    shop: Repository, daemon: Fake, capsys: Capture
) -> None:
    daemon.answers["POST /v1/repos"] = (403, {"detail": "not yours", "hint": "add your own"})

    code, _, err = run(capsys)

    assert code == 1
    assert err == f"amend: error: {shop.root}: not yours\namend: hint: add your own\n"


def test_the_plugin_is_told_with_its_directory(
    shop: Repository, daemon: Fake, capsys: Capture
) -> None:
    _, out, _ = run(capsys, "--plugin")

    assert f"  claude --plugin-dir {plugin_dir()}" in out
    assert f"  claude plugin marketplace add {plugin_dir()}" in out


def test_hooks_go_into_the_persons_settings(
    shop: Repository, daemon: Fake, private_home: Path, capsys: Capture
) -> None:
    settings = private_home / ".claude/settings.json"

    _, planned, diff = run(capsys, "--dry-run", "--hooks", "claude")
    untouched = not settings.exists()
    _, first, _ = run(capsys, "--hooks", "claude")

    assert untouched
    assert f"hooks of claude: would be installed in {settings}" in diff
    assert any(line.startswith("+") and "SessionStart" in line for line in planned)
    assert f"hooks of claude: installed in {settings}" in first
    assert "SessionStart" in json.loads(settings.read_text())["hooks"]


def test_settings_that_are_broken_are_a_failed_step(
    shop: Repository, daemon: Fake, private_home: Path, capsys: Capture
) -> None:
    settings = private_home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text("{")

    code, out, err = run(capsys, "--hooks", "claude")

    assert (code, settings.read_text()) == (1, "{")
    assert err.startswith("amend: error: hooks of claude: ")
    assert f"{shop.root}: tended from now on" in out


@pytest.mark.parametrize("options", [["--hooks", "emacs"], ["--plugin", "--hooks", "claude"]])
def test_hooks_that_cannot_be_are_a_wrong_command_line(
    options: list[str], shop: Repository, capsys: Capture
) -> None:
    code, _, err = run(capsys, *options)

    assert code == 2
    assert "--hooks" in err
    assert not (shop.root / CACHE).exists()
