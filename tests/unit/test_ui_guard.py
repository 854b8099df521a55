"""Who may see the page: each way in is refused by itself."""

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.cli.ui_guard import Guard, Refusal, Welcome, is_own_peer

PORT = 41234
HOST = ("host", f"127.0.0.1:{PORT}")


def token(guard: Guard) -> str:
    return guard.link.partition("?")[2]


def enter(guard: Guard) -> tuple[str, str]:
    """The cookie header of a browser that has opened the link."""
    welcome = guard.judge("GET", "/", token(guard), [HOST], None)
    assert isinstance(welcome, Welcome)
    return "cookie", welcome.cookie.partition(";")[0]


def refused(guard: Guard, path: str, *headers: tuple[str, str], method: str = "GET") -> str:
    judged = guard.judge(method, path, "", headers, None)
    assert isinstance(judged, Refusal), judged
    return judged.why


def test_the_link_works_once() -> None:
    guard = Guard(PORT)

    first = guard.judge("GET", "/", token(guard), [HOST], None)
    second = guard.judge("GET", "/", token(guard), [HOST], None)

    assert isinstance(first, Welcome)
    assert first.path == guard.base
    assert first.cookie.endswith(f"; Path={guard.base}; HttpOnly; SameSite=Strict")
    assert isinstance(second, Refusal)
    assert "works once" in second.why


def test_a_wrong_token_does_not_use_the_link_up() -> None:
    guard = Guard(PORT)

    wrong = guard.judge("GET", "/", "token=x", [HOST], None)
    twice = guard.judge("GET", "/", f"{token(guard)}&{token(guard)}", [HOST], None)
    right = guard.judge("GET", "/", token(guard), [HOST], None)

    assert isinstance(wrong, Refusal)
    assert isinstance(twice, Refusal)
    assert isinstance(right, Welcome)


def test_the_cookie_opens_what_is_below_the_page() -> None:
    guard = Guard(PORT)
    cookie = enter(guard)

    assert guard.judge("GET", guard.base, "", [HOST, cookie], None) == ""
    assert guard.judge("GET", f"{guard.base}v1/status", "", [HOST, cookie], None) == "v1/status"


def test_without_the_cookie_or_the_path_nothing_is_given() -> None:
    guard = Guard(PORT)
    cookie = enter(guard)

    assert "the browser" in refused(guard, guard.base, HOST)
    assert "the browser" in refused(guard, f"{guard.base}page.js", HOST, ("cookie", "amend=x"))
    assert "the browser" in refused(guard, "/v1/status", HOST, cookie)
    assert "token" in refused(guard, "/", HOST, cookie)


@pytest.mark.parametrize(
    "host", ["evil.example", f"localhost:{PORT}", "127.0.0.1", f"evil.example:{PORT}", ""]
)
def test_a_foreign_host_is_refused(host: str) -> None:
    guard = Guard(PORT)
    cookie = enter(guard)

    assert "another host" in refused(guard, guard.base, ("host", host), cookie)
    assert "another host" in refused(guard, guard.base, HOST, ("host", host), cookie)
    assert "another host" in refused(guard, guard.base, cookie)


@pytest.mark.parametrize(
    "origin", ["null", "https://evil.example", "http://127.0.0.1:1", f"https://127.0.0.1:{PORT}"]
)
def test_a_foreign_origin_is_refused(origin: str) -> None:
    guard = Guard(PORT)
    cookie = enter(guard)

    assert "another page" in refused(guard, guard.base, HOST, cookie, ("origin", origin))


def test_what_another_site_asks_for_is_refused() -> None:
    guard = Guard(PORT)
    cookie = enter(guard)

    for site in ("cross-site", "same-site"):
        header = ("sec-fetch-site", site)
        assert "another site" in refused(guard, guard.base, HOST, cookie, header)


def test_only_reading_is_answered() -> None:
    guard = Guard(PORT)
    cookie = enter(guard)

    for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
        assert "only reads" in refused(guard, guard.base, HOST, cookie, method=method)


@given(st.text(), st.text(), st.text())
def test_no_other_cookie_and_no_other_token_opens(path: str, query: str, cookie: str) -> None:
    guard = Guard(PORT)
    headers = [HOST, ("cookie", cookie)]

    assert isinstance(guard.judge("GET", guard.base + path, query, headers, None), Refusal)
    assert isinstance(guard.judge("GET", "/", query, headers, None), Refusal)


def test_a_process_of_the_same_user_is_let_in() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert is_own_peer(client.getsockname()[1], port)


def test_a_process_of_another_user_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    uid = os.geteuid() + 1
    table.write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
        f"   0: 0100007F:1F90 0100007F:A112 01 00000000:00000000 00:00000000 00000000  {uid} 0 1\n"
    )

    assert not is_own_peer(0x1F90, 0xA112, str(table))
    assert is_own_peer(0x1F91, 0xA112, str(table))


def test_where_nothing_is_known_of_the_peer_the_token_alone_guards(tmp_path: Path) -> None:
    assert is_own_peer(1, 2, str(tmp_path / "none"))
    assert is_own_peer(None, 2)
