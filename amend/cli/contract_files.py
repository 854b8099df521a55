"""Contracts on disk: which there are, where their repositories and siblings lie.

Reads files, the configuration and the store; asks no daemon and writes nothing.
"""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from amend.cli.asking import absolute
from amend.cli.show import clean
from amend.errors import AmendError, NotFound, Unavailable, reason_of

if TYPE_CHECKING:
    from amend.core.model import SiblingRule
    from amend.formats.config import Repo
    from amend.formats.contract import Contract

STDIN: Final = "-"


def contracts_of(root: bytes) -> Iterator[tuple[bytes, "Contract"]]:
    """Every contract that can be read, in the order of their paths; of others stderr tells."""
    from amend.edge.files.beneath import read_file
    from amend.formats.contract import DOCUMENT_BYTES_MAX, parse

    for path in contract_paths(root):
        try:
            data = read_file(root, path, bytes_max=DOCUMENT_BYTES_MAX)
            yield path, parse(data, path)
        except (AmendError, OSError) as error:
            click.echo(f"amend: warning: {shown(path)}: {why(error)}", err=True)


def contract_paths(root: bytes) -> list[bytes]:
    from amend.core.model import ListingPrint, NoPrint
    from amend.edge.files.look import look_at_glob, stat_key

    found: set[bytes] = set()
    for pattern in map(os.fsencode, configured(root).contracts):
        if b"*" not in pattern and b"?" not in pattern:
            found.update([pattern] if stat_key(root, pattern) else [])
            continue
        names = look_at_glob(root, pattern, now_ns=time.time_ns())[0].fingerprint
        if isinstance(names, NoPrint):
            click.echo(f"amend: warning: {shown(pattern)}: {clean(names.detail)}", err=True)
        elif isinstance(names, ListingPrint):
            found.update(names.names.split(b"\0"))
    return sorted(found - {b""})


def read_contract(file: str) -> "Contract":
    """Raises `OSError`, `Refused` or `DocumentInvalid`."""
    from amend.edge.files.beneath import read_file
    from amend.formats.contract import DOCUMENT_BYTES_MAX, parse

    if file == STDIN:
        return parse(sys.stdin.buffer.read(DOCUMENT_BYTES_MAX + 1), b"")
    path = os.fsencode(absolute(file))
    # Whoever names a symlink means what it leads to.
    directory, _, name = os.path.realpath(path).rpartition(b"/")
    return parse(read_file(directory or b"/", name, bytes_max=DOCUMENT_BYTES_MAX), path)


def root_above(directory: str, *, otherwise: str | None = None) -> bytes:
    """The root of the repository that the directory is in; the directory where it is in none, and
    `otherwise` may be in one."""
    from amend.edge.git.places import discover

    places = discover(os.fsencode(directory))
    if places is not None:
        return places.root
    if otherwise is not None:
        return root_above(otherwise)
    return os.path.realpath(os.fsencode(directory))


def root_of(repo: str) -> bytes:
    from amend.edge.git.places import discover

    places = discover(os.fsencode(absolute(repo)))
    if places is None:
        raise NotFound(f"{repo} is in no repository", hint="--repo names a git repository")
    return places.root


def configured(root: bytes) -> "Repo":
    """What the configuration says of the repository; the defaults where it says nothing."""
    from amend.edge.service import config_path, home
    from amend.formats.config import CONFIG_BYTES_MAX, Repo, parse

    path = config_path(os.environ)
    try:
        with path.open("rb") as stream:
            data = stream.read(CONFIG_BYTES_MAX + 1)
    except FileNotFoundError:
        return Repo(root=os.fsdecode(root))
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}", hint="it must be readable") from error
    repos = parse(data, str(path), str(home(os.environ))).repo
    mine = (repo for repo in repos if os.path.realpath(os.fsencode(repo.root)) == root)
    return next(mine, Repo(root=os.fsdecode(root)))


def sibling_rules(root: bytes) -> dict[str, "SiblingRule"]:
    """The siblings of the repository, by the store and by the configuration, which goes before."""
    from contextlib import closing

    from amend.core.model import SiblingRule
    from amend.daemon.siblings import merged
    from amend.edge.service import state_dir
    from amend.edge.store import Store

    with closing(Store.scratch_copy(str(state_dir(os.environ) / "amend.db"))) as store:
        added = [rule for row in store.repos() if row.root == root for rule in row.siblings]
    repo = configured(root)
    listed = [
        SiblingRule(each.name, os.fsencode(repo.sibling_root(each)), each.track)
        for each in repo.sibling
    ]
    return {rule.name: rule for rule in merged(added, listed)}


def shown(path: bytes) -> str:
    return clean(os.fsdecode(path))


def why(error: AmendError | OSError) -> str:
    return clean(reason_of(error))
