"""Every error as `application/problem+json` (RFC 9457), and JSON both ways.

One place decides which kind of error has which status. No traceback ever leaves; a bug gets a short
id that the log has too.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

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

OnBug = Callable[[Exception], str]
"""Told of a bug, once; gives the id that the client gets for it."""

# The first that fits decides, so a kind comes before the kind it is a case of.
STATUSES: Final[tuple[tuple[type[AmendError], int], ...]] = (
    (StaleMatch, 412),
    (Conflict, 409),
    (NotFound, 404),
    (Refused, 403),
    (RequestInvalid, 422),
    (DocumentInvalid, 422),
    (ConfigInvalid, 422),
    (Unavailable, 503),
)

# What `core.model.path_text` makes of a byte that is no UTF-8. pydantic takes no such text.
_RAW_BYTE: Final = re.compile("[\udc80-\udcff]")

_M = TypeVar("_M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Problem:
    """`errors`: each a `pointer` and the `rule` broken there. `more`: further members."""

    status: int
    detail: str
    hint: str = ""
    errors: tuple[dict[str, str], ...] = ()
    more: tuple[tuple[str, Any], ...] = ()

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
        return to_json_bytes(document | dict(self.more))


class Turned(Exception):
    """A request that gets `problem` for an answer, found out in serve itself."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def problem_of(error: Exception) -> Problem | None:
    """None for what is a bug."""
    if isinstance(error, Turned):
        return error.problem
    if isinstance(error, AmendError):
        status = next((code for kind, code in STATUSES if isinstance(error, kind)), 422)
        return Problem(status, error.message, error.hint)
    return None


def bug_problem(bug_id: str) -> Problem:
    return Problem(
        500, f"amend made a mistake ({bug_id})", "its log has the rest under that id; report it"
    )


def invalid_request(found: Sequence[Any]) -> Problem:
    """From pydantic's list of errors, each with `loc` and `msg`."""
    errors = tuple(
        {"pointer": "".join(f"/{_token(part)}" for part in each["loc"]), "rule": str(each["msg"])}
        for each in found
    )
    detail = f"{errors[0]['pointer'] or 'the body'}: {errors[0]['rule']}"
    return Problem(422, detail, "GET /openapi.json has the shape", errors)


def _token(part: int | str) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def parse_request(model: type[_M], body: bytes) -> _M:
    """Raises `Turned`: 400 for what is no JSON, 422 for what is no `model`."""
    try:
        document = from_json_bytes(body)
    except ValueError as error:
        problem = Problem(400, f"the body is no JSON: {error}", "send one JSON object in UTF-8")
        raise Turned(problem) from None
    try:
        return model.model_validate(document)
    except ValidationError as error:
        problem = _invalid(error)
    plain = _without_raw_bytes(document)
    if plain == document:
        raise Turned(problem)
    try:
        checked = model.model_validate(plain)
    except ValidationError as error:
        raise Turned(_invalid(error)) from None
    # The models are flat and convert nothing, so what was sent is what validation would give.
    return model.model_construct(**{name: document[name] for name in checked.model_fields_set})


def _invalid(error: ValidationError) -> Problem:
    return invalid_request(
        error.errors(include_url=False, include_context=False, include_input=False)
    )


def _without_raw_bytes(value: Any) -> Any:
    if isinstance(value, str):
        return _RAW_BYTE.sub("?", value)
    if isinstance(value, list):
        return [_without_raw_bytes(item) for item in value]
    if isinstance(value, dict):
        return {_without_raw_bytes(k): _without_raw_bytes(v) for k, v in value.items()}
    return value


def to_json_bytes(document: Any) -> bytes:
    """JSON bytes; names that are no UTF-8 travel as `\\udcXX`, which orjson will not write."""
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        return json.dumps(document, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def from_json_bytes(body: bytes) -> Any:
    """The document. Raises `ValueError` for what is no JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # The one thing that is taken where orjson refuses; a BOM, UTF-16 or NaN is not.
        if rb"\ud" not in body and rb"\uD" not in body:
            raise ValueError(str(error).partition(":")[0]) from None
    try:
        return json.loads(body.decode(), parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
