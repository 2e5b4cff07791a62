"""From httpx's exceptions to `TransportError`: the one place where they are translated.

They are told apart by the names of their classes, so that a client of httpx2, whose exceptions have the same names and
are other objects, is understood as well, and nobody imports that who does not use it.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import final

from chat_core.errors import TransportError
from chat_core.transport import Request

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
_WHAT = {
    "connect": "no connection",
    "stream": "the connection broke",
    "timeout": "nothing came in time",
    "protocol": "this is not the HTTP that was expected",
}


def describe(request: Request) -> str:
    """The request in a few words, without what may hold a secret: headers, body, the URL's query, and its user."""
    host, path = request.host.rpartition("@")[2], request.path.partition("?")[0]
    return f"{request.method} {request.scheme}://{host}{path}"


@final
class Translating:
    """A context in which httpx's exceptions become `TransportError`. Entering it is cheap; one serves a body.

    Args:
        request: what was asked, for the message.
        answered: whether an answer had begun. Nonsense in place of an answer is another protocol; nonsense behind its
            beginning is a connection that broke.
    """

    __slots__ = ("_answered", "_handled", "_request")

    def __init__(self, request: Request, *, answered: bool) -> None:
        self._request = request
        self._answered = answered
        self._handled: BaseException | None = None

    def __enter__(self) -> None:
        # Where the caller is in an `except` of its own, everything raised from here on has that as its context.
        self._handled = sys.exception()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, StopAsyncIteration):
            return
        name = _name(type(error))
        if name is None:
            return
        what = _KINDS[name]
        if name == "LocalProtocolError":
            # Its text, and that of its cause, may quote a header.
            msg = f"{describe(self._request)}: the request cannot be written as HTTP"
            raise TransportError(what, msg) from None
        if name == "RemoteProtocolError" and not self._answered and self._is_nonsense(error):
            what = "protocol"
        msg = f"{describe(self._request)}: {_WHAT[what]} ({type(error).__name__}: {self._text(error)})"
        raise TransportError(what, msg) from error

    def _reason(self, error: BaseException) -> BaseException | None:
        """What is behind an error, and is not just what the caller was handling."""
        reason = error.__cause__ or error.__context__
        return None if reason is self._handled else reason

    def _text(self, error: BaseException) -> str:
        """What the error says, or what is behind it, where it says nothing: a failed handshake on trio does not."""
        reason: BaseException | None = error
        while reason is not None:
            text = str(reason)
            if text:
                return text
            reason = self._reason(reason)
        return "no reason given"

    def _is_nonsense(self, error: BaseException) -> bool:
        """Whether there were bytes that are not HTTP, and not just an end of the connection.

        A peer that hangs up is reported by the HTTP layer itself; what cannot be parsed has the parser's error behind
        that. The pool drops that as a cause (`from None`), not as the context.
        """
        cause = error.__cause__
        return cause is not None and self._reason(cause) is not None


def _name(kind: type[BaseException]) -> str | None:
    """The most specific of the known names that this exception has, if it is one of httpx's."""
    for base in kind.__mro__:
        if base.__name__ in _KINDS and base.__module__.partition(".")[0] in _PACKAGES:
            return base.__name__
    return None
