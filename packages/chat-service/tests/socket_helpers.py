"""A WebSocket client of the tests."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from service_helpers import ANA, WAIT, Client
from websockets.asyncio.client import ClientConnection, connect


class Socket:
    """A connection, and the messages that it has received."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.received: list[dict[str, Any]] = []

    async def send(self, kind: str, **fields: object) -> None:
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def receive(self) -> dict[str, Any]:
        with anyio.fail_after(WAIT):
            message: dict[str, Any] = json.loads(await self.connection.recv())
        self.received.append(message)
        return message

    async def until(self, kind: str, **fields: object) -> dict[str, Any]:
        """Receive messages up to one of a type with some fields, and return this one."""
        while True:
            message = await self.receive()
            if message["type"] == kind and fields.items() <= message.items():
                return message

    async def ask(self, kind: str, **fields: object) -> dict[str, Any]:
        """Send a message and return the next one that arrives."""
        await self.send(kind, **fields)
        return await self.receive()

    @property
    def text(self) -> str:
        return "".join([message["chunk"] for message in self.received if message["type"] == "chat_chunk"])

    @property
    def types(self) -> list[str]:
        return [message["type"] for message in self.received]


@asynccontextmanager
async def open_socket(
    client: Client, token: str | None = ANA, headers: Mapping[str, str] | None = None
) -> AsyncGenerator[Socket]:
    sent = {**({} if token is None else {"authorization": f"Bearer {token}"}), **(headers or {})}
    uri = f"ws://127.0.0.1:{client.port}/ws"
    async with connect(uri, additional_headers=sent, max_size=None, proxy=None, open_timeout=WAIT) as connection:
        yield Socket(connection)
