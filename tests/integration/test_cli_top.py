"""`amend top` as a person sees it: a program in a terminal of a certain size, and keys."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from amend.cli.main import main
from tests.integration.cli_fakes import Fake, change, fake_daemon, repo

# A cold start on a busy machine; only a program that shows nothing meets it.
WAIT_S = 20.0

SMALL, LARGE = (80, 24), (200, 50)


class Screen:
    """What a terminal shows of the bytes that a program writes. Raises `ValueError` for a control
    sequence that it does not know, so that none goes by unnoticed."""

    _CONTROL = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])")

    def __init__(self, width: int, height: int) -> None:
        self.is_alternate = False
        self.has_cursor = True
        self.colours: set[int] = set()
        self.resize(width, height)

    def resize(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._clear()

    def _clear(self) -> None:
        self._rows = [[" "] * self.width for _ in range(self.height)]
        self._row = self._column = 0

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._rows]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            found = self._CONTROL.match(text, at)
            if found is not None:
                self._obey(*found.groups())
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    def _put(self, character: str) -> None:
        match character:
            case "\r":
                self._column = 0
            case "\n":
                self._row += 1
                if self._row == self.height:
                    self._rows = [*self._rows[1:], [" "] * self.width]
                    self._row -= 1
            case _ if character.isprintable():
                if self._column == self.width:
                    if self.is_alternate:
                        raise ValueError(f"wider than {self.width}: {self.lines[self._row]}")
                    self._put("\r")
                    self._put("\n")
                self._rows[self._row][self._column] = character
                self._column += 1
            case _:
                raise ValueError(f"unknown: {character!r}")

    def _obey(self, private: str, numbers: str, what: str) -> None:
        match private, numbers, what:
            case "?", "1049", "h" | "l":
                self.is_alternate = what == "h"
                self._clear()
            case "?", "25", "h" | "l":
                self.has_cursor = what == "h"
            case "", _, "m":
                self.colours |= {int(n) for n in numbers.split(";") if n} & {*range(30, 50)}
            case "", "", "H":
                self._row = self._column = 0
            case "", "2", "J":
                self._rows = [[" "] * self.width for _ in range(self.height)]
            case "", "2", "K":
                self._rows[self._row] = [" "] * self.width
            case "", "" | "1", "A":
                self._row = max(0, self._row - 1)
            case _:
                raise ValueError(f"unknown: {private}{numbers}{what}")


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Top:
    """`amend top` in a pseudo-terminal."""

    def __init__(self, width: int, height: int, **env: str) -> None:
        self.screen = Screen(width, height)
        self.data = b""
        self._master, self._slave = pty.openpty()
        self._size(width, height)
        self.before = termios.tcgetattr(self._slave)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "amend.cli.main", "top"],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - Ctrl-C reaches whoever leads the session
            env={**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1", **env},
        )

    def _size(self, width: int, height: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def resize(self, width: int, height: int) -> None:
        """Nothing is shown until the program has drawn again."""
        self.screen.resize(width, height)
        self._size(width, height)

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def until(self, condition: Callable[[str], Any]) -> str:
        """The screen's text, once it is as wanted and nothing more is on its way."""
        until_s = time.monotonic() + WAIT_S
        while True:
            ready, _, _ = select.select([self._master], [], [], 0.05)
            if ready:
                piece = os.read(self._master, 1 << 16)
                self.data += piece
                self.screen.feed(piece.decode())
            elif condition(self.screen.text):
                return self.screen.text
            assert time.monotonic() < until_s, f"never shown:\n{self.screen.text}"

    def end(self) -> int:
        """The exit code; what was written until then is on the screen."""
        code = self.process.wait(WAIT_S)
        self.until(lambda _: True)
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for fd in (self._master, self._slave):
            os.close(fd)

    @property
    def is_as_before(self) -> bool:
        now = termios.tcgetattr(self._slave)
        return now == self.before and self.screen.has_cursor and not self.screen.is_alternate


@contextlib.contextmanager
def top(size: tuple[int, int], **env: str) -> Iterator[Top]:
    made = Top(*size, **env)
    try:
        yield made
    finally:
        made.close()


def status(clock: str = "c:1:2", **changes: Any) -> dict[str, Any]:
    entries = {"fresh": 12, "stale": 3, "unknown": 1}
    repos = [
        repo("/home/ada/src/shop", entries=entries, problems=["the cache file is no JSON"]),
        repo("/home/ada/src/backend", branch="a-branch-with-a-rather-long-name"),
    ]
    return {
        "ready": True,
        "clock": clock,
        "repos": repos,
        "rss_bytes": 50 << 20,
        "uptime_s": 7300.0,
        "version": "0.1.0",
        "config": None,
        "config_error": None,
        **changes,
    }


def activity(*changed: dict[str, Any], told: int = 12) -> dict[str, Any]:
    names = ("marks", "restores", "hits", "head_starts", "shown", "stale", "misses", "tokens")
    points = [
        {"at": "2026-11-30T12:00:00Z", **{name: n * (name == "tokens") for name in names}}
        for n in range(48)
    ]
    points[-1] |= {"hits": 2, "head_starts": 1, "misses": 4, "marks": 5, "restores": 3}
    return {
        "clock": "c:1:2",
        "at": "2026-11-30T12:00:00Z",
        "since": "2026-11-29T12:00:00Z",
        "step_s": 1800,
        "points": points,
        "changes": list(changed),
        "hooks": [{"agent": "claude", "told": told, "silent": 30, "late": 1, "bugs": 0}],
        "hook_latency": {"count": 43, "p50_s": 0.0005, "p99_s": 0.005},
        "lookup_latency": {"count": 0, "p50_s": None, "p99_s": None},
        "trees": [],
    }


def serve(fake: Fake, clock: str = "c:1:2", *changed: dict[str, Any], **status_has: Any) -> None:
    fake.answers["GET /v1/status"] = (200, status(clock, **status_has))
    fake.answers["GET /v1/activity"] = (200, activity(*changed))


HOSTILE = change(key="evil\x1b[2J\x1b]0;owned\x07\u202e", clock="c:1:3")


def test_top_follows_changes_the_terminal_and_the_daemon() -> None:
    with top(SMALL) as shown:
        with fake_daemon() as fake:
            serve(fake)
            first = shown.until(lambda text: "q ends it" in text)
            serve(fake, "c:1:3", HOSTILE, change())
            changed = shown.until(lambda text: "evil" in text)
            shown.resize(*LARGE)
            large = shown.until(lambda text: "inotify" in text and "q ends it" in text)
        gone = shown.until(lambda text: "no answer" in text)
        with fake_daemon() as fake:
            serve(fake, "c:2:0", uptime_s=3.0)
            back = shown.until(lambda text: "started again" in text)
        shown.type(b"q")
        code = shown.end()

        assert (code, shown.is_as_before) == (0, True)
    assert [re.sub(r"\s+", " ", line) for line in first.splitlines()[2:6]] == [
        "repository at fresh stale unknown",
        "/home/ada/src/shop main 12 3 1",
        " the cache file is no JSON",
        "/home/ada/src/backend a-branch-wit.. 2 1 0",
    ]
    assert re.match(r"amend 0.1.0  ready, up 2 h, 50 MiB +\d\d:\d\d:\d\d\n", first)
    assert "nothing yet; an edit of a cited file shows here" in first
    assert "claude  12 told, 30 silent, 1 too late" in first
    assert "half within 0.5 ms, 99 % within 5 ms" in first
    assert "saved   1,128 tokens in 24 h: 2 hits, 1 head start, 4 missed" in first
    assert re.search(r"marks .*5, 3 restores", first)
    assert re.search(r"stale +topic auth +src/auth.ts: edited, not committed", changed)
    assert re.search(r"a-branch-with-a-rather\.\. +2 +1 +0  inotify 9", large)
    assert re.search(r"stale +topic auth +src/auth.ts: edited, not committed", large)
    assert (
        re.sub(r"\s+", " ", gone).count("start it with `amend run`; below is what was known") == 1
    )
    assert "/home/ada/src/shop" in gone
    assert "started again, ready, up 3 s" in back
    assert "no answer" not in back


def test_ctrl_c_leaves_the_terminal_as_it_was_and_no_colour_is_no_loss() -> None:
    with fake_daemon() as fake, top(SMALL, NO_COLOR="1") as shown:
        serve(fake, "c:1:2", change())
        text = shown.until(lambda text: "q ends it" in text)
        shown.type(b"\x03")
        code = shown.end()

        assert (code, shown.is_as_before) == (130, True)
    assert re.search(r"fresh +stale +unknown", text)
    assert "stale    topic auth" in text
    assert shown.screen.colours == set()


def test_being_ended_leaves_the_terminal_as_it_was() -> None:
    with fake_daemon() as fake, top(SMALL) as shown:
        serve(fake)
        shown.until(lambda text: "q ends it" in text)
        shown.process.terminate()
        code = shown.end()

        assert (code, shown.is_as_before) == (0, True)
    assert shown.screen.colours >= {32, 33}


def test_a_terminal_that_cannot_be_redrawn_gets_one_picture_and_is_told_why() -> None:
    with fake_daemon() as fake, top(SMALL, TERM="dumb") as shown:
        serve(fake, "c:1:2", change())
        code = shown.end()

    assert code == 0
    assert b"\x1b" not in shown.data
    assert b"this terminal cannot be redrawn (TERM=dumb); this is one picture of now" in shown.data
    assert b"stale    topic auth" in shown.data
    assert b"q ends it" not in shown.data


def test_a_pipe_gets_one_picture(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with fake_daemon() as fake:
        serve(fake, "c:1:2", HOSTILE, change())
        code = main(["top", "--once"])

    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "topic evil[2J]0;owned" in out
    assert max(map(len, out.splitlines())) <= 100


def test_without_a_daemon_top_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["top"])

    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert "amend: error: no daemon answers at" in err
    assert "amend: hint: start it with `amend run`" in err
