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
├── ConflictError                    another run owns the conversation or decided the call
├── LeaseLostError                   another run took the conversation over
└── InvalidDocumentError             a stored conversation cannot be read
    └── NewerVersionError            a later version of this library wrote it
TransportError                       raised by transports; providers translate it into one of the above
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, final

from chat_core.usage import Metadata, Usage

if TYPE_CHECKING:
    from chat_core.messages.content import Turn  # circular: an error carries the turn as far as it came


class ChatError(Exception):
    """The one base of what a run raises.

    Attributes:
        usage: every token that the run paid for before it failed.
        metadata: what the provider said about itself in the failed call, where it said anything.
        attempts: how many times the failed provider call was tried.
        partial: the answer as far as it came; no tool of it ran, and it is not in the history.
        retryable: whether the same call may succeed later.
        retry_after: seconds that the provider asked to wait, where it asked.
    """

    retryable: bool = False

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
        self.usage = usage or Usage()
        self.metadata = metadata
        self.attempts = attempts
        self.partial = partial
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        # An exception is made anew from its `args` by default, which leaves out what its subclasses ask for.
        return _restore, (type(self), self.args, vars(self).copy())


def _restore(kind: type[ChatError], args: tuple[object, ...], state: dict[str, object]) -> ChatError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(ChatError, TypeError):
    """Something was used in a way that its types forbid. Nothing was sent and nothing changed."""


@final
class IllegalTransitionError(UsageError):
    """A tool was told to do what its status does not allow. The tool is as it was."""


@final
class ConversationBusyError(UsageError):
    """A live run owns these messages: wait for its end, or leave its block."""


@final
class PendingToolsError(UsageError):
    """Calls wait for a decision. Approve or reject them, or call `messages.cancel_pending(reason)`.

    `tool_ids` names them.
    """

    def __init__(self, message: str, tool_ids: Sequence[str]) -> None:
        super().__init__(message)
        self.tool_ids = tuple(tool_ids)


@final
class UnsupportedPartError(UsageError):
    """The provider has no place for this part. Nothing is dropped in silence: change the part, or the provider."""


@final
class UnsupportedOptionError(UsageError):
    """The provider does not know this option, or not in this configuration."""


class NetworkError(ChatError):
    """The connection failed or broke. Retryable."""

    retryable = True


@final
class RequestTimeoutError(NetworkError):
    """Nothing came in time. Retryable."""


@final
class StreamTruncatedError(ChatError):
    """A stream ended without its protocol's terminal event. What came is in `partial`; none of its calls ran."""

    retryable = True


class ProviderError(ChatError):
    """The provider refused the request.

    Attributes:
        status: the HTTP status, where there was one.
        code: the provider's own word for the error, where it gave one.
        request_id: the id by which the provider's support finds the request.
        body: the error's body as it came, for a log; it holds no secret of ours.
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
    """Too many requests or tokens for now. Retryable, after `retry_after` where the provider says how long."""

    retryable = True


@final
class OverloadedError(ProviderError):
    """The provider has no room for now. Retryable."""

    retryable = True


@final
class ServerError(ProviderError):
    """The provider failed: 408, 409, 5xx. Retryable."""

    retryable = True


@final
class QuotaExceededError(ProviderError):
    """The account's money or monthly quota is used up. Waiting does not help."""


@final
class AuthenticationError(ProviderError):
    """The key is missing, wrong or expired."""


@final
class PermissionDeniedError(ProviderError):
    """The key is good, but not for this."""


@final
class NotFoundError(ProviderError):
    """No such model, endpoint or stored object."""


class InvalidRequestError(ProviderError):
    """The provider says that the request is malformed, or asks for what the model cannot do."""


@final
class ContextLengthError(InvalidRequestError):
    """The conversation, with the room asked for the answer, is longer than the model's window."""


@final
class ContentFilteredError(InvalidRequestError):
    """The provider's content policy refused the input."""


@final
class InvalidResponseError(ChatError):
    """The answer is not what the protocol, or the chat's output type, promises.

    Attributes:
        path: where in the answer, as in `choices[0].message`.
        raw: the answer, or the offending piece of it, as it came.
    """

    def __init__(self, message: str, *, path: str = "", raw: str | bytes = "", partial: Turn | None = None) -> None:
        super().__init__(message, partial=partial)
        self.path = path
        self.raw = raw


@final
class RefusalError(ChatError):
    """The model refused where a structured answer was asked; its words are in the message and in `partial`."""


@final
class MaxStepsExceededError(ChatError):
    """The run used all its provider calls. The history is valid and holds every result.

    Continue it with another run, or raise the limit.
    """


@final
class InterruptedToolsError(ChatError):
    """A crash or a cancellation left calls in an unknown state. `tool_ids` names them.

    Say what became of each: `tool.complete(result)`, `tool.retry()` or `tool.fail(reason)`; or build the chat
    `with_interrupted(...)`.
    """

    def __init__(self, message: str, tool_ids: Sequence[str]) -> None:
        super().__init__(message)
        self.tool_ids = tuple(tool_ids)


@final
class ConflictError(ChatError):
    """Another run owns the conversation, or has moved the call on. Nothing of this run took effect."""


@final
class LeaseLostError(ChatError):
    """Another run took the conversation over when this one's lease had run out.

    This run's late results are not truth.
    """


class InvalidDocumentError(ChatError, ValueError):
    """A stored conversation cannot be read; `path` says where."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


@final
class NewerVersionError(InvalidDocumentError):
    """The document was written by a later version of this library: upgrade it here, too."""


class TransportError(Exception):
    """What a transport raises.

    Attributes:
        kind: `connect` (nothing was sent), `stream` (the connection broke under way), `timeout`, `status` (the answer
            is not 2xx), or `protocol` (the peer does not speak what was agreed).
        status, headers, body: the answer, where `kind` is `status`. The body may be cut at the transport's bound.
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
