"""Transports with one fault each. The suite detects each fault in the scenario for it."""

# What is wrong is put into the right transport from outside.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import anyio
import pytest
from chat_core.errors import TransportError
from chat_core.transport import Event, EventStream, Headers, Request, Response, never_last
from chat_core.transport.event_loops import PerEventLoop
from chat_testing.transport_conformance import TRANSPORT_SCENARIOS
from chat_transport_aiohttp import AiohttpTransport
from chat_transport_aiohttp._connections import LoopSession

from . import wrong_transport_contents, wrong_transport_parsers, wrong_transports
from .right_transport import Batches, Right, anew, open_session, run_scenarios
from .wrong_provider_reports import MODULES
from .wrong_providers import CASES

THOROUGH = bool(os.environ.get("CHAT_THOROUGH"))

# Requests, and whole answers


class LosesTheQuery(Right):
    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, path=request.path.partition("?")[0])


class RemovesControlCharacters(Right):
    names = ("address_with_control_characters",)

    def asked(self, request: Request) -> Request:
        host, path = ["".join(char for char in text if " " < char < "\x7f") for text in (request.host, request.path)]
        return replace(request, host=host, path=path)


class RaisesForAStatus(Right):
    names = ("any_status", "error_body_too_long", "repeated_headers")

    async def send(self, request: Request, /) -> Response:
        response = await super().send(request)
        if response.status >= 400:
            raise TransportError("status", "refused", status=response.status)
        return response


class FollowsRedirects(Right):
    names = ("redirect",)

    async def send(self, request: Request, /) -> Response:
        response = await super().send(request)
        if response.status == 307:
            return await self.send(replace(request, path=response.headers["location"]))
        return response


class CutsLongBodies(Right):
    names = ("body_of_any_length",)

    async def send(self, request: Request, /) -> Response:
        response = await super().send(request)
        return Response(response.status, response.headers, response.body[:250_000])


class DoesNotDecode(Right):
    names = ("compressed", "compressed_body_too_long", "cut_compressed_body")

    def made(self) -> AiohttpTransport:
        made = super().made()
        made._is_decoded = True  # so the transport does not change the body
        return made


class TakesACutForTheEnd(Right):
    names = ("cut_answer",)

    async def send(self, request: Request, /) -> Response:
        try:
            return await super().send(request)
        except TransportError as error:
            if "ClientPayloadError" in str(error):
                return Response(200, Headers(), b"")
            raise


class CallsEveryFailureAStream(Right):
    names = ("nobody_there",)

    def told(self, error: TransportError, request: Request) -> TransportError:
        return anew(error, "stream") if error.kind == "connect" else error


class CallsAHangUpNoConnection(Right):
    names = ("hung_up",)

    def told(self, error: TransportError, request: Request) -> TransportError:
        return anew(error, "connect") if "ServerDisconnectedError" in str(error) else error


class TriesAgain(Right):
    names = ("asked_once",)

    async def send(self, request: Request, /) -> Response:
        try:
            return await super().send(request)
        except TransportError as error:
            if error.kind == "stream":
                return await super().send(request)
            raise


class CallsNonsenseABreak(Right):
    names = ("another_protocol",)

    def told(self, error: TransportError, request: Request) -> TransportError:
        return anew(error, "stream") if "violated the HTTP protocol" in str(error) else error


class WaitsForEverForAnAnswer(Right):
    names = ("no_answer_in_time", "stalled_body")
    patience = 1.5

    def asked(self, request: Request) -> Request:
        return replace(request, timeouts=replace(request.timeouts, idle=None)) if len(request.body) < 1000 else request

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with self.inner.stream(request) as stream:
            yield stream


class WaitsForEverToBeHeard(Right):
    names = ("deaf_peer",)
    patience = 1.5

    def asked(self, request: Request) -> Request:
        return replace(request, timeouts=replace(request.timeouts, idle=None)) if len(request.body) > 1000 else request


class TellsTheUrl(Right):
    names = ("secrets",)

    def told(self, error: TransportError, request: Request) -> TransportError:
        return anew(error, message=f"{request.url}: {error}")


class MendsHeaders(Right):
    names = ("header_that_breaks_out",)

    def asked(self, request: Request) -> Request:
        fields = [(name, value.replace("\r\n", " ").strip()) for name, value in request.headers]
        return replace(request, headers=tuple(fields))


# Streams


class DropsTheHeadersOfARefusal(Right):
    names = ("refused", "repeated_headers")

    def told(self, error: TransportError, request: Request) -> TransportError:
        return anew(error, headers={}) if error.status != 307 else error


class WantsAllOfARefusal(Right):
    names = ("refused_and_cut", "error_body_too_long")

    def told(self, error: TransportError, request: Request) -> TransportError:
        cut = error.kind == "status" and error.body and not error.body.endswith((b"}", b"}\xff"))
        return anew(error, "stream") if cut else error


class SaysAlwaysTwoHundred(Right):
    names = ("events",)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with super().stream(request) as stream:
            yield EventStream(200, stream.headers, stream.batches())


class WaitsForTheFirstEvent(Right):
    names = ("head_before_the_events", "event_too_long", "bytes_after_a_response")
    patience = 1.5

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with super().stream(request) as stream:
            try:
                first: list[Sequence[Event]] = [await anext(stream.batches(), list[Event]())]
            except TransportError as error:
                raise self.told(error, request) from error.__cause__
            async with aclosing(self.rest(first, stream)) as batches:
                yield EventStream(stream.status, stream.headers, batches)

    async def rest(self, first: list[Sequence[Event]], stream: EventStream) -> Batches:
        for batch in first:
            yield batch
        async for batch in stream.batches():
            yield batch


class HoldsAnEventBack(Right):
    names = ("as_they_come", "broken_stream", "what_came_counts", "others_continue")
    patience = 1.5

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        held: Sequence[Event] = []
        try:
            async for batch in stream.batches():
                if [event.data for event in batch] == [b"1"]:
                    held = batch
                    continue
                yield [*held, *batch]
                held = []
        except TransportError:
            if held:
                yield held
            raise
        if held:
            yield held


class LosesWhatIsNotAscii(Right):
    names = ("cut_anywhere", "event_data")

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        async for batch in stream.batches():
            for event in batch:
                if request.framing == "sse":
                    event.data = event.data.decode("ascii", "replace").encode()
            yield batch


class WantsAnEvent(Right):
    names = ("clean_end",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        empty = True
        async for batch in stream.batches():
            empty = False
            yield batch
        if empty:
            raise TransportError("stream", "no event was received")


class ReadsLinesAsEvents(Right):
    names = ("json_lines",)

    def asked(self, request: Request) -> Request:
        return replace(request, framing="sse") if request.framing == "json-lines" else request


class ReadsAnArrayAsLines(Right):
    names = ("json_array", "broken_framing")

    def asked(self, request: Request) -> Request:
        return replace(request, framing="json-lines") if request.framing == "json-array" else request


class PassesOverBrokenFrames(Right):
    names = ("broken_framing",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        try:
            async for batch in stream.batches():
                yield batch
        except TransportError:
            if request.framing == "sse":
                raise


class KeepsWhateverComes(Right):
    names = ("event_too_long",)
    patience = 1.5
    settings: ClassVar[Mapping[str, Any]] = {"max_event_bytes": 2**24}


class TakesABreakForTheEnd(Right):
    names = ("broken_stream", "cut_compressed_body")

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        try:
            async for batch in stream.batches():
                yield batch
        except TransportError as error:
            if error.kind != "stream" or request.framing != "sse":
                raise


class LetsAnErrorOvertakeEvents(Right):
    # Reading ahead also takes an endless stream that has no further event.
    names = ("what_came_counts", "slow_reader")
    # `slow_reader` needs a transport whose limit does not stop the reading.
    stream_limit = 100_000_000

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        """Read one batch ahead; drop the batch before an error that has arrived already."""
        source = aiter(stream.batches())
        ahead = asyncio.ensure_future(_next_batch(source))
        try:
            while (batch := await ahead) is not None:
                ahead = asyncio.ensure_future(_next_batch(source))
                for _ in range(10):  # an error that has arrived is raised within these
                    await asyncio.sleep(0)
                if ahead.done() and ahead.exception() is not None:
                    continue
                yield batch
        finally:
            ahead.cancel()
            await asyncio.wait([ahead])


async def _next_batch(source: AsyncIterator[Sequence[Event]]) -> Sequence[Event] | None:
    return await anext(source, None)


class TakesAStallForTheEnd(Right):
    names = ("stalled_stream",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        try:
            async for batch in stream.batches():
                yield batch
        except TransportError as error:
            if error.kind != "timeout":
                raise


class CountsTheWholeTime(Right):
    names = ("slow_and_steady",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        begun = anyio.current_time()
        async for batch in stream.batches():
            if anyio.current_time() - begun > (request.timeouts.idle or 0):
                raise TransportError("timeout", "that took too long")
            yield batch


# Leaving


class ClosesLate(Right):
    names = (
        "left_early",
        "nothing_left_open",
        "slow_reader",
        "no_end_behind_the_last_event",
        "last_event",
    )
    patience = 1.5

    def __init__(self, session: aiohttp.ClientSession | None = None) -> None:
        super().__init__(session)
        self.late: list[AsyncExitStack] = []

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        stack = AsyncExitStack()
        stream = await stack.enter_async_context(self.inner.stream(request))
        self.late.append(stack)
        yield stream

    async def aclose(self) -> None:
        while self.late:
            await self.late.pop().aclose()
        await super().aclose()


class DoesNotCloseWhatNobodyRead(Right):
    names = ("left_early", "nothing_left_open")
    patience = 1.5

    def __init__(self, session: aiohttp.ClientSession | None = None) -> None:
        super().__init__(session)
        self.late: list[AsyncExitStack] = []

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        stack = AsyncExitStack()
        stream = await stack.enter_async_context(super().stream(request))
        read: list[int] = []
        async with aclosing(self.noted(stream, read)) as batches:
            try:
                yield EventStream(stream.status, stream.headers, batches)
            finally:
                if read or request.body != b"{}":
                    await stack.aclose()
                else:
                    self.late.append(stack)

    async def noted(self, stream: EventStream, read: list[int]) -> Batches:
        read.append(0)
        async for batch in stream.batches():
            yield batch

    async def aclose(self) -> None:
        while self.late:
            await self.late.pop().aclose()
        await super().aclose()


class SwallowsErrors(Right):
    names = ("errors_of_the_reader",)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with super().stream(request) as stream:
            try:
                yield stream
            except ArithmeticError:
                raise
            except Exception as error:
                if not isinstance(error, TransportError | AssertionError):
                    return
                raise


class LeavesAGenerator(Right):
    names = ("nothing_left_open",)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with super().stream(request) as stream:
            yield EventStream(stream.status, stream.headers, self.more(stream))

    async def more(self, stream: EventStream) -> Batches:
        async for batch in stream.batches():
            yield batch


class LeavesATask(Right):
    names = ("nothing_left_open",)

    def __init__(self, session: aiohttp.ClientSession | None = None) -> None:
        super().__init__(session)
        self.tasks: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with super().stream(request) as stream:
            yield stream
        self.tasks.append(asyncio.create_task(asyncio.sleep(0.05)))


class SwallowsACancellation(Right):
    names = ("cancelled_reader",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        try:
            async for batch in stream.batches():
                yield batch
        except asyncio.CancelledError:
            return


class GoesOnWhenCancelled(Right):
    names = ("cancelled_before_the_answer",)
    patience = 1.5

    async def send(self, request: Request, /) -> Response:
        task = asyncio.ensure_future(super().send(request))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: done.exception())
            raise


class KeepsTheRestForTheNext(Right):
    names = ("nothing_for_the_next",)

    def __init__(self, session: aiohttp.ClientSession | None = None) -> None:
        super().__init__(session)
        self.rest: Sequence[Event] = []

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        if self.rest and request.is_last is never_last:
            rest, self.rest = self.rest, []
            yield rest
        batch: Sequence[Event] = []
        try:
            async for batch in stream.batches():
                yield batch
        except GeneratorExit:
            self.rest = batch
            raise


class ReadsAheadWithoutEnd(Right):
    names = ("slow_reader", "bytes_after_a_response")

    def made(self) -> AiohttpTransport:
        made = super().made()
        made._sessions._make = partial(open_session, read_bufsize=2**28)
        return made


# Limits


class ReadsBodiesWithoutEnd(Right):
    names = ("body_too_long", "compressed_body_too_long")
    settings: ClassVar[Mapping[str, Any]] = {"max_body_bytes": None}


class ReadsErrorsWithoutEnd(Right):
    names = ("error_body_too_long",)
    settings: ClassVar[Mapping[str, Any]] = {"max_error_bytes": 2**30}


class ReadsStreamsWithoutEnd(Right):
    names = ("stream_too_long", "compressed_body_too_long")
    settings: ClassVar[Mapping[str, Any]] = {"max_stream_bytes": None}


class CountsCompressedBytes(Right):
    names = ("compressed_body_too_long",)

    def made(self) -> AiohttpTransport:
        made = super().made()
        open_ = made._open

        async def open_without_limits(request: Request, accept_encoding: str) -> Any:
            response = await open_(request, accept_encoding)
            if "content-encoding" in response.headers:
                made._max_body_bytes = made._max_stream_bytes = None
            return response

        made._open = open_without_limits  # type: ignore[method-assign]  # the test replaces it
        return made


# Sharing


class ServesOneAtATime(Right):
    names = ("at_once", "others_continue")
    patience = 1.5
    settings: ClassVar[Mapping[str, Any]] = {"max_connections": 1}


class RemembersTheRequest(Right):
    names = ("each_its_own",)

    async def send(self, request: Request, /) -> Response:
        self.request = request
        await asyncio.sleep(0)
        return await super().send(self.request)


class BelongsToOneLoop(Right):
    names = ("other_loops",)

    def asked(self, request: Request) -> Request:
        loop = asyncio.get_running_loop()
        if vars(self).setdefault("loop", loop) is not loop:
            raise RuntimeError("attached to a different loop")
        return request


class ClosesOnce(Right):
    names = ("closing_twice", "closing", "passed_in")

    async def aclose(self) -> None:
        await super().aclose()
        if vars(self).setdefault("closed", self) is not self or "again" in vars(self):
            raise RuntimeError("closed already")
        self.again = True


class NeverCloses(Right):
    names = ("closing",)
    patience = 1.5
    all: ClassVar[list[NeverCloses]] = []

    def __init__(self, session: aiohttp.ClientSession | None = None) -> None:
        super().__init__(session)
        self.all.append(self)  # collecting an open object emits a warning

    async def aclose(self) -> None:
        """Do nothing: the connections stay open until the event loop ends."""


class ClosesWhatIsNotItsOwn(Right):
    names = ("passed_in",)

    async def aclose(self) -> None:
        await super().aclose()
        if self.session is not None:
            await self.session.close()


class OpensAConnectionEachTime(Right):
    names = ("connection_used_again", "last_event")

    def made(self) -> AiohttpTransport:
        made = super().made()

        def unpooled(sessions: PerEventLoop[LoopSession]) -> LoopSession:
            return open_session(sessions, connector=aiohttp.TCPConnector(force_close=True))

        made._sessions._make = unpooled
        return made


class KeepsConnectionsWithUnreadBytes(Right):
    names = ("bytes_after_a_response",)

    def made(self) -> AiohttpTransport:
        made = super().made()

        def unchecked(sessions: PerEventLoop[LoopSession]) -> LoopSession:
            return open_session(sessions, connector=aiohttp.TCPConnector())

        made._sessions._make = unchecked
        return made


class DoesNotKnowTheLast(Right):
    names = ("last_event",)

    def asked(self, request: Request) -> Request:
        return replace(request, is_last=never_last)


class WaitsForTheEndOfAnAnswer(Right):
    names = ("no_end_behind_the_last_event",)
    patience = 1.5

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        last = False
        try:
            async for batch in stream.batches():
                last = request.is_last(batch[-1])
                yield batch
        except GeneratorExit:
            if last:
                async for _ in stream.batches():
                    pass
            raise


def faulty_transports(names: Mapping[str, object]) -> list[type[Right]]:
    """The faulty transports that a module defines."""
    return [kind for kind in names.values() if inspect.isclass(kind) and issubclass(kind, Right) and kind.names]


OWN = faulty_transports(vars().copy())
WRONG = [
    *OWN,
    *[
        kind
        for module in (wrong_transports, wrong_transport_contents, wrong_transport_parsers)
        for kind in faulty_transports(vars(module))
    ],
]


def test_a_correct_transport_passes_all_scenarios() -> None:
    assert anyio.run(run_scenarios, Right) == {}


@pytest.mark.parametrize("kind", WRONG, ids=lambda kind: kind.__name__)
def test_a_faulty_transport_fails_exactly_the_scenario_for_its_fault(kind: type[Right]) -> None:
    # The whole suite takes a few seconds. For some faulty transports only the expected scenarios run by default.
    broken = anyio.run(run_scenarios, kind, None if THOROUGH or kind in OWN else kind.names)

    assert set(broken) == set(kind.names)
    for name, sentence in broken.items():
        assert sentence.startswith(f"{name}: ")
        assert "\n" not in sentence


def test_a_transport_that_loses_header_values_fails() -> None:
    kind = wrong_transports.KeepsTheLastOfRepeatedHeaders

    assert list(anyio.run(run_scenarios, kind, kind.names)) == ["repeated_headers"]


def test_every_scenario_is_failed_first_by_some_faulty_transport() -> None:
    first = {kind.names[0] for kind in WRONG}

    assert first == {scenario.name for scenario in TRANSPORT_SCENARIOS}
    assert len([kind for kind in WRONG if len(kind.names) == 1]) >= 15


def test_the_page_of_maintainers_states_the_number_of_wrong_subjects() -> None:
    page = Path(__file__).parents[2] / "docs" / "maintainers" / "long-runs.md"
    modules = {module.__name__ for module in MODULES}
    providers, transports = sum(kind.__module__ in modules for kind in CASES), len(WRONG)
    stated = " ".join(page.read_text(encoding="utf-8").split())

    assert f"{providers} of {providers} wrong providers and {transports} of {transports} wrong transports" in stated
