"""The package of the clients that the transport creates: httpx2 if it is installed, otherwise httpx."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

PROGRAM = """
import asyncio, sys

if {hidden!r}:
    sys.modules[{hidden!r}] = None
from chat_testing.loopback import LoopbackServer
from chat_core.transport import Request
from chat_transport_httpx import HttpxTransport

async def main(host):
    transport = HttpxTransport()
    response = await transport.send(Request("POST", "http", host, "/", (), b"hello"))
    await transport.aclose()
    imported = [name for name in ("httpx", "httpx2") if sys.modules.get(name) is not None]
    print(response.body.decode(), *imported)

with LoopbackServer(lambda exchange: exchange.answer(200, {{}}, exchange.body)) as server:
    asyncio.run(main(server.host))
"""


@pytest.mark.parametrize("hidden", ["", "httpx2"], ids=["both", "httpx-alone"])
def test_a_transport_imports_and_uses_only_the_newest_installed_package(hidden: str) -> None:
    used = "httpx" if hidden or find_spec("httpx2") is None else "httpx2"

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(hidden=hidden)], capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == (f"hello {used}\n", "")
