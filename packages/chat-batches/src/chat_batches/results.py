"""`BatchResults`, an iterator over the results of a batch in the order of the provider."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Self, final

from chat_core.arguments import require_type
from chat_core.batches import BatchItem, BatchStatus
from chat_core.errors import BatchCancelledError, BatchExpiredError, ChatError, StreamTruncatedError
from chat_core.messages import Turn
from chat_core.usage import Usage

from chat_batches.handle import BatchHandle, BatchMember, request_index

_LOG = logging.getLogger(__name__)


@final
@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of one conversation of a batch: a turn of the model, or an error.

    Attributes:
        member: the conversation to which the result belongs.
        turn: turn of the model, or `None` if the request failed. Pass the result to `Batches.answer()` to continue the
            conversation.
        error: error of the request, or `None`.
        usage: usage of the request.
    """

    member: BatchMember
    turn: Turn | None
    error: ChatError | None
    usage: Usage

    @property
    def id(self) -> str:
        """The id of the conversation."""
        return self.member.id


@final
class BatchResults:
    """Iterator over the results of a batch. Each conversation has one result.

    Results with an unknown id, and repeated results with the same id, are logged and ignored. If the batch was
    cancelled or expired, the provider may have sent no result for some requests. The iterator then ends with a
    `BatchCancelledError` or `BatchExpiredError` result for each of these requests.

    Args:
        handle: the batch.
        status: the state of the batch.
        items: the results from the provider.
    """

    __slots__ = ("_found", "_handle", "_items", "_lines", "_missing", "_status")

    def __init__(self, handle: BatchHandle, status: BatchStatus, items: AsyncIterator[BatchItem]) -> None:
        require_type("handle", handle, BatchHandle, "a BatchHandle")
        self._handle = handle
        self._status = status
        self._items = items
        self._found = bytearray(len(handle.members))
        self._lines = 0
        self._missing = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BatchResult:
        """Return the next result.

        Raises:
            StreamTruncatedError: the provider sent fewer results than expected.
            ChatError: the results cannot be read.
        """
        async for item in self._items:
            self._lines += 1
            index = request_index(self._handle.batch.name, item.id)
            if index is None or index >= len(self._found):
                _LOG.warning("batch %s: ignoring a result with the unknown id %r", self._handle.id, item.id)
            elif self._found[index]:
                _LOG.warning("batch %s: ignoring a second result with the id %r", self._handle.id, item.id)
            else:
                self._found[index] = 1
                return BatchResult(self._handle.members[index], item.turn, item.error, item.usage)
        return self._next_missing()

    def _next_missing(self) -> BatchResult:
        """Return an error result for the next conversation for which the provider sent no result."""
        index = self._found.find(0, self._missing)
        if index < 0:
            raise StopAsyncIteration
        self._missing = index + 1
        return BatchResult(self._handle.members[index], None, self._missing_error(), Usage())

    def _missing_error(self) -> ChatError:
        """Return the error of a request for which the provider sent no result.

        Raises:
            StreamTruncatedError: the batch was neither cancelled nor expired, or the provider reported more results
                than it sent.
        """
        status = self._status
        is_whole = status.results is None or self._lines >= status.results
        if status.outcome == "cancelled" and is_whole:
            return BatchCancelledError("the batch was cancelled before the request was processed")
        if status.outcome == "expired" and is_whole:
            return BatchExpiredError("the batch expired before the request was processed")
        total = len(self._found)
        msg = (
            f"batch {self._handle.id}: the results end after {sum(self._found)} of {total} conversations: read them "
            "again"
        )
        raise StreamTruncatedError(msg)
