"""The TLS context that all connections of a transport share."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from typing import Generic, TypeVar, final

DefaultT = TypeVar("DefaultT")


@final
class TlsContext(Generic[DefaultT]):
    """The TLS context of a transport, created on first use because loading CA certificates is slow.

    The object is safe to use from several threads.

    Args:
        verify: a context, the path of a CA bundle, or whether to verify certificates.
        make: function that creates the context from `verify` if `verify` is a boolean.
    """

    __slots__ = ("_context", "_lock", "_make", "_verify")

    def __init__(
        self,
        verify: ssl.SSLContext | str | bool,  # noqa: FBT001 - the name of the transports' own argument
        make: Callable[[bool], DefaultT],
    ) -> None:
        self._verify = verify
        self._make = make
        self._context: ssl.SSLContext | DefaultT | None = None
        self._lock = threading.Lock()

    def get(self) -> ssl.SSLContext | DefaultT:
        """Return the context; the first call creates it."""
        with self._lock:
            if self._context is None:
                self._context = self._create_context()
            return self._context

    def _create_context(self) -> ssl.SSLContext | DefaultT:
        if isinstance(self._verify, ssl.SSLContext):
            return self._verify
        if isinstance(self._verify, str):
            return ssl.create_default_context(cafile=self._verify)
        return self._make(self._verify)
