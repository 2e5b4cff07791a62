"""Fixtures that run each test with the transport's own client and with a passed client of each package."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from chat_transport_httpx import HttpxTransport
from client_packages import NAMES, PACKAGES

# Reading the roots of trust takes longer than a test.
TLS = ssl.create_default_context()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["own", *NAMES])
def opened(request: pytest.FixtureRequest) -> Callable[..., AbstractAsyncContextManager[HttpxTransport]]:
    """Open a transport with settings, and close it and its client when the block exits."""

    @asynccontextmanager
    async def opened(
        *, http2: bool = False, proxy: str | None = None, verify: ssl.SSLContext = TLS, **settings: Any
    ) -> AsyncGenerator[HttpxTransport]:
        if request.param == "own":
            transport = HttpxTransport(http2=http2, proxy=proxy, verify=verify, **settings)
            try:
                yield transport
            finally:
                await transport.aclose()
        else:
            package = PACKAGES[NAMES.index(request.param)]
            async with package.AsyncClient(http2=http2, proxy=proxy, verify=verify) as client:
                yield HttpxTransport(client, **settings)

    return opened
