"""The chat, the conversation and the limits of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Never, final

from chat_core import Chat, ChatOptions, Conversation, Messages, Paused
from typing_extensions import TypeVar

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)


@final
@dataclass(frozen=True, slots=True)
class SessionTarget(Generic[PauseT_co]):
    """The chat and the conversation of a session. The attributes match arguments of `connect()`."""

    chat: Chat[Any, PauseT_co]
    conversation: Messages | Conversation
    options: ChatOptions | None = None
    inject: Mapping[Any, object] | None = None
    owner: str | None = None

    @property
    def messages(self) -> Messages:
        """The messages of the conversation."""
        return self.conversation if isinstance(self.conversation, Messages) else self.conversation.messages

    async def resolve_calls(self) -> PauseT_co | None:
        """Run the unresolved calls under the policy of the chat. Return the pause, or `None` if no call waits."""
        return await self.chat.resolve_calls(self.conversation, inject=self.inject, owner=self.owner)


@final
@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The limits of a session. The attributes match arguments of `connect()`."""

    transcript_seconds: float
    max_buffered_bytes: int
    max_waiting_turns: int
    max_reconnects: int
