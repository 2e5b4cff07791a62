"""Concurrent exchanges on one connection, identified by keys, with a protocol like JSON-RPC."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest
from chat_core.errors import TransportError
from chat_core.transport import Event, Request
from chat_transport_websockets import FrameProtocol, WebSocketTransport
from socket_exchanges import ask, opened, read, until, until_it_stops
from socket_server import Session, SocketServer

pytestmark = pytest.mark.anyio


class Rpc(FrameProtocol):
    """Frame protocol with call ids, notifications that contain the id, and a final result or error."""

    @property
    def multiplexed(self) -> bool:
        return True

    def ask(self, request: Request, key: str, /) -> str:
        call = {"jsonrpc": "2.0", "id": key, "method": request.path[1:], "params": request.body.decode()}
        return json.dumps(call)

    def read(self, frame: bytes, /) -> tuple[str | None, Sequence[Event], bool]:
        said = json.loads(frame)
        key = said.get("id") or said.get("params", {}).get("for")
        return (
            key,
            [Event("message", json.dumps(said["params"]["text"] if "params" in said else said).encode())],
            ("result" in said or "error" in said),
        )

    def failed(self, event: Event, /) -> int | None:
        said: dict[str, Any] = json.loads(event.data)
        return said["error"]["code"] if "error" in said else None

    def whole(self, frames: Sequence[bytes], /) -> bytes:
        said = json.loads(frames[-1])
        return json.dumps(said.get("result", said.get("error"))).encode()


class Cancelling(Rpc):
    """The same protocol with cancel frames."""

    def cancel(self, key: str, /) -> str | None:
        return json.dumps({"jsonrpc": "2.0", "method": "$/cancel", "params": key})


def piece(key: str, text: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": "piece", "params": {"for": key, "text": text}})


def result(key: str, text: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": key, "result": text})


def answering(session: Session, message: bytes) -> None:
    """Respond with two pieces and a result, each of which contains the request."""
    call = json.loads(message)
    if "id" in call:
        key, text = call["id"], call["params"]
        session.send(piece(key, f"{text} 1"), piece(key, f"{text} 2"), result(key, f"{text} end"))


def texts(events: list[bytes]) -> list[str]:
    said = [json.loads(event) for event in events]
    return [each["result"] if isinstance(each, dict) else each for each in said]


async def test_concurrent_exchanges_share_a_connection_and_receive_their_own_events() -> None:
    everybody = threading.Barrier(20, timeout=30)

    def handler(session: Session, message: bytes) -> None:
        everybody.wait()  # from here on they answer all at once, in each other's midst
        answering(session, message)

    with SocketServer(handler) as server:
        async with opened(Rpc()) as transport:
            answers = await asyncio.gather(*[read(transport, ask(server.host, f"q{n}")) for n in range(20)])
        assert [texts(answer) for answer in answers] == [[f"q{n} 1", f"q{n} 2", f"q{n} end"] for n in range(20)]
        assert server.connections == 1


async def test_two_hundred_streams_of_two_hundred_events_lose_and_mix_none() -> None:
    def handler(session: Session, message: bytes) -> None:
        key = json.loads(message)["id"]
        session.send(*[piece(key, f"{key} {number}") for number in range(199)], result(key, "end"))

    with SocketServer(handler) as server:
        async with opened(Rpc()) as transport:
            answers = await asyncio.gather(*[read(transport, ask(server.host)) for _ in range(200)])
        for number, answer in enumerate(answers, 1):
            assert texts(answer) == [*[f"{number} {event}" for event in range(199)], "end"]
        assert server.connections == 1


async def test_send_returns_the_result_or_the_status_of_an_error() -> None:
    def handler(session: Session, message: bytes) -> None:
        call = json.loads(message)
        if call["method"] == "good":
            session.send(result(call["id"], "yes"))
        else:
            session.send(json.dumps({"id": call["id"], "error": {"code": 404, "message": "no"}}))

    with SocketServer(handler) as server:
        async with opened(Rpc()) as transport:
            good = await transport.send(ask(server.host, path="/good"))
            bad = await transport.send(ask(server.host, path="/bad"))
            assert (await transport.send(ask(server.host, path="/bad"))).status == 404
        assert server.connections == 2  # one for each path: an error costs none
    assert (good.status, good.body) == (200, b'"yes"')
    assert (bad.status, json.loads(bad.body)["message"]) == (404, "no")


async def test_closing_an_exchange_cancels_it_without_disturbing_the_others() -> None:
    cancelled: list[str] = []
    go_on = threading.Event()

    def handler(session: Session, message: bytes) -> None:
        call = json.loads(message)
        if call["method"] == "$/cancel":
            cancelled.append(call["params"])
            return
        session.send(piece(call["id"], "first"))
        session.wait(go_on)
        # Frames for an exchange that was left are dropped.
        session.send(piece(call["id"], "second"), result(call["id"], "end"))

    with SocketServer(handler) as server:
        async with opened(Cancelling()) as transport:
            async with transport.stream(ask(server.host)) as other:
                assert json.loads((await anext(aiter(other))).data) == "first"
                for events in range(2):
                    async with transport.stream(ask(server.host)) as stream:
                        for _ in range(events):
                            await anext(aiter(stream))
                await until(lambda: cancelled == ["2", "3"])
                go_on.set()
                assert texts([event.data async for event in other]) == ["second", "end"]
            assert texts(await read(transport, ask(server.host))) == ["first", "second", "end"]
        assert server.connections == 1


async def test_closing_the_only_exchange_closes_a_connection_without_cancel_frames() -> None:
    def handler(session: Session, message: bytes) -> None:
        session.send(piece(json.loads(message)["id"], "first"))

    with SocketServer(handler) as server:
        async with opened(Rpc()) as transport:
            async with transport.stream(ask(server.host)) as stream:
                await anext(aiter(stream))
                async with transport.stream(ask(server.host)) as other:
                    await anext(aiter(other))
                assert not server.sessions[0].closed.is_set()
            await until(server.sessions[0].closed.is_set)
            assert server.connections == 1
            async with transport.stream(ask(server.host)) as stream:
                await anext(aiter(stream))
        assert server.connections == 2


async def test_a_notification_for_no_exchange_is_dropped() -> None:
    def handler(session: Session, message: bytes) -> None:
        session.send(json.dumps({"method": "hello", "params": {"text": "to all"}}), piece("99", "to another one"))
        answering(session, message)

    with SocketServer(handler) as server:
        async with opened(Rpc()) as transport:
            for _ in range(3):
                assert texts(await read(transport, ask(server.host, "q"))) == ["q 1", "q 2", "q end"]
        assert server.connections == 1


@pytest.mark.parametrize("key", [["1"], {"1": 1}, 1, True])
async def test_a_frame_with_a_key_that_is_not_a_string_is_dropped(key: object) -> None:
    def handler(session: Session, message: bytes) -> None:
        session.send(json.dumps({"id": key, "method": "are you there?"}))
        answering(session, message)

    with SocketServer(handler) as server:
        async with opened(Rpc()) as transport:
            assert texts(await read(transport, ask(server.host, "q"))) == ["q 1", "q 2", "q end"]


async def test_a_protocol_that_returns_an_invalid_frame_raises_in_the_exchange() -> None:
    class Short(Rpc):
        def read(self, frame: bytes, /) -> tuple[str | None, Sequence[Event], bool]:
            return cast("tuple[str | None, Sequence[Event], bool]", super().read(frame)[:2])

    with SocketServer(answering) as server:
        async with opened(Short()) as transport:
            async with asyncio.timeout(30):
                with pytest.raises(TransportError, match=r"cannot be parsed \(ValueError\)"):
                    await read(transport, ask(server.host, idle=None))


async def test_a_lost_connection_raises_in_every_exchange_after_its_events() -> None:
    everybody = threading.Barrier(5, timeout=30)

    def handler(session: Session, message: bytes) -> None:
        session.send(piece(json.loads(message)["id"], "first"))
        everybody.wait()
        session.abort()

    with SocketServer(handler) as server:
        async with opened(Rpc()) as transport:

            async def one() -> tuple[list[bytes], str]:
                seen: list[bytes] = []
                try:
                    async with transport.stream(ask(server.host)) as stream:
                        async for event in stream:
                            seen.append(event.data)
                except TransportError as error:
                    return seen, error.kind
                return seen, "none"

            assert await asyncio.gather(*[one() for _ in range(5)]) == [([b'"first"'], "stream")] * 5


async def test_an_unreadable_frame_fails_every_exchange_of_the_connection() -> None:
    everybody = threading.Barrier(2, timeout=30)

    def handler(session: Session, _: bytes) -> None:
        everybody.wait()
        session.send("nonsense")

    with SocketServer(handler) as server:
        async with opened(Rpc()) as transport:
            both = [transport.send(ask(server.host)) for _ in range(2)]
            errors = await asyncio.gather(*both, return_exceptions=True)
            assert [getattr(error, "kind", error) for error in errors] == ["protocol", "protocol"]
            await until(server.sessions[0].closed.is_set)


async def test_an_idle_timeout_ends_one_exchange_and_keeps_the_others() -> None:
    go_on = threading.Event()

    def handler(session: Session, message: bytes) -> None:
        if json.loads(message)["params"] == "loud":
            session.send(piece(json.loads(message)["id"], "first"))
            session.wait(go_on)
            session.send(result(json.loads(message)["id"], "end"))

    with SocketServer(handler) as server:
        async with opened(Cancelling()) as transport, transport.stream(ask(server.host, "loud")) as stream:
            events = aiter(stream)
            await anext(events)
            with pytest.raises(TransportError, match="no data arrived within") as caught:
                await read(transport, ask(server.host, "silent", idle=0.2))
            assert caught.value.kind == "timeout"
            go_on.set()
            assert texts([event.data async for event in stream]) == ["end"]
        assert server.connections == 1


async def test_a_slow_reader_applies_backpressure_until_it_closes_its_stream() -> None:
    sent = 0

    def handler(session: Session, message: bytes) -> None:
        nonlocal sent
        call = json.loads(message)
        if call["params"] == "much":
            while sent < 100_000_000:
                session.send(piece(call["id"], "x" * 10_000))
                sent += 10_000
            return
        if "id" in call:
            session.send(result(call["id"], "end"))

    with SocketServer(handler) as server:
        async with opened(Cancelling()) as transport:
            async with transport.stream(ask(server.host, "much")) as stream:
                await anext(aiter(stream))
                await until_it_stops(lambda: sent, 64_000_000)
                assert sent < 64_000_000
            assert texts(await read(transport, ask(server.host, "little"))) == ["end"]
        assert server.connections == 1


async def test_concurrent_exchanges_open_one_connection_or_all_fail() -> None:
    with SocketServer(answering) as server:
        async with opened(Rpc()) as transport:
            await asyncio.gather(*[transport.send(ask(server.host)) for _ in range(10)])
            assert server.connections == 1
    async with opened(Rpc()) as transport:
        calls = [transport.send(ask(server.host)) for _ in range(10)]
        errors = await asyncio.gather(*calls, return_exceptions=True)
    assert [getattr(error, "kind", error) for error in errors] == ["connect"] * 10


async def test_cancelling_an_exchange_that_opens_the_connection_keeps_the_others() -> None:
    opening, go_on = threading.Event(), threading.Event()

    def handshake(session: Session, _: object) -> None:
        opening.set()
        session.wait(go_on)

    with SocketServer(answering, handshake=handshake) as server:
        async with opened(Rpc()) as transport:
            first = asyncio.create_task(transport.send(ask(server.host, "first")))
            await until(opening.is_set)
            second = asyncio.create_task(transport.send(ask(server.host, "second")))
            await asyncio.sleep(0)
            first.cancel()
            go_on.set()
            assert (await second).body == b'"second end"'
            with pytest.raises(asyncio.CancelledError):
                await first


async def test_closing_the_transport_ends_its_exchanges() -> None:
    def handler(session: Session, message: bytes) -> None:
        session.send(piece(json.loads(message)["id"], "first"))

    with SocketServer(handler) as server:
        transport = WebSocketTransport(Cancelling())
        async with transport.stream(ask(server.host)) as stream:
            events = aiter(stream)
            await anext(events)
            await transport.aclose()
            with pytest.raises(TransportError, match="closed") as caught:
                await anext(events)
            assert caught.value.kind == "stream"
        await until(server.sessions[0].closed.is_set)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "websocket reader"]
