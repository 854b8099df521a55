"""Run a program as the unit would have it: `python system_call_filter.py UNIT PROGRAM ARGUMENT…`.

Reads the seccomp settings of a systemd unit, asks systemd what its groups mean, and sets the same
filter through libseccomp, since no systemd may be running where tests do.
"""

import ctypes
import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

ALLOW = 0x7FFF0000
FAIL = 0x00050000  # SCMP_ACT_ERRNO
EQUAL, MASKED_EQUAL = 4, 7
WRITE, EXECUTE = 2, 4  # PROT_* of mmap(2)


class Compare(ctypes.Structure):
    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


def groups() -> dict[str, list[str]]:
    """What each group has in it, groups among them."""
    done = subprocess.run(
        ["systemd-analyze", "--no-pager", "syscall-filter"], capture_output=True, check=True
    )
    found: dict[str, list[str]] = {}
    for line in done.stdout.decode().splitlines():
        word = line.strip()
        if line.startswith("@"):
            members = found[word] = []
        elif word and not word.startswith("#") and line.startswith(" "):
            members.append(word)
    return found


def allowed(unit: str) -> set[str]:
    known = groups()

    def flat(word: str) -> set[str]:
        if not word.startswith("@"):
            return {word}
        return set().union(*(flat(each) for each in known[word]))

    names: set[str] = set()
    for line in unit.splitlines():
        if line.startswith("SystemCallFilter="):
            value = line.partition("=")[2]
            some = set().union(*(flat(word) for word in value.removeprefix("~").split()))
            names = names - some if value.startswith("~") else names | some
    return names | flat("@default")


def load(unit: str) -> None:
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(FAIL | errno.EPERM)))

    def allow(name: str, *rules: Compare) -> None:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            return  # another architecture's
        array = (Compare * len(rules))(*rules)
        code = library.seccomp_rule_add_array(
            context, ctypes.c_uint32(ALLOW), number, len(rules), array
        )
        assert code == 0, (name, code)

    conditions = {
        "mmap": [Compare(2, MASKED_EQUAL, WRITE | EXECUTE, p) for p in (0, WRITE, EXECUTE)],
        "mprotect": [Compare(2, MASKED_EQUAL, EXECUTE, 0)],
        "pkey_mprotect": [Compare(2, MASKED_EQUAL, EXECUTE, 0)],
        "socket": [Compare(0, EQUAL, socket.AF_UNIX, 0)],
    }
    assert "MemoryDenyWriteExecute=yes" in unit
    assert "RestrictAddressFamilies=AF_UNIX" in unit
    for name in sorted(allowed(unit)):
        if name in conditions:
            for condition in conditions[name]:
                allow(name, condition)
        else:
            allow(name)
    assert library.seccomp_load(context) == 0


if __name__ == "__main__":
    load(Path(sys.argv[1]).read_text())
    os.execv(sys.argv[2], sys.argv[2:])
