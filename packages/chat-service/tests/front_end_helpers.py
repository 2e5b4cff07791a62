"""Helpers of the tests of the routes for front ends and clients of other protocols."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from chat_agents import AgentFlow, PromptFlow
from chat_core import ClientTools, Execute, FunctionCall, Paused, ScopedCollection, ToolCollection, ToolScope
from service_helpers import Reply

COLOR: dict[str, object] = {"name": "color", "description": "The color.", "parameters": {"type": "object"}}


def plain_flow(*, with_client_tools: bool = True) -> AgentFlow[Paused]:
    """Return a flow with a tool that needs no approval, and with the tools that clients declare."""
    tools = ToolCollection()

    @tools.tool
    def weather(city: str) -> str:
        """Return the weather."""
        return f"rain in {city}"

    def policy(call: FunctionCall, meta: object) -> Execute:
        del call, meta
        return Execute()

    scope: ToolScope[Paused] = ScopedCollection(tools, policy)
    return PromptFlow("clerk", "Be brief.", [scope, ClientTools()] if with_client_tools else [scope])


def data_of(reply: Reply) -> list[dict[str, Any]]:
    """Return the JSON objects of a stream that has ended."""
    assert reply.status == 200, reply.body
    lines = [line.removeprefix("data: ") for line in reply.body.decode().splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def types(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def agui(thread: str, *messages: dict[str, Any], **fields: object) -> dict[str, object]:
    """Return the body of a request of an AG-UI client."""
    return {"threadId": thread, "runId": "r", "messages": [*messages], **fields}


def user(id: str, text: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "content": text}


def ui_message(id: str, text: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}


def vercel(chat: str, *messages: dict[str, Any], trigger: str = "submit-message") -> dict[str, object]:
    """Return the body of a request of `useChat`."""
    return {"id": chat, "trigger": trigger, "messages": [*messages]}
