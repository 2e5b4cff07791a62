"""Conversations, tools and shorthands that the tests of several providers share."""

from __future__ import annotations

from typing import Any

from batch_servers import Json
from chat_batches import Batches, BatchHandle, BatchResult
from chat_claude import ClaudeProvider
from chat_core import ChatBuilder, Messages
from chat_gemini import GeminiProvider
from chat_openai import OpenAICompletionsProvider, OpenAIProvider
from pydantic import BaseModel


class City(BaseModel):
    """A city."""

    name: str


def get_time(city: str) -> str:
    """Return the time in a city."""
    return f"12:00 in {city}"


def call_then_answer(_id: str, body: Json) -> str | Json:
    """Return a call of `get_time()`, or the answer to its result, in the format of Claude."""
    last = body["messages"][-1]["content"][0]
    if last["type"] == "tool_result":
        return f"It is {last['content'][0]['text'] if isinstance(last['content'], list) else last['content']}."
    return {"id": "call_1", "name": "get_time", "input": {"city": "Oslo"}}


def batches_of(model: ClaudeProvider | GeminiProvider | OpenAIProvider | OpenAICompletionsProvider) -> Batches:
    return Batches(ChatBuilder().with_model(model).build(), model)


def questions(count: int) -> dict[str, Messages]:
    return {f"chat {number}": Messages.from_user(f"Question {number}?") for number in range(count)}


async def read(batches: Batches[Any, Any], handle: BatchHandle) -> dict[str, BatchResult]:
    async with batches.results(handle) as results:
        return {result.id: result async for result in results}


async def submit_and_read(batches: Batches[Any, Any], count: int = 3) -> dict[str, BatchResult]:
    handle = await batches.submit(questions(count))
    await batches.wait(handle)
    return await read(batches, handle)
