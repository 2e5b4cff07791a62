"""Transport scenarios, the transport under test, and helpers that scenarios share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast, final

import anyio
from chat_core.errors import TransportError, UsageError
from chat_core.transport import (
    MAX_BODY_BYTES,
    MAX_ERROR_BYTES,
    MAX_EVENT_BYTES,
    MAX_STREAM_BYTES,
    Event,
    EventStream,
    Framing,
    Request,
    Timeouts,
    Transport,
    never_last,
)

from chat_testing.errors import NonconformingError, fail
from chat_testing.transport_conformance._capabilities import CLAIMS, TransportCapabilities
from chat_testing.transport_conformance._contract import CLAUSES
from chat_testing.transport_conformance._peer import Answering, Delimited, Peer, Play

PassedIn: TypeAlias = AbstractAsyncContextManager[tuple[Transport, Callable[[], bool]]]

SECRET: Final = "sk-must-not-be-told"  # noqa: S105  # not a real secret: scenarios check that errors do not contain it
PATH: Final = f"/v1/answers?key={SECRET}&text=a%20b%C3%A9"
HEADERS: Final = (
    ("authorization", f"Bearer {SECRET}"),
    ("x-kind", "a"),
    ("X-Kind", "b"),
    ("accept", "application/x-conformance"),
    ("user-agent", "conformance/1.0"),
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSubject:
    """A transport under test, with its capabilities and its event loop.

    Attributes:
        make_transport: creates a transport that connects to the given peer.
        capabilities: the declared capabilities.
        backend: name of the event loop backend, `asyncio` or `trio`.
        serve: starts a peer that responds with the plays that the given function returns.
        unreachable: starts a peer that refuses connections or, if the argument is true, accepts them and never reads.
        passed_in: opens a transport that uses a client of the caller, with a function that returns whether the client
            is open.
        max_event_bytes: maximum size of an event in bytes.
        max_body_bytes: maximum size of the body of a complete response in bytes.
        max_stream_bytes: maximum size of the body of a streamed response in bytes.
        max_error_bytes: maximum number of bytes read from the body of an error response.
        patience: maximum duration of a scenario in seconds.
    """

    make_transport: Callable[[Peer], Transport]
    capabilities: TransportCapabilities
    backend: str
    serve: Callable[[Answering], AbstractContextManager[Peer]]
    unreachable: Callable[[bool], AbstractContextManager[Peer]]
    passed_in: Callable[[Peer], PassedIn]
    max_event_bytes: int = MAX_EVENT_BYTES
    max_body_bytes: int = MAX_BODY_BYTES
    max_stream_bytes: int = MAX_STREAM_BYTES
    max_error_bytes: int = MAX_ERROR_BYTES
    patience: float = 30.0

    @property
    def delimited(self) -> Delimited:
        """The framing of response bodies that the peer sends: `chunked` if the transport supports it, else `close`."""
        return "chunked" if self.capabilities.chunked else "close"

    def play(self, *steps: bytes, status: int = 200, headers: tuple[tuple[str, str], ...] | None = None) -> Play:
        """Return a complete scripted response whose body consists of the chunks `steps`."""
        play = Play(status=status, steps=steps, delimited=self.delimited)
        return play if headers is None else Play(status=status, headers=headers, steps=steps, delimited=self.delimited)

    @asynccontextmanager
    async def with_peer(self, answer: Answering | Play) -> AsyncGenerator[tuple[Transport, Peer]]:
        """Start a scripted peer and open a new transport to it. Both are closed when the context exits."""
        with self.serve((lambda _: answer) if isinstance(answer, Play) else answer) as peer:
            async with self._open_transport(peer) as transport:
                yield transport, peer

    @asynccontextmanager
    async def without_peer(self, *, listens: bool) -> AsyncGenerator[tuple[Transport, Peer]]:
        """Open a new transport to a peer that refuses connections or, with `listens`, accepts them and never reads."""
        with self.unreachable(listens) as peer:
            async with self._open_transport(peer) as transport:
                yield transport, peer

    @asynccontextmanager
    async def _open_transport(self, peer: Peer) -> AsyncGenerator[Transport]:
        transport = self.make_transport(peer)
        try:
            yield transport
        finally:
            await transport.aclose()


def make_request(
    host: str,
    *,
    body: bytes = b"{}",
    idle: float | None = 20.0,
    framing: Framing = "sse",
    is_last: Callable[[Event], bool] = never_last,
) -> Request:
    """Return a POST request with a secret in its headers and in its query."""
    timeouts = Timeouts(connect=20.0, idle=idle)
    return Request("POST", "http", host, PATH, HEADERS, body, timeouts, framing, is_last)


async def read_data(stream: EventStream) -> list[bytes]:
    """Read all events of the stream and return their data."""
    return [event.data async for event in stream]


async def open_stream(transport: Transport, request: Request) -> None:
    """Open a stream and close it without reading."""
    async with transport.stream(request):
        pass


def both_methods(transport: Transport, request: Request) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return two functions that send the request, with `send()` and with `stream()`, by method name."""
    return {"send()": lambda: transport.send(request), "stream()": lambda: open_stream(transport, request)}


@contextmanager
def expect_error(*kinds: str, when: str) -> Generator[list[TransportError]]:
    """Require that the block raises a `TransportError` of one of `kinds`. Yield a list that receives the error."""
    met: list[TransportError] = []
    try:
        yield met
    except TransportError as error:
        if error.kind not in kinds:
            fail(
                f"{when} raised a TransportError of kind {error.kind!r} "
                f"({error}) instead of {' or '.join(map(repr, kinds))}"
            )
        met.append(error)
    except Exception as error:
        msg = f"{when} raised {type(error).__name__} instead of TransportError: {error}"
        raise NonconformingError(msg) from error
    else:
        fail(f"{when} raised no TransportError of kind {' or '.join(map(repr, kinds))}")


Run: TypeAlias = Callable[[TransportSubject], Awaitable[None]]


@final
@dataclass(frozen=True, slots=True)
class TransportScenario:
    """A check for one rule that transports follow. Run it with `await scenario(subject)`, without a test framework.

    Attributes:
        name: name of the scenario function.
        promise: the requirement, in one sentence.
        clauses: names in `CLAUSES` of the contract clauses that the scenario covers.
        needs: capabilities that a transport must declare for the scenario to run.
    """

    name: str
    promise: str
    clauses: tuple[str, ...]
    needs: frozenset[str]
    run: Run = field(repr=False)

    def is_claimed(self, capabilities: TransportCapabilities) -> bool:
        """Return whether the declared capabilities include all those that the scenario needs."""
        return self.needs <= capabilities.claimed

    async def __call__(self, subject: TransportSubject) -> None:
        """Check whether a transport meets the requirement.

        Raises:
            NonconformingError: the transport violates the requirement. The message describes the violation.
        """
        __tracebackhide__ = True
        try:
            with anyio.move_on_after(subject.patience) as scope:
                await self.run(subject)
        except Exception as group:  # noqa: BLE001 - any error is a violation
            error = _first_error(group)
            if isinstance(error, NonconformingError):
                msg = f"{self.name}: {error}"
                raise NonconformingError(msg) from error.__cause__
            msg = (
                f"{self.name}: the requirement is “{self.promise}”; the scenario raised {type(error).__name__}: {error}"
            )
            raise NonconformingError(msg) from error
        if scope.cancelled_caught:
            fail(
                f"{self.name}: the requirement is “{self.promise}”; the scenario "
                f"did not end within {subject.patience} seconds"
            )


def _first_error(error: Exception) -> Exception:
    """Return the first exception in a nested exception group that is not a group, or `error` itself."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


def scenario(*clauses: str, needs: tuple[str, ...] = ()) -> Callable[[Run], TransportScenario]:
    """Return a decorator that turns a function into a scenario, with the function's docstring as the requirement."""
    if unknown := (set(clauses) - set(CLAUSES)) | (set(needs) - set(CLAIMS)):
        msg = f"unknown clauses or capabilities: {', '.join(sorted(unknown))}; CLAUSES and CLAIMS list the known names"
        raise UsageError(msg)

    def make(run: Run) -> TransportScenario:
        name: str = getattr(run, "__name__", "")
        promise = " ".join((run.__doc__ or "").split()).rstrip(".")
        return TransportScenario(name, promise, clauses, frozenset(needs), run)

    return make
