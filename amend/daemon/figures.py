"""What `/metrics` tells: every promise as a counter or a histogram, in Prometheus text."""

import resource

from amend.core.metrics import Counter, Histogram, render
from amend.core.model import Verdict
from amend.daemon.tending import Tending
from amend.edge.serve.hook_exchange import TimelyExchange
from amend.edge.serve.limits import HookStats, Stats


def prometheus_text(
    tending: Tending, verdicts: Counter, requests: Histogram, connections: Stats
) -> str:
    worktrees = list(tending.worktrees.values())
    memories = [worktree.memory for worktree in worktrees]
    counts = {verdict: 0 for verdict in Verdict if verdict is not Verdict.MISSING}
    for worktree in worktrees:
        for verdict, count in worktree.counts().items():
            if verdict in counts:
                counts[verdict] += count
    files = [worktree.cache_file.shared for worktree in worktrees]
    tallies = [w.places.tally for w in worktrees if w.places is not None]
    health = tending.watch.health() if tending.watch is not None else None
    return render(
        {
            "amend_entries": (
                "Entries by their last known verdict.",
                {(("verdict", v.value),): float(n) for v, n in counts.items()},
            ),
            "amend_answers_total": ("Lookups answered, by verdict and cause.", verdicts),
            "amend_marks_total": _total(
                "Entries that became stale.", sum(m.marks for m in memories)
            ),
            "amend_restores_total": _total(
                "Stale entries that became fresh.", sum(m.restores for m in memories)
            ),
            "amend_rehashes_total": _total(
                "Files read and hashed.", sum(m.ground.hashes for m in memories)
            ),
            "amend_stats_total": _total(
                "Sources looked at by stat.", sum(m.ground.stats for m in memories)
            ),
            "amend_watch_overflows_total": _total(
                "Kernel queue overflows.", health.overflows if health else 0
            ),
            "amend_watch_rescans_total": _total(
                "Times everything was looked at again.", health.rescans if health else 0
            ),
            "amend_watch_unreported_total": _total(
                "Answers that found changed what the watch never told of.",
                sum(m.unreported for m in memories),
            ),
            "amend_watch_events_total": _total(
                "Kernel events read.", health.events if health else 0
            ),
            "amend_watch_reader_errors_total": _total(
                "Events that amend failed to handle.", health.reader_errors if health else 0
            ),
            "amend_watches": (
                "Kernel watches held.",
                {(): float(health.armed if health else 0)},
            ),
            "amend_unwatched": (
                "Paths that cannot be watched.",
                {(): float(len(health.unwatched) if health else 0)},
            ),
            "amend_file_writes_total": _total("Cache file writes.", sum(f.writes for f in files)),
            "amend_cache_files_learnt_total": _total(
                "Cache files read and taken in.", sum(w.cache_file.learnt for w in worktrees)
            ),
            "amend_file_conflicts_total": _total(
                "Writes begun again because the file changed.", sum(f.conflicts for f in files)
            ),
            "amend_file_recovered_total": _total(
                "Others' versions that were displaced and merged back.",
                sum(f.recovered for f in files),
            ),
            "amend_file_reasserted_total": _total(
                "Recovered changes that had to be put back again.",
                sum(f.reasserted for f in files),
            ),
            "amend_file_unmerged_total": _total(
                "Others' versions that were displaced and could not be merged back.",
                sum(f.unmerged for f in files),
            ),
            "amend_git_commands_total": _total(
                "Commands of git started.", sum(t.commands for t in tallies)
            ),
            "amend_git_timeouts_total": _total(
                "Commands of git killed because they took too long.",
                sum(t.timeouts for t in tallies),
            ),
            "amend_request_seconds": ("Time to answer, by route and status.", requests),
            "amend_connections": (
                "Connections open.",
                {(): float(connections.connections)},
            ),
            "amend_refused_peers_total": _total(
                "Connections of other users.", connections.refused_peers
            ),
            "amend_refused_full_total": _total(
                "Connections over the limit.", connections.refused_full
            ),
            "amend_timeouts_total": _total(
                "Requests that did not arrive in time.", connections.timeouts
            ),
            "amend_rejected_total": _total(
                "Requests that reached no route, those that did not arrive in time included.",
                connections.rejected,
            ),
            "amend_mark_seconds": (
                "From a file's change to its entries being marked.",
                tending.mark_seconds,
            ),
            "amend_rss_bytes": ("Resident memory.", {(): float(rss_bytes())}),
        }
    )


def hooks_text(hooks: TimelyExchange | None, connections: HookStats) -> str:
    """What `/metrics` tells of hooks besides, in the same form."""
    exchanges, refused = Counter(), Counter()
    for agent, tally in hooks.tallies.items() if hooks is not None else ():
        exchanges.add(tally.told, agent=agent, outcome="told")
        exchanges.add(tally.silent, agent=agent, outcome="silent")
        exchanges.add(tally.late, agent=agent, outcome="late")
        exchanges.add(tally.bugs, agent=agent, outcome="bug")
    refused.add(connections.refused_peers, reason="peer")
    refused.add(connections.refused_full, reason="full")
    refused.add(connections.too_large, reason="large")
    refused.add(connections.unfinished, reason="slow")
    return render(
        {
            "amend_hook_exchanges_total": (
                "Exchanges with agents' hooks, by what they were told.",
                exchanges,
            ),
            "amend_hook_seconds": (
                "Time to answer a hook, by agent.",
                hooks.seconds if hooks is not None else Histogram(),
            ),
            "amend_hook_refused_total": (
                "Connections to hook sockets that were cut, by reason.",
                refused,
            ),
            "amend_hook_connections": (
                "Connections to hook sockets open.",
                {(): float(connections.connections)},
            ),
        }
    )


def _total(text: str, value: int) -> tuple[str, Counter]:
    counter = Counter()
    counter.add(value)
    return text, counter


def rss_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
