"""Fake transport that returns scripted responses and records requests."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, final

from anyio.lowlevel import checkpoint

from chat_core.arguments import require_text, require_type
from chat_core.errors import TransportError, UsageError
from chat_core.json import dump_bytes, loads
from chat_core.transport import MAX_EVENT_BYTES, EventStream, Headers, Request, Response, framed

if TYPE_CHECKING:
    from chat_core.transport import Transport

Step: TypeAlias = bytes | str | Exception | Callable[[], Awaitable[object]]
"""One step of a scripted body: a chunk to send, an error to raise, or a function to await, such as `event.wait`."""

Fields: TypeAlias = Sequence[tuple[str, str]] | Mapping[str, str]


@final
@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """Request that a `MockTransport` received.

    Attributes:
        request: the request as the provider sent it.
        streamed: whether it was sent by `stream()`.
    """

    request: Request
    streamed: bool

    @property
    def headers(self) -> Headers:
        """Headers of the request, with case-insensitive names."""
        return Headers(self.request.headers)

    @property
    def url(self) -> str:
        """Complete URL of the request."""
        return self.request.url

    @property
    def path(self) -> str:
        """Path of the request with its query."""
        return self.request.path

    @property
    def body(self) -> bytes:
        """Body of the request."""
        return self.request.body

    def json(self) -> Any:  # noqa: ANN401  # any JSON
        """Return the body parsed as JSON.

        Raises:
            ValueError: the body is not JSON.
        """
        return loads(self.request.body)


@final
@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Headers
    steps: tuple[Step, ...]


@final
class MockTransport:
    r"""Fake transport that returns one scripted response per request, in order. Runs on asyncio and trio.

    ```python
    transport = MockTransport()
    transport.answer(200, {"content-type": "application/json"}, {"ok": True})
    transport.answer(429, {"retry-after": "2"}, {"error": {"message": "slow down"}})
    transport.events('{"n": 1}', '{"n": 2}', "[DONE]")
    transport.answer(body=[b"data: 1\n\n", b"da", TransportError("stream", "reset")])
    transport.fail(TransportError("connect", "no route"))
    ```

    Attributes:
        requests: received requests, in order.
        open_streams: number of entered streams that have not been exited.
        closed: whether `aclose()` was called.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.requests: list[RecordedRequest] = []
        self.open_streams: int = 0
        self.closed: bool = False
        self._answers: deque[_Answer | Exception] = deque()
        self._max_event_bytes = max_event_bytes

    @property
    def last(self) -> RecordedRequest:
        """Latest request that the transport received.

        Raises:
            UsageError: no request was made.
        """
        if not self.requests:
            msg = "no request has been made yet"
            raise UsageError(msg)
        return self.requests[-1]

    @property
    def unused(self) -> int:
        """Number of scripted responses that have not been returned yet."""
        return len(self._answers)

    def answer(
        self,
        status: int = 200,
        headers: Fields = (),
        body: bytes | str | Mapping[str, object] | Sequence[Step] = b"",
    ) -> None:
        """Script the next response.

        Args:
            status: HTTP status. `stream()` raises `TransportError` unless it is 2xx, as over HTTP.
            headers: response headers.
            body: bytes or text, a mapping to be sent as JSON, or steps: chunks, errors to raise and functions to await.
        """
        if isinstance(body, Mapping):
            body = dump_bytes(body)
        require_type("body", body, (str, bytes, Sequence), "bytes, a string, a mapping or a sequence of steps")
        steps = (body,) if isinstance(body, bytes | str) else tuple(body)
        self._answers.append(_Answer(status, Headers(headers), steps))

    def events(self, *data: str, headers: Fields = ()) -> None:
        """Script a stream of server-sent events, one chunk per event.

        Args:
            data: data of each event.
            headers: additional response headers.
        """
        fields = Headers(headers).items()
        require_text(**{f"data[{index}]": item for index, item in enumerate(data)})
        body = ["".join(f"data: {line}\n" for line in item.split("\n")) + "\n" for item in data]
        self.answer(200, [("content-type", "text/event-stream"), *fields], body)

    def fail(self, error: Exception) -> None:
        """Script an error, which the next request raises instead of returning a response."""
        self._answers.append(error)

    async def send(self, request: Request, /) -> Response:
        """Record a request and return the next scripted response.

        Raises:
            TransportError: as scripted.
            UsageError: no scripted response is left.
        """
        answer = await self._next_answer(request, streamed=False)
        body = b"".join([chunk async for chunk in _iterate_chunks(answer)])
        return Response(answer.status, answer.headers, body)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Record a request and stream the next scripted response, split into events by the request's framing.

        Raises:
            TransportError: as scripted, or the status is not 2xx.
            UsageError: no scripted response is left.
        """
        answer = await self._next_answer(request, streamed=True)
        if not 200 <= answer.status < 300:
            body = b"".join([chunk async for chunk in _iterate_chunks(answer)])
            msg = f"{request.method} {request.host} returned status {answer.status}"
            raise TransportError("status", msg, status=answer.status, headers=answer.headers, body=body)
        chunks = _iterate_chunks(answer)
        batches = framed(chunks, request.framing, max_event_bytes=self._max_event_bytes, is_last=request.is_last)
        self.open_streams += 1
        try:
            yield EventStream(answer.status, answer.headers, batches)
        finally:
            self.open_streams -= 1
            await batches.aclose()
            await chunks.aclose()

    async def aclose(self) -> None:
        """Mark the transport as closed in the attribute `closed`."""
        self.closed = True

    async def _next_answer(self, request: Request, *, streamed: bool) -> _Answer:
        require_type("request", request, Request, "a Request")
        self.requests.append(RecordedRequest(request, streamed))
        await checkpoint()
        if not self._answers:
            description = f"{request.method} {request.host}, request {len(self.requests)}"
            msg = f"no answer is left for {description}: script one more"
            raise UsageError(msg)
        answer = self._answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer


async def _iterate_chunks(answer: _Answer) -> AsyncGenerator[bytes]:
    for step in answer.steps:
        await checkpoint()
        if isinstance(step, Exception):
            raise step
        if isinstance(step, str):
            yield step.encode()
        elif isinstance(step, bytes):
            yield step
        else:
            await step()


if TYPE_CHECKING:
    _is_a_transport: Transport = MockTransport()
