"""Transport that replays recorded exchanges without a network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from anyio.lowlevel import checkpoint
from chat_core.errors import UsageError
from chat_core.transport import Event, EventStream, Request, Response, Transport

from chat_testing.tape import _differences, _file
from chat_testing.tape._entry import Entry, TapedRequest
from chat_testing.tape.redaction import Secrets

Match: TypeAlias = Literal["strict", "lenient", "order"]
"""Rule that selects the recorded response for a request.

`strict`: the next exchange, which must have the same method, URL, body (as parsed JSON) and chosen headers. `lenient`:
the first unplayed exchange with the same method and path whose recorded body values are all in the request. `order`:
the next exchange, regardless of the request.
"""

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
_MATCHES: Final = ("strict", "lenient", "order")


@final
class TapeTransport:
    """Transport that replays a tape written by `RecordingTransport`, without a network, on asyncio and trio.

    Each recorded exchange is played once. A stream delivers the recorded batches of events. Error responses and
    transport errors are raised again. A response only has the headers whose values were recorded.

    Args:
        path: path of the tape.
        match: rule that selects the recorded response; see `Match`.
        headers: headers that must be equal as well if `match` is `strict`.
        secrets: the rules used for recording, so that requests are compared without secrets.
        sleep: function that waits, such as `anyio.sleep`, to replay the recorded timing. Default: no waiting.

    Raises:
        UsageError: the tape does not exist, or `match` is unknown.
        InvalidDocumentError: the file is not a tape.
        NewerVersionError: the tape was written by a later version of this library.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        match: Match = "strict",
        headers: Collection[str] = (),
        secrets: Secrets | None = None,
        sleep: Sleep | None = None,
    ) -> None:
        if match not in _MATCHES:
            msg = f"match must be one of {', '.join(map(repr, _MATCHES))}, not {match!r}"
            raise UsageError(msg)
        self._path = Path(path)
        try:
            self._entries = _file.read(self._path)
        except FileNotFoundError:
            msg = f"no tape at {self._path}: record it with RecordingTransport(inner, path)"
            raise UsageError(msg) from None
        # Indexes of the exchanges that were not requested yet.
        self._remaining = list(range(len(self._entries)))
        self._count = 0
        self._match = match
        self._headers = headers
        self._secrets = secrets or Secrets()
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"TapeTransport({str(self._path)!r})"

    @property
    def unplayed(self) -> list[str]:
        """Method and URL of each exchange that was not requested yet."""
        requests = [self._entries[index].request for index in self._remaining]
        return [f"{request.method} {request.url}" for request in requests]

    async def send(self, request: Request, /) -> Response:
        """Return the recorded response that matches the request.

        Raises:
            TransportError: the recorded error.
            UsageError: no exchange matches. The message shows the nearest exchange and the differences.
        """
        entry = await self._take_entry(request, streamed=False)
        if (error := entry.transport_error()) is not None:
            raise error
        return Response(entry.status or 0, entry.visible_headers(), entry.body)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Yield the recorded stream that matches the request.

        Raises:
            TransportError: the recorded error, raised on entering or while iterating.
            UsageError: no exchange matches, or the reader reads past the end of an incomplete recording.
        """
        entry = await self._take_entry(request, streamed=True)
        error = entry.transport_error()
        if error is not None and (entry.status is None or error.kind == "status"):
            raise error
        yield EventStream(entry.status or 0, entry.visible_headers(), _RecordedBatches(entry, self._sleep))

    async def aclose(self) -> None:
        """Check that every recorded exchange was requested.

        Raises:
            UsageError: exchanges were not requested; the message lists them. Only the first call raises.
        """
        unplayed, self._remaining = self.unplayed, []
        if unplayed:
            names = "\n".join([f"    {text}" for text in unplayed])
            msg = f"{self._path}: {len(unplayed)} recorded exchange(s) were not requested:\n{names}"
            raise UsageError(msg)

    async def _take_entry(self, request: Request, *, streamed: bool) -> Entry:
        """Return the recorded exchange that matches a request, and mark it as played."""
        await checkpoint()
        self._count += 1
        actual = TapedRequest.redacted(request, self._secrets.redactor(request), streamed=streamed)
        index = next((index for index in self._candidate_indexes() if not self._find_differences(index, actual)), None)
        if index is None:
            raise UsageError(self._describe_mismatch(actual))
        self._remaining.remove(index)
        entry = self._entries[index]
        if self._sleep is not None and not entry.batches:
            await self._sleep(entry.after or entry.failed)
        return entry

    def _candidate_indexes(self) -> list[int]:
        """Return the indexes of the recorded exchanges that the next request may match."""
        return self._remaining if self._match == "lenient" else self._remaining[:1]

    def _find_differences(self, index: int, actual: TapedRequest) -> list[str]:
        """Return the differences between a request and a recorded request that the matching rule forbids."""
        recorded = self._entries[index].request
        if self._match == "strict":
            return _differences.list_differences(recorded, actual, self._headers)
        if self._match == "lenient":
            return _differences.list_missing(recorded, actual)
        return _differences.list_streaming_difference(recorded, actual)

    def _describe_mismatch(self, actual: TapedRequest) -> str:
        """Return the error message for a request that matches no recorded exchange."""
        description = f"{'stream()' if actual.streamed else 'send()'} of {actual.method} {actual.url}"
        head = f"{self._path}: request {self._count} is not on the tape: {description}"
        count = len(self._entries)
        if not count:
            return f"{head}\n  the tape is empty"
        differences = [self._find_differences(index, actual) for index in range(count)]
        # Among equally near exchanges, prefer one that was not played.
        index = min(range(count), key=lambda at: (len(differences[at]), at not in self._remaining, at))
        name = f"exchange {index + 1} of {count}"
        if differences[index]:
            played = "" if index in self._remaining else " (it was played before)"
            lines = _differences.format_differences(differences[index])
            return f"{head}\n  nearest is {name}{played}; it differs in\n{lines}"
        if index not in self._remaining:
            return f"{head}\n  {name} matches, but was played before: each exchange is played once"
        turn = f"exchange {self._remaining[0] + 1}"
        return f"{head}\n  {name} matches, but {turn} is next: keep the order, or use match='lenient'"


@final
class _RecordedBatches:
    """Async iterator over recorded batches of events. Unlike a generator, it needs no cleanup when it is left early."""

    __slots__ = ("_at", "_entry", "_place", "_sleep")

    def __init__(self, entry: Entry, sleep: Sleep | None) -> None:
        self._entry = entry
        self._sleep = sleep
        self._place = 0
        self._at = 0.0

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        return self

    async def __anext__(self) -> Sequence[Event]:
        await checkpoint()
        entry = self._entry
        if self._place < len(entry.batches):
            at, batch = entry.batches[self._place]
            self._place += 1
            await self._wait_until(at)
            return batch
        if (error := entry.transport_error()) is not None:
            if entry.batches:
                await self._wait_until(entry.failed)
            raise error
        if entry.ended != "complete":
            msg = (
                f"the stream was {entry.ended} at this position when it was "
                "recorded, so the rest is unknown: record the tape again"
            )
            raise UsageError(msg)
        raise StopAsyncIteration

    async def _wait_until(self, at: float) -> None:
        """Wait until `at`, in seconds since the start of the exchange, unless waiting is disabled."""
        if self._sleep is not None and at > self._at:
            await self._sleep(at - self._at)
        self._at = max(at, self._at)


if TYPE_CHECKING:
    _is_a_transport: Transport = TapeTransport("")
