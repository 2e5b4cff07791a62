"""Translation of the exceptions of httpx and httpcore into `TransportError`.

Exceptions are matched by class name. The classes of httpx2 have the same names, so this supports httpx2 clients without
importing that package.
"""

from __future__ import annotations

import sys
from typing import final

from chat_core.errors import TransportError
from chat_core.transport import Request
from chat_core.transport.http import ErrorTranslation, describe

_CORE_PACKAGES = frozenset({"httpcore", "httpcore2"})
_PACKAGES = _CORE_PACKAGES | {"httpx", "httpx2", "zlib"}
_KINDS = {
    "TimeoutException": "timeout",
    "ConnectError": "connect",
    "ProxyError": "connect",
    "NetworkError": "stream",
    "RemoteProtocolError": "stream",
    "LocalProtocolError": "protocol",
    "UnsupportedProtocol": "protocol",
    "error": "protocol",  # zlib.error: the body does not match its content-encoding
    "InvalidURL": "protocol",
    "RequestError": "stream",
}


@final
class HttpxErrorTranslation(ErrorTranslation):
    """Context manager that turns the exceptions of httpx and httpcore into `TransportError`."""

    __slots__ = ("_handled",)

    def __init__(self, request: Request, *, response_started: bool) -> None:
        super().__init__(request, response_started=response_started)
        self._handled: BaseException | None = None

    def __enter__(self) -> None:
        # If the caller is handling an exception, it becomes the context of everything raised from here on.
        self._handled = sys.exception()

    def translate(self, error: BaseException) -> TransportError | None:
        """Implement `ErrorTranslation.translate`."""
        if any(isinstance(inner, OverflowError) for inner in getattr(error, "exceptions", ())):
            # A group of anyio, which does not check ports. The port of a request has been checked.
            return self.transport_error("connect", "the port of the proxy is above 65535", None)
        name = _known_name(type(error))
        if name is None:
            return None
        kind = _KINDS[name]
        if name == "LocalProtocolError":
            # The messages of this error and its cause may quote a header.
            return TransportError(kind, f"{describe(self.request)}: the request is not valid HTTP; check its headers")
        if name == "RemoteProtocolError" and not self.response_started and self._is_not_http(error):
            kind = "protocol"
        return self.transport_error(kind, f"{type(error).__name__}: {self._first_message(error)}", error)

    def _next_cause(self, error: BaseException) -> BaseException | None:
        """Return the cause or context of an error, or None if that is the exception that the caller is handling."""
        reason = error.__cause__ or error.__context__
        return None if reason is self._handled else reason

    def _first_message(self, error: BaseException) -> str:
        """Return the first message in an error's chain of causes, because some errors have no message of their own."""
        reason: BaseException | None = error
        while reason is not None:
            text = str(reason)
            if text:
                return text
            reason = self._next_cause(reason)
        return "no reason given"

    def _is_not_http(self, error: BaseException) -> bool:
        """Return whether the peer sent invalid HTTP. Otherwise, it closed the connection.

        httpcore chains invalid data to the exception of its parser, and raises directly for a closed connection. The
        pool suppresses that chain (`from None`), but keeps the context.
        """
        core = error if _package(type(error)) in _CORE_PACKAGES else error.__cause__
        return core is not None and self._next_cause(core) is not None


def _package(kind: type[BaseException]) -> str:
    return kind.__module__.partition(".")[0]


def _known_name(kind: type[BaseException]) -> str | None:
    """Return the name of the closest base class in `_KINDS`, or None if the class is from another package."""
    for base in kind.__mro__:
        if base.__name__ in _KINDS and _package(base) in _PACKAGES:
            return base.__name__
    return None
