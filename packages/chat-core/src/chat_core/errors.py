"""Exceptions raised by this library.

ChatError                            base class; carries usage, metadata, attempts and the partial response
├── UsageError (TypeError)           caller error: nothing was sent, nothing changed
│   ├── IllegalTransitionError       the status of a tool call does not allow the operation
│   ├── ConversationBusyError        another run is using these messages
│   ├── PendingToolsError            tool calls are waiting for a decision
│   ├── UnsupportedPartError         the provider cannot send a part of the history
│   └── UnsupportedOptionError       the provider does not support an option
├── NetworkError                     the connection failed; retryable
│   └── RequestTimeoutError          the server sent nothing in time; retryable
├── StreamTruncatedError             the stream ended without its terminal event; retryable
├── ProviderError                    the provider returned an error
│   ├── RateLimitedError             too many requests or tokens; retryable after `retry_after`
│   ├── OverloadedError              the provider has no capacity; retryable
│   ├── ServerError                  5xx and similar statuses; retryable
│   ├── QuotaExceededError           the quota or balance is used up; retrying does not help
│   ├── AuthenticationError          the API key is missing, invalid or expired
│   ├── PermissionDeniedError        the API key may not do this
│   ├── NotFoundError                no such model, endpoint or stored object
│   └── InvalidRequestError          the request is malformed or not supported by the model
│       ├── ContextLengthError       the conversation exceeds the model's context window
│       └── ContentFilteredError     the provider's content policy rejected the input
├── InvalidResponseError             the response violates the protocol or the output type
├── RefusalError                     the model refused to give a structured answer
├── MaxStepsExceededError            the run used all its model calls
├── InterruptedToolsError            tool calls were interrupted, and the chat has no rule for them
├── PolicyError                      a policy or a grant rule raised on calls that wait or were decided
├── ToolMissingError                 the chat lacks the tools of calls that wait or were decided
├── BatchExpiredError                a request of a batch was not processed in time; retryable
├── BatchCancelledError              a request of a batch was not processed because the batch was cancelled; retryable
├── BatchInDoubtError                it is unknown whether a batch was submitted; check manually
├── ConflictError                    another run owns the conversation or decided the call
├── LeaseLostError                   another run took the conversation over
└── InvalidDocumentError             a stored conversation cannot be read
    └── NewerVersionError            a later version of this library wrote it
TransportError                       raised by transports; providers translate it into one of the above
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, final

from chat_core.usage import NO_USAGE, Metadata, Usage

if TYPE_CHECKING:
    from chat_core.batches import Batch  # circular: an error names batches that the provider may have
    from chat_core.messages.content import Turn  # circular: an error has a partial turn


class ChatError(Exception):
    """Base class for the errors that this library raises.

    Attributes:
        usage: tokens that the run used before it failed. For an error in `earlier`, the tokens of its attempt alone.
        metadata: data that the provider reported about the failed request, or `None`.
        attempts: number of attempts of the failed request.
        partial: the part of the response received before the failure. It is not in the history, and none of its tool
            calls ran.
        retryable: whether the same request may succeed later.
        retry_after: seconds that the provider asked to wait, or `None`.
        fallback: whether the provider can send the request to another model now. A provider with several models sets
            it, and the engine then retries without a wait.
        earlier: errors of the earlier attempts of the failed request, oldest first.
    """

    retryable: bool = False
    fallback: bool = False
    earlier: tuple[ChatError, ...] = ()

    def __init__(
        self,
        message: str = "",
        *,
        usage: Usage | None = None,
        metadata: Metadata | None = None,
        attempts: int = 0,
        partial: Turn | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.usage: Usage = usage or NO_USAGE
        self.metadata = metadata
        self.attempts = attempts
        self.partial = partial
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        # By default, pickle calls the class with `args` alone, which lacks required arguments of subclasses.
        return _restore, (type(self), self.args, vars(self).copy())


def _restore(kind: type[ChatError], args: tuple[object, ...], state: dict[str, object]) -> ChatError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(ChatError, TypeError):
    """Incorrect use of the API. Nothing was sent and nothing changed."""


@final
class IllegalTransitionError(UsageError):
    """The status of a tool call does not allow the operation. The tool call is unchanged."""


@final
class ConversationBusyError(UsageError):
    """A run is using these messages. Wait for the run to end, or exit its block."""


@final
class PendingToolsError(UsageError):
    """Tool calls are waiting for a decision. Approve or reject them, or call `messages.cancel_pending(reason)`.

    Attributes:
        tool_ids: ids of the waiting tool calls.
    """

    def __init__(self, message: str, tool_ids: Sequence[str]) -> None:
        super().__init__(message)
        self.tool_ids: tuple[str, ...] = tuple(tool_ids)


@final
class UnsupportedPartError(UsageError):
    """The provider cannot send a part of the history. Change the part, or use another provider."""


@final
class UnsupportedOptionError(UsageError):
    """The provider does not support an option, at least not in this configuration."""


class NetworkError(ChatError):
    """The connection failed or broke. Retryable."""

    retryable = True


@final
class RequestTimeoutError(NetworkError):
    """The server sent nothing within the timeout. Retryable."""


@final
class StreamTruncatedError(ChatError):
    """The stream ended without its protocol's terminal event. Retryable.

    `partial` has the received part of the response; none of its tool calls ran.
    """

    retryable = True


class ProviderError(ChatError):
    """The provider returned an error.

    Attributes:
        status: HTTP status, if there was one.
        code: the provider's error code, if it sent one.
        request_id: the provider's id of the request, for support inquiries.
        body: body of the error response, for logs; it contains no credentials of the caller.
    """

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        body: bytes = b"",
        retry_after: float | None = None,
        retryable: bool | None = None,
        metadata: Metadata | None = None,
    ) -> None:
        super().__init__(message, retry_after=retry_after, metadata=metadata)
        self.status = status
        self.code = code
        self.request_id = request_id
        self.body = body
        if retryable is not None:
            self.retryable = retryable


@final
class RateLimitedError(ProviderError):
    """Too many requests or tokens. Retryable, after `retry_after` if the provider sent it."""

    retryable = True


@final
class OverloadedError(ProviderError):
    """The provider has no capacity at the moment. Retryable."""

    retryable = True


@final
class ServerError(ProviderError):
    """The provider failed to handle the request: HTTP status 408, 409 or 5xx. Retryable."""

    retryable = True


@final
class QuotaExceededError(ProviderError):
    """The balance or quota of the account is used up. Retrying does not help."""


@final
class AuthenticationError(ProviderError):
    """The API key is missing, invalid or expired."""


@final
class PermissionDeniedError(ProviderError):
    """The API key is valid, but does not permit this request."""


@final
class NotFoundError(ProviderError):
    """The model, endpoint or stored object does not exist."""


class InvalidRequestError(ProviderError):
    """The request is malformed, or asks for something that the model does not support."""


@final
class ContextLengthError(InvalidRequestError):
    """The conversation and the requested output exceed the model's context window."""


@final
class ContentFilteredError(InvalidRequestError):
    """The provider's content policy rejected the input."""


@final
class InvalidResponseError(ChatError):
    """The response violates the protocol, or the output type of the chat.

    Attributes:
        path: path of the invalid value in the response, such as `choices[0].message`.
        raw: the response, or its invalid piece, as received; at most the first MiB of it.
    """

    def __init__(self, message: str, *, path: str = "", raw: str | bytes = "", partial: Turn | None = None) -> None:
        super().__init__(message, partial=partial)
        self.path = path
        self.raw = raw


@final
class RefusalError(ChatError):
    """The model refused to give a structured answer. The message and `partial` contain its text."""


@final
class MaxStepsExceededError(ChatError):
    """The run reached its limit of model calls. The history is valid and contains every result.

    Continue with another run, or raise the limit.
    """


@final
class InterruptedToolsError(ChatError):
    """Tool calls were interrupted by a crash or a cancellation, and the chat has no rule for them.

    Record the outcome of each call: `tool.complete(result)`, `tool.retry()` or `tool.fail(reason)`. Or build the chat
    `with_interrupted(...)`.

    Attributes:
        tool_ids: ids of the interrupted tool calls.
    """

    def __init__(self, message: str, tool_ids: Sequence[str]) -> None:
        super().__init__(message)
        self.tool_ids: tuple[str, ...] = tuple(tool_ids)


@final
class PolicyError(ChatError):
    """A policy or a grant rule raised an exception for calls that wait or were decided.

    The calls and their decisions are unchanged. The other decided calls have run and their results are recorded.

    `__cause__` is the raised exception. Correct the function that raised it and run again. If a grant rule raised it,
    the call waits for an approver.

    Attributes:
        tool_ids: ids of the calls.
    """

    def __init__(self, message: str, tool_ids: Sequence[str]) -> None:
        super().__init__(message)
        self.tool_ids: tuple[str, ...] = tuple(tool_ids)


@final
class ToolMissingError(ChatError):
    """The chat lacks the tools of calls that wait or were decided. The calls and their decisions are unchanged.

    The other decided calls have run and their results are recorded. Add the tools to the chat and run again, or call
    `messages.cancel_pending(reason)`.

    Attributes:
        tool_ids: ids of the calls.
        tool_names: names of the missing tools, one for each call.
    """

    def __init__(self, message: str, tool_ids: Sequence[str], tool_names: Sequence[str]) -> None:
        super().__init__(message)
        self.tool_ids: tuple[str, ...] = tuple(tool_ids)
        self.tool_names: tuple[str, ...] = tuple(tool_names)


@final
class BatchExpiredError(ChatError):
    """A request of a batch was not processed before the batch expired. Retryable."""

    retryable = True


@final
class BatchCancelledError(ChatError):
    """A request of a batch was not processed because the batch was cancelled. Retryable."""

    retryable = True


@final
class BatchInDoubtError(ChatError):
    """A process died while it submitted a batch, and it is unknown whether the batch exists.

    Nothing was submitted again. Compare the batches of the provider with the conversations.

    Attributes:
        candidates: batches at the provider that may be the batch.
    """

    def __init__(self, message: str, candidates: Sequence[Batch] = ()) -> None:
        super().__init__(message)
        self.candidates: tuple[Batch, ...] = tuple(candidates)


@final
class ConflictError(ChatError):
    """Another run owns the conversation, or changed the tool call first. Nothing of this operation was stored."""


@final
class LeaseLostError(ChatError):
    """Another run took over the conversation after this run's lease expired.

    Results that this run produces afterwards are not used as results of its calls.
    """


class InvalidDocumentError(ChatError, ValueError):
    """A stored conversation cannot be read. `path` is the position of the error in the document."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


@final
class NewerVersionError(InvalidDocumentError):
    """A later version of this library wrote the document. Upgrade this installation."""


class TransportError(Exception):
    """Failure of a transport. Providers translate it into a `ChatError`.

    Attributes:
        kind: `connect` (nothing was sent), `stream` (the connection broke later), `timeout`, `status` (the response
            status is not 2xx) or `protocol` (the server violated the protocol).
        status: HTTP status, if `kind` is `status`.
        headers: response headers, if `kind` is `status`.
        body: response body, if `kind` is `status`. The transport may truncate it.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.headers: Mapping[str, str] = headers or {}
        self.body = body
