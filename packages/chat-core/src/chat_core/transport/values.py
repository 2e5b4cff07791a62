"""What travels: requests, responses, events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

Framing: TypeAlias = Literal["sse", "json-lines", "json-array"]
"""How a body is cut into events."""

Scheme: TypeAlias = Literal["http", "https"]


@final
@dataclass(slots=True)
class Event:
    """One event: its type (`message` where none was said), its data as bytes, and the last id that the stream set."""

    type: str
    data: bytes
    id: str = ""


@final
class Headers(Mapping[str, str]):
    """Header fields by name, whatever the case. Repeated fields are joined by a comma (RFC 9110, section 5.3)."""

    __slots__ = ("_fields",)

    def __init__(self, items: Sequence[tuple[str, str]] | Mapping[str, str] = ()) -> None:
        self._fields: dict[str, str] = {}
        for name, value in items.items() if isinstance(items, Mapping) else items:
            key = name.lower()
            self._fields[key] = f"{self._fields[key]}, {value}" if key in self._fields else value

    def __getitem__(self, name: str, /) -> str:
        return self._fields[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"Headers({redact(self._fields)!r})"


_OPEN_HEADERS = frozenset(
    {"accept", "accept-encoding", "content-type", "content-length", "user-agent", "retry-after", "date", "server"}
)


def redact(fields: Mapping[str, str]) -> dict[str, str]:
    """Header fields fit for a log: the values of those that are not known to be harmless are hidden."""
    return {name: value if name.lower() in _OPEN_HEADERS else "…" for name, value in fields.items()}


@final
@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds; `None` waits for ever. `idle` is the longest silence, before the first byte and between any two."""

    connect: float | None = 10.0
    idle: float | None = 300.0


def never_last(_event: Event, /) -> bool:
    """For protocols whose end is the end of the body."""
    return False


@final
@dataclass(frozen=True, slots=True)
class Request:
    """What a provider asks a transport to deliver.

    Attributes:
        scheme, host, path: the parts of the URL. `host` has the port where it is not the scheme's own; `path` begins
            with a slash and has the query. A transport may choose its own scheme (`wss` for `https`).
        headers: in order, without those that belong to the connection. They may hold secrets: `repr` hides the values.
        framing: how the body of a stream is cut into events.
        is_last: whether an event ends the answer, for transports whose connection outlives it.
    """

    method: str
    scheme: Scheme
    host: str
    path: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)
    timeouts: Timeouts = Timeouts()
    framing: Framing = "sse"
    is_last: Callable[[Event], bool] = field(default=never_last, repr=False)

    @property
    def url(self) -> str:
        """The whole URL."""
        return f"{self.scheme}://{self.host}{self.path}"


@final
@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer, whatever its status."""

    status: int
    headers: Headers
    body: bytes = field(repr=False)


@final
class EventStream:
    """An answer that arrives: status, headers, and events by batch (all that one read brought) or one by one.

    The iteration raises `TransportError` when the connection breaks. It ends when the body does, cleanly; whether the
    answer was complete then is for the provider to say.
    """

    __slots__ = ("_batches", "headers", "status")

    def __init__(self, status: int, headers: Headers, batches: AsyncIterator[Sequence[Event]]) -> None:
        self.status = status
        self.headers = headers
        self._batches = batches

    def batches(self) -> AsyncIterator[Sequence[Event]]:
        """The events, as they came together."""
        return self._batches

    def __aiter__(self) -> AsyncIterator[Event]:
        return _OneByOne(self._batches)


@final
class _OneByOne:
    """The events of batches. An object, not a generator: left early, it leaves nothing to be closed."""

    __slots__ = ("_batches", "_events")

    def __init__(self, batches: AsyncIterator[Sequence[Event]]) -> None:
        self._batches = batches
        self._events: Iterator[Event] = iter(())

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while True:
            for event in self._events:
                return event
            self._events = iter(await self._batches.__anext__())
