"""The durable writes of a run. A run on plain messages writes nothing."""

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
    """The messages of a run, and the conversation in which their changes become durable, if there is one.

    A write that has begun is finished even if the run is cancelled meanwhile.

    Attributes:
        refused_calls: ids of the calls that were not started once, because they, or calls in them, were decided
            elsewhere.
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
        """The event loop and the thread of the run. Read first in that thread; later reads may be in any."""
        if self._loop_and_thread is None:
            self._loop_and_thread = current_token(), threading.get_ident()
        return self._loop_and_thread

    @property
    def id(self) -> str | None:
        """The id of the conversation, or None for plain messages."""
        return None if self.conversation is None else self.conversation.id

    async def claim(self) -> None:
        """Take the lease. Afterwards `messages` is up to date."""
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
        """Make the state of an outermost tool durable."""
        if self.conversation is not None:
            await finish(partial(self.conversation.write_tool, (tool.id,), tool))

    async def append_turn(self, role: Role, turn: Turn) -> None:
        """Append a turn to `messages` and make it durable."""
        self.messages.append(role, turn)
        if self.conversation is not None:
            await finish(partial(self.conversation.write_turn, (), role, turn))

    async def release(self) -> None:
        """Release the lease. Log a failure instead of raising it: the lease expires by itself."""
        if self.conversation is None:
            return
        try:
            await finish(self.conversation.release)
        except Exception:  # noqa: BLE001 - a store may raise anything
            _LOG.warning("the lease of conversation %r was not given back", self.conversation.id, exc_info=True)
