"""What the configuration file says, as the daemon's parts want it."""

import os
from collections.abc import Mapping
from typing import Final

from amend.core.model import SiblingRule
from amend.core.policy import OnStale
from amend.daemon.tending import Configured, Options
from amend.edge.service import config_path, home, state_dir
from amend.errors import Unavailable
from amend.formats.config import Config, EvidenceRule, Repo, parse

# Beneath the state directory: versions of users' files that amend has replaced.
DISPLACED: Final = "displaced"


def read_config(env: Mapping[str, str]) -> Config:
    """The file's contents, or what no file says. Raises `ConfigInvalid` and `Unavailable`."""
    path = config_path(env)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}", hint="check it") from error
    return parse(data, str(path), str(home(env)))


def options_of(config: Config, env: Mapping[str, str]) -> Options:
    policy = config.policy
    return Options(
        on_stale=OnStale(policy.on_stale),
        write_tracked=policy.write_tracked,
        is_lenient=policy.evidence is EvidenceRule.LENIENT,
        retain_dir=os.fsencode(state_dir(env) / DISPLACED),
    )


def configured_of(config: Config) -> dict[bytes, Configured]:
    """By the root as it is written."""
    return {os.fsencode(repo.root): _configured(repo) for repo in config.repo}


def _configured(repo: Repo) -> Configured:
    return Configured(
        tuple(
            SiblingRule(each.name, os.fsencode(repo.sibling_root(each)), each.track)
            for each in repo.sibling
        ),
        tuple(os.fsencode(pattern) for pattern in repo.contracts),
        tuple(os.fsencode(tree) for tree in repo.memory),
    )
