"""Ten topics of a made-up project, told twice: as wiki pages and as the notes distilled from them.

Each topic is a list of facts, and a fact has a sentence or two of a page and its bullet in a note.
A page puts around them what wiki pages have: why there was a question, what else was thought of,
who to ask. Which of the usual phrases it takes is drawn from the topic's name, so every run gives
the same bytes. How much a note saves depends on how wordy its page is; these are shorter than the
seed's, which is hard on the notes, and nothing in them was chosen for a result.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Topic:
    """`facts`: a bullet of the note and how the page tells it. `instead`: what lost, and why."""

    name: str
    title: str
    description: str
    context: str
    facts: tuple[tuple[str, str], ...]
    instead: str


TOPICS: Final = (
    Topic(
        "auth",
        "Signed session tokens, revoked through Redis",
        "how users sign in and how sessions end",
        "The shop started with sessions in the memory of a single web process. When a second"
        " process was added, people were signed out at random, and support tickets followed within"
        " days.",
        (
            (
                "signed session token in a cookie: HttpOnly, SameSite=Lax, 15 minutes",
                "After signing in, the browser receives a signed session token in a cookie. The"
                " cookie is HttpOnly and SameSite=Lax, and the token inside it is only good for"
                " fifteen minutes, so that a stolen one does not stay useful for long.",
            ),
            (
                "refresh token rotates on each use; reuse ends the whole family",
                "A refresh token is handed out next to it. It is replaced each time it is used, and"
                " if an old one ever turns up again we assume theft and end every session that"
                " descends from it.",
            ),
            (
                "revocation list in Redis, entries expire with the token",
                "Because a signed session token cannot be taken back, we keep a revocation list in"
                " Redis. Each entry disappears by itself at the moment when the token would have"
                " expired anyway, which keeps the list small.",
            ),
            (
                "Redis down: deny admin, let customers read",
                "We talked at length about what should happen when Redis is not reachable. In the"
                " end we decided that the admin area refuses everybody, while customers may go on"
                " reading pages but cannot place orders.",
            ),
            (
                "signing keys rotate monthly, two are valid at a time",
                "Signing keys are rotated at the beginning of every month. Two of them are valid at"
                " any given time, so that nobody is signed out by the rotation itself.",
            ),
            (
                "admin needs a second factor; recovery codes are shown once",
                "Everybody who can enter the admin area needs a second factor. Recovery codes are"
                " displayed exactly once, and support is not able to look them up afterwards.",
            ),
        ),
        "sticky sessions at the load balancer (a restart would still lose them), and sessions in"
        " the database (one more query for every single page)",
    ),
    Topic(
        "db-schema",
        "PostgreSQL, one schema, row level security",
        "tables, keys, tenants and migrations",
        "Each merchant used to have a database of its own. With four hundred merchants, a migration"
        " took most of a night, and a failure in the middle left us with two versions of"
        " everything.",
        (
            (
                "one schema; tenant_id in every table; row level security enforces it",
                "All merchants now live in one schema. Every table carries a tenant_id column, and"
                " row level security in the database makes sure that a query can only ever see the"
                " rows of the tenant it runs for, even if the application forgets to ask.",
            ),
            (
                "UUID version 7 as primary key: sortable, no hot page",
                "Primary keys are UUIDs of version 7. They can be generated anywhere, they sort by"
                " time, and they avoid the single hot index page that we used to see with"
                " sequences during sales.",
            ),
            (
                "money as integer cents plus currency; never float",
                "Amounts of money are stored as an integer number of cents together with a currency"
                " code. Floating point numbers are not used for money anywhere, not even in"
                " reports.",
            ),
            (
                "soft delete for orders and customers only, 30 days",
                "Orders and customers are only marked as deleted at first and are really removed"
                " after thirty days. For all other tables a delete is a delete, because the marked"
                " rows kept confusing people who wrote reports.",
            ),
            (
                "migrations: expand, backfill, contract; each in its own release",
                "A migration happens in three steps: we expand the schema, we backfill the data,"
                " and in a later release we contract. This means that the previous release can"
                " always run against the current schema.",
            ),
            (
                "lock_timeout 2 s in migrations; retry, never wait",
                "Migrations set a lock timeout of two seconds. A migration that cannot get its lock"
                " gives up and is tried again later, since waiting would queue every other query"
                " behind it.",
            ),
        ),
        "a document store (reports need joins), and one schema per tenant (the catalogue became"
        " slow at a few hundred of them)",
    ),
    Topic(
        "api-design",
        "REST with cursors, idempotency keys and problem details",
        "conventions of the public API",
        "The first version of the public API grew endpoint by endpoint. Partners complained that"
        " each of them paged differently and that errors came in at least five shapes.",
        (
            (
                "version in the path (/v2); additive changes only within one",
                "The version is part of the path. Inside a version we only ever add things; a field"
                " that is removed or that changes its meaning requires a new version, and the old"
                " one is kept alive for twelve months after that.",
            ),
            (
                "cursor pagination, limit 100; no offsets",
                "All lists use cursor pagination with at most one hundred items per page. We do not"
                " support offsets, because they become slow on large tables and skip items when"
                " something is inserted in between.",
            ),
            (
                "idempotency key required on POST; kept 24 hours",
                "Every request that creates something must carry an idempotency key. The answer is"
                " stored for twenty-four hours, and a repeated request with the same idempotency"
                " key receives the stored answer instead of creating a second order.",
            ),
            (
                "errors are problem details with a stable code",
                "Errors are returned as problem details. Each has a stable code that clients may"
                " rely on, while the human readable text may change at any time without notice.",
            ),
            (
                "rate limit per key: token bucket, 50/s, burst 100; headers tell the rest",
                "Requests are limited for each key by a token bucket of fifty per second with"
                " bursts of up to one hundred. Response headers tell the client how much is left,"
                " so that well-behaved clients never need to run into the limit.",
            ),
            (
                "times are UTC, RFC 3339; ids are opaque strings",
                "Times are always given in UTC in the format of RFC 3339. Identifiers are opaque"
                " strings, and partners are asked not to draw any conclusions from how they look.",
            ),
        ),
        "GraphQL (caching and limits would have been ours to invent), and gRPC (several partners"
        " call us from spreadsheets)",
    ),
    Topic(
        "caching",
        "Read-through cache with single flight and jitter",
        "what is cached where, and for how long",
        "During the spring sale a popular product expired from the cache, and all web processes"
        " asked the database for it in the same second. The database needed ten minutes to recover."
        "",
        (
            (
                "read-through cache in Redis; database stays the source of truth",
                "We use a read-through cache in Redis. The database remains the source of truth,"
                " and it must always be possible to empty the cache completely without losing data."
                "",
            ),
            (
                "single flight per key: one loader, others wait 200 ms, then serve stale",
                "For each key only one process may load the value at a time. The others wait for up"
                " to two hundred milliseconds and after that they serve the stale value, which is"
                " kept around for this purpose.",
            ),
            (
                "lifetime 10 minutes with 20 % jitter",
                "Values live for ten minutes. A jitter of twenty percent is added to the lifetime"
                " so that values that were stored together do not expire together.",
            ),
            (
                "keys carry tenant and schema version: shop:42:v7:product:…",
                "Every key contains the tenant and the version of the schema. When the shape of a"
                " value changes we raise the version, and the old values simply age out.",
            ),
            (
                "write path deletes keys after commit, by outbox; never updates them",
                "After a commit the affected keys are deleted by way of the outbox. We never update"
                " a cached value in place, because two writers could finish in the wrong order.",
            ),
            (
                "no caching of prices in the checkout",
                "Prices are not cached in the checkout. A customer who sees a price there must be"
                " charged exactly that price, and the legal team asked us to be strict about it.",
            ),
        ),
        "a cache inside each process (invalidation across processes was never solved), and caching"
        " at the edge (pages differ for each customer)",
    ),
    Topic(
        "deployment",
        "Blue-green deployment behind one load balancer",
        "how a release reaches customers and goes back",
        "Releases used to be rolled out machine by machine. For about twenty minutes two versions"
        " answered side by side, and reproducing an error from that window was close to impossible."
        "",
        (
            (
                "blue-green deployment: idle color gets the release, smoke tests, then switch",
                "We do blue-green deployment. The release goes to the idle color first, smoke tests"
                " run against it, and only then does the load balancer send customers there.",
            ),
            (
                "switch in 10 % steps over 15 minutes, held by error rate and p99",
                "Traffic moves in steps of ten percent over a quarter of an hour. If the error rate"
                " or the slowest percentile gets worse than before, the switch is held and somebody"
                " is called.",
            ),
            (
                "old color stays up 24 hours: rollback is one command",
                "The old color stays up for twenty-four hours. Going back is a single command that"
                " anybody on call may use without asking first.",
            ),
            (
                "images by digest, built once, signed; no tag is deployed",
                "An image is built once, signed, and referred to by its digest from then on. We do"
                " not deploy tags, since a tag can point to something else tomorrow.",
            ),
            (
                "configuration from environment; secrets mounted as files",
                "Configuration comes from the environment. Secrets are mounted as files, because"
                " the environment of a process tends to end up in crash reports.",
            ),
            (
                "freeze Friday 14:00 to Monday 08:00, hot fixes excepted",
                "From Friday afternoon at two until Monday morning at eight nothing is released,"
                " with the exception of hot fixes that two people have agreed on.",
            ),
        ),
        "rolling releases (the reason for this page), and feature branches on separate machines"
        " (too expensive for what they gave us)",
    ),
    Topic(
        "observability",
        "Structured logs, traces by request id, four alerts",
        "logs, metrics, traces and who is woken up",
        "We had ninety alerts, most of which nobody acted on. When the payment provider was down"
        " for an hour, the one alert that mattered was lost between the others.",
        (
            (
                "logs are JSON lines with request id, tenant, release",
                "Logs are written as JSON, one object per line. Each line carries the request id,"
                " the tenant and the release, so that a customer's report can be followed through"
                " all services.",
            ),
            (
                "no personal data in logs; a filter drops known fields, a test checks",
                "Personal data does not belong into logs. A filter removes the fields that we know,"
                " and a test sends a marked customer through the checkout and looks for the mark.",
            ),
            (
                "traces sampled: all errors, all slower than 1 s, 1 % of the rest",
                "Traces are sampled after the fact. We keep all those with errors, all those that"
                " took longer than a second, and one percent of the remaining ones.",
            ),
            (
                "four alerts page: error budget, checkout rate, queue age, certificate",
                "Only four alerts wake anybody up: the error budget burns too fast, the rate of"
                " finished checkouts falls, the oldest message in a queue gets too old, or a"
                " certificate is about to expire.",
            ),
            (
                "each alert links a runbook; no runbook, no alert",
                "Every alert links to a runbook that says what to look at first. An alert for which"
                " nobody has written a runbook is removed again.",
            ),
            (
                "error budget 0.1 % a month; spent budget stops features",
                "The error budget is a tenth of a percent per month. When it is spent, work on"
                " features stops until the causes are fixed, and this has happened twice so far.",
            ),
        ),
        "a hosted suite (the price grows with every label), and plain text logs (searching them"
        " took an expert)",
    ),
    Topic(
        "background-jobs",
        "Outbox, at-least-once delivery, dead letter queue",
        "work that happens after the answer was sent",
        "Confirmation mails were sent from inside the request. When the mail server was slow the"
        " checkout was slow, and when the request failed late, customers got mails for orders that"
        " did not exist.",
        (
            (
                "transactional outbox: job row in the same commit as the data",
                "A job is written to a transactional outbox, which is a table in the same database."
                " It is committed together with the data that it is about, so neither can exist"
                " without the other.",
            ),
            (
                "at-least-once delivery; handlers use the idempotency key",
                "Delivery is at least once, which means that a handler may see the same job twice."
                " Handlers therefore use the idempotency key of the job and do nothing the second"
                " time.",
            ),
            (
                "retries: 5, exponential backoff with jitter, 1 s to 10 minutes",
                "A job that fails is tried five more times. The pauses grow exponentially from one"
                " second to ten minutes, and some jitter is added to them.",
            ),
            (
                "then dead letter queue, kept 14 days, replay by hand",
                "After the last attempt the job goes to the dead letter queue. It stays there for"
                " fourteen days, and somebody has to look at it and replay it by hand.",
            ),
            (
                "one queue per priority, not per type; checkout first",
                "There is one queue for each priority and not one for each type of job. Everything"
                " that the checkout needs has the highest priority.",
            ),
            (
                "job limit 5 minutes; longer work is split by cursor",
                "A job may run for five minutes. Work that takes longer is split into pieces, where"
                " each piece hands a cursor to the next one.",
            ),
        ),
        "a message broker with transactions (one more system to operate), and cron (no retries, and"
        " nobody noticed when it stopped)",
    ),
    Topic(
        "testing",
        "Many unit tests, real database, few browsers",
        "which tests exist and when they run",
        "The test suite took fifty minutes and failed by chance about once a day. People had begun"
        " to press the button for a second run without reading what had failed.",
        (
            (
                "suite under 8 minutes; a slower one is a bug",
                "The whole suite has to finish in eight minutes. If it takes longer, that is"
                " treated as a bug and gets a ticket like any other bug.",
            ),
            (
                "integration tests on real PostgreSQL and Redis in containers",
                "Integration tests use a real PostgreSQL and a real Redis in containers. We do not"
                " replace the database by something lighter, because the differences cost us more"
                " than the containers do.",
            ),
            (
                "no sleeps; wait for a condition; clock is injected",
                "Tests do not sleep. They wait for a condition to become true, and whatever needs"
                " the time gets a clock handed in that the test controls.",
            ),
            (
                "flaky test: quarantined the same day, fixed or deleted within a week",
                "A test that fails by chance is put into quarantine on the same day. It is either"
                " fixed or deleted within a week, and the person who wrote it decides which.",
            ),
            (
                "browser tests only for sign-in, checkout, refund",
                "Browser tests exist for signing in, for the checkout and for refunds, and for"
                " nothing else. Everything else is tested below the surface.",
            ),
            (
                "contract tests with partners: recorded, replayed nightly",
                "For our partners' systems we have contract tests. Their answers are recorded, and"
                " every night the recordings are compared with what the partner really answers.",
            ),
        ),
        "a shared staging system as the only truth (it was always in use by somebody), and tests"
        " written by a separate team (they came too late)",
    ),
    Topic(
        "error-handling",
        "Expected errors are values, the rest crashes loudly",
        "what is caught, what is retried, what the customer sees",
        "Somewhere in the code every exception was caught and logged. Orders were lost without"
        " anybody noticing until the customer called.",
        (
            (
                "expected errors are values; unexpected ones reach one boundary",
                "Errors that we expect are ordinary return values, and the caller has to say what"
                " it does about them. Everything unexpected travels up to one single boundary,"
                " which logs it once with its traceback.",
            ),
            (
                "no catch-all below the boundary; linter rule",
                "Below this boundary nothing may catch all exceptions. A rule of the linter makes"
                " sure of it, and exceptions from the rule need a comment that explains them.",
            ),
            (
                "timeouts on every call out: connect 1 s, total 5 s",
                "Every call to another system has a timeout of one second for the connection and"
                " five seconds in total. There is no call without one, not even in scripts.",
            ),
            (
                "retry only what is idempotent, twice, with jitter; never a 4xx",
                "Only calls that are idempotent are retried, at most twice and with some jitter."
                " Answers that say that we made a mistake are never retried.",
            ),
            (
                "circuit breaker: 50 % errors in 30 s opens it for 60 s",
                "A circuit breaker opens when half of the calls within thirty seconds have failed."
                " It stays open for a minute and then lets a single call through to try.",
            ),
            (
                "customer sees request id and what to do, never internals",
                "The customer is shown the request id and a sentence about what to do next. Names"
                " of hosts, queries and tracebacks are never shown.",
            ),
        ),
        "exceptions for everything (callers forgot them), and error codes as numbers (nobody could"
        " remember what they meant)",
    ),
    Topic(
        "frontend-state",
        "Server state in a query cache, little else",
        "where the browser keeps what it knows",
        "The single global store of the frontend had grown to two hundred reducers. Most of them"
        " copied answers of the server and then forgot to refresh them.",
        (
            (
                "server state lives in the query cache, stale after 30 s",
                "What comes from the server lives in the query cache and nowhere else. It is"
                " considered stale after thirty seconds and is then loaded again in the background."
                "",
            ),
            (
                "view state in the component, shareable state in the URL",
                "State that only concerns the view stays in its component. State that somebody may"
                " want to share, such as filters and pages, is part of the URL.",
            ),
            (
                "global store: signed-in user, locale, feature flags; nothing more",
                "The global store has been reduced to the signed-in user, the locale and the"
                " feature flags. A review is needed before anything is added to it.",
            ),
            (
                "optimistic update for cart only, rolled back on error",
                "Only the cart is updated optimistically. If the server disagrees, the change is"
                " rolled back and the customer is told why.",
            ),
            (
                "forms: schema validates in the browser and on the server, one source",
                "Forms are validated by a schema that is shared by the browser and the server."
                " There is one source for it, from which both sides are generated.",
            ),
            (
                "bundle budget 180 kB compressed; the build fails above",
                "The bundle may have one hundred and eighty kilobytes after compression. The build"
                " fails when it is larger, and raising the budget needs a reason in writing.",
            ),
        ),
        "keeping the store and generating reducers (more of the same), and rendering everything on"
        " the server (the cart needs to react at once)",
    ),
)

_OPENINGS: Final = (
    "This page describes what we decided about {subject}, why we decided it, and what follows.",
    "This page collects everything that a new colleague should know about {subject}.",
    "The following explains our current approach to {subject} and the thoughts behind it.",
)
_DECIDED: Final = (
    "After two meetings and a prototype, the team agreed on the following.",
    "We discussed this in the architecture round, and there was broad agreement in the end.",
    "The decision was not unanimous, but everybody was able to live with it.",
)
_WEIGHED: Final = (
    "Before we settled on this, we also looked at {instead}. None of them seemed better to us.",
    "Other ideas were on the table as well, among them {instead}. We may come back to them.",
)
_CLOSINGS: Final = (
    "If something on this page is no longer true, please correct it or tell the platform team in"
    " the usual channel. The page is reviewed about once every quarter.",
    "Questions are welcome in the channel of the platform team. Please keep this page up to date"
    " when you change something that it describes, because others will rely on it.",
)

_ROOT_INDEX: Final = (
    "dict: dict.aicontext | abbreviations\ndir: decisions/ | architecture and design decisions\n"
)


def pages() -> dict[str, str]:
    """The wiki pages by file name, as Markdown."""
    return {f"{topic.name}.md": _page(topic) for topic in TOPICS}


def notes() -> dict[str, str]:
    """The notes by file name."""
    return {f"{topic.name}.aicontext": _note(topic) for topic in TOPICS}


def indexes(*, has_dictionary: bool) -> Mapping[str, str]:
    """The root's index and the category's, by path in the tree."""
    root = _ROOT_INDEX if has_dictionary else _ROOT_INDEX.partition("\n")[2]
    lines = (f"file: {topic.name}.aicontext | {topic.description}\n" for topic in TOPICS)
    return {"index.aicontext": root, "decisions/index.aicontext": "".join(lines)}


def _page(topic: Topic) -> str:
    drawn = random.Random(topic.name)
    subject = topic.name.replace("-", " ")
    told = "\n\n".join(sentences for _, sentences in topic.facts)
    return (
        f"# {topic.title}\n\n{drawn.choice(_OPENINGS).format(subject=subject)}\n\n"
        f"## Background\n\n{topic.context}\n\n"
        f"## Decision\n\n{drawn.choice(_DECIDED)}\n\n{told}\n\n"
        f"## Alternatives\n\n{drawn.choice(_WEIGHED).format(instead=topic.instead)}\n\n"
        f"## Maintenance\n\n{drawn.choice(_CLOSINGS)}\n"
    )


def _note(topic: Topic) -> str:
    day = random.Random(topic.title).randrange(1, 29)
    bullets = "".join(f"  - {bullet}\n" for bullet, _ in topic.facts)
    return f"2026-04-{day:02}: {topic.title}\n{bullets}"
