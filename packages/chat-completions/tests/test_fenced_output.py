"""Structured output in a Markdown code fence, from servers that do not enforce a schema next to tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_completions import CEREBRAS, DEEPSEEK, GROQ, Preset, vendor_builder
from chat_completions.decode import decode
from chat_core import ChatBuilder, InvalidResponseError, Messages, ToolCollection
from chat_core.events import Done
from chat_core.testing import MockTransport

pytestmark = pytest.mark.anyio

TEXT = '{"a": 1}'
FENCED = [f"```json\n{TEXT}\n```", f"```\n{TEXT}\n```", f" \n```JSON\n{TEXT}```\n", f"```{TEXT}```"]


def answer(text: str, key: str = "message") -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, key: {"content": text}, "finish_reason": "stop"}]}


async def ask(preset: Preset[Any], text: str, *, stream: bool, tools: bool = True) -> Any:
    collection = ToolCollection()
    if tools:
        collection.tool(look_up)
    transport = MockTransport()
    if stream:
        transport.events(json.dumps(answer(text, "delta")), "[DONE]")
    else:
        transport.answer(body=answer(text))
    model = vendor_builder(preset).with_model("m").with_api_key("k").with_transport(transport).build()
    builder = ChatBuilder().with_model(model).with_tools(collection)
    chat = builder.with_structured_output(dict[str, int], max_retries=0).build()
    messages = Messages.from_user("Hi")
    if not stream:
        return (await chat.complete(messages)).value, messages[1].text
    async with chat.stream(messages) as events:
        (done,) = [event async for event in events if isinstance(event, Done)]
    return done.response.value, messages[1].text


def look_up() -> str:
    """Looks it up."""
    return "30"


@pytest.mark.parametrize("text", FENCED)
@pytest.mark.parametrize("preset", [GROQ, CEREBRAS], ids=["groq", "cerebras"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_fence_is_removed_if_the_server_does_not_enforce_the_schema(
    preset: Preset[Any], text: str, stream: bool
) -> None:
    assert await ask(preset, text, stream=stream) == ({"a": 1}, TEXT)


@pytest.mark.parametrize("text", ["```", "``````", "```json", f"Here: {FENCED[0]}", f"{FENCED[0]} Done.", "```{```"])
@pytest.mark.parametrize("stream", [False, True])
async def test_other_text_around_the_output_is_invalid(text: str, stream: bool) -> None:
    with pytest.raises(InvalidResponseError):
        await ask(GROQ, text, stream=stream)


@pytest.mark.parametrize(("preset", "tools"), [(DEEPSEEK, True), (GROQ, False)], ids=["with tools", "without tools"])
async def test_a_fence_is_invalid_if_the_server_enforces_json(preset: Preset[Any], tools: bool) -> None:
    with pytest.raises(InvalidResponseError):
        await ask(preset, FENCED[0], stream=False, tools=tools)


@pytest.mark.parametrize("text", ["```sql\nSELECT 1\n```", "```\nx\n```\nand\n```\n{}\n```", "``````"])
def test_other_fenced_text_keeps_its_fence(text: str) -> None:
    assert decode(json.dumps(answer(text)).encode(), "p", fenced=True).text == text


def test_a_text_response_keeps_its_fence() -> None:
    assert decode(json.dumps(answer(FENCED[0])).encode(), "p").text == FENCED[0]
