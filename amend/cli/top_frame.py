"""One picture of `amend top`, as lines that fit: values in, text out, whatever the size.

Never more lines than the screen is high nor wider than it is; what does not fit is counted. Nothing
is told by colour alone, and all that others wrote is cleaned.
"""

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from amend.cli.show import COLOURS, plural, sentence
from amend.cli.show import clean as one_line

if TYPE_CHECKING:
    from amend.cli.top import Seen
    from amend.formats.api import ChangeJson, HookActivity, LatencyJson, RepoJson

_BARS: Final = "▁▂▃▄▅▆▇█"
_BARS_ASCII: Final = ".:-=+*#@"

# Where less fits, what changed is worth more than what was saved.
_HIGH: Final = 18

# Below this there is no room for what is checked out.
_NARROW: Final = 60

# Below this the columns of a repository leave too little of its path to know it by.
_WIDE: Final = 100

# Repositories get a third of what is free, and never so few that none of theirs can be told.
_REPOS_MIN: Final = 3

_MONTH_AND_DAY: Final = "%d %b"


def frame(
    seen: "Seen", width: int, height: int, *, has_keys: bool = True, is_ascii: bool = False
) -> list[Text]:
    """The lines, from the top. `is_ascii`: the terminal has no other characters."""
    head = _head(seen, width)
    foot = [Text(), *_hooks(seen), *_saved(seen, width, is_ascii)]
    if height < _HIGH:
        foot = foot[:1]
    if has_keys:
        foot.append(Text("q ends it", style="dim"))
    repos = seen.status["repos"]
    changes = _changes(seen, width)
    free = height - len(head) - len(foot) - 4  # two headings with a blank line before each
    shown = _cut(
        _repos(repos, width), max(_REPOS_MIN, free // 3, free - len(changes)), "more repository"
    )
    lines = [*head, Text(), _repo_heading(repos, width), *shown]
    lines += [Text(), Text("just changed", style="bold")]
    lines += [*_cut(changes, max(1, free - len(shown)), "older change"), *foot]
    dimmed = seen.trouble is not None
    for number, line in enumerate(lines):
        line.no_wrap = True
        line.truncate(width, overflow="crop" if is_ascii else "ellipsis")
        if dimmed and number >= len(head):
            line.stylize("dim")
    return lines[: max(1, height)]


def clean(text: str) -> str:
    """As `show.clean`, and a byte that is no UTF-8 is one character wide."""
    return one_line(text).encode("utf-8", "replace").decode()


def _cut(groups: list[list[Text]], room: int, noun: str) -> list[Text]:
    """As many of the groups as there is room for, and how many there is none for."""
    lines = [line for group in groups for line in group]
    if len(lines) <= room:
        return lines
    shown: list[Text] = []
    for number, group in enumerate(groups):
        if len(shown) + len(group) >= room:
            left = plural(len(groups) - number, noun)
            return [*shown, Text(f"  and {left}", style="dim")]
        shown += group
    return shown


# -- about the daemon ------------------------------------------------------------------------------


def _head(seen: "Seen", width: int) -> list[Text]:
    status = seen.status
    state = "ready" if status["ready"] else "starting"
    again = "started again, " if seen.restarted else ""
    rss = f"{status['rss_bytes'] / (1 << 20):.0f} MiB"
    now = datetime.fromtimestamp(seen.at_s).strftime("%H:%M:%S")  # noqa: DTZ006 - as on the wall
    if seen.trouble is not None:
        title = Text("amend  ", style="bold").append("no answer", style="red")
        why = Text(clean(seen.trouble.message), style="yellow")
        hint = Text(f"{clean(seen.trouble.hint)}; below is what was known at {now}", style="yellow")
        return [title, *_wrapped(why, width), *_wrapped(hint, width)]
    title = Text(f"amend {clean(status['version'])}  ", style="bold")
    title.append(f"{again}{state}, up {_duration(status['uptime_s'])}, {rss}", style="not bold")
    gap = width - cell_len(title.plain) - len(now)
    lines = [title.append(" " * gap + now, style="not bold") if gap > 1 else title]
    if status["config_error"]:
        lines.append(Text("the newest config is not in force: `amend status` says why", "yellow"))
    return lines


def _wrapped(text: Text, width: int) -> list[Text]:
    from rich.console import Console  # noqa: PLC0415 - only where there is trouble

    return list(text.wrap(Console(width=width), width))[:3]


def _duration(seconds: float) -> str:
    whole = int(seconds)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if whole >= 2 * length:
            return f"{whole // length} {unit}"
    return f"{whole} s"


# -- repositories ----------------------------------------------------------------------------------

_COUNTS: Final = ("fresh", "stale", "unknown")

# "unknown" with room before it; a million entries fit.
_COUNT_WIDTH: Final = 9


def _columns(repos: Sequence["RepoJson"], width: int) -> tuple[int, int, int]:
    """Of a repository's path, what is checked out, and the watch."""
    at, watch = (24, 22) if width >= _WIDE else (14, 0) if width >= _NARROW else (0, 0)
    longest = max((cell_len(_homely(clean(repo["root"]))) for repo in repos), default=0)
    free = width - at - watch - len(_COUNTS) * _COUNT_WIDTH - 2
    return max(12, min(longest, free)), at, watch


def _repo_heading(repos: Sequence["RepoJson"], width: int) -> Text:
    path, at, _ = _columns(repos, width)
    line = set_cell_size("repository", path) + (f"  {set_cell_size('at', at)}" if at else "")
    line += "".join(f"{name:>{_COUNT_WIDTH}}" for name in _COUNTS)
    return Text(line + "  watch" if width >= _WIDE else line, style="bold")


def _repos(repos: Sequence["RepoJson"], width: int) -> list[list[Text]]:
    """Each with what is wrong with it."""
    if not repos:
        return [[Text("no repository yet; `amend add PATH` adds one")]]
    columns = _columns(repos, width)
    return [
        [
            _repo(repo, *columns),
            *(Text(f"  {clean(problem)}", style="yellow") for problem in repo["problems"][:2]),
        ]
        for repo in sorted(repos, key=_is_calm)
    ]


def _is_calm(repo: "RepoJson") -> bool:
    """Those that are not come first: they are what somebody looks for."""
    return not (repo["problems"] or repo["entries"]["stale"] or repo["entries"]["unknown"])


def _repo(repo: "RepoJson", path: int, at: int, watch: int) -> Text:
    place = clean(repo["branch"] or (repo["head"] or "")[:7] or "no git")
    if repo["operation"]:
        place += f" ({clean(repo['operation'])})"
    line = Text(_end_of(_homely(clean(repo["root"])), path))
    if at:
        line.append("  " + _start_of(place, at))
    for name in _COUNTS:
        count = repo["entries"][name]
        line.append(f"{count:>{_COUNT_WIDTH}}", style=COLOURS[name] if count else "dim")
    if watch:
        said = f"{clean(repo['watch']['backend'])} {repo['watch']['armed']}"
        if repo["watch"]["unwatched"]:
            said += f", {len(repo['watch']['unwatched'])} not"
        line.append("  " + said[: watch - 2])
    return line


def _homely(path: str) -> str:
    home = os.environ.get("HOME", "").rstrip("/")
    return "~" + path[len(home) :] if home and f"{path}/".startswith(f"{home}/") else path


def _start_of(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 2) + ".."


def _end_of(text: str, width: int) -> str:
    """Of a path the end says more than the beginning."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    while cell_len(text) > width - 2:
        text = text[1:]
    return set_cell_size(f"..{text}", width)


# -- what changed ----------------------------------------------------------------------------------


def _changes(seen: "Seen", width: int) -> list[list[Text]]:
    changes = seen.activity["changes"]
    if not changes:
        return [[Text("nothing yet; an edit of a cited file shows here within a second")]]
    names = [f"{change['kind']} {clean(change['key'])}" for change in changes]
    names_width = min(max(map(cell_len, names)), max(16, width // 3))
    roots = {change["root"] for change in changes}
    of_width = 0
    if len(roots) > 1 and width >= _WIDE:
        of_width = min(20, max(len(_name(root)) for root in roots))
    return [
        [_change(change, name, seen.at_s, names_width, of_width)]
        for change, name in zip(changes, names, strict=True)
    ]


def _name(root: str) -> str:
    return clean(root.rstrip("/").rpartition("/")[2])


def _change(change: "ChangeJson", name: str, now_s: float, names_width: int, of_width: int) -> Text:
    verdict = "gone" if change["verdict"] == "missing" else clean(change["verdict"])
    line = Text(_time(change["at"], now_s) + "  ")
    line.append(f"{verdict:<9}", style=COLOURS.get(change["verdict"], ""))
    line.append(_start_of(name, names_width) + "  ")
    if of_width:
        line.append(_start_of(_name(change["root"]), of_width) + "  ")
    return line.append(_why(change))


def _why(change: "ChangeJson") -> str:
    why = clean("; ".join(sentence(cause) for cause in change["causes"]))
    if why:
        return why
    match change["previous"], change["verdict"]:
        case "missing", _:
            return "new"
        case _, "missing":
            return "nobody has it any more"
        case _, "fresh":
            return "all it rests on is as it was"
    return ""


def _time(at: str, now_s: float) -> str:
    try:
        local = datetime.fromisoformat(at).astimezone()
    except ValueError:
        return f"{'?':>8}"
    is_today = abs(now_s - local.timestamp()) < 20 * 3600
    return local.strftime("%H:%M:%S" if is_today else f"{_MONTH_AND_DAY}  ")


# -- hooks, and what was saved ---------------------------------------------------------------------


def _hooks(seen: "Seen") -> Iterable[Text]:
    heard = [hook for hook in seen.activity["hooks"] if _count(hook) > 0]
    line = Text("hooks   ", style="bold")
    if not heard:
        yield line.append("none heard yet; `amend hooks install` puts them in", style="not bold")
        return
    line.append(f"{seen.hooks_per_s:.1f} a second now", style="not bold")
    latency = seen.activity["hook_latency"]
    if latency["count"]:
        line.append(f"; {_latency(latency)}", style="not bold")
    yield line
    for hook in heard:
        line = Text(f"  {clean(hook['agent']):<8}{hook['told']} told, {hook['silent']} silent")
        if hook["late"]:
            line.append(f", {hook['late']} too late", style="yellow")
        if hook["bugs"]:
            line.append(f", {hook['bugs']} failed", style="red")
        yield line


def _count(hook: "HookActivity") -> int:
    return hook["told"] + hook["silent"] + hook["late"] + hook["bugs"]


def _latency(latency: "LatencyJson") -> str:
    half, most = latency["p50_s"], latency["p99_s"]
    return f"half {_ms(half)}, 99 % {_ms(most)}"


def _ms(seconds: float | None) -> str:
    """None: beyond the last bound of `core.metrics`."""
    return "in more than 5 s" if seconds is None else f"within {seconds * 1000:g} ms"


def _saved(seen: "Seen", width: int, is_ascii: bool) -> Iterable[Text]:
    points = seen.activity["points"]
    sums = {name: sum(point[name] for point in points) for name in _SUMMED}
    span = _duration(seen.activity["step_s"] * len(points))
    line = Text("saved   ", style="bold")
    line.append(f"{sums['tokens']:,} tokens in {span}: ", style="not bold")
    line.append(
        f"{plural(sums['hits'], 'hit')}, {plural(sums['head_starts'], 'head start')},"
        f" {sums['misses']} missed",
        style="not bold",
    )
    yield line
    yield Text(f"  {'tokens':<8}") + _spark([point["tokens"] for point in points], width, is_ascii)
    line = Text(f"  {'marks':<8}") + _spark([point["marks"] for point in points], width, is_ascii)
    yield line.append(f"  {sums['marks']}, {plural(sums['restores'], 'restore')}")


_SUMMED: Final = ("tokens", "hits", "head_starts", "misses", "marks", "restores")


def _spark(values: Sequence[int], width: int, is_ascii: bool) -> Text:
    """A bar a value, or two values a bar where they do not fit; blank where there was nothing."""
    if len(values) + 30 > width:
        values = [sum(values[n : n + 2]) for n in range(0, len(values), 2)]
    bars = _BARS_ASCII if is_ascii else _BARS
    top = max(values, default=0) or 1
    text = "".join(bars[(value * len(bars) - 1) // top] if value else " " for value in values)
    return Text(text, style="cyan")
