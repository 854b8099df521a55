"""What is installed for each agent: which hooks, where, by which command; and Codex's trust."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from amend.agents.install_trust import Trust, states_in, trust_of
from amend.agents.installing import (
    OWN_TIMEOUT_S,
    TARGETS,
    TIMEOUT_S,
    Bound,
    Client,
    Target,
    api_socket,
    bounds,
    client_of,
    command,
    groups,
    hook_socket,
)
from amend.agents.known import AGENTS
from amend.cli import hooks
from amend.edge.service import API_SOCKET, hook_socket_path
from amend.errors import DocumentInvalid, Refused
from amend.formats.agent_settings import OwnHook, add_hooks, is_own, own_hooks

RUNTIME = "/run/user/1000/amend"
CLAUDE, CODEX = TARGETS["claude"], TARGETS["codex"]
EVERY = [(t, c, b) for t in TARGETS.values() for c in Client for b in Bound]


def everywhere(target: Target, client: Client) -> dict[Bound, Client]:
    return dict.fromkeys(bounds(target), client)


def test_every_agent_that_amend_answers_can_be_installed_into() -> None:
    assert TARGETS.keys() == AGENTS.keys() == set(hooks.AGENTS)
    assert all(target.name == name for name, target in TARGETS.items())
    assert [client.value for client in Client] == list(hooks.CLIENTS)


@pytest.mark.parametrize("name", TARGETS)
def test_the_sockets_are_the_daemons(name: str) -> None:
    assert hook_socket(TARGETS[name], RUNTIME) == str(hook_socket_path(Path(RUNTIME), name))
    assert api_socket(RUNTIME) == f"{RUNTIME}/{API_SOCKET}"


@pytest.mark.parametrize(("target", "client", "bound"), EVERY)
def test_a_command_is_one_line_says_whose_it_is_and_is_told_from_others(
    target: Target, client: Client, bound: Bound
) -> None:
    text = command(target, client, bound, RUNTIME)

    assert is_own(text)
    assert "\n" not in text
    assert client_of(text, target, bound, RUNTIME) is client
    assert client_of(text, target, bound, "/run/user/1001/amend") is None


def test_the_nc_command_is_as_short_as_can_be() -> None:
    assert command(CLAUDE, Client.NC, Bound.AGENT, RUNTIME) == (
        "[ -S /run/user/1000/amend/hooks/claude.sock ] && "
        "o=$(nc -N -w 1 -U /run/user/1000/amend/hooks/claude.sock 2>/dev/null) && "
        'case $o in \\{*\\}) printf %s "$o";; esac; exit 0 # amend hook'
    )


@pytest.mark.parametrize("name", TARGETS)
def test_no_hook_can_hinder_the_agent(name: str) -> None:
    target = TARGETS[name]
    documents = [group.document() for group in groups(target, everywhere(target, Client.NC), "/r")]

    for document in documents:
        (handler,) = document["hooks"]
        assert handler.keys() == {"type", "command", "timeout"}  # no async, if or onFailure
        assert document.keys() <= {"matcher", "hooks"}
        assert handler["timeout"] <= 1
    assert "WorktreeCreate" not in {wanted.event for wanted in target.wanted}
    assert OWN_TIMEOUT_S < TIMEOUT_S <= target.timeout_s


def test_codex_is_given_whole_seconds_and_commands_that_end_themselves() -> None:
    for group in groups(CODEX, everywhere(CODEX, Client.NC), RUNTIME):
        text = json.dumps(group.document())
        assert '"timeout": 1}' in text
        assert f"timeout {OWN_TIMEOUT_S} nc" in text


def test_what_claude_shows_when_it_is_cut_ends_itself() -> None:
    of_event = {g.event: g for g in groups(CLAUDE, everywhere(CLAUDE, Client.NC), RUNTIME)}

    assert f"timeout {OWN_TIMEOUT_S} nc" in of_event["UserPromptSubmit"].command
    assert "timeout" not in of_event["PreToolUse"].command


def test_settings_are_where_the_agents_variable_says() -> None:
    assert CLAUDE.user_path({}, "/home/ada") == "/home/ada/.claude/settings.json"
    assert CODEX.user_path({}, "/home/ada") == "/home/ada/.codex/hooks.json"
    assert CODEX.user_path({"CODEX_HOME": "/elsewhere"}, "/home/ada") == "/elsewhere/hooks.json"
    assert CLAUDE.user_path({"CLAUDE_CONFIG_DIR": "/c"}, "/home/ada") == "/c/settings.json"
    assert CLAUDE.project_path("/src/shop") == "/src/shop/.claude/settings.json"


def test_a_socket_whose_path_is_no_utf_8_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        command(CLAUDE, Client.NC, Bound.AGENT, os.fsdecode(b"/run/caf\xe9"))

    assert "no UTF-8" in refused.value.message


# -- what Codex trusts -------------------------------------------------------------------------

PATH = "/home/ada/.codex/hooks.json"

# As Codex 0.171.0 wrote it after "Trust all and continue", to commands that did not look for the
# socket first (`recorded`).
IS_THERE = "[ -S /run/user/1000/amend/hooks/codex.sock ] && "
RECORDED = b"""
model = "gpt-5.1-codex"

[hooks.state]

[hooks.state."/home/ada/.codex/hooks.json:pre_tool_use:0:0"]
trusted_hash = "sha256:8bdb41b273e1a55328600360ad5cd84b54e5abb5ec55e51b3e3841533ee3ff76"

[hooks.state."/home/ada/.codex/hooks.json:post_tool_use:0:0"]
trusted_hash = "sha256:b71ed22adc16eace2fc63b04556d634495c510e09a6d6083f433393845f3fa25"

[hooks.state."/home/ada/.codex/hooks.json:session_start:0:0"]
trusted_hash = "sha256:f51ea68bc119e0be62fc5cf9ca2e1209a304cca6b0fc80bca1b0b5a851aed48f"

[hooks.state."/home/ada/.codex/hooks.json:user_prompt_submit:0:0"]
trusted_hash = "sha256:2f49ded02875c785bc2c7411a0fc88022b6f5894c8b2f6a98e8a631c540a016f"

[hooks.state."/home/ada/.codex/hooks.json:subagent_stop:0:0"]
trusted_hash = "sha256:cb16db2f84aeae63d6e05f5424a449097169e0db480e336abbe1232a516fb0b5"
"""


def codex_hooks(client: Client = Client.NC) -> tuple[OwnHook, ...]:
    return own_hooks(add_hooks(None, groups(CODEX, everywhere(CODEX, client), RUNTIME)))


def recorded(client: Client = Client.NC) -> tuple[OwnHook, ...]:
    hooks = codex_hooks(client)
    return tuple(replace(hook, command=hook.command.replace(IS_THERE, "")) for hook in hooks)


def test_hooks_that_codex_trusts_are_known_by_their_hash() -> None:
    states = states_in(RECORDED)

    assert {trust_of(hook, PATH, states) for hook in recorded()} == {Trust.TRUSTED}


def test_a_hook_that_changed_since_or_is_elsewhere_is_not_trusted() -> None:
    states = states_in(RECORDED)

    assert {trust_of(h, PATH, states) for h in codex_hooks(Client.CURL)} == {Trust.CHANGED}
    assert {trust_of(h, "/other", states) for h in recorded()} == {Trust.UNTRUSTED}
    assert {trust_of(h, PATH, {}) for h in recorded()} == {Trust.UNTRUSTED}


def test_a_hook_that_was_switched_off_is_told_apart() -> None:
    states = states_in(RECORDED.replace(b"trusted_hash", b"enabled = false\ntrusted_hash"))

    assert {trust_of(hook, PATH, states) for hook in recorded()} == {Trust.OFF}


@pytest.mark.parametrize("config", [b"", b"hooks = 1", b"[hooks]\nstate = []", b"[a]\nb = 1"])
def test_a_config_without_trust_trusts_nothing(config: bytes) -> None:
    assert states_in(config) == {}


def test_a_config_that_is_no_toml_is_refused() -> None:
    with pytest.raises(DocumentInvalid):
        states_in(b"[hooks")
