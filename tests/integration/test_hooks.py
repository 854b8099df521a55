"""What sessions are answered, on a real repository; matching is told what to find."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from amend.core.agent import Question, digest_of
from amend.core.matching import Match
from amend.core.model import EntryName, Kind, Place, Source, SourceKind, Version
from amend.daemon.answers import Answers
from amend.daemon.hooks import Hooks, HookSettings
from amend.daemon.tending import Options, Tending
from amend.edge.store import Store
from amend.edge.store_hooks import Exploration, Use
from amend.formats.agent_cache import topic_payload
from amend.formats.config import EXPLORERS, Explore
from tests.agent_exchanges import ClaudePlace, CodexPlace
from tests.integration.git_repositories import new_repository

AUTH, ROUTES = EntryName(Kind.TOPIC, "auth"), EntryName(Kind.TOPIC, "routes")
SAID = {AUTH: "Sessions are JWTs, revoked through Redis.", ROUTES: "Routes are generated."}


@dataclass
class Heard:
    """Stands for the captures."""

    questions: list[Question] = field(default_factory=list)

    def hear(self, question: Question) -> None:
        self.questions.append(question)

    starting = launched = ended = failed = hear


class Finding:
    """Stands for matching: `found` is what every question finds."""

    def __init__(self) -> None:
        self.found: list[Match] = []

    def rank(self, question: str, limit: int = 5) -> list[Match]:
        return self.found[:limit]

    async def find(
        self, question: str, limit: int = 5, *, within_s: float | None = None
    ) -> list[Match]:
        return self.rank(question, limit)

    def warm(self) -> None:
        pass

    def finds(self, *names: EntryName, confident: bool = True) -> None:
        self.found = [Match(name, 1.0, confident, True, ()) for name in names]


class World:
    def __init__(self, root: Path, home: Path, store: Store) -> None:
        self.repository = new_repository(root, home)
        self.repository.commit("begin", **{"auth.py": "one\n", "redis.py": "two\n", "r.py": "x\n"})
        self.store = store
        self.captures, self.finder = Heard(), Finding()
        self.claude = ClaudePlace(directory=str(root))
        self.codex = CodexPlace(directory=str(root))
        self.bugs: list[BaseException] = []
        self.settings = HookSettings(Explore.ANSWER, frozenset(EXPLORERS))
        self.restart()
        self.put(AUTH, b"auth.py", b"redis.py")
        self.put(ROUTES, b"r.py")

    def restart(self) -> None:
        self.tending = Tending(self.store, None, None, Options(), inline_bytes_max=None)
        self.worktree = self.tending.add(os.fsencode(self.repository.root))
        self.worktree.finder = self.finder  # type: ignore[assignment]
        self.hooks = Hooks(
            self.tending,
            Answers(self.tending, "0"),
            self.captures,
            settings=self.settings,
            on_bug=self.bugs.append,
        )

    def put(self, name: EntryName, *paths: bytes) -> None:
        sources = tuple(Source(SourceKind.FILE, path) for path in paths)  # type: ignore[arg-type]
        looks = tuple(self.worktree.memory.ground.look(source) for source in sources)
        ts = datetime.now(UTC)
        payload = topic_payload(SAID[name], [path.decode() for path in paths], ts)
        version = Version(0, sources, looks, ts)
        self.worktree.memory.put(name, version, payload, Place.STORE)

    async def settle(self) -> None:
        """As the watch and git would have it a moment later."""
        self.worktree.refresh_head()
        self.worktree.memory.touched(list(self.worktree.memory.ground.held()))
        while not self.worktree.settled:
            await self.worktree.ask_git()

    async def ask(self, document: dict[str, Any], agent: str = "claude") -> dict[str, Any]:
        reply = await self.hooks.exchange(agent, orjson.dumps(document))
        assert self.bugs == []
        return json.loads(reply) if reply else {}

    async def context(self, document: dict[str, Any], agent: str = "claude") -> str:
        reply = await self.ask(document, agent)
        return str(reply.get("hookSpecificOutput", {}).get("additionalContext", ""))

    async def explore(self, call: str = "toolu_1", **fields: Any) -> dict[str, Any]:
        reply = await self.ask(self.claude.before_agent(call, **fields))
        return dict(reply.get("hookSpecificOutput", {}))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with closing(Store(str(tmp_path / "db"))) as store:
        yield World(tmp_path / "main", tmp_path / "home", store)


# -- sessions --------------------------------------------------------------------------------------


async def test_a_session_opens_with_what_is_known(world: World) -> None:
    text = await world.context(world.claude.session_start())

    assert "| routes, auth" in text
    assert "No longer true" not in text


@pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact", "fork"])
async def test_every_opening_is_answered(world: World, source: str) -> None:
    assert "auth" in await world.context(world.claude.session_start(source))


async def test_a_repository_of_which_nothing_is_known_says_nothing(
    world: World, tmp_path: Path
) -> None:
    empty = new_repository(tmp_path / "empty", tmp_path / "home")
    world.tending.add(os.fsencode(empty.root))

    assert await world.ask(ClaudePlace(directory=str(empty.root)).session_start()) == {}


async def test_a_directory_that_is_not_registered_says_nothing(
    world: World, tmp_path: Path
) -> None:
    assert await world.ask(ClaudePlace(directory=str(tmp_path)).session_start()) == {}


async def test_the_next_session_reads_what_went_stale_and_by_which_commit(world: World) -> None:
    await world.context(world.claude.session_start())
    world.repository.commit("rotate the tokens", **{"auth.py": "changed\n"})
    await world.settle()

    text = await world.context(world.claude.session_start())
    again = await world.context(world.claude.session_start())

    commit = world.repository.head()[:10]
    assert f"| auth: auth.py: changed by commit {commit} (rotate the tokens)" in text
    assert "| routes" in text
    assert "No longer true" not in again


async def test_what_was_useful_comes_first(world: World) -> None:
    world.finder.finds(AUTH)
    await world.explore()

    text = await world.context(world.claude.session_start())

    assert "| auth, routes" in text


async def test_the_root_index_of_the_memory_tree_is_read(world: World) -> None:
    world.repository.write("memory/index.aicontext", "# memory\ndir: decisions/ | why\n")
    world.repository.write("memory/decisions/a.aicontext", "2026-01-01: a\n  - b\n")
    await world.worktree.trees[0].refresh()

    text = await world.context(world.claude.session_start())

    assert "\n| dir: decisions/ | why" in text


# -- prompts ---------------------------------------------------------------------------------------


async def test_a_prompt_is_shown_a_finding_once_a_session(world: World) -> None:
    world.finder.finds(AUTH, confident=False)

    first = await world.context(world.claude.prompt("how does auth work"))
    second = await world.ask(world.claude.prompt("and again, auth"))
    other = await world.context(
        ClaudePlace(session="other", directory=world.claude.directory).prompt("auth")
    )

    assert "auth, resting on auth.py, redis.py\n| Sessions are JWTs" in first
    assert second == {}
    assert "Sessions are JWTs" in other


async def test_a_restart_of_the_daemon_shows_nothing_twice(world: World) -> None:
    world.finder.finds(AUTH)
    await world.context(world.claude.prompt("auth"))

    world.restart()

    assert await world.ask(world.claude.prompt("auth")) == {}


async def test_at_most_two_findings_stand_beside_a_prompt(world: World) -> None:
    third = EntryName(Kind.TOPIC, "third")
    SAID[third] = "the third"
    world.put(third, b"r.py")
    world.finder.finds(AUTH, ROUTES, third)

    text = await world.context(world.claude.prompt("all of it"))

    assert "the third" not in text
    assert "Routes are generated" in text


async def test_a_stale_finding_is_not_shown_beside_a_prompt(world: World) -> None:
    world.finder.finds(AUTH)
    world.repository.write("auth.py", "changed\n")

    assert await world.ask(world.claude.prompt("auth")) == {}


async def test_prompts_inside_subagents_and_notifications_are_not_answered(world: World) -> None:
    world.finder.finds(AUTH)

    inside = await world.ask(world.claude.prompt("auth", agent_id="a1", agent_type="Explore"))
    notified = await world.ask(world.claude.notification("completed", "a1", "toolu_1", "auth"))

    assert (inside, notified) == ({}, {})


# -- explorations ----------------------------------------------------------------------------------


async def test_a_known_and_fresh_exploration_is_answered_once_and_then_runs(world: World) -> None:
    world.finder.finds(AUTH)

    first = await world.explore("toolu_1")
    second = await world.explore("toolu_2")

    assert first["permissionDecision"] == "deny"
    assert "all 2 files unchanged" in first["permissionDecisionReason"]
    assert f"at commit {world.repository.head()[:10]}" in first["permissionDecisionReason"]
    assert "\n| Sessions are JWTs" in first["permissionDecisionReason"]
    assert second == {}
    assert [type(each).__name__ for each in world.captures.questions] == ["ExplorationStarting"]


async def test_a_refusal_is_remembered_across_a_restart_of_the_daemon(world: World) -> None:
    world.finder.finds(AUTH)
    await world.explore("toolu_1")

    world.restart()

    assert await world.explore("toolu_2") == {}


async def test_all_that_was_found_out_is_told_where_it_is_kept(world: World) -> None:
    world.finder.finds(AUTH)
    known = world.worktree.memory.known(AUTH)
    assert known is not None
    with world.store.transaction():
        world.store.hooks.save_detail(known.entry.versions[0].id, "The whole\nanswer.")

    told = await world.explore()

    assert "\n| The whole\n| answer." in told["permissionDecisionReason"]


async def test_what_changed_since_gives_a_head_start_with_the_whole_input(world: World) -> None:
    world.finder.finds(AUTH)
    world.repository.commit("rotate", **{"auth.py": "changed\n"})
    await world.settle()

    told = await world.explore(prompt="Explore auth.")

    updated = told["updatedInput"]
    assert "permissionDecision" not in told
    assert set(updated) == {"description", "prompt", "subagent_type"}
    assert updated["prompt"].startswith("Explore auth.\n")
    assert f"| auth.py: changed by commit {world.repository.head()[:10]}" in updated["prompt"]
    assert "Unchanged, so verified: redis.py" in updated["prompt"]


async def test_a_weaker_match_that_is_fresh_gives_a_head_start(world: World) -> None:
    world.finder.finds(AUTH, confident=False)

    told = await world.explore()

    assert "all verified, resting on auth.py, redis.py" in told["updatedInput"]["prompt"]


@pytest.mark.parametrize(
    ("explore", "key"),
    [(Explore.HEAD_START, "updatedInput"), (Explore.INFORM, "additionalContext")],
)
async def test_the_setting_says_how_much_an_exploration_is_told(
    world: World, explore: Explore, key: str
) -> None:
    world.finder.finds(AUTH)
    world.hooks.settings = HookSettings(explore, frozenset(EXPLORERS))

    told = await world.explore()

    assert set(told) == {"hookEventName", key}


async def test_off_says_nothing_and_still_captures(world: World) -> None:
    world.finder.finds(AUTH)
    world.hooks.settings = HookSettings(Explore.OFF, frozenset(EXPLORERS))

    assert await world.explore() == {}
    assert len(world.captures.questions) == 1


async def test_only_exploring_agents_are_answered_or_captured(world: World) -> None:
    world.finder.finds(AUTH)

    assert await world.explore(subagent_type="general-purpose") == {}
    assert world.captures.questions == []


async def test_an_exploration_from_inside_a_subagent_is_never_answered(world: World) -> None:
    world.finder.finds(AUTH)

    assert await world.explore(agent_id="a1", agent_type="Explore") == {}


async def test_what_is_not_known_is_a_miss(world: World) -> None:
    assert await world.explore() == {}
    assert world.store.hooks.totals() == {Use.MISS.value: (1, 0)}


async def test_the_end_of_an_exploration_is_captured_and_says_nothing(world: World) -> None:
    launched = await world.ask(world.claude.after_launch("toolu_1", "a1"))
    stopped = await world.ask(world.claude.stop("a1", "what was found"))

    assert (launched, stopped) == ({}, {})
    assert [type(each).__name__ for each in world.captures.questions] == [
        "ExplorationLaunched",
        "ExplorationEnded",
    ]


async def test_the_very_same_task_is_known_whatever_words_its_finding_has(world: World) -> None:
    asked = digest_of("Explore the code", "Find everything out.")
    known = world.worktree.memory.known(AUTH)
    assert known is not None
    version, repo = known.entry.versions[0].id, world.worktree.id
    now = datetime.now(UTC)
    done = Exploration("claude", "a1", "s", repo, AUTH, version, asked, "task", 9, 1.0, now)
    with world.store.transaction():
        world.store.hooks.add_exploration(done)

    told = await world.explore(description="explore  the code", prompt="find everything OUT.")
    other = await world.explore("toolu_2", description="Explore the code", prompt="Something else.")

    assert told["permissionDecision"] == "deny"
    assert other == {}
    assert world.store.hooks.totals()["hit"] == (1, 9)


async def test_what_comes_too_late_was_not_told(world: World) -> None:
    world.finder.finds(AUTH)
    times = iter([0.0, 1.0, 2.0, 2.0])
    world.hooks._monotonic_s = lambda: next(times)

    late = await world.explore("toolu_1")
    next_one = await world.explore("toolu_2")

    assert late == {}
    assert next_one["permissionDecision"] == "deny"


# -- edits -----------------------------------------------------------------------------------------


async def test_an_edit_is_applied_at_once_and_named_at_the_next_prompt_once(world: World) -> None:
    world.finder.finds(AUTH)
    await world.context(world.claude.prompt("auth"))
    world.finder.found = []
    world.repository.write("auth.py", "edited by the session\n")

    edited = await world.ask(world.claude.after_edit(str(world.repository.root / "auth.py")))
    known = world.worktree.memory.known(AUTH)
    first = await world.context(world.claude.prompt("go on"))
    second = await world.ask(world.claude.prompt("go on"))

    assert edited == {}
    assert known is not None
    assert known.judgement.verdict.value == "stale"
    assert "auth, which this session was told, is no longer true: auth.py: changed" in first
    assert "`amend put auth auth.py redis.py --summary '…'` writes it anew" in first
    assert second == {}


async def test_an_edit_that_the_watch_saw_first_is_named_as_well(world: World) -> None:
    world.finder.finds(AUTH)
    await world.context(world.claude.prompt("auth"))
    world.repository.write("auth.py", "edited by the session\n")
    world.worktree.memory.touched([Source(SourceKind.FILE, b"auth.py")])  # type: ignore[arg-type]

    await world.ask(world.claude.after_edit("auth.py"))

    assert "is no longer true" in await world.context(world.claude.prompt("go on"))


async def test_what_the_session_was_not_shown_is_not_named(world: World) -> None:
    world.repository.write("auth.py", "edited by the session\n")

    await world.ask(world.claude.after_edit("auth.py"))

    assert await world.ask(world.claude.prompt("go on")) == {}


# -- the other agent, and what is wrong ------------------------------------------------------------


async def test_codex_is_answered_the_same(world: World) -> None:
    world.finder.finds(AUTH)

    first = await world.ask(world.codex.before_spawn("call_1"), "codex")
    second = await world.ask(world.codex.before_spawn("call_2"), "codex")

    assert first["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert second == {}


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"{}", b'{"hook_event_name": 3}', b"\xff" * 100]
)
async def test_what_is_no_hook_input_is_answered_with_nothing(world: World, body: bytes) -> None:
    reply = await world.hooks.exchange("claude", body)

    assert reply == b""
    assert world.bugs == []
    assert world.hooks.failed == 1
