"""The values that a transport sends and returns: requests, responses and events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

from chat_core.arguments import require_text_fields
from chat_core.errors import UsageError

Framing: TypeAlias = Literal["sse", "json-lines", "json-array", "aws-event-stream"]
"""The format that splits a response body into events."""

Scheme: TypeAlias = Literal["http", "https"]


@final
@dataclass(slots=True)
class Event:
    """One event of a response stream.

    Attributes:
        type: the event type; `message` if the stream sets none.
        data: the payload, as UTF-8.
        id: the last event id that the stream has set; empty if it has set none.
    """

    type: str
    data: bytes
    id: str = ""


@final
class Headers(Mapping[str, str]):
    """Header fields by name, case-insensitive. Repeated fields are joined by a comma (RFC 9110, section 5.3)."""

    __slots__ = ("_fields",)

    def __init__(self, items: Sequence[tuple[str, str]] | Mapping[str, str] = ()) -> None:
        self._fields: dict[str, str] = {}
        try:
            # `list` first: the check for `Mapping` is slow.
            for name, value in items if isinstance(items, list) or not isinstance(items, Mapping) else items.items():
                key = name.lower()
                self._fields[key] = f"{self._fields[key]}, {value}" if key in self._fields else value
        except (AttributeError, TypeError, ValueError) as error:  # checks of each item would slow down each request
            msg = f"items must be a mapping of strings or a sequence of pairs of strings, not {type(items).__name__}"
            raise UsageError(msg) from error

    def __getitem__(self, name: str, /) -> str:
        return self._fields[name.lower()]

    def __contains__(self, name: object, /) -> bool:
        return isinstance(name, str) and name.lower() in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"Headers({redact(self._fields)!r})"


_HARMLESS_HEADERS = frozenset(
    {"accept", "accept-encoding", "content-type", "content-length", "user-agent", "retry-after", "date", "server"}
)


def redact(fields: Mapping[str, str]) -> dict[str, str]:
    """Return header fields that are safe to log: only the values of known harmless headers are shown.

    Raises:
        UsageError: `fields` is not a mapping of strings to strings.
    """
    require_text_fields("fields", fields)
    return {name: value if name.lower() in _HARMLESS_HEADERS else "…" for name, value in fields.items()}


@final
@dataclass(frozen=True, slots=True)
class Timeouts:
    """The timeouts of a request.

    Attributes:
        connect: seconds to establish a connection; `None` for no limit.
        idle: seconds without any received data, before the first byte or between two bytes; `None` for no limit.
    """

    connect: float | None = 10.0
    idle: float | None = 300.0


def never_last(_event: Event, /) -> bool:
    """Return False. This is the default of `Request.is_last`, for responses that end with their body."""
    return False


@final
@dataclass(frozen=True, slots=True)
class Request:
    """A request that a provider sends over a transport.

    Attributes:
        method: the HTTP method.
        scheme: the scheme of the URL. A transport may map it to its own, such as `https` to `wss`.
        host: the host, with a port unless it is the default port of the scheme.
        path: the path with the query; it begins with a slash.
        headers: the headers, in order, without those of the connection. They may hold secrets, as may
            the query: `repr` omits both.
        body: the body; `repr` omits it.
        timeouts: the timeouts of the connection and of its data.
        framing: the format that splits a streamed body into events.
        is_last: function that returns whether an event is the last one of its response. Transports that keep the
            connection open between responses need it.
        is_unlimited: whether a streamed body may be longer than the limit of the transport. Each event still has a
            limit.
    """

    method: str
    scheme: Scheme
    host: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    timeouts: Timeouts = Timeouts()
    framing: Framing = "sse"
    is_last: Callable[[Event], bool] = never_last
    is_unlimited: bool = False

    def __repr__(self) -> str:
        # The user in the host and the query may be secrets.
        host, path = self.host.rpartition("@")[2], self.path.partition("?")[0]
        return f"Request({self.method} {self.scheme}://{host}{path})"

    @property
    def url(self) -> str:
        """The full URL."""
        return f"{self.scheme}://{self.host}{self.path}"


@final
@dataclass(frozen=True, slots=True)
class Response:
    """A complete response, with any status."""

    status: int
    headers: Headers
    body: bytes = field(repr=False)


@final
class EventStream:
    """A response in progress: status, headers and an iterator over its events.

    `batches()` yields the events of each read together; iterating the stream yields them one by one. Both consume the
    same events. Iteration raises `TransportError` if the connection breaks. It stops when the body ends; the provider
    decides whether the response is complete.

    Args:
        status: the status code.
        headers: the response headers.
        batches: the events, grouped by read.
    """

    __slots__ = ("_batches", "headers", "status")

    def __init__(self, status: int, headers: Headers, batches: AsyncIterator[Sequence[Event]]) -> None:
        self.status: int = status
        self.headers: Headers = headers
        self._batches = batches

    def batches(self) -> AsyncIterator[Sequence[Event]]:
        """Return the iterator over the events, grouped by the read that completed them."""
        return self._batches

    def __aiter__(self) -> AsyncIterator[Event]:
        return _SingleEvents(self._batches)


@final
class _SingleEvents:
    """Iterator over the single events of batches. Unlike a generator, it does not need to be closed."""

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
