"""The files that have a service manager start amend: two systemd units, or a launchd property list.

`systemd/` and `launchd/` in the repository hold the same for people who copy them. What
`amend service install` has written begins with a mark: a checksum of the rest. So it is replaced or
removed only as long as nobody else has changed it.
"""

import enum
import hashlib
import os
import plistlib
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from amend.errors import Refused

SERVICE: Final = "amend.service"
SOCKET: Final = "amend.socket"
LABEL: Final = "dev.amend.daemon"
PLIST: Final = f"{LABEL}.plist"

# Where git is looked for anyway, by amend itself and by each system's own default PATH.
_SANE_PATH: Final = ("/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/bin")

_MARK: Final = "Written by `amend service install` (checksum {})"
_MARKED: Final = re.compile(rb"^.*Written by `amend service install` \(checksum ([0-9a-f]+)\).*\n")

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./@%+=:,-]+")

# A dozen hex digits tell an edited file from an untouched one; nobody forges them.
_CHECKSUM_CHARS: Final = 12


@dataclass(frozen=True, slots=True)
class Setup:
    """What differs from one machine to the next. Paths are absolute.

    `variables`: what the service needs to find the places that a shell finds. `runtime_specifier`:
    how a unit names the runtime directory where it is the usual one.
    """

    command: tuple[str, ...]
    runtime: str
    variables: Mapping[str, str]
    umask: int = 0o022
    runtime_specifier: str | None = None


# What a person copies: pipx and `uv tool` put amend there.
COPIED: Final = Setup(("%h/.local/bin/amend", "run"), "%t/amend", {}, 0o022, "%t/amend")

_SERVICE_TEXT: Final = """\
# amend, started at login and kept running. A user unit, together with amend.socket:
#   cp amend.service amend.socket ~/.config/systemd/user/
#   systemctl --user daemon-reload
#   systemctl --user enable --now amend.socket amend.service
# `amend service install` does the same. Changes of your own: systemctl --user edit amend

[Unit]
Description=amend, the freshness daemon for agent memory
Wants=amend.socket
After=amend.socket
# A daemon started by hand lets go 10 s after amend.socket has taken its place; six tries, 3 s
# apart, outlast that. What fails six times in a minute fails for a reason that stays.
StartLimitIntervalSec=60
StartLimitBurst=6

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
{environment}UMask={umask}
Restart=on-failure
RestartSec=3
# 2: the command line is wrong; 78: the configuration is. Neither mends itself.
RestartPreventExitStatus=2 78
TimeoutStartSec=60
# A stop lets what is being answered take 2 s.
TimeoutStopSec=10
# amend pings at half of this, each time after a test of its watch.
WatchdogSec=100

# 60 MB for 1,000 entries and 210 for 100,000; git runs beside it for seconds at a time.
MemoryHigh=512M
MemoryMax=1G
TasksMax=128
OOMPolicy=stop

# What works without namespaces. PrivateTmp, ProtectSystem, ProtectHome and PrivateDevices imply
# PrivateUsers in user units, where files of others seem to be nobody's and ownership checks fail.
NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@resources @privileged
# A file that amend replaces keeps its group.
SystemCallFilter=@chown
SystemCallErrorNumber=EPERM

[Install]
WantedBy=default.target
Also=amend.socket
"""

_SOCKET_TEXT: Final = """\
# amend's sockets: there from login on, so that the first question starts amend and no hook finds
# nobody. See amend.service.

[Unit]
Description=amend, the sockets of the API and of agents' hooks

[Socket]
{listen}FileDescriptorName=amend
SocketMode=0600
DirectoryMode=0700
# amend never removes what systemd has bound.
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""


def setup_of(env: Mapping[str, str], places: Mapping[str, str], usual: Mapping[str, str]) -> Setup:
    """For whoever runs this, with the umask of the shell around.

    `places`: AMEND_RUNTIME_DIR, AMEND_STATE_DIR and AMEND_CONFIG as `env` says they are; `usual`:
    what a service would find by itself. Where they differ, the service is told.
    """
    variables = {name: place for name, place in places.items() if usual[name] != place}
    git = shutil.which("git", path=env.get("PATH"))
    if git is not None and os.path.dirname(git) not in _SANE_PATH:
        variables["PATH"] = os.pathsep.join((os.path.dirname(git), *_SANE_PATH))
    runtime = places["AMEND_RUNTIME_DIR"]
    is_usual = runtime == usual["AMEND_RUNTIME_DIR"] and runtime == _under_xdg(env)
    before = os.umask(0o077)
    os.umask(before)
    return Setup(command_of(env), runtime, variables, before, "%t/amend" if is_usual else None)


def _under_xdg(env: Mapping[str, str]) -> str | None:
    base = env.get("XDG_RUNTIME_DIR", "")
    return str(Path(base) / "amend") if base.startswith("/") else None


def command_of(env: Mapping[str, str]) -> tuple[str, ...]:
    """`amend run`: through the name on PATH where that is this amend, which stays over upgrades."""
    script = Path(sys.executable).parent / "amend"
    on_path = shutil.which("amend", path=env.get("PATH"))
    if on_path is not None and os.path.realpath(on_path) == os.path.realpath(script):
        return (os.path.abspath(on_path), "run")
    if os.access(script, os.X_OK):
        return (str(script), "run")
    return (sys.executable, "-m", "amend.cli.main", "run")


# -- systemd -------------------------------------------------------------------------------------


def service_unit(setup: Setup) -> bytes:
    if setup is COPIED:
        command = " ".join(setup.command)
    else:
        # systemd takes no program whose path has quotes or spaces in it, as arguments may.
        through = () if _PLAIN.fullmatch(setup.command[0]) else ("/usr/bin/env",)
        command = " ".join(_quoted(word).replace("$", "$$") for word in through + setup.command)
    environment = "".join(
        f"Environment={_quoted(f'{name}={value}', always=True)}\n"
        for name, value in setup.variables.items()
    )
    return _SERVICE_TEXT.format(
        command=command, environment=environment, umask=f"{setup.umask:04o}"
    ).encode("utf-8", "surrogateescape")


def socket_unit(setup: Setup, sockets: Iterable[str]) -> bytes:
    """`sockets`: their paths beneath the runtime directory."""
    base = setup.runtime_specifier or _escaped(setup.runtime)
    listen = "".join(f"ListenStream={base}/{path}\n" for path in sockets)
    return _SOCKET_TEXT.format(listen=listen).encode("utf-8", "surrogateescape")


def _escaped(text: str) -> str:
    """Without a specifier in it. Raises `Refused` for a line end, which no unit can hold."""
    if not text.isprintable():
        raise Refused(
            f"{text!r} has a character that no unit file can hold",
            hint="put amend and its directories where names are plain",
        )
    return text.replace("%", "%%")


def _quoted(word: str, *, always: bool = False) -> str:
    """As systemd.syntax(7) reads it; plain where that says the same."""
    text = _escaped(word)
    if not always and _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# -- launchd -------------------------------------------------------------------------------------


def property_list(setup: Setup, sockets: Mapping[str, str]) -> bytes:
    """`sockets`: name → path beneath the runtime directory."""
    document: dict[str, object] = {
        "Label": LABEL,
        "ProgramArguments": list(setup.command),
        "RunAtLoad": True,
        # What ended with an error comes back, what was stopped does not.
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        # An agent waits for its hooks as a person does for a program.
        "ProcessType": "Interactive",
        "Umask": setup.umask,
        "WorkingDirectory": "/",
        "Sockets": {
            name: {
                "SockPathName": f"{setup.runtime}/{path}",
                "SockPathMode": 0o600,  # written in decimal, which is how launchd reads it
                "SockType": "stream",
            }
            for name, path in sockets.items()
        },
    }
    if setup.variables:
        document["EnvironmentVariables"] = dict(setup.variables)
    return plistlib.dumps(document, sort_keys=False)


COPIED_PLIST: Final = Setup(
    ("/Users/you/.local/bin/amend", "run"), "/Users/you/.local/state/amend/run", {}
)

_PLIST_COMMENT: Final = b"""\
<!-- amend, started at login and kept running. launchd expands no ~ and makes no directories:
     mkdir -p -m 700 ~/.local/state/amend ~/.local/state/amend/run ~/.local/state/amend/run/hooks
     cd ~/Library/LaunchAgents
     sed "s|/Users/you|$HOME|" .../launchd/dev.amend.daemon.plist > dev.amend.daemon.plist
     launchctl bootstrap gui/$(id -u) dev.amend.daemon.plist
     `amend service install` does the same. SockPathMode is decimal: 384 is 0600. -->
"""


def copied_property_list(sockets: Mapping[str, str]) -> bytes:
    """What a person copies."""
    head, rest = _head_and_rest(property_list(COPIED_PLIST, sockets))
    return head + _PLIST_COMMENT + rest


# -- whose a file is -----------------------------------------------------------------------------


class Whose(enum.Enum):
    OURS = "installed"
    EDITED = "edited"
    FOREIGN = "not amend's"


def marked(data: bytes) -> bytes:
    """With the mark: in a comment of the first line, or of the second in XML."""
    text = _MARK.format(_checksum(data))
    head, rest = _head_and_rest(data)
    comment = f"<!-- {text} -->\n" if head else f"# {text}\n"
    return head + comment.encode() + rest


def whose(data: bytes) -> Whose:
    head, rest = _head_and_rest(data)
    found = _MARKED.match(rest)
    if found is None:
        return Whose.FOREIGN
    without = head + rest[found.end() :]
    return Whose.OURS if found[1].decode() == _checksum(without) else Whose.EDITED


def _head_and_rest(data: bytes) -> tuple[bytes, bytes]:
    if data.startswith(b"<?xml"):
        end = data.find(b"\n") + 1
        return data[:end], data[end:]
    return b"", data


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_CHECKSUM_CHARS]
