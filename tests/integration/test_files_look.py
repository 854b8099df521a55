"""A look is true of one moment, and its stat shows the next change."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amend.core.model import (
    ABSENT,
    CauseKind,
    FilePrint,
    Fingerprint,
    ListingPrint,
    NoPrint,
)
from amend.edge.files import look as look_module
from amend.edge.files.beneath import entries_of
from amend.edge.files.look import (
    RACY_COARSE_NS,
    RACY_NS,
    Look,
    look_at_absence,
    look_at_file,
    look_at_glob,
    look_at_listing,
    stat_key,
)

LONG_AFTER_NS = 3_600_000_000_000


@pytest.fixture(autouse=True)
def _no_descriptor_is_left_open() -> Iterator[None]:
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    yield
    if before:
        assert len(os.listdir("/proc/self/fd")) <= len(before)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    for path in ("src/a.py", "src/b.ts", "src/deep/c.py", "top.py", "src/.hidden.py"):
        (tmp_path / path).write_text(f"{path}\n")
    return tmp_path


def later_ns() -> int:
    return time.time_ns() + LONG_AFTER_NS


def look(root: Path, path: bytes, *, now_ns: int | None = None) -> Look:
    found = look_at_file(os.fsencode(root), path, now_ns=later_ns() if now_ns is None else now_ns)
    assert found is not None
    return found


def listed(root: Path, path: bytes) -> Fingerprint:
    return look_at_listing(os.fsencode(root), path, now_ns=later_ns()).fingerprint


def globbed(root: Path, pattern: bytes) -> tuple[list[bytes], tuple[bytes, ...]]:
    found, directories = look_at_glob(os.fsencode(root), pattern, now_ns=later_ns())
    assert isinstance(found.fingerprint, ListingPrint)
    names = found.fingerprint.names
    return names.split(b"\0") if names else [], directories


def wait_for_the_clock_of_files(root: Path) -> None:
    """Until the kernel's clock for files has moved: it steps every few milliseconds."""
    scratch = root / "scratch"
    scratch.touch()
    start_ns = scratch.stat().st_mtime_ns
    deadline_s = time.monotonic() + 5.0
    while scratch.stat().st_mtime_ns == start_ns:
        assert time.monotonic() < deadline_s
        scratch.touch()


@pytest.mark.parametrize("content", [b"", b"one line\n", b"\0\xff" * 700_000])
def test_a_print_is_the_blob_that_git_makes_of_the_bytes(root: Path, content: bytes) -> None:
    (root / "file").write_bytes(content)
    (root / "file").chmod(0o755)

    found = look(root, b"file").fingerprint

    command = ["git", "hash-object", "--no-filters", "file"]
    blob = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout.strip()
    assert found == FilePrint(bytes.fromhex(blob.decode()), 0o100755, len(content))


def test_the_stat_of_a_look_is_the_stat_key_of_its_path(root: Path) -> None:
    name = os.fsencode(root)

    looks = {
        b"src/a.py": look(root, b"src/a.py"),
        b"nothing": look(root, b"nothing"),
        b"src": look_at_listing(name, b"src", now_ns=0),
        b"top.py": look_at_absence(name, b"top.py"),
    }

    assert {path: found.stat for path, found in looks.items()} == {
        path: stat_key(name, path) for path in looks
    }
    assert looks[b"nothing"] == Look(ABSENT, b"", False)


def test_every_kind_of_change_shows_in_the_stat(root: Path) -> None:
    file, name = root / "src" / "a.py", os.fsencode(root)
    content, mtime_ns = file.read_bytes(), file.stat().st_mtime_ns
    keys = [stat_key(name, b"src/a.py")]

    def replace() -> None:
        (root / "new").write_bytes(content)
        (root / "new").rename(file)

    changes = [
        lambda: file.write_bytes(content + b"more"),
        lambda: file.chmod(0o755),
        lambda: os.utime(file, ns=(0, mtime_ns)),  # sets the mtime back: the ctime shows it
        replace,
        file.unlink,
    ]
    for change in changes:
        time.sleep(
            0.012
        )  # the coarsest clock of a kernel: what is tested is the key, not the clock
        change()
        keys.append(stat_key(name, b"src/a.py"))

    assert len(set(keys)) == len(keys)


def test_a_stat_that_cannot_be_taken_is_neither_absent_nor_a_file(root: Path) -> None:
    (root / "loop").symlink_to("loop")

    keys = [stat_key(os.fsencode(root), path) for path in (b"loop", b"a\0b", b"n" * 300)]

    assert all(key.startswith(b"!") for key in keys)


def test_a_file_that_changed_just_now_is_racy_and_an_old_one_is_not(root: Path) -> None:
    changed_ns = (root / "top.py").stat().st_ctime_ns

    racy = [
        look(root, b"top.py", now_ns=changed_ns + after_ns).racy
        for after_ns in (-RACY_NS, 0, RACY_NS - 1, RACY_NS, LONG_AFTER_NS)
    ]
    coarse = look_at_file(
        os.fsencode(root), b"top.py", now_ns=changed_ns + RACY_NS, racy_ns=RACY_COARSE_NS
    )

    assert racy == [True, True, True, False, False]
    assert coarse is not None
    assert coarse.racy


def test_setting_the_mtime_back_does_not_hide_that_it_changed_just_now(root: Path) -> None:
    os.utime(root / "top.py", ns=(0, 0))
    changed_ns = (root / "top.py").stat().st_ctime_ns

    assert look(root, b"top.py", now_ns=changed_ns + 1).racy


def test_a_large_file_is_left_to_a_worker(root: Path) -> None:
    name = os.fsencode(root)

    inline = look_at_file(name, b"top.py", now_ns=0, inline_bytes_max=3)
    worker = look_at_file(name, b"top.py", now_ns=0)

    assert inline is None
    assert worker is not None
    assert isinstance(worker.fingerprint, FilePrint)


def test_a_file_that_never_holds_still_is_unreadable_and_not_guessed_at(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, read = root / "top.py", os.read

    def read_and_change(fd: int, size: int) -> bytes:
        piece = read(fd, size)
        file.write_bytes(file.read_bytes() + b"!")
        return piece

    monkeypatch.setattr(os, "read", read_and_change)

    found = look(root, b"top.py")

    monkeypatch.undo()
    assert found.fingerprint == NoPrint(CauseKind.UNREADABLE, "keeps changing")
    assert found.racy


def test_a_file_that_changed_once_while_it_was_read_is_read_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, read = root / "top.py", os.read
    rest = iter([b"two\n"])

    def read_and_change(fd: int, size: int) -> bytes:
        piece = read(fd, size)
        for content in rest:
            (root / "new").write_bytes(content)
            (root / "new").rename(file)
        return piece

    monkeypatch.setattr(os, "read", read_and_change)

    found = look(root, b"top.py")

    monkeypatch.undo()
    assert found.fingerprint == look(root, b"top.py").fingerprint
    assert found.stat == stat_key(os.fsencode(root), b"top.py")


def test_a_look_names_the_symlinks_it_passed_and_where_they_lead(root: Path) -> None:
    (root / "link").symlink_to("src")
    (root / "src" / "again.py").symlink_to("deep/c.py")

    found = look(root, b"link/again.py")
    dangling = look(root, b"link/nothing.py")
    straight = look(root, b"src/a.py")

    assert found.links == (b"link", b"src/again.py", b"src/deep/c.py")
    assert dangling.fingerprint is ABSENT
    assert dangling.links == (b"link", b"src/nothing.py")
    assert straight.links == ()


def test_an_absence_ends_when_anything_is_there(root: Path) -> None:
    name = os.fsencode(root)

    found = [look_at_absence(name, path).fingerprint for path in (b"no", b"src/a.py", b"src")]

    assert found[0] is ABSENT
    assert ABSENT not in found[1:]
    assert not any(isinstance(fingerprint, NoPrint) for fingerprint in found)


def test_a_listing_is_the_sorted_names_without_git_and_amends_own_files(root: Path) -> None:
    (root / ".git").mkdir()
    (root / "link").symlink_to("src")
    (root / ".cache.json.amend-new-0123").touch()

    assert listed(root, b"") == ListingPrint(b"link\0src/\0top.py")
    assert listed(root, b"src") == ListingPrint(b".hidden.py\0a.py\0b.ts\0deep/")
    assert listed(root, b"link") == listed(root, b"src")
    assert listed(root, b"src/deep/none") is ABSENT
    assert listed(root, b"top.py") is ABSENT


def test_a_directory_of_too_many_names_has_no_print(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_module, "entries_of", lambda fd: entries_of(fd, 2))

    found = listed(root, b"src")

    assert isinstance(found, NoPrint)
    assert found.reason is CauseKind.TOO_LARGE


@pytest.mark.parametrize(
    ("pattern", "matches", "directories"),
    [
        (b"*.py", [b"top.py"], (b"",)),
        (b"src/*.py", [b"src/a.py"], (b"src",)),
        (b"src/?.*", [b"src/a.py", b"src/b.ts"], (b"src",)),
        (b"src/.*", [b"src/.hidden.py"], (b"src",)),
        (b"**/*.py", [b"src/a.py", b"src/deep/c.py", b"top.py"], (b"", b"src", b"src/deep")),
        (b"src/**", [b"src/a.py", b"src/b.ts", b"src/deep/c.py"], (b"src", b"src/deep")),
        (b"src/**/c.py", [b"src/deep/c.py"], (b"src", b"src/deep")),
        (b"*/*/*.py", [b"src/deep/c.py"], (b"", b"src", b"src/deep")),
        (b"src/a.py", [b"src/a.py"], (b"src",)),
        (b"none/yet/*.py", [], (b"none/yet",)),
        (b"src/*", [b"src/a.py", b"src/b.ts"], (b"src",)),
        (b"src/[ab].py", [], (b"src",)),
    ],
)
def test_a_glob_matches_files_and_names_the_directories_that_decide(
    root: Path, pattern: bytes, matches: list[bytes], directories: tuple[bytes, ...]
) -> None:
    assert globbed(root, pattern) == (matches, directories)


def test_a_glob_takes_brackets_as_they_are(root: Path) -> None:
    (root / "src" / "[id].ts").touch()

    assert globbed(root, b"src/[id].*")[0] == [b"src/[id].ts"]


def test_a_glob_descends_no_symlink_but_its_literal_way_follows_one(root: Path) -> None:
    (root / "link").symlink_to("src")

    assert globbed(root, b"*/a.py")[0] == [b"src/a.py"]
    assert globbed(root, b"link/*.py") == ([b"link/a.py"], (b"link",))


def test_a_glob_never_looks_into_git_directories(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").touch()

    found, _ = look_at_glob(os.fsencode(root), b".git/*", now_ns=0)

    assert isinstance(found.fingerprint, NoPrint)
    assert globbed(root, b".*/config")[0] == []


def test_the_stat_of_a_glob_shows_every_name_that_comes_or_goes(root: Path) -> None:
    name = os.fsencode(root)

    def stat_of_directories() -> bytes:
        return b"".join(stat_key(name, directory) for directory in directories)

    found, directories = look_at_glob(name, b"src/**/*.py", now_ns=later_ns())
    same = stat_of_directories()
    (root / "src" / "deep" / "new.py").touch()
    after = stat_of_directories()

    assert found.stat == same
    assert after != same


def test_a_glob_that_reaches_too_far_has_no_print(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_module, "GLOB_DIRECTORIES_MAX", 2)

    found, directories = look_at_glob(os.fsencode(root), b"**", now_ns=0)

    assert isinstance(found.fingerprint, NoPrint)
    assert found.fingerprint.reason is CauseKind.TOO_LARGE
    assert directories == (b"",)


def test_a_pattern_of_many_stars_takes_no_time(root: Path) -> None:
    (root / ("a" * 250)).touch()

    started_s = time.perf_counter()
    matches, _ = globbed(root, b"*a" * 100 + b"b")

    assert matches == []
    assert time.perf_counter() - started_s < 1.0


NAMES = st.sampled_from(["a", "b", "ab", ".a", "ba"])
PARTS = st.sampled_from(["*", "**", "?", "a", "a*", "*b", ".*", "?b", "*a*"])


@settings(max_examples=150, deadline=None)
@given(
    files=st.lists(st.lists(NAMES, min_size=1, max_size=4), max_size=12),
    pattern=st.lists(PARTS, min_size=1, max_size=4),
)
def test_a_glob_matches_what_a_naive_matcher_matches(
    files: list[list[str]], pattern: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for parts in files:
            path = root.joinpath(*parts)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            except OSError:  # a file where the path needs a directory
                continue
        present = [p.relative_to(root).parts for p in root.rglob("*") if p.is_file()]

        matches, _ = globbed(root, "/".join(pattern).encode())

    expected = sorted("/".join(parts).encode() for parts in present if _path(parts, pattern))
    assert matches == expected


def _path(parts: tuple[str, ...], pattern: list[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(parts) and not any(part.startswith(".") for part in parts)
        here = _path(parts, pattern[1:])
        return here or (bool(parts) and parts[0][0] != "." and _path(parts[1:], pattern))
    return bool(parts) and _name(parts[0], pattern[0]) and _path(parts[1:], pattern[1:])


def _name(name: str, pattern: str) -> bool:
    return (not name.startswith(".") or pattern.startswith(".")) and _letters(name, pattern)


def _letters(name: str, pattern: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return _letters(name, pattern[1:]) or (bool(name) and _letters(name[1:], pattern))
    return bool(name) and pattern[0] in ("?", name[0]) and _letters(name[1:], pattern[1:])
