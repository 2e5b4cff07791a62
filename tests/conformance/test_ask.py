"""`ask()` over each wire, on a loopback server: the sent request is one that was written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import pytest
from chat_claude import ClaudeBuilder
from chat_completions import CompletionsBuilder
from chat_core import ChatOptions, ToolCollection, ask
from chat_gemini import GeminiBuilder
from chat_responses import ResponsesBuilder
from chat_testing import LoopbackServer

pytestmark = pytest.mark.anyio
Json: TypeAlias = dict[str, Any]

SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {
        "z": {"type": "string", "description": "Last letter."},
        "a": {"type": "integer"},
        "m": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["z", "m"],
}
DESCRIPTION: Final = "Sort letters."


class Wire(NamedTuple):
    """A wire.

    Attributes:
        builder: class of the builder.
        base: path of the base URL.
        path: path of the request.
        request: the whole body of the request, written by hand.
        answer: body of a response with the text `Paris.`.
    """

    builder: Callable[[], Any]
    base: str
    path: str
    request: Json
    answer: Json


WIRES: Final[dict[str, Wire]] = {
    "claude": Wire(
        ClaudeBuilder,
        "",
        "/v1/messages",
        {
            "model": "m",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Where?"}]}],
            "system": [{"type": "text", "text": "Be brief."}],
            "max_tokens": 9,
            "temperature": 0.5,
            "tools": [{"name": "sort", "description": DESCRIPTION, "input_schema": SCHEMA}],
        },
        {
            "id": "r",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "Paris."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 3, "output_tokens": 1},
        },
    ),
    "completions": Wire(
        CompletionsBuilder,
        "/v1",
        "/v1/chat/completions",
        {
            "model": "m",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where?"}],
            "max_tokens": 9,
            "temperature": 0.5,
            "tools": [
                {"type": "function", "function": {"name": "sort", "description": DESCRIPTION, "parameters": SCHEMA}}
            ],
        },
        {
            "id": "r",
            "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Paris."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
        },
    ),
    "gemini": Wire(
        GeminiBuilder,
        "/v1beta",
        "/v1beta/models/m:generateContent",
        {
            "contents": [{"role": "user", "parts": [{"text": "Where?"}]}],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "generationConfig": {"maxOutputTokens": 9, "temperature": 0.5},
            "tools": [
                {"functionDeclarations": [{"name": "sort", "description": DESCRIPTION, "parametersJsonSchema": SCHEMA}]}
            ],
        },
        {
            "candidates": [{"content": {"role": "model", "parts": [{"text": "Paris."}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4},
        },
    ),
    "responses": Wire(
        ResponsesBuilder,
        "/v1",
        "/v1/responses",
        {
            "model": "m",
            "instructions": "Be brief.",
            "input": [{"role": "user", "content": "Where?"}],
            "max_output_tokens": 9,
            "temperature": 0.5,
            "tools": [
                {"type": "function", "name": "sort", "description": DESCRIPTION, "parameters": SCHEMA, "strict": False}
            ],
        },
        {
            "id": "r",
            "model": "m",
            "status": "completed",
            "output": [
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Paris."}]}
            ],
            "usage": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4},
        },
    ),
}


def sort(arguments: Json) -> str:
    return str(arguments)


async def send(wire: Wire) -> tuple[str, bytes, str]:
    """Ask one question with a tool. Return the path and the body of the request, and the answer."""
    tools = ToolCollection()
    tools.register("sort", SCHEMA, sort, description=DESCRIPTION)
    answer = json.dumps(wire.answer).encode()
    with LoopbackServer(lambda exchange: exchange.answer(200, {"content-type": "application/json"}, answer)) as server:
        url = f"http://{server.host}{wire.base}"
        async with wire.builder().with_model("m").with_base_url(url).with_api_key("k").build() as model:
            options = ChatOptions(max_tokens=9, temperature=0.5)
            response = await ask(model, "Where?", system="Be brief.", tools=tools, options=options)
    (exchange,) = server.exchanges
    return exchange.path, exchange.body, response.text


@pytest.mark.parametrize("name", WIRES)
async def test_ask_sends_the_expected_request_on_every_api(name: str) -> None:
    path, body, answer = await send(WIRES[name])

    assert (path, json.loads(body), answer) == (WIRES[name].path, WIRES[name].request, "Paris.")


@pytest.mark.parametrize("name", WIRES)
async def test_schema_properties_are_sent_in_declaration_order(name: str) -> None:
    _, body, _ = await send(WIRES[name])

    order = [body.index(f'"{name}":'.encode(), body.index(b'"properties"')) for name in "zam"]
    assert order == sorted(order)
