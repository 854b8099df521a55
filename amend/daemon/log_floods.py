"""Puts what repeats together, so that no flood fills a disk or drowns what matters.

The first of a kind goes out at once; what follows within the event's window is counted, and told as
one line when the window is over. While that goes on, each window is twice as long as the one
before, up to `WINDOW_S_MAX`. Reads no clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from amend.daemon.log_events import Event

# Kinds that are counted at a time; some hundred repositories with each of their causes. Beyond it
# all are told early, so that memory stays bounded.
KINDS_MAX: Final = 1_000

# A flood that lasts all day is 1,440 lines of 300 bytes: room for 50 of them in 25 MB.
WINDOW_S_MAX: Final = 60.0

SUPPRESSED: Final = "suppressed"

_NEVER: Final = float("inf")


@dataclass(slots=True)
class _Window:
    length_s: float
    until_s: float
    suppressed: int = 0
    facts: Mapping[str, object] = field(default_factory=dict)
    sums: dict[str, int] = field(default_factory=dict)


class Floods:
    def __init__(self) -> None:
        self.due_s = _NEVER  # when the first window ends
        self._windows: dict[tuple[str, ...], tuple[Event, _Window]] = {}

    def admits(self, event: Event, facts: Mapping[str, object], now_s: float) -> bool:
        """Whether it is to be written now; else it is counted. Call `take_due` before."""
        if not event.window_s:
            return True
        key = (event.name, *[str(facts.get(name)) for name in event.by])
        known = self._windows.get(key)
        if known is None:
            until_s = now_s + event.window_s
            self._windows[key] = event, _Window(event.window_s, until_s)
            self.due_s = min(self.due_s, until_s)
            return True
        window = known[1]
        window.suppressed += 1
        window.facts = facts
        for name in event.sums:
            count = facts.get(name)
            window.sums[name] = window.sums.get(name, 0) + (count if isinstance(count, int) else 0)
        return False

    def take_due(self, now_s: float) -> list[tuple[Event, dict[str, object]]]:
        """A line for each window that is over and held something back."""
        is_full = len(self._windows) >= KINDS_MAX
        if now_s < self.due_s and not is_full:
            return []
        return self._take(now_s, is_full=is_full)

    def take_all(self) -> list[tuple[Event, dict[str, object]]]:
        """What is held back, now: the log ends."""
        return self._take(_NEVER, is_full=True)

    def _take(self, now_s: float, *, is_full: bool) -> list[tuple[Event, dict[str, object]]]:
        lines: list[tuple[Event, dict[str, object]]] = []
        for key, (event, window) in list(self._windows.items()):
            if now_s < window.until_s and not is_full:
                continue
            del self._windows[key]
            if window.suppressed:
                lines.append(
                    (event, {**window.facts, **window.sums, SUPPRESSED: window.suppressed})
                )
                if not is_full:
                    length_s = min(2 * window.length_s, WINDOW_S_MAX)
                    self._windows[key] = event, _Window(length_s, now_s + length_s)
        self.due_s = min((w.until_s for _, w in self._windows.values()), default=_NEVER)
        return lines
