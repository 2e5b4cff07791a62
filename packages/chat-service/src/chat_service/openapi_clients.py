"""The OpenAPI description of the routes for front ends and clients of other protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chat_service._openapi_parts import (
    IDEMPOTENCY_KEY,
    OBJECT,
    TEXT,
    Json,
    array,
    describe_body,
    describe_problem,
    json_content,
    parameter,
    reference,
)
from chat_service.problems import CODES

_ID: Final[Json] = {"type": "string", "minLength": 1}
_OBJECTS: Final[Json] = array(OBJECT)
_OPTIONAL_OBJECTS: Final[Json] = {"type": ["array", "null"], "items": {"type": "object"}}
_FLAG: Final[Json] = {"type": ["boolean", "null"]}
_EVENT: Final[Json] = {
    "description": "Each event of the stream.",
    "type": "object",
    "properties": {"event": TEXT, "data": {"type": "string"}},
    "required": ["data"],
}
SCHEMAS: Final[Json] = {
    "UIMessages": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"id": TEXT, "role": {"enum": ["user", "assistant"]}, "parts": _OBJECTS},
            "required": ["id", "role", "parts"],
        },
    },
    "OpenAIResponse": {
        "type": "object",
        "properties": {
            "id": TEXT,
            "object": {"const": "response"},
            "status": {"enum": ["completed", "incomplete"]},
            "output": _OBJECTS,
        },
        "required": ["id", "object", "status", "output"],
    },
    "ChatCompletion": {
        "type": "object",
        "properties": {"id": TEXT, "object": {"const": "chat.completion"}, "choices": _OBJECTS},
        "required": ["id", "object", "choices"],
    },
    "OpenAIError": {
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {"message": TEXT, "type": TEXT, "param": {"type": "null"}, "code": TEXT},
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
        "id": TEXT,
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
        "input": {"anyOf": [TEXT, _OBJECTS]},
        "previous_response_id": {"type": ["string", "null"]},
        "conversation": {"anyOf": [TEXT, {"type": "null"}, {"type": "object", "properties": {"id": TEXT}}]},
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
_CHAT: Final = parameter("path", "chat", TEXT)
_REFUSALS: Final = (400, 401, 403, 404, 409, 413, 415, 429, 500)


def _describe_problems(*statuses: int) -> Json:
    return {str(status): describe_problem(status) for status in statuses}


def _openai_errors(*statuses: int) -> Json:
    """Return the responses for errors of OpenAI's APIs. Errors of the host check have the format of this service."""
    content: Json = {
        "application/json": {"schema": reference("OpenAIError")},
        "application/problem+json": {"schema": reference("Problem")},
    }
    return {str(status): {"description": CODES[status], "content": content} for status in statuses}


def _describe_response(description: str, content: Mapping[str, object]) -> Json:
    return {"description": description, "content": content}


def client_paths() -> Json:
    """Return the paths of the routes."""
    events: Json = {"text/event-stream": {"schema": _EVENT}}
    agui = _describe_response("Events of AG-UI, from RUN_STARTED to RUN_FINISHED or RUN_ERROR", events)
    vercel = _describe_response("Chunks of the UI message stream, version 1", events)
    response = _describe_response("Response", json_content(reference("OpenAIResponse")) | events)
    completion = _describe_response("Completion", json_content(reference("ChatCompletion")) | events)
    own_chat: Json = {"parameters": [_CHAT]}
    return {
        "/agui": {
            "post": {
                "summary": "Run an AG-UI agent",
                "requestBody": describe_body(_AGUI),
                "responses": {"200": agui, **_describe_problems(*_REFUSALS)},
            }
        },
        "/vercel": {
            "post": {
                "summary": "Answer a request of useChat",
                "requestBody": describe_body(_VERCEL),
                "responses": {"200": vercel, **_describe_problems(*_REFUSALS)},
            }
        },
        "/vercel/{chat}": {
            "get": {
                "summary": "List the messages of a chat",
                **own_chat,
                "responses": {
                    "200": _describe_response("Messages", json_content(reference("UIMessages"))),
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
                "parameters": [IDEMPOTENCY_KEY],
                "requestBody": describe_body(_RESPONSES),
                "responses": {"200": response, **_openai_errors(*_REFUSALS, 422)},
            }
        },
        "/v1/chat/completions": {
            "post": {
                "summary": "Complete a chat without storing it, as OpenAI's Chat Completions API",
                "requestBody": describe_body(_COMPLETIONS),
                "responses": {"200": completion, **_openai_errors(*_REFUSALS)},
            }
        },
    }
