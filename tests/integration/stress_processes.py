"""The processes of a stress test: each is its module once more, with other words."""

import subprocess
import sys
import time
from pathlib import Path


def start_process(module: str, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"tests.integration.{module}", *words]
    root = Path(__file__).parents[2]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root)


def result_of(process: subprocess.Popen[bytes], deadline_s: float) -> bytes:
    """What it said, once it has ended well. `deadline_s`: of `time.monotonic()`."""
    output, _ = process.communicate(timeout=max(1.0, deadline_s - time.monotonic()))
    assert process.returncode == 0, f"{process.args!r} ended with {process.returncode}"
    return output
