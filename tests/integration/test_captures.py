"""What explorations find is stored: real files, real git, transcripts in the recorded shape.

Nothing here waits for a file's time to pass: an exploration whose looks lie in the future has seen
files as they are now, one whose looks lie in the past has seen them before they were written.
"""

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from amend.core.agent import (
    ExplorationEnded,
    ExplorationFailed,
    ExplorationLaunched,
    ExplorationStarting,
    Session,
)
from amend.core.model import EntryName, Judgement, Kind, SiblingRule, Verdict
from amend.core.wording import HEAD
from amend.daemon.captures import Captures, Stored
from amend.daemon.memory import Known
from amend.daemon.tending import Options, Tending
from amend.daemon.worktree import Worktree
from amend.edge.store import Store
from amend.formats.agent_cache import parse, summary_and_files
from tests.conftest import Repository
from tests.transcripts import (
    Step,
    Steps,
    bash,
    claude_meta,
    claude_transcript,
    codex_rollout,
    failed_read,
    read,
    say,
    spawn,
)

TASK = "Find out how the auth system works."
FOUND = "Login is issued in `src/auth.py:3`. It is revoked elsewhere."
AUTH = "".join(f"line {number}\n" for number in range(1, 41))
FILES: dict[str, str | bytes] = {"src/auth.py": AUTH, "src/db.py": "db\n", "README.md": "shop\n"}

LATER, EARLIER = timedelta(minutes=1), timedelta(minutes=-1)


@dataclass(frozen=True)
class Match:
    name: EntryName
    is_confident: bool = True
    is_clear: bool = True


@dataclass(frozen=True)
class Explorers:
    explorers: frozenset[str] = frozenset({"Explore", "explorer"})


class World:
    """A repository that amend tends, and an agent that explores in it."""

    def __init__(self, repository: Repository, agents: Path, *, again_s: Sequence[float]) -> None:
        self.git = repository
        self.agents = agents
        agents.mkdir()
        self.at = datetime.now(UTC)
        self.store = Store(":memory:")
        options = Options(quiet_s=0.0, retain_dir=os.fsencode(agents))
        self.tending = Tending(self.store, None, None, options, inline_bytes_max=1 << 20)
        self.worktree = self.tending.add(os.fsencode(repository.root))
        self.told: list[Stored] = []
        self.bugs: list[BaseException] = []
        self.matches: list[Match] = []
        self.questions: list[str] = []
        self.captures = Captures(
            self.tending,
            settings=Explorers,
            now=lambda: self.at,
            on_stored=self.told.append,
            on_bug=self.bugs.append,
            ranked=self._ranked,
            again_s=again_s,
        )

    async def _ranked(self, worktree: Worktree, question: str) -> Sequence[Match]:
        self.questions.append(question)
        return self.matches

    # -- what the agent does ---------------------------------------------------------------------

    def session(self, subagent: str | None = None, directory: str | Path = "") -> Session:
        return Session("claude", "s1", str(directory or self.git.root), subagent)

    def starting(self, call: str, description: str = "Explore auth", prompt: str = TASK) -> None:
        asked = ExplorationStarting(self.session(), call, "Explore", description, prompt)
        self.captures.starting(asked)

    def launched(self, call: str, exploration: str) -> None:
        self.captures.launched(ExplorationLaunched(self.session(), call, exploration))

    def transcript(self, exploration: str) -> Path:
        return self.agents / f"agent-{exploration}.jsonl"

    def write(
        self,
        exploration: str,
        *steps: Step | Sequence[Step],
        began: timedelta = LATER,
        cwd: str | Path = "",
        prompt: str = TASK,
        description: str = "",
    ) -> None:
        """Its transcript. Not `description`: with nothing beside it."""
        data = claude_transcript(
            prompt=prompt,
            steps=steps,
            cwd=str(cwd or self.git.root),
            began=datetime.now(UTC) + began,
        )
        self.transcript(exploration).write_bytes(data)
        if description:
            meta = claude_meta(call=f"call-{exploration}", description=description)
            self.transcript(exploration).with_suffix(".meta.json").write_bytes(meta)

    def stopped(
        self, exploration: str, text: str = FOUND, directory: str | Path = "", kind: str = "Explore"
    ) -> None:
        said = ExplorationEnded(
            self.session(exploration, directory),
            exploration,
            kind,
            text,
            str(self.transcript(exploration)),
        )
        self.captures.ended(said)

    async def explore(
        self,
        *steps: Step | Sequence[Step],
        exploration: str = "e1",
        text: str = FOUND,
        began: timedelta = LATER,
        cwd: str | Path = "",
        prompt: str = TASK,
    ) -> None:
        """From its beginning to its end."""
        self.starting(f"call-{exploration}", prompt=prompt)
        self.launched(f"call-{exploration}", exploration)
        self.write(exploration, *steps, say(text), began=began, cwd=cwd)
        self.stopped(exploration, text, directory=cwd)
        await self.settle()

    async def settle(self) -> None:
        await self.captures.settle()
        assert self.bugs == []

    def read(self, path: str, *, offset: int | None = None, limit: int | None = None) -> Step:
        """The Read tool, which shows what the file holds now."""
        file = self.git.root / path
        return read(str(file), offset, limit, content=file.read_text())

    # -- what is known ---------------------------------------------------------------------------

    @property
    def keys(self) -> list[str]:
        return [name.key for name in self.worktree.memory.names()]

    def known(self, key: str = "auth") -> Known:
        known = self.worktree.memory.known(EntryName(Kind.TOPIC, key))
        assert known is not None, self.captures.figures()
        return known

    def files(self, key: str = "auth") -> list[str]:
        return [source.spec for source in self.known(key).entry.versions[0].sources]

    def summary(self, key: str = "auth") -> str:
        known = self.known(key)
        payload = self.store.recorded(known.entry.versions[0].id).payload
        return summary_and_files(known.entry.name, payload)[0]

    def detail(self, key: str = "auth") -> str | None:
        return self.store.hooks.detail(self.known(key).entry.versions[0].id)

    async def judged(self, key: str = "auth") -> Judgement:
        return await self.worktree.memory.answer(self.known(key))

    async def verdict(self, key: str = "auth") -> Verdict:
        return (await self.judged(key)).verdict

    async def causes(self, key: str = "auth") -> list[str]:
        return [f"{cause.kind} {cause.source}" for cause in (await self.judged(key)).causes]


@pytest.fixture
def world(git: Callable[..., Repository], tmp_path: Path) -> World:
    return World(git("shop", FILES), tmp_path / "agents", again_s=())


# -- what is stored --------------------------------------------------------------------------------


async def test_an_exploration_is_stored_with_exactly_the_files_it_read(world: World) -> None:
    await world.explore(world.read("src/auth.py"), bash("cat src/db.py", "db\n"))

    assert world.keys == ["auth"]
    assert world.files() == ["src/auth.py", "src/db.py"]
    assert world.summary() == "Login is issued in src/auth.py:3. It is revoked elsewhere."
    assert world.detail() == FOUND
    assert await world.verdict() is Verdict.FRESH
    assert [told.name.key for told in world.told] == ["auth"]


async def test_the_finding_reaches_the_cache_file(world: World) -> None:
    loop = asyncio.get_running_loop()
    world.tending.start(loop)
    await world.tending.sync()

    await world.explore(world.read("src/auth.py"))

    path = world.git.root / ".agent-cache.json"
    async with asyncio.timeout(4):
        while not path.exists():  # noqa: ASYNC110 - the writer has no event
            await asyncio.sleep(0.01)
    entry = parse(path.read_bytes()).entries[EntryName(Kind.TOPIC, "auth")]
    assert entry.files == ("src/auth.py",)
    assert entry.summary == "Login is issued in src/auth.py:3. It is revoked elsewhere."
    assert entry.ts is not None
    assert abs(entry.ts - world.at) < timedelta(milliseconds=1)
    await world.tending.stop()


async def test_what_it_has_cost_is_noted(world: World) -> None:
    await world.explore(world.read("src/auth.py"), world.read("src/db.py"))

    name = EntryName(Kind.TOPIC, "auth")
    assert world.store.hooks.cost(world.worktree.id, name) == 3 * (1000 + 20 + 300 + 50)
    stored = world.store.hooks.exploration("claude", "e1")
    assert stored == (world.worktree.id, name, world.known().entry.versions[0].id)


async def test_only_what_explores_is_stored(world: World) -> None:
    world.write("e1", world.read("src/auth.py"), say(FOUND))

    for kind in ("", "general-purpose"):
        world.stopped("e1", kind=kind)
    await world.settle()

    assert world.keys == []


async def test_an_exploration_elsewhere_is_not_stored(world: World, tmp_path: Path) -> None:
    world.write("e1", read(str(tmp_path / "other/a.py")), say(FOUND), cwd=tmp_path)

    world.stopped("e1", directory=tmp_path)
    await world.settle()

    assert world.keys == []
    assert world.captures.dropped == {"no_worktree": 1}


async def test_what_lies_outside_is_left_out_and_counted(world: World, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x\n")

    await world.explore(world.read("src/auth.py"), read(str(tmp_path / "notes.txt")))

    assert world.files() == ["src/auth.py"]
    assert world.captures.left_out == 1


async def test_an_exploration_that_read_nothing_is_not_stored(world: World) -> None:
    await world.explore(text="I know nothing.")

    assert world.keys == []
    assert world.captures.dropped == {"nothing_read": 1}


async def test_files_that_the_answer_names_and_exist_are_sources(world: World) -> None:
    await world.explore(world.read("src/db.py"), text="See README.md, src/gone.py and src/.")

    assert world.files() == ["src/db.py", "README.md"]


async def test_what_amend_writes_itself_is_no_source(world: World) -> None:
    world.git.write(".agent-cache.json", "{}\n")
    world.git.write("memory/index.aicontext", "")

    await world.explore(
        world.read(".agent-cache.json"),
        world.read("memory/index.aicontext"),
        world.read("src/db.py"),
        text="In src/db.py.",
    )

    assert world.files() == ["src/db.py"]


async def test_a_path_through_a_symlink_to_the_repository_is_the_repositorys(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(world.git.root)

    await world.explore(read(str(tmp_path / "link/src/db.py")), cwd=tmp_path / "link", text="Ok.")

    assert world.files() == ["src/db.py"]


# -- as of the reading -----------------------------------------------------------------------------


async def test_a_file_that_changed_after_it_was_read_makes_the_entry_stale_at_birth(
    world: World,
) -> None:
    await world.explore(world.read("src/auth.py"), began=EARLIER)

    assert await world.verdict() is Verdict.STALE
    assert await world.causes() == ["edited src/auth.py"]


async def test_of_two_files_only_the_one_that_changed_is_a_cause(world: World) -> None:
    before = read(str(world.git.root / "README.md"), content="shop\n", at=-130.0)
    after = read(str(world.git.root / "src/db.py"), content="db\n", at=1.0)

    await world.explore(before, after, text="Ok.")

    assert await world.causes() == ["edited README.md"]


async def test_a_link_that_leads_elsewhere_since_makes_the_entry_stale(world: World) -> None:
    link, ms = world.git.root / "current", 1_000_000
    written_ns = (world.git.root / "README.md").stat().st_ctime_ns
    link.symlink_to("src/db.py")
    while link.lstat().st_ctime_ns < written_ns + 50 * ms:
        link.unlink()
        link.symlink_to("README.md")
    read_at = datetime.fromtimestamp((written_ns + 35 * ms) / 1e9, UTC)
    since = (read_at - datetime.now(UTC)).total_seconds()

    step = read(str(link), content="db\n", at=since)
    await world.explore(step, world.read("README.md"), began=timedelta(), text="Ok.")

    assert "edited current" in await world.causes()


async def test_the_last_look_at_all_of_a_file_counts(world: World) -> None:
    path = str(world.git.root / "src/db.py")
    again = read(path, content="db\n", at=1.0)

    await world.explore(read(path, content="db\n", at=-130.0), again, text="Ok.")

    assert await world.verdict() is Verdict.FRESH


async def test_a_file_that_is_gone_since_makes_the_entry_stale(world: World) -> None:
    steps = [world.read("src/db.py"), world.read("src/auth.py")]
    (world.git.root / "src/db.py").unlink()

    await world.explore(*steps)

    assert world.files() == ["src/db.py", "src/auth.py"]
    assert await world.causes() == ["deleted src/db.py"]


async def test_a_file_gone_since_a_command_showed_it_is_known_by_git(world: World) -> None:
    (world.git.root / "src/db.py").unlink()

    await world.explore(bash("cat src/db.py", "db\n"), bash("cat src/no.py", "x\n"), text="Ok.")

    assert await world.causes() == ["deleted src/db.py"]
    assert world.files() == ["src/db.py"]


async def test_a_file_that_was_not_there_is_a_source_as_absent(world: World) -> None:
    await world.explore(failed_read(str(world.git.root / "src/new.py")), world.read("src/db.py"))

    assert world.files() == ["!src/new.py", "src/db.py", "src/auth.py"]
    assert await world.verdict() is Verdict.FRESH
    world.git.write("src/new.py", "now\n")
    assert await world.causes() == ["appeared !src/new.py"]


async def test_a_file_that_has_appeared_since_makes_the_entry_stale(world: World) -> None:
    step = failed_read(str(world.git.root / "src/db.py"))

    await world.explore(step, world.read("src/auth.py"), began=EARLIER)

    assert "appeared !src/db.py" in await world.causes()


async def test_a_file_that_was_not_there_and_was_read_later_is_a_file(world: World) -> None:
    path = str(world.git.root / "src/db.py")

    await world.explore(failed_read(path), read(path, content="db\n"), text="Ok.")

    assert world.files() == ["src/db.py"]


# -- evidence --------------------------------------------------------------------------------------


async def test_a_change_of_lines_that_were_not_read_leaves_the_entry_fresh(world: World) -> None:
    await world.explore(world.read("src/auth.py", offset=3, limit=5))
    assert await world.verdict() is Verdict.FRESH

    world.git.write("src/auth.py", AUTH.replace("line 20\n", "another\n"))
    judged = await world.judged()

    assert judged.verdict is Verdict.FRESH
    assert judged.drift == ("src/auth.py",)


async def test_a_change_of_a_line_that_was_read_makes_it_stale(world: World) -> None:
    await world.explore(world.read("src/auth.py", offset=3, limit=5))

    world.git.write("src/auth.py", AUTH.replace("line 5\n", "another\n"))

    assert await world.causes() == ["edited src/auth.py", "evidence src/auth.py"]


async def test_of_a_file_that_was_read_as_a_whole_any_byte_counts(world: World) -> None:
    await world.explore(world.read("src/auth.py", offset=3, limit=5), world.read("src/auth.py"))

    world.git.write("src/auth.py", AUTH.replace("line 20\n", "another\n"))

    assert await world.causes() == ["edited src/auth.py"]


async def test_lines_that_hold_a_secret_are_not_kept(world: World) -> None:
    secret = 'password = "hunter2xyz9"'
    world.git.write("src/auth.py", AUTH.replace("line 5", secret))

    await world.explore(world.read("src/auth.py", offset=3, limit=5))

    version = world.known().entry.versions[0]
    assert version.evidence == ()
    assert await world.verdict() is Verdict.FRESH


# -- one exploration, one entry --------------------------------------------------------------------


async def test_an_exploration_that_ends_again_has_said_its_last_then(world: World) -> None:
    await world.explore(world.read("src/auth.py"))
    world.write("e1", world.read("src/auth.py"), world.read("src/db.py"), say("Not in auth."))

    world.stopped("e1", "Not in auth.")
    await world.settle()

    assert world.keys == ["auth"]
    assert world.summary() == "Not in auth."
    assert world.files() == ["src/auth.py", "src/db.py"]


async def test_the_same_end_told_twice_is_stored_once(world: World) -> None:
    await world.explore(world.read("src/auth.py"))

    world.stopped("e1")
    await world.settle()

    assert world.captures.stored == 1
    assert len(world.known().entry.versions) == 1


async def test_an_end_that_comes_while_the_one_before_is_stored_wins(world: World) -> None:
    world.starting("c1")
    world.launched("c1", "e1")
    world.write("e1", world.read("src/auth.py"), say("First."), say("Last."))

    world.stopped("e1", "First.")
    await asyncio.sleep(0)
    world.stopped("e1", "Last.")
    await world.settle()

    assert world.summary() == "Last."
    assert world.captures.stored == 1


async def test_after_a_restart_it_is_still_the_same_entry(world: World) -> None:
    await world.explore(world.read("src/auth.py"))
    world.captures = Captures(
        world.tending, settings=Explorers, on_bug=world.bugs.append, ranked=world._ranked
    )
    world.write("e1", world.read("src/db.py"), say("In the db."), prompt="Another thing?")

    world.stopped("e1", "In the db.")
    await world.settle()

    assert world.keys == ["auth"]
    assert world.summary() == "In the db."


async def test_calls_launches_and_ends_may_come_in_any_order(world: World) -> None:
    async def told(exploration: str, *order: Callable[[], None]) -> None:
        world.write(exploration, world.read("src/db.py"), say(FOUND), prompt="-")
        for tell in order:
            tell()
        await world.settle()

    await told(
        "a",
        lambda: world.launched("c1", "a"),
        lambda: world.starting("c1", "First thing"),
        lambda: world.stopped("a"),
    )
    await told(
        "b",
        lambda: world.starting("c2", "Second thing"),
        lambda: world.stopped("b"),
        lambda: world.launched("c2", "b"),
    )
    foreground = ExplorationEnded(
        world.session(), "c", "Explore", FOUND, str(world.transcript("c")), "c3", TASK, "Told late"
    )
    await told("c", lambda: world.captures.ended(foreground))

    assert world.keys == ["first-thing", "second-thing", "told-late"]


async def test_what_was_asked_stands_beside_the_transcript(world: World) -> None:
    world.write("e1", world.read("src/db.py"), say(FOUND), description="Find the database")

    world.stopped("e1")
    await world.settle()

    assert world.keys == ["database"]


async def test_what_amend_said_to_the_exploration_is_not_what_it_was_asked(world: World) -> None:
    prompt = f"How is money kept?\n\n{HEAD}, checked today:\nAn earlier finding"
    world.write("e1", world.read("src/db.py"), say(FOUND), prompt=prompt)

    world.stopped("e1")
    await world.settle()

    assert world.keys == ["money-kept"]
    assert world.questions == ["How is money kept?"]


async def test_a_finding_goes_into_the_entry_that_the_task_matches(world: World) -> None:
    await world.explore(world.read("src/auth.py"))
    world.matches = [Match(EntryName(Kind.TOPIC, "auth"))]

    await world.explore(world.read("src/db.py"), exploration="e2", text="Now in the db.")

    assert world.keys == ["auth"]
    assert world.summary() == "Now in the db."


async def test_two_tasks_of_one_name_have_two_entries(world: World) -> None:
    await world.explore(world.read("src/auth.py"))

    await world.explore(
        world.read("src/db.py"), exploration="e2", text="Now in the db.", prompt="And the db?"
    )

    assert world.keys == ["auth", "auth-2"]


async def test_the_very_same_task_goes_into_the_entry_it_went_into_before(world: World) -> None:
    await world.explore(world.read("src/auth.py"))

    await world.explore(world.read("src/db.py"), exploration="e2", text="Now in the db.")

    assert world.keys == ["auth"]
    assert world.files() == ["src/db.py"]


# -- what is not stored ----------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["exploration", "call"])
async def test_what_was_killed_is_not_stored(world: World, by: str) -> None:
    world.starting("c1")
    world.launched("c1", "e1")
    world.write("e1", world.read("src/auth.py"), say(FOUND))
    world.stopped("e1")

    named = {"exploration": "e1"} if by == "exploration" else {"call": "c1"}
    world.captures.failed(ExplorationFailed(world.session(), **named))
    await world.settle()

    assert world.keys == []
    assert world.captures.dropped == {"failed": 1}


async def test_what_was_pending_for_hours_is_forgotten(world: World) -> None:
    world.starting("c1", "Explore auth")
    world.launched("c1", "e1")
    world.at += timedelta(hours=3)
    world.write("e1", world.read("src/auth.py"), say(FOUND), prompt="Something else")

    world.stopped("e1")
    await world.settle()

    assert world.keys == ["something-else"]


async def test_a_finding_with_a_secret_is_not_stored(world: World) -> None:
    token = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"

    await world.explore(world.read("src/auth.py"), text=f"The token is {token}.")

    assert world.keys == []
    assert world.captures.withheld == {"GitHub token": 1}
    assert token not in json.dumps(world.captures.figures())


async def test_what_another_exploration_found_out_for_it_is_part_of_it(world: World) -> None:
    inner = "toolu_" + f"{0:04}{0:018}"  # the transcript's first call
    world.launched(inner, "e0")
    world.write("e0", world.read("src/db.py"), say("In the db."))
    world.captures.ended(
        ExplorationEnded(
            world.session("e0"), "e0", "helper", "In the db.", str(world.transcript("e0"))
        )
    )

    await world.explore(spawn("And the db?"), world.read("src/auth.py"))

    assert world.files() == ["src/auth.py", "src/db.py"]


async def test_what_rests_on_another_exploration_that_is_not_known_is_not_stored(
    world: World,
) -> None:
    await world.explore(spawn("And the db?"), world.read("src/auth.py"))

    assert world.keys == []
    assert world.captures.dropped == {"unknown_part": 1}


async def test_another_exploration_that_could_not_run_is_no_part_of_it(world: World) -> None:
    inner = "toolu_" + f"{0:04}{0:018}"
    world.captures.failed(ExplorationFailed(world.session("e1"), call=inner))

    await world.explore(spawn("And the db?"), world.read("src/auth.py"))

    assert world.files() == ["src/auth.py"]


@pytest.mark.parametrize("kind", ["fifo", "directory", "missing"])
async def test_a_transcript_that_is_no_file_is_dropped(world: World, kind: str) -> None:
    path = world.transcript("e1")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()

    world.stopped("e1")
    await world.settle()

    assert sum(world.captures.dropped.values()) == 1


# -- transcripts that lag --------------------------------------------------------------------------


@pytest.fixture
def patient(git: Callable[..., Repository], tmp_path: Path) -> World:
    """One that reads a transcript again, and only then."""
    return World(git("shop", FILES), tmp_path / "agents", again_s=(0.05, 60.0))


async def test_a_transcript_that_lags_is_read_again(patient: World) -> None:
    world = patient
    world.write("e1", world.read("src/auth.py"))
    world.stopped("e1", "Both.")
    await asyncio.sleep(0)

    world.write("e1", world.read("src/auth.py"), world.read("src/db.py"), say("Both."))
    await world.settle()

    assert world.files("auth-system-works") == ["src/auth.py", "src/db.py"]
    assert world.captures.stored == 1


async def test_a_transcript_that_comes_later_is_read_then(patient: World) -> None:
    world = patient
    world.stopped("e1", "Both.")
    await asyncio.sleep(0)

    world.write("e1", world.read("src/db.py"), say("Both."))
    await world.settle()

    assert world.files("auth-system-works") == ["src/db.py"]


async def test_a_stop_stores_what_is_there_and_takes_nothing_more(patient: World) -> None:
    world = patient
    world.write("e1", world.read("src/db.py"))
    world.write("e2", world.read("src/auth.py"), say(FOUND))
    world.stopped("e1", "Half of it.")
    await asyncio.sleep(0)

    world.captures.stop()
    world.stopped("e2")
    await world.settle()

    assert world.summary("auth-system-works") == "Half of it."
    assert world.captures.stored == 1


async def test_a_stop_gives_up_what_hangs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amend.daemon.captures.STOP_S", 0.01)
    never = asyncio.Event()

    async def hanging(worktree: Worktree, question: str) -> Sequence[Match]:
        await never.wait()
        return []

    captures = Captures(world.tending, settings=Explorers, ranked=hanging)
    world.captures = captures
    world.write("e1", world.read("src/db.py"), say(FOUND))
    world.stopped("e1")

    captures.stop()
    await captures.settle()

    assert world.keys == []


# -- other places ----------------------------------------------------------------------------------


async def test_a_file_of_a_sibling_is_cited_by_the_siblings_name(
    world: World, git: Callable[..., Repository]
) -> None:
    backend = git("backend", {"api.py": "one\n"})
    rule = SiblingRule("backend", os.fsencode(backend.root))
    world.tending.add(os.fsencode(world.git.root), siblings=[rule])

    await world.explore(read(str(backend.root / "api.py"), content="one\n"), text="Ok.")

    assert world.files() == ["backend:api.py"]
    assert await world.verdict() is Verdict.FRESH
    backend.write("api.py", "two\n")
    assert await world.causes() == ["edited backend:api.py"]


async def test_a_file_of_a_sibling_that_is_tracked_by_a_ref_is_left_out(
    world: World, git: Callable[..., Repository]
) -> None:
    backend = git("backend", {"api.py": "one\n"})
    rule = SiblingRule("backend", os.fsencode(backend.root), "head")
    world.tending.add(os.fsencode(world.git.root), siblings=[rule])
    step = read(str(backend.root / "api.py"), content="one\n")

    await world.explore(step, world.read("src/db.py"), text="Ok.")

    assert world.files() == ["src/db.py"]
    assert world.captures.left_out == 1


class AgentsWorktree:
    """The worktree that Claude Code makes for a subagent, and removes with it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.root = world.git.root / ".claude/worktrees/agent-e1"
        world.git("worktree", "add", "-q", "--detach", str(self.root))

    async def explore(self, *paths: str, text: str = "Ok.") -> None:
        world = self.world
        steps = [read(str(self.root / path), content="x\n") for path in paths]
        world.starting("c1")
        world.launched("c1", "e1")
        world.write("e1", *steps, say(text), cwd=self.root, began=EARLIER)
        world.stopped("e1", text, directory=self.root)
        world.git("worktree", "remove", str(self.root))
        await world.settle()


async def test_what_was_read_in_a_worktree_that_is_gone_is_the_repositorys(world: World) -> None:
    await AgentsWorktree(world).explore("src/auth.py", "src/db.py")

    assert world.keys == ["auth"]
    assert world.files() == ["src/auth.py", "src/db.py"]
    assert await world.verdict() is Verdict.FRESH


async def test_what_was_read_there_is_what_was_committed(world: World) -> None:
    world.git.write("src/db.py", "an edit that no other worktree has\n")

    await AgentsWorktree(world).explore("src/auth.py", "src/db.py")

    assert await world.causes() == ["edited src/db.py"]
    world.git.write("src/db.py", "db\n")
    assert await world.verdict() is Verdict.FRESH


async def test_what_no_commit_has_of_a_worktree_that_is_gone_is_unknown(world: World) -> None:
    world.git.write("src/untracked.py", "x\n")

    await AgentsWorktree(world).explore("src/untracked.py")

    assert await world.verdict() is Verdict.UNKNOWN


async def test_a_worktree_of_which_nobody_knows_what_it_held_is_unknown(world: World) -> None:
    root = world.git.root / ".claude/worktrees/agent-e1"

    await world.explore(read(str(root / "src/db.py"), content="db\n"), cwd=root, text="Ok.")

    assert world.files() == ["src/db.py"]
    assert await world.verdict() is Verdict.UNKNOWN


# -- Codex -----------------------------------------------------------------------------------------


async def test_what_codex_found_is_stored_from_its_rollout(world: World) -> None:
    steps: Steps = [
        read(str(world.git.root / "src/auth.py"), content=AUTH),
        bash("rg -n db src", "src/db.py:1:db\n"),
        say(FOUND),
    ]
    data = codex_rollout(
        prompt="Where is the auth?",
        steps=steps,
        cwd=str(world.git.root),
        began=datetime.now(UTC) + LATER,
    )
    path = world.agents / "rollout-1.jsonl"
    path.write_bytes(data)
    session = Session("codex", "t0", str(world.git.root), "t1")

    world.captures.ended(ExplorationEnded(session, "t1", "explorer", "", str(path)))
    await world.settle()

    assert world.keys == ["auth"]
    assert world.files() == ["src/auth.py", "src/db.py"]
    assert world.detail() == FOUND
    assert await world.verdict() is Verdict.FRESH
