"""Reads an agent's own record of an exploration, and what is kept beside it. Belongs in a worker.

Guarantees: only regular files are read, whole or not at all, at most `TRANSCRIPT_BYTES_MAX` of one;
nothing of them is kept but what `formats.transcript` makes of it.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from amend.core.explored import Explored, Meta
from amend.core.model import path_bytes
from amend.edge.files.beneath import TooLarge, read_file
from amend.errors import AmendError
from amend.formats.transcript import META_BYTES_MAX, TRANSCRIPT_BYTES_MAX, read_claude, read_meta
from amend.formats.transcript_codex import read_codex

READERS: Final[Mapping[str, Callable[[bytes], Explored]]] = {
    "claude": read_claude,
    "codex": read_codex,
}

NO_META: Final = Meta("", "", "", is_finished=False)


class NotRead(Exception):
    """Why, in a word. Nothing that could change soon."""


def read_transcript(agent: str, path: str) -> tuple[Explored | None, Meta]:
    """What the transcript tells, None where there is none yet; and what is kept beside it.

    Raises `NotRead` for what cannot be read, or not as a whole.
    """
    explored = None
    try:
        explored = READERS[agent](_bytes_at(path, TRANSCRIPT_BYTES_MAX))
    except FileNotFoundError:
        pass
    except TooLarge:
        raise NotRead("transcript_too_large") from None
    except (AmendError, OSError, ValueError):
        raise NotRead("transcript_unreadable") from None
    if explored is not None and explored.is_cut:
        raise NotRead("transcript_too_large")
    meta = NO_META
    if agent == "claude":
        with suppress(AmendError, OSError, ValueError):
            beside = f"{path.removesuffix('.jsonl')}.meta.json"
            meta = read_meta(_bytes_at(beside, META_BYTES_MAX))
    return explored, meta


def _bytes_at(path: str, bytes_max: int) -> bytes:
    directory, name = os.path.split(path_bytes(path))
    return read_file(directory, name, bytes_max=bytes_max)


def is_complete(explored: Explored, text: str) -> bool:
    """Whether the transcript has all that came before `text`, the exploration's last word."""
    if not text.strip():
        return explored.is_finished
    return "".join(explored.text.split()).endswith("".join(text.split()))
