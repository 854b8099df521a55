"""Every error as `application/problem+json` (RFC 9457), and JSON both ways.

One place decides which kind of error has which status. No traceback ever leaves; a bug gets a short
id that the log has too.
"""

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import orjson
from pydantic import ValidationError

from amend.errors import (
    AmendError,
    ConfigInvalid,
    Conflict,
    DocumentInvalid,
    NotFound,
    Refused,
    RequestInvalid,
    StaleMatch,
    Unavailable,
)

PROBLEM_JSON: Final = b"application/problem+json"

_STATUS: Final = (
    (StaleMatch, 412),
    (NotFound, 404),
    (Conflict, 409),
    (Refused, 403),
    (RequestInvalid, 422),
    (DocumentInvalid, 422),
    (ConfigInvalid, 422),
    (Unavailable, 503),
)


@dataclass(frozen=True, slots=True)
class Problem:
    status: int
    detail: str
    hint: str = ""
    errors: tuple[dict[str, str], ...] = ()

    def body(self) -> bytes:
        document: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "hint": self.hint,
        }
        if self.errors:
            document["errors"] = list(self.errors)
        return to_json(document)


def problem_of(error: Exception) -> Problem | None:
    """None for what is a bug."""
    if isinstance(error, ValidationError):
        return invalid_request(error)
    if isinstance(error, AmendError):
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        return Problem(status, error.message, error.hint)
    return None


def invalid_request(error: ValidationError) -> Problem:
    errors = tuple(
        {
            "pointer": "".join(f"/{_pointer(part)}" for part in each["loc"]),
            "rule": each["msg"],
        }
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    )
    first = errors[0]
    detail = f"{first['pointer'] or 'the body'}: {first['rule']}"
    return Problem(422, detail, "see errors, and GET /openapi.json for the shape", errors)


def _pointer(part: int | str) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def to_json(document: Any) -> bytes:
    """JSON bytes; names that are no UTF-8 travel as `\\udcXX`, which orjson will not write."""
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        return json.dumps(document, separators=(",", ":")).encode("ascii")


def from_json(body: bytes) -> Any:
    """The document. Raises `ValueError` for what is no JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            return json.loads(body, parse_constant=_no_constant)
        except RecursionError:
            raise ValueError("nested too deeply") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
