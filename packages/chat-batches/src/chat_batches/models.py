"""Providers through which the engine prepares the requests of a batch and receives the answers.

To prepare a request, the engine runs the conversation with a `CapturingModel`, which encodes the request and ends the
run. To continue the conversation, the engine runs it with an `AnsweringModel`, which returns the turn from the batch.
Therefore, the engine treats a request of a batch like any other request. Instructions, tools, the context policy and
middlewares apply, and the turn is checked.
"""

from __future__ import annotations

from typing import Final, final

from chat_core.batches import BatchProvider, BatchRequest
from chat_core.errors import ChatError, UsageError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import OutputSchema, ProviderMeta, ToolDeclarations

from chat_batches.handle import BatchMember

ENGINE: Final = "engine"
"""Value of `Turn.by` for turns that the engine has written."""


@final
class NewMessageError(ChatError):
    """A user has added a message since the conversation was submitted, so the answer of the batch no longer fits."""


@final
class CapturedRequestError(UsageError):
    """Internal error that ends a run at its first request to the model. Nothing was sent.

    Attributes:
        request: the encoded request.
        inputs: number of user turns in the conversation.
        responses: number of model turns after the last user turn.
    """

    def __init__(self, request: BatchRequest, inputs: int, responses: int) -> None:
        super().__init__("the request was kept for a batch")
        self.request = request
        self.inputs = inputs
        self.responses = responses


@final
class CapturingModel:
    """Provider that ends a run with `CapturedRequestError` instead of sending a request.

    Args:
        model: the provider of the chat.
    """

    __slots__ = ("_model",)

    def __init__(self, model: BatchProvider) -> None:
        self._model = model

    @property
    def metadata(self) -> ProviderMeta:
        """The metadata of the provider of the chat."""
        return self._model.metadata

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Implement `CompletionProvider.complete`: encode the request and raise `CapturedRequestError`.

        Raises:
            CapturedRequestError: the request was encoded.
            UsageError: the request cannot be encoded.
        """
        request = self._model.encode_batch_request(messages, tools, options, structured_output)
        raise CapturedRequestError(request, count_inputs(messages), count_responses(messages))


@final
class AnsweringModel:
    """Provider that answers the first request of a run with a turn from a batch, and sends all later requests.

    Args:
        model: the provider of the chat.
        turn: the turn from the batch.
        member: state of the conversation when it was submitted.
    """

    __slots__ = ("_member", "_model", "_turn")

    def __init__(self, model: BatchProvider, turn: Turn, member: BatchMember) -> None:
        self._model = model
        self._turn: Turn | None = turn
        self._member = member

    @property
    def metadata(self) -> ProviderMeta:
        """The metadata of the provider of the chat."""
        return self._model.metadata

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Implement `CompletionProvider.complete`.

        Raises:
            NewMessageError: a user has added a message since the conversation was submitted.
            UsageError: the conversation already ends with the answer.
            ChatError: a later request of the run failed.
        """
        turn, self._turn = self._turn, None
        if turn is None:
            return await self._model.complete(messages, tools, options, structured_output)
        if count_inputs(messages) != self._member.inputs:
            msg = "the conversation has a new message, so the answer of the batch no longer fits: run the chat again"
            raise NewMessageError(msg)
        if count_responses(messages) <= self._member.responses:
            return turn
        if ends_with_answer(messages):
            msg = "the conversation contains the answer of the batch already"
            raise UsageError(msg)
        return await self._model.complete(messages, tools, options, structured_output)


def count_inputs(messages: Messages) -> int:
    """Return the number of user turns in a conversation."""
    return sum([role == "user" and turn.by != ENGINE for role, turn in messages.turns])


def count_responses(messages: Messages) -> int:
    """Return the number of turns of the model after the last turn of a user."""
    count = 0
    for role, turn in messages.turns:
        if role == "model":
            count += 1
        elif turn.by != ENGINE:
            count = 0
    return count


def ends_with_answer(messages: Messages) -> bool:
    """Return whether a conversation ends with a turn of the model without tool calls."""
    role, turn = messages.last_turn or ("user", Turn([]))
    return role == "model" and not turn.tools
