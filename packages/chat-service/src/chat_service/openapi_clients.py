"""The OpenAPI description of the routes for front ends and clients of other protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from chat_service.problems import CODES

Json: TypeAlias = dict[str, object]

_TEXT: Final[Json] = {"type": "string"}
_ID: Final[Json] = {"type": "string", "minLength": 1}
_OBJECTS: Final[Json] = {"type": "array", "items": {"type": "object"}}
_OPTIONAL_OBJECTS: Final[Json] = {"type": ["array", "null"], "items": {"type": "object"}}
_FLAG: Final[Json] = {"type": ["boolean", "null"]}
_EVENT: Final[Json] = {
    "description": "Each event of the stream.",
    "type": "object",
    "properties": {"event": _TEXT, "data": {"type": "string"}},
    "required": ["data"],
}
SCHEMAS: Final[Json] = {
    "UIMessages": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"id": _TEXT, "role": {"enum": ["user", "assistant"]}, "parts": _OBJECTS},
            "required": ["id", "role", "parts"],
        },
    },
    "OpenAIResponse": {
        "type": "object",
        "properties": {
            "id": _TEXT,
            "object": {"const": "response"},
            "status": {"enum": ["completed", "incomplete"]},
            "output": _OBJECTS,
        },
        "required": ["id", "object", "status", "output"],
    },
    "ChatCompletion": {
        "type": "object",
        "properties": {"id": _TEXT, "object": {"const": "chat.completion"}, "choices": _OBJECTS},
        "required": ["id", "object", "choices"],
    },
    "OpenAIError": {
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {"message": _TEXT, "type": _TEXT, "param": {"type": "null"}, "code": _TEXT},
                "required": ["message", "type", "param", "code"],
            }
        },
        "required": ["error"],
    },
}
"""Schemas to which the paths refer, by name."""
_AGUI: Final[Json] = {
    "type": "object",
    "description": "RunAgentInput of AG-UI 1.0. The stored messages of the thread must not be changed.",
    "properties": {
        "threadId": _ID,
        "runId": _ID,
        "messages": _OPTIONAL_OBJECTS,
        "tools": _OPTIONAL_OBJECTS,
        "resume": _OPTIONAL_OBJECTS,
        "context": {"type": ["array", "null"]},
        "state": {},
        "forwardedProps": {},
    },
    "required": ["threadId", "runId"],
}
_VERCEL: Final[Json] = {
    "type": "object",
    "description": "Request of useChat. The stored messages of the chat must not be changed.",
    "properties": {
        "id": _TEXT,
        "trigger": {"enum": ["submit-message", "regenerate-message"]},
        "messages": _OBJECTS,
        "tools": _OBJECTS,
    },
    "required": ["id", "trigger", "messages"],
}
_RESPONSES: Final[Json] = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "description": "Name of the flow of the service."},
        "input": {"anyOf": [_TEXT, _OBJECTS]},
        "previous_response_id": {"type": ["string", "null"]},
        "conversation": {"anyOf": [_TEXT, {"type": "null"}, {"type": "object", "properties": {"id": _TEXT}}]},
        "tools": _OPTIONAL_OBJECTS,
        "stream": _FLAG,
        "store": {"enum": [True, None]},
    },
    "required": ["model"],
}
_COMPLETIONS: Final[Json] = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "description": "Name of the flow of the service."},
        "messages": {**_OBJECTS, "minItems": 1},
        "stream": _FLAG,
        "temperature": {"type": ["number", "null"], "minimum": 0},
        "top_p": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
        "max_completion_tokens": {"type": ["integer", "null"], "minimum": 1},
    },
    "required": ["model", "messages"],
}
_CHAT: Final[Json] = {"in": "path", "name": "chat", "required": True, "schema": _TEXT}
_KEY: Final[Json] = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
_REFUSALS: Final = (400, 401, 403, 404, 409, 413, 415, 429, 500)


def _schema_reference(name: str) -> Json:
    return {"schema": {"$ref": f"#/components/schemas/{name}"}}


def _describe_problems(*statuses: int) -> Json:
    return {
        str(status): {
            "description": CODES[status],
            "content": {"application/problem+json": _schema_reference("Problem")},
        }
        for status in statuses
    }


def _openai_errors(*statuses: int) -> Json:
    """Return the responses for errors of OpenAI's APIs. Errors of the host check have the format of this service."""
    content: Json = {
        "application/json": _schema_reference("OpenAIError"),
        "application/problem+json": _schema_reference("Problem"),
    }
    return {str(status): {"description": CODES[status], "content": content} for status in statuses}


def _describe_body(schema: Json) -> Json:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _describe_response(description: str, content: Mapping[str, object]) -> Json:
    return {"description": description, "content": content}


def client_paths() -> Json:
    """Return the paths of the routes."""
    events: Json = {"text/event-stream": {"schema": _EVENT}}
    agui = _describe_response("Events of AG-UI, from RUN_STARTED to RUN_FINISHED or RUN_ERROR", events)
    vercel = _describe_response("Chunks of the UI message stream, version 1", events)
    response = _describe_response("Response", {"application/json": _schema_reference("OpenAIResponse"), **events})
    completion = _describe_response("Completion", {"application/json": _schema_reference("ChatCompletion"), **events})
    own_chat: Json = {"parameters": [_CHAT]}
    return {
        "/agui": {
            "post": {
                "summary": "Run an AG-UI agent",
                "requestBody": _describe_body(_AGUI),
                "responses": {"200": agui, **_describe_problems(*_REFUSALS)},
            }
        },
        "/vercel": {
            "post": {
                "summary": "Answer a request of useChat",
                "requestBody": _describe_body(_VERCEL),
                "responses": {"200": vercel, **_describe_problems(*_REFUSALS)},
            }
        },
        "/vercel/{chat}": {
            "get": {
                "summary": "List the messages of a chat",
                **own_chat,
                "responses": {
                    "200": _describe_response("Messages", {"application/json": _schema_reference("UIMessages")}),
                    **_describe_problems(401, 403, 404, 429, 500),
                },
            }
        },
        "/vercel/{chat}/stream": {
            "get": {
                "summary": "Follow the active run of a chat",
                **own_chat,
                "responses": {
                    "200": vercel,
                    "204": {"description": "No run is active"},
                    **_describe_problems(401, 403, 404, 429, 500),
                },
            }
        },
        "/v1/responses": {
            "post": {
                "summary": "Create a response, as OpenAI's Responses API",
                "parameters": [_KEY],
                "requestBody": _describe_body(_RESPONSES),
                "responses": {"200": response, **_openai_errors(*_REFUSALS, 422)},
            }
        },
        "/v1/chat/completions": {
            "post": {
                "summary": "Complete a chat without storing it, as OpenAI's Chat Completions API",
                "requestBody": _describe_body(_COMPLETIONS),
                "responses": {"200": completion, **_openai_errors(*_REFUSALS)},
            }
        },
    }
