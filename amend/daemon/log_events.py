"""Every event that the daemon's log may hold: its level, its facts, when it is written.

The one catalogue: `Log` takes no other event and no other fact, tests look for both in the code,
and `docs/log-events.md` is printed from here (`python -m amend.daemon.log_events`).

Guarantees: a fact that may hold a path, a key, a name that somebody chose or the words of an error
is `private`, and reaches a line only while the level is debug. None holds a summary, a prompt or a
file's contents, at any level.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

# What repeats within this is put together. A person who reads along sees the first at once, and the
# rest before they have looked for it: a guess.
WINDOW_S: Final = 10.0

# What a person does and looks for in the log at once.
BY_HAND_S: Final = 1.0


class Role(Enum):
    """What becomes of a fact when many lines are put together into one."""

    LAST = "last"  # the last one's stands
    SUM = "sum"  # added up
    BY = "by"  # lines that differ in it are not put together


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    type: type
    meaning: str
    role: Role = Role.LAST
    private: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """`window_s` 0: every one is a line of its own."""

    name: str
    level: str
    when: str
    facts: tuple[Fact, ...] = ()
    window_s: float = WINDOW_S
    known: frozenset[str] = field(init=False, repr=False)
    private: frozenset[str] = field(init=False, repr=False)
    by: tuple[str, ...] = field(init=False, repr=False)
    sums: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        def names(wanted: Role) -> tuple[str, ...]:
            return tuple(fact.name for fact in self.facts if fact.role is wanted)

        object.__setattr__(self, "known", frozenset(fact.name for fact in self.facts))
        object.__setattr__(self, "private", frozenset(f.name for f in self.facts if f.private))
        object.__setattr__(self, "by", names(Role.BY))
        object.__setattr__(self, "sums", names(Role.SUM))


def _by(name: str, meaning: str, of: type = str) -> Fact:
    return Fact(name, of, meaning, Role.BY)


def _sum(name: str, meaning: str) -> Fact:
    return Fact(name, int, meaning, Role.SUM)


def _private(name: str, meaning: str, of: type = str) -> Fact:
    return Fact(name, of, meaning, private=True)


_REPO: Final = _by("repo", "the worktree's id, as `amend status --json` has it; a hash")
_ENTRIES: Final = _sum("count", "entries")
_CAUSE: Final = _by("cause", "the first cause, in DESIGN's words")
_AGENT: Final = _by("agent", "whose hook: claude, codex")
_ROOT: Final = _private("root", "the worktree's directory")
_SOCKET: Final = _by("socket", "the socket's name: api.sock, claude.sock")
_SOCKET_PATH: Final = _private("path", "where the socket is")
_TIMES: Final = _sum("count", "how often")

_REQUEST: Final = (
    _by("method", "the HTTP method"),
    _by("route", "the route, without anything that was asked for"),
    _by("status", "the HTTP status", int),
    Fact("ms", float, "until the answer was made, in milliseconds"),
)

_ALL: Final = (
    # -- the daemon --
    Event(
        "daemon_ready",
        "info",
        "every entry is judged and every socket answers",
        (
            Fact("version", str, "amend's"),
            Fact("repos", int, "worktrees tended"),
            Fact("entries", int, "entries known"),
            _private("socket", "where the API's socket is"),
        ),
        window_s=0,
    ),
    Event("daemon_stopped", "info", "the last line: everything is written and closed", window_s=0),
    Event(
        "config_reloaded",
        "info",
        "another configuration is in force",
        (_private("file", "the configuration file"),),
        window_s=BY_HAND_S,
    ),
    Event(
        "config_rejected",
        "error",
        "the configuration is wrong and the old one stays; `amend config check` tells all of it",
        (
            Fact("problems", int, "lines that are wrong"),
            _private("reason", "each of them"),
            _private("hint", "what to do"),
        ),
        window_s=BY_HAND_S,
    ),
    Event(
        "store_replaced",
        "warning",
        "the store was no sound database and was moved aside; history is lost, no entry is",
        (_private("detail", "what was wrong with it, and where it is kept"),),
        window_s=0,
    ),
    Event(
        "store_migrated",
        "info",
        "the store was an older amend's; a copy of it is kept beside it",
        (
            Fact("before", int, "its schema's number"),
            Fact("after", int, "its schema's number now"),
        ),
        window_s=0,
    ),
    Event(
        "everything_verified",
        "info",
        "the hourly round has looked at every source again",
        (
            Fact("entries", int, "entries that were judged"),
            Fact("seconds", float, "how long it took"),
        ),
        window_s=0,
    ),
    Event(
        "bug",
        "error",
        "amend made a mistake; whoever asked was told the id",
        (
            _by("id", "stands for this mistake: the same one has the same id, always"),
            Fact(
                "error",
                BaseException,
                "`exception.type`; `exception.stacktrace`, with nothing but places in code; "
                "`exception.message` only while the level is debug",
            ),
        ),
    ),
    Event(
        "machine_slept",
        "info",
        "the machine slept, so everything is looked at again",
        (Fact("slept_s", float, "seconds"),),
    ),
    Event(
        "clock_set",
        "warning",
        "the clock was set, so everything is looked at again",
        (Fact("by_s", float, "seconds; back: negative"),),
    ),
    # -- repositories --
    Event(
        "repo_added",
        "info",
        "a worktree is tended from now on (at the start: `daemon_ready` counts them)",
        (
            _REPO,
            Fact("linked", bool, "nobody named it: it belongs to a repository that is tended"),
            _ROOT,
        ),
    ),
    Event("repo_removed", "info", "a worktree is tended no longer", (_REPO, _ROOT)),
    Event(
        "repo_not_tended",
        "warning",
        "a repository that the configuration or the store names cannot be tended",
        (
            _by("kind", "the kind of error: NotFound, Refused"),
            _ROOT,
            _private("reason", "why"),
        ),
    ),
    Event(
        "repo_problems",
        "warning",
        "something else is wrong with a worktree than a minute ago; `amend status` tells what",
        (_REPO, Fact("count", int, "problems"), _private("problems", "each of them", list)),
    ),
    Event("repo_problems_gone", "info", "nothing is wrong with a worktree any more", (_REPO,)),
    # -- entries --
    Event(
        "entries_staled",
        "info",
        "entries became stale, together; one line a second for each cause at most",
        (
            _REPO,
            _ENTRIES,
            _CAUSE,
            _by("refined", "they were stale before, and git has said now why", bool),
        ),
    ),
    Event(
        "entries_restored",
        "info",
        "entries are fresh again, together",
        (_REPO, _ENTRIES, _by("previous", "the verdict before: stale, unknown")),
    ),
    Event("entries_unknown", "info", "entries can be checked no more", (_REPO, _ENTRIES, _CAUSE)),
    Event("entries_learnt", "info", "entries are new, and fresh", (_REPO, _ENTRIES)),
    Event("entries_removed", "info", "entries are gone", (_REPO, _ENTRIES)),
    Event(
        "entry_changed",
        "debug",
        "one entry's verdict or causes changed",
        (
            _REPO,
            Fact("kind", str, "topic, pattern, contract, note"),
            _private("key", "the entry's key"),
            Fact("previous", str, "the verdict before"),
            Fact("verdict", str, "the verdict now"),
            Fact("causes", list, "kinds of causes, in their order"),
            _private("sources", "what the causes name", list),
        ),
        window_s=0,
    ),
    # -- the watch --
    Event(
        "watch_degraded",
        "warning",
        "other paths than before cannot be watched: marks come late there, answers stay true",
        (
            Fact("count", int, "such paths"),
            Fact("reason", str, "the system's word on the first of them"),
            _private("paths", "the first ten", list),
        ),
    ),
    Event("watch_recovered", "info", "everything is watched again"),
    Event(
        "watch_overflowed",
        "warning",
        "events were lost, so everything beneath a root was looked at again",
        (_sum("overflows", "times the kernel said so"), _sum("rescans", "such looks")),
    ),
    Event("watch_failed", "error", "amend failed to handle events of the kernel", (_TIMES,)),
    Event("watch_deaf", "error", "the watch's reader takes in nothing; the daemon reads for it"),
    Event(
        "change_unreported",
        "warning",
        "the false-fresh guard: an answer's own look found a change that the watch never told of",
        (_REPO, _TIMES),
    ),
    # -- files --
    Event(
        "cache_file_written",
        "info",
        "`.agent-cache.json` was written",
        (_REPO, _TIMES),
    ),
    Event(
        "write_conflicted",
        "info",
        "somebody wrote the cache file just before amend did, which began again",
        (_REPO, _TIMES),
    ),
    Event(
        "version_recovered",
        "info",
        "somebody wrote the cache file just while amend did, and theirs was merged back",
        (_REPO, _TIMES),
    ),
    Event(
        "version_unmerged",
        "error",
        "a version of the cache file that amend displaced cannot be merged; it is kept",
        (_REPO, _TIMES),
    ),
    Event(
        "index_written",
        "info",
        "indexes and notes of memory trees were written",
        (_REPO, _sum("count", "files")),
    ),
    Event("note_saved", "info", "somebody saved notes through amend", (_REPO, _TIMES)),
    # -- git --
    Event(
        "git_failed",
        "warning",
        "git did not answer what causes and baselines need; verdicts go on without it",
        (_REPO, _private("detail", "what git said")),
    ),
    Event("git_recovered", "info", "git answers again", (_REPO,)),
    Event("git_timed_out", "warning", "commands of git were killed: too slow", (_REPO, _TIMES)),
    # -- agents --
    Event(
        "hooks_answered",
        "info",
        "once a minute with traffic: how exchanges with an agent's hooks ended",
        (
            _AGENT,
            _sum("told", "were told something"),
            _sum("silent", "had nothing to be told"),
            _sum("late", "were told nothing: it took too long"),
            _sum("bugs", "were told nothing: amend made a mistake"),
        ),
        window_s=0,
    ),
    Event(
        "hooks_refused",
        "warning",
        "connections to hook sockets were cut",
        (
            _sum("peers", "of another user"),
            _sum("full", "over the limit"),
            _sum("large", "with too much to say"),
            _sum("slow", "not whole in time"),
        ),
    ),
    Event(
        "exploration_stored",
        "info",
        "what a subagent found was stored",
        (
            _AGENT,
            _REPO,
            Fact("sources", int, "what it rests on"),
            _private("exploration", "the agent's id of it"),
            _private("key", "the entry's key, made of the task"),
        ),
    ),
    Event(
        "exploration_not_stored",
        "info",
        "what a subagent found was not stored",
        (
            _by("reason", "why, in a word; `secret` where it looks like one"),
            _by("rule", "of a secret: the rule that it trips, nothing of the text"),
            _TIMES,
        ),
    ),
    # -- requests --
    Event("request", "debug", "the API answered", _REQUEST, window_s=0),
    Event("request_failed", "error", "the API answered 5xx", _REQUEST),
    Event(
        "requests_refused",
        "warning",
        "connections to the API's socket were cut, or reached no route",
        (
            _sum("peers", "of another user"),
            _sum("full", "over the limit"),
            _sum("slow", "did not arrive in time"),
            _sum("broken", "were no HTTP, or too large"),
        ),
    ),
    # -- sockets, the service manager --
    Event(
        "socket_rebound",
        "warning",
        "a socket was gone or another's, and was made again",
        (_SOCKET, _SOCKET_PATH),
    ),
    Event(
        "socket_unreachable",
        "error",
        "a socket is gone and cannot be made again yet",
        (_SOCKET, _SOCKET_PATH, _private("reason", "why")),
    ),
    Event("socket_reachable", "info", "a socket is there again", (_SOCKET, _SOCKET_PATH)),
    Event(
        "socket_replaced",
        "error",
        "another daemon answers at the API's socket; this one ends",
        (_SOCKET, _SOCKET_PATH, _private("reason", "why")),
    ),
    Event(
        "watchdog_withheld",
        "error",
        "the watch did not tell of amend's own test, so the service manager gets no ping",
        (Fact("waited_s", float, "seconds"),),
    ),
    Event("watchdog_resumed", "info", "the watch tells again"),
    Event(
        "watchdog_untested",
        "warning",
        "the watch cannot be tested; the loop alone is proof of life",
        (Fact("reason", str, "why"),),
    ),
    # -- its life --
    Event(
        "machine_slept",
        "info",
        "the machine was asleep, so every source is looked at again",
        (Fact("slept_s", float, "seconds"),),
        window_s=0,
    ),
    Event(
        "clock_set",
        "warning",
        "the machine's clock was set, so every entry is judged again",
        (Fact("by_s", float, "seconds; negative: back"),),
        window_s=0,
    ),
    Event(
        "watch_deaf",
        "error",
        "the watch tells nothing by itself any more: marks come up to 10 s late, answers stay true",
        window_s=0,
    ),
    Event(
        "upgrade_found",
        "info",
        "another amend was installed and is able to start: this one hands over to it",
        (Fact("before", str, "the version that runs"), Fact("after", str, "the other one's")),
        window_s=0,
    ),
    Event(
        "upgrade_unusable",
        "warning",
        "another amend was installed and is not able to start: this one goes on",
        (_private("reason", "why"),),
    ),
    # -- the log itself --
    Event(
        "log_lines_dropped",
        "warning",
        "nobody read the log, or its disk was full: so many lines are not in it",
        (Fact("count", int, "lines"),),
        window_s=0,
    ),
    Event(
        "log_file_failed",
        "warning",
        "the log's file cannot be written; on stderr only, and `/readyz` tells as well",
        (Fact("reason", str, "the system's word"), _private("path", "the file")),
        window_s=0,
    ),
    Event("log_file_resumed", "info", "the log's file is written again", window_s=0),
    Event(
        "log_event_unknown",
        "error",
        "amend logged what is not in this catalogue: report it",
        (_by("event", "its name"),),
    ),
)

EVENTS: Final[Mapping[str, Event]] = {event.name: event for event in _ALL}

_TYPES: Final = {
    str: "text",
    int: "number",
    float: "number",
    bool: "true or false",
    list: "list of texts",
    BaseException: "an exception",
}

_HEAD: Final = """\
# Events of the log

Printed from `amend/daemon/log_events.py` by `python -m amend.daemon.log_events`; a test compares.
No other event is ever written.

Every JSON line also has `timestamp`, `severity_text`, `severity_number`, `event.name`,
`service.name`, `service.version`, `service.instance.id` and `process.pid`, as the OpenTelemetry
log model names them. Facts marked *debug* may hold paths, keys or the words of an error, and are
written only while `daemon.log_level` is `debug`. Summaries, prompts and file contents are never
written.

An event that repeats within {window:g} seconds (or those beside its level), with the same facts
marked *by*, becomes one line when they are over: facts marked *sum* are added up, of others the
last one stands, and `suppressed` tells how many lines it stands for. While that goes on, such lines
become rarer, down to one a minute. Events marked *each* are never put together.
"""


def page(events: Iterable[Event] = _ALL) -> str:
    """The catalogue as Markdown."""
    parts = [_HEAD.format(window=WINDOW_S)]
    for event in events:
        each = "" if event.window_s == WINDOW_S else f", {event.window_s:g} s"
        each = each if event.window_s else ", *each*"
        parts.append(f"\n## {event.name}\n\n{event.level}{each}: {event.when}.\n")
        if event.facts:
            parts.append("\n| fact | type | meaning |\n| --- | --- | --- |\n")
        for fact in event.facts:
            marks = [fact.role.value] if event.window_s and fact.role is not Role.LAST else []
            marks += ["debug"] if fact.private else []
            mark = f" *{', '.join(marks)}*" if marks else ""
            parts.append(f"| `{fact.name}`{mark} | {_TYPES[fact.type]} | {fact.meaning} |\n")
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
