"""What `amend top` and `amend ui` show of the past: changes, uses of entries, hooks, trees.

An answer is bounded whatever has happened: a fixed number of points in time and of changes. The
store's history is read in a worker through a connection of its own, so that no question waits.
"""

import asyncio
import json
import re
import sqlite3
from collections import Counter as Counted
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from amend.core.metrics import Histogram
from amend.core.model import Kind, path_text
from amend.daemon.tending import Tending
from amend.daemon.tree_showing import trees_named
from amend.daemon.worktree import Worktree
from amend.edge.serve.hook_exchange import Tally
from amend.edge.serve.hot import LOOKUP
from amend.edge.store_hooks import FORGET_AFTER, Happened, Past, Use
from amend.errors import RequestInvalid
from amend.formats import api
from amend.formats.times import parse_time, rfc3339

# Half an hour each over a day; narrow enough a plot for a phone, and half of that for 80 columns.
POINTS: Final = 48

# Two screens full of the largest terminal that `amend top` is tested with.
CHANGES_SHOWN_MAX: Final = 100

# The loop makes so many of its own life's anew, at 2 µs each and for no longer than a lookup may
# wait; older ones are in the store.
CHANGES_READ_MAX: Final = 300

DEFAULT_SPAN: Final = timedelta(days=1)

# A point is never shorter: the store's times are looked at by the second.
_STEP_S_MIN: Final = 1

_BOUND: Final = re.compile(r'[{,]le="([^"]*)"')

_Turns = Mapping[int, tuple[int, int]]
_Uses = Mapping[tuple[int, str], tuple[int, int]]


def since_of(text: str | None, now: datetime) -> datetime:
    """What is asked for, no longer ago than anything is remembered. Raises `RequestInvalid`."""
    if text is None:
        return now - DEFAULT_SPAN
    since = parse_time(text)
    if since is None:
        raise RequestInvalid(
            f"since is {text!a}, not an ISO 8601 time", hint="leave it out for the last day"
        )
    if since >= now:
        raise RequestInvalid(f"since is {text!a}, which is to come", hint="name a time in the past")
    return max(since, now - FORGET_AFTER)


async def report(
    tending: Tending,
    worktree: Worktree | None,
    *,
    since: datetime,
    now: datetime,
    tallies: Mapping[str, Tally],
    requests: Histogram,
    exchanges: Histogram,
) -> api.ActivityAnswer:
    """Of `worktree`, or of all. `requests`: seconds by method, route and status; `exchanges`: of
    hooks, by agent."""
    step_s = max(_STEP_S_MIN, -int((since - now).total_seconds() // POINTS))
    begin = now - timedelta(seconds=step_s * POINTS)
    repo = worktree.id if worktree is not None else None
    lately = _lately(tending, repo)  # before the store is read: what is in both is told once
    clock = tending.changes.clock if tending.changes is not None else ""
    roots = {each.id: path_text(each.root) for each in tending.worktrees.values()}
    earlier, turns, uses = await asyncio.to_thread(
        _read, tending.store.path, repo, begin, step_s, roots
    )
    hooks, lookups = latency(exchanges), latency(requests, f'route="{LOOKUP}"')
    return {
        "clock": clock,
        "at": rfc3339(now),
        "since": rfc3339(begin),
        "step_s": step_s,
        "points": [_point(n, begin, step_s, turns, uses) for n in range(POINTS)],
        "changes": _changes(lately, earlier),
        "hooks": [_hook(agent, tally) for agent, tally in sorted(tallies.items())],
        "hook_latency": hooks,
        "lookup_latency": lookups,
        "trees": [
            tree
            for each in ([worktree] if worktree is not None else tending.worktrees.values())
            for tree in _trees(each)
        ],
    }


def _lately(tending: Tending, repo: str | None) -> list[api.ChangeJson]:
    """The last changes of this daemon's life, newest first."""
    changes = tending.changes
    if changes is None:
        return []
    first = max(0, changes.number - CHANGES_READ_MAX)
    found = changes.since(f"c:{changes.instance}:{first}") or []
    return [change for change in reversed(found) if repo in (None, change["repo"])]


def _read(
    path: str, repo: str | None, begin: datetime, step_s: int, roots: Mapping[str, str]
) -> tuple[Sequence[api.ChangeJson], _Turns, _Uses]:
    """Nothing where the store is in memory, or is just being made or moved aside."""
    try:
        with Past(path) as past:
            return (
                [_stored(each, roots) for each in past.changes(repo, CHANGES_SHOWN_MAX)],
                past.turns(repo, begin, step_s, POINTS),
                past.uses(repo, begin, step_s, POINTS),
            )
    except sqlite3.Error:
        return (), {}, {}


def _point(
    number: int, begin: datetime, step_s: int, turns: _Turns, uses: _Uses
) -> api.ActivityPoint:
    marks, restores = turns.get(number, (0, 0))
    used = {use: uses.get((number, use.value), (0, 0)) for use in Use}
    return {
        "at": rfc3339(begin + timedelta(seconds=number * step_s)),
        "marks": marks,
        "restores": restores,
        "hits": used[Use.HIT][0],
        "head_starts": used[Use.HEAD_START][0],
        "shown": used[Use.SHOWN][0],
        "stale": used[Use.STALE][0],
        "misses": used[Use.MISS][0],
        "tokens": sum(saved for _, saved in used.values()),
    }


def _changes(
    lately: Sequence[api.ChangeJson], earlier: Iterable[api.ChangeJson]
) -> list[api.ChangeJson]:
    """Those of this life as they are known now, before them what the store has of others."""
    told = {change["clock"] for change in lately}
    found = [*lately, *(change for change in earlier if change["clock"] not in told)]
    return list(_merged(found))[:CHANGES_SHOWN_MAX]


def _merged(changes: Iterable[api.ChangeJson]) -> Iterator[api.ChangeJson]:
    """A change that only told the causes better is told with the one that it refines."""
    better: dict[tuple[str, str, str], list[api.CauseJson]] = {}
    for change in changes:
        name = change["repo"], change["kind"], change["key"]
        if change["refined"]:
            better.setdefault(name, change["causes"])
        else:
            yield {**change, "causes": better.pop(name, change["causes"])}


def _stored(row: Happened, roots: Mapping[str, str]) -> api.ChangeJson:
    return {
        "clock": row.clock,
        "at": row.at,
        "repo": row.repo,
        "root": roots.get(row.repo, ""),
        "kind": Kind(row.kind).value,
        "key": row.key,
        "previous": _verdict(row.previous),
        "verdict": _verdict(row.verdict),
        "causes": json.loads(row.causes),
        "refined": False,
    }


def _verdict(text: str) -> api.VerdictName:
    match text:
        case "fresh" | "stale" | "missing":
            return text
        case _:
            return "unknown"


def _hook(agent: str, tally: Tally) -> api.HookActivity:
    return {
        "agent": agent,
        "told": tally.told,
        "silent": tally.silent,
        "late": tally.late,
        "bugs": tally.bugs,
    }


def _trees(worktree: Worktree) -> list[api.TreeActivity]:
    if not worktree.trees:
        return []
    notes = Counted(name.kind for name in worktree.memory.names())[Kind.NOTE]
    mine = [each for each in worktree.trees if each.root == worktree.root]
    return [
        {
            "name": each.name,
            "repo": worktree.id,
            "root": path_text(each.root),
            # Keys do not tell trees apart where there are several.
            "notes": notes if mine == [each.tree] else 0,
            "problems": each.tree.problems(),
        }
        for each in trees_named(worktree, None)
    ]


def latency(seconds: Histogram, label: str = "") -> api.LatencyJson:
    """Of all that has this label: bounds of the histogram's own buckets."""
    below: dict[str, int] = {}  # how many took at most so long, by the bound's text
    for line in seconds.lines("s"):
        series, _, value = line.rpartition(" ")
        if label in series and (bound := _BOUND.search(series)) is not None:
            below[bound[1]] = below.get(bound[1], 0) + int(value)
    return _latency(below)


def _latency(below: Mapping[str, int]) -> api.LatencyJson:
    count = below.get("+Inf", 0)
    return {
        "count": count,
        "p50_s": _quantile(below, count * 0.5),
        "p99_s": _quantile(below, count * 0.99),
    }


def _quantile(below: Mapping[str, int], wanted: float) -> float | None:
    for bound, count in below.items():
        if count and count >= wanted:
            return None if bound == "+Inf" else float(bound)
    return None
