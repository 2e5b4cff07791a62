"""Conformance scenarios for error responses, repeated requests and secrets."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, final

from chat_core.errors import (
    AuthenticationError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RateLimitedError,
    TransportError,
)
from chat_core.testing.mock_transport import MockTransport

from chat_testing.conformance.scenario import scenario
from chat_testing.conformance.subject import Method, ProviderInput, Subject, call_provider, open_stream, reply_of
from chat_testing.conformance.tapes import Refusal, Reply
from chat_testing.errors import fail


async def _collect_refusals(subject: Subject) -> Sequence[tuple[Refusal, Method, ProviderError]]:
    found: list[tuple[Refusal, Method, ProviderError]] = []
    for refusal in subject.tapes.refusals:
        for method in subject.methods:
            outcome = await subject.run(method, refusal.reply)
            if outcome.error is None:
                fail(f"{method}() returned a response although the status is {refusal.reply.status}")
            if not isinstance(outcome.error, ProviderError):
                fail(
                    f"{method}() with status {refusal.reply.status} raised {outcome.error!r} instead of a ProviderError"
                )
            found.append((refusal, method, outcome.error))
    return found


@scenario()
async def error_class(subject: Subject) -> None:
    """An error response raises the expected exception class, with the status of the response and with a message."""
    for refusal, method, error in await _collect_refusals(subject):
        if type(error) is not refusal.error:
            fail(f"an error response to {method}() should raise {refusal.error.__name__}, but raised {error!r}")
        if error.status != refusal.reply.status:
            fail(f"the error of {method}() for the status {refusal.reply.status} has the status {error.status}")
        if not str(error).strip():
            fail(f"the error of {method}() for the status {refusal.reply.status} has no message")


@scenario("stream")
async def error_on_entry(subject: Subject) -> None:
    """An error response to `stream()` raises when the block is entered, before the stream is read."""
    for refusal in subject.tapes.refusals:
        provider, _ = subject.serve(refusal.reply)
        with suppress(ProviderError):
            async with open_stream(provider, ProviderInput()):
                fail(f"the block of stream() was entered although the status is {refusal.reply.status}")


@scenario()
async def one_request(subject: Subject) -> None:
    """Each call sends one request. A provider does not retry, because the engine does."""
    for method in subject.methods:
        for status in (429, 503):
            provider, transport = subject.serve(*[Reply.json({}, status)] * 3)
            await call_provider(provider, method)
            _require_one_request(transport, f"{method}() with status {status}")
        for kind in ("connect", "stream", "timeout"):
            transport = MockTransport()
            for _ in range(3):
                transport.fail(TransportError(kind, "no route"))
            await call_provider(subject.make_provider(transport), method)
            _require_one_request(transport, f"{method}() over a connection that failed ({kind})")


def _require_one_request(transport: MockTransport, what: str) -> None:
    if len(transport.requests) != 1:
        fail(f"{what} sent {len(transport.requests)} requests instead of one")


@scenario()
async def caller_transport(subject: Subject) -> None:
    """The provider does not close the transport that its caller passed in, neither after a call nor in `aclose()`."""
    for method in subject.methods:
        provider, transport = subject.serve(reply_of(subject.text, method) or Reply())
        await call_provider(provider, method)
        if transport.closed:
            fail(f"{method}() closed the transport that the caller passed in")
        aclose = getattr(provider, "aclose", None)
        if aclose is not None:
            await aclose()
        if transport.closed:
            fail("aclose() closed the transport that the caller passed in")


@scenario()
async def error_retryable(subject: Subject) -> None:
    """The exception for an error response has the expected value of `retryable`."""
    for refusal, method, error in await _collect_refusals(subject):
        if error.retryable is not refusal.retryable:
            fail(
                f"an error response to {method}() with status {refusal.reply.status} "
                f"has retryable={error.retryable} instead of "
                f"{refusal.retryable}"
            )


@scenario("waits")
async def error_wait(subject: Subject) -> None:
    """The exception for an error response has the wait time that the server requested."""
    for refusal, method, error in await _collect_refusals(subject):
        if error.retry_after != refusal.wait:
            fail(
                f"the server requested a delay of {refusal.wait} seconds, but the "
                f"error of {method}() has retry_after={error.retry_after}"
            )


@scenario("request_ids")
async def error_request_id(subject: Subject) -> None:
    """The exception for an error response has the request id that the server sent."""
    for refusal, method, error in await _collect_refusals(subject):
        if error.request_id != refusal.request_id:
            fail(f"the request id of {method}() is {refusal.request_id!r}, but the error has {error.request_id!r}")


@scenario()
async def error_of_a_gateway(subject: Subject) -> None:
    """An error response with an unknown body format, such as one from a gateway, is classified by its status."""
    for method in subject.methods:
        for body in PAGES:
            for status, retryable in ((502, True), (503, True), (404, False)):
                outcome = await subject.run(method, Reply(body=body, status=status))
                if not isinstance(outcome.error, ProviderError):
                    fail(f"{method}() raised {outcome.error!r} for the body {body!r} with status {status}")
                if outcome.error.retryable is not retryable:
                    fail(
                        f"the error for the body {body!r} with status {status} has retryable={outcome.error.retryable}"
                    )
        await _require_class_of_status(subject, method)
        outcome = await subject.run(method, Reply(body=LONG_PAGE, status=502))
        if (length := len(str(outcome.error))) > MAX_MESSAGE:
            fail(f"the error of {method}() for a page of {len(LONG_PAGE)} bytes has a message of {length} characters")
        for wait in WAITS:
            outcome = await subject.run(method, Reply(status=503, headers={"retry-after": wait}))
            if not isinstance(outcome.error, ProviderError):
                fail(f"{method}() raised {outcome.error!r} for the header retry-after: {wait}")


async def _require_class_of_status(subject: Subject, method: Method) -> None:
    for status, kind in CLASSES.items():
        outcome = await subject.run(method, Reply(body=PAGES[0], status=status))
        if not isinstance(outcome.error, kind):
            fail(f"{method}() raised {outcome.error!r} for a page with status {status}, and not {kind.__name__}")


PAGES: Final = (
    b"<html><body>upstream went away</body></html>",
    b"",
    b"null",
    b"[]",
    b'"words"',
    b'{"error": null}',
    b'{"error": "words"}',
    b'{"error": {"message": null, "code": null}}',
    b'{"error": [1]}',
    b"\xff\xfe",
)
"""Bodies of error responses that do not follow the format of the API."""

CLASSES: Final[Mapping[int, type[ProviderError]]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    429: RateLimitedError,
}
"""Classes of errors whose status says enough, so that a provider needs no body to choose the class."""

LONG_PAGE: Final = b"<html><body>" + b"upstream went away " * 10_000
MAX_MESSAGE: Final = 10_000
WAITS: Final = ("Wed, 21 Oct 2026 07:28:00 GMT", "soon", "", "-1", "1e999", "nan")
"""Values of the header `retry-after`: a date, and values that are not valid."""


@scenario()
async def secrets(subject: Subject) -> None:
    """Secret header values do not appear in errors, in log messages or in the `repr()` of the provider."""
    for method in subject.methods:
        for refusal in subject.tapes.refusals:
            provider, transport = subject.serve(refusal.reply)
            with _collect_log_messages() as logged:
                outcome = await call_provider(provider, method)
            hidden = [value for name, value in transport.last.request.headers if _is_secret(name)]
            keys = [key for value in hidden for key in (value.rpartition(" ")[2],) if key]
            shown = f"{provider!r} {outcome.error!r} {outcome.error}"
            if any(key in shown for key in keys):
                fail(f"the API key that {method}() sends is in the repr of the provider or in an error")
            if any(key in message for key in keys for message in logged):
                fail(f"{method}() logs the API key that it sends")


@contextmanager
def _collect_log_messages() -> Generator[list[str]]:
    """Yield a list of the log messages of all loggers that pass their messages on to the root logger."""
    messages: list[str] = []
    root, handler = logging.getLogger(), _Collector(messages)
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield messages
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


@final
class _Collector(logging.Handler):
    """Handler that appends each log message to a list."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__()
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in ("auth", "key", "token", "secret"))
