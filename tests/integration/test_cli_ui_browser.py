"""`amend ui` in headless Chromium: what a person sees, and what a hostile page cannot do.

Needs `chromium` on PATH (Debian: `apt install chromium`) and playwright from PyPI. Pictures of the
page go to the directory that UI_SCREENSHOTS names, or to pytest's own temporary one.
"""

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.running import Daemon, git
from tests.integration.test_cli_ui import Ui, make_repo, ui

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright"
)
expect = playwright.expect
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt install chromium"),
]

WAIT_MS = 10_000

# What runs in a page that takes stored text for HTML.
HOSTILE = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("UI_SCREENSHOTS")
    path = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "daemon") as running:
        yield running


@pytest.fixture
def repo(tmp_path: Path, daemon: Daemon) -> Path:
    root = make_repo(tmp_path / "shop")
    (root / HOSTILE.replace("/", "")).write_text("x")
    daemon.add(root)
    daemon.put(root, "auth", ["a.py"], summary="login is in a.py")
    daemon.put(root, "prices", ["b.py"], summary="prices are integers")
    daemon.put(root, HOSTILE[:200], ["b.py", HOSTILE.replace("/", "")], summary=HOSTILE)
    note = {"category": "decisions", "topic": "auth", "title": "JWT", "bullets": [HOSTILE]}
    daemon.post("/v1/memory/save", {"cwd": str(root), **note})
    return root


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        arguments = ["--host-resolver-rules=MAP evil.example 127.0.0.1"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # which Chromium wants of root
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def running(daemon: Daemon) -> Iterator[Ui]:
    with ui(daemon.env) as command:
        yield command


@pytest.fixture
def open_page(browser: Any, running: Ui) -> Iterator[Open]:
    """Opens the link, and afterwards checks that nothing went wrong unseen."""
    wrong: list[str] = []
    context = browser.new_context(viewport={"width": 1600, "height": 1000})
    context.set_default_timeout(WAIT_MS)

    def opened() -> Any:
        page = context.new_page()
        page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append("a dialog"))
        page.on(
            "request",
            lambda r: r.url.startswith(f"http://127.0.0.1:{running.port}/") or wrong.append(r.url),
        )
        page.goto(running.link)
        page.wait_for_selector("#link[data-state=live]")
        return page

    yield opened
    context.close()
    # What was not there for a while is told as such by the browser, too.
    assert [each for each in wrong if "Failed to load resource" not in each] == []


def row(page: Any, key: str) -> Any:
    return page.locator("tr.entry", has=page.get_by_role("button", name=key, exact=True))


def test_a_mark_and_its_restore_appear_without_a_reload(open_page: Open, repo: Path) -> None:
    page = open_page()
    page.evaluate("window.isSamePage = true")
    row(page, "auth").locator(".verdict.fresh").wait_for()

    (repo / "a.py").write_text("edited\n")
    row(page, "auth").locator(".verdict.stale").wait_for()
    page.locator("#changes li", has_text="edited, not committed").first.wait_for()
    stale = row(page, "auth").inner_text()
    said = page.locator("#said").text_content()
    counts = page.locator("[data-count=stale]").inner_text()
    git(repo, "checkout", "-q", "a.py")
    row(page, "auth").locator(".verdict.fresh").wait_for()
    page.get_by_text("1 entry marked stale, 1 restored").wait_for()

    assert "a.py: edited, not committed" in stale
    assert said.startswith("topic auth is stale: a.py")
    assert counts == "1"
    assert page.evaluate("window.isSamePage") is True


def test_stored_text_is_shown_and_never_run(open_page: Open, repo: Path) -> None:
    page = open_page()
    hostile = row(page, HOSTILE[:200])
    hostile.get_by_role("button").click()
    page.locator(".tree").get_by_role("button", name="auth.aicontext").click()
    page.locator("#note pre", has_text=HOSTILE).wait_for()
    (repo / HOSTILE.replace("/", "")).write_text("edited")
    hostile.locator(".verdict.stale").wait_for()

    assert HOSTILE in hostile.locator(".summary").inner_text()
    assert HOSTILE.replace("/", "") in hostile.locator(".files .against").inner_text()
    assert page.title() == "amend"
    assert page.locator("main img, main script").count() == 0


def test_entries_are_filtered_and_found_by_keyboard_alone(open_page: Open, repo: Path) -> None:
    page = open_page()
    (repo / "b.py").write_text("edited\n")
    row(page, "prices").locator(".verdict.stale").wait_for()
    keys = page.locator("tr.entry .key")

    page.keyboard.press("/")
    page.keyboard.type("integers")
    expect(page.locator("tr.entry")).to_have_count(1)
    found = keys.all_inner_texts()
    page.keyboard.press("Escape")
    expect(page.locator("tr.entry")).to_have_count(4)
    page.get_by_role("radio", name=re.compile("all")).focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("tr.entry")).to_have_count(2)
    stale = page.locator("tr.entry .verdict").all_inner_texts()
    row(page, "prices").get_by_role("button").focus()
    page.keyboard.press("Enter")
    button = row(page, "prices").get_by_role("button")

    assert found == ["prices"]
    assert [text.split()[-1] for text in stale] == ["stale", "stale"]
    assert button.get_attribute("aria-expanded") == "true"
    assert button.evaluate("each => each === document.activeElement")
    assert "1 version" in row(page, "prices").inner_text()


def test_focus_stays_where_it_is_while_the_page_changes(open_page: Open, repo: Path) -> None:
    page = open_page()
    row(page, "prices").get_by_role("button").focus()

    (repo / "a.py").write_text("edited\n")
    row(page, "auth").locator(".verdict.stale").wait_for()

    focused = page.evaluate("document.activeElement.textContent")
    assert focused == "prices"


def test_the_page_can_be_heard(open_page: Open, repo: Path) -> None:
    """By roles and names, as a screen reader goes through it."""
    page = open_page()

    for landmark in ("banner", "main", "contentinfo", "search"):
        assert page.get_by_role(landmark).count() == 1, landmark
    regions = ("Over time", "Entries", "Just changed", "Memory trees", "Daemon and hooks")
    for name in regions:
        assert page.get_by_role("region", name=name).count() == 1, name
    for name in ("Verdict", "Entry", "What it says, and what speaks against it", "Rests on"):
        assert page.get_by_role("columnheader", name=name, exact=True).count() == 1, name
    assert page.get_by_role("img", name=re.compile("Marks and restores: ")).count() == 1
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, input, select')].filter((each) =>"
        " !(each.textContent.trim() || each.labels?.[0]?.textContent.trim())).length"
    )
    assert nameless == 0
    assert page.get_by_role("status").count() == 1
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.get_by_role("row").count() == 5  # also where it looks like no table


def test_a_daemon_that_goes_and_comes_back_is_told(
    open_page: Open, daemon: Daemon, repo: Path, screenshots: Path
) -> None:
    page = open_page()
    row(page, "auth").wait_for()

    daemon.stop()
    page.get_by_role("alert").wait_for()
    gone = page.get_by_role("alert").inner_text()
    page.screenshot(path=screenshots / "daemon-gone.png")
    (repo / "a.py").write_text("edited while it was away\n")
    daemon.start()
    row(page, "auth").locator(".verdict.stale").wait_for()
    page.wait_for_selector("#banner", state="hidden")

    assert "No daemon answers." in gone
    assert "Start it with amend run" in gone
    assert "What you see is as of" in gone
    assert page.locator("#link-text").inner_text() == "live"


def test_a_page_whose_command_has_ended_says_so(open_page: Open, running: Ui, repo: Path) -> None:
    page = open_page()

    running.end()
    page.get_by_role("alert").wait_for()

    assert "The page’s own command has ended." in page.get_by_role("alert").inner_text()


def test_where_there_is_nothing_the_page_says_what_to_do(
    open_page: Open, daemon: Daemon, tmp_path: Path, screenshots: Path
) -> None:
    page = open_page()
    page.get_by_text("No repository yet.").wait_for()
    page.screenshot(path=screenshots / "no-repository.png")

    daemon.add(make_repo(tmp_path / "empty"))
    page.get_by_text("No entries here yet.").wait_for()
    page.get_by_text("No memory tree here.").wait_for()
    page.screenshot(path=screenshots / "no-entries.png")


# -- who may see it --------------------------------------------------------------------------------


def test_the_link_opens_once_and_the_cookie_is_for_the_page_alone(
    open_page: Open, browser: Any, running: Ui
) -> None:
    page = open_page()
    (cookie,) = page.context.cookies()
    other = browser.new_context().new_page()

    second = other.goto(running.link)
    without = other.goto(page.url)

    assert (second.status, without.status) == (403, 403)
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert cookie["path"] == page.url.removeprefix(f"http://127.0.0.1:{running.port}")
    assert page.evaluate("document.cookie") == ""
    assert "token" not in page.url
    page.reload()
    page.wait_for_selector("#link[data-state=live]")
    other.context.close()


def test_a_name_that_resolves_here_is_no_way_in(open_page: Open, running: Ui) -> None:
    page = open_page()
    rebound = page.context.new_page()

    answer = rebound.goto(page.url.replace("127.0.0.1", "evil.example"))

    assert answer.status == 403
    assert "another host" in rebound.inner_text("body")


def test_another_local_server_gets_neither_the_cookie_nor_an_answer(
    open_page: Open, running: Ui
) -> None:
    page = open_page()
    cookies: list[str | None] = []

    class Evil(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cookies.append(self.headers["cookie"])
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Evil) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        evil = page.context.new_page()
        evil.goto(f"http://127.0.0.1:{server.server_port}/")
        # Even if it knew the path.
        read = evil.evaluate(
            "(url) => fetch(url, {credentials: 'include'}).then((a) => a.text(), () => 'refused')",
            f"{page.url}v1/status",
        )
        framed = evil.evaluate(
            "(url) => new Promise((done) => { const frame = document.createElement('iframe');"
            " frame.onload = () => { try { done(frame.contentDocument?.title ?? 'refused') }"
            " catch { done('refused') } }; frame.src = url; document.body.append(frame) })",
            page.url,
        )
        server.shutdown()

    assert (read, framed) == ("refused", "refused")
    assert set(cookies) == {None}


# -- how it looks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1600])
def test_the_page_fits_wide_and_narrow_light_and_dark(
    open_page: Open, repo: Path, screenshots: Path, width: int, scheme: str
) -> None:
    page = open_page()
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    (repo / "a.py").write_text("edited\n")
    row(page, "auth").locator(".verdict.stale").wait_for()
    row(page, "auth").get_by_role("button").click()
    page.get_by_text("1 entry marked stale, 0 restored").wait_for()
    page.screenshot(path=screenshots / f"{width}-{scheme}.png", full_page=True)

    paper, ink = page.evaluate(
        "['backgroundColor', 'color'].map((name) => getComputedStyle(document.body)[name])"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (brightness(paper) > brightness(ink)) == (scheme == "light")
    assert contrast_min(page) >= 4.5


def brightness(colour: str) -> int:
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3])


def contrast_min(page: Any) -> float:
    """The least contrast of any text that is shown, by WCAG 2's formula."""
    least: float = page.evaluate(
        """() => {
          const parts = (c) => c.match(/[\\d.]+/g).map(Number);
          const light = (c) => parts(c).slice(0, 3).map((v) => v / 255)
            .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((all, v, n) => all + v * [0.2126, 0.7152, 0.0722][n], 0);
          const behind = (e) => { for (; e; e = e.parentElement) {
            const c = getComputedStyle(e).backgroundColor;
            if (parts(c)[3] !== 0) return c; } return "rgb(255,255,255)"; };
          let least = 99;
          for (const e of document.querySelectorAll("body *")) {
            const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
            if (!own || e.closest("noscript, .unseen, [hidden], svg, option")) continue;
            const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
            least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
          }
          return least; }"""
    )
    return least
