"""The translation of httpx's exceptions to `TransportError`.

They are recognized by the names of their classes. The exceptions of httpx2 have the same names and are other classes,
so a client of httpx2 is supported without an import of that package.
"""

from __future__ import annotations

import sys
from typing import final

from chat_core.errors import TransportError
from chat_core.transport import Request
from chat_core.transport.http import ErrorTranslation, describe

_PACKAGES = frozenset({"httpx", "httpx2", "zlib"})
_KINDS = {
    "TimeoutException": "timeout",
    "ConnectError": "connect",
    "ProxyError": "connect",
    "NetworkError": "stream",
    "RemoteProtocolError": "stream",
    "LocalProtocolError": "protocol",
    "UnsupportedProtocol": "protocol",
    "error": "protocol",  # zlib.error: the body is not compressed as it says
    "InvalidURL": "protocol",
    "RequestError": "stream",
}


@final
class HttpxErrorTranslation(ErrorTranslation):
    """A context in which httpx's exceptions become `TransportError`."""

    __slots__ = ("_handled",)

    def __init__(self, request: Request, *, response_started: bool) -> None:
        super().__init__(request, response_started=response_started)
        self._handled: BaseException | None = None

    def __enter__(self) -> None:
        # Where the caller is in an `except` of its own, everything raised from here on has that as its context.
        self._handled = sys.exception()

    def translate(self, error: BaseException) -> TransportError | None:
        """Return the error to raise in place of an exception of httpx; `None` if it is not one."""
        name = _known_name(type(error))
        if name is None:
            return None
        kind = _KINDS[name]
        if name == "LocalProtocolError":
            # Its text, and that of its cause, may quote a header.
            return TransportError(kind, f"{describe(self.request)}: the request cannot be written as HTTP")
        if name == "RemoteProtocolError" and not self.response_started and self._is_not_http(error):
            kind = "protocol"
        return self.transport_error(kind, f"{type(error).__name__}: {self._text(error)}", error)

    def _reason(self, error: BaseException) -> BaseException | None:
        """Return the cause or context of an error, unless it is what the caller was handling."""
        reason = error.__cause__ or error.__context__
        return None if reason is self._handled else reason

    def _text(self, error: BaseException) -> str:
        """Return the text of an error or of the first reason that has one: a failed handshake on trio has none."""
        reason: BaseException | None = error
        while reason is not None:
            text = str(reason)
            if text:
                return text
            reason = self._reason(reason)
        return "no reason given"

    def _is_not_http(self, error: BaseException) -> bool:
        """Return whether the peer sent bytes that are not HTTP, rather than just ended the connection.

        A peer that hangs up is reported by the HTTP layer itself; what cannot be parsed has the parser's error behind
        that. The pool drops that as a cause (`from None`), not as the context.
        """
        cause = error.__cause__
        return cause is not None and self._reason(cause) is not None


def _known_name(kind: type[BaseException]) -> str | None:
    """Return the most specific name in `_KINDS` that an exception class has, if it is one of httpx's."""
    for base in kind.__mro__:
        if base.__name__ in _KINDS and base.__module__.partition(".")[0] in _PACKAGES:
            return base.__name__
    return None
