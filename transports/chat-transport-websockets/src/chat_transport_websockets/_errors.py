"""Translation of exceptions from the websockets library into `TransportError`."""

from __future__ import annotations

from typing import Final

from chat_core.errors import TransportError
from chat_core.transport import Headers, Request
from chat_core.transport.http import describe_websocket, is_success, refusal_message
from websockets.exceptions import (
    ConnectionClosed,
    InvalidMessage,
    InvalidProxy,
    InvalidStatus,
    ProxyError,
    WebSocketException,
)
from websockets.frames import Close, CloseCode

_PROTOCOL_CODES: Final[set[int]] = {
    CloseCode.PROTOCOL_ERROR,
    CloseCode.UNSUPPORTED_DATA,
    CloseCode.INVALID_DATA,
    CloseCode.MANDATORY_EXTENSION,
}
_STATUSES: Final[dict[int, int]] = {
    CloseCode.POLICY_VIOLATION: 403,
    CloseCode.MESSAGE_TOO_BIG: 413,
    CloseCode.TRY_AGAIN_LATER: 503,
}
"""HTTP statuses that correspond to close codes (RFC 6455, section 7.4.1)."""

_CONNECT_ERRORS: Final[tuple[tuple[type[Exception], str, str], ...]] = (
    (TimeoutError, "timeout", "no connection"),
    (InvalidProxy, "connect", "no connection through the proxy"),
    (ProxyError, "connect", "no connection through the proxy"),
    (ImportError, "connect", "no connection through the proxy"),
    (InvalidMessage, "protocol", "the response to the handshake is not HTTP"),
    (EOFError, "stream", "the peer closed the connection during the handshake"),
    (OSError, "connect", "no connection"),
    (WebSocketException, "protocol", "the WebSocket handshake failed"),
    (ValueError, "protocol", "the URL is invalid"),
)
"""Base class, error kind and message. The first entry that matches an exception applies."""

_FIRST_PRIVATE_CODE: Final = 4000
"""The first private close code (RFC 6455, section 7.4.2), to which many servers add an HTTP status."""

_KEEPALIVE: Final = "keepalive ping timeout"


def connect_error(error: Exception, request: Request, max_error_bytes: int) -> TransportError | None:
    """Return the error for a connection that could not be opened.

    Args:
        error: the exception that the websockets library raised.
        request: the request that needs the connection.
        max_error_bytes: the limit on the length of the response body that the error keeps.

    Returns:
        The error, or None if the exception is not a network error and must propagate.
    """
    where = describe_websocket(request)
    if isinstance(error, InvalidStatus):
        return _handshake_rejected_error(error, request, max_error_bytes)
    found = next((entry for base, *entry in _CONNECT_ERRORS if isinstance(error, base)), None)
    if found is None:
        return None
    kind, problem = found
    if kind == "timeout" and request.timeouts.connect is not None:
        problem += f" within {request.timeouts.connect:g} seconds"
    if isinstance(error, InvalidMessage) and isinstance(error.__cause__, EOFError):
        kind, problem = "stream", "the peer closed the connection during the handshake"
    # The message quotes the URL of the proxy, which may contain a password.
    detail = type(error).__name__ if isinstance(error, InvalidProxy) else _describe_error(error, request)
    return TransportError(kind, f"{where}: {problem} ({detail})")


def _handshake_rejected_error(error: InvalidStatus, request: Request, max_error_bytes: int) -> TransportError:
    """Return the error for a handshake response whose status is not 101."""
    where, response = describe_websocket(request), error.response
    headers = Headers(list(response.headers.raw_items()))
    msg = refusal_message(where, response.status_code, response.reason_phrase, headers)
    body = bytes(response.body or b"")[:max_error_bytes]
    if is_success(response.status_code):
        msg += ": the server does not support WebSocket at this URL; the response has the content type "
        msg += repr(headers.get("content-type", ""))
        if not _quotes_secret(body.decode("latin-1"), request):
            msg += f" and begins with {body[:80]!r}"
        return TransportError("protocol", msg, body=body)
    return TransportError("status", msg, status=response.status_code, headers=headers, body=body)


def closed_error(error: ConnectionClosed, request: Request, ping_timeout: float | None) -> TransportError:
    """Return the error for a connection that was closed before the response of an exchange was complete.

    Args:
        error: the exception that the websockets library raised.
        request: the request of the exchange.
        ping_timeout: seconds that the connection waits for the response to a ping.
    """
    where, sent, received = describe_websocket(request), error.sent, error.rcvd
    if received is None or (sent is not None and not error.rcvd_then_sent):
        kind, problem = _describe_missing_close_frame(sent, ping_timeout)
        return TransportError(kind, f"{where}: {problem}")
    reason = _drop_if_secret(received.reason, request)
    close = f"{received.code} {reason}".rstrip()
    if received.code in _PROTOCOL_CODES:
        return TransportError("protocol", f"{where}: the peer rejected the data and closed the connection ({close})")
    status = _STATUSES.get(received.code)
    if status is None and 400 <= received.code - _FIRST_PRIVATE_CODE < 600:  # noqa: PLR2004 - RFC 9110, section 15
        status = received.code - _FIRST_PRIVATE_CODE
    msg = f"{where}: the peer closed the connection before the response was complete ({close})"
    if status is None:
        return TransportError("stream", msg)
    return TransportError("status", msg, status=status, body=reason.encode())


def _describe_missing_close_frame(sent: Close | None, ping_timeout: float | None) -> tuple[str, str]:
    """Return the error kind and message for a connection that ended without a close frame from the peer."""
    if sent is None:
        return "stream", "the connection broke before the response was complete (1006)"
    if sent.code == CloseCode.NORMAL_CLOSURE:
        return "stream", "the transport was closed before the response was complete"
    if sent.reason == _KEEPALIVE:
        limit = f"within {ping_timeout:g} seconds" if ping_timeout else "in time"
        return (
            "timeout",
            f"the peer did not respond to a ping {limit}; WebSocketTransport(ping_timeout=…) sets the limit",
        )
    if sent.code == CloseCode.MESSAGE_TOO_BIG:
        return "protocol", f"a message is too long ({sent.reason}); raise max_message_bytes to accept it"
    if sent.code in _PROTOCOL_CODES:
        return "protocol", f"the peer violated the WebSocket protocol ({sent.code} {sent.reason})"
    return "stream", f"the connection broke before the response was complete ({sent.code})"


def _describe_error(error: BaseException, request: Request) -> str:
    """Return the class and message of an error, or only the class if the message quotes a secret of the request."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return f"{name}: {text}" if text and not _quotes_secret(text, request) else name


def _drop_if_secret(text: str, request: Request) -> str:
    """Return `text`, which the peer sent, or an empty string if it contains a secret of the request."""
    return "" if _quotes_secret(text, request) else text


def _quotes_secret(text: str, request: Request) -> bool:
    query = request.path.partition("?")[2]
    values = [item.partition("=")[2] for item in query.split("&")]
    secrets = [query, *values, *[value for _, value in request.headers if len(value) > 3]]  # noqa: PLR2004 - shorter values are not secret
    return any(secret and (secret in text or secret.rpartition(" ")[2] in text) for secret in secrets)
