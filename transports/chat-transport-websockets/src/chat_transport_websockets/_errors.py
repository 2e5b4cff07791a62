"""From what the websockets library raises to `TransportError`: the one place where it is translated."""

from __future__ import annotations

from typing import Final

from chat_core.errors import TransportError
from chat_core.transport import Headers, Request
from chat_core.transport.http import is_success, refusal_message
from websockets.exceptions import (
    ConnectionClosed,
    InvalidMessage,
    InvalidProxy,
    InvalidStatus,
    ProxyError,
    WebSocketException,
)
from websockets.frames import Close, CloseCode

_NOT_UNDERSTOOD: Final[set[int]] = {
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
"""What a peer means that closes with these codes, as a status."""

_NOT_OPENED: Final[tuple[tuple[type[Exception], str, str], ...]] = (
    (TimeoutError, "timeout", "no connection in time"),
    (InvalidProxy, "connect", "no connection through the proxy"),
    (ProxyError, "connect", "no connection through the proxy"),
    (ImportError, "connect", "no connection through the proxy"),
    (InvalidMessage, "protocol", "the answer to the handshake is not HTTP"),
    (EOFError, "stream", "the peer hung up in the handshake"),
    (OSError, "connect", "no connection"),
    (WebSocketException, "protocol", "this is no WebSocket"),
    (ValueError, "protocol", "this is no URL"),
)
"""The first that fits is what an exception is."""

_PRIVATE: Final = 4000
"""The first of the codes that applications make up: many take 4000 and a status of HTTP."""

_KEEPALIVE: Final = "keepalive ping timeout"


def describe(request: Request) -> str:
    """The request in a few words, without what may hold a secret: headers, body, and the URL's query."""
    scheme = "wss" if request.scheme == "https" else "ws"
    return f"{scheme}://{request.host}{request.path.partition('?')[0]}"


def connect_error(error: Exception, request: Request, max_error_bytes: int) -> TransportError | None:
    """The error of a connection that did not come about; `None` for what is no business of the network."""
    where = describe(request)
    if isinstance(error, InvalidStatus):
        return _refused(error, where, max_error_bytes)
    found = next((told for base, *told in _NOT_OPENED if isinstance(error, base)), None)
    if found is None:
        return None
    kind, what = found
    if isinstance(error, InvalidMessage) and isinstance(error.__cause__, EOFError):
        kind, what = "stream", "the peer hung up in the handshake"
    # What a proxy is called may hold its password.
    told = type(error).__name__ if isinstance(error, InvalidProxy) else _describe_error(error, request)
    return TransportError(kind, f"{where}: {what} ({told})")


def _refused(error: InvalidStatus, where: str, max_error_bytes: int) -> TransportError:
    """The error of a handshake that was answered with another status than 101."""
    response = error.response
    headers = Headers(list(response.headers.raw_items()))
    msg = refusal_message(where, response.status_code, response.reason_phrase, headers)
    body = bytes(response.body or b"")[:max_error_bytes]
    if is_success(response.status_code):
        return TransportError("protocol", f"{msg}: it answers, and does not speak WebSocket here", body=body)
    return TransportError("status", msg, status=response.status_code, headers=headers, body=body)


def closed_error(error: ConnectionClosed, request: Request) -> TransportError:
    """The error of a connection that ended within a turn, whatever its end says: the turn is not whole."""
    where, sent, received = describe(request), error.sent, error.rcvd
    if received is None or (sent is not None and not error.rcvd_then_sent):
        kind, what = _ended_here(sent)
        return TransportError(kind, f"{where}: {what}")
    reason = _clean(received.reason, request)
    told = f"{received.code} {reason}".rstrip()
    if received.code in _NOT_UNDERSTOOD:
        return TransportError("protocol", f"{where}: the peer did not understand and closed the connection ({told})")
    status = _STATUSES.get(received.code)
    if status is None and 400 <= received.code - _PRIVATE < 600:  # noqa: PLR2004 - RFC 9110, section 15
        status = received.code - _PRIVATE
    msg = f"{where}: the peer closed the connection within the turn ({told})"
    if status is None:
        return TransportError("stream", msg)
    return TransportError("status", msg, status=status, body=reason.encode())


def _ended_here(sent: Close | None) -> tuple[str, str]:
    """The kind of an end that the peer did not announce, and what it is."""
    if sent is None:
        return "stream", "the connection broke within the turn (1006)"
    if sent.code == CloseCode.NORMAL_CLOSURE:
        return "stream", "the transport was closed within the turn"
    if sent.reason == _KEEPALIVE:
        return "timeout", "nothing came in time, no answer to a ping either"
    if sent.code == CloseCode.MESSAGE_TOO_BIG:
        what = f"a message is longer than allowed ({sent.reason}); raise max_message_bytes if the peer may send such"
        return "protocol", what
    if sent.code in _NOT_UNDERSTOOD:
        return "protocol", f"this is not how a WebSocket goes on ({sent.code} {sent.reason})"
    return "stream", f"the connection broke within the turn ({sent.code})"


def _describe_error(error: BaseException, request: Request) -> str:
    """What an error says, without what it says about the request."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return f"{name}: {text}" if text and not _quotes(text, request) else name


def _clean(text: str, request: Request) -> str:
    """What a peer says, unless it says what was told in confidence."""
    return "" if _quotes(text, request) else text


def _quotes(text: str, request: Request) -> bool:
    query = request.path.partition("?")[2]
    values = [item.partition("=")[2] for item in query.split("&")]
    secrets = [query, *values, *[value for _, value in request.headers if len(value) > 3]]  # noqa: PLR2004 - what is shorter is none
    return any(secret and (secret in text or secret.rpartition(" ")[2] in text) for secret in secrets)
