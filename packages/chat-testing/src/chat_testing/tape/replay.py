"""A transport without a network: it says what was said once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from anyio.lowlevel import checkpoint
from chat_core.errors import UsageError
from chat_core.transport import Event, EventStream, Request, Response

from chat_testing.tape import _differences, _file
from chat_testing.tape._entry import Entry, TapedRequest
from chat_testing.tape.redaction import Secrets

if TYPE_CHECKING:
    from chat_core.transport import Transport

Match: TypeAlias = Literal["strict", "lenient", "order"]
"""How a request finds its recorded answer.

`strict`: it is the next one on the tape, by method, URL, body (as JSON, whatever its spaces and the order of its keys)
and the headers that were chosen. `lenient`: it is the first that was not played, has the same method and path, and
whose body says nothing that this one does not say; other members may have come. `order`: it is the next one on the
tape, whatever was asked.
"""

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
_MATCHES: Final = ("strict", "lenient", "order")


@final
class TapeTransport:
    """Replays a tape that `RecordingTransport` wrote, without a network, on asyncio and trio.

    Each exchange is played once. The events of a stream come in the batches in which they were recorded; refusals and
    errors of the transport are raised again. Of the answer's headers there are those whose values were written.

    Args:
        path: the file.
        match: how a request finds its recorded answer; see `Match`.
        headers: headers that must be alike as well, where the match is strict.
        secrets: what was removed when it was recorded, so that a request is compared without its secrets.
        sleep: waits as long as it took when it was recorded: `anyio.sleep`. By default nothing is waited for.

    Raises:
        UsageError: there is no tape at this path.
        InvalidDocumentError: it is no tape; `NewerVersionError`, it was written by a later version of this library.
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
            msg = f"there is no tape at {self._path}: record it, with RecordingTransport(inner, path)"
            raise UsageError(msg) from None
        # The places on the tape that nobody has asked for, in their order.
        self._left = list(range(len(self._entries)))
        self._count = 0
        self._match = match
        self._headers = headers
        self._secrets = secrets or Secrets()
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"TapeTransport({str(self._path)!r})"

    @property
    def unplayed(self) -> list[str]:
        """The exchanges that nobody has asked for yet, in a few words each."""
        questions = [self._entries[place].request for place in self._left]
        return [f"{question.method} {question.url}" for question in questions]

    async def send(self, request: Request, /) -> Response:
        """Give the answer that was recorded.

        Raises:
            TransportError: as recorded.
            UsageError: no exchange on the tape fits; the message says which is nearest, and where it differs.
        """
        entry = await self._take_entry(request, streamed=False)
        if (error := entry.transport_error()) is not None:
            raise error
        return Response(entry.status or 0, entry.visible_headers(), entry.body)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Give the stream that was recorded.

        Raises:
            TransportError: as recorded, on entering or while iterating.
            UsageError: no exchange on the tape fits; or, while iterating, the reader wants more than was recorded.
        """
        entry = await self._take_entry(request, streamed=True)
        error = entry.transport_error()
        if error is not None and (entry.status is None or error.kind == "status"):
            raise error
        yield EventStream(entry.status or 0, entry.visible_headers(), _RecordedBatches(entry, self._sleep))

    async def aclose(self) -> None:
        """Look whether the whole tape was played.

        Raises:
            UsageError: it was not; the message names the exchanges. Only the first call raises.
        """
        unplayed, self._left = self.unplayed, []
        if unplayed:
            what = "\n".join([f"    {text}" for text in unplayed])
            msg = f"{self._path}: nobody asked for {len(unplayed)} recorded exchange(s):\n{what}"
            raise UsageError(msg)

    async def _take_entry(self, request: Request, *, streamed: bool) -> Entry:
        await checkpoint()
        self._count += 1
        came = TapedRequest.redacted(request, self._secrets.redactor(request), streamed=streamed)
        place = next((place for place in self._candidates() if not self._differences(place, came)), None)
        if place is None:
            raise UsageError(self._describe_mismatch(came))
        self._left.remove(place)
        entry = self._entries[place]
        if self._sleep is not None and not entry.batches:
            await self._sleep(entry.after or entry.failed)
        return entry

    def _candidates(self) -> list[int]:
        """The places on the tape that may be played now."""
        return self._left if self._match == "lenient" else self._left[:1]

    def _differences(self, place: int, came: TapedRequest) -> list[str]:
        recorded = self._entries[place].request
        if self._match == "strict":
            return _differences.list_differences(recorded, came, self._headers)
        if self._match == "lenient":
            return _differences.list_missing(recorded, came)
        return _differences.list_streaming_difference(recorded, came)

    def _describe_mismatch(self, came: TapedRequest) -> str:
        """What came, which exchange is nearest, and where it differs."""
        asked = f"{'stream()' if came.streamed else 'send()'} of {came.method} {came.url}"
        head = f"{self._path}: request {self._count} is not on the tape: {asked}"
        count = len(self._entries)
        if not count:
            return f"{head}\n  the tape is empty"
        found = [self._differences(place, came) for place in range(count)]
        # Of two that are as near, the one that may be played.
        place = min(range(count), key=lambda at: (len(found[at]), at not in self._left, at))
        name = f"exchange {place + 1} of {count}"
        if found[place]:
            played = "" if place in self._left else " (it was played before)"
            return (
                f"{head}\n  nearest is {name}{played}; it differs in\n{_differences.format_differences(found[place])}"
            )
        if place not in self._left:
            return f"{head}\n  {name} is the same, and was played before: each is played once"
        turn = f"exchange {self._left[0] + 1}"
        return f"{head}\n  {name} is the same, and it is the turn of {turn}: keep the order, or use match='lenient'"


@final
class _RecordedBatches:
    """The batches of a stream, as recorded. An object, not a generator: left early, it leaves nothing to be closed."""

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
            msg = f"the stream was {entry.ended} here when it was recorded, so nobody knows what comes: record it anew"
            raise UsageError(msg)
        raise StopAsyncIteration

    async def _wait_until(self, at: float) -> None:
        """Wait until so many seconds have passed, if that is wanted."""
        if self._sleep is not None and at > self._at:
            await self._sleep(at - self._at)
        self._at = max(at, self._at)


if TYPE_CHECKING:
    _is_a_transport: Transport = TapeTransport("")
