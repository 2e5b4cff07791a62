"""ASGI lifespan of an application: startup and shutdown."""

from __future__ import annotations

import logging
from typing import Final, final

import anyio
from chat_core.errors import TransportError

from chat_transport_asgi._types import VERSIONS, AsgiApp, Message

_LOGGER: Final = logging.getLogger("chat_transport_asgi")


@final
class Lifespan:
    """One lifespan of an ASGI application, from startup to shutdown, in a separate task.

    Attributes:
        state: the state that the application shares with its requests.
    """

    def __init__(self, app: AsgiApp) -> None:
        self.state: dict[str, object] = {}
        self._app = app
        self._asked = False
        self._failure: str | None = None
        self._begun = anyio.Event()
        self._closing = anyio.Event()
        self._ended = anyio.Event()
        self._running = anyio.CancelScope()

    async def run(self) -> None:
        """Call the application with the lifespan scope. Its exceptions are logged, and never raised by this method."""
        scope = {"type": "lifespan", "asgi": dict(VERSIONS), "state": self.state}
        try:
            with self._running:
                await self._app(scope, self._receive, self._send)
        except (Exception, SystemExit) as error:
            # An application without lifespan support may raise anything; by the specification, servers continue.
            level = logging.ERROR if self._begun.is_set() else logging.INFO
            _LOGGER.log(level, "the application raised in its lifespan", exc_info=error)
        finally:
            self._begun.set()
            self._ended.set()

    async def start(self) -> None:
        """Wait until the application has started, or has shown that it does not support the lifespan protocol.

        Raises:
            TransportError: with kind `connect`: the application reports a failed startup.
        """
        await self._begun.wait()
        if self._failure is not None:
            raise TransportError("connect", f"the application did not start: {self._failure}")

    async def stop(self) -> None:
        """Shut the application down and wait until it has ended. Canceling this call cancels the application."""
        self._closing.set()
        try:
            await self._ended.wait()
        finally:
            self._running.cancel()
            with anyio.CancelScope(shield=True):
                await self._ended.wait()

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "lifespan.startup"}
        await self._closing.wait()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "lifespan.startup.failed":
            self._failure = str(message.get("message", "")) or "no reason given"
        elif kind == "lifespan.shutdown.failed":
            _LOGGER.error("the shutdown of the application failed: %s", message.get("message", ""))
        elif kind not in {"lifespan.startup.complete", "lifespan.shutdown.complete"}:
            msg = f"the application sent {kind!r} in its lifespan"
            raise RuntimeError(msg)
        self._begun.set()
