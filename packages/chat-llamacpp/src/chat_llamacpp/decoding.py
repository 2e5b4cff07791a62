"""Asynchronous iterator that delivers response chunks from the model's thread to an event loop.

This module starts no task and keeps no cancel scope open, so a stream may be closed from any task. The thread never
waits for the event loop: a stopped or closed loop delays neither the model nor later requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, final

import anyio
from anyio import CancelScope
from chat_core.concurrency import loop_scheduler
from chat_core.errors import TransportError

from chat_llamacpp.worker import Worker

Chunk: TypeAlias = dict[str, Any]
Take: TypeAlias = Callable[[Chunk], bool]
"""Callback that receives a chunk of the response and returns whether to stop."""
Stopped: TypeAlias = Callable[[], bool]
"""Function that returns whether to stop. It is checked before the first chunk exists."""
Work: TypeAlias = Callable[[Take, Stopped], None]
"""Function that runs in the model's thread: it sends chunks to `Take` and checks `Stopped`."""


@final
class Decoding:
    """Asynchronous iterator over the chunks of one response, in batches.

    Iterate and close it in the event loop that created it. `aclose()` stops the decoding and waits until it has ended.
    """

    __slots__ = (
        "_begun",
        "_call_in_loop",
        "_chunks",
        "_ended",
        "_failure",
        "_idle",
        "_ready",
        "_stopped",
        "_work",
        "_worker",
    )

    def __init__(self, worker: Worker, work: Work, *, idle: float | None = None) -> None:
        """Submit `work` to the thread of `worker`.

        Args:
            worker: thread of the model. It runs jobs in the order of submission.
            work: blocking function that produces the chunks.
            idle: maximum time between two chunks, in seconds, counted from the start of `work`. None: no limit.
        """
        self._worker = worker
        self._work = work
        self._idle = idle
        self._chunks: deque[Chunk] = deque()
        self._begun = False
        self._ended = False
        self._failure: BaseException | None = None
        self._stopped = False
        self._ready = anyio.Event()
        self._call_in_loop = loop_scheduler()
        worker.submit(self)

    def __aiter__(self) -> Decoding:
        return self

    async def __anext__(self) -> list[Chunk]:
        while True:
            ended = self._ended  # read before the chunks: no chunk is added after this field is set
            if self._chunks:
                return [self._chunks.popleft() for _ in range(len(self._chunks))]
            if ended:
                if self._failure is not None:
                    raise self._failure
                raise StopAsyncIteration
            await self._wait_for_worker()

    async def aclose(self) -> None:
        """Stop the decoding and wait until it has ended, even if the calling task is canceled.

        The decoding ends after the current token or, while the prompt is processed, after the current batch of prompt
        tokens.
        """
        self.stop()
        self._chunks.clear()
        if self._worker.withdraw(self):
            self._ended = True
        with CancelScope(shield=True):
            while not self._ended:
                await self._ready.wait()
                self._ready = anyio.Event()

    async def _wait_for_worker(self) -> None:
        """Wait until the worker begins, adds a chunk or ends.

        Raises:
            TransportError: the idle timeout was exceeded.
        """
        begun = self._begun
        with anyio.move_on_after(self._idle if begun else None) as scope:
            await self._ready.wait()
            self._ready = anyio.Event()
        if scope.cancelled_caught:
            msg = f"the model generated nothing for {self._idle} s; use a longer idle timeout or a smaller prompt batch"
            raise TransportError("timeout", msg)

    def _wake_reader(self) -> None:
        self._ready.set()

    # --- Functions that run in the worker thread ------------------------------------------------------------------

    def run(self) -> None:
        """Run the work and record its outcome. The worker's thread calls this method once."""
        self._begun = True
        self._wake_reader_in_loop()
        try:
            self._work(self._add_chunk, lambda: self._stopped)
        except BaseException as error:  # noqa: BLE001 - raised where the chunks are read
            self._failure = error
        self._ended = True
        self._wake_reader_in_loop()

    def stop(self) -> None:
        """Request that the decoding stops, and return at once. May be called from any thread."""
        self._stopped = True

    def _add_chunk(self, chunk: Chunk) -> bool:
        if not self._stopped:
            self._chunks.append(chunk)
            self._wake_reader_in_loop()
        return self._stopped

    def _wake_reader_in_loop(self) -> None:
        try:
            self._call_in_loop(self._wake_reader)
        except RuntimeError:  # asyncio and trio raise this error when the loop is closed
            self._stopped = True
