"""Recorded responses over real WebSockets: recorded sessions, and HTTP streams with one event per frame."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import cycle
from typing import Never, cast

import pytest
from chat_core import ChatBuilder, ChatResponse, Retry, StreamingChat, ToolCollection
from chat_core.errors import AuthenticationError, ChatError, NetworkError, RateLimitedError, UsageError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, ProviderStream
from chat_core.transport import Event, Transport
from chat_core.wire.endpoint import Endpoint
from chat_openai import OpenAIBuilder
from chat_responses import ResponsesBuilder, ResponsesDialect, ResponsesFrames, ResponsesProvider
from chat_responses.codec import is_last
from chat_transport_websockets import BackOff, WebSocketTransport
from websockets.asyncio.server import ServerConnection

from ..exchanges import require_wire
from ..normalise import Object
from ..recordings import Session, recorded, sessions
from .canonical import differences as differences_asked
from .decoding import PROVIDER, Answer, answers, differences, read, streams, summary
from .rebuild import rebuild
from .sockets import Sockets, refusal, serving

require_wire()

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

CODES = (1000, 1001, 1011, 1012, None)
"""How a server may end a connection; `None` without a word."""

SESSIONS = tuple(sessions("responses-ws"))
REFUSALS = tuple([item for item in recorded("responses-ws") if not item.accepted])


async def at_once(_seconds: float) -> None:
    """A clock whose waits end immediately."""


def provider_of(sockets: Sockets, transport: Transport, dialect: ResponsesDialect | None = None) -> ResponsesProvider:
    dialect = dialect or ResponsesDialect(model="m", provider=PROVIDER)
    endpoint = Endpoint(f"http://{sockets.host}/v1", {"authorization": "Bearer hunter2"})
    return ResponsesProvider(replace(dialect, socket=True), endpoint, transport)


@asynccontextmanager
async def opened() -> AsyncGenerator[WebSocketTransport]:
    transport = WebSocketTransport(ResponsesFrames(), back_off=BackOff(sleep=at_once))
    try:
        yield transport
    finally:
        await transport.aclose()


async def ask(provider: ResponsesProvider, question: str = "Hi", *, stream: bool = True) -> Turn | ChatError:
    messages = Messages.from_user(question)
    try:
        if not stream:
            return await provider.complete(messages, NO_TOOLS, ChatOptions(), None)
        async with provider.stream(messages, NO_TOOLS, ChatOptions(), None) as answer:
            async for _ in answer:
                pass
            return answer.close()
    except ChatError as error:
        return error


def frames_of(answer: Answer) -> list[str]:
    """Return the events of a stream as frames."""
    return [event.data.decode() for event in answer.events if event.data.strip() != b"[DONE]"]


def whole() -> list[Answer]:
    """Return the streams that end completely."""
    return [answer for answer in streams() if any(map(is_last, answer.events))]


async def say(connection: ServerConnection, frames: Sequence[str]) -> None:
    for frame in frames:
        await connection.send(frame)


async def end(connection: ServerConnection, code: int | None) -> None:
    if code is None:
        connection.transport.abort()
    else:
        await connection.close(code)


# --- Recorded WebSocket sessions ------------------------------------------------------------------------------


async def replayed(session: Session, number: int, *, stream: bool) -> None:
    """Send a recorded request in its frame, and check the decoded response."""
    questions = [place for place, (direction, _) in enumerate(session.frames) if direction == "client"]
    question = session.frames[questions[number]][1]
    (answer,) = [answer for answer in answers() if answer.id == f"{session.id}.{number}"]

    async def play(_: Sockets, connection: ServerConnection, _asked: Object) -> None:
        for direction, frame in session.frames[questions[number] + 1 :]:
            if direction == "client":
                break
            await connection.send(json.dumps(frame))

    said = rebuild({name: value for name, value in question.items() if name != "type"}, PROVIDER)
    async with serving(play) as sockets, opened() as transport:
        provider = provider_of(sockets, transport, said.dialect)
        for _ in range(2):
            if stream:
                async with provider.stream(said.messages, said.tools, said.options, said.output) as events:
                    async for _batch in events:
                        pass
                    turn = events.close()
            else:
                turn = await provider.complete(said.messages, said.tools, said.options, said.output)
            assert differences(answer, turn) == []
            assert [str(found) for found in differences_asked(question, sockets.asked[-1])] == []
            assert sockets.asked[-1]["type"] == "response.create"
        assert sockets.connections == 1
        (handshake,) = sockets.handshakes
        assert handshake.path == "/v1/responses"
        assert handshake.headers["authorization"] == "Bearer hunter2"


async def test_recorded_sessions_are_replayed_with_equal_requests_and_turns(anyio_backend: str) -> None:
    assert anyio_backend
    assert len(SESSIONS) == 2
    for session in SESSIONS:
        for number in range(sum(direction == "client" for direction, _ in session.frames)):
            for stream in (True, False):
                await replayed(session, number, stream=stream)


async def test_a_rejected_handshake_raises_the_same_error_as_over_http(anyio_backend: str) -> None:
    assert anyio_backend
    assert len(REFUSALS) == 2

    async def play(_: Sockets, _connection: ServerConnection, _asked: Object) -> None:
        raise AssertionError

    for item in REFUSALS:
        async with serving(play, refusal(item.status, item.headers, item.body)) as sockets, opened() as transport:
            for stream in (True, False):
                error = await ask(provider_of(sockets, transport), stream=stream)
                assert isinstance(error, AuthenticationError)
                assert (error.status, error.code) == (401, "invalid_api_key")
                assert error.request_id == "req_REDACTED_1"
                assert not error.retryable
                assert "Incorrect API key" in str(error)
                assert "hunter2" not in repr(error)


async def test_a_rate_limited_handshake_has_a_retry_delay(anyio_backend: str) -> None:
    assert anyio_backend

    async def play(_: Sockets, _connection: ServerConnection, _asked: Object) -> None:
        raise AssertionError

    body = b'{"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}'
    async with serving(play, refusal(429, {"retry-after": "7"}, body)) as sockets, opened() as transport:
        for stream in (True, False):
            error = await ask(provider_of(sockets, transport), stream=stream)
            assert isinstance(error, RateLimitedError)
            assert (error.retry_after, error.retryable) == (7.0, True)


# --- Recorded HTTP streams ------------------------------------------------------------------------------------


def alike(one: Turn | ChatError, other: Turn | ChatError) -> bool:
    if isinstance(one, Turn) and isinstance(other, Turn):
        return summary(one) == summary(other)
    if isinstance(one, ChatError) and isinstance(other, ChatError):
        return (type(one), one.retryable) == (type(other), other.retryable)
    return False


def asked_for(asked: Object) -> list[str]:
    """Return the words of the last message in a request frame."""
    items = cast("list[Object]", asked["input"])
    return str(items[-1]["content"]).split()


async def test_every_stream_gives_the_same_turn_over_a_websocket(anyio_backend: str) -> None:
    assert anyio_backend
    some = whole()
    assert len(some) > 80

    async def play(_: Sockets, connection: ServerConnection, asked: Object) -> None:
        await say(connection, frames_of(some[int(asked_for(asked)[0])]))

    async with serving(play) as sockets, opened() as transport:
        provider = provider_of(sockets, transport)
        lost = 0
        for number, answer in enumerate(some):
            expected = read(answer)
            for stream in (True, False):
                got = await ask(provider, str(number), stream=stream)
                assert alike(got, expected), f"{answer.id}: {got!r} | {expected!r}"
            frames = [is_last(Event("message", frame.encode())) for frame in frames_of(answer)]
            lost += isinstance(expected, ChatError) or not frames[-1] or sum(frames) > 1
        # An error closes the connection, and so does a message after the last event.
        assert sockets.connections <= 1 + 2 * lost
        assert lost < 10


async def test_a_websocket_closed_in_mid_turn_raises_a_network_error(anyio_backend: str) -> None:
    assert anyio_backend
    some = [answer for answer in whole() if len(answer.events) <= 40]
    assert len(some) > 30
    codes = cycle(CODES)

    async def play(_: Sockets, connection: ServerConnection, asked: Object) -> None:
        number, cut = map(int, asked_for(asked))
        await say(connection, frames_of(some[number])[:cut])
        await end(connection, next(codes))

    async with serving(play) as sockets, opened() as transport:
        provider = provider_of(sockets, transport)
        cuts = 0
        for number, answer in enumerate(some):
            events = [Event("message", frame.encode()) for frame in frames_of(answer)]
            last = next(place for place, event in enumerate(events) if is_last(event))
            for cut in range(last + 1):
                got = await ask(provider, f"{number} {cut}", stream=bool(cut % 4))
                assert isinstance(got, NetworkError), f"{answer.id}, cut behind {cut} events: {got!r}"
                assert got.retryable
                cuts += 1
        assert cuts > 500
        assert sockets.connections == cuts


async def test_a_stream_closed_after_any_event_does_not_affect_the_next_request(anyio_backend: str) -> None:
    assert anyio_backend
    some = [answer for answer in whole() if 5 <= len(answer.events) <= 40][::4]

    async def play(_: Sockets, connection: ServerConnection, asked: Object) -> None:
        await say(connection, frames_of(some[int(asked_for(asked)[0])]))

    async with serving(play) as sockets, opened() as transport:
        provider = provider_of(sockets, transport)
        for number, answer in enumerate(some):
            other = (number + 1) % len(some)
            for leave in range(len(answer.events)):
                async with provider.stream(Messages.from_user(str(number)), NO_TOOLS, ChatOptions(), None) as events:
                    async for _ in by_number(events, leave):
                        pass
                assert alike(await ask(provider, str(other)), read(some[other])), f"{answer.id} left at {leave}"
        await transport.aclose()
        async with asyncio.timeout(60):
            while sockets.open:  # noqa: ASYNC110 - the server notices when it notices
                await asyncio.sleep(0.01)
        mine = [
            task for task in asyncio.all_tasks() if "client" in repr(task.get_coro()) or "reader" in task.get_name()
        ]
        assert not mine


async def by_number(events: ProviderStream, count: int) -> AsyncGenerator[None]:
    """Return the first batches, up to the given number."""
    for _ in range(count):
        try:
            await anext(aiter(events))
        except StopAsyncIteration:
            return
        yield None


# --- Chats over WebSockets ------------------------------------------------------------------------------------


def event(**fields: object) -> str:
    return json.dumps(fields)


def completed(name: str, *output: object) -> str:
    response = {"id": name, "status": "completed", "output": output, "usage": {"input_tokens": 1, "output_tokens": 1}}
    return event(type="response.completed", response=response)


def message(text: str) -> Object:
    return {"type": "message", "id": "msg", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def call(name: str) -> Object:
    arguments = '{"city": "Lyon"}'
    return {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": "weather", "arguments": arguments}


class Model:
    """A model that remembers the last response of each connection, calls a tool, and reports the result."""

    def __init__(self) -> None:
        self.known: dict[ServerConnection, str] = {}
        self.stumbles: list[str] = []
        self.count = 0

    async def __call__(self, _: Sockets, connection: ServerConnection, asked: Object) -> None:
        previous = asked.get("previous_response_id")
        if previous is not None and self.known.get(connection) != previous:
            error = {"code": "previous_response_not_found", "message": f"{previous} is not here"}
            await connection.send(event(type="error", status=400, error=error))
            return
        if self.stumbles:
            await connection.send(self.stumbles.pop())
            return
        self.count += 1
        name = self.known[connection] = f"resp_{self.count}"
        last = cast("list[Object]", asked["input"])[-1]
        answers = last.get("type") == "function_call_output"
        output = message(f"It is {last['output']}.") if answers else call(f"call_{self.count}")
        await connection.send(event(type="response.created", response={"id": name}))
        if answers:
            await connection.send(event(type="response.output_text.delta", output_index=0, delta="It is"))
        await connection.send(completed(name, output))


def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def chat_of(provider: ResponsesProvider) -> StreamingChat[ChatResponse, Never]:
    tools = ToolCollection()
    tools.tool(weather)
    return ChatBuilder().with_model(provider).with_tools(tools).with_retry(Retry(base=0.0, jitter=min)).build()


@pytest.mark.parametrize("stored", [True, False])
async def test_a_chat_with_tools_reuses_its_connection_and_sends_only_new_items(
    anyio_backend: str,
    stored: bool,
) -> None:
    assert anyio_backend
    model = Model()
    async with serving(model) as sockets, opened() as transport:
        builder = ResponsesBuilder().with_model("m").with_base_url(f"http://{sockets.host}/v1").with_previous_response()
        provider = builder.with_store(store=stored).with_websocket().with_transport(transport).build()
        chat, messages = chat_of(provider), Messages.from_user("How is the weather?")
        assert (await chat.complete(messages)).text == "It is sunny in Lyon."
        messages.user("And now?")
        async with chat.stream(messages) as stream:
            texts = [text async for text in stream.text()]
        assert "".join(texts) == "It is sunny in Lyon."
        assert sockets.connections == 1
        assert [asked.get("previous_response_id") for asked in sockets.asked] == [None, "resp_1", "resp_2", "resp_3"]
        assert [len(cast("list[Object]", asked["input"])) for asked in sockets.asked] == [1, 1, 1, 1]
        assert not any(asked.keys() & {"stream", "background"} for asked in sockets.asked)


async def test_the_whole_conversation_is_sent_again_after_a_lost_connection(anyio_backend: str) -> None:
    assert anyio_backend
    async with serving(Model()) as sockets, opened() as transport:
        builder = ResponsesBuilder().with_model("m").with_base_url(f"http://{sockets.host}/v1").with_previous_response()
        chat = chat_of(builder.with_store(store=False).with_websocket().with_transport(transport).build())
        messages = Messages.from_user("How is the weather?")
        await chat.complete(messages)
        for ask_again in ("stream", "complete"):
            await transport.aclose()
            messages.user("And now?")
            sockets.asked.clear()
            if ask_again == "stream":
                async with chat.stream(messages) as stream:
                    assert [text async for text in stream.text()]
            else:
                await chat.complete(messages)
            first, again, then = sockets.asked
            assert "previous_response_id" in first
            assert "previous_response_id" not in again
            assert len(cast("list[Object]", again["input"])) > len(cast("list[Object]", first["input"]))
            assert "previous_response_id" in then


async def test_a_failure_before_the_first_event_is_retried_on_a_new_connection(anyio_backend: str) -> None:
    assert anyio_backend
    model = Model()
    error = {"code": "websocket_connection_limit_reached", "message": "60 minutes are over"}
    async with serving(model) as sockets, opened() as transport:
        builder = ResponsesBuilder().with_model("m").with_base_url(f"http://{sockets.host}/v1").with_websocket()
        chat = chat_of(builder.with_transport(transport).build())
        for stream in (True, False):
            model.stumbles = [event(type="error", status=400, error=error)]
            messages = Messages.from_user("How is the weather?")
            before = sockets.connections
            if stream:
                async with chat.stream(messages) as events:
                    assert "".join([text async for text in events.text()]) == "It is sunny in Lyon."
            else:
                assert (await chat.complete(messages)).text == "It is sunny in Lyon."
            assert sockets.connections <= before + 2
        assert sockets.connections == 3


async def test_count_tokens_is_refused_over_a_websocket(anyio_backend: str) -> None:
    assert anyio_backend
    async with serving(Model()) as sockets, opened() as transport:
        with pytest.raises(UsageError, match="over HTTP"):
            await provider_of(sockets, transport).count_tokens(Messages.from_user("Hi"))


async def test_builders_accept_a_websocket_transport_without_with_websocket(anyio_backend: str) -> None:
    assert anyio_backend
    async with serving(Model()) as sockets, opened() as transport:
        base = f"http://{sockets.host}/v1"
        plain = ResponsesBuilder().with_model("m").with_base_url(base).with_transport(transport).build()
        openai = OpenAIBuilder().with_model("m").with_api_key("k").with_base_url(base).with_transport(transport).build()
        for provider in (plain, openai):
            chat = chat_of(provider)
            assert (await chat.complete(Messages.from_user("How is the weather?"))).text == "It is sunny in Lyon."
            async with chat.stream(Messages.from_user("How is the weather?")) as stream:
                assert "".join([text async for text in stream.text()]) == "It is sunny in Lyon."


async def test_with_websocket_creates_a_transport_that_the_provider_closes(anyio_backend: str) -> None:
    assert anyio_backend
    async with serving(Model()) as sockets:
        base = f"http://{sockets.host}/v1"
        async with ResponsesBuilder().with_model("m").with_base_url(base).with_websocket().build() as provider:
            assert (await chat_of(provider).complete(Messages.from_user("Well?"))).text == "It is sunny in Lyon."
        async with asyncio.timeout(60):
            while sockets.open:  # noqa: ASYNC110 - the server notices when it notices
                await asyncio.sleep(0.01)
