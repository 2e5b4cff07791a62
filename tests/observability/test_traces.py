"""OpenTelemetry data of one conversation from two processes and a server over a real connection."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from chat_store import SqliteStore
from chat_testing import Exchange, LoopbackServer

from .clerk import CONVERSATION, KEY, NOTE, run

CALL = {"index": 0, "id": "call_1", "function": {"name": "pay", "arguments": json.dumps({"cents": 41, "note": NOTE})}}
WORDS = ["It", " is", " paid", "."]


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %s\n\n" % json.dumps({"id": "c1", "model": "any-1", "choices": [choice], **more}).encode()


def serve(exchange: Exchange) -> None:
    """Serve a model that requests the payment and confirms it."""
    paid = any(message["role"] == "tool" for message in json.loads(exchange.body)["messages"])
    said = [{"content": word} for word in WORDS] if paid else [{"tool_calls": [CALL]}]
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    end = chunk({}, "stop" if paid else "tool_calls", usage=usage)
    exchange.events(*[chunk(delta) for delta in said], end, b"data: [DONE]\n\n")


def in_another_process(host: str, store: Path, transport: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.observability.clerk", host, str(store), transport]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


async def approve(store: Path) -> None:
    async with SqliteStore(store) as conversations, conversations.open(CONVERSATION) as conversation:
        conversation.messages.tool("call_1").approve(by="ana@example.com")


def names(spans: list[dict[str, Any]], parent: str | None = None) -> list[Any]:
    """Return the tree of spans by their names."""
    found: list[Any] = []
    for span in [span for span in spans if span["parent_id"] == parent]:
        below = names(spans, span["context"]["span_id"])
        found.append((span["name"], below) if below else span["name"])
    return found


def one(spans: list[dict[str, Any]], name: str) -> dict[str, Any]:
    [span] = [span for span in spans if span["name"] == name]
    return span


@pytest.mark.parametrize("transport", ["httpx", "httpx2", "aiohttp"])
def test_a_pause_and_its_end_in_another_process_are_linked_traces(tmp_path: Path, transport: str) -> None:
    store = tmp_path / "chats.db"
    with LoopbackServer(serve) as server:
        first = in_another_process(server.host, store, transport)
        anyio.run(approve, store)
        second = in_another_process(server.host, store, transport)

    model = ("chat any", ["POST"])
    assert names(first["spans"]) == [("invoke_agent clerk", [model])]
    # A wait begins before the run that finds it.
    wait, agent, tool = "await_approval pay", "invoke_agent clerk", "execute_tool pay"
    assert names(second["spans"]) == [(agent, [wait, tool, model])]
    ids = {
        span["attributes"]["gen_ai.conversation.id"]
        for span in first["spans"] + second["spans"]
        if span["name"] != "POST"
    }
    assert ids == {CONVERSATION}
    assert one(first["spans"], agent)["attributes"]["chat.run.pause.tool_call_ids"] == ["call_1"]
    assert {one(second["spans"], name)["attributes"]["gen_ai.tool.call.id"] for name in (wait, tool)} == {"call_1"}
    assert one(second["spans"], "chat any")["attributes"]["gen_ai.response.model"] == "any-1"
    # Each request contained the span that sent it.
    posts = [one(told["spans"], "POST") for told in (first, second)]
    for exchange, post in zip(server.exchanges, posts, strict=True):
        context = post["context"]
        assert exchange.headers["traceparent"].split("-")[1:3] == [context["trace_id"][2:], context["span_id"][2:]]
    told = json.dumps([first, second])
    for word in (KEY, NOTE, "ana@example.com", "".join(WORDS)):
        assert word not in told


@pytest.mark.anyio
async def test_the_spans_are_the_same_on_every_event_loop(tmp_path: Path) -> None:
    with LoopbackServer(serve) as server:
        told = await run(server.host, str(tmp_path / "chats.db"), "httpx")
    assert names(told["spans"]) == [("invoke_agent clerk", [("chat any", ["POST"])])]
    metrics = told["metrics"]["resource_metrics"][0]["scope_metrics"]
    assert {metric["name"] for scope in metrics for metric in scope["metrics"]} == {
        "gen_ai.client.operation.duration",
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.client.token.usage",
        "gen_ai.invoke_agent.duration",
        "http.client.request.duration",
    }
