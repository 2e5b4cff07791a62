"""Recall: a memory adds notes to a conversation before the model answers a user message.

    chat = ChatBuilder().with_model(model).with_memory(memory, scope=lambda context: context.owner).build()

Any object with a method `recall()` can be the memory. The notes are stored with the conversation as a `Recalled` part.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final, runtime_checkable

from chat_core.messages import RecalledNote
from chat_core.run_context import RunContext

ScopeFunction: TypeAlias = Callable[[RunContext], str | None]
"""Function that returns the name of the memory scope of a run, or `None` for a run without memory."""


@runtime_checkable
class RecallSource(Protocol):
    """Protocol of a memory for `ChatBuilder.with_memory()`."""

    def recall(self, scope: str, question: str, /) -> Awaitable[Sequence[RecalledNote]]:
        """Return the notes of a scope that are relevant to a question, most relevant first.

        Args:
            scope: name of the scope. Notes of other scopes must not be returned.
            question: text of the user's message.
        """
        ...


@runtime_checkable
class RecallListener(Protocol):
    """Protocol of a memory that records which notes a model received. A `RecallSource` may also implement it."""

    def received(self, scope: str, notes: Sequence[RecalledNote], /) -> Awaitable[None]:
        """Record that notes were added to a conversation.

        The notes may be fewer than `recall()` returned, because of the limits of the chat, or because the conversation
        contains some of them already.

        Args:
            scope: name of the scope.
            notes: the added notes.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class RecallSettings:
    """The memory of a chat, with limits on the notes that it adds.

    Attributes:
        source: the memory.
        scope: function that returns the scope of a run.
        max_notes: maximum number of notes for each user message.
        max_tokens: maximum size of the notes for each user message, in estimated tokens.
    """

    source: RecallSource
    scope: ScopeFunction
    max_notes: int
    max_tokens: int
