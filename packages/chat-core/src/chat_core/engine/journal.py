"""The durable side of a run. Where the run is on plain messages, nothing is written."""

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
class Journal:
    """What a run writes, and when. A write that has begun is finished even if the run is cancelled meanwhile.

    Attributes:
        refused: calls that could not be begun once, since somebody had decided them, or a call in them.
    """

    __slots__ = ("_home", "conversation", "messages", "refused")

    def __init__(self, target: Messages | Conversation) -> None:
        self.refused: set[str] = set()
        self._home: tuple[EventLoopToken, int] | None = None
        if isinstance(target, Messages):
            self.conversation: Conversation | None = None
            self.messages = target
        else:
            self.conversation = target
            self.messages = target.messages

    @property
    def home(self) -> tuple[EventLoopToken, int]:
        """The event loop and the thread of the run. To be asked there first; then it is known anywhere."""
        if self._home is None:
            self._home = current_token(), threading.get_ident()
        return self._home

    @property
    def id(self) -> str | None:
        """The conversation's id, where it has one."""
        return None if self.conversation is None else self.conversation.id

    async def claim(self) -> None:
        """Take the lease; afterwards the messages are the truth."""
        if self.conversation is None:
            return
        try:
            await self.conversation.claim()
        except BaseException as error:
            if not isinstance(error, Exception):
                # Cancelled: it may have been taken all the same.
                await self.release()
            raise

    async def tool(self, tool: Tool) -> None:
        """Make a tool's state durable."""
        if self.conversation is not None:
            await finish(partial(self.conversation.write_tool, tool))

    async def turn(self, role: Role, turn: Turn) -> None:
        """Append a turn, durably."""
        self.messages.append(role, turn)
        if self.conversation is not None:
            await finish(partial(self.conversation.write_turn, role, turn))

    async def release(self) -> None:
        """Give the lease back. Where that fails, the run has not: the lease runs out."""
        if self.conversation is None:
            return
        try:
            await finish(self.conversation.release)
        except Exception:  # noqa: BLE001 - a store may raise anything
            _LOG.warning("the lease of conversation %r was not given back", self.conversation.id, exc_info=True)
