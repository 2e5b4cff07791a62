"""Schemas that vendors accepted are sent unchanged, and are strict if they were strict in the recording."""

from __future__ import annotations

import json
from typing import Final, cast

from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, OutputSchema, ToolDeclaration, ToolDeclarations
from chat_responses import ResponsesDialect
from chat_responses.codec import encode

from ..exchanges import ROOT, require_wire
from ..listed import judge, read_listed
from ..normalise import Json, Object
from ..recordings import suite
from .canonical import differences
from .rebuild import ANY_SCHEMA

require_wire()

ROWS: Final = suite("schema_acceptance.jsonl", "responses")
PAGE: Final = ROOT / "docs" / "differences-responses.md"


def _sent(row: Object) -> Object:
    """Return the object with the schema in the body of the request."""
    schema = cast("Object", row["schema"])
    dialect = ResponsesDialect(model="m", strict_rewrite=row.get("provider") not in ANY_SCHEMA)
    tools, output = NO_TOOLS, None
    if row["where"] == "text.format":
        output = OutputSchema("answer", schema)
    else:
        tools = ToolDeclarations([ToolDeclaration("answer", "", schema)])
    body = encode(Messages.from_user("?"), tools, ChatOptions(), output, dialect=dialect, stream=False)
    sent = cast("Object", json.loads(body))
    if row["where"] == "text.format":
        return cast("Object", cast("Object", sent["text"])["format"])
    return cast("Object", cast("list[Json]", sent["tools"])[0])


def _body(schema: Json, *, strict: Json) -> Object:
    shape: Object = {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}
    return {"text": {"format": shape}}


def test_accepted_schemas_are_sent_equivalently_except_listed_differences() -> None:
    found = dict[str, list[str]]()
    for row in ROWS:
        if not row["accepted"]:
            continue
        carrier = _sent(row)
        ours = _body(carrier.get("schema", carrier.get("parameters")), strict=carrier.get("strict"))
        theirs = _body(row["schema"], strict=row["strict"])
        unlike = [str(difference).removeprefix("text.format.") for difference in differences(theirs, ours)]
        found.setdefault(str(row["from"]), []).extend(unlike)
    wrong = judge(found, read_listed("Schemas", PAGE))
    assert not wrong, "\n".join(wrong)
    assert len(ROWS) >= 77


def test_a_rejected_schema_is_not_sent_in_its_rejected_form() -> None:
    for row in ROWS:
        if row["accepted"]:
            continue
        carrier = _sent(row)
        refused = carrier.get("strict") is True and carrier.get("schema", carrier.get("parameters")) == row["schema"]
        assert not refused, row["from"]
