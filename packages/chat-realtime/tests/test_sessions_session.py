"""Arguments, limits and the end of sessions."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from chat_core import (
    AuthenticationError,
    ChatBuilder,
    ChatError,
    Messages,
    RateLimitedError,
    ToolCollection,
    UsageError,
)
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_realtime import TalkEndedError
from chat_realtime.sessions import AudioFormat, GeminiLive, OpenAIRealtime, ResponseEnded, TurnAdded, connect
from chat_realtime.sessions.session import RealtimeSession
from chat_realtime.testing import GeminiDialect, OpenAIDialect, ServerPeer, loopback_server
from chat_testing import Exchange, LoopbackServer

pytestmark = pytest.mark.anyio

DIALECT = OpenAIDialect()
CHAT = ChatBuilder().with_model(ScriptedProvider()).build()
KEY = "sk-test-1234567890"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def _idle(peer: ServerPeer) -> None:
    await DIALECT.start(peer)


def _model(url: str, **options: Any) -> OpenAIRealtime:
    return OpenAIRealtime(api_key=KEY, base_url=f"{url}/v1", **options)


async def test_the_handshake_names_the_model_and_has_the_current_key() -> None:
    seen: list[str] = []

    async def key() -> str:
        return KEY

    async def script(peer: ServerPeer) -> None:
        seen.extend([peer.path, peer.headers["authorization"], peer.headers["x-team"]])
        await DIALECT.start(peer)

    async with loopback_server(script) as url:
        model = OpenAIRealtime("gpt realtime", api_key=key, base_url=f"{url}/v1", headers={"X-Team": "7"})
        async with connect(model, CHAT, Messages()) as session:
            assert session.is_connected
        assert not session.is_connected
    assert seen == ["/v1/realtime?model=gpt%20realtime", f"Bearer {KEY}", "7"]
    assert KEY not in repr(model)


async def test_an_error_before_the_session_is_ready_is_raised_on_entry_without_the_key() -> None:
    async def script(peer: ServerPeer) -> None:
        error = {"type": "invalid_request_error", "code": "invalid_api_key", "message": f"Bad key {KEY}."}
        await peer.send({"type": "error", "error": error})

    async with loopback_server(script) as url:
        with pytest.raises(AuthenticationError, match=r"Bad key.* \(ws://[^?]*\) \(next step: .*\)$") as caught:
            async with connect(_model(url), CHAT, Messages()):
                pass
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("status", [200, 403])
async def test_a_key_in_the_response_of_a_handshake_is_not_in_the_error(status: int) -> None:
    def refuse(exchange: Exchange) -> None:
        exchange.answer(status, {"x-echo": KEY}, f"Bearer {KEY}".encode())

    with LoopbackServer(refuse) as server, pytest.raises(ChatError) as caught:
        async with connect(_model(f"http://{server.host}"), CHAT, Messages()):
            pass
    error = caught.value
    assert KEY not in f"{error} {error!r} {vars(error)} {error.__cause__!r}"


async def test_a_session_that_ended_refuses_input() -> None:
    async with loopback_server(_idle) as url:
        session = connect(_model(url, turn_detection="manual"), CHAT, Messages())
        with pytest.raises(UsageError, match=r"send_text\(\) was called before the session was entered"):
            await session.send_text("Hello?")
        async with session:
            pass
        for send in (session.send_text("Hello?"), session.send_audio(b""), session.commit(), session.interrupt()):
            with pytest.raises(TalkEndedError, match="the session has ended"):
                await send
        with pytest.raises(TalkEndedError):
            session.resume()
        with pytest.raises(UsageError, match="entered only once"):
            async with session:
                pass
        assert [event async for event in session] == []


async def test_wrong_input_is_refused() -> None:
    async with loopback_server(_idle) as url, connect(_model(url), CHAT, Messages()) as session:
        with pytest.raises(UsageError, match=r"send_audio\(\) got 3 bytes, but a sample of pcm16 has 2 bytes"):
            await session.send_audio(b"123")
        with pytest.raises(UsageError, match=r"send_audio\(\) needs bytes in the format .*, not str"):
            await session.send_audio("123")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - wrong on purpose
        with pytest.raises(UsageError, match="needs a string that is not empty, not ' '"):
            await session.send_text(" ")
        with pytest.raises(UsageError, match="needs a string that is not empty, not ''"):
            await session.send_text("")
        with pytest.raises(UsageError, match=r"commit\(\) is for turn_detection"):
            await session.commit()
        with pytest.raises(UsageError, match="not negative, not -1"):
            session.report_played(-1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"max_buffered_bytes": 0}, "max_buffered_bytes must be at least 1, not 0", id="buffer"),
        pytest.param({"max_waiting_turns": 0}, "max_waiting_turns must be at least 1, not 0", id="turns"),
        pytest.param({"transcript_seconds": -1}, "must not be negative: -1, 3", id="seconds"),
        pytest.param({"max_reconnects": -1}, "must not be negative: 3.0, -1", id="reconnects"),
    ],
)
def test_limits_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        connect(_model("http://127.0.0.1:1"), CHAT, Messages(), **options)
    with pytest.raises(UsageError, match="needs Messages or a Conversation, not 'hi'"):
        connect(_model("http://127.0.0.1:1"), CHAT, "hi")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - wrong on purpose


def test_the_constructor_of_a_session_refuses_wrong_arguments() -> None:
    wrong: Any = None
    with pytest.raises(UsageError, match=r"target must be a SessionTarget; call connect\(\) instead, not None"):
        RealtimeSession(wrong, wrong, wrong, wrong)


def test_settings_of_models_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=r"set the environment variable OPENAI_API_KEY"):
        OpenAIRealtime()
    with pytest.raises(UsageError, match=r"set the environment variable GEMINI_API_KEY"):
        GeminiLive("m")
    with pytest.raises(UsageError, match=r"pcm16 has 24000 samples per second, not 16000"):
        OpenAIRealtime(api_key=KEY, input_format=AudioFormat("pcm16", 16_000))
    with pytest.raises(UsageError, match=r"output of OpenAIRealtime must be one of 'audio', 'text', not 'both'"):
        OpenAIRealtime(api_key=KEY, output="both")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - wrong on purpose
    with pytest.raises(UsageError, match=r"turn_detection of GeminiLive must be one of 'server', 'manual', not 'x'"):
        GeminiLive("m", api_key="k-1", turn_detection="x")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - wrong on purpose
    with pytest.raises(UsageError, match=r"input_format of GeminiLive must be pcm16, not pcmu"):
        GeminiLive("m", api_key="k-1", input_format=AudioFormat("pcmu", 8000))
    with pytest.raises(UsageError, match=r"encoding of AudioFormat must be one of pcm16, pcmu, pcma, not 'mp3'"):
        AudioFormat("mp3")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - wrong on purpose
    with pytest.raises(UsageError, match=r"rate of AudioFormat must be at least 1"):
        AudioFormat("pcm16", 0)


async def test_leaving_a_session_keeps_only_the_heard_text() -> None:
    async def script(peer: ServerPeer) -> None:
        await DIALECT.start(peer)
        await peer.send(*DIALECT.heard("item_1", "Hello?"), *DIALECT.begin("resp_1"))
        await peer.send(*DIALECT.speak("resp_1", bytes(4800), "one two three four"), *DIALECT.end("resp_1"))

    conversation = MemoryConversation()
    async with loopback_server(script) as url, connect(_model(url), CHAT, conversation) as session:
        session.report_played(0)
        async for event in session:
            if isinstance(event, ResponseEnded):
                break
        session.report_played(0.05)
    turns = [(content.role, turn.text, turn.finish_reason) for content in session.messages for turn in content.turns]
    assert turns == [("user", "Hello?", None), ("model", "one two", "interrupted")]
    assert conversation.operations[-1] == "release"
    assert conversation.looked_at is not None


async def test_leaving_a_session_cancels_a_running_tool() -> None:
    started, cancelled = anyio.Event(), anyio.Event()
    tools = ToolCollection()

    @tools.tool
    async def wait() -> str:
        """Wait until cancelled."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return "done"

    async def script(peer: ServerPeer) -> None:
        await DIALECT.start(peer)
        await peer.send(*DIALECT.begin("resp_1"), *DIALECT.end("resp_1", {"call_1": ("wait", "{}")}))

    chat = ChatBuilder().with_model(ScriptedProvider()).with_tools(tools).build()
    async with loopback_server(script) as url:
        async with connect(_model(url), chat, Messages()) as session:
            await started.wait()
        assert cancelled.is_set()
    assert [type(tool.status).__name__ for tool in session.messages.pending()] == ["Interrupted"]


async def test_a_session_ends_although_the_server_begins_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    started, is_received = anyio.Event(), anyio.Event()
    handle: Any = vars(RealtimeSession)["_handle"]  # shows when the client has the message

    async def handle_and_tell(session: RealtimeSession[Any], event: Any) -> None:
        await handle(session, event)
        if started.is_set():
            is_received.set()

    monkeypatch.setattr(RealtimeSession, "_handle", handle_and_tell)
    tools = ToolCollection()

    @tools.tool
    async def wait() -> str:
        """Wait until cancelled."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            leaving.set()
            with anyio.CancelScope(shield=True):
                await is_received.wait()
        return "done"

    leaving = anyio.Event()

    async def script(peer: ServerPeer) -> None:
        await DIALECT.start(peer)
        await peer.send(*DIALECT.begin("resp_1"), *DIALECT.end("resp_1", {"call_1": ("wait", "{}")}))
        await leaving.wait()
        await peer.send(*DIALECT.begin("resp_2"))

    chat = ChatBuilder().with_model(ScriptedProvider()).with_tools(tools).build()
    with anyio.fail_after(30):
        async with loopback_server(script) as url, connect(_model(url), chat, Messages()) as session:
            await started.wait()
    assert [type(tool.status).__name__ for tool in session.messages.pending()] == ["Interrupted"]


async def test_calls_do_not_wait_for_a_transcript_for_ever() -> None:
    async def script(peer: ServerPeer) -> None:
        await DIALECT.start(peer)
        *started, _transcript = DIALECT.heard("item_1", "never")
        await peer.send(*started, *DIALECT.begin("resp_1"), *DIALECT.end("resp_1", {"call_1": ("nothing", "{}")}))

    async with (
        loopback_server(script) as url,
        connect(_model(url), CHAT, Messages(), transcript_seconds=0) as session,
    ):
        roles: list[str] = []
        async for event in session:
            if isinstance(event, TurnAdded):
                roles.append(event.role)
                if event.role == "model":
                    break
    assert roles == ["user", "model"]
    assert session.messages[0].text == "[The user spoke. There is no transcript.]"


async def test_an_error_message_of_gemini_ends_the_session() -> None:
    async def script(peer: ServerPeer) -> None:
        await GeminiDialect().start(peer)
        await peer.send({"error": {"code": 8, "message": "too many sessions", "status": "RESOURCE_EXHAUSTED"}})

    async with loopback_server(script) as url:
        model = GeminiLive("m", api_key="AIza-test-1", base_url=url)
        async with connect(model, CHAT, Messages()) as session:
            with pytest.raises(RateLimitedError, match="too many sessions"):
                await anext(aiter(session))


@pytest.mark.parametrize(
    ("detection", "expected"), [("server", "server_vad"), ("semantic", "semantic_vad"), ("manual", None)]
)
async def test_the_setup_of_openai_configures_the_detection_of_speech(detection: str, expected: str | None) -> None:
    setups: list[Any] = []

    async def script(peer: ServerPeer) -> None:
        setups.append(await DIALECT.start(peer))

    async with loopback_server(script) as url, connect(_model(url, turn_detection=detection), CHAT, Messages()):
        pass
    found = setups[0]["session"]["audio"]["input"]["turn_detection"]
    assert (found and found["type"]) == expected


@pytest.mark.parametrize(("detection", "disabled"), [("server", False), ("manual", True)])
async def test_the_setup_of_gemini_configures_the_detection_of_speech(detection: Any, disabled: bool) -> None:
    setups: list[Any] = []

    async def script(peer: ServerPeer) -> None:
        setups.append(await GeminiDialect().start(peer))

    async with loopback_server(script) as url:
        model = GeminiLive("m", api_key=KEY, base_url=url, turn_detection=detection)
        async with connect(model, CHAT, Messages()):
            pass
    assert setups[0]["realtimeInputConfig"]["automaticActivityDetection"]["disabled"] is disabled


async def test_the_usage_of_a_session_is_the_sum_of_its_responses_by_modality() -> None:
    async def script(peer: ServerPeer) -> None:
        await DIALECT.start(peer)
        for response in ("resp_1", "resp_2"):
            await DIALECT.requested(peer)
            await peer.send(*DIALECT.begin(response), *DIALECT.write(response, "Hello."), *DIALECT.end(response))

    async with loopback_server(script) as url, connect(_model(url, output="text"), CHAT, Messages()) as session:
        for text in ("Hi", "Hi again"):
            await session.send_text(text)
            async for event in session:
                if isinstance(event, ResponseEnded):
                    break
        assert session.modality_usage.to_dict() == {name: 2 * count for name, count in DIALECT.usage.to_dict().items()}
        assert session.usage.input_tokens == 2 * (DIALECT.usage.input_text + DIALECT.usage.input_audio)
