"""Validate 1, 5, 20 and 100 referenced files: amend's verdict against the seed's shell loop.

    python benchmarks/validate.py PATH [--json FILE]

PATH is a git repository; budgets are held from 50,000 commits on. Works on a clone of it in a
temporary directory, with a private daemon; both sides are measured in the same rounds (`seed`).
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import run
from benchmarks.sizes import FULL, Sizes

SIZES: Final = replace(FULL, seed_files=(1, 5, 20, 100))


def main(arguments: Sequence[str], sizes: Sizes = SIZES) -> int:
    if not arguments or arguments[0].startswith("-"):
        print("\n".join((__doc__ or "").splitlines()[2:]), file=sys.stderr)
        return 2
    path, *rest = arguments
    return run.main(["--only", run.SEED, "--repo", path, *rest], sizes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
