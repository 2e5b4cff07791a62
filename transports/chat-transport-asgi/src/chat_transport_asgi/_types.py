"""Types of the ASGI 3 interface."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
"""The connection scope."""

Message: TypeAlias = MutableMapping[str, Any]
"""An event that `Receive` returns or `Send` accepts."""

Receive: TypeAlias = Callable[[], Awaitable[Message]]
"""The callable that returns the next event for the application."""

Send: TypeAlias = Callable[[Message], Awaitable[None]]
"""The callable that sends an event of the application."""

AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI 3 application."""

VERSIONS: Final = {"version": "3.0", "spec_version": "2.4"}
