"""The protocol for providers that process many requests as one batch, and its data classes.

A batch is submitted with one or a few HTTP requests and processed within hours, at a lower price. To submit the
conversations of a chat, use the package `chat_batches`, which is based on this protocol.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, Protocol, TypeAlias, final, runtime_checkable

from chat_core import errors
from chat_core.arguments import argument_error, require_items
from chat_core.errors import ChatError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import CompletionProvider, OutputSchema, ToolDeclarations
from chat_core.usage import NO_USAGE, Usage

_MAX_PAGES: Final = 1_000
_NAME: Final = re.compile("[A-Za-z0-9]{1,48}")

BatchState: TypeAlias = Literal["running", "cancelling", "ended"]
"""The states of a batch. A batch that is `cancelling` is still processed until the server has stopped it."""

BatchOutcome: TypeAlias = Literal["completed", "cancelled", "expired", "failed"]
"""How a batch ended. A `failed` batch was rejected as a whole and has no results."""


@final
@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request that is encoded but not sent yet.

    Attributes:
        body: body of the request, as `CompletionProvider.complete()` sends it.
        data: provider-specific data for submitting the request and decoding its response.
    """

    body: bytes = field(repr=False)
    data: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)


@final
@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that was submitted to a provider.

    Attributes:
        id: id of the batch at the provider.
        name: unique name of the batch. The ids of its requests begin with this name.
        data: provider-specific data for reading the results.
    """

    id: str
    name: str
    data: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)


# `typing.get_type_hints()` looks up the names of annotations there; `errors` imports them for type checkers only.
errors.__dict__["Batch"] = Batch


@final
@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The state of a batch at the provider.

    Attributes:
        state: `running`, `cancelling` or `ended`.
        outcome: final outcome of the batch, or `None` before its end.
        results: number of requests that have a result, or `None` if the provider does not report it.
        error: reason for which the provider rejected the whole batch, or `None`.
    """

    state: BatchState
    outcome: BatchOutcome | None = None
    results: int | None = None
    error: ChatError | None = None


@final
@dataclass(frozen=True, slots=True)
class BatchItem:
    """The result of one request of a batch: either a turn or an error.

    Attributes:
        id: id of the request, or an empty string if the server sent no id.
        turn: model turn, or `None` if the request failed. Its tool calls are `Pending`.
        error: error of the request, or `None`.
    """

    id: str
    turn: Turn | None = None
    error: ChatError | None = None

    @property
    def usage(self) -> Usage:
        """Token usage of the request, even if it failed."""
        if self.turn is not None:
            return self.turn.usage
        return NO_USAGE if self.error is None else self.error.usage


@runtime_checkable
class BatchProvider(CompletionProvider, Protocol):
    """Protocol for a provider that processes batches."""

    def encode_batch_request(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> BatchRequest:
        """Encode a request as `complete()` does, without sending it.

        Args:
            messages: conversation to send; not changed.
            tools: tools that the model may call.
            options: settings of the request, such as `temperature`.
            structured_output: schema of the structured output, or `None` for text.

        Raises:
            UsageError: the request cannot be encoded, or batches do not support an option.
        """
        ...

    async def submit_batch(self, requests: Sequence[BatchRequest], *, name: str) -> Batch:
        """Submit a batch. Request number `i` gets the id `request_id(name, i)`.

        Args:
            requests: encoded requests.
            name: unique name of the batch: 1 to 48 letters and digits. `find_batch()` recognizes the batch by the name.

        Raises:
            ChatError: the batch was rejected, or it is unknown whether the server has received it.
        """
        ...

    async def find_batch(
        self, requests: Sequence[BatchRequest], *, name: str, size: int, since: datetime
    ) -> Batch | None:
        """Find a batch that a process may have submitted before it died.

        Args:
            requests: requests with the same tools, options and output as those of the batch.
            name: name of the batch.
            size: number of requests in the batch.
            since: a time before the batch was submitted.

        Returns:
            The batch, or `None` if the server does not have it.

        Raises:
            BatchInDoubtError: a batch on the server may be this batch, but this cannot be determined.
            ChatError: the request failed.
        """
        ...

    async def batch_status(self, batch: Batch) -> BatchStatus:
        """Return the state of a batch.

        Raises:
            ChatError: the request failed.
        """
        ...

    def batch_results(self, batch: Batch) -> AbstractAsyncContextManager[AsyncIterator[BatchItem]]:
        """Return a context manager that streams the results of an ended batch, in any order.

        Raises:
            ChatError: the results cannot be read. Raised on entering the block, or by the iterator.
        """
        ...

    async def cancel_batch(self, batch: Batch) -> None:
        """Ask the server to stop a batch. Requests that have been processed keep their results.

        Raises:
            ChatError: the request failed.
        """
        ...


def require_batch(requests: object, name: object) -> None:
    """Raise `UsageError` unless the arguments of `BatchProvider.submit_batch()` are valid.

    Args:
        requests: encoded requests.
        name: name of the batch.
    """
    require_items("requests", requests, BatchRequest, "a sequence of requests from encode_batch_request()")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise argument_error("name", "1 to 48 letters and digits, such as uuid4().hex", name)


def add_cursor(cursors: set[str], cursor: str | None, provider: str) -> None:
    """Add the cursor of the next page of a list of batches to the cursors that were used before.

    Args:
        cursors: the cursors so far.
        cursor: cursor of the next page, or `None` or an empty string after the last page.
        provider: name of the provider, for the error message.

    Raises:
        InvalidResponseError: the server repeats a cursor, or the list has more than 1,000 pages.
    """
    if cursor in cursors and cursor:
        msg = f"{provider}: the list of batches does not end: page {len(cursors) + 1} has the cursor of an earlier page"
        raise errors.InvalidResponseError(msg)
    if cursor and len(cursors) >= _MAX_PAGES:
        msg = f"{provider}: the list of batches has more than {_MAX_PAGES} pages, and is not read further"
        raise errors.InvalidResponseError(msg)
    cursors.add(cursor or "")


def request_id(name: str, index: int) -> str:
    """Return the id of request number `index` in the batch `name`. Every provider accepts ids of this form."""
    return f"{name}-{index}"
