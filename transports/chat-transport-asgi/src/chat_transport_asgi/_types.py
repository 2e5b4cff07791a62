"""What an application and its server say to each other (ASGI 3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
"""What a call of the application is about."""

Message: TypeAlias = MutableMapping[str, Any]
"""One thing that is said."""

Receive: TypeAlias = Callable[[], Awaitable[Message]]
"""How the application hears what comes."""

Send: TypeAlias = Callable[[Message], Awaitable[None]]
"""How the application says what it has to say."""

AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An application."""

VERSIONS: Final = {"version": "3.0", "spec_version": "2.4"}
