"""Memory trees over the socket: a real daemon, real files; what is asked, and what is written."""

import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from benchmarks.running import Daemon, git
from tests.integration.test_daemon import eventually
from tests.memory_trees import write

NOTE = "2026-04-10: JWT, revoked through Redis\n  - sessions are stateless\n"
TREE = {
    "index.aicontext": "dict: dict.aicontext | Short forms\n\ndir: decisions/ | what was chosen\n",
    "dict.aicontext": "RPQ: retry policy of queues\n",
    "decisions/index.aicontext": "# decisions/ - what was chosen\n\nfile: auth.aicontext | JWT\n",
    "decisions/auth.aicontext": NOTE,
}


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


class Repo:
    """A tended repository, and what is asked about its memory."""

    def __init__(self, daemon: Daemon, root: Path) -> None:
        self.daemon = daemon
        self.root = root
        self.id = ""

    def begin(self, **files: str) -> None:
        self.root.mkdir(parents=True)
        write(self.root, {"src/auth.py": "one\n", "src/old.py": "old\n", **files})
        git(self.root, "init", "-q", "-b", "main")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", "begin")
        self.id = self.daemon.add(self.root)["id"]

    def plant(self, files: dict[str, str | bytes]) -> None:
        write(self.root / "memory", files)
        self.daemon.sync()

    def text(self, path: str) -> str:
        return (self.root / path).read_text()

    def ask(self, route: str = "", status: int = 200, **query: str) -> Any:
        asked = urlencode({"cwd": str(self.root), **query}, errors="surrogateescape")
        return self._answer("GET", f"/v1/memory{route}?{asked}", None, status)

    def post(self, route: str, status: int = 200, **body: Any) -> Any:
        document = {"cwd": str(self.root), **body}
        return self._answer("POST", f"/v1/memory{route}", document, status)

    def save(self, status: int = 200, **body: Any) -> Any:
        said = {"category": "decisions", "topic": "auth", "title": "JWT", "bullets": ["a fact"]}
        return self.post("/save", status, **said | body)

    def _answer(self, method: str, path: str, body: Any, status: int) -> Any:
        got, document = self.daemon.request(method, path, body)
        assert got == status, document
        return document


@pytest.fixture
def repo(tmp_path: Path, daemon: Daemon) -> Iterator[Repo]:
    made = Repo(daemon, tmp_path / "repo")
    made.begin()
    yield made
    daemon.request("DELETE", f"/v1/repos/{made.id}")


def today(days_later: int = 0) -> str:
    return (datetime.now().astimezone().date() + timedelta(days=days_later)).isoformat()


def paths(answer: Any) -> list[str]:
    return [each["path"] for each in answer["files"]]


# -- reading -----------------------------------------------------------------------------------


def test_the_dictionary_is_read_first_then_the_indexes_from_the_root_down(repo: Repo) -> None:
    repo.plant({**TREE, "bugs/deep/clock.aicontext": NOTE})
    repo.post("/sync")

    answer = repo.ask()

    assert paths(answer) == [
        "memory/dict.aicontext",
        "memory/index.aicontext",
        "memory/bugs/index.aicontext",
        "memory/bugs/deep/index.aicontext",
        "memory/decisions/index.aicontext",
    ]
    assert [each["kind"] for each in answer["files"]] == ["dict", *["index"] * 4]
    assert answer["files"][0]["text"] == TREE["dict.aicontext"]
    assert answer["tokens"] == sum(each["tokens"] for each in answer["files"]) > 0


def test_indexes_cost_fewer_tokens_than_the_notes_below_them(repo: Repo) -> None:
    bullets = "".join(f"  - fact number {number} of the matter\n" for number in range(40))
    repo.plant({f"bugs/b{n}.aicontext": f"2026-04-10: bug {n}\n{bullets}" for n in range(5)})
    repo.post("/sync")

    overview, note = repo.ask(level="index"), repo.ask(level="note", path="bugs/b1")

    assert overview["tokens"] < note["tokens"]


@pytest.mark.parametrize("named", ["decisions", "decisions/", "memory/decisions"])
def test_a_path_limits_the_indexes_to_one_category(named: str, repo: Repo) -> None:
    repo.plant({**TREE, "bugs/clock.aicontext": NOTE})

    answer = repo.ask(level="index", path=named)

    assert paths(answer) == ["memory/dict.aicontext", "memory/decisions/index.aicontext"]


@pytest.mark.parametrize(
    "named",
    [
        "decisions/auth",
        "decisions/auth.aicontext",
        "/decisions/auth",
        "memory/decisions/auth",
        "memory/decisions/auth.aicontext",
    ],
)
def test_one_note_comes_after_the_dictionary(named: str, repo: Repo) -> None:
    repo.plant(dict(TREE))

    answer = repo.ask(level="note", path=named)

    assert paths(answer) == ["memory/dict.aicontext", "memory/decisions/auth.aicontext"]
    assert answer["files"][1]["text"] == NOTE


def test_without_a_level_a_directory_goes_before_a_note_of_its_name(repo: Repo) -> None:
    repo.plant({"decisions/auth.aicontext": NOTE, "decisions/auth/jwt.aicontext": NOTE})
    repo.post("/sync")

    category, note = repo.ask(path="decisions/auth"), repo.ask(path="decisions/auth.aicontext")

    assert paths(category) == ["memory/decisions/auth/index.aicontext"]
    assert paths(note) == ["memory/decisions/auth.aicontext"]


def test_a_note_says_whether_the_files_it_rests_on_are_as_they_were(repo: Repo) -> None:
    repo.save(bullets=["files: src/auth.py"])

    before = repo.ask(path="decisions/auth")["files"][-1]
    (repo.root / "src/auth.py").write_text("two\n")
    after = repo.ask(path="decisions/auth")["files"][-1]

    assert (before["verdict"], after["verdict"]) == ("fresh", "stale")
    assert [cause["source"] for cause in after["causes"]] == ["src/auth.py"]


def test_the_text_that_is_shown_is_the_one_that_is_judged(repo: Repo) -> None:
    repo.save(bullets=["files: src/auth.py"])
    (repo.root / "src/auth.py").write_text("two\n")
    repo.save(bullets=["tokens are rotated"])

    now = repo.ask(path="decisions/auth")["files"][-1]
    (repo.root / "src/auth.py").write_text("one\n")
    back = repo.ask(path="decisions/auth")["files"][-1]

    assert "rotated" in now["text"]
    assert now["text"] == back["text"]
    assert (now["verdict"], back["verdict"]) == ("fresh", "stale")


def test_what_is_no_utf8_is_shown_with_its_bytes_and_counted(repo: Repo) -> None:
    repo.plant({"bugs/bad.aicontext": b"2026-04-10: caf\xe9\n  - a\n"})

    note = repo.ask(level="note", path="bugs/bad")["files"][0]

    assert note["text"] == "2026-04-10: caf\udce9\n  - a\n"
    assert note["tokens"] > 0


def test_a_note_that_cannot_be_read_is_told_of(repo: Repo) -> None:
    repo.plant({"bugs/index.aicontext": "", "bugs/large.aicontext": "x" * (1 << 20) + "x"})

    note = repo.ask(path="bugs/large")["files"][0]

    assert (note["text"], note["tokens"]) == ("", 0)
    assert "larger than" in note["problem"]


def test_a_name_that_is_no_utf8_can_be_asked_for(repo: Repo) -> None:
    repo.plant({os.fsdecode(b"bugs/caf\xe9.aicontext"): NOTE})

    note = repo.ask(path=os.fsdecode(b"bugs/caf\xe9"))["files"][0]

    assert note["path"] == os.fsdecode(b"memory/bugs/caf\xe9.aicontext")


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ({"path": "decisions/oauth"}, 404, "decisions/auth"),
        ({"path": "auth"}, 404, "decisions/auth"),
        ({"path": "decisions", "level": "note"}, 404, "near: decisions/auth"),
        ({"path": "decisions/auth", "level": "index"}, 404, "near: decisions"),
        ({"path": "../src"}, 422, "amend memory show"),
        ({"path": ".git/config"}, 422, "amend memory show"),
        ({"path": "/"}, 422, "amend memory show"),
        ({"level": "note"}, 422, "name the note"),
        ({"tree": "notes"}, 404, "there are: memory"),
        ({"path": "x" * 300}, 404, "amend memory show"),
    ],
)
def test_what_cannot_be_shown_is_told_with_what_to_do(
    query: dict[str, str], status: int, said: str, repo: Repo
) -> None:
    repo.plant(dict(TREE))

    problem = repo.ask(status=status, **query)

    assert said in problem["hint"]


@pytest.mark.parametrize("route", ["", "/lint", "/dict"])
def test_where_no_tree_is_the_hint_says_how_to_make_one(route: str, repo: Repo) -> None:
    problem = repo.ask(route, status=404)

    assert problem["hint"] == "`amend memory save` makes one"


@pytest.mark.parametrize("route", ["/sync", "/fix"])
def test_what_writes_makes_no_tree_either(route: str, repo: Repo) -> None:
    repo.post(route, status=404)

    assert not (repo.root / "memory").exists()


def test_a_tree_behind_a_link_is_refused_and_nothing_behind_it_is_shown(
    repo: Repo, tmp_path: Path
) -> None:
    write(tmp_path / "elsewhere", {"index.aicontext": "# secret\n"})
    (repo.root / "memory").symlink_to(tmp_path / "elsewhere")

    problems = [repo.ask(status=403), repo.ask("/lint", status=403), repo.post("/fix", status=403)]

    assert all("symlink" in problem["detail"] for problem in problems)


def test_a_link_in_the_tree_is_not_followed(repo: Repo, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", {"index.aicontext": "# secret\n", "a.aicontext": "secret\n"})
    repo.plant(dict(TREE))
    (repo.root / "memory/other").symlink_to(tmp_path / "elsewhere")
    (repo.root / "memory/decisions/b.aicontext").symlink_to(tmp_path / "elsewhere/a.aicontext")

    answers = [repo.ask(), repo.ask(path="decisions/b"), repo.ask(path="other/a")]

    assert "secret" not in str(answers)
    assert ["symlink" in answer["files"][-1]["problem"] for answer in answers[1:]] == [True, True]


def test_a_linked_worktree_has_the_notes_of_its_own_tree(repo: Repo, tmp_path: Path) -> None:
    git(repo.root, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "other")
    repo.daemon.sync()
    repo.save(bullets=["files: src/auth.py"])

    here = repo.daemon.lookup(repo.root, "decisions/auth")
    there = repo.daemon.lookup(tmp_path / "linked", "decisions/auth")

    assert (here["verdict"], there["verdict"]) == ("fresh", "missing")


# -- saving ------------------------------------------------------------------------------------


def test_a_new_topic_becomes_a_note_that_every_index_above_it_leads_to(repo: Repo) -> None:
    repo.plant({"index.aicontext": "# memory/ - what is known\n"})

    answer = repo.save(
        category="decisions/edge", title="JWT", bullets=["stateless", "- scales"], date="2026-04-10"
    )

    assert repo.text(answer["path"]) == "2026-04-10: JWT\n  - stateless\n  - scales\n"
    assert answer["path"] == "memory/decisions/edge/auth.aicontext"
    assert answer["created"] is True
    assert "dir: edge/" in repo.text("memory/decisions/index.aicontext")
    # Somebody wrote the root's a moment ago: amend waits until it is quiet.
    eventually(lambda: "dir: decisions/" in repo.text("memory/index.aicontext"))
    assert set(INDEXES[:2]) <= set(answer["indexes"]) <= set(INDEXES)
    assert (answer["title"], answer["date"]) == ("JWT", "2026-04-10")
    assert answer["bullets"] == ["stateless", "scales"]
    assert answer["tokens"] > 0


INDEXES = [
    "memory/decisions/edge/index.aicontext",
    "memory/decisions/index.aicontext",
    "memory/index.aicontext",
]


@pytest.mark.parametrize(
    ("category", "indexes"), [("decisions", INDEXES[1:]), ("decisions/edge", INDEXES)]
)
def test_the_first_note_makes_the_tree(category: str, indexes: list[str], repo: Repo) -> None:
    answer = repo.save(category=category)

    assert sorted(answer["indexes"]) == indexes
    assert "dir: decisions/" in repo.text("memory/index.aicontext")


def test_a_known_topic_is_merged_into_one_entry_of_today(repo: Repo) -> None:
    repo.plant(dict(TREE))
    before = today()

    answer = repo.save(
        title="JWT, rotated", bullets=["Sessions are stateless.", "keys are rotated weekly"]
    )

    assert before <= answer["date"] <= today()
    assert answer["created"] is False
    assert answer["bullets"] == ["Sessions are stateless.", "keys are rotated weekly"]
    assert repo.text("memory/decisions/auth.aicontext").count(": ") == 1
    assert "file: auth.aicontext | JWT\n" in repo.text("memory/decisions/index.aicontext")


def test_replaces_drops_what_is_true_no_longer(repo: Repo) -> None:
    repo.plant(dict(TREE))

    answer = repo.save(bullets=["sessions live in Redis"], replaces=["sessions are"])

    assert answer["bullets"] == ["sessions live in Redis"]


def test_terms_of_the_note_that_are_worth_abbreviating_are_suggested(repo: Repo) -> None:
    phrase = "distributed session revocation strategy"
    repo.plant({f"bugs/b{n}.aicontext": f"2026-04-10: {n}\n  - {phrase}\n" for n in range(12)})

    answer = repo.save(bullets=[f"{phrase}, once more"])
    other = repo.save(topic="other", bullets=["nothing of the kind"])

    assert [term["phrase"] for term in answer["suggestions"]] == [phrase]
    assert other["suggestions"] == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"category": "../src"}, "category"),
        ({"category": "Decisions"}, "kebab-case"),
        ({"topic": "index"}, "index.aicontext"),
        ({"bullets": ["two\nlines"]}, "bullets/0"),
        ({"bullets": []}, "bullets"),
        ({"date": "2026-02-30"}, "2026-02-30"),
        ({"date": "today"}, "date"),
        ({"replaces": ["what was never said"]}, "replaces"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_what_cannot_be_saved_is_refused_and_nothing_is_written(
    changes: dict[str, Any], said: str, repo: Repo
) -> None:
    problem = repo.save(status=422, **changes)

    assert said in problem["detail"]
    assert not (repo.root / "memory").exists()


def test_a_secret_is_refused_by_rule_and_never_repeated(repo: Repo) -> None:
    secret = "ghp_" + "Zx9Qw3Er7T" * 3 + "abCD12"

    problem = repo.save(status=422, bullets=[f"the token is {secret}"])

    assert "GitHub token" in problem["detail"]
    assert secret not in str(problem)
    assert not (repo.root / "memory").exists()


def test_a_note_with_conflict_markers_is_not_merged_into(repo: Repo) -> None:
    torn = f"<<<<<<< ours\n{NOTE}=======\n{NOTE}>>>>>>> theirs\n"
    repo.plant({"decisions/auth.aicontext": torn})

    problem = repo.save(status=422)

    assert "memory/decisions/auth.aicontext" in problem["detail"]
    assert repo.text("memory/decisions/auth.aicontext") == torn


def test_notes_are_read_only_as_entries(repo: Repo) -> None:
    repo.plant(dict(TREE))
    route = f"/v1/entries/note/{quote('decisions/auth')}?cwd={quote(str(repo.root))}"

    entry = repo.daemon.get(route)
    put = repo.daemon.request("PUT", route, {"summary": "s", "files": ["src/auth.py"]})
    deleted = repo.daemon.request("DELETE", route)

    assert entry["summary"].startswith("JWT, revoked through Redis\n- sessions are stateless")
    assert (entry["kind"], entry["in_file"]) == ("note", True)
    assert [put[0], deleted[0]] == [422, 422]
    assert "amend memory save" in put[1]["hint"]
    assert repo.text("memory/decisions/auth.aicontext") == NOTE


# -- lint, fix and sync ------------------------------------------------------------------------


def rules(answer: Any) -> set[tuple[str, int, str]]:
    return {(each["path"], each["line"], each["rule"]) for each in answer["findings"]}


def test_lint_names_file_line_and_rule(repo: Repo) -> None:
    repo.plant(
        {
            **TREE,
            "index.aicontext": TREE["index.aicontext"] + "dir: gone/ | never there\n",
            "decisions/auth.aicontext": f"{today(3)}: JWT\n- files: src/old.py\n",
        }
    )
    (repo.root / "src/old.py").unlink()

    found = rules(repo.ask("/lint"))

    note = "memory/decisions/auth.aicontext"
    assert {
        (note, 1, "future-date"),
        (note, 2, "bad-indentation"),
        (note, 2, "gone-path"),
        ("memory/index.aicontext", 4, "dangling-line"),
    } <= found


@pytest.mark.parametrize(
    ("said", "is_gone"),
    [
        ("`src/gone.py` decides", True),
        ("files: lib/gone.py", True),
        ("`src/auth.py` decides", False),
        ("bodies are `application/json`", False),
        ("`asyncio.Queue` and `JWT` and `gone/or/never`", False),
        ("`src/routes` by name alone", False),
    ],
)
def test_only_what_was_meant_as_a_path_can_be_gone(said: str, is_gone: bool, repo: Repo) -> None:
    repo.plant({**TREE, "decisions/auth.aicontext": f"2026-04-10: JWT\n  - {said}\n"})

    found = {rule for _, _, rule in rules(repo.ask("/lint"))}

    assert ("gone-path" in found) is is_gone


def test_a_path_in_backticks_that_was_there_once_is_gone_wherever_it_was(repo: Repo) -> None:
    write(repo.root, {"Makefile": "all:\n", "old/thing": "x\n"})
    repo.save(bullets=["`Makefile` and `old/thing` matter"])
    (repo.root / "Makefile").unlink()
    (repo.root / "old/thing").unlink()
    (repo.root / "old").rmdir()

    gone = [each["message"] for each in repo.ask("/lint")["findings"]]

    assert [any(name in text for text in gone) for name in ("Makefile", "old/thing")] == [True] * 2


def test_what_git_is_told_to_ignore_is_not_missed(repo: Repo) -> None:
    (repo.root / ".gitignore").write_text("draft*\n")
    repo.plant({**TREE, "dict.aicontext": "", "decisions/draft.aicontext": NOTE})

    found, fixed = repo.ask("/lint"), repo.post("/fix")

    assert "draft" not in str(found)
    assert "draft" not in str(fixed)
    assert repo.text("memory/decisions/draft.aicontext") == NOTE


def test_a_tree_that_is_in_order_has_no_finding(repo: Repo) -> None:
    repo.save(bullets=["files: src/auth.py"])
    repo.save(topic="db", title="PostgreSQL", bullets=["it is known here"])

    # The second line of an index comes once the first write of it is a moment old.
    assert eventually(lambda: repo.ask("/lint") == {"findings": []})


def test_fix_mends_what_is_mechanical_and_tells_what_is_left(repo: Repo) -> None:
    crooked = "2026-04-10: JWT\n- one\n- two\n"
    doubled = TREE["decisions/index.aicontext"] + "file: auth.aicontext\n"
    repo.plant({**TREE, "decisions/auth.aicontext": crooked, "decisions/index.aicontext": doubled})
    before = rules(repo.ask("/lint"))

    answer = repo.post("/fix")

    assert {rule for _, _, rule in before} >= {"bad-indentation", "duplicate-line"}
    assert set(answer["written"]) == {
        "memory/decisions/auth.aicontext",
        "memory/decisions/index.aicontext",
    }
    assert repo.text("memory/decisions/auth.aicontext") == "2026-04-10: JWT\n  - one\n  - two\n"
    assert repo.text("memory/decisions/index.aicontext") == TREE["decisions/index.aicontext"]
    assert not any(each["is_fixable"] for each in answer["findings"])
    assert repo.post("/fix")["written"] == []


def test_fix_leaves_a_torn_file_alone(repo: Repo) -> None:
    torn = f"<<<<<<< ours\n{NOTE}=======\n - crooked\n>>>>>>> theirs\n"
    repo.plant({**TREE, "decisions/auth.aicontext": torn})

    left = rules(repo.post("/fix"))

    assert ("memory/decisions/auth.aicontext", 1, "conflict-markers") in left
    assert repo.text("memory/decisions/auth.aicontext") == torn


def test_sync_writes_what_is_out_of_step_and_then_nothing(repo: Repo) -> None:
    write(repo.root / "memory", {"bugs/clock.aicontext": NOTE})

    first, second = repo.post("/sync"), repo.post("/sync")

    # The daemon may have begun by itself.
    assert set(first["written"]) <= {"memory/bugs/index.aicontext", "memory/index.aicontext"}
    assert second == {"written": []}
    assert "file: clock.aicontext | JWT, revoked through Redis\n" in repo.text(
        "memory/bugs/index.aicontext"
    )


def test_in_the_middle_of_a_merge_nothing_is_mended(repo: Repo) -> None:
    git(repo.root, "switch", "-qc", "other")
    (repo.root / "src/auth.py").write_text("theirs\n")
    git(repo.root, "commit", "-qam", "theirs")
    git(repo.root, "switch", "-q", "main")
    (repo.root / "src/auth.py").write_text("ours\n")
    git(repo.root, "commit", "-qam", "ours")
    git(repo.root, "merge", "other", check=False)
    crooked = "2026-04-10: JWT\n - one\n"
    repo.plant({**TREE, "decisions/auth.aicontext": crooked})

    problem = repo.post("/fix", status=403)

    assert "merge" in problem["detail"]
    assert repo.text("memory/decisions/auth.aicontext") == crooked


# -- the dictionary ----------------------------------------------------------------------------


def test_the_dictionary_is_not_recommended_to_a_small_tree(repo: Repo) -> None:
    repo.plant(dict(TREE))

    answer = repo.ask("/dict")

    assert (answer["suggestions"], answer["is_worth_it"]) == ([], False)
    assert answer["reason"]
    assert answer["tokens"] > 0


def test_terms_are_told_with_what_they_save_and_cost_best_first(repo: Repo) -> None:
    texts = ["distributed session revocation strategy", "persistent queue retry configuration"]
    repo.plant(
        {f"bugs/b{n}.aicontext": f"2026-04-10: {n}\n  - {texts[n % 3 > 1]}\n" for n in range(30)}
    )

    answer = repo.ask("/dict")

    found = answer["suggestions"]
    assert [term["phrase"] for term in found] == texts
    assert all(term["net"] == term["saves"] - term["costs"] > 0 for term in found)
    assert [term["uses"] for term in found] == [20, 10]


# -- several trees -----------------------------------------------------------------------------


@pytest.fixture
def several(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """A repository with two trees of its own and one in a sibling."""
    shop, backend = tmp_path / "shop", tmp_path / "backend"
    settings = (
        f'[[repo]]\nroot = "{shop}"\n'
        'memory = ["memory", "docs/notes", "docs/empty", "backend:memory"]\n'
        f'[[repo.sibling]]\nname = "backend"\npath = "../backend"\n'
    )
    for root in (shop, backend):
        write(root, {"a.py": "one\n"})
        git(root, "init", "-q", "-b", "main")
    write(shop / "memory", {"index.aicontext": "", "decisions/auth.aicontext": NOTE})
    write(shop / "docs/notes", {"bugs/clock.aicontext": NOTE})
    write(backend / "memory", {"decisions/db.aicontext": NOTE})
    (shop / "docs/empty").mkdir()
    with Daemon(tmp_path / "daemon", settings) as daemon:
        yield lambda query: daemon.get(f"/v1/memory{query}cwd={quote(str(shop))}")


def test_every_tree_is_shown_and_named_as_it_is_configured(several: Callable[[str], Any]) -> None:
    everything, own = several("?"), several("?tree=docs/notes&path=bugs/clock&")
    note, theirs = several("?path=bugs/clock&"), several("?path=backend:memory/decisions/db&")
    linted, terms = several("/lint?tree=backend:memory&"), several("/dict?")

    assert "memory/index.aicontext" in paths(everything)
    assert all(path.startswith("docs/notes/") for path in paths(own))
    assert paths(note) == ["docs/notes/bugs/clock.aicontext"]
    assert paths(theirs) == ["backend:memory/decisions/db.aicontext"]
    assert all(each["path"].startswith("backend:memory") for each in linted["findings"])
    assert terms["tokens"] > 0
