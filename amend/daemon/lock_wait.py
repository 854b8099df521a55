"""How long to wait for git, where it is rewriting a worktree."""

from collections.abc import Callable
from typing import Final

# A lock that a crash left is waited for no longer than this (one stood for 28 minutes,
# research/watching.md section 5).
GIT_WAIT_S: Final = 5.0


class LockWait:
    """`is_locked`: whether git holds the lock of the worktree's index now."""

    def __init__(self, is_locked: Callable[[], bool]) -> None:
        self._is_locked = is_locked
        self._since_s: float | None = None

    def lasts(self, now_s: float) -> bool:
        """Whether git holds it, and has not been seen holding it for too long."""
        if not self._is_locked():
            self._since_s = None
            return False
        self._since_s = self._since_s or now_s
        return now_s < self._since_s + GIT_WAIT_S
