"""The OpenAPI 3.1 description of the JSON API."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final, TypeAlias

Json: TypeAlias = dict[str, object]

_TEXT: Final[Json] = {"type": "string"}
_OPTIONAL: Final[Json] = {"type": ["string", "null"]}
_TIME: Final[Json] = {"type": ["string", "null"], "format": "date-time"}
_OBJECT: Final[Json] = {"type": "object"}
_PATH: Final[Json] = {"type": "array", "items": _TEXT, "minItems": 1}
_KIND: Final[Json] = {"enum": ["approval", "schedule", "result", "interrupted"]}
_STATUS: Final[Json] = {
    "enum": ["Pending", "Approved", "Running", "Suspended", "Interrupted", "Completed", "Failed", "Rejected"]
}


def _with_description(schema: Json, text: str) -> Json:
    return {**schema, "description": text}


def _object_schema(properties: dict[str, object], optional: tuple[str, ...] = ()) -> Json:
    """Return the JSON Schema of an object that has the given properties and no others."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_VERSION: Final = _with_description(_TEXT, "The `version` of the call that the approver saw.")
_CALL_NAME: Final = _with_description(_TEXT, "The call's path in the form that URLs contain.")
_CONVERSATION_NAME: Final = _with_description(_TEXT, "The conversation's id in the form that URLs contain.")
_EDITS: Final[Json] = {
    "type": ["object", "null"],
    "description": "The approved arguments, if the approver edited them.",
}

_CALL: Final[dict[str, object]] = {
    "call": _CALL_NAME,
    "path": _with_description(_PATH, "Call ids from the outermost call to this one."),
    "name": _with_description(_TEXT, "The name of the tool."),
    "status": _STATUS,
    "waits_for": {"enum": ["approval", "schedule", "result", "interrupted", None]},
    "may_decide": {"type": "boolean", "description": "Whether you may decide the call."},
    "version": _with_description(_TEXT, "Identifies the current state of the call. A decision must repeat it."),
    "arguments": _with_description(_OBJECT, "The arguments with which the call runs or has run."),
    "asked": _with_description(_OBJECT, "The arguments that the model wrote."),
    "expires_at": _with_description(_TIME, "The time after which the call can no longer be approved."),
    "at": _with_description(_TIME, "The time at which a scheduled call runs."),
    "error": _with_description(_OPTIONAL, "Why an approved call could not run, or how the call was interrupted."),
    "result": _with_description(_OPTIONAL, "The result that the model receives when the call has ended."),
    "decisions": {"type": "array", "items": {"$ref": "#/components/schemas/Decision"}},
}
_SCHEMAS: Final[dict[str, object]] = {
    "Waiting": _object_schema(
        {
            "conversation": _CONVERSATION_NAME,
            "id": _TEXT,
            "person": _with_description(_OPTIONAL, "The name of the person in charge of the conversation."),
            "call": _CALL_NAME,
            "path": _PATH,
            "waits_for": _KIND,
            "name": _TEXT,
            "arguments": _OBJECT,
            "expires_at": _TIME,
            "at": _TIME,
            "error": _OPTIONAL,
        }
    ),
    "Decision": _object_schema(
        {
            "action": {"enum": ["approve", "reject", "cancel", "retry", "complete", "fail"]},
            "by": _OPTIONAL,
            "at": _TIME,
            "note": _OPTIONAL,
            "arguments": _EDITS,
        }
    ),
    "Call": _object_schema(_CALL),
    "CallWithSchema": _object_schema(
        {**_CALL, "schema": {"type": ["object", "null"], "description": "The JSON Schema of the tool's arguments."}}
    ),
    "Conversation": _object_schema(
        {
            "conversation": _CONVERSATION_NAME,
            "id": _TEXT,
            "person": _OPTIONAL,
            "revision": {"type": "integer"},
            "running": _with_description({"type": "boolean"}, "Whether a run is active in this process."),
            "outcome": {"enum": ["answered", "paused", "failed", "elsewhere", None]},
            "detail": _with_description(_TEXT, "A sentence about how the last run in this process ended."),
            "place": _with_description(_TEXT, "The position for the parameter `after` of a stream."),
            "waiting": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Call"},
                "description": "The waiting calls that you may decide.",
            },
            "messages": _with_description(_OBJECT, "The document of `Messages.to_json()`."),
        }
    ),
    "Problem": {
        "type": "object",
        "properties": {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": _with_description(_TEXT, "The reason, and what to do."),
            "errors": {
                "type": "object",
                "additionalProperties": _TEXT,
                "description": "Messages by path in the sent arguments.",
            },
        },
        "required": ["type", "title", "status", "detail"],
    },
}
_BODIES: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "approve": (
        "Approve a call. `arguments` replace those of the call.",
        {"arguments": _with_description(_OBJECT, "Arguments that replace those of the model.")},
    ),
    "reject": ("Reject a call. The model receives the reason.", {"reason": _OPTIONAL}),
    "retry": ("Run an interrupted call again, although it may have taken effect.", {}),
    "fail": ("Record that an interrupted call, or a call that waits for its result, has failed.", {"error": _TEXT}),
    "complete": (
        "Record the result of an interrupted call, or of a call that waits for its result.",
        {"result": {"description": "Any JSON value."}},
    ),
}


def build_document(root_path: str = "") -> Json:
    """Return the OpenAPI document of the JSON API for an application mounted at `root_path`."""
    one, call = "/api/conversations/{conversation}", "/api/conversations/{conversation}/calls/{call}"
    limit: Json = {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 0}}
    paths: dict[str, object] = {
        "/openapi.json": {"get": _path_entry("describe", "This OpenAPI description.", _json_response("200", _OBJECT))},
        "/api/waiting": {
            "get": {
                **_path_entry(
                    "waiting", "The waiting calls that you may see and decide.", _json_response("200", _WAITING)
                ),
                "parameters": [limit],
            }
        },
        "/api/waiting/stream": {
            "get": _stream_entry(
                "followWaiting", "A stream with the event `changed` whenever the list of waiting calls changes."
            )
        },
        one: {
            "get": _path_entry(
                "show", "A conversation.", _json_response("200", _reference("Conversation")), conversation=True
            )
        },
        f"{one}/resume": {
            "post": {
                **_path_entry(
                    "resume",
                    "Start a run that continues a conversation.",
                    _json_response("202", _reference("Conversation")),
                    conversation=True,
                ),
                "requestBody": _json_content(_OBJECT),
            }
        },
        f"{one}/stream": {"get": _stream_entry("follow", _EVENTS, conversation=True)},
        call: {
            "get": _path_entry(
                "showCall", "A call.", _json_response("200", _reference("CallWithSchema")), conversation=True, call=True
            )
        },
    }
    for action, (text, properties) in _BODIES.items():
        operation = _path_entry(
            action, text, _json_response("200", _reference("CallWithSchema")), conversation=True, call=True
        )
        paths[f"{call}/{action}"] = {"post": {**operation, "requestBody": _decision_body(properties)}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "chat-inbox",
            "version": version("chat-inbox"),
            "description": "List and decide the tool calls that wait for a person. The application authenticates the "
            "requests.",
        },
        "servers": [{"url": root_path or "/"}],
        "paths": paths,
        "components": {"schemas": _SCHEMAS},
    }


_EVENTS: Final = (
    "A stream of the events of a conversation: `began`, `text` with the next piece of the answer, `changed` when the "
    "conversation must be read again, and `ended` with the outcome. A run continues if the client disconnects."
)


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


_WAITING: Final = _object_schema({"waiting": {"type": "array", "items": _reference("Waiting")}})


def _json_response(status: str, schema: Json) -> Json:
    return {status: {"description": "Done.", "content": {"application/json": {"schema": schema}}}}


def _path_entry(name: str, summary: str, responses: Json, *, conversation: bool = False, call: bool = False) -> Json:
    problem = {
        "description": "Not done.",
        "content": {"application/problem+json": {"schema": _reference("Problem")}},
    }
    parameters = [
        {"name": word, "in": "path", "required": True, "schema": _TEXT}
        for word, given in (("conversation", conversation), ("call", call))
        if given
    ]
    operation: Json = {"operationId": name, "summary": summary, "responses": {**responses, "default": problem}}
    return {**operation, "parameters": parameters} if parameters else operation


def _stream_entry(name: str, summary: str, *, conversation: bool = False) -> Json:
    answer: Json = {"200": {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": _TEXT}}}}
    operation = _path_entry(name, summary, answer, conversation=conversation)
    after = {
        "name": "after",
        "in": "query",
        "schema": _TEXT,
        "description": "The `place` of the data that the client has read.",
    }
    last = {"name": "last-event-id", "in": "header", "schema": _TEXT}
    found = operation.get("parameters")
    return {**operation, "parameters": [*(found if isinstance(found, list) else []), after, last]}


def _decision_body(properties: dict[str, object]) -> Json:
    common = {
        "version": _VERSION,
        "note": _OPTIONAL,
        "resume": {"type": "boolean", "default": True, "description": "Whether to start a run after the decision."},
    }
    schema = _object_schema({**common, **properties}, optional=("note", "resume", "arguments", "reason"))
    return _json_content(schema)


def _json_content(schema: Json) -> Json:
    return {"required": True, "content": {"application/json": {"schema": schema}}}
