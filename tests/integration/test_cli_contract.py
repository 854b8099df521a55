"""`amend contract` on real repositories, without a daemon: the seed's three scripts, and `new`."""

import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from amend.cli.main import main
from amend.formats import contract as format_
from benchmarks import seed
from tests.conftest import Repository

Repositories = Callable[..., Repository]
Capture = pytest.CaptureFixture[str]

ITEMS = "router.get('/items/:id', show)\n"


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["contract", *arguments])
    out, err = capsys.readouterr()
    return code, click.unstyle(out), err


def as_json(capsys: Capture, *arguments: str) -> Any:
    return json.loads(run(capsys, *arguments, "--json")[1])


def document(files: dict[str, str], **fields: Any) -> str:
    return json.dumps(
        {
            "version": 1,
            "generated_at": "2026-01-20T00:00:00.000Z",
            "endpoint": {"method": "GET", "path": "/items/:id"},
            "success_responses": [],
            "error_responses": [],
            "evidence": [],
            "referenced_files": files,
        }
        | fields
    )


def last_commit(repository: Repository, path: str) -> str:
    """What the seed stores."""
    return repository("log", "-n", "1", "--format=%H", "--", path)


def blob(repository: Repository, path: str) -> str:
    return repository("hash-object", path)


@pytest.fixture
def backend(git: Repositories) -> Repository:
    made = git("backend", {"src/items.js": ITEMS, "src/users.js": "users\n"})
    made.commit("users again", {"src/users.js": "users, again\n"})
    return made


@pytest.fixture
def shop(git: Repositories, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = git("shop", {"app.js": "app\n"})
    monkeypatch.chdir(made.root)
    return made


@pytest.fixture
def tended(shop: Repository, backend: Repository) -> Repository:
    """The shop, with the backend as its sibling by the configuration."""
    Path(os.environ["AMEND_CONFIG"]).write_text(
        f'[[repo]]\nroot = "{shop.root}"\n[[repo.sibling]]\nname = "backend"\npath = "../backend"\n'
    )
    return shop


# -- find ----------------------------------------------------------------------------------------


@pytest.fixture
def filled(shop: Repository) -> Repository:
    contracts = {
        "backend/items.json": document({}),
        "backend/mine.json": document({}, endpoint={"method": "GET", "path": "/items/mine"}),
        "backend/any.json": document({}, endpoint={"path": "/{path...}"}),
        "schema.json": document({}, endpoint={"path": "/schema"}, key="schema of items"),
    }
    for name, text in contracts.items():
        shop.write(f".agent-cache.d/{name}", text)
    return shop


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("GET /items/42", ["backend/items.json", "backend/any.json"]),
        ("get /items/{id}", ["backend/items.json", "backend/any.json"]),
        ("/items/mine/", ["backend/mine.json", "backend/items.json", "backend/any.json"]),
        ("POST /items/42", ["backend/any.json"]),
        ("schema of items", ["schema.json"]),
        ("schema", ["schema.json"]),
        ("backend/items", ["backend/items.json"]),
    ],
)
def test_a_contract_is_found_by_endpoint_key_and_name(
    key: str, found: list[str], filled: Repository, capsys: Capture
) -> None:
    code, out, err = run(capsys, "find", key)

    assert (code, err) == (0, "")
    assert out.splitlines() == [f".agent-cache.d/{name}" for name in found]


def test_what_is_found_can_be_opened_from_where_one_is(
    filled: Repository, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (filled.root / "web").mkdir()
    monkeypatch.chdir(filled.root / "web")

    _, out, _ = run(capsys, "find", "schema")

    assert json.loads(Path(out.strip()).read_text())["key"] == "schema of items"


def test_nothing_found_is_4_and_near_keys_are_told_on_stderr(
    filled: Repository, capsys: Capture
) -> None:
    assert run(capsys, "find", "shema") == (
        4,
        "",
        "amend: no contract for shema; near: schema, /schema\n",
    )
    assert as_json(capsys, "find", "shema") == {"contracts": []}


def test_an_unreadable_contract_is_told_and_hides_no_other(
    filled: Repository, capsys: Capture
) -> None:
    filled.write(".agent-cache.d/broken.json", "{")
    os.symlink("/etc/hostname", filled.root / ".agent-cache.d/out.json")

    code, out, err = run(capsys, "find", "schema")

    assert (code, out) == (0, ".agent-cache.d/schema.json\n")
    assert ".agent-cache.d/broken.json: line 1, column 2" in err
    assert ".agent-cache.d/out.json: a symlink on the way leads out of the root" in err


def test_the_configuration_says_where_contracts_are(shop: Repository, capsys: Capture) -> None:
    shop.write("docs/api/items.json", document({}))
    shop.write("schema.json", document({}, key="schema of items"))
    Path(os.environ["AMEND_CONFIG"]).write_text(
        f'[[repo]]\nroot = "{shop.root}"\ncontracts = ["docs/**/*.json", "schema.json", "no.json"]'
    )

    rows = as_json(capsys, "find", "GET /items/1")["contracts"]

    assert rows == [
        {
            "path": str(shop.root / "docs/api/items.json"),
            "key": "docs/api/items",
            "endpoint": "GET /items/:id",
            "repository": None,
            "problems": [],
        },
        {
            "path": str(shop.root / "schema.json"),
            "key": "schema",
            "endpoint": "GET /items/:id",
            "repository": None,
            "problems": [],
        },
    ]


# -- check-schema --------------------------------------------------------------------------------


def test_a_good_contract_is_silent_and_0(shop: Repository, capsys: Capture) -> None:
    shop.write("good.json", document({"app.js": "a" * 40}))

    assert run(capsys, "check-schema", "good.json") == (0, "", "")


def test_every_broken_rule_is_a_line_with_a_pointer(shop: Repository, capsys: Capture) -> None:
    shop.write("bad.json", document({"a/b.js": "52add4438edd5b38..."}, version="1"))
    shop.write("text.json", '{"a": 1,\n nonsense}')

    code, out, err = run(capsys, "check-schema", "bad.json", "text.json", "none.json")

    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "bad.json: /version: must be a whole number of 1 or more, not '1'",
        "bad.json: /referenced_files/a~1b.js: must be the whole hash of a commit or a blob"
        " (40 or 64 hex digits), not '52add4438edd5b38...'",
        "text.json: line 2, column 2: found 'n', expected a key in double quotes or \"}\"",
        "none.json: no such file or directory",
    ]


def test_a_contract_on_stdin_is_checked(
    shop: Repository, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(document({}, key="a\nb").encode()))
    monkeypatch.setattr("sys.stdin", stdin)

    said = as_json(capsys, "check-schema", "-")

    rule = "must be one line of text, not 'a\\nb'"
    assert said == {
        "ok": False,
        "files": [{"path": "-", "problems": [{"pointer": "/key", "rule": rule}]}],
    }


def test_the_schema_is_printed(capsys: Capture) -> None:
    assert main(["contract", "check-schema", "--print-schema"]) == 0

    published = Path(format_.__file__).with_name("contract.schema.json")
    assert capsys.readouterr().out == published.read_text()


@pytest.mark.parametrize("kind", ["fifo", "directory"])
def test_what_is_no_file_is_told_and_nothing_hangs(
    kind: str, shop: Repository, capsys: Capture
) -> None:
    path = shop.root / "odd.json"
    path.mkdir() if kind == "directory" else os.mkfifo(path)

    code, out, _ = run(capsys, "check-schema", "odd.json")

    assert code == 1
    assert "not a regular file" in out
    assert run(capsys, "validate", "odd.json")[0] == 5


# -- validate ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [last_commit, blob])
def test_a_contract_holds_exactly_while_the_bytes_do(
    form: Callable[[Repository, str], str], backend: Repository, tended: Repository, capsys: Capture
) -> None:
    files = {path: form(backend, path) for path in ("src/items.js", "src/users.js")}
    tended.write(".agent-cache.d/backend/items.json", document(files))
    path = ".agent-cache.d/backend/items.json"

    def verdict() -> tuple[int, list[str]]:
        code, out, _ = run(capsys, "validate", path)
        return code, out.splitlines()

    assert verdict() == (0, [f"fresh    {path}"])

    backend.write("src/other.js", "not cited\n")
    backend.write("src/items.js", "changed\n")
    assert verdict() == (
        3,
        [f"stale    {path}", "  backend:src/items.js: edited, not committed"],
    )

    changed = backend.commit("change the shape")
    code, lines = verdict()
    assert code == 3
    assert f"backend:src/items.js: committed in {changed[:7]} 'change the shape'" in lines[1]

    backend("revert", "--no-edit", "HEAD")
    assert verdict()[0] == 0

    (backend.root / "src/items.js").unlink()
    assert verdict()[0] == 3


def test_rebase_squash_and_cherry_pick_keep_a_contract_fresh(
    backend: Repository, tended: Repository, capsys: Capture
) -> None:
    backend("switch", "-q", "-c", "work")
    backend.commit("one", {"src/items.js": "work in progress\n"})
    backend.commit("two", {"src/items.js": "the new shape\n"})
    files = {"src/items.js": last_commit(backend, "src/items.js")}
    tended.write(".agent-cache.d/backend/items.json", document(files))

    backend("switch", "-q", "main")
    backend.commit("elsewhere", {"README": "new\n"})
    backend("merge", "-q", "--squash", "work")
    backend.commit("all of the work")

    assert last_commit(backend, "src/items.js") not in files.values()
    assert run(capsys, "validate", ".agent-cache.d/backend/items.json")[0] == 0


def test_a_moved_file_is_followed(backend: Repository, tended: Repository, capsys: Capture) -> None:
    text = document({"src/items.js": blob(backend, "src/items.js")})
    tended.write(".agent-cache.d/backend/items.json", text)
    backend("mv", "src/items.js", "src/things.js")
    backend.commit("rename")

    code, out, _ = run(capsys, "validate", ".agent-cache.d/backend/items.json")

    assert code == 0
    assert "backend:src/items.js: moved to src/things.js" in out


def test_a_mode_is_no_content(backend: Repository, tended: Repository, capsys: Capture) -> None:
    text = document({"src/items.js": last_commit(backend, "src/items.js")})
    tended.write(".agent-cache.d/backend/items.json", text)
    (backend.root / "src/items.js").chmod(0o755)

    assert run(capsys, "validate", ".agent-cache.d/backend/items.json")[0] == 0


def test_a_hash_that_is_nothing_in_this_clone_is_unknown(
    backend: Repository, shop: Repository, capsys: Capture
) -> None:
    shop.write("items.json", document({"src/items.js": "52add443" * 5}))

    said = as_json(capsys, "validate", "items.json", "--repo", str(backend.root))
    code = run(capsys, "validate", "items.json", "--repo", str(backend.root))[0]

    assert code == 5
    assert said["contracts"] == [
        {
            "path": "items.json",
            "verdict": "unknown",
            "causes": [
                {
                    "cause": "shallow",
                    "source": "src/items.js",
                    "detail": "52add44 is neither a commit nor a blob of it",
                }
            ],
        }
    ]


def test_a_commit_that_a_shallow_clone_left_behind_is_unknown(
    backend: Repository, shop: Repository, capsys: Capture, tmp_path: Path
) -> None:
    backend.commit("later", {"src/items.js": "later\n"})
    old = backend("log", "-n", "1", "--format=%H", "HEAD~1", "--", "src/items.js")
    clone = tmp_path / "shallow"
    backend("clone", "-q", "--depth=1", f"file://{backend.root}", str(clone))
    shop.write("items.json", document({"src/items.js": old}))

    code, out, _ = run(capsys, "validate", "items.json", "--repo", str(clone))

    assert code == 5
    assert "its commit is not in this clone" in out


def test_now_may_be_head_or_a_ref(backend: Repository, shop: Repository, capsys: Capture) -> None:
    shop.write("items.json", document({"src/items.js": blob(backend, "src/items.js")}))
    backend("branch", "release")
    backend.commit("change the shape", {"src/items.js": "changed\n"})
    backend.write("src/items.js", ITEMS)

    def verdict(*track: str) -> int:
        return run(capsys, "validate", "items.json", "--repo", str(backend.root), *track)[0]

    assert verdict() == 0
    assert verdict("--track", "worktree") == 0
    assert verdict("--track", "head") == 3
    assert verdict("--track", "ref:release") == 0
    assert verdict("--track", "ref:refs/heads/main") == 3
    assert verdict("--track", "ref:none") == 5


def test_a_track_that_is_none_is_a_wrong_command_line(shop: Repository, capsys: Capture) -> None:
    code, _, err = run(capsys, "validate", "items.json", "--track", "ref:-x")

    assert code == 2
    assert "must name a ref of git" in err


def test_a_sibling_nobody_named_is_unknown(
    backend: Repository, shop: Repository, capsys: Capture
) -> None:
    text = document({"src/items.js": blob(backend, "src/items.js")})
    shop.write(".agent-cache.d/backend/items.json", text)

    code, out, _ = run(capsys, "validate", ".agent-cache.d/backend/items.json")

    assert code == 5
    assert "no sibling is called backend" in out
    assert (
        run(capsys, "validate", ".agent-cache.d/backend/items.json", "--repo", "../backend")[0] == 0
    )


def test_the_contracts_own_repository_is_the_default(
    shop: Repository, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.write(".agent-cache.d/app.json", document({"app.js": last_commit(shop, "app.js")}))
    path = str(shop.root / ".agent-cache.d/app.json")

    monkeypatch.chdir("/")
    assert run(capsys, "validate", path)[0] == 0

    shop.write("app.js", "changed\n")
    assert run(capsys, "validate", path)[0] == 3


def test_a_contract_outside_of_any_repository_is_about_where_one_is(
    shop: Repository, backend: Repository, capsys: Capture, tmp_path: Path
) -> None:
    (tmp_path / "app.json").write_text(document({"app.js": blob(shop, "app.js")}))
    path = str(tmp_path / "app.json")

    assert run(capsys, "validate", path)[0] == 0
    assert run(capsys, "validate", path, "--cwd", str(backend.root))[0] == 5


def test_the_worst_of_several_is_the_exit_code_and_each_is_told(
    shop: Repository, capsys: Capture
) -> None:
    shop.write("fresh.json", document({"app.js": blob(shop, "app.js")}))
    shop.write("unknown.json", document({"app.js": "0" * 40}))
    shop.write("invalid.json", document({"app.js": "abc"}))
    shop.write("torn.json", "{")
    shop.write("empty.json", document({}))
    urls = [{"url": "https://example.org"}]
    shop.write("web.json", document({"app.js": blob(shop, "app.js")}, url_sources=urls))

    def told(*names: str) -> tuple[int, list[str]]:
        code, out, _ = run(capsys, "validate", *[f"{name}.json" for name in names])
        return code, [line.split()[0] for line in out.splitlines() if line[0] != " "]

    assert told("fresh", "fresh") == (0, ["fresh", "fresh"])
    assert told("fresh", "none") == (4, ["fresh", "missing"])
    assert told("unknown", "none") == (5, ["unknown", "missing"])
    assert told("empty", "web") == (5, ["unknown", "unknown"])
    assert told("invalid", "torn", "unknown") == (3, ["stale", "stale", "unknown"])


def test_a_path_that_leads_out_of_the_repository_is_not_read(
    shop: Repository, capsys: Capture
) -> None:
    os.symlink("/etc/hostname", shop.root / "out")
    shop.write("out.json", document({"out": "a" * 40}))

    code, out, _ = run(capsys, "validate", "out.json")

    assert code == 5
    assert "leads out of the root" in out


@pytest.mark.skipif(shutil.which("jq") is None, reason="the seed's script needs jq")
def test_the_seeds_own_script_agrees_where_it_can(
    backend: Repository, shop: Repository, capsys: Capture
) -> None:
    files = {path: last_commit(backend, path) for path in ("src/items.js", "src/users.js")}
    shop.write("items.json", document(files))

    def both() -> tuple[bool, bool]:
        script = ["bash", "-c", seed.WITH_JQ, "seed", "items.json", str(backend.root)]
        theirs = subprocess.run(script, cwd=shop.root, check=False).returncode == 0
        ours = run(capsys, "validate", "items.json", "--repo", str(backend.root))[0] == 0
        return theirs, ours

    assert both() == (True, True)
    backend.commit("elsewhere", {"src/other.js": "other\n"})
    assert both() == (True, True)
    backend.commit("a change", {"src/items.js": "changed\n"})
    assert both() == (False, False)


# -- new -----------------------------------------------------------------------------------------


def test_a_new_contract_is_fresh_until_a_file_changes(
    backend: Repository, tended: Repository, capsys: Capture
) -> None:
    where = ".agent-cache.d/backend/items.json"
    options = ["--endpoint", "GET /items/:id", "--repository", "backend", "-o", where]

    code, out, _ = run(capsys, "new", *options, "../backend/src/items.js", "src/users.js")

    assert (code, out) == (0, "")
    assert json.loads((tended.root / where).read_text())["referenced_files"] == {
        "src/items.js": blob(backend, "src/items.js"),
        "src/users.js": blob(backend, "src/users.js"),
    }
    assert run(capsys, "check-schema", where)[0] == 0
    assert run(capsys, "find", "GET /items/42")[1] == f"{where}\n"
    assert run(capsys, "validate", where)[0] == 0

    backend.write("src/users.js", "changed\n")
    assert run(capsys, "validate", where)[0] == 3


def test_a_new_contract_is_printed_for_files_as_they_are_now(
    shop: Repository, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.write("db/schema.sql", "create table items;\n")
    monkeypatch.chdir(shop.root / "db")

    code, out, err = run(capsys, "new", "--key", "schema of items", "schema.sql", "../app.js")

    made = json.loads(out)
    assert (code, err) == (0, "")
    assert made["key"] == "schema of items"
    assert made["referenced_files"] == {
        "db/schema.sql": blob(shop, "db/schema.sql"),
        "app.js": blob(shop, "app.js"),
    }


def test_a_new_contract_overwrites_nothing(shop: Repository, capsys: Capture) -> None:
    shop.write("mine.json", "precious")
    os.symlink("nowhere", shop.root / "link.json")

    for taken in ("mine.json", "link.json"):
        code, _, err = run(capsys, "new", "--key", "k", "-o", taken, "app.js")
        assert code == 1
        assert "exists; nothing was written" in err

    assert (shop.root / "mine.json").read_text() == "precious"
    assert sorted(os.listdir(shop.root)) == [".git", "app.js", "link.json", "mine.json"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["app.js"], 2, "give one of --key and --endpoint"),
        (["--key", "k", "--endpoint", "GET /a", "app.js"], 2, "give one of --key and --endpoint"),
        (["--endpoint", "items", "app.js"], 1, "'items' is no endpoint"),
        (["--key", "a\nb", "app.js"], 1, "/key: must be one line of text"),
        (["--key", "k", "none.js"], 1, "none.js does not exist in "),
        (["--key", "k", "."], 1, "is outside of "),
        (["--key", "k", "sub"], 1, "sub: is a directory, not a regular file"),
        (["--key", "k", "../backend/src/items.js"], 1, "is outside of "),
        (["--key", "k", "wild*.js"], 1, "would be read as a pattern"),
        (["--key", "k", "--repository", "payments", "app.js"], 1, "is called 'payments'"),
        (["--key", "k", "--repo", "/", "app.js"], 1, "/ is in no repository"),
    ],
)
@pytest.mark.usefixtures("backend")
def test_what_no_contract_can_rest_on_is_told(
    arguments: list[str], code: int, said: str, shop: Repository, capsys: Capture
) -> None:
    (shop.root / "sub").mkdir()
    shop.write("wild*.js", "x")

    found, out, err = run(capsys, "new", *arguments)

    assert (found, out) == (code, "")
    assert said in err


def test_a_name_that_reads_like_a_sibling_can_be_cited(shop: Repository, capsys: Capture) -> None:
    shop.write("a:b.js", "odd\n")

    made = json.loads(run(capsys, "new", "--key", "k", "a:b.js")[1])

    assert made["referenced_files"] == {"./a:b.js": blob(shop, "a:b.js")}
