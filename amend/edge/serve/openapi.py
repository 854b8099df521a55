"""What `/openapi.json` says beyond what the framework finds out: bodies, and problems.

The framework would describe its own error shape, which nobody ever gets here.
"""

from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel

from amend.edge.serve.problems import PROBLEM_JSON

_TEXT: Final = {"type": "string"}

_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "RFC 9457. `hint` says what to do.",
    "required": ["type", "title", "status", "detail", "hint"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "hint": _TEXT,
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "rule"],
                "properties": {"pointer": _TEXT, "rule": _TEXT},
            },
        },
    },
}

_ANY_PROBLEM: Final[dict[str, Any]] = {
    "description": "Every error, whatever its status",
    "content": {PROBLEM_JSON.decode(): {"schema": {"$ref": "#/components/schemas/Problem"}}},
}

# The framework's, replaced by the one above.
_NOT_OURS: Final = ("HTTPValidationError", "ValidationError")


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """`openapi_extra` of a route with such a body. The models are flat and refer to nothing."""
    return _body(model.model_json_schema())


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


# What an agent's hook says is the agent's to describe.
TAKES_ANY_OBJECT: Final = _body({"type": "object"})


def describe(app: FastAPI) -> None:
    """Have the app tell of problems as they are."""
    made_by_framework = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = made_by_framework()
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            for name in _NOT_OURS:
                schemas.pop(name, None)
            schemas["Problem"] = _PROBLEM
            for item in schema["paths"].values():
                for operation in item.values():
                    operation["responses"].pop("422", None)
                    operation["responses"]["default"] = _ANY_PROBLEM
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
