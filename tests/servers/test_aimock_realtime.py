"""Realtime sessions with aimock, whose two WebSocket endpoints imitate the servers of vendors."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Callable
from typing import Any

import anyio
import pytest
from chat_core import (
    AuthenticationError,
    ChatBuilder,
    Completed,
    Messages,
    ServerError,
    TextDelta,
    ToolCollection,
    ToolResult,
)
from chat_core.testing import ScriptedProvider
from chat_realtime.sessions import (
    AudioDelta,
    GeminiLive,
    OpenAIRealtime,
    RealtimeModel,
    RealtimeSession,
    ResponseEnded,
    TurnAdded,
    connect,
)

from .peers import Aimock, Json

pytestmark = pytest.mark.anyio

TALE = "Once upon a time — “in the west” — there was 🦉, who said nothing at all."
SPEECH = bytes(range(240)) * 20
SECONDS = 20.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def openai(aimock: Aimock, name: str) -> RealtimeModel:
    return OpenAIRealtime(name, api_key=aimock.KEY, base_url=f"{aimock.url}/v1", output="text")


def gemini(aimock: Aimock, name: str) -> RealtimeModel:
    return GeminiLive(name, api_key=aimock.KEY, base_url=aimock.url, output="text")


APIS: dict[str, Callable[[Aimock, str], RealtimeModel]] = {"openai": openai, "gemini": gemini}
JOURNALS = {
    "openai": "/v1/realtime",
    "gemini": "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent",
}


class Till:
    """A chat with a tool that pays."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        tools = ToolCollection()
        tools.tool(self.pay)
        self.chat: Any = ChatBuilder().with_model(ScriptedProvider()).with_tools(tools).build()

    async def pay(self, cents: int) -> str:
        """Pay an amount."""
        self.paid.append(cents)
        return f"paid {cents}"


def script(aimock: Aimock, api: str, *fixtures: Json) -> str:
    """Script a new model, and return its name. aimock compares the name that the API sends."""
    name = aimock.script(*fixtures)
    if api == "gemini":
        aimock.script(*[{**item, "match": {"model": f"models/{name}", **item.get("match", {})}} for item in fixtures])
    return name


async def read(session: RealtimeSession[Any], text: str) -> list[object]:
    """Return the events until the model's turn with this text is in the history."""
    seen: list[object] = []
    with anyio.fail_after(SECONDS):
        async for event in session:
            seen.append(event)
            if isinstance(event, TurnAdded) and event.role == "model" and event.turn.text == text:
                break
    return seen


async def until_end(session: RealtimeSession[Any]) -> AsyncGenerator[object]:
    """Yield the events until a response has ended."""
    async for event in session:
        yield event
        if isinstance(event, ResponseEnded):
            return


@pytest.mark.parametrize("api", list(APIS))
async def test_a_written_message_is_answered_in_pieces(aimock: Aimock, api: str) -> None:
    name = script(aimock, api, {"response": {"content": TALE}, "chunkSize": 7})

    async with connect(APIS[api](aimock, name), Till().chat, Messages()) as session:
        await session.send_text("A tale, please.")
        seen = await read(session, TALE)

    pieces = [event.text for event in seen if isinstance(event, TextDelta)]
    assert ("".join(pieces), len(pieces) > 5) == (TALE, True)
    assert [event.status for event in seen if isinstance(event, ResponseEnded)] == ["completed"]
    history = [(content.role, turn.text, turn.finish_reason) for content in session.messages for turn in content.turns]
    assert history == [("user", "A tale, please.", None), ("model", TALE, "stop")]


@pytest.mark.parametrize("api", list(APIS))
async def test_a_call_runs_and_its_result_reaches_the_server(aimock: Aimock, api: str) -> None:
    till = Till()
    call = {"name": "pay", "arguments": '{"cents": 41}', "id": "call_41"}
    name = script(
        aimock,
        api,
        {"match": {"hasToolResult": False}, "response": {"toolCalls": [call]}},
        {"match": {"hasToolResult": True}, "response": {"content": "It is paid."}},
    )

    async with connect(APIS[api](aimock, name), till.chat, Messages()) as session:
        await session.send_text("Pay 41 cents.")
        seen = await read(session, "It is paid.")

    assert till.paid == [41]
    assert [event.tool.call_id for event in seen if isinstance(event, ToolResult)] == ["call_41"]
    [tool] = [tool for content in session.messages for turn in content.turns for tool in turn.tools]
    assert isinstance(tool.status, Completed)
    asked: list[Json] = aimock.control("GET", f"/__aimock/journal?path={JOURNALS[api]}")
    last = [entry["body"]["messages"] for entry in asked if entry["body"]["model"].endswith(name)][-1]
    results = [(item["tool_call_id"], item["content"]) for item in last if item["role"] == "tool"]
    assert [(call_id, "paid 41" in content) for call_id, content in results] == [("call_41", True)]


async def test_audio_of_gemini_arrives_unchanged(aimock: Aimock) -> None:
    audio = {"b64Json": base64.b64encode(SPEECH).decode(), "contentType": "audio/pcm;rate=24000"}
    name = script(aimock, "gemini", {"response": {"audio": audio}})

    async with connect(gemini(aimock, name), Till().chat, Messages()) as session:
        await session.send_text("Hello?")
        with anyio.fail_after(SECONDS):
            heard = [event.data async for event in until_end(session) if isinstance(event, AudioDelta)]

    assert b"".join(heard) == SPEECH


@pytest.mark.parametrize("api", list(APIS))
async def test_an_unknown_key_is_refused(aimock: Aimock, api: str) -> None:
    models: dict[str, RealtimeModel] = {
        "openai": OpenAIRealtime("m", api_key="sk-of-somebody-else", base_url=f"{aimock.url}/v1"),
        "gemini": GeminiLive("m", api_key="AIza-of-somebody-else", base_url=aimock.url),
    }
    with pytest.raises(AuthenticationError) as error:
        async with connect(models[api], Till().chat, Messages()) as session:
            await read(session, "never")
    assert "somebody-else" not in str(error.value)


FAULT: Json = {"response": {"error": {"message": "out of order", "type": "INTERNAL"}, "status": 500}}


async def test_a_failed_response_of_openai_has_its_error(aimock: Aimock) -> None:
    name = script(aimock, "openai", FAULT)

    async with connect(openai(aimock, name), Till().chat, Messages()) as session:
        await session.send_text("Hello?")
        with anyio.fail_after(SECONDS):
            [ended] = [event async for event in until_end(session) if isinstance(event, ResponseEnded)]

    assert (ended.status, "out of order" in str(ended.error)) == ("failed", True)
    assert [content.role for content in session.messages] == ["user"]


async def test_an_error_of_gemini_ends_the_session(aimock: Aimock) -> None:
    name = script(aimock, "gemini", FAULT)

    async with connect(gemini(aimock, name), Till().chat, Messages()) as session:
        await session.send_text("Hello?")
        with pytest.raises(ServerError, match="out of order"):
            await read(session, "never")

    assert [content.role for content in session.messages] == ["user"]
