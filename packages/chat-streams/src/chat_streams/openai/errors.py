"""Errors in the OpenAI API format."""

from __future__ import annotations

from typing import Final

from chat_core.errors import ConflictError, InterruptedToolsError, RateLimitedError
from chat_core.json import dump_bytes

from chat_streams.errors import ClientInputError, describe_error

_TYPES: Final = {400: "invalid_request_error", 403: "permission_error", 409: "conflict_error", 429: "rate_limit_error"}


def error_status(error: BaseException, /) -> int:
    """Return the HTTP status of a response that reports an error.

    Args:
        error: the refused request, or the exception that ended the run.
    """
    if isinstance(error, ClientInputError):
        return error.status
    if isinstance(error, (ConflictError, InterruptedToolsError)):
        return 409
    return 429 if isinstance(error, RateLimitedError) else 500


def error_object(error: BaseException, /) -> dict[str, object]:
    """Return the object `error` of OpenAI's API. The texts about failed runs are fixed.

    Args:
        error: the refused request, or the exception that ended the run.
    """
    code, message = describe_error(error)
    return {"message": message, "type": _TYPES.get(error_status(error), "server_error"), "param": None, "code": code}


def error_body(error: BaseException, /) -> bytes:
    """Return the body of a response that reports an error.

    Args:
        error: the refused request, or the exception that ended the run.
    """
    return dump_bytes({"error": error_object(error)})
