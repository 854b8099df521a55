"""Memory trees of the shapes that the seed publishes, and of those that people make of them.

The shapes are facts about the seed's repository (research/landscape.md, section 1); the words are
ours. Each function writes one tree into `at`, the tree's own root; `at` must not be there yet.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from amend.core.aicontext import Directory
from amend.daemon import tree_reading

PLACEHOLDERS = ("architecture", "infra")
"""What the template's `decisions/` lists and does not have."""


def write(at: Path, files: Mapping[str, str | bytes]) -> None:
    """Write the files, by their paths below `at`, with their line endings as they are."""
    for path, text in files.items():
        target = at / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode() if isinstance(text, str) else text)


def read_tree(at: Path) -> list[Directory]:
    """The tree as the daemon reads it."""
    root, name = str(at.parent).encode(), at.name.encode()
    return tree_reading.parsed(tree_reading.read_tree(root, name, {}, time.time_ns()))


def template_tree(at: Path) -> None:
    """What one copies to begin: three categories, a dictionary of examples, no note yet.

    Headings and comments in every file; `decisions/` lists two directories that are not there.
    """
    write(
        at,
        {
            "index.aicontext": (
                "# Memory - what is in which directory\n"
                "\n"
                "dir: decisions/ | What was chosen, and why\n"
                "dir: tasks/ | What is being done\n"
                "dir: bugs/ | What is broken, and how to live with it\n"
                "\n"
                "# Words\n"
                "dict: dict.aicontext | Short forms, to be read before all else\n"
            ),
            "dict.aicontext": (
                "# Short forms of long terms\n"
                "# How: ABBR: the term in full\n"
                "\n"
                "# Remove the sign in front to use one:\n"
                "# RPQ: retry policy of queues\n"
                "# OWF: one writer per file\n"
            ),
            "decisions/index.aicontext": (
                "# decisions/ - What was chosen on purpose\n"
                "\n"
                "dir: architecture/ | How the parts fit together\n"
                "dir: infra/ | Where it runs and how it gets there\n"
                "\n"
                "# What is right here\n"
                "# file: <name> | <what it says>\n"
            ),
            "tasks/index.aicontext": (
                "# tasks/ - What is under way\n"
                "\n"
                "# What is right here\n"
                "# file: <name> | <what it says>\n"
            ),
            "bugs/index.aicontext": (
                "# bugs/ - What is known to be broken\n"
                "\n"
                "# What is right here\n"
                "# file: <name> | <what it says>\n"
            ),
        },
    )


TOPICS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "queueing": (
        "RPQ, at least once",
        "RPQ keeps every job at least once",
        (
            "RPQ: five tries, doubling from 2s; then the dead letter table",
            "Jobs carry a key, so that a second run of the same one changes nothing",
            "SKIP LOCKED on the jobs table instead of a broker: one thing less to run",
        ),
    ),
    "storage": (
        "OWF over a shared volume",
        "OWF, because the volume has no locks",
        (
            "OWF: the path's hash says which worker may write; readers take what is there",
            "Names are content hashes, so nothing is written twice and caches never expire",
            "Quota: 40GB a tenant; above it uploads are refused, not slowed down",
        ),
    ),
    "search": (
        "Trigrams first, vectors later",
        "Trigram index; vectors wait",
        (
            "pg_trgm answers 9 of 10 searches of the log in < 30ms",
            "Vectors wait until somebody asks in sentences; see ADR 12 (2025)",
        ),
    ),
    "billing": (
        "Invoices are append-only: no edits, only credits",
        "Append-only invoices: credits, no edits",
        (
            "Amounts are integers of the smallest unit; currency beside each one",
            "A wrong invoice gets a credit note, its number stays taken",
            "PCR: the ledger wins over the processor whenever both differ by > 0.01",
        ),
    ),
    "rollout": (
        "TSR: 1%, 10%, all",
        "TSR by tenant, not by request",
        (
            "TSR: stages hold for 20min each; error budget burn > 2x stops the next one",
            "TSR is by tenant, so that one sees a whole product and not half of each",
            "Rollback = the older image; schema changes are two releases apart",
        ),
    ),
    "logging": (
        "One canonical line per request + TSR stage",
        "Canonical lines, TSR stage in each",
        (
            "JSON, one line a request: route, tenant, ms, outcome; nothing else at info",
            "Bodies are never logged; ids are, hashed by day",
        ),
    ),
    "limits": (
        "Token buckets at the edge: 20/s, burst 60",
        "Buckets per key: 20/s, burst 60",
        (
            "Key = API key, else IP; health checks are exempt",
            "429 carries Retry-After; clients of ours honour it, with jitter",
        ),
    ),
    "testing": (
        "Fakes at the edge; OWF and RPQ for real",
        "Real RPQ and OWF under test, fakes elsewhere",
        (
            "A fake and the real thing answer alike, `{rows, next}`, or a contract test fails",
            "RPQ runs against a database of its own for each test: 40ms",
            "No sleeping: wait for a condition, 5s at most",
        ),
    ),
    "secrets": (
        "PCR of keys: quarterly, by two people",
        "Keys: rotation by two people (PCR)",
        (
            "Nothing in the environment of a build; a build asks for a short-lived token",
            "PCR: the old key stays valid for 24h; alarms on its use after 1h",
        ),
    ),
    "reviews": (
        "Small changes, one reviewer, a day",
        "One reviewer within a day",
        (
            "> 400 lines: the author says how to read it, or splits it",
            "OWF changes: both maintainers, always",
        ),
    ),
}
"""File name, title, description in the index, bullets."""


def ten_topics_tree(at: Path) -> None:
    """A tree in use: bare indexes, ten notes, every description another one than the title.

    The root's index lists its one category and leaves out the dictionary beside it. Notes are no
    YAML: titles and bullets hold colons, braces, hashes and percent signs.
    """
    notes = {
        f"decisions/{name}.aicontext": "\n".join(
            [f"2026-09-14: {title}", *(f"  - {bullet}" for bullet in bullets)]
        )
        + "\n"
        for name, (title, _, bullets) in TOPICS.items()
    }
    index = "".join(
        f"file: {name}.aicontext | {description}\n" for name, (_, description, _) in TOPICS.items()
    )
    write(
        at,
        {
            "index.aicontext": (
                "dir: decisions/ | Everything decided about the job runner: queueing, storage, "
                "search, billing, rollout, logging, limits, testing, secrets, reviews\n"
            ),
            "dict.aicontext": (
                "# Terms of three tokens and more, used three times and more\n"
                "\n"
                "RPQ: retry policy of queues\n"
                "OWF: one writer per file\n"
                "TSR: tenant staged rollout\n"
                "PCR: periodic control and rotation\n"
                "CDN: edge cache\n"
                "SLO: service level objective\n"
            ),
            "decisions/index.aicontext": index,
            **notes,
        },
    )


def unlisted_dictionary_tree(at: Path) -> None:
    """A root index that says all but that there is a dictionary. Nothing else is wrong."""
    write(
        at,
        {
            "index.aicontext": "# Memory\n\ndir: bugs/ | What is broken\n",
            "dict.aicontext": "LRT: long running transaction\n",
            "bugs/index.aicontext": (
                "# bugs/ - What is broken\n\nfile: vacuum.aicontext | LRTs keep vacuum from work\n"
            ),
            "bugs/vacuum.aicontext": (
                "2026-08-03: LRT blocks vacuum\n"
                "  - Any LRT holds back the horizon, and tables grow\n"
                "  - idle_in_transaction_session_timeout = 60s ends most of them\n"
            ),
        },
    )


def bare_tree(at: Path) -> None:
    """Two levels of categories, no heading and no comment anywhere, and nothing wrong."""
    write(
        at,
        {
            "index.aicontext": "dir: decisions/ | Choices\ndir: tasks/ | Work\n",
            "decisions/index.aicontext": (
                "file: cache.aicontext | Which cache\ndir: network/ | How parts talk\n"
            ),
            "decisions/cache.aicontext": (
                "2026-07-01: In-process cache, no server\n"
                "  - 64MB per worker; misses cost 3ms\n"
                "  - Invalidated by the change feed\n"
            ),
            "decisions/network/index.aicontext": "file: protocol.aicontext | HTTP/2 inside\n",
            "decisions/network/protocol.aicontext": (
                "2026-07-02: HTTP/2 between services\n  - gRPC stays out: no browser speaks it\n"
            ),
            "tasks/index.aicontext": "file: upgrade.aicontext | Database upgrade\n",
            "tasks/upgrade.aicontext": (
                "2026-07-05: Database upgrade\n  - Rehearsed twice on a copy; 11min of downtime\n"
            ),
        },
    )


def unkempt_tree(at: Path) -> None:
    """Files as editors, merges and other systems leave them: CRLF, tabs, a last line without an
    end, a byte order that is not UTF-8, markers of a conflict."""
    write(
        at,
        {
            "index.aicontext": b"# Memory\r\n\r\ndir: notes/ | Whatever came up\r\n",
            "notes/index.aicontext": (
                b"# notes/ - Whatever came up\r\n"
                b"file:\tcrlf.aicontext\t|\tFrom another system\r\n"
                b"file: tabs.aicontext | Bullets behind tabs\r\n"
                b"file: endless.aicontext | Its last line has no end\r\n"
                b"file: latin.aicontext | Not UTF-8\r\n"
                b"file: conflict.aicontext | Two versions"
            ),
            "notes/crlf.aicontext": (
                b"2026-06-01: Line ends of two bytes\r\n  - Kept as they are\r\n"
            ),
            "notes/tabs.aicontext": b"2026-06-02: Tabs\n\t- One\n\t- Two\n",
            "notes/endless.aicontext": b"2026-06-03: No final newline\n  - The end",
            "notes/latin.aicontext": b"2026-06-04: Caf\xe9\n  - Opens at 9\n",
            "notes/conflict.aicontext": (
                b"<<<<<<< HEAD\n"
                b"2026-06-05: Ours\n"
                b"=======\n"
                b"2026-06-06: Theirs\n"
                b">>>>>>> feature\n"
                b"  - Common to both\n"
            ),
        },
    )
