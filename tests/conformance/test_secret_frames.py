"""Stack frames of failed requests contain no credentials, because error trackers record local variables."""

from __future__ import annotations

import socket
from collections.abc import Callable
from traceback import walk_tb

import httpx
import pytest
from chat_core.errors import TransportError
from chat_core.transport import Request, Transport
from chat_transport_aiohttp import AiohttpTransport
from chat_transport_httpx import HttpxTransport
from chat_transport_websockets import WebSocketTransport

pytestmark = pytest.mark.anyio
SECRET = "sk-in-no-frame"
TRANSPORTS: dict[str, Callable[[], Transport]] = {
    "httpx": lambda: HttpxTransport(verify=False, trust_env=False),
    "httpx-client": lambda: HttpxTransport(httpx.AsyncClient(verify=False)),  # noqa: S501 - nothing is sent
    "aiohttp": lambda: AiohttpTransport(trust_env=False),
    "websockets": lambda: WebSocketTransport(trust_env=False),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def frames_with_secret(error: BaseException) -> list[str]:
    """Return the functions in the tracebacks of an error and its causes whose local variables contain the secret."""
    found: list[str] = []
    current: BaseException | None = error
    while current is not None:
        for frame, _ in walk_tb(current.__traceback__):
            if frame.f_globals["__name__"] != __name__ and any(SECRET in repr(v) for v in frame.f_locals.values()):
                found.append(frame.f_code.co_qualname)
        current = current.__cause__ or current.__context__
    return found


@pytest.mark.parametrize("name", TRANSPORTS)
@pytest.mark.parametrize("header", [SECRET, f"{SECRET}\n"], ids=["refused", "invalid"])
async def test_the_frames_of_a_failed_connection_contain_no_credentials(name: str, header: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{closed.getsockname()[1]}"
        request = Request("POST", "http", host, f"/v1?key={SECRET}", (("x-api-key", header),), b"{}")
        transport = TRANSPORTS[name]()
        errors: list[TransportError] = []
        with pytest.raises(TransportError) as caught:
            await transport.send(request)
        errors.append(caught.value)
        with pytest.raises(TransportError) as caught:
            async with transport.stream(request):
                pass
        errors.append(caught.value)
        await transport.aclose()

    assert [frames_with_secret(error) for error in errors] == [[], []]
    assert {error.kind for error in errors} == {"connect" if header == SECRET else "protocol"}
