"""The HTTP routes of DESIGN section 6, over any `Backend`; OpenAPI is at /openapi.json."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from amend.edge.serve.hot import OnBug, bug_problem
from amend.edge.serve.problems import PROBLEM_JSON, Problem, problem_of, to_json
from amend.errors import AmendError
from amend.formats import api

# A proxy or a sleeping client is noticed by a write that fails; 15 s is what browsers expect too.
KEEP_ALIVE_S: Final = 15.0

Cwd = Annotated[str, Query(pattern=r"^/[^\x00]*$", max_length=4096)]
MaybeCwd = Annotated[str | None, Query(pattern=r"^/[^\x00]*$", max_length=4096)]
IfMatch = Annotated[str | None, Header()]


def build_app(backend: api.Backend, version: str, on_bug: OnBug) -> FastAPI:
    app = FastAPI(
        title="amend", version=version, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    _about_itself(app, backend)
    _about_entries(app, backend)
    _about_changes(app, backend)
    _errors(app, on_bug)
    return app


def _json(document: Any, status: int = 200, **headers: str) -> Response:
    return Response(to_json(document), status, headers, "application/json")


def _problem(problem: Problem) -> Response:
    return Response(problem.body(), problem.status, media_type=PROBLEM_JSON.decode())


def _about_itself(app: FastAPI, backend: api.Backend) -> None:
    @app.get("/v1/hello", response_model=api.HelloAnswer)
    async def hello() -> Response:
        return _json(backend.hello())

    @app.get("/v1/status", response_model=api.StatusAnswer)
    async def status() -> Response:
        return _json(backend.status())

    @app.get("/v1/repos", response_model=list[api.RepoJson])
    async def repos() -> Response:
        return _json(backend.repos())

    @app.post("/v1/repos", response_model=api.RepoJson, status_code=201)
    async def add_repo(request: api.RepoRequest) -> Response:
        return _json(await backend.add_repo(request), 201)

    @app.delete("/v1/repos/{repo_id}", status_code=204)
    async def remove_repo(repo_id: str) -> Response:
        await backend.remove_repo(repo_id)
        return Response(status_code=204)

    @app.get("/healthz", response_model=api.HealthAnswer)
    async def healthz() -> Response:
        return _json(backend.alive())

    @app.get("/readyz", response_model=api.HealthAnswer)
    async def readyz() -> Response:
        answer = backend.ready()
        return _json(answer, 200 if answer["ok"] else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(backend.metrics(), media_type="text/plain; version=0.0.4")


def _about_entries(app: FastAPI, backend: api.Backend) -> None:
    @app.post("/v1/lookup", response_model=api.LookupAnswer)
    async def lookup(request: api.LookupRequest) -> Response:
        return _json(await backend.lookup(request))

    @app.post("/v1/verify", response_model=api.VerifyAnswer)
    async def verify(request: api.VerifyRequest) -> Response:
        return _json(await backend.verify(request))

    @app.get("/v1/entries", response_model=api.EntriesAnswer)
    async def entries(
        cwd: Cwd, kind: api.KindName | None = None, verdict: api.VerdictName | None = None
    ) -> Response:
        return _json(await backend.entries(cwd, kind, verdict))

    # A key may hold a slash, so it takes the rest of the path.
    @app.get("/v1/entries/{kind}/{key:path}", response_model=api.JudgedEntryJson)
    async def get_entry(kind: api.KindName, key: str, cwd: Cwd) -> Response:
        entry, etag = await backend.get_entry(cwd, kind, key)
        return _json(entry, etag=etag)

    @app.put("/v1/entries/{kind}/{key:path}", response_model=api.PutAnswer)
    async def put_entry(
        kind: api.KindName,
        key: str,
        cwd: Cwd,
        request: api.PutRequest,
        if_match: IfMatch = None,
    ) -> Response:
        answer = await backend.put_entry(cwd, kind, key, request, if_match)
        return _json(answer, etag=answer["etag"])

    @app.delete("/v1/entries/{kind}/{key:path}", status_code=204)
    async def delete_entry(
        kind: api.KindName, key: str, cwd: Cwd, if_match: IfMatch = None
    ) -> Response:
        await backend.delete_entry(cwd, kind, key, if_match)
        return Response(status_code=204)


def _about_changes(app: FastAPI, backend: api.Backend) -> None:
    @app.get("/v1/changes", response_model=api.ChangesAnswer)
    async def changes(since: str, cwd: MaybeCwd = None) -> Response:
        return _json(backend.changes(cwd, since))

    @app.post("/v1/sync", response_model=api.SyncAnswer)
    async def sync() -> Response:
        return _json(await backend.sync())

    @app.get("/v1/events", response_class=StreamingResponse)
    async def events(
        cwd: MaybeCwd = None, last_event_id: Annotated[str | None, Header()] = None
    ) -> Response:
        stream = backend.events(cwd, last_event_id)
        return StreamingResponse(
            _event_lines(stream),
            media_type="text/event-stream",
            headers={"cache-control": "no-store"},
        )


async def _event_lines(stream: AsyncIterator[api.ChangeJson]) -> AsyncIterator[bytes]:
    """Server-sent events, with a comment whenever nothing happened for `KEEP_ALIVE_S`."""
    yield b": amend\n\n"
    upcoming: asyncio.Task[api.ChangeJson] | None = None
    try:
        while True:
            if upcoming is None:
                upcoming = asyncio.ensure_future(_next(stream))
            done, _ = await asyncio.wait((upcoming,), timeout=KEEP_ALIVE_S)
            if not done:
                yield b": still here\n\n"
                continue
            finished, upcoming = upcoming, None
            try:
                change = finished.result()
            except StopAsyncIteration:
                return
            clock = change["clock"].encode()
            yield b"id: %s\nevent: verdict\ndata: %s\n\n" % (clock, to_json(change))
    finally:
        if upcoming is not None:
            upcoming.cancel()


async def _next(stream: AsyncIterator[api.ChangeJson]) -> api.ChangeJson:
    return await anext(stream)


def _errors(app: FastAPI, on_bug: OnBug) -> None:
    @app.exception_handler(AmendError)
    async def expected(_: Request, error: Exception) -> Response:
        problem = problem_of(error)
        assert problem is not None
        return _problem(problem)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        found = error.errors()
        if any(each["type"] == "json_invalid" for each in found):
            return _problem(Problem(400, "the body is no JSON", "send one JSON object"))
        errors = tuple(
            {"pointer": "".join(f"/{part}" for part in each["loc"]), "rule": str(each["msg"])}
            for each in found
        )
        detail = f"{errors[0]['pointer']}: {errors[0]['rule']}"
        return _problem(Problem(422, detail, "see errors, and GET /openapi.json", errors))

    @app.exception_handler(HTTPException)
    async def by_status(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = f"{request.method} {request.url.path}: {error.detail}"
        return _problem(Problem(error.status_code, detail, "GET /openapi.json lists the routes"))

    @app.exception_handler(Exception)
    async def bug(_: Request, error: Exception) -> Response:
        return _problem(bug_problem(on_bug(error)))
