"""One request under way: a job of the model's thread, and the event loop that listens to it.

There is no task here and no cancel scope that stays open, so that a stream may be left in any task and in any way. The
thread never waits for the loop: one that was stopped, or is gone, holds up neither the model nor those who ask it next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, cast, final

import anyio
from anyio import CancelScope
from anyio.lowlevel import current_token
from chat_core.errors import TransportError

from chat_llamacpp.worker import Worker

Chunk: TypeAlias = dict[str, Any]
Take: TypeAlias = Callable[[Chunk], bool]
"""Takes a chunk of an answer. Whether to stop is what it returns."""
Stopped: TypeAlias = Callable[[], bool]
"""Whether to stop, for whoever has no chunk yet."""
Work: TypeAlias = Callable[[Take, Stopped], None]


@final
class Decoding:
    """The chunks of an answer, as an iterator of batches. `aclose()` stops the decoding and waits until it has."""

    __slots__ = (
        "_begun",
        "_chunks",
        "_ended",
        "_failure",
        "_idle",
        "_ready",
        "_soon",
        "_stopped",
        "_work",
        "_worker",
    )

    def __init__(self, worker: Worker, work: Work, *, idle: float | None = None) -> None:
        """Have `work` done when its turn has come. `idle` is the longest silence in seconds, from then on."""
        self._worker = worker
        self._work = work
        self._idle = idle
        self._chunks: deque[Chunk] = deque()
        self._begun = False
        self._ended = False
        self._failure: BaseException | None = None
        self._stopped = False
        self._ready = anyio.Event()
        self._soon = _soon()
        worker.submit(self)

    def __aiter__(self) -> Decoding:
        return self

    async def __anext__(self) -> list[Chunk]:
        while True:
            ended = self._ended  # before the chunks: none comes behind the end
            if self._chunks:
                return [self._chunks.popleft() for _ in range(len(self._chunks))]
            if ended:
                if self._failure is not None:
                    raise self._failure
                raise StopAsyncIteration
            await self._news()

    async def aclose(self) -> None:
        """Stop, and wait: for the end of the token at hand, or of the piece of the prompt that is being read."""
        self.stop()
        self._chunks.clear()
        if self._worker.withdraw(self):
            self._ended = True
        with CancelScope(shield=True):
            while not self._ended:
                await self._ready.wait()
                self._ready = anyio.Event()

    async def _news(self) -> None:
        begun = self._begun
        with anyio.move_on_after(self._idle if begun else None) as scope:
            await self._ready.wait()
            self._ready = anyio.Event()
        if scope.cancelled_caught:
            msg = f"the model said nothing for {self._idle} s"
            raise TransportError("timeout", msg)

    def _wake(self) -> None:
        self._ready.set()

    # --- In the thread --------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Decode."""
        self._begun = True
        self._tell()
        try:
            self._work(self._take, lambda: self._stopped)
        except BaseException as error:  # noqa: BLE001 - raised where the chunks are read
            self._failure = error
        self._ended = True
        self._tell()

    def stop(self) -> None:
        """Decode no further."""
        self._stopped = True

    def _take(self, chunk: Chunk) -> bool:
        if not self._stopped:
            self._chunks.append(chunk)
            self._tell()
        return self._stopped

    def _tell(self) -> None:
        try:
            self._soon(self._wake)
        except RuntimeError:  # both kinds of loop say so when they are over
            self._stopped = True


class _AsyncioLoop(Protocol):
    def call_soon_threadsafe(self, callback: Callable[[], object], /) -> object: ...


class _TrioToken(Protocol):
    def run_sync_soon(self, callback: Callable[[], object], /) -> object: ...


def _soon() -> Callable[[Callable[[], object]], object]:
    """Has something called in this event loop, from any thread, without waiting for it."""
    token: object = current_token()
    native = getattr(token, "native_token", token)  # before anyio 4.11 the one was the other
    if hasattr(native, "run_sync_soon"):
        return cast("_TrioToken", native).run_sync_soon
    return cast("_AsyncioLoop", native).call_soon_threadsafe
