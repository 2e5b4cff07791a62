"""Requests and schemas that the vendor refused: the error of a refused request, and the rewriting or refusal of a
schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, cast

import pytest
from chat_claude.codec import encode
from chat_claude.errors import error_from_response
from chat_claude.options import Dialect
from chat_core.errors import (
    AuthenticationError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    UnsupportedOptionError,
)
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, OutputSchema, ToolDeclaration, ToolDeclarations
from chat_core.transport.values import Headers

from ..exchanges import require_wire
from ..normalise import Json, Object
from ..recordings import suite
from .answers import object_of
from .forms import differences

require_wire()

VENDORS: Final = ("anthropic", "azure", "bedrock", "vertex")
ROWS: Final = [row for row in suite("rejections.jsonl", "messages", "count-tokens") if row["provider"] in VENDORS]
CLASSES: Final[dict[int, type[ProviderError]]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
}


def _name(row: Object) -> str:
    return f"{row['provider']}-{row['status']}-{row['from']}"


@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_a_recorded_error_has_the_class_and_fields_of_its_response(row: Object) -> None:
    headers = Headers(cast("dict[str, str]", row["headers"]))
    body = row["body"] if isinstance(row["body"], str) else json.dumps(row["body"])
    status = cast("int", row["status"])
    error = error_from_response(status, headers, body.encode(), "claude")
    assert type(error) is CLASSES[status], str(error)
    assert error.retryable is (status in {408, 409, 429} or status >= 500)
    assert error.retry_after == (float(headers["retry-after"]) if "retry-after" in headers else None)
    told = object_of(row["body"]).get("request_id")
    assert error.request_id == (headers.get("request-id") or headers.get("x-amzn-requestid") or told)
    assert error.status == status
    message = cast("str", object_of(row["error"])["message"])
    if not message.startswith("{"):
        assert message in str(error)


# --- Schemas --------------------------------------------------------------------------------------------------

SCHEMAS: Final = suite("schema_acceptance.jsonl", "messages")
ACCEPTED: Final = [row for row in SCHEMAS if row["accepted"]]
REFUSED: Final = [row for row in SCHEMAS if not row["accepted"]]


def _sent(row: Object) -> Object:
    """Return the object with the schema in the body that the library sends."""
    schema = cast("Object", row["schema"])
    dialect = Dialect(model="claude-sonnet-4-6", strict_tools=row["strict"] is True)
    tools, output = NO_TOOLS, None
    if row["where"] in {"output_format", "output_config.format"}:
        output = OutputSchema("answer", schema)
    else:
        tools = ToolDeclarations([ToolDeclaration("answer", "", schema)])
    sent = encode(Messages.from_user("?"), tools, ChatOptions(), output, dialect=dialect, stream=False)
    body = cast("Object", json.loads(sent.body))
    if output is not None:
        return object_of(object_of(body["output_config"])["format"])
    return object_of(cast("list[Json]", body["tools"])[0])


def test_accepted_schemas_are_sent_equivalently() -> None:
    assert len(ACCEPTED) >= 55
    for row in ACCEPTED:
        carrier = _sent(row)
        ours = carrier.get("schema", carrier.get("input_schema"))
        given: Object = {"tools": [{"name": "answer", "input_schema": row["schema"]}]}
        found = differences(given, {"tools": [{"name": "answer", "input_schema": ours}]})
        assert not found, f"{row['from']}: {found[0]}"
        if row["strict"] is True:
            assert carrier["strict"] is True, row["from"]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: json.dumps(row["schema"])[:60])
def test_a_rejected_schema_is_rewritten_or_refused_with_its_keyword(row: Object) -> None:
    try:
        carrier = _sent(row)
    except UnsupportedOptionError as error:
        schema = object_of(row["schema"])
        assert any(f"`{key}`" in str(error) for key in (*schema, "type"))  # noqa: PT017 - either is right
        return
    # It is not enforced then, and an object of any form is taken.
    assert "strict" not in carrier
    assert object_of(carrier["input_schema"])["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "$ref"} & object_of(carrier["input_schema"]).keys()


UNENFORCED: Final = frozenset(
    {"minimum", "maximum", "multipleOf", "minLength", "maxLength", "pattern", "maxItems", "uniqueItems", "default"}
)


def test_the_strict_form_of_recorded_schemas_has_no_rejected_keyword() -> None:
    for row in SCHEMAS:
        try:
            carrier = _sent({**row, "strict": True})
        except UnsupportedOptionError:
            continue
        schema = carrier.get("schema", carrier.get("input_schema"))
        if carrier.get("strict") is True or "schema" in carrier:
            assert not {key for node in _nodes(schema) for key in node} & UNENFORCED, row["from"]


def _nodes(schema: Json) -> Iterator[Object]:
    """Yield every schema within a schema."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("properties", "$defs", "definitions"):
        for inner in object_of(schema.get(key)).values():
            yield from _nodes(inner)
    for key in ("items", "anyOf", "allOf"):
        inner = schema.get(key)
        for item in inner if isinstance(inner, list) else [inner]:
            yield from _nodes(item)
