"""Nothing outside a root is read, nothing but a file is waited for, and no descriptor stays."""

import errno
import os
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amend.core.model import ABSENT, CauseKind, NoPrint
from amend.edge.files import beneath, syscalls
from amend.edge.files.beneath import LINKS_MAX, TooLarge, list_names, open_file, read_file
from amend.edge.files.look import look_at_file, look_at_glob, look_at_listing
from amend.errors import Refused

SECRET = b"not for amend\n"


@pytest.fixture(autouse=True)
def _no_descriptor_is_left_open() -> Iterator[None]:
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    yield
    if before:
        assert len(os.listdir("/proc/self/fd")) <= len(before)


@pytest.fixture(params=["one call", "by hand"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root beside a secret, read with `openat2` and without."""
    if request.param == "by hand":
        monkeypatch.setattr(syscalls, "_SYSCALL", None)
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(SECRET)
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "f").write_bytes(b"inside\n")
    return root


def read(root: Path, path: bytes) -> bytes:
    return read_file(os.fsencode(root), path, bytes_max=1000)


def fingerprint(root: Path, path: bytes) -> object:
    look = look_at_file(os.fsencode(root), path, now_ns=0)
    assert look is not None
    return look.fingerprint


def test_a_file_in_a_directory_is_read(root: Path) -> None:
    assert read(root, b"a/b/f") == b"inside\n"


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("link", "a/b/f"),
        ("link", "./a//b/./f"),
        ("a/link", "b/f"),
        ("a/b/link", "../../a/b/f"),
        ("a/b/link", "../b/f"),
        ("link", "{root}/a/b/f"),
    ],
)
def test_a_symlink_that_stays_beneath_is_followed(root: Path, link: str, target: str) -> None:
    (root / link).symlink_to(target.format(root=root))

    assert read(root, link.encode()) == b"inside\n"


def test_an_absolute_symlink_may_name_the_root_by_its_real_path(root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root)
    (root / "link").symlink_to(root / "a" / "b" / "f")

    assert read(alias, b"link") == b"inside\n"


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("link", "../secret", b"link"),
        ("a/link", "../../secret", b"a/link"),
        ("link", "a/../../secret", b"link"),
        ("link", "{outside}/secret", b"link"),
        ("link", "{root}/../secret", b"link"),
        ("link", "{root}2/secret", b"link"),
        ("link", "/dev/zero", b"link"),
        ("link", "..", b"link/secret"),
        ("link", "{outside}", b"link/secret"),
        ("a/b/link", "../../../outside", b"a/b/link/secret"),
        ("link", "/proc/self/root/etc/passwd", b"link"),
    ],
)
def test_a_symlink_that_leads_out_is_not_followed(
    root: Path, link: str, target: str, path: bytes
) -> None:
    (root / link).symlink_to(target.format(root=root, outside=root.parent / "outside"))

    with pytest.raises(Refused, match="leads out of the root"):
        read(root, path)

    found = fingerprint(root, path)
    assert isinstance(found, NoPrint)
    assert found.reason is CauseKind.UNREADABLE
    assert "leads out" in found.detail


def test_dots_in_a_link_go_back_to_the_directory_that_was_walked_through(root: Path) -> None:
    (root / "x" / "y").mkdir(parents=True)
    (root / "x" / "f").write_bytes(b"of x\n")
    (root / "a" / "y").symlink_to("../x/y")
    (root / "link").symlink_to("a/y/../f")

    assert read(root, b"link") == b"of x\n"


def test_a_cited_path_with_dots_cannot_climb_out(root: Path) -> None:
    with pytest.raises(Refused, match="leads out"):
        read(root, b"a/../../secret")


@pytest.mark.parametrize("loop", [{"x": "x"}, {"x": "y", "y": "x"}, {"x": "x/x"}])
def test_a_loop_of_symlinks_ends(root: Path, loop: dict[str, str]) -> None:
    for link, target in loop.items():
        (root / link).symlink_to(target)

    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        read(root, b"x")

    assert "loop" in str(fingerprint(root, b"x"))


def test_as_many_symlinks_are_followed_as_the_kernel_follows(root: Path) -> None:
    (root / "l0").symlink_to("a/b/f")
    for n in range(1, LINKS_MAX + 1):
        (root / f"l{n}").symlink_to(f"l{n - 1}")

    assert read(root, b"l%d" % (LINKS_MAX - 1)) == b"inside\n"
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        read(root, b"l%d" % LINKS_MAX)


@pytest.mark.parametrize("path", [b".git/config", b"a/.git/config", b".GIT/config", b"link/config"])
def test_nothing_in_a_git_directory_is_read(root: Path, path: bytes) -> None:
    for directory in (".git", "a/.git", ".GIT"):
        (root / directory).mkdir(exist_ok=True)
        (root / directory / "config").write_bytes(SECRET)
    (root / "link").symlink_to(".git")

    with pytest.raises(Refused, match="git directory"):
        read(root, path)

    assert isinstance(fingerprint(root, path), NoPrint)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(path.parent)  # the path may be longer than a socket's name can be
        try:
            bound.bind(path.name)
        finally:
            os.chdir(here)


def _device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_fifo, "a FIFO"),
        (_socket, "a socket"),
        (_device, "a device"),
        (Path.mkdir, "a directory"),
    ],
)
def test_what_is_no_file_is_refused_at_once(
    root: Path, make: Callable[[Path], None], words: str
) -> None:
    make(root / "odd")

    with pytest.raises(Refused, match=words):
        read(root, b"odd")

    found = fingerprint(root, b"odd")
    assert isinstance(found, NoPrint)
    assert words in found.detail


def test_a_sparse_file_of_100_mib_is_too_large_to_hash_and_to_read(root: Path) -> None:
    with open(root / "sparse", "wb") as file:
        file.truncate(100 << 20)

    with pytest.raises(TooLarge):
        read(root, b"sparse")

    found = fingerprint(root, b"sparse")
    assert isinstance(found, NoPrint)
    assert found.reason is CauseKind.TOO_LARGE


def test_a_name_that_is_no_utf8_is_read_and_listed(root: Path) -> None:
    name = b"\xff\xfe caf\xe9"
    with open(os.fsencode(root) + b"/a/" + name, "wb") as file:
        file.write(b"bytes\n")

    listing = look_at_listing(os.fsencode(root), b"a", now_ns=0).fingerprint
    matches, _ = look_at_glob(os.fsencode(root), b"a/*", now_ns=0)

    assert read(root, b"a/" + name) == b"bytes\n"
    assert listing.names == b"b/\0" + name  # type: ignore[union-attr]
    assert matches.fingerprint.names == b"a/" + name  # type: ignore[union-attr]


@pytest.mark.parametrize("path", [b"a\0b", b"\0", b"a/b/f\0.txt"])
def test_a_nul_in_a_path_never_names_a_shorter_one(root: Path, path: bytes) -> None:
    with pytest.raises(Refused, match="NUL"):
        read(root, path)

    assert isinstance(fingerprint(root, path), NoPrint)
    assert isinstance(look_at_listing(os.fsencode(root), path, now_ns=0).fingerprint, NoPrint)
    assert isinstance(look_at_glob(os.fsencode(root), path, now_ns=0)[0].fingerprint, NoPrint)


@pytest.mark.parametrize("path", [b"nothing", b"nothing/f", b"a/b/f/g", b"dangling"])
def test_what_is_not_there_is_absent(root: Path, path: bytes) -> None:
    (root / "dangling").symlink_to("a/nothing")

    assert fingerprint(root, path) is ABSENT


def test_a_name_too_long_to_exist_is_unreadable_and_no_crash(root: Path) -> None:
    assert isinstance(fingerprint(root, b"n" * 300), NoPrint)
    assert isinstance(fingerprint(root, b"n/" * 3000), NoPrint)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody without permission")
def test_what_may_not_be_read_is_unreadable() -> None:
    directory = Path(tempfile.mkdtemp())
    try:
        directory.chmod(0o755)
        (directory / "closed").mkdir(0o700)
        (directory / "closed" / "f").write_bytes(SECRET)
        (directory / "f").write_bytes(SECRET)
        (directory / "f").chmod(0o000)

        said = _as_nobody(lambda: [repr(fingerprint(directory, p)) for p in (b"f", b"closed/f")])
    finally:
        shutil.rmtree(directory)

    assert said.count("permission denied") == 2


def _as_nobody(action: Callable[[], list[str]]) -> str:
    """What the action says in a process without privileges."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(writable, "\n".join(action()).encode())
        finally:
            os._exit(0)
    os.close(writable)
    with open(readable, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


def test_swapping_a_directory_for_a_symlink_out_never_shows_the_outside(root: Path) -> None:
    (root / "swap").mkdir()
    (root / "swap" / "secret").write_bytes(b"inside\n")
    (root / "trap").symlink_to("../outside")
    done = threading.Event()

    def swap() -> None:
        dir_fd = os.open(root, os.O_RDONLY)
        while not done.is_set():
            syscalls.exchange(dir_fd, b"swap", b"trap")
        os.close(dir_fd)

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    try:
        for _ in range(1500):
            try:
                seen.add(read(root, b"swap/secret"))
            except (Refused, OSError):
                seen.add(b"")
    finally:
        done.set()
        thread.join()

    assert SECRET not in seen


def test_a_directory_of_too_many_names_is_too_large(root: Path) -> None:
    fd = os.open(root / "a", os.O_RDONLY)
    try:
        (root / "a" / "second").touch()
        with pytest.raises(TooLarge):
            beneath.entries_of(fd, names_max=1)
    finally:
        os.close(fd)


def test_a_listing_for_a_search_is_empty_where_there_is_nothing_to_list(root: Path) -> None:
    (root / "out").symlink_to("../outside")

    found = [list_names(os.fsencode(root), path) for path in (b"a", b"nothing", b"out", b"a/b/f")]

    assert found == [[b"b/"], [], [], []]


def test_an_open_file_is_of_the_bytes_and_the_stat_it_came_with(root: Path) -> None:
    fd, found = open_file(os.fsencode(root), b"a/b/f")
    try:
        assert os.read(fd, 100) == b"inside\n"
        assert found.st_size == 7
    finally:
        os.close(fd)
