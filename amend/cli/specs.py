"""Paths as a person types them, from where they are → specs from the repository's root."""

import os
import re
from collections.abc import Iterable, Sequence
from typing import Final

from amend.errors import NotFound, RequestInvalid

# As `core.sources` reads it; a file whose name looks so is written `./name`.
_SIBLING: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*:.", re.DOTALL)


def from_here(files: Sequence[str], cwd: str, roots: Iterable[str]) -> list[str]:
    """The specs of `files` typed in `cwd`. Raises `NotFound` where no root is above it."""
    here = os.path.realpath(cwd)
    root = nearest(here, roots)
    if root is None:
        raise NotFound(
            f"no repository that amend tends is above {cwd}", hint="add it: `amend add PATH`"
        )
    return [_spec(text, here, root) for text in files]


def nearest(here: str, roots: Iterable[str]) -> str | None:
    above = [root for root in roots if here == root or here.startswith(root.rstrip("/") + "/")]
    return max(above, key=len, default=None)


def _spec(text: str, here: str, root: str) -> str:
    absent = text.startswith("!")
    path = text[1:] if absent else text
    if not path:
        raise RequestInvalid(f"{text!r} names no path", hint="name a file")
    if _SIBLING.match(path):
        return text
    full = os.path.normpath(os.path.join(here, path))
    if not path.startswith(("/", ".")) and not os.path.lexists(full):
        # An agent repeats what stands in the cache file, wherever it is.
        from_root = os.path.normpath(os.path.join(root, path))
        full = from_root if os.path.lexists(from_root) else full
    if full != root and not full.startswith(root.rstrip("/") + "/"):
        raise RequestInvalid(
            f"{text!r} is outside of {root}",
            hint="cite another repository as `sibling:path`",
        )
    spec = os.path.relpath(full, root)
    if spec == ".":
        spec = "./"
    elif path.endswith(("/", "/.")) or path in (".", ".."):
        spec += "/"
    elif _SIBLING.match(spec):
        spec = f"./{spec}"
    return f"!{spec}" if absent else spec
