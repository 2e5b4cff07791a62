"""A scenario: one promise of a transport, and how it is looked at; and the transport on the bench."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast, final

import anyio
from chat_core.errors import TransportError, UsageError
from chat_core.transport import MAX_EVENT_BYTES, Event, EventStream, Framing, Request, Timeouts, Transport, never_last

from chat_testing.errors import NonconformingError, fail
from chat_testing.transport_conformance._capabilities import CLAIMS, TransportCapabilities
from chat_testing.transport_conformance._contract import CLAUSES
from chat_testing.transport_conformance._peer import Answering, Delimited, Peer, Play

PassedIn: TypeAlias = AbstractAsyncContextManager[tuple[Transport, Callable[[], bool]]]

SECRET: Final = "sk-must-not-be-told"  # noqa: S105  # it is looked for where it must not be
PATH: Final = f"/v1/answers?key={SECRET}&text=a%20b%C3%A9"
HEADERS: Final = (("authorization", f"Bearer {SECRET}"), ("x-kind", "a"), ("X-Kind", "b"))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSubject:
    """A transport under test: how it is made, what it claims, and where it runs.

    Attributes:
        make_transport: makes one that reaches a peer.
        capabilities: what it claims.
        backend: the event loop on which it runs.
        serve: starts a peer, which answers as it is told.
        unreachable: a peer that is not there, or one that never reads.
        passed_in: a transport over something that it does not own, with a function that tells whether that is open.
        max_event_bytes: the longest event that it accepts.
        patience: how many seconds a scenario may take.
    """

    make_transport: Callable[[Peer], Transport]
    capabilities: TransportCapabilities
    backend: str
    serve: Callable[[Answering], AbstractContextManager[Peer]]
    unreachable: Callable[[bool], AbstractContextManager[Peer]]
    passed_in: Callable[[Peer], PassedIn]
    max_event_bytes: int = MAX_EVENT_BYTES
    patience: float = 30.0

    @property
    def delimited(self) -> Delimited:
        """How the end of a body is told to this transport."""
        return "chunked" if self.capabilities.chunked else "close"

    def play(self, *steps: bytes, status: int = 200, headers: tuple[tuple[str, str], ...] | None = None) -> Play:
        """A whole answer of these chunks."""
        play = Play(status=status, steps=steps, delimited=self.delimited)
        return play if headers is None else Play(status=status, headers=headers, steps=steps, delimited=self.delimited)

    @asynccontextmanager
    async def with_peer(self, answer: Answering | Play) -> AsyncGenerator[tuple[Transport, Peer]]:
        """A new transport, and the peer to which it speaks."""
        with self.serve((lambda _: answer) if isinstance(answer, Play) else answer) as peer:
            async with self._open_transport(peer) as transport:
                yield transport, peer

    @asynccontextmanager
    async def without_peer(self, *, listens: bool) -> AsyncGenerator[tuple[Transport, Peer]]:
        """A new transport, and a peer that is not there; or one that `listens` and never reads."""
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
    path: str = PATH,
    body: bytes = b"{}",
    idle: float | None = 20.0,
    framing: Framing = "sse",
    is_last: Callable[[Event], bool] = never_last,
) -> Request:
    """A request with secrets in its headers and its query."""
    timeouts = Timeouts(connect=20.0, idle=idle)
    return Request("POST", "http", host, path, HEADERS, body, timeouts, framing, is_last)


async def read_data(stream: EventStream) -> list[bytes]:
    """The data of every event, one by one."""
    return [event.data async for event in stream]


async def open_stream(transport: Transport, request: Request) -> None:
    """Enter a stream, and leave it."""
    async with transport.stream(request):
        pass


def both_methods(transport: Transport, request: Request) -> dict[str, Callable[[], Awaitable[object]]]:
    """Both ways of asking, by name."""
    return {"send()": lambda: transport.send(request), "stream()": lambda: open_stream(transport, request)}


@contextmanager
def expect_error(*kinds: str, when: str) -> Generator[list[TransportError]]:
    """Expect a `TransportError` of one of these kinds, and give it out."""
    met: list[TransportError] = []
    try:
        yield met
    except TransportError as error:
        if error.kind not in kinds:
            fail(f"{when} is of the kind {error.kind!r} ({error}), and not {' or '.join(map(repr, kinds))}")
        met.append(error)
    except Exception as error:
        msg = f"{when} became {type(error).__name__} and not TransportError: {error}"
        raise NonconformingError(msg) from error
    else:
        fail(f"{when} was not told: no TransportError of the kind {' or '.join(map(repr, kinds))}")


Run: TypeAlias = Callable[[TransportSubject], Awaitable[None]]


@final
@dataclass(frozen=True, slots=True)
class TransportScenario:
    """One promise of a transport. `await scenario(subject)` looks whether it is kept; no test framework is needed.

    Attributes:
        name: short.
        promise: what a right transport does, in a sentence.
        clauses: the clauses of the contract that it is about, by their names in `CLAUSES`.
        needs: the claims without which it is not looked at.
    """

    name: str
    promise: str
    clauses: tuple[str, ...]
    needs: frozenset[str]
    run: Run = field(repr=False)

    def is_claimed(self, capabilities: TransportCapabilities) -> bool:
        """Whether a transport with these capabilities claims to keep the promise."""
        return self.needs <= capabilities.claimed

    async def __call__(self, subject: TransportSubject) -> None:
        """Look whether the promise is kept.

        Raises:
            NonconformingError: it is not; the message says in a sentence what is wrong.
        """
        __tracebackhide__ = True
        try:
            with anyio.move_on_after(subject.patience) as scope:
                await self.run(subject)
        except Exception as group:  # noqa: BLE001 - whatever it is, the promise is not kept
            error = _first_error(group)
            if isinstance(error, NonconformingError):
                msg = f"{self.name}: {error}"
                raise NonconformingError(msg) from error.__cause__
            msg = f"{self.name}: the promise is “{self.promise}”; there came {type(error).__name__}: {error}"
            raise NonconformingError(msg) from error
        if scope.cancelled_caught:
            fail(f"{self.name}: the promise is “{self.promise}”; after {subject.patience} seconds it still waited")


def _first_error(error: Exception) -> Exception:
    """What went wrong first, where a group of tasks met it."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


def scenario(*clauses: str, needs: tuple[str, ...] = ()) -> Callable[[Run], TransportScenario]:
    """Make a scenario of a function: its name, and its docstring as the promise."""
    if unknown := (set(clauses) - set(CLAUSES)) | (set(needs) - set(CLAIMS)):
        msg = f"there is no clause and no claim {', '.join(sorted(unknown))}"
        raise UsageError(msg)

    def make(run: Run) -> TransportScenario:
        name: str = getattr(run, "__name__", "")
        promise = " ".join((run.__doc__ or "").split()).rstrip(".")
        return TransportScenario(name, promise, clauses, frozenset(needs), run)

    return make
