"""Durable writes of a run. A run on plain `Messages` writes nothing."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import final

from anyio.lowlevel import EventLoopToken, current_token

from chat_core.concurrency import finish
from chat_core.conversation import Conversation
from chat_core.messages import Messages, Role, Tool, Turn

_LOG = logging.getLogger("chat_core")


@final
class Checkpoint:
    """The messages of a run, and the conversation that stores their changes, if any.

    A write that has started is completed even if the run is cancelled during the write.

    Attributes:
        refused_calls: IDs of calls that did not start because they, or calls inside them, were decided elsewhere.
    """

    __slots__ = ("_loop_and_thread", "conversation", "messages", "refused_calls")

    def __init__(self, target: Messages | Conversation) -> None:
        self.refused_calls: set[str] = set()
        self._loop_and_thread: tuple[EventLoopToken, int] | None = None
        if isinstance(target, Messages):
            self.conversation: Conversation | None = None
            self.messages = target
        else:
            self.conversation = target
            self.messages = target.messages

    @property
    def loop_and_thread(self) -> tuple[EventLoopToken, int]:
        """The event loop and the thread of the run. First access must be in that thread; later ones may be in any."""
        if self._loop_and_thread is None:
            self._loop_and_thread = current_token(), threading.get_ident()
        return self._loop_and_thread

    @property
    def id(self) -> str | None:
        """ID of the conversation, or `None` for plain messages."""
        return None if self.conversation is None else self.conversation.id

    async def claim(self) -> None:
        """Acquire the lease and update `messages` to the stored state."""
        if self.conversation is None:
            return
        try:
            await self.conversation.claim()
        except BaseException as error:
            if not isinstance(error, Exception):
                # The lease may have been taken before the cancellation.
                await self.release()
            raise

    async def write_tool(self, tool: Tool) -> None:
        """Store the state of a tool call of the outermost conversation."""
        if self.conversation is not None:
            await finish(partial(self.conversation.write_tool, (tool.id,), tool))

    async def append_turn(self, role: Role, turn: Turn) -> None:
        """Append `turn` to `messages` as a turn of `role`, and store it."""
        self.messages.append(role, turn)
        if self.conversation is not None:
            await finish(partial(self.conversation.write_turn, (), role, turn))

    async def release(self) -> None:
        """Release the lease. A failure is logged and not raised, because the lease expires on its own."""
        if self.conversation is None:
            return
        try:
            await finish(self.conversation.release)
        except Exception:  # noqa: BLE001 - a store may raise anything
            _LOG.warning("failed to release the lease of conversation %r", self.conversation.id, exc_info=True)
