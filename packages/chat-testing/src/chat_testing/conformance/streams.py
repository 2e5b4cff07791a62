"""Conformance scenarios for truncated, broken and canceled streams, and for failed connections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

import anyio
from chat_core.errors import (
    ChatError,
    InvalidResponseError,
    NetworkError,
    RequestTimeoutError,
    StreamTruncatedError,
    TransportError,
)
from chat_core.events import ReasoningDelta, TextDelta
from chat_core.messages import Reasoning, Turn
from chat_core.testing.mock_transport import MockTransport, Step
from chat_core.transport import Framing

from chat_testing.conformance.answers import answer_tapes, input_for, representative_tapes
from chat_testing.conformance.scenario import scenario
from chat_testing.conformance.subject import (
    AnyProvider,
    Method,
    ProviderInput,
    Subject,
    call_provider,
    open_stream,
)
from chat_testing.conformance.tapes import Reply, Tape
from chat_testing.errors import fail

TRUNCATION_ERRORS = (StreamTruncatedError, NetworkError)
"""Errors for a truncated stream. `NetworkError` is raised if the transport detects the truncation."""


def truncated_streams(tape: Tape) -> list[tuple[int, list[Step]]]:
    """Return truncated copies of a recorded stream, each with the number of complete events before the truncation.

    The stream is truncated before each event, and in the middle of each event, up to the events that may be missing.
    """
    chunks = tape.stream.chunks if tape.stream is not None else ()
    last = len(chunks) - tape.tail
    found: list[tuple[int, list[Step]]] = []
    for index in range(last):
        found.append((index, [*chunks[:index]]))
        found.append((index, [*chunks[:index], chunks[index][: len(chunks[index]) // 2]]))
    return found


@scenario("stream")
async def truncation(subject: Subject) -> None:
    """A truncated stream raises a retryable `StreamTruncatedError` or `NetworkError`, and never returns a turn."""
    for tape in representative_tapes(subject):
        for index, steps in truncated_streams(tape):
            outcome = await subject.run_steps("stream", steps, input_for(tape))
            where = (
                f"a stream that was truncated after {index} of {len(tape.stream.chunks if tape.stream else ())} events"
            )
            if outcome.error is None:
                fail(f"{where} was returned as a complete response: {outcome.result!r}")
            if not isinstance(outcome.error, TRUNCATION_ERRORS):
                fail(f"{where} raised {outcome.error!r} instead of StreamTruncatedError")
            if not outcome.error.retryable:
                fail(f"the error of {where} is not retryable")


@scenario("text")
async def truncated_body(subject: Subject) -> None:
    """A truncated response body raises an error and never returns a turn."""
    for tape in answer_tapes(subject):
        if tape.whole is None:
            continue
        data = tape.whole.data
        for length in (0, len(data) // 2, len(data) - 1):
            cut = Reply(body=data[:length], headers=tape.whole.headers)
            outcome = await subject.run("complete", cut, input_for(tape))
            if outcome.error is None:
                fail(
                    f"the first {length} of {len(data)} bytes of a response were "
                    f"returned as a complete response: {outcome.result!r}"
                )
            if not isinstance(outcome.error, (InvalidResponseError, *TRUNCATION_ERRORS)):
                fail(f"a truncated response body raised {outcome.error!r} instead of InvalidResponseError")


@scenario("text")
async def nonsense_body(subject: Subject) -> None:
    """A body that is not a valid response raises `InvalidResponseError` or an error for a truncated response."""
    for body in (b"<html>Welcome</html>", b"", b"null", b"[]", b"{}", b"17", b'"words"', b"\xff\xfe"):
        outcome = await subject.run("complete", Reply(body=body))
        if outcome.error is None:
            fail(f"the body {body!r} was returned as a response: {outcome.result!r}")
        if not isinstance(outcome.error, (InvalidResponseError, *TRUNCATION_ERRORS)):
            fail(f"the body {body!r} raised {outcome.error!r} instead of InvalidResponseError")
    outcome = await subject.run("complete", Reply.json({"error": {"message": "It failed.", "code": 500}}))
    if outcome.error is None:
        fail(f"an error that the server reported with status 200 was returned as a response: {outcome.result!r}")


@scenario("stream")
async def nonsense_events(subject: Subject) -> None:
    """An invalid event in a stream is ignored or raises `InvalidResponseError`. No other error is raised."""
    chunks = subject.text.stream.chunks if subject.text.stream else ()
    provider, transport = subject.serve(subject.text.stream or Reply())
    known = (await call_provider(provider, "stream")).result
    framing = transport.last.request.framing
    if framing not in FRAMES:
        return  # a binary framing has no place for such data
    before, behind = FRAMES[framing]
    for words in (b"null", b"17", b"[]", b"{}", b'"words"', b"true"):
        middle = len(chunks) // 2
        outcome = await subject.run_steps("stream", [*chunks[:middle], before + words + behind, *chunks[middle:]])
        if outcome.error is None and outcome.result.text != known.text:
            fail(f"the data {words!r} inside a stream was accepted; the response is {outcome.result.text!r}")
        if not isinstance(outcome.error, InvalidResponseError | None):
            fail(f"the data {words!r} inside a stream raised {outcome.error!r} instead of InvalidResponseError")


FRAMES: Final[Mapping[Framing, tuple[bytes, bytes]]] = {
    "sse": (b"data: ", b"\n\n"),
    "json-lines": (b"", b"\n"),
    "json-array": (b",", b""),
}
"""Bytes before and after the data of an event."""


@scenario("stream")
async def partial(subject: Subject) -> None:
    """`partial()` returns the text, reasoning and usage received so far, at any time and after the stream failed."""
    truncated = truncated_streams(subject.text)
    broken = [(index, [*steps, TransportError("stream", "reset")]) for index, steps in truncated]
    for index, steps in (*truncated, *broken):
        provider, transport = subject.serve()
        transport.answer(200, {}, steps)
        texts: list[str] = []
        async with open_stream(provider, ProviderInput()) as (stream, batches):
            try:
                async for batch in batches:
                    texts += [delta.text for delta in batch if isinstance(delta, TextDelta)]
                    _require_partial_text(stream.partial(), texts, index)
                stream.close()
            except ChatError:
                _require_partial_text(stream.partial(), texts, index)
    await _require_partial_reasoning(subject)
    provider, transport = subject.serve(subject.text.stream or Reply())
    async with open_stream(provider, ProviderInput()) as (stream, batches):
        async for _ in batches:
            pass
        usage = stream.partial().usage
        if usage != (complete := stream.close().usage):
            fail(f"at the end of a stream, the turn has {complete!r}, but partial() has {usage!r}")


async def _require_partial_reasoning(subject: Subject) -> None:
    tape = subject.tapes.reasoning
    if tape is None or tape.stream is None:
        return
    provider, _ = subject.serve(tape.stream)
    thought = ""
    async with open_stream(provider, input_for(tape)) as (stream, batches):
        async for batch in batches:
            thought += "".join([delta.text for delta in batch if isinstance(delta, ReasoningDelta)])
            found = "".join([part.text for part in stream.partial().parts if isinstance(part, Reasoning)])
            if thought and not found:
                fail(f"the reasoning deltas are {thought!r}, but partial() has no reasoning")


def _require_partial_text(turn: Turn, texts: list[str], index: int) -> None:
    if turn.text != "".join(texts):
        fail(f"after {index} events the deltas are {''.join(texts)!r}, but partial() has {turn.text!r}")


@scenario("stream")
async def malformed_frame(subject: Subject) -> None:
    """A frame that violates the protocol raises `InvalidResponseError` and is never ignored."""
    chunks = subject.text.stream.chunks if subject.text.stream else ()
    for index in range(1, len(chunks) - subject.text.tail):
        outcome = await subject.run_steps("stream", [*chunks[:index], subject.tapes.malformed, *chunks[index:]])
        if outcome.error is None:
            fail(f"a malformed frame was ignored; the response is {outcome.result.text!r}")
        if not isinstance(outcome.error, InvalidResponseError):
            fail(f"a malformed frame raised {outcome.error!r} instead of InvalidResponseError")


@scenario("stream_errors")
async def failure_in_stream(subject: Subject) -> None:
    """An error that the server reports inside a stream raises the matching exception class."""
    failure = subject.tapes.failure
    chunks = subject.text.stream.chunks if subject.text.stream else ()
    if failure is None:
        return
    for index in range(1, len(chunks) - subject.text.tail):
        for rest in ((), chunks[index:]):
            outcome = await subject.run_steps("stream", [*chunks[:index], failure.frame, *rest])
            if outcome.error is None:
                fail(f"a stream with a server error was returned as a complete response: {outcome.result.text!r}")
            if type(outcome.error) is not failure.error:
                fail(
                    "a server error inside a stream should raise "
                    f"{failure.error.__name__}, but raised {outcome.error!r}"
                )
            if outcome.error.retryable is not failure.retryable:
                fail(f"a server error inside a stream has retryable={outcome.error.retryable}: {outcome.error!r}")


@scenario()
async def connection(subject: Subject) -> None:
    """A failed connection raises `NetworkError`, a silent connection `RequestTimeoutError`. Both are retryable."""
    failures: tuple[tuple[str, type[ChatError]], ...] = (
        ("connect", NetworkError),
        ("stream", NetworkError),
        ("timeout", RequestTimeoutError),
    )
    for method in subject.methods:
        for kind, wanted in failures:
            transport = MockTransport()
            transport.fail(TransportError(kind, "no route"))
            outcome = await call_provider(subject.make_provider(transport), method)
            _require_network_error(outcome.error, wanted, f"{method}() over a connection that failed ({kind})")


@scenario("stream")
async def broken_connection(subject: Subject) -> None:
    """A connection that breaks during a stream raises a retryable `NetworkError`."""
    chunks = subject.text.stream.chunks if subject.text.stream else ()
    for index in range(len(chunks) - subject.text.tail):
        outcome = await subject.run_steps("stream", [*chunks[:index], TransportError("stream", "reset by peer")])
        _require_network_error(outcome.error, NetworkError, f"a connection that broke after {index} events")


def _require_network_error(error: ChatError | None, wanted: type[ChatError], what: str) -> None:
    if error is None:
        fail(f"{what} returned a response")
    if not isinstance(error, wanted):
        fail(f"{what} raised {error!r} instead of {wanted.__name__}")
    if not error.retryable:
        fail(f"the error of {what} is not retryable")


# --- Early exit -----------------------------------------------------------------------------------------------------


@scenario("stream")
async def left_early(subject: Subject) -> None:
    """A stream that is closed early leaves no connection open, and does not suppress an error of its reader."""
    chunks = subject.text.stream.chunks if subject.text.stream else ()
    for batches in range(len(chunks)):
        for leave in (_leave_by_break, _leave_by_error):
            provider, transport = subject.serve()
            transport.answer(200, {}, chunks)
            await leave(provider, batches)
            if transport.open_streams:
                fail(f"a stream that was closed after {batches} batches ({leave.__name__[1:]}) is still open")


async def _leave_by_break(provider: AnyProvider, count: int) -> None:
    async with open_stream(provider, ProviderInput()) as (_, batches):
        for _ in range(count):
            await anext(batches, None)


async def _leave_by_error(provider: AnyProvider, count: int) -> None:
    with suppress(_LeftError):
        async with open_stream(provider, ProviderInput()) as (_, batches):
            for _ in range(count):
                await anext(batches, None)
            raise _LeftError
        fail("an error that was raised in the block of stream() was suppressed")


class _LeftError(Exception):
    """Exception that a scenario raises to leave a stream early."""


@scenario("stream")
async def cancelled(subject: Subject) -> None:
    """A stream that is canceled while it waits leaves no connection open and does not suppress the cancellation."""
    chunks = subject.text.stream.chunks if subject.text.stream else ()
    for index in range(len(chunks)):
        transport = MockTransport()
        waits = anyio.Event()
        transport.answer(200, {}, [*chunks[:index], _wait_forever(waits), *chunks[index:]])
        ended: list[str] = []
        async with anyio.create_task_group() as group:
            group.start_soon(_call_until_cancelled, subject.make_provider(transport), "stream", ended)
            await waits.wait()
            group.cancel_scope.cancel()
        if transport.open_streams:
            fail(f"a stream that was cancelled after {index} events is still open")
        if ended:
            fail(f"a stream that was cancelled after {index} events continued: {ended[0]}")


def _wait_forever(waits: anyio.Event) -> Callable[[], Awaitable[object]]:
    async def wait() -> None:
        waits.set()
        await anyio.sleep_forever()

    return wait


@scenario()
async def cancelled_request(subject: Subject) -> None:
    """A call that is canceled while it waits for its response ends with the cancellation, and not with an error."""
    for method in subject.methods:
        if method == "stream":
            continue  # see the scenario `cancelled`
        transport = MockTransport()
        waits = anyio.Event()
        transport.answer(200, {}, [_wait_forever(waits)])
        ended: list[str] = []
        async with anyio.create_task_group() as group:
            group.start_soon(_call_until_cancelled, subject.make_provider(transport), method, ended)
            await waits.wait()
            group.cancel_scope.cancel()
        if ended:
            fail(f"{method}() was cancelled while it waited for its response, but continued: {ended[0]}")


async def _call_until_cancelled(provider: AnyProvider, method: Method, ended: list[str]) -> None:
    outcome = await call_provider(provider, method)
    ended.append(repr(outcome.error or outcome.turn))
