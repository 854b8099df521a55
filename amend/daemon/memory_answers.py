"""Questions about memory trees: what they say, what is wrong with them, what they shall say.

Reading, linting and counting run in a worker thread, since a tree may have thousands of notes, and
look at the files as they are then. Whatever is written goes through `MemoryTree`; nothing is
written here. Paths in answers are below the repository's root, so that what is shown can be opened
and asked for again; those in a sibling begin with its name.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import Final

from amend.core.aicontext import INDEX_NAME, Directory, Document, LineKind, Noted
from amend.core.dictionary import Suggestions, Term, suggest
from amend.core.freshness import compare, paths_of, verdict_of
from amend.core.model import (
    EntryName,
    Judgement,
    Kind,
    SourceKind,
    Version,
    path_bytes,
    path_text,
)
from amend.core.notes import Citation, check_save, citations, joined
from amend.core.secrets import find_secret
from amend.core.sources import parse_spec
from amend.core.tree_lint import Finding, fixed_index, fixed_note, lint
from amend.daemon.changes import cause_json
from amend.daemon.notes import key_of, said_in
from amend.daemon.tree_reading import ReadDirectory, parsed
from amend.daemon.tree_showing import Read, TreeAt, existing, files_of, some, trees_named, whole
from amend.daemon.worktree import Worktree
from amend.edge.files.look import stat_key
from amend.edge.store import Store
from amend.edge.tokens import Counter, tokenizer
from amend.errors import RequestInvalid
from amend.formats import api
from amend.formats.aicontext import (
    note_bytes,
    noted,
    parse_dictionary,
    parse_index,
    parse_note,
)

# What a save proposes is read in passing; `amend memory dict suggest` has the rest.
SUGGESTIONS_MAX: Final = 3

# What a save looks through for them: five times what the seed calls a medium tree, in 0.15 s.
NEAR_NOTES_MAX: Final = 500


def local_today() -> date:
    return datetime.now().astimezone().date()


# -- what is wrong ---------------------------------------------------------------------------------


class Paths:
    """Which paths of the repository a note means, and whether they are there."""

    def __init__(self, worktree: Worktree, tree: TreeAt) -> None:
        self._root = tree.root
        self._siblings = {
            name: sibling.root
            for name, sibling in worktree.siblings.items()
            if sibling.is_worktree and sibling.problem is None
        }
        entries = (worktree.memory.known(name) for name in worktree.memory.names())
        self._known = {
            source.spec
            for known in entries
            if known is not None and known.entry.name.kind is Kind.NOTE
            for version in known.entry.versions
            for source in version.sources
        }

    def cited(self, note: Document) -> list[tuple[int, str]]:
        """What a note's author meant as a path, for all that can be told, each with its line."""
        found = citations(note)
        return [(each.line, each.path) for each in found if each.is_listed or self._is_path(each)]

    def _is_path(self, citation: Citation) -> bool:
        """Of what merely stands in backticks: what was a path once, or looks like one from here.

        `application/json` and `asyncio.Queue` do not; `src/old.py` does, where there is a `src`.
        """
        if citation.path in self._known:
            return True
        top, _, rest = citation.path.partition("/")
        name = rest.rstrip("/").rpartition("/")[2]
        looks = bool(rest) and (rest.endswith("/") or "." in name.strip("."))
        return looks and os.path.isdir(self._root + b"/" + path_bytes(top))

    def exists(self, spec: str) -> bool | None:
        """None where that cannot be told."""
        try:
            source = parse_spec(spec)
        except ValueError:
            return None
        if source.kind not in (SourceKind.FILE, SourceKind.LISTING):
            return None
        root: bytes | None = self._root
        if source.repository is not None:
            root = self._siblings.get(source.repository)
        if root is None:
            return None
        stat = stat_key(root, source.path)
        return None if stat.startswith(b"!") else bool(stat)


def findings_of(tree: TreeAt, paths: Paths, today: date, tokens: Counter) -> list[Finding]:
    return lint(
        tree.name,
        parsed(whole(tree)),
        today=today,
        exists=paths.exists,
        cited=paths.cited,
        count_tokens=tokens.count,
    )


def mended(path: str, data: bytes | None) -> bytes | None:
    """The file without what is mechanically wrong in it; None where there is nothing to do."""
    if data is None:
        return None
    if path.rpartition("/")[2] == INDEX_NAME:
        return fixed_index(Directory("", parse_index(data), (), {}))
    return fixed_note(parse_note(data))


# -- answers ---------------------------------------------------------------------------------------


class MemoryAnswers:
    """`today`: the date of what is saved now, and what lies in the future."""

    def __init__(self, store: Store, today: Callable[[], date] = local_today) -> None:
        self._store = store
        self._today = today
        self._tokens: Counter | None = None

    def _counter(self) -> Counter:
        """Kept, as it asks for; called in a worker."""
        if self._tokens is None:
            self._tokens = tokenizer()
        return self._tokens

    async def read(
        self, worktree: Worktree, level: api.MemoryLevel | None, path: str | None, tree: str | None
    ) -> api.MemoryAnswer:
        if level == "note" and path is None:
            raise RequestInvalid("path is missing, and level is note", hint="name the note")
        trees = trees_named(worktree, tree)
        files = await asyncio.to_thread(files_of, trees, level, path)
        rows = await asyncio.to_thread(self._rows, files)
        for file, row in zip(files, rows, strict=True):
            judgement = await self._judged(worktree, file)
            if judgement is not None:
                row["verdict"] = judgement.verdict.value
                row["causes"] = [cause_json(cause) for cause in judgement.causes]
                row["drift"] = list(judgement.drift)
        return {
            "files": rows,
            "tokens": sum(row["tokens"] for row in rows),
            "tokens_are_estimated": self._counter().is_estimate,
            "tokenizer": self._counter().name,
        }

    async def _judged(self, worktree: Worktree, file: Read) -> Judgement | None:
        """Whether what the note says now may be trusted; None where nothing is known of it.

        An entry is answered by its newest version that holds, which may be an older text than the
        one that is shown: that one is then judged alone.
        """
        if file.kind != "note" or file.tree.root != worktree.root:
            return None
        await file.tree.tree.refresh()
        memory = worktree.memory
        own = [each.path for each in worktree.trees if each.root == worktree.root]
        known = memory.known(EntryName(Kind.NOTE, key_of(own, file.tree.path, file.path)))
        if known is None:
            return None
        said = joined(noted(parse_note(file.data)))
        judgement = await memory.answer(known)
        if judgement.version is not None and self._says(judgement.version, said):
            return judgement
        shown = next((each for each in known.entry.versions if self._says(each, said)), None)
        if shown is None:
            return None
        looks = {each: await memory.ground.look_patiently(each) for each in paths_of(shown)}
        causes = compare(Kind.NOTE, shown, looks.__getitem__).causes
        return Judgement(verdict_of(causes), shown, causes)

    def _says(self, version: Version, said: Noted | None) -> bool:
        return said_in(self._store.recorded(version.id).payload) == said

    def _rows(self, files: Iterable[Read]) -> list[api.MemoryFileJson]:
        rows: list[api.MemoryFileJson] = []
        for file in files:
            text = path_text(file.data)
            tokens = self._counter().count(text)
            row: api.MemoryFileJson = {
                "path": file.shown_path,
                "kind": file.kind,
                "text": text,
                "tokens": tokens,
            }
            if file.problem:
                row["problem"] = file.problem
            rows.append(row)
        return rows

    async def save(self, worktree: Worktree, request: api.SaveRequest) -> api.SavedAnswer:
        tree = trees_named(worktree, request.tree)[0]
        said = check_save(
            request.category,
            request.topic,
            request.title,
            request.bullets,
            find_secret=find_secret,
        )
        on = self._today() if request.date is None else _date(request.date)
        entry = Noted(on, said.title, said.bullets)
        saved = await tree.tree.save(said.category, said.topic, entry, request.replaces)
        text = note_bytes(saved.entry).decode()
        terms = (await asyncio.to_thread(self._suggested_near, tree, said.category)).terms
        used = [_term_json(term) for term in terms if term.phrase.casefold() in text.casefold()]
        return {
            "path": _shown(tree, saved.path),
            "created": saved.created,
            "indexes": [_shown(tree, path) for path in saved.indexes],
            "title": saved.entry.title,
            "date": saved.entry.on.isoformat() if saved.entry.on is not None else "",
            "bullets": list(saved.entry.bullets),
            "suggestions": used[:SUGGESTIONS_MAX],
            "tokens": self._counter().count(text),
            "tokens_are_estimated": self._counter().is_estimate,
        }

    async def terms(self, worktree: Worktree, tree: str | None) -> api.TermsAnswer:
        trees = await asyncio.to_thread(existing, trees_named(worktree, tree))
        for each in trees:
            await each.tree.refresh()
        found = await asyncio.to_thread(self._suggested, trees)
        return {
            "suggestions": [_term_json(term) for term in found.terms],
            "is_worth_it": found.is_worth_it,
            "reason": found.reason,
            "share": round(found.share, 4),
            "tokens": found.total_tokens,
            "tokens_are_estimated": self._counter().is_estimate,
            "tokenizer": self._counter().name,
        }

    def _suggested(self, trees: Iterable[TreeAt]) -> Suggestions:
        directories = [each for tree in trees for each in whole(tree).values()]
        texts, known = texts_of(directories)
        return suggest(texts, self._counter().count, known=known)

    def _suggested_near(self, tree: TreeAt, category: str) -> Suggestions:
        texts, known = texts_of(some(tree, category, NEAR_NOTES_MAX))
        return suggest(texts, self._counter().count, known=known)

    async def lint(self, worktree: Worktree, tree: str | None) -> api.LintAnswer:
        trees = await asyncio.to_thread(existing, trees_named(worktree, tree))
        return {"findings": await self._findings(worktree, trees)}

    async def _findings(self, worktree: Worktree, trees: Iterable[TreeAt]) -> list[api.FindingJson]:
        found = [finding for tree in trees for finding in await self._found(worktree, tree)]
        return [_finding_json(finding) for finding in found]

    async def _found(self, worktree: Worktree, tree: TreeAt) -> list[Finding]:
        await tree.tree.refresh()
        paths = Paths(worktree, tree)
        return await asyncio.to_thread(self._lint, tree, paths)

    def _lint(self, tree: TreeAt, paths: Paths) -> list[Finding]:
        return findings_of(tree, paths, self._today(), self._counter())

    async def fix(self, worktree: Worktree, request: api.TreeRequest) -> api.FixAnswer:
        """Whatever can be mended without knowing what is meant; what is left is told."""
        trees = await asyncio.to_thread(existing, trees_named(worktree, request.tree))
        written: list[str] = []
        for tree in trees:
            written += await sync(tree)
            found = await self._found(worktree, tree)
            for path in sorted({each.path for each in found if each.is_fixable}):
                if await mend(tree, path):
                    written.append(path)
            # An entry that can be read only now gives its note another description.
            written += await sync(tree)
        findings = await self._findings(worktree, trees)
        return {"findings": findings, "written": list(dict.fromkeys(written))}

    async def sync(self, worktree: Worktree, request: api.TreeRequest) -> api.MemorySyncAnswer:
        trees = await asyncio.to_thread(existing, trees_named(worktree, request.tree))
        return {"written": [path for tree in trees for path in await sync(tree)]}


async def sync(tree: TreeAt) -> list[str]:
    return [_shown(tree, path) for path in await tree.tree.sync()]


def _shown(tree: TreeAt, path: str) -> str:
    """As answers have it, of a path below the root of the tree's repository."""
    return tree.shown(path.removeprefix(path_text(tree.path) + "/"))


async def mend(tree: TreeAt, path: str) -> bool:
    """Whether the file that answers call `path` was written."""
    name = path.removeprefix(tree.name + "/")
    is_changed = False

    def plan(data: bytes | None) -> bytes | None:
        nonlocal is_changed
        new = mended(name, data)
        is_changed = is_changed or new is not None
        return new

    await tree.tree.write(name, plan)
    return is_changed


def texts_of(directories: Iterable[ReadDirectory]) -> tuple[list[str], dict[str, str]]:
    """What notes and indexes say, and the phrases of the dictionaries by their abbreviations."""
    texts: list[str] = []
    known: dict[str, str] = {}
    for read in directories:
        files = [*read.notes.values(), *([read.index] if read.index is not None else [])]
        texts += [file.data.decode("utf-8", "replace") for file in files if file.data]
        if read.dictionary is not None and read.dictionary.data is not None:
            lines = parse_dictionary(read.dictionary.data).lines
            known.update({each.name: each.text for each in lines if each.kind is LineKind.TERM})
    return texts, known


def _finding_json(finding: Finding) -> api.FindingJson:
    return {
        "path": finding.path,
        "line": finding.line,
        "rule": finding.rule.value,
        "message": finding.message,
        "is_fixable": finding.is_fixable,
    }


def _term_json(term: Term) -> api.TermJson:
    return {
        "abbreviation": term.abbreviation,
        "phrase": term.phrase,
        "uses": term.uses,
        "tokens": term.tokens,
        "saves": term.saves,
        "costs": term.cost,
        "net": term.net,
    }


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise RequestInvalid(
            f"date is {text!a}, must be a day as YYYY-MM-DD", hint="leave it out for today"
        ) from None
