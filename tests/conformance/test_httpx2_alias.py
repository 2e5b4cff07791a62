"""`httpx2.alias_httpx()` replaces httpx by httpx2 in the whole process."""

from __future__ import annotations

import subprocess
import sys


def test_clients_are_accepted_if_httpx_is_an_alias_of_httpx2() -> None:
    program = """
import asyncio, httpx2
httpx2.alias_httpx()
import httpx
assert httpx is httpx2
from chat_testing import LoopbackServer
from chat_core.transport import Request
from chat_transport_httpx import HttpxTransport

async def ask(transport, host):
    response = await transport.send(Request("POST", "http", host, "/", (), b"{}"))
    await transport.aclose()
    return response.body.decode()

async def main(host):
    async with httpx2.AsyncClient() as client:
        print(await ask(HttpxTransport(client), host))
    print(await ask(HttpxTransport(), host))

with LoopbackServer(lambda exchange: exchange.answer(200, {}, exchange.body)) as server:
    asyncio.run(main(server.host))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["{}", "{}"], "")
