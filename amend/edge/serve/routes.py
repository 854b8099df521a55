"""The HTTP routes of DESIGN section 6, over any `Backend`. What is said of them: `openapi`.

Bodies are parsed here and not by the framework, so that they are judged as on the hot path: any
content type, names that are no UTF-8, the same errors.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi import Depends, FastAPI, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from amend.edge.serve.events import MEDIA_TYPE, EventStream
from amend.edge.serve.hot import HOOK, Catcher
from amend.edge.serve.limits import Limits
from amend.edge.serve.openapi import TAKES_ANY_OBJECT, describe, takes
from amend.edge.serve.problems import (
    PROBLEM_JSON,
    OnBug,
    Problem,
    Turned,
    invalid_request,
    parse_request,
    problem_of,
    to_json_bytes,
)
from amend.errors import AmendError
from amend.formats import api

ROUTES_HINT: Final = "GET /openapi.json lists the routes"

_M = TypeVar("_M", bound=BaseModel)

_PATH_RULE: Final = Query(pattern=r"^/[^\x00]*$", max_length=4096)
_TREE_PATH_RULE: Final = Query(pattern=r"^[^\x00]+$", max_length=4096)


async def _cwd(request: Request, cwd: Annotated[str, _PATH_RULE]) -> str:
    return _exact(request, "cwd", cwd)


async def _maybe_cwd(request: Request, cwd: Annotated[str | None, _PATH_RULE] = None) -> str | None:
    return None if cwd is None else _exact(request, "cwd", cwd)


async def _tree(
    request: Request, tree: Annotated[str | None, _TREE_PATH_RULE] = None
) -> str | None:
    return None if tree is None else _exact(request, "tree", tree)


async def _tree_path(
    request: Request, path: Annotated[str | None, _TREE_PATH_RULE] = None
) -> str | None:
    return None if path is None else _exact(request, "path", path)


def _exact(request: Request, name: str, value: str) -> str:
    """Bytes that are no UTF-8, which the framework loses, as `core.model.path_text` has them."""
    if "\ufffd" not in value:
        return value
    query: str = request.scope["query_string"].decode("latin-1")
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    return [exact for each, exact in pairs if each == name][-1]


def _body(model: type[_M]) -> Callable[[Request], Awaitable[_M]]:
    async def parsed(request: Request) -> _M:
        return parse_request(model, await request.body())

    return parsed


Cwd = Annotated[str, Depends(_cwd)]
MaybeCwd = Annotated[str | None, Depends(_maybe_cwd)]
Tree = Annotated[str | None, Depends(_tree)]
TreePath = Annotated[str | None, Depends(_tree_path)]
Key = Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
IfMatch = Annotated[str | None, Header()]


def build_app(
    backend: api.Backend, version: str, *, limits: Limits, stopping: asyncio.Event, on_bug: OnBug
) -> FastAPI:
    """`stopping` ends the event streams."""
    app = FastAPI(
        title="amend",
        version=version,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    _about_itself(app, backend)
    _about_repos(app, backend)
    _about_entries(app, backend)
    _about_memory(app, backend)
    _about_hooks(app, backend)
    _about_changes(app, backend, limits, stopping)
    if isinstance(backend, api.Reporting):
        _about_the_past(app, backend)
    _errors(app)
    app.add_middleware(Catcher, on_bug=on_bug)
    describe(app)
    return app


def _json(document: Any, status: int = 200, **headers: str) -> Response:
    return Response(to_json_bytes(document), status, headers, "application/json")


def _problem(problem: Problem, **headers: str) -> Response:
    return Response(problem.body(), problem.status, headers, PROBLEM_JSON.decode())


def _health(answer: api.HealthAnswer) -> Response:
    if answer["ok"]:
        return _json(answer)
    detail = "; ".join(answer["problems"]) or "not ready"
    more = (("ok", False), ("problems", answer["problems"]))
    return _problem(Problem(503, detail, "GET /v1/status says more", more=more))


def _about_itself(app: FastAPI, backend: api.Backend) -> None:
    @app.get("/v1/hello", response_model=api.HelloAnswer)
    async def hello() -> Response:
        return _json(backend.hello())

    @app.get("/v1/status", response_model=api.StatusAnswer)
    async def status() -> Response:
        return _json(backend.status())

    @app.get("/healthz", response_model=api.HealthAnswer)
    async def healthz() -> Response:
        return _health(backend.alive())

    @app.get("/readyz", response_model=api.HealthAnswer)
    async def readyz() -> Response:
        return _health(backend.ready())

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        text = backend.metrics().encode("utf-8", "replace")
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _about_repos(app: FastAPI, backend: api.Backend) -> None:
    @app.get("/v1/repos", response_model=list[api.RepoJson])
    async def repos() -> Response:
        return _json(backend.repos())

    @app.post(
        "/v1/repos",
        response_model=api.RepoJson,
        status_code=201,
        openapi_extra=takes(api.RepoRequest),
    )
    async def add_repo(
        request: Annotated[api.RepoRequest, Depends(_body(api.RepoRequest))],
    ) -> Response:
        return _json(await backend.add_repo(request), 201)

    @app.delete("/v1/repos/{repo_id}", status_code=204)
    async def remove_repo(repo_id: str) -> Response:
        await backend.remove_repo(repo_id)
        return Response(status_code=204)


def _about_entries(app: FastAPI, backend: api.Backend) -> None:
    # Described here; `hot.Front` answers it before it comes so far.
    @app.post("/v1/lookup", response_model=api.LookupAnswer, openapi_extra=takes(api.LookupRequest))
    async def lookup(
        request: Annotated[api.LookupRequest, Depends(_body(api.LookupRequest))],
    ) -> Response:
        return _json(await backend.lookup(request))

    @app.post("/v1/verify", response_model=api.VerifyAnswer, openapi_extra=takes(api.VerifyRequest))
    async def verify(
        request: Annotated[api.VerifyRequest, Depends(_body(api.VerifyRequest))],
    ) -> Response:
        return _json(await backend.verify(request))

    @app.get("/v1/entries", response_model=api.EntriesAnswer)
    async def entries(
        cwd: Cwd, kind: api.KindName | None = None, verdict: api.VerdictName | None = None
    ) -> Response:
        return _json(await backend.entries(cwd, kind, verdict))

    # A key may hold a slash, so it takes the rest of the path.
    @app.get("/v1/entries/{kind}/{key:path}", response_model=api.JudgedEntryJson)
    async def get_entry(kind: api.KindName, key: Key, cwd: Cwd) -> Response:
        entry, etag = await backend.get_entry(cwd, kind, key)
        return _json(entry, etag=etag)

    @app.put(
        "/v1/entries/{kind}/{key:path}",
        response_model=api.PutAnswer,
        openapi_extra=takes(api.PutRequest),
    )
    async def put_entry(
        kind: api.KindName,
        key: Key,
        cwd: Cwd,
        request: Annotated[api.PutRequest, Depends(_body(api.PutRequest))],
        if_match: IfMatch = None,
    ) -> Response:
        answer = await backend.put_entry(cwd, kind, key, request, if_match)
        return _json(answer, etag=answer["etag"])

    @app.delete("/v1/entries/{kind}/{key:path}", status_code=204)
    async def delete_entry(
        kind: api.KindName, key: Key, cwd: Cwd, if_match: IfMatch = None
    ) -> Response:
        await backend.delete_entry(cwd, kind, key, if_match)
        return Response(status_code=204)


def _about_memory(app: FastAPI, backend: api.Backend) -> None:
    @app.get("/v1/memory", response_model=api.MemoryAnswer)
    async def memory(
        cwd: Cwd, path: TreePath, tree: Tree, level: api.MemoryLevel | None = None
    ) -> Response:
        return _json(await backend.read_memory(cwd, level, path, tree))

    @app.post(
        "/v1/memory/save", response_model=api.SavedAnswer, openapi_extra=takes(api.SaveRequest)
    )
    async def save_memory(
        request: Annotated[api.SaveRequest, Depends(_body(api.SaveRequest))],
    ) -> Response:
        return _json(await backend.save_memory(request))

    @app.get("/v1/memory/lint", response_model=api.LintAnswer)
    async def lint_memory(cwd: Cwd, tree: Tree) -> Response:
        return _json(await backend.lint_memory(cwd, tree))

    @app.post("/v1/memory/fix", response_model=api.FixAnswer, openapi_extra=takes(api.TreeRequest))
    async def fix_memory(
        request: Annotated[api.TreeRequest, Depends(_body(api.TreeRequest))],
    ) -> Response:
        return _json(await backend.fix_memory(request))

    @app.post(
        "/v1/memory/sync",
        response_model=api.MemorySyncAnswer,
        openapi_extra=takes(api.TreeRequest),
    )
    async def sync_memory(
        request: Annotated[api.TreeRequest, Depends(_body(api.TreeRequest))],
    ) -> Response:
        return _json(await backend.sync_memory(request))

    @app.get("/v1/memory/dict", response_model=api.TermsAnswer)
    async def suggest_terms(cwd: Cwd, tree: Tree) -> Response:
        return _json(await backend.suggest_terms(cwd, tree))


def _about_hooks(app: FastAPI, backend: api.Backend) -> None:
    # The usual ones do not come so far; see `hot.Front.hook`.
    @app.post(
        HOOK,
        response_class=Response,
        responses={200: {"content": {"application/json": {}}}, 204: {"description": "Nothing"}},
        openapi_extra=TAKES_ANY_OBJECT,
    )
    async def hook(request: Request, agent: str) -> Response:
        reply = await backend.hook(agent, await request.body())
        if not reply:
            return Response(status_code=204)
        return Response(reply, media_type="application/json")


def _about_changes(
    app: FastAPI, backend: api.Backend, limits: Limits, stopping: asyncio.Event
) -> None:
    @app.get("/v1/changes", response_model=api.ChangesAnswer)
    async def changes(since: str, cwd: MaybeCwd = None) -> Response:
        return _json(backend.changes(cwd, since))

    @app.post("/v1/sync", response_model=api.SyncAnswer)
    async def sync() -> Response:
        return _json(await backend.sync())

    @app.get("/v1/events", response_class=Response, responses={200: {"content": {MEDIA_TYPE: {}}}})
    async def events(
        cwd: MaybeCwd = None, last_event_id: Annotated[str | None, Header()] = None
    ) -> Response:
        stream = backend.events(cwd, last_event_id)
        return await EventStream.open(stream, stopping, limits.quiet_s)


def _about_the_past(app: FastAPI, backend: api.Reporting) -> None:
    @app.get("/v1/activity", response_model=api.ActivityAnswer)
    async def activity(
        cwd: MaybeCwd = None, since: Annotated[str | None, Query(max_length=40)] = None
    ) -> Response:
        return _json(await backend.activity(cwd, since))


def _errors(app: FastAPI) -> None:
    @app.exception_handler(AmendError)
    @app.exception_handler(Turned)
    async def expected(_: Request, error: Exception) -> Response:
        problem = problem_of(error)
        assert problem is not None
        return _problem(problem)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return _problem(invalid_request(error.errors()))

    @app.exception_handler(HTTPException)
    async def by_status(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = f"{request.method} {request.url.path}: {error.detail.lower()}"
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["allow"] = ", ".join(_allowed(app, request))
        return _problem(Problem(error.status_code, detail, ROUTES_HINT), **headers)


def _allowed(app: FastAPI, request: Request) -> list[str]:
    """The framework names only the methods of the first route that has the path."""
    found: set[str] = set()
    for route in app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= set(getattr(route, "methods", None) or ())
    return sorted(found - {"HEAD"})
