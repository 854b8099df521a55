"""Questions in, answers out: the `Backend` of `formats/api`, over the worktrees amend tends.

Used by the daemon behind its socket and, without one, by the command line in its own process. An
answer about freshness first drains the watch and re-reads the cache file, then looks at the sources
of exactly the entries it speaks of.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final

from amend.core.evidence import Cited, CitedLines, CitedQuote, Remembered, remember
from amend.core.matching import Match
from amend.core.metrics import Counter, Histogram
from amend.core.model import (
    IN_CACHE_FILE,
    CauseKind,
    EntryName,
    FilePrint,
    Fingerprint,
    Judgement,
    Kind,
    NoPrint,
    Place,
    SiblingRule,
    Source,
    SourceKind,
    Verdict,
    Version,
    path_bytes,
    path_text,
)
from amend.core.sources import parse_spec
from amend.daemon.changes import cause_json
from amend.daemon.figures import hooks_text, prometheus_text, rss_bytes
from amend.daemon.memory import Known
from amend.daemon.memory_answers import MemoryAnswers
from amend.daemon.notes import summary_of
from amend.daemon.reporting import report, since_of
from amend.daemon.siblings import Sibling
from amend.daemon.tending import Tending, vet
from amend.daemon.worktree import Worktree
from amend.edge.serve.hook_exchange import TimelyExchange
from amend.edge.serve.limits import HookStats, Stats
from amend.errors import NotFound, RequestInvalid, StaleMatch
from amend.formats import api
from amend.formats.agent_cache import pattern_payload, summary_and_files, topic_payload
from amend.formats.contract import document_of as contract_document
from amend.formats.times import parse_time, rfc3339

# Near misses worth showing to whoever mistyped a key.
CANDIDATES_MAX: Final = 5

# Of what a question matches, before one kind is picked out.
CANDIDATES_READ: Final = 20

# What answers tell of a version is kept for those told lately, 3 KB each at most: agents ask for
# the same few findings again and again, and the store costs a quarter of an answer.
TOLD_MAX: Final = 2_048
TOLD_BYTES_MAX: Final = 2_048

_MISSING: Final = Judgement(Verdict.MISSING, None)
NO_CLOCK: Final = "c:none:0"

_WRITTEN: Final = {
    Kind.CONTRACT: "write it as a document",
    Kind.NOTE: "`amend memory save` writes one",
}


class Answers:
    def __init__(self, tending: Tending, version: str) -> None:
        self.requests = Histogram()
        self.verdicts = Counter()
        self.config_file: str | None = None
        self.config_error: str | None = None
        self.is_ready = False
        self.unready: list[str] = []  # what stands between starting and ready, or what broke
        self.connections = Stats()  # the socket's, where there is one
        self.hooks: TimelyExchange | None = None  # where a daemon answers them
        self.hook_connections = HookStats()
        self.settle: Callable[[], Awaitable[None]] | None = None  # what hooks have told of
        self.notes_saved: dict[str, int] = {}  # by worktree's id
        self.log_problem: Callable[[], str | None] = lambda: None
        self._tending = tending
        self._version = version
        self._told: dict[int, api.EntryJson] = {}  # by version id
        self._memory = MemoryAnswers(tending.store)
        self._started_at = datetime.now(UTC)
        self._started_s = time.monotonic()

    # -- about itself ----------------------------------------------------------------------------

    def hello(self) -> api.HelloAnswer:
        changes = self._tending.changes
        return {
            "name": "amend",
            "version": self._version,
            "protocol": {"min": api.PROTOCOL_MIN, "max": api.PROTOCOL_MAX},
            "instance": changes.instance if changes is not None else "none",
            "pid": os.getpid(),
            "started_at": rfc3339(self._started_at),
        }

    @property
    def clock(self) -> str:
        changes = self._tending.changes
        return changes.clock if changes is not None else NO_CLOCK

    def status(self) -> api.StatusAnswer:
        return {
            "ready": self.is_ready,
            "clock": self.clock,
            "repos": self.repos(),
            "rss_bytes": rss_bytes(),
            "uptime_s": round(time.monotonic() - self._started_s, 3),
            "version": self._version,
            "config": self.config_file,
            "config_error": self.config_error,
        }

    def alive(self) -> api.HealthAnswer:
        return {"ok": True, "problems": []}

    def ready(self) -> api.HealthAnswer:
        """The lock and store are held while this runs at all; the watch may have lost something."""
        problems = list(self.unready) + list(self._tending.store.problems)
        if (log_problem := self.log_problem()) is not None:
            problems.append(log_problem)
        if self._tending.watch is not None:
            health = self._tending.watch.health()
            problems += [
                f"{path_text(path)} is not watched: {os.strerror(number)}"
                for path, number in health.unwatched
            ]
        return {"ok": self.is_ready and not self.unready, "problems": problems}

    def repos(self) -> list[api.RepoJson]:
        return [self._repo(worktree) for worktree in self._tending.worktrees.values()]

    def _repo(self, worktree: Worktree) -> api.RepoJson:
        counts = worktree.counts()
        places, head = worktree.places, worktree.head
        return {
            "id": worktree.id,
            "root": path_text(worktree.root),
            "common_dir": path_text(places.common_dir) if places is not None else None,
            "branch": head.branch,
            "head": head.oid,
            "operation": head.operation,
            "entries": {
                "fresh": counts[Verdict.FRESH],
                "stale": counts[Verdict.STALE],
                "unknown": counts[Verdict.UNKNOWN],
            },
            "watch": self._watch(worktree),
            "cache_file": worktree.cache_file.path,
            "writes": worktree.cache_file.may_write() or worktree.cache_file.on_stale.value,
            "problems": worktree.problems(),
            "siblings": [_sibling(each) for each in worktree.siblings.values()],
        }

    def _watch(self, worktree: Worktree) -> api.WatchJson:
        if self._tending.watch is None:
            return {
                "backend": "none",
                "armed": 0,
                "unwatched": [],
                "overflows": 0,
                "rescans": 0,
                "last_event_at": None,
            }
        health = self._tending.watch.health(worktree.root)
        return {
            "backend": health.backend,
            "armed": health.armed,
            "unwatched": [
                {"path": path_text(path), "errno": number, "reason": os.strerror(number)}
                for path, number in health.unwatched
            ],
            "overflows": health.overflows,
            "rescans": health.rescans,
            "last_event_at": rfc3339(health.last_event_at) if health.last_event_at else None,
        }

    def metrics(self) -> str:
        return prometheus_text(
            self._tending, self.verdicts, self.requests, self.connections
        ) + hooks_text(self.hooks, self.hook_connections)

    def on_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests.observe(seconds, method=method, route=route, status=str(status))

    # -- repositories ----------------------------------------------------------------------------

    async def add_repo(self, request: api.RepoRequest) -> api.RepoJson:
        siblings = [
            SiblingRule(each.name, _path(each.path, "path"), each.track)
            for each in request.siblings
        ]
        root = _path(request.root, "root")
        await asyncio.to_thread(vet, root)
        return self._repo(self._tending.add(root, siblings=siblings, is_verified=True))

    async def remove_repo(self, repo_id: str) -> None:
        self._tending.remove(repo_id)
        self._tending.refresh_linked()

    def _worktree(self, cwd: str) -> Worktree:
        """The worktree of `cwd`, with everything taken in that was written before the question."""
        worktree = self._tending.find(_path(cwd, "cwd"))
        self._tending.drain()
        worktree.cache_file.refresh()
        worktree.contracts.refresh()
        return worktree

    async def _with_notes(self, cwd: str) -> Worktree:
        """As `_worktree`, with the notes that were written before the question."""
        worktree = self._worktree(cwd)
        for tree in worktree.trees:
            if not tree.is_settled:
                await tree.refresh()
        return worktree

    # -- entries ---------------------------------------------------------------------------------

    async def lookup(self, request: api.LookupRequest) -> api.LookupAnswer:
        if request.question is not None or (request.key is None) == (request.endpoint is None):
            return await self._lookup_by_question(request)
        worktree = self._worktree(request.cwd)
        kind = Kind(request.kind) if request.kind is not None else None
        known = self._find(worktree, request, kind)
        if known is None or known.entry.name.kind is Kind.NOTE:
            known = self._find(await self._with_notes(request.cwd), request, kind)
        judgement = await worktree.memory.answer(known) if known is not None else _MISSING
        if request.key is not None and judgement.verdict is not Verdict.FRESH:
            found = await self._found_beside(worktree, request.key, kind)
            if found is not None:
                known, judgement = found, await worktree.memory.answer(found)
        answer = self._looked_up(known, judgement)
        if "entry" not in answer:
            keys = {name.key for name in worktree.memory.names()}
            wanted = request.key or request.endpoint or ""
            answer["candidates"] = get_close_matches(wanted, keys, CANDIDATES_MAX)
        return answer

    def _looked_up(self, known: Known | None, judgement: Judgement) -> api.LookupAnswer:
        cause = judgement.causes[0].kind.value if judgement.causes else ""
        self.verdicts.add(verdict=judgement.verdict.value, cause=cause)
        answer: api.LookupAnswer = {
            "verdict": judgement.verdict.value,
            "causes": [cause_json(cause) for cause in judgement.causes],
            "drift": list(judgement.drift),
            "checked_at": rfc3339(datetime.now(UTC)),
            "clock": self.clock,
            "candidates": [],
        }
        if known is not None and judgement.version is not None:
            answer["entry"] = self.entry(known, judgement.version)
        return answer

    async def _lookup_by_question(self, request: api.LookupRequest) -> api.LookupAnswer:
        """The entry that the question is about, if that is certain; what it may be, in any case."""
        if request.question is None or request.key is not None or request.endpoint is not None:
            raise RequestInvalid(
                "there must be one of key, endpoint and question",
                hint='send {"cwd": …, "key": …}, or "endpoint": "GET /items/42", or "question"',
            )
        if request.repository is not None:
            raise RequestInvalid(
                "repository goes with a key or an endpoint, not with a question",
                hint="leave it out: all entries are searched",
            )
        worktree = await self._with_notes(request.cwd)
        memory = worktree.memory
        kinds = tuple(Kind) if request.kind is None else (Kind(request.kind),)
        matches = [
            match
            for match in await worktree.finder.find(request.question, CANDIDATES_READ)
            if match.name.kind in kinds
        ][:CANDIDATES_MAX]
        known, judgement = None, _MISSING
        if matches and matches[0].is_confident:
            name = matches[0].name
            known = memory.known(name)
            judgement = await memory.answer(known) if known is not None else _MISSING
            if judgement.verdict is not Verdict.FRESH:
                found = await self._found_beside(worktree, name.key, name.kind)
                if found is not None:
                    known, judgement = found, await memory.answer(found)
        answer = self._looked_up(known, judgement)
        answer["matches"] = [_match_json(match) for match in matches]
        if "entry" not in answer:
            answer["candidates"] = list(dict.fromkeys(match.name.key for match in matches))
        if matches:
            answer["score"] = matches[0].score
        return answer

    def _find(
        self, worktree: Worktree, request: api.LookupRequest, kind: Kind | None
    ) -> Known | None:
        memory, contracts = worktree.memory, worktree.contracts
        if request.endpoint is not None:
            name = contracts.describing(request.endpoint, request.repository)
        else:
            assert request.key is not None
            known = memory.find(request.key, kind) if request.repository is None else None
            if known is not None or kind not in (None, Kind.CONTRACT):
                return known
            name = contracts.named(request.key, request.repository)
        return memory.known(name) if name is not None else None

    async def _found_beside(self, worktree: Worktree, key: str, kind: Kind | None) -> Known | None:
        """An entry that another worktree of the repository has a version of which is true here as
        well; from now on this one has it, too."""
        memory = worktree.memory
        for other in self._tending.beside(worktree):
            theirs = other.memory.find(key, kind)
            if theirs is None or memory.is_declined(theirs.entry.name):
                continue
            mine = memory.known(theirs.entry.name)
            is_note = theirs.entry.name.kind is Kind.NOTE
            for version, digest in zip(theirs.entry.versions, theirs.digests, strict=True):
                if is_note and (mine is None or mine.digests[0] != digest):
                    continue  # a note is the text in its own tree's file
                if await memory.would_support(theirs.entry.name.kind, version):
                    recorded = self._tending.store.recorded(version.id)
                    return memory.adopt(theirs.entry.name, version, recorded)
        return None

    def entry(self, known: Known, version: Version) -> api.EntryJson:
        told = self._told.get(version.id)
        if told is None:
            name = known.entry.name
            recorded = self._tending.store.recorded(version.id)
            files: Sequence[str] = [source.spec for source in version.sources]
            summary = ""
            if name.kind in IN_CACHE_FILE:
                summary, files = summary_and_files(name, recorded.payload)
            elif name.kind is Kind.NOTE:
                summary = summary_of(recorded.payload)
            told = {
                "kind": name.kind.value,
                "key": name.key,
                "ts": rfc3339(version.ts) if version.ts is not None else None,
                "summary": summary,
                "files": list(files),
                "recorded_at": rfc3339(datetime.fromisoformat(recorded.recorded_at)),
                "recorded_in": path_text(recorded.recorded_in),
                "in_file": False,
            }
            if name.kind is Kind.CONTRACT:
                told["document"] = contract_document(recorded.payload)
            if len(recorded.payload) <= TOLD_BYTES_MAX:
                if len(self._told) >= TOLD_MAX:
                    self._told.clear()
                self._told[version.id] = told
        in_file = bool(known.file_digest) or known.entry.name.kind not in IN_CACHE_FILE
        return {**told, "in_file": in_file}

    def _judged(self, known: Known, judgement: Judgement) -> api.JudgedEntryJson:
        version = judgement.version or known.entry.versions[0]
        return {
            **self.entry(known, version),
            "verdict": judgement.verdict.value,
            "causes": [cause_json(cause) for cause in judgement.causes],
            "drift": list(judgement.drift),
            "versions": len(known.entry.versions),
        }

    async def entries(
        self, cwd: str, kind: api.KindName | None, verdict: api.VerdictName | None
    ) -> api.EntriesAnswer:
        worktree = await self._with_notes(cwd)
        rows = []
        for name in worktree.memory.names():
            known = worktree.memory.known(name)
            if known is None or (kind is not None and name.kind.value != kind):
                continue
            judgement = await worktree.memory.answer(known)
            if verdict is None or judgement.verdict.value == verdict:
                rows.append(self._judged(known, judgement))
        return {
            "entries": rows,
            "problems": worktree.problems(),
            "checked_at": rfc3339(datetime.now(UTC)),
            "clock": self.clock,
        }

    async def get_entry(
        self, cwd: str, kind: api.KindName, key: str
    ) -> tuple[api.JudgedEntryJson, str]:
        await self._with_notes(cwd)
        known, worktree = self._known(cwd, kind, key)
        judgement = await worktree.memory.answer(known)
        return self._judged(known, judgement), _etag(known)

    def _known(self, cwd: str, kind: api.KindName, key: str) -> tuple[Known, Worktree]:
        worktree = self._worktree(cwd)
        known = worktree.memory.known(EntryName(Kind(kind), key))
        if known is None:
            raise NotFound(f"there is no {kind} {key!r}", hint="`amend ls` lists what there is")
        return known, worktree

    async def put_entry(
        self, cwd: str, kind: api.KindName, key: str, request: api.PutRequest, if_match: str | None
    ) -> api.PutAnswer:
        name = EntryName(Kind(kind), key)
        if name.kind not in IN_CACHE_FILE:
            raise RequestInvalid(f"a {kind} is a file of its own", hint=_WRITTEN[name.kind])
        if not key or not key.isprintable() or len(key) > 200:
            raise RequestInvalid(
                f"the key {key!r} is not 1 to 200 printable characters", hint="use kebab-case"
            )
        worktree = self._worktree(cwd)
        _check_match(worktree.memory.known(name), if_match)
        sources = _sources(name.kind, request.files)
        ts = _ts(request.ts)
        fingerprints = [
            await self._print(worktree, source, spec, request.read_fingerprints or {})
            for source, spec in sources.items()
        ]
        prints = dict(zip(sources, fingerprints, strict=True))
        evidence = _evidence(worktree, request.evidence, prints)
        version = Version(0, tuple(sources), tuple(fingerprints), ts, evidence=evidence)
        payload = (
            topic_payload(request.summary, request.files, ts)
            if name.kind is Kind.TOPIC
            else pattern_payload(request.summary, request.files)
        )
        if name.kind is Kind.PATTERN:
            version = replace(version, ts=None)
        reason = worktree.cache_file.may_write()
        place = Place.COMING if reason is None else Place.STORE
        known = worktree.memory.put(name, version, payload, place)
        judgement = await worktree.memory.answer(known)
        answer: api.PutAnswer = {
            "entry": self._judged(known, judgement),
            "etag": _etag(known),
            "stored_in": "file" if reason is None else "store",
            "clock": self.clock,
        }
        if reason is not None:
            answer["reason"] = reason
        return answer

    async def _print(
        self, worktree: Worktree, source: Source, spec: str, read: dict[str, str]
    ) -> Fingerprint:
        """The look at the source now, or what it was when it was read: the version then rests on
        that, and is stale at birth if the file has changed since."""
        ground = worktree.memory.ground
        ground.hold((source,))
        look = await ground.look_patiently(source)
        blob = read.get(spec)
        if blob is None or source.kind is not SourceKind.FILE:
            return look
        if isinstance(look, FilePrint) and look.blob.hex() == blob:
            return look
        if isinstance(look, NoPrint) and look.reason is CauseKind.TOO_LARGE:
            return look
        return FilePrint(bytes.fromhex(blob), 0, 0)

    async def delete_entry(
        self, cwd: str, kind: api.KindName, key: str, if_match: str | None
    ) -> None:
        known, worktree = self._known(cwd, kind, key)
        _check_match(known, if_match)
        if known.entry.name.kind not in IN_CACHE_FILE:
            raise RequestInvalid(f"a {kind} is a file of its own", hint="delete the file")
        reason = worktree.cache_file.may_write()
        if reason is not None and known.file_digest:
            raise RequestInvalid(
                f"{key!r} stands in the cache file, which amend does not write: {reason}",
                hint="take it out of the file by hand",
            )
        worktree.memory.delete(known)

    async def verify(self, request: api.VerifyRequest) -> api.VerifyAnswer:
        worktree = await self._with_notes(request.cwd)
        memory = worktree.memory
        wanted = None if request.keys is None else set(request.keys)
        if wanted is not None:
            unknown = wanted - {name.key for name in memory.names()}
            if unknown:
                raise NotFound(f"there is no entry {sorted(unknown)[0]!r}", hint="`amend ls`")
        before = memory.ground.hashes
        memory.ground.forget_looks()
        rows: list[api.VerdictRow] = []
        for name in memory.names():
            known = memory.known(name)
            if known is None or (wanted is not None and name.key not in wanted):
                continue
            judgement = await memory.answer(known)
            rows.append(
                {
                    "kind": name.kind.value,
                    "key": name.key,
                    "verdict": judgement.verdict.value,
                    "causes": [cause_json(cause) for cause in judgement.causes],
                    "drift": list(judgement.drift),
                }
            )
        return {
            "entries": rows,
            "hashed": memory.ground.hashes - before,
            "checked_at": rfc3339(datetime.now(UTC)),
            "clock": self.clock,
        }

    # -- changes ---------------------------------------------------------------------------------

    async def activity(self, cwd: str | None, since: str | None) -> api.ActivityAnswer:
        now = datetime.now(UTC)
        worktree = self._tending.find(_path(cwd, "cwd")) if cwd is not None else None
        self._tending.drain()
        return await report(
            self._tending,
            worktree,
            since=since_of(since, now),
            now=now,
            tallies=self.hooks.tallies if self.hooks is not None else {},
            requests=self.requests,
            exchanges=self.hooks.seconds if self.hooks is not None else Histogram(),
        )

    def changes(self, cwd: str | None, since: str) -> api.ChangesAnswer:
        self._tending.drain()
        repo = self._tending.find(_path(cwd, "cwd")).id if cwd is not None else None
        changes = self._tending.changes
        found = changes.since(since) if changes is not None else None
        return {
            "changes": [c for c in found or [] if repo is None or c["repo"] == repo],
            "clock": self.clock,
            "fresh_instance": found is None,
        }

    def events(self, cwd: str | None, last_event_id: str | None) -> AsyncIterator[api.ChangeJson]:
        repo = self._tending.find(_path(cwd, "cwd")).id if cwd is not None else None
        changes = self._tending.changes
        if changes is None:
            raise NotFound("nothing is watched without a daemon", hint="start it: `amend run`")
        return _of_repo(changes.listen(last_event_id), repo)

    async def sync(self) -> api.SyncAnswer:
        if self.settle is not None:
            await self.settle()
        await self._tending.sync()
        return {"clock": self.clock}

    # -- memory trees ----------------------------------------------------------------------------

    async def read_memory(
        self, cwd: str, level: api.MemoryLevel | None, path: str | None, tree: str | None
    ) -> api.MemoryAnswer:
        return await self._memory.read(self._worktree(cwd), level, path, tree)

    async def save_memory(self, request: api.SaveRequest) -> api.SavedAnswer:
        worktree = self._worktree(request.cwd)
        answer = await self._memory.save(worktree, request)
        self.notes_saved[worktree.id] = self.notes_saved.get(worktree.id, 0) + 1
        return answer

    async def lint_memory(self, cwd: str, tree: str | None) -> api.LintAnswer:
        return await self._memory.lint(self._worktree(cwd), tree)

    async def fix_memory(self, request: api.TreeRequest) -> api.FixAnswer:
        return await self._memory.fix(self._worktree(request.cwd), request)

    async def sync_memory(self, request: api.TreeRequest) -> api.MemorySyncAnswer:
        return await self._memory.sync(self._worktree(request.cwd), request)

    async def suggest_terms(self, cwd: str, tree: str | None) -> api.TermsAnswer:
        return await self._memory.terms(self._worktree(cwd), tree)

    # -- hooks -----------------------------------------------------------------------------------

    async def hook(self, agent: str, body: bytes) -> bytes:
        if self.hooks is None or agent not in self.hooks.tallies:
            known = ", ".join(sorted(self.hooks.tallies)) if self.hooks else "none"
            raise NotFound(
                f"there is no agent {agent!r} whose hooks amend answers", hint=f"known are: {known}"
            )
        return await self.hooks.exchange(agent, body)


async def _of_repo(
    changes: AsyncIterator[api.ChangeJson], repo: str | None
) -> AsyncIterator[api.ChangeJson]:
    async for change in changes:
        if repo is None or change["repo"] == repo:
            yield change


def _match_json(match: Match) -> api.MatchJson:
    return {
        "kind": match.name.kind.value,
        "key": match.name.key,
        "score": match.score,
        "confident": match.is_confident,
        "why": list(match.why),
    }


def _sibling(sibling: Sibling) -> api.SiblingJson:
    return {
        "name": sibling.rule.name,
        "root": path_text(sibling.root),
        "track": sibling.rule.track,
        "branch": sibling.head.branch,
        "head": sibling.head.oid,
        "problem": sibling.problem,
    }


def _path(text: str, field: str) -> bytes:
    try:
        return path_bytes(text)
    except UnicodeEncodeError:
        raise RequestInvalid(
            f"{field} is {text!a}, which no path can be", hint="check it"
        ) from None


def _sources(kind: Kind, files: list[str]) -> dict[Source, str]:
    if not files and kind is Kind.TOPIC:
        raise RequestInvalid(
            "files is empty; a topic rests on at least one", hint="name the files it was found in"
        )
    sources: dict[Source, str] = {}
    for index, spec in enumerate(files):
        try:
            sources.setdefault(parse_spec(spec), spec)
        except ValueError as error:
            raise RequestInvalid(f"files/{index}: {spec!a} {error}", hint="see `files`") from None
    return sources


def _evidence(
    worktree: Worktree, cited: list[api.EvidenceRequest], prints: Mapping[Source, Fingerprint]
) -> tuple[tuple[Source, Remembered], ...]:
    """The cited lines as they are; none of a file that is not as it was when it was read."""
    evidence = []
    for index, each in enumerate(cited):
        at = f"evidence/{index}"
        try:
            source = parse_spec(each.file)
            lines = _cited(each)
        except ValueError as error:
            raise RequestInvalid(f"{at}: {error}", hint="see `evidence`") from None
        then = prints.get(source)
        if then is None:
            raise RequestInvalid(
                f"{at}/file: {each.file!a} is not one of `files`", hint="name it there, too"
            )
        text = worktree.memory.ground.text(source, then) if isinstance(then, FilePrint) else None
        if text is None:
            continue
        try:
            evidence.append((source, remember(text, lines)))
        except ValueError as error:
            raise RequestInvalid(f"{at}: {error}", hint="cite what the file holds now") from None
    return tuple(evidence)


def _cited(each: api.EvidenceRequest) -> Cited:
    ways = [each.line is not None, each.start is not None or each.end is not None]
    ways.append(each.quote is not None)
    if sum(ways) != 1:
        raise ValueError("must have one of `line`, `start` and `end`, or `quote`")
    if each.quote is not None:
        return CitedQuote(each.quote)
    if each.line is not None:
        return CitedLines(each.line, each.line)
    if each.start is None or each.end is None or each.start > each.end:
        raise ValueError("must have both `start` and `end`, in this order")
    return CitedLines(each.start, each.end)


def _ts(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    ts = parse_time(text)
    if ts is None:
        raise RequestInvalid(f"ts is {text!a}, not an ISO 8601 time", hint="leave it out for now")
    return ts


def _etag(known: Known) -> str:
    return f'"{known.entry.versions[0].id}"'


def _check_match(known: Known | None, if_match: str | None) -> None:
    if if_match is None:
        return
    present = _etag(known) if known is not None else None
    if known is not None and (if_match.strip() == "*" or present in if_match.split(", ")):
        return
    raise StaleMatch(
        f"If-Match is {if_match}, the entry's ETag is {present or 'none: it does not exist'}",
        hint="read it again and decide anew",
    )
