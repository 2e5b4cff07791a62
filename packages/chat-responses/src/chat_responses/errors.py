"""Exceptions for errors that are reported without an HTTP status, in a stream or in a failed response.

For every API, `chat_core.wire.errors` creates the exceptions for errors with an HTTP status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chat_core.errors import (
    ChatError,
    ContentFilteredError,
    InvalidRequestError,
    OverloadedError,
    ProviderError,
    QuotaExceededError,
    ServerError,
)
from chat_core.json import dumps
from chat_core.transport.provider_errors import provider_error
from chat_core.wire import errors
from chat_core.wire.errors import read_error
from chat_core.wire.shapes import Json, is_list, is_object, mapping

PREVIOUS_RESPONSE_MISSING: Final = "previous_response_not_found"
"""Error code for a previous response that the server does not have."""

KINDS: Final[Mapping[str, type[ProviderError]]] = {
    "invalid_prompt": InvalidRequestError,
    "invalid_image": InvalidRequestError,
    "invalid_image_format": InvalidRequestError,
    "invalid_base64_image": InvalidRequestError,
    "invalid_image_url": InvalidRequestError,
    "invalid_image_mode": InvalidRequestError,
    "image_too_large": InvalidRequestError,
    "image_too_small": InvalidRequestError,
    "image_parse_error": InvalidRequestError,
    "image_file_too_large": InvalidRequestError,
    "unsupported_image_media_type": InvalidRequestError,
    "empty_image_file": InvalidRequestError,
    "failed_to_download_image": InvalidRequestError,
    "image_file_not_found": InvalidRequestError,
    "data_residency_mismatch": InvalidRequestError,
    PREVIOUS_RESPONSE_MISSING: InvalidRequestError,
    "image_content_policy_violation": ContentFilteredError,
    "bio_policy": ContentFilteredError,
    "misalignment_policy_violation": ContentFilteredError,
    "cyber_policy": ContentFilteredError,
    "vector_store_timeout": ServerError,
    "websocket_connection_limit_reached": ServerError,  # the connection reached its maximum age; a new connection works
    "server_is_overloaded": OverloadedError,
    "slow_down": OverloadedError,
    "usage_limit_reached": QuotaExceededError,
    "usage_not_included": QuotaExceededError,
}
"""Error classes by error code, for codes that only the Responses API uses."""


def error_from_object(error: object, provider: str) -> ProviderError:
    """Return the exception for an error object that was sent with status 200, in a stream or in place of a response.

    Args:
        error: the error object.
        provider: name of the provider, for the error message.
    """
    reported = read_error(error)
    kind = next((KINDS[name] for name in reported.names if name in KINDS), None)
    if kind is None:
        return errors.error_from_object(error, provider)
    msg = f"{provider} reported an error in its response: {reported.summary}"
    body = dumps(error).encode(errors="replace")
    return provider_error(kind, msg, status=reported.status, headers={}, body=body, code=reported.code)


def error_object(event: Json) -> object:
    """Return the error object in an error event, with the HTTP status that WebSocket events contain."""
    error = event.get("error") or event
    status = event.get("status") or event.get("status_code")
    return {"status": status, **error} if is_object(error) and isinstance(status, int) else error


def find_error(answer: object) -> object:
    """Return the error object that a body with status 200 contains, or `None` if the body is a response."""
    if is_list(answer) and answer and mapping(answer[0]).get("error"):
        return answer  # a few gateways send their errors in a list
    if not is_object(answer):
        return None
    error = answer.get("error")
    if "output" in answer:
        return (error or answer) if answer.get("status") == "failed" else None
    if error:
        return error if is_object(error) else answer
    if answer.get("status") in ("failed", "cancelled"):
        return answer
    return answer if any(answer.get(name) for name in ("message", "detail", "errors")) else None


def is_previous_response_missing(error: ChatError) -> bool:
    """Return whether `error` means that the server does not have the previous response that a request named."""
    if not isinstance(error, ProviderError):
        return False
    message = str(error).lower()
    return error.code == PREVIOUS_RESPONSE_MISSING or (
        "previous" in message and "response" in message and "not found" in message
    )
