"""What the schema says beyond what the views say by themselves."""

from __future__ import annotations

from typing import Any

PROBLEM = {
    "description": "Refused; the body says why and what to do.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[\\x21-\\x7e]+$"},
    "description": "The same request with the same key is answered as before and does nothing. Kept for 48 hours.",
}
UNCHANGED = {"description": "As the ETag in If-None-Match has it."}


def add_errors(result: dict[str, Any], generator: object, request: object, public: bool) -> dict[str, Any]:  # noqa: ARG001, FBT001  as it is called
    """Add to every operation what each can answer."""
    result["components"]["schemas"]["Problem"] = PROBLEM_SCHEMA
    for operations in result["paths"].values():
        for method, operation in operations.items():
            operation["responses"]["4XX"] = PROBLEM
            if method == "get":
                operation["responses"]["304"] = UNCHANGED
            if method == "post":
                operation.setdefault("parameters", []).append(KEY)
    return result


PROBLEM_SCHEMA = {
    "type": "object",
    "description": "An error, as RFC 9457 has it.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "earlier_run": {"type": "string", "description": "Where the same bytes were submitted before."},
        "earlier_page": {"type": "string", "description": "The page of that run."},
        "errors": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
    },
}
