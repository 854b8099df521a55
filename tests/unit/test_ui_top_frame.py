"""A picture of `amend top` fits its screen, whatever is in it."""

from typing import Any, cast
from unicodedata import category

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from amend.cli.client import NoDaemon, Why
from amend.cli.top import Seen
from amend.cli.top_frame import frame
from tests.integration.cli_fakes import change, repo
from tests.integration.test_cli_top import activity, status

TEXTS = st.text(max_size=40)


def seen(repos: list[Any], changes: list[Any], **more: Any) -> Seen:
    return Seen(
        cast(Any, status(repos=repos)), cast(Any, activity(*changes)), 1_796_040_000.0, **more
    )


def text(lines: list[Any]) -> str:
    return "\n".join(line.plain for line in lines)


@settings(max_examples=40)
@given(
    st.integers(1, 250),
    st.integers(1, 70),
    st.lists(st.tuples(TEXTS, TEXTS), max_size=12),
    st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=20),
    st.tuples(st.booleans(), st.booleans()),
)
def test_a_picture_never_exceeds_its_screen(
    width: int, height: int, roots: Any, changes: Any, flags: tuple[bool, bool]
) -> None:
    is_ascii, is_gone = flags
    repos = [repo(root, branch=branch, problems=[branch]) for root, branch in roots]
    rows = [change(root=a, key=b, causes=[{"cause": "edited", "source": c}]) for a, b, c in changes]
    trouble = NoDaemon("/run/api.sock", Why.HUNG) if is_gone else None

    lines = frame(seen(repos, rows, trouble=trouble), width, height, is_ascii=is_ascii)

    assert 1 <= len(lines) <= height
    assert all(cell_len(line.plain) <= width for line in lines)
    assert not {category(character) for line in lines for character in line.plain} & {"Cc", "Cs"}
    assert is_gone or not is_ascii or "…" not in text(lines)


def test_what_does_not_fit_is_counted() -> None:
    repos = [repo(f"/r/{n}") for n in range(40)]
    rows = [change(key=f"k{n}") for n in range(100)]

    shown = text(frame(seen(repos, rows), 80, 24))

    assert "and 37 more repositories" in shown
    assert "and 93 older changes" in shown
    assert "q ends it" in shown


def test_repositories_in_trouble_come_first() -> None:
    calm = repo("/r/calm", entries={"fresh": 9, "stale": 0, "unknown": 0})

    shown = text(frame(seen([calm, repo("/r/stale")], []), 80, 24))

    assert shown.index("/r/stale") < shown.index("/r/calm")


def test_the_end_of_a_long_path_is_kept() -> None:
    shown = text(frame(seen([repo("/home/ada/" + "deep/" * 30 + "shop")], []), 80, 24))

    assert "deep/shop " in shown


def test_nothing_to_show_says_what_to_do() -> None:
    shown = text(frame(seen([], []), 80, 24))

    assert "no repository yet; `amend add PATH` adds one" in shown


def test_latency_beyond_the_scale_is_told_as_such() -> None:
    heard = seen([], [])
    heard.activity["hook_latency"]["p99_s"] = None

    assert "99 % within more than 5 s" not in text(frame(heard, 100, 24))
    assert "99 % in more than 5 s" in text(frame(heard, 100, 24))


def test_a_small_terminal_shows_what_changed_rather_than_what_was_saved() -> None:
    lines = frame(seen([repo("/r/shop")], [change(), change(), change()]), 44, 12)

    shown = [" ".join(line.plain.split()) for line in lines]
    assert "/r/shop 2 1 0" in shown
    assert sum("topic auth" in line for line in shown) == 3
    assert not any("tokens" in line for line in shown)
