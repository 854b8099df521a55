"""The files in docs/monitoring name what a daemon really has, and the script brings it over."""

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from amend.daemon.log_events import EVENTS
from benchmarks.running import Daemon
from tests.integration.test_daemon import make_repo

PLACE = Path(__file__).parents[2] / "docs/monitoring"
SCRIPT = PLACE / "amend-textfile.sh"

# Said by Prometheus, node_exporter and amend-textfile.sh.
OTHERS = {"up", "node_textfile_mtime_seconds", "amend_up"}
LABELS_OF_OTHERS = {"instance", "job", "file"}

SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
MATCHER = re.compile(r'(\w+)\s*(=~|!=|!~|=)\s*"((?:[^"\\]|\\.)*)"')
SELECTOR = re.compile(r"\b((?:amend|node)_\w+|up)\b(?:\{([^}]*)\})?")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One that was asked something, so that every series is there."""
    root = make_repo(tmp_path_factory.mktemp("watched") / "shop")
    with Daemon() as running:
        running.add(root)
        running.put(root, "auth", ["a.py"])
        running.lookup(root, "auth")
        (root / "a.py").write_text("changed\n")
        running.lookup(root, "auth")
        running.request("POST", "/v1/hooks/claude", {"hook_event_name": "SessionStart"})
        yield running


@pytest.fixture(scope="module")
def samples(daemon: Daemon) -> dict[str, dict[str, set[str]]]:
    """Of each series' name: the labels it has, and their values."""
    found: dict[str, dict[str, set[str]]] = {}
    for line in daemon.get("/metrics").splitlines():
        if line.startswith("#"):
            continue
        match = SAMPLE.fullmatch(line)
        assert match is not None, line
        float(match[3])
        labels = found.setdefault(match[1], {})
        for name, _, value in MATCHER.findall(match[2] or ""):
            labels.setdefault(name, set()).add(value)
    return found


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((PLACE / "amend-rules.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((PLACE / "amend-dashboard.json").read_text())
    return document


def expressions() -> list[str]:
    panels = dashboard()["panels"]
    shown = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    asked = [each["query"]["query"] for each in dashboard()["templating"]["list"][1:]]
    return [*(rule["expr"] for rule in rules()), *shown, *asked]


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_names_what_a_daemon_has(
    samples: dict[str, dict[str, set[str]]], expression: str
) -> None:
    selectors = SELECTOR.findall(expression)
    assert selectors
    for name, matchers in selectors:
        if name in OTHERS:
            continue
        assert name in samples, name
        for label, how, value in MATCHER.findall(matchers):
            if label in LABELS_OF_OTHERS:
                continue
            assert label in samples[name], f"{name} has no {label}"
            assert how != "=" or value in samples[name][label], f"{name} is never {label}={value}"
    for words in re.findall(r"\bby \(([^)]*)\)", expression):
        for label in words.replace(" ", "").split(","):
            known = (label in samples[name] for name, _ in selectors if name in samples)
            assert label in LABELS_OF_OTHERS or all(known), label


def test_every_promise_that_is_counted_is_shown(samples: dict[str, Any]) -> None:
    shown = {name for text in expressions() for name, _ in SELECTOR.findall(text)}
    parts = re.compile(r"_(bucket|sum|count)$")
    counted = {parts.sub("", name) for name in samples}

    assert counted - {parts.sub("", name) for name in shown} == {
        "amend_cache_files_learnt_total",  # for tests
        "amend_timeouts_total",  # in amend_rejected_total
    }


def test_alerts_are_explained_with_events_that_there_are() -> None:
    page = (PLACE / "README.md").read_text()
    table = page[page.index("| alert |") :]
    named = [word for row in table.splitlines() for word in re.findall(r"`(\w+_\w+)`", row)]

    explained = set(re.findall(r"\bAmend\w+", table))

    assert explained == {rule["alert"] for rule in rules()}
    assert {word for word in named if not word.startswith("max_")} <= EVENTS.keys()


def test_the_dashboard_is_one_that_grafana_loads() -> None:
    document = dashboard()
    panels = document["panels"]

    assert {"title", "uid", "schemaVersion", "templating", "time"} <= document.keys()
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] != "row":
            assert panel["targets"]
            assert panel["datasource"]["uid"] == "${datasource}"
    taken = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(taken)) == len(taken), "panels overlap"


def test_the_rules_and_their_cases_hold_where_there_is_a_promtool() -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool here")

    for words in (["check", "config", "prometheus.yml"], ["test", "rules", "amend-rules.test.yml"]):
        done = subprocess.run(
            [program, *words], cwd=PLACE, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


# -- the script ------------------------------------------------------------------------------------


def bring_over(env: dict[str, str], directory: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("curl") is None:
        pytest.skip("no curl here")
    return subprocess.run(
        [str(SCRIPT), str(directory)], env=env, capture_output=True, text=True, check=False
    )


def test_the_script_brings_over_what_the_daemon_says(daemon: Daemon, tmp_path: Path) -> None:
    done = bring_over(daemon.env, tmp_path)

    written = (tmp_path / "amend.prom").read_text()
    assert (done.returncode, done.stderr) == (0, "")
    assert os.listdir(tmp_path) == ["amend.prom"]
    assert stat.S_IMODE((tmp_path / "amend.prom").stat().st_mode) == 0o644
    assert 'amend_entries{verdict="stale"} 1\n' in written
    assert written.endswith("amend_up 1\n")
    helps = re.findall(r"^# TYPE (\w+)", written, re.MULTILINE)
    assert len(set(helps)) == len(helps)


def test_without_a_daemon_the_script_says_so_and_nothing_old(
    daemon: Daemon, tmp_path: Path
) -> None:
    bring_over(daemon.env, tmp_path)

    done = bring_over({**daemon.env, "AMEND_RUNTIME_DIR": str(tmp_path)}, tmp_path)

    assert done.returncode == 1
    assert os.listdir(tmp_path) == ["amend.prom"]
    text = (tmp_path / "amend.prom").read_text()
    assert [line for line in text.splitlines() if not line.startswith("#")] == ["amend_up 0"]


def test_edits_and_questions_right_after_them_trip_no_guard(daemon: Daemon, tmp_path: Path) -> None:
    root = make_repo(tmp_path / "busy")
    daemon.add(root)
    daemon.put(root, "auth", ["a.py", "b.py", "src/c.py"])
    texts = {name: (root / name).read_text() for name in ("a.py", "b.py", "src/c.py")}

    verdicts = []
    for n in range(60):
        name = list(texts)[n % len(texts)]
        (root / name).write_text(f"{n}\n")
        verdicts.append(daemon.lookup(root, "auth")["verdict"])
        (root / name).write_text(texts[name])
        verdicts.append(daemon.lookup(root, "auth")["verdict"])

    assert verdicts == ["stale", "fresh"] * 60
    assert daemon.metrics()["amend_watch_unreported_total"] == 0
