"""Ask git's history about paths: the door to trees, commits, moves and baselines.

Synchronous and bounded in time and output; the daemon calls it in a worker thread, never for an
answer. What git cannot tell is left out or said to be unknown, never guessed.
"""

from amend.edge.git.baselines import AsOf, Baseline, baseline, baselines
from amend.edge.git.commits import last_commits
from amend.edge.git.moves import find_move, find_moves
from amend.edge.git.trees import TreeEntry, changed_paths, entries_at, is_tracked

__all__ = [
    "AsOf",
    "Baseline",
    "TreeEntry",
    "baseline",
    "baselines",
    "changed_paths",
    "entries_at",
    "find_move",
    "find_moves",
    "is_tracked",
    "last_commits",
]
