"""The shapes that travel over `api.sock`, and what a backend must be able to answer.

Requests are pydantic models: they come from outside and every error must name the field and the
rule. Answers are typed dictionaries: amend made them, they are serialised as they are, and the
hot path builds no models. Times are RFC 3339 in UTC with a `Z`. Paths are text with surrogate
escapes (`core.model.path_text`); on the wire a byte that is no UTF-8 travels as `\\udcXX`.

The daemon implements `Backend`; without one the command line uses an implementation that reads
and verifies the files itself. Both therefore give the same answers.
"""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final, Literal, NotRequired, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

PROTOCOL_MIN: Final = 1
PROTOCOL_MAX: Final = 1

KindName = Literal["topic", "pattern", "contract", "note"]
VerdictName = Literal["fresh", "stale", "unknown", "missing"]

# A key is a line of text that a person types: long ones are mistakes, control characters attacks.
Key = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
AbsolutePath = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^/[^\x00]*$")]

# What of a sibling is "now"; a ref's name as git allows it, or nearly.
TRACK: Final = r"^(worktree|head|ref:[^\x00-\x20~^:?*\[\\\x7f-][^\x00-\x20~^:?*\[\\\x7f]*)$"

Spec = Annotated[str, Field(min_length=1, max_length=4096)]


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LookupRequest(Request):
    cwd: AbsolutePath
    key: Key | None = None
    question: Annotated[str, Field(min_length=1, max_length=4000)] | None = None
    endpoint: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    kind: KindName | None = None
    repository: str | None = None


class EvidenceRequest(Request):
    """Lines of one of `files`: `line`, `start` to `end`, both included, or those of `quote`."""

    file: Spec
    line: Annotated[int, Field(ge=1)] | None = None
    start: Annotated[int, Field(ge=1)] | None = None
    end: Annotated[int, Field(ge=1)] | None = None
    quote: Annotated[str, Field(min_length=1, max_length=16_000)] | None = None


class PutRequest(Request):
    """`ts` defaults to now. `files` are specs as in `.agent-cache.json`; `read_fingerprints` maps a
    spec to the git blob hash (40 hex) it had when it was read."""

    summary: Annotated[str, Field(min_length=1, max_length=4000)]
    files: Annotated[list[Spec], Field(max_length=1000)]
    ts: str | None = None
    evidence: Annotated[list[EvidenceRequest], Field(max_length=100)] = []
    read_fingerprints: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]] | None = None


class VerifyRequest(Request):
    cwd: AbsolutePath
    keys: list[Key] | None = None


class SiblingRequest(Request):
    """Another repository that entries of this one may cite as `name:path`."""

    name: Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
    path: AbsolutePath
    track: Annotated[str, Field(max_length=300, pattern=TRACK)] = "worktree"


class RepoRequest(Request):
    """`siblings` join those that the repository has; one of the same name is replaced."""

    root: AbsolutePath
    siblings: list[SiblingRequest] = []


# A tree's path below its repository's root, and a path below a tree.
TreePath = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00]+$")]

# A category, which may be nested, or a topic. What else makes a name of it: `core.notes`.
MemoryName = Annotated[str, Field(min_length=1, max_length=200)]

# What fits on a line; the seed means a dozen words, and lint tells of what is long.
MemoryLine = Annotated[str, Field(min_length=1, max_length=1000)]


class SaveRequest(Request):
    """`bullets` are united with those that the note has, `replaces` names those to drop. `date` is
    YYYY-MM-DD and defaults to today, `tree` to the first that is configured."""

    cwd: AbsolutePath
    category: MemoryName
    topic: MemoryName
    title: MemoryLine
    bullets: Annotated[list[MemoryLine], Field(min_length=1, max_length=100)]
    replaces: Annotated[list[MemoryLine], Field(max_length=100)] = []
    date: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")] | None = None
    tree: TreePath | None = None


class TreeRequest(Request):
    """`tree` defaults to all of them."""

    cwd: AbsolutePath
    tree: TreePath | None = None


class CommitJson(TypedDict):
    oid: str
    author_time: str
    subject: str


class CauseJson(TypedDict):
    cause: str
    source: NotRequired[str]
    detail: NotRequired[str]
    pointer: NotRequired[str]
    commit: NotRequired[CommitJson]
    moved_to: NotRequired[str]
    gained: NotRequired[list[str]]
    lost: NotRequired[list[str]]
    verified: NotRequired[bool]
    settled: NotRequired[Literal[False]]  # present while git has not been asked yet


class EntryJson(TypedDict):
    kind: KindName
    key: str
    ts: str | None
    summary: str
    files: list[str]
    recorded_at: str
    recorded_in: str  # the worktree root where this version was recorded
    in_file: bool  # present in the cache file now
    document: NotRequired[dict[str, Any]]  # of a contract: all that its file says


class JudgedEntryJson(EntryJson):
    """One row of `GET /v1/entries`, and the whole of `GET /v1/entries/{kind}/{key}`."""

    verdict: VerdictName
    causes: list[CauseJson]
    drift: list[str]
    versions: int


class MatchJson(TypedDict):
    """An entry that a question may be about. `score`: 0 to 1; `why`: what speaks for it and against
    it, where numbers are shares of the question."""

    kind: KindName
    key: str
    score: float
    confident: bool  # good enough to be told instead of exploring
    why: list[str]


class LookupAnswer(TypedDict):
    """Of a question: `matches`, best first, and the best one's `score`. `entry` is that one if it
    is confident; else the verdict is missing and `candidates` are the matches' keys."""

    verdict: VerdictName
    entry: NotRequired[EntryJson]
    causes: list[CauseJson]
    drift: list[str]
    checked_at: str
    clock: str
    score: NotRequired[float]
    candidates: list[str]
    matches: NotRequired[list[MatchJson]]


class VerdictRow(TypedDict):
    kind: KindName
    key: str
    verdict: VerdictName
    causes: list[CauseJson]
    drift: list[str]


class VerifyAnswer(TypedDict):
    entries: list[VerdictRow]
    hashed: int  # files read and hashed for this answer
    checked_at: str
    clock: str


class EntriesAnswer(TypedDict):
    entries: list[JudgedEntryJson]
    problems: list[str]  # of the cache file as a whole, when it cannot be parsed
    checked_at: str
    clock: str


class ChangeJson(TypedDict):
    """One verdict change: from "missing" for a new entry, to "missing" for one removed."""

    clock: str
    at: str
    repo: str
    root: str
    kind: KindName
    key: str
    previous: VerdictName
    verdict: VerdictName
    causes: list[CauseJson]
    refined: bool  # the verdict stays, its causes are known better (committed instead of edited)


class ChangesAnswer(TypedDict):
    changes: list[ChangeJson]
    clock: str
    fresh_instance: bool


class SyncAnswer(TypedDict):
    clock: str


class PutAnswer(TypedDict):
    entry: JudgedEntryJson
    etag: str
    stored_in: Literal["file", "store"]  # where it will be; the file's write follows within seconds
    reason: NotRequired[str]  # why only in the store
    clock: str


MemoryLevel = Literal["index", "note"]


class MemoryFileJson(TypedDict):
    """One file of a memory tree. Of a note that is known as an entry, whether it may be trusted."""

    path: str  # below the repository's root
    kind: Literal["dict", "index", "note"]
    text: str
    tokens: int
    problem: NotRequired[str]  # why it cannot be read; the text is empty then
    verdict: NotRequired[VerdictName]
    causes: NotRequired[list[CauseJson]]
    drift: NotRequired[list[str]]


class MemoryAnswer(TypedDict):
    files: list[MemoryFileJson]  # in the order in which they are to be read
    tokens: int
    tokens_are_estimated: bool
    tokenizer: str


class TermJson(TypedDict):
    """What a line of the dictionary would bring, in tokens: `saves` over all uses, `costs` for the
    line itself, `net` the difference. `tokens` is the phrase's."""

    abbreviation: str
    phrase: str
    uses: int
    tokens: int
    saves: int
    costs: int
    net: int


class SavedAnswer(TypedDict):
    path: str  # of the note, below the repository's root
    created: bool
    indexes: list[str]  # those that were written
    title: str
    date: str
    bullets: list[str]  # all that the note now says
    suggestions: list[TermJson]  # for the dictionary, best first
    tokens: int  # of the note
    tokens_are_estimated: bool


class FindingJson(TypedDict):
    path: str  # below the repository's root
    line: int
    rule: str
    message: str
    is_fixable: bool


class LintAnswer(TypedDict):
    findings: list[FindingJson]


class FixAnswer(LintAnswer):
    """`findings`: what is left."""

    written: list[str]


class MemorySyncAnswer(TypedDict):
    written: list[str]  # paths below the repository's root


class TermsAnswer(TypedDict):
    suggestions: list[TermJson]  # best first
    is_worth_it: bool
    reason: str  # why, or why not
    share: float  # of all tokens, what all suggestions together save, net
    tokens: int  # of all notes and indexes
    tokens_are_estimated: bool
    tokenizer: str


class UnwatchedJson(TypedDict):
    path: str
    errno: int
    reason: str


class WatchJson(TypedDict):
    backend: str
    armed: int
    unwatched: list[UnwatchedJson]
    overflows: int
    rescans: int
    last_event_at: str | None


class EntryCounts(TypedDict):
    fresh: int
    stale: int
    unknown: int


class SiblingJson(TypedDict):
    name: str
    root: str
    track: str
    branch: str | None
    head: str | None
    problem: str | None  # why nothing that it has can be judged


class RepoJson(TypedDict):
    id: str
    root: str
    common_dir: str | None
    branch: str | None
    head: str | None
    operation: str | None  # "merge", "rebase", … while git is in the middle of one
    entries: EntryCounts
    watch: WatchJson
    cache_file: str  # absolute path of its .agent-cache.json
    writes: str  # "mark", "evict", "observe", or why nothing is written
    problems: list[str]  # sentences a person can act on
    siblings: list[SiblingJson]


class StatusAnswer(TypedDict):
    ready: bool
    clock: str
    repos: list[RepoJson]
    rss_bytes: int
    uptime_s: float
    version: str
    config: str | None  # the config file in force
    config_error: str | None  # why the newest config file was not taken


class ActivityPoint(TypedDict):
    """What happened in one step of time that begins `at`."""

    at: str
    marks: int  # entries that became stale
    restores: int  # stale entries that became fresh
    hits: int  # answered instead of an exploration
    head_starts: int
    shown: int  # beside a prompt
    stale: int  # asked for, and true no longer
    misses: int
    tokens: int  # saved, as far as is known


class HookActivity(TypedDict):
    """How the exchanges of one agent's hooks ended since the daemon started."""

    agent: str
    told: int
    silent: int
    late: int
    bugs: int


class LatencyJson(TypedDict):
    """Bounds that half of all, and 99 of 100, did not exceed; null: none yet, or off the scale."""

    count: int
    p50_s: float | None
    p99_s: float | None


class TreeActivity(TypedDict):
    name: str  # "memory", "backend:memory" where it is a sibling's
    repo: str
    root: str
    notes: int
    problems: list[str]


class ActivityAnswer(TypedDict):
    """Of one repository or all: what the views show beyond the present verdicts."""

    clock: str
    at: str
    since: str
    step_s: int
    points: list[ActivityPoint]  # always as many, oldest first; the last one is of now
    changes: list[ChangeJson]  # newest first; older ones have no `root` when it is tended no more
    hooks: list[HookActivity]  # of all repositories
    hook_latency: LatencyJson
    lookup_latency: LatencyJson
    trees: list[TreeActivity]


class ProtocolRange(TypedDict):
    min: int
    max: int


class HelloAnswer(TypedDict):
    name: Literal["amend"]
    version: str
    protocol: ProtocolRange
    instance: str
    pid: int
    started_at: str


class HealthAnswer(TypedDict):
    ok: bool
    problems: list[str]


class Backend(Protocol):
    """What amend can be asked. Raises `amend.errors` kinds; everything else is a bug.

    `cwd` picks the nearest registered root above it; none there raises `NotFound` with a hint.
    """

    def hello(self) -> HelloAnswer: ...
    def status(self) -> StatusAnswer: ...
    def alive(self) -> HealthAnswer: ...
    def ready(self) -> HealthAnswer: ...
    def metrics(self) -> str: ...
    def repos(self) -> list[RepoJson]: ...
    async def add_repo(self, request: RepoRequest) -> RepoJson: ...
    async def remove_repo(self, repo_id: str) -> None: ...
    async def lookup(self, request: LookupRequest) -> LookupAnswer: ...
    async def entries(
        self, cwd: str, kind: KindName | None, verdict: VerdictName | None
    ) -> EntriesAnswer: ...
    async def get_entry(self, cwd: str, kind: KindName, key: str) -> tuple[JudgedEntryJson, str]:
        """The entry and its ETag (a strong one: changes with the answering version)."""
        ...

    async def put_entry(
        self, cwd: str, kind: KindName, key: str, request: PutRequest, if_match: str | None
    ) -> PutAnswer:
        """Raises `Conflict` when `if_match` is not the present ETag ("*": any existing entry)."""
        ...

    async def delete_entry(
        self, cwd: str, kind: KindName, key: str, if_match: str | None
    ) -> None: ...
    async def verify(self, request: VerifyRequest) -> VerifyAnswer: ...
    def changes(self, cwd: str | None, since: str) -> ChangesAnswer: ...
    def events(self, cwd: str | None, last_event_id: str | None) -> AsyncIterator[ChangeJson]:
        """Verdict changes from now, or from `last_event_id` when that clock is known."""
        ...

    async def sync(self) -> SyncAnswer: ...

    async def read_memory(
        self, cwd: str, level: MemoryLevel | None, path: str | None, tree: str | None
    ) -> MemoryAnswer:
        """Without `level`: what `path` names, or all indexes without one."""
        ...

    async def save_memory(self, request: SaveRequest) -> SavedAnswer: ...
    async def lint_memory(self, cwd: str, tree: str | None) -> LintAnswer: ...
    async def fix_memory(self, request: TreeRequest) -> FixAnswer: ...
    async def sync_memory(self, request: TreeRequest) -> MemorySyncAnswer: ...
    async def suggest_terms(self, cwd: str, tree: str | None) -> TermsAnswer: ...

    async def hook(self, agent: str, body: bytes) -> bytes:
        """What `agent` is told when one of its hooks says `body`; b"": nothing. Answers soon.

        An agent that is not known raises `NotFound` with a hint.
        """
        ...


@runtime_checkable
class Reporting(Protocol):
    """A backend that lives long enough to tell what has happened; `GET /v1/activity` is its."""

    async def activity(self, cwd: str | None, since: str | None) -> ActivityAnswer:
        """`since` (RFC 3339) defaults to a day ago."""
        ...
