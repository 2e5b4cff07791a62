"""The protocol of a strategy, and the request that it receives."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from chat_core import (
    Attempt,
    ChatOptions,
    Messages,
    OutputSchema,
    Text,
    ToolDeclarations,
)

from chat_router.candidate import Candidate


@final
@dataclass(frozen=True, slots=True)
class RouteRequest:
    """A request for which a strategy orders the models.

    Attributes:
        candidates: the models that can serve the request, in the order of the router. Models that lack an ability that
            the request needs are not among them.
        messages: conversation to send; empty for embeddings.
        tools: tools that the model may call.
        options: options of the request.
        structured_output: schema of the structured output, or `None` for text.
        attempt: number of the attempt, and the errors of earlier attempts.
        texts: texts to embed; empty for a conversation.
    """

    candidates: Sequence[Candidate]
    messages: Messages
    tools: ToolDeclarations
    options: ChatOptions
    structured_output: OutputSchema | None = None
    attempt: Attempt = Attempt()  # noqa: RUF009 - immutable
    texts: Sequence[str] = ()

    @property
    def question(self) -> str:
        """The text of the last user message, or the texts to embed."""
        if self.texts:
            return "\n".join(self.texts)
        for role, turn in reversed(self.messages.view().turns):
            if role == "user" and turn.by is None:
                return "\n".join([part.text for part in turn.parts if isinstance(part, Text)])
        return ""


class Strategy(Protocol):
    """Protocol for a function that orders the models of a router for a request."""

    def __call__(self, request: RouteRequest, /) -> Sequence[Candidate] | Awaitable[Sequence[Candidate]]:
        """Return the models to try, in order of preference. Models that are not returned are not used.

        An exception propagates to the caller of the chat, and nothing is sent.

        Args:
            request: the request with its candidates.
        """
        ...
