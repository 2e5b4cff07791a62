"""The JSON Schema of events, written from the classes of events.

`python -m tests.project.event_schema` writes the file. A test compares the file with the classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from chat_core import ChatResponse, Data, Done, File, Paused, ProgressEvent, StructuredResponse, Tool, Turn, Usage, Wait
from chat_core.event_json import OMITTED, event_type
from chat_core.messages import codec

FILE: Final = Path(__file__).resolve().parents[2] / "packages/chat-core/src/chat_core/events.schema.json"
EVENTS: Final[Sequence[type[Any]]] = [*get_args(ProgressEvent), Paused, Done]
STORED: Final[Mapping[type[Any], str]] = {Tool: "tool", Turn: "turn", File: "file", Data: "data", Usage: "usage"}
"""Values that are written as in a stored conversation."""
RECORDS: Final[Sequence[type[Any]]] = [Wait, ChatResponse, StructuredResponse]
SIMPLE: Final[Mapping[type[Any], str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def write() -> str:
    """Return the schema as the text of the file."""
    definitions: dict[str, object] = {event_type(kind): _object(kind, event_type(kind)) for kind in EVENTS}
    definitions |= {event_type(kind): _object(kind, None) for kind in RECORDS}
    stored = cast("dict[str, object]", codec.schema()["$defs"])
    assert not definitions.keys() & _prefixed(stored).keys()
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of a run",
        "description": "More fields and events may be added. Names from `stored_` on are as in a stored conversation.",
        "$ref": "#/$defs/event",
        "$defs": {
            "event": {"anyOf": [{"$ref": f"#/$defs/{event_type(kind)}"} for kind in EVENTS]},
            **definitions,
            **_prefixed(stored),
        },
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _prefixed(stored: Mapping[str, object]) -> dict[str, object]:
    text = json.dumps(dict(stored)).replace('"#/$defs/', '"#/$defs/stored_')
    return {f"stored_{name}": value for name, value in json.loads(text).items()}


def _object(kind: type[Any], tag: str | None) -> dict[str, object]:
    hints = get_type_hints(kind)
    written = [item for item in fields(kind) if item.name not in OMITTED]
    properties: dict[str, object] = {} if tag is None else {"type": {"const": tag}}
    properties |= {item.name: _type(hints[item.name], item.name) for item in written}
    required = [*([] if tag is None else ["type"]), *[item.name for item in written if item.default is not None]]
    return {"type": "object", "properties": properties, "required": required}


def _type(hint: object, name: str) -> dict[str, object]:
    """Return the schema of a field."""
    schema: dict[str, object]
    arguments = [item for item in get_args(hint) if item is not type(None)]
    match get_origin(hint):
        case None:
            schema = _plain_type(hint, name)
        case origin if origin is Literal:
            schema = {"enum": arguments}
        case origin if origin in (Union, UnionType):
            schema = _type(arguments[0], name)
        case origin if origin in (tuple, list):
            schema = {"type": "array", "items": _type(arguments[0], name)}
        case _:
            schema = {"type": "object"}
    return schema


def _plain_type(hint: object, name: str) -> dict[str, object]:
    known: dict[object, dict[str, object]] = {kind: {"$ref": f"#/$defs/{event_type(kind)}"} for kind in RECORDS}
    known |= {kind: {"$ref": f"#/$defs/stored_{stored}"} for kind, stored in STORED.items()}
    known |= {kind: {"type": simple} for kind, simple in SIMPLE.items()}
    if hint in known:
        return dict(known[hint])
    if hint is datetime:
        return {"type": "string", "format": "date-time"}
    if name == "event":
        return {"$ref": "#/$defs/event"}
    if isinstance(hint, TypeVar) and name == "response":
        # The output of an application's own class may have any fields but `turn`.
        other = {"not": {"type": "object", "required": ["turn"]}}
        return {"anyOf": [known[StructuredResponse], known[ChatResponse], other]}
    return {}


if __name__ == "__main__":
    FILE.write_text(write(), encoding="utf-8")
