"""`Batches`, which submits conversations as a batch, reads the results and continues the conversations."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Never, cast, final
from uuid import uuid4

import anyio
from chat_core.arguments import argument_error, require_items, require_number, require_text, require_time, require_type
from chat_core.batches import Batch, BatchProvider, BatchRequest, BatchStatus
from chat_core.chat import Chat
from chat_core.conversation import Conversation
from chat_core.errors import ChatError, RequestTimeoutError, UsageError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.response import ChatResponse, Paused
from typing_extensions import TypeVar

from chat_batches.handle import BatchHandle, BatchMember
from chat_batches.models import AnsweringModel, CapturedRequestError, CapturingModel
from chat_batches.polling import FIRST_DELAY, MAX_FAILURES, next_delay
from chat_batches.results import BatchResult, BatchResults

OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)


@final
@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """The next request of a conversation, encoded but not sent.

    Attributes:
        member: the conversation to which the request belongs.
        request: the encoded request.
    """

    member: BatchMember
    request: BatchRequest


@final
class Batches(Generic[OutT_co, PauseT_co]):
    """A client that submits conversations of a chat as batches and reads the results.

    An instance stores nothing about its batches, so any process with the same chat can read the results from a handle.

    Args:
        chat: the chat, with its instructions, tools, policies and output type.
        model: the provider of the chat, which must support batches.

    Raises:
        UsageError: `model` is not the provider of the chat, or does not support batches.
    """

    __slots__ = ("_chat", "_model", "_preparing")

    def __init__(self, chat: Chat[OutT_co, PauseT_co], model: BatchProvider) -> None:
        require_type("chat", chat, Chat, "a chat")
        if not isinstance(cast("object", model), BatchProvider):
            msg = f"{type(model).__name__} has no batches: use a model of Anthropic, OpenAI or Gemini"
            raise UsageError(msg)
        if chat.model is not model:
            msg = f"the model of Batches() must be the provider of the chat, which is {chat.model!r}, not {model!r}"
            raise UsageError(msg)
        self._chat = chat
        self._model = model
        self._preparing: Chat[object, Paused] = chat.with_model(CapturingModel(model))

    async def submit(
        self,
        conversations: Mapping[str, Messages | Conversation],
        *,
        options: ChatOptions | None = None,
        inject: Mapping[Any, object] | None = None,
    ) -> BatchHandle:
        """Submit the next request of each conversation as one batch.

        Do not change the conversations until `answer()` has appended their answers.

        Args:
            conversations: conversations by id. The application chooses the ids, which the results also contain.
            options: options of the requests, merged over those of the chat.
            inject: values by type, for `Injected` parameters and instructions.

        Raises:
            UsageError: `conversations` is empty, or a conversation needs no request.
            ChatError: the batch was not submitted, or it is unknown whether the provider has received the batch.
        """
        require_type("conversations", conversations, Mapping, "a mapping of ids to conversations")
        prepared = [
            await self.prepare(id_, target, options=options, inject=inject) for id_, target in conversations.items()
        ]
        return await self.submit_prepared(prepared, new_name())

    async def prepare(
        self,
        id: str,
        target: Messages | Conversation,
        *,
        options: ChatOptions | None = None,
        inject: Mapping[Any, object] | None = None,
    ) -> PreparedRequest:
        """Run a conversation up to its next request to the model, and return the request.

        Args:
            id: ID of the conversation.
            target: plain messages or a stored conversation.
            options: options of the request, merged over those of the chat.
            inject: values by type, for `Injected` parameters and instructions.

        Raises:
            UsageError: the conversation needs no request, because it is already answered or its tool calls are waiting.
            ChatError: the run failed before its request.
        """
        require_text(id=id)
        try:
            result = await self._preparing.complete(target, options=options, inject=inject)
        except CapturedRequestError as captured:
            return PreparedRequest(BatchMember(id, captured.inputs, captured.responses), captured.request)
        reason = "its tool calls wait" if isinstance(result, Paused) else "it is answered already"
        msg = f"conversation {id!r} needs no request: {reason}"
        raise UsageError(msg)

    async def submit_prepared(self, prepared: Sequence[PreparedRequest], name: str) -> BatchHandle:
        """Submit prepared requests as one batch.

        Args:
            prepared: the requests.
            name: unique name of the batch, from `new_name()`.

        Raises:
            UsageError: `prepared` is empty.
            ChatError: the batch was not submitted, or it is unknown whether the provider has received the batch.
        """
        _require_prepared(prepared)
        require_text(name=name)
        if not prepared:
            msg = "a batch needs at least one conversation"
            raise UsageError(msg)
        batch = await self._model.submit_batch([item.request for item in prepared], name=name)
        return self.handle(batch, [item.member for item in prepared])

    async def find(
        self, prepared: Sequence[PreparedRequest], members: Sequence[BatchMember], name: str, *, since: datetime
    ) -> BatchHandle | None:
        """Find a batch that a process may have submitted before the process died.

        Args:
            prepared: requests of the batch, as prepared again by this process.
            members: conversations of the batch.
            name: unique name of the batch.
            since: a time before the batch was submitted.

        Returns:
            The handle, or `None` if the provider does not have the batch.

        Raises:
            BatchInDoubtError: it is unknown whether the provider has the batch.
            ChatError: the request failed.
        """
        _require_prepared(prepared)
        _require_members(members)
        require_text(name=name)
        require_time("since", since)
        requests = [item.request for item in prepared]
        batch = await self._model.find_batch(requests, name=name, size=len(members), since=since)
        return None if batch is None else self.handle(batch, members)

    def handle(self, batch: Batch, members: Sequence[BatchMember]) -> BatchHandle:
        """Create the handle for a batch that exists at the chat's provider.

        Args:
            batch: the batch at the provider.
            members: conversations of the batch.
        """
        require_type("batch", batch, Batch, "a Batch")
        _require_members(members)
        meta = self._model.metadata
        return BatchHandle(meta.name, meta.model, batch, tuple(members))

    async def status(self, batch: BatchHandle) -> BatchStatus:
        """Return the state of a batch.

        Raises:
            UsageError: the batch was submitted to another provider.
            ChatError: the request failed.
        """
        self._require_own(batch)
        return await self._model.batch_status(batch.batch)

    async def wait(self, batch: BatchHandle, timeout: float | None = None) -> BatchStatus:  # noqa: ASYNC109 - it limits delays
        """Wait until a batch has ended, and return its state. The delay between polls doubles from 30 to 300 seconds.

        Args:
            batch: the batch.
            timeout: maximum number of seconds between the first poll and the last one. The batch keeps running after
                it. Default: no limit.

        Raises:
            UsageError: the batch was submitted to another provider, or `timeout` is no number from 0.
            RequestTimeoutError: the batch has not ended at the last poll.
            ChatError: the state cannot be read. A retryable error is raised only if the five polls before it also
                failed.
        """
        if timeout is not None:
            require_number("timeout", timeout)
            if not timeout >= 0:
                raise argument_error("timeout", "a number of seconds from 0", timeout)
        left = math.inf if timeout is None else timeout
        delay, failures = FIRST_DELAY, 0
        failure: ChatError | None = None
        while True:
            try:
                status = await self.status(batch)
            except ChatError as error:
                if not error.retryable or failures == MAX_FAILURES:
                    raise
                failure = error
                failures += 1
            else:
                failure, failures = None, 0
                if status.state == "ended":
                    return status
            if left <= 0:
                msg = f"batch {batch.id} is still running after {timeout} seconds: call wait() again, in any process"
                raise RequestTimeoutError(msg) from failure
            # The timeout counts these delays, so that a poll is never interrupted.
            pause = min(delay, left)
            await anyio.sleep(pause)
            left -= pause
            delay = next_delay(delay)

    @asynccontextmanager
    async def results(self, batch: BatchHandle) -> AsyncGenerator[BatchResults, None]:
        """Stream the results of an ended batch, in the order of the provider.

        Use `async with batches.results(batch) as results`, and iterate over `results`.

        Raises:
            UsageError: the batch has not ended, or was submitted to another provider.
            ChatError: the batch was rejected as a whole, or its results cannot be read.
        """
        status = await self.status(batch)
        if status.state != "ended":
            msg = f"batch {batch.id} has not ended: call wait() first"
            raise UsageError(msg)
        if status.error is not None:
            raise status.error
        async with self._model.batch_results(batch.batch) as items:
            yield BatchResults(batch, status, items)

    async def answer(
        self,
        target: Messages | Conversation,
        result: BatchResult,
        *,
        options: ChatOptions | None = None,
        inject: Mapping[Any, object] | None = None,
    ) -> OutT_co | PauseT_co:
        """Append the answer of a batch to its conversation, and continue the run as `chat.complete()` does.

        Tool calls of the answer run under the policy of the chat. Later requests of the run are ordinary requests.
        After a pause or a crash, call this method again with the same result. The answer is not appended twice.

        Args:
            target: the conversation that was submitted.
            result: the result for this conversation.
            options: options of the run, merged over those of the chat.
            inject: values by type, for `Injected` parameters of tools.

        Raises:
            NewMessageError: a user has added a message since the conversation was submitted.
            UsageError: `target` is a plain `Messages` object that already ends with the answer.
            ChatError: the request failed in the batch, or the run failed.
        """
        require_type("result", result, BatchResult, "a BatchResult, from `async for result in results`")
        if result.turn is None:
            raise result.error or UsageError(f"the result of {result.id!r} has neither a turn nor an error")
        chat = self._chat.with_model(AnsweringModel(self._model, result.turn, result.member))
        return await chat.complete(target, options=options, inject=inject)

    async def cancel(self, batch: BatchHandle) -> None:
        """Ask the provider to stop a batch. Requests that were already processed keep their results and are billed.

        Raises:
            UsageError: the batch was submitted to another provider.
            ChatError: the request failed.
        """
        self._require_own(batch)
        await self._model.cancel_batch(batch.batch)

    def _require_own(self, batch: BatchHandle) -> None:
        require_type("batch", batch, BatchHandle, "a BatchHandle, from submit() or BatchHandle.from_json()")
        meta = self._model.metadata
        if batch.provider != meta.name:
            msg = f"batch {batch.id} was submitted to the provider {batch.provider!r}, not to {meta.name!r}"
            raise UsageError(msg)


def _require_prepared(prepared: object) -> None:
    require_items("prepared", prepared, PreparedRequest, "a sequence of requests from prepare()")


def _require_members(members: object) -> None:
    require_items("members", members, BatchMember, "a sequence of BatchMember objects")


def new_name() -> str:
    """Return a unique name for a batch."""
    return uuid4().hex
