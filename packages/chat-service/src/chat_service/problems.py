"""Error responses in `application/problem+json`, with a machine-readable code."""

from __future__ import annotations

from typing import Final

from chat_inbox.api import json_response
from chat_inbox.http_errors import HTTPError
from chat_store import ConversationClosedError, UnknownConversationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

CODES: Final[dict[int, str]] = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "payload_too_large",
    415: "unsupported_media_type",
    422: "unprocessable",
    429: "too_many_requests",
    500: "internal_error",
    503: "service_unavailable",
}
"""Machine-readable code by HTTP status, for refused requests."""


def problem_response(error: HTTPError) -> Response:
    """Return the response for an error, as problem details (RFC 9457) with the members `code` and `message`.

    Args:
        error: the error.
    """
    document = {**error.document, "code": CODES[error.status], "message": error.detail}
    return json_response(document, error.status, "application/problem+json")


async def handle_error(_request: Request, error: Exception) -> Response:
    """Convert an `HTTPError`, an error of Starlette's router, or that of a session closed meanwhile, to a response.

    Args:
        error: the error.
    """
    if isinstance(error, HTTPError):
        return problem_response(error)
    if isinstance(error, (ConversationClosedError, UnknownConversationError)):
        return problem_response(HTTPError(404, "There is no such session: it was closed."))
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for these types
    text = {404: "There is nothing at this address.", 405: "This address does not support the method."}
    response = problem_response(HTTPError(error.status_code, text.get(error.status_code, f"{error.detail}.")))
    response.headers.update(error.headers or {})  # `Allow`, with status 405
    return response


async def handle_unexpected_error(_request: Request, _error: Exception) -> Response:
    """Return the response for an unexpected exception. The text of the exception appears only in the log."""
    return problem_response(HTTPError(500, "An internal error occurred; the log of the server has the details."))
