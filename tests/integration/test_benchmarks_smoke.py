"""The benchmarks run and judge; what they find is not judged here.

Sizes are tiny, and the figures of a busy machine mean nothing, so no budget is held. The groups
that start many daemons run in `make soak`.
"""

import json
import shutil
import socket
from pathlib import Path

import pytest

from benchmarks import run
from benchmarks.asking import Asker, EchoServer
from benchmarks.measure import Row, figure, percentile, table, times
from benchmarks.sizes import TINY

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@needs_cc
def test_lookups_and_marks_are_measured_and_written_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"

    run.main(["--json", str(figures), "--only", "lookup", "mark"], TINY)

    rows = json.loads(figures.read_text())["rows"]
    assert [row["group"] for row in rows] == ["lookup"] * 5 + ["mark"] * 8
    assert all(row["measured"] > 0 for row in rows)
    assert rows[0]["ratio"] == rows[0]["measured"] / rows[0]["floor"]
    assert "budgets held" in capsys.readouterr().out


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in run.NAMES if name not in ("lookup", "mark")])
def test_every_other_benchmark_gives_figures(
    name: str, tmp_path: Path, git, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = git("cited", {f"file{n}.py": f"number {n}\n" for n in range(5)})
    figures = tmp_path / "figures.json"

    run.main(["--json", str(figures), "--only", name, "--repo", str(repository.root)], TINY)

    assert "skipped" not in capsys.readouterr().out
    assert all(row["measured"] is not None for row in json.loads(figures.read_text())["rows"])


@needs_cc
def test_the_c_server_answers_pipelined_and_split_requests() -> None:
    with EchoServer(ANSWER) as server, socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(server.socket))
        client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nab")
        client.sendall(b"cdGET / HTTP/1.1\r\n\r\n")
        received = b""
        while len(received) < 2 * len(ANSWER):
            received += client.recv(4096)

    assert received == ANSWER + ANSWER


@needs_cc
def test_an_asker_keeps_its_connection_and_takes_exactly_one_answer() -> None:
    with EchoServer(ANSWER) as server:
        asker = Asker(server.socket)
        answers = [asker.ask(b"GET / HTTP/1.1\r\n\r\n") for _ in range(3)]
        asker.close()

    assert answers == [ANSWER] * 3


def test_a_budget_is_on_the_ratio_or_on_the_figure() -> None:
    assert Row("a", 8.0, "ms", 2.0, ratio_max=4.0).within is True
    assert Row("a", 8.1, "ms", 2.0, ratio_max=4.0).within is False
    assert Row("a", 5.1, "ms", value_max=5.0).within is False
    assert Row("a", 5.1, "ms").within is None
    assert Row("a", None, "ms", value_max=5.0).within is None


def test_the_table_says_which_budget_is_missed_and_what_was_skipped() -> None:
    lines = table(
        [
            Row("quick", 1.0, "ms", 1000.0, ratio_max=1 / 250),
            Row("slow", 7.5, "ms", value_max=5.0, note="because"),
            Row("none", None, "", note="no compiler"),
        ]
    ).splitlines()

    assert lines[2].split("  ")[-1] == "ok"
    assert "1/1,000" in lines[2]
    assert lines[3].endswith("OVER")
    assert lines[4] == "    because"
    assert lines[5].endswith("skipped")


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([5, 1, 4, 2, 3], 0.5) == 3
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile([7], 0.99) == 7


def test_figures_keep_three_digits() -> None:
    assert [figure(0.04567), figure(12.345), figure(1234.5), figure(3)] == [
        "0.0457",
        "12.3",
        "1,234",
        "3",
    ]
    assert [times(1.0667), times(1 / 1797.6), times(0)] == ["1.07 ×", "1/1,798", "0 ×"]
