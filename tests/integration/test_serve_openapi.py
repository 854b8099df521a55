"""The API does what `/openapi.json` says, as schemathesis sees it."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import (
    allow_header_conformance,
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.config import SchemathesisConfig

from amend.edge.serve.hot import Receive, Scope, Send
from amend.edge.serve.server import ApiServer
from tests.integration.serve_fakes import FakeBackend

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    allow_header_conformance,
]


def no_bug(error: Exception) -> str:
    raise AssertionError from error


class Door:
    """The server's app with the start and stop that schemathesis wants and uvicorn is told not to
    send."""

    def __init__(self) -> None:
        backend = FakeBackend()
        backend.streams_end = True
        self._app = ApiServer(
            backend, version="0.1.0", on_request=lambda *_: None, on_bug=no_bug
        ).app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})


# Its own systematic phase makes 500 cases; drawn ones and `test_serve_garbage` are quicker.
config = SchemathesisConfig.from_dict({"phases": {"coverage": {"enabled": False}}})
schema = schemathesis.openapi.from_asgi("/openapi.json", Door(), config=config)


@schema.parametrize()
@settings(max_examples=6, suppress_health_check=list(HealthCheck), deadline=None)
def test_every_operation_keeps_to_its_description(case: "schemathesis.Case[Any]") -> None:
    case.call_and_validate(checks=CHECKS)
