"""`amend ui` over HTTP: a real daemon, the real command, and requests of every kind."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from amend.cli.main import main
from amend.cli.ui_server import _FILES, listen
from benchmarks.running import Daemon, git
from tests.integration.serve_fakes import until

# A cold start on a busy machine.
WAIT_S = 20.0

HOSTILE = '<img src=x onerror="document.title=1">'


@dataclass
class Ui:
    """The command while it runs, and what a browser knows that has opened its link."""

    process: subprocess.Popen[str]
    link: str
    base: str = ""
    cookie: str = ""

    @property
    def port(self) -> int:
        port = urlsplit(self.link).port
        assert port is not None
        return port

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host=True)
            for name, value in {"host": f"127.0.0.1:{self.port}", **headers}.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()

    def enter(self) -> None:
        parts = urlsplit(self.link)
        status, headers, _ = self.ask(f"{parts.path}?{parts.query}")
        assert status == 303
        self.base, self.cookie = headers["location"], headers["set-cookie"]

    def get(self, path: str, **headers: str) -> tuple[int, Any, str]:
        """Below the page, with its cookie."""
        return self.ask(self.base + path, cookie=self.cookie.partition(";")[0], **headers)

    def json(self, path: str) -> Any:
        status, _, body = self.get(path)
        assert status == 200, body
        return json.loads(body)

    @contextlib.contextmanager
    def events(self) -> Iterator[Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        with contextlib.closing(connection):
            cookie = {"cookie": self.cookie.partition(";")[0]}
            connection.request("GET", f"{self.base}v1/events", headers=cookie)
            yield connection.getresponse()

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(WAIT_S)


@contextlib.contextmanager
def ui(env: Mapping[str, str]) -> Iterator[Ui]:
    command = [sys.executable, "-m", "amend.cli.main", "ui", "--no-browser"]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield Ui(process, process.stdout.readline().strip())
        finally:
            process.kill()


def make_repo(root: Path) -> Path:
    root.mkdir(parents=True)
    for name in ("a.py", "b.py"):
        (root / name).write_text(f"{name} as committed\n")
    (root / ".gitignore").write_text(".agent-cache.json\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "begin")
    return root


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


@pytest.fixture(scope="module")
def repo(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_repo(tmp_path_factory.mktemp("ui") / "shop")
    daemon.add(root)
    daemon.put(root, "auth", ["a.py"])
    daemon.put(root, HOSTILE, ["b.py"], summary=HOSTILE)
    return root


@pytest.fixture(scope="module")
def page(daemon: Daemon) -> Iterator[Ui]:
    with ui(daemon.env) as running:
        running.enter()
        yield running


# -- who may see it --------------------------------------------------------------------------------


def test_the_link_is_on_loopback_and_opens_once(daemon: Daemon) -> None:
    with ui(daemon.env) as running:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", running.link)
        running.enter()
        parts = urlsplit(running.link)

        again, _, text = running.ask(f"/?{parts.query}")

        assert again == 403
        assert "works once" in text


def test_the_server_listens_on_loopback_alone() -> None:
    with listen(0) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["", "page.js", "v1/status", "v1/entries", "v1/events"])
def test_without_the_cookie_nothing_is_given(page: Ui, path: str) -> None:
    bare = page.ask(page.base + path)
    forged = page.ask(page.base + path, cookie="amend=x")
    elsewhere = page.ask(f"/{path}", cookie=page.cookie.partition(";")[0])

    assert {bare[0], forged[0], elsewhere[0]} == {403}
    assert "shop" not in bare[2] + forged[2] + elsewhere[2]


@pytest.mark.parametrize(
    "header",
    [
        {"host": "evil.example"},
        {"host": "localhost"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_a_foreign_host_or_origin_is_refused_even_with_the_cookie(
    page: Ui, header: dict[str, str]
) -> None:
    status, _, body = page.get("v1/status", **header)

    assert status == 403
    assert body.startswith("amend: ")


def test_the_page_only_reads(page: Ui, daemon: Daemon, repo: Path) -> None:
    cookie = page.cookie.partition(";")[0]
    target = f"{page.base}v1/entries/topic/auth?cwd={quote(str(repo))}"

    deleted = page.ask(target, "DELETE", cookie=cookie)
    put = page.ask(target, "PUT", cookie=cookie)

    assert (deleted[0], put[0]) == (405, 405)
    assert "auth" in daemon.entries(repo)


@pytest.mark.parametrize(
    "path",
    [
        "v1/repos",
        "v1/sync",
        "v1/changes",
        "metrics",
        "openapi.json",
        "v1/entries/topic/../../repos",
        "v1/entries/topic/a%0d%0ax: y",
        "v1/hello/",
        "../v1/status",
        "page.html",
        "__init__.py",
    ],
)
def test_what_the_page_has_no_need_of_is_not_there(page: Ui, path: str) -> None:
    with contextlib.suppress(http.client.InvalidURL):
        assert page.get(path)[0] in (400, 404)


# -- what it is made of ----------------------------------------------------------------------------


def test_every_file_is_served_with_a_strict_policy(page: Ui) -> None:
    for path, (_, kind) in _FILES.items():
        status, headers, body = page.get(path)

        assert (status, headers["content-type"]) == (200, kind)
        assert body
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


def texts() -> dict[str, str]:
    folder = resources.files("amend.ui")
    return {name: folder.joinpath(name).read_text() for name, _ in _FILES.values()}


def test_the_page_asks_nobody_else_and_has_nothing_inline() -> None:
    html = texts()["page.html"]

    addresses = [
        address
        for text in texts().values()
        for address in re.findall(r"https?://[^\s\"'`)]+", text)
    ]
    assert set(addresses) == {"http://www.w3.org/2000/svg"}  # a name, which nobody fetches
    assert re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", html) is None


def test_stored_text_never_becomes_html() -> None:
    for name, text in texts().items():
        if name.endswith(".js"):
            assert not re.search(
                r"(inner|outer)HTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
                r"|DOMParser|srcdoc|createContextualFragment|javascript:",
                text,
            ), name


def test_all_that_the_files_refer_to_is_served() -> None:
    wanted = set(re.findall(r"(?:src|href)=\"([^#\"]+)\"", texts()["page.html"]))
    for name, text in texts().items():
        if name.endswith(".js"):
            wanted |= set(re.findall(r"from \"\./([^\"]+)\"", text))

    assert wanted <= set(_FILES)


# -- what it tells ---------------------------------------------------------------------------------


def test_the_daemons_answers_come_through_as_they_are(page: Ui, repo: Path) -> None:
    cwd = quote(str(repo))

    entries = page.json(f"v1/entries?cwd={cwd}")["entries"]
    one = page.json(f"v1/entries/topic/{quote(HOSTILE, safe='')}?cwd={cwd}")
    activity = page.json(f"v1/activity?cwd={cwd}&since=2026-01-01T00:00:00Z")
    status = page.json("v1/status")

    assert {entry["key"] for entry in entries} == {"auth", HOSTILE}
    assert one["summary"] == HOSTILE
    assert {change["key"] for change in activity["changes"]} == {"auth", HOSTILE}
    assert [each["root"] for each in status["repos"]] == [str(repo)]


def test_a_problem_comes_through_with_its_hint(page: Ui) -> None:
    status, headers, body = page.get("v1/entries?cwd=/nowhere")

    assert (status, headers["content-type"]) == (404, "application/problem+json")
    assert "hint" in json.loads(body)


def test_a_path_that_is_no_utf_8_comes_through(page: Ui, daemon: Daemon, tmp_path: Path) -> None:
    root = make_repo(tmp_path / os.fsdecode(b"caf\xe9"))
    added = daemon.post("/v1/repos", {"root": str(root)})

    cwd = quote(os.fsencode(str(root)))
    answer = page.json(f"v1/entries?cwd={cwd}")

    assert answer["entries"] == []
    daemon.request("DELETE", f"/v1/repos/{added['id']}")


def test_a_change_comes_through_as_it_happens(page: Ui, daemon: Daemon, repo: Path) -> None:
    with page.events() as stream:
        stream.readline()  # the comment that it begins with: now it listens
        (repo / "a.py").write_text("edited\n")
        data = b""
        while not data.startswith(b"data: "):
            data = stream.readline()
    git(repo, "checkout", "-q", "a.py")

    change = json.loads(data.removeprefix(b"data: "))
    assert (change["key"], change["verdict"]) == ("auth", "stale")


async def test_a_page_that_is_closed_leaves_no_stream_behind(page: Ui, daemon: Daemon) -> None:
    daemon.get("/healthz")  # one connection is this test's own
    before = daemon.metrics()["amend_connections"]
    for _ in range(5):
        with page.events() as stream:
            stream.readline()

    await until(lambda: daemon.metrics()["amend_connections"] <= before)


# -- when there is no daemon -----------------------------------------------------------------------


def test_without_a_daemon_ui_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["ui", "--no-browser"])

    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert "amend: error: no daemon answers at" in err
    assert "amend: hint: start it with `amend run`" in err


def test_a_daemon_that_has_gone_is_a_problem_and_comes_back(tmp_path: Path) -> None:
    with Daemon(tmp_path / "d") as daemon, ui(daemon.env) as running:
        running.enter()
        with running.events() as stream:
            stream.readline()
            daemon.stop()
            assert stream.read().strip() == b""  # ends, and does not hang
        gone, _, body = running.get("v1/hello")
        no_stream, _, _ = running.get("v1/events")
        daemon.start()
        back, _, _ = running.get("v1/hello")

        assert (gone, no_stream, back) == (503, 503, 200)
        assert "amend run" in json.loads(body)["hint"]


def test_ctrl_c_ends_it_while_a_page_is_open(daemon: Daemon) -> None:
    with ui(daemon.env) as running:
        running.enter()
        with running.events() as stream:
            stream.readline()
            code = running.end()

        assert code == 130
        assert running.process.stderr is not None
        assert "Traceback" not in running.process.stderr.read()


def test_a_port_that_is_taken_is_named(
    daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMEND_RUNTIME_DIR", daemon.env["AMEND_RUNTIME_DIR"])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = main(["ui", "--no-browser", "--port", str(port)])

    assert code == 1
    assert f"port {port} of 127.0.0.1 cannot be used" in capsys.readouterr().err
