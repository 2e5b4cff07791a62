"""Errors for refused client requests, and the error texts that clients receive for failed runs."""

from __future__ import annotations

from typing import Literal, TypeAlias, final

from chat_core.errors import ChatError, ConflictError, InterruptedToolsError, StreamTruncatedError

ErrorCode: TypeAlias = Literal[
    "invalid_request", "conflict", "forbidden", "llm_error", "stream_error", "internal", "cancelled", "timeout"
]
"""Code of an error, for programs."""

_UNAVAILABLE = "The assistant is temporarily unavailable. Please try again."
_BUSY = "Another run is using this conversation. Please try again later."
_OUTCOME_UNKNOWN = (
    "A tool call was interrupted and may have taken effect. The conversation continues when its outcome is recorded."
)
_INTERRUPTED = "The reply was interrupted. Please try again."

_STATUS: dict[ErrorCode, int] = {"invalid_request": 400, "forbidden": 403, "conflict": 409}


@final
class ClientInputError(ChatError):
    """A request of a front end was refused. Nothing was changed.

    The message may be sent to the client: it contains only the client's own input and the violated rule.

    Attributes:
        code: `"invalid_request"`, `"forbidden"` or `"conflict"`.
        status: HTTP status of a response with this error: 400, 403 or 409.
    """

    def __init__(self, code: ErrorCode, message: str, /) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.status: int = _STATUS[code]


@final
class RunFailedError(ChatError):
    """A run in another process failed. Only an error code and a text for clients are known.

    Attributes:
        code: code of the failure.
    """

    def __init__(self, code: ErrorCode, message: str, /) -> None:
        super().__init__(message)
        self.code: ErrorCode = code


def describe_error(error: BaseException, /) -> tuple[ErrorCode, str]:
    """Return the error code and the fixed text that report a failed run to its client.

    The text contains no details of the failure. Only logs and observers receive them.

    Args:
        error: the exception that ended the run.
    """
    if isinstance(error, (ClientInputError, RunFailedError)):
        return error.code, str(error)
    if isinstance(error, ConflictError):
        return "conflict", _BUSY
    if isinstance(error, InterruptedToolsError):
        return "conflict", _OUTCOME_UNKNOWN
    if isinstance(error, StreamTruncatedError):
        return "stream_error", _INTERRUPTED
    return ("llm_error" if isinstance(error, ChatError) else "internal"), _UNAVAILABLE
