"""Service example: an agent over HTTP. A user asks for a payment, approves it, and receives the events of the run.

python docs/examples/service.py                  serves a chat page until ctrl-C
python docs/examples/service.py --unattended     plays one conversation with the service, and ends
python docs/examples/service.py --script         with a scripted model, which needs no weights
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import socket
import sys
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from chat_agents import AgentConfig, AgentEngine
from chat_core.approvals import owner_may_decide
from chat_inbox import TokenSignIn
from chat_service import Service
from chat_store import SqliteStore
from clerk import QUESTION, Clerk, open_model


async def read_events(client: httpx.AsyncClient, method: str, path: str, body: object = None) -> tuple[str, Any]:
    """Print the events of a stream, and return the name and the data of the last one."""
    name, data = "", None
    async with client.stream(method, path, json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                data = json.loads(line.removeprefix("data: "))
                sys.stdout.write(f"{name} {json.dumps(data)}\n")
    return name, data


async def converse(client: httpx.AsyncClient) -> bool:
    """Ask the agent, approve its calls until it answers, and return whether it has answered."""
    sys.stdout.write(f"{'':>60}ana: {QUESTION}\n")
    name, data = await read_events(client, "POST", "/api/v1/chat/stream", {"message": QUESTION})
    while name == "paused":
        approvals = [
            {"action": "approve", **{name: wait[name] for name in ("id", "arguments", "revision")}}
            for wait in data["waiting"]
        ]
        sys.stdout.write(f"{'':>60}ana approves {[wait['arguments'] for wait in data['waiting']]}\n")
        path = f"/api/v1/sessions/{data['session_id']}/decisions"
        decided = (await client.post(path, json={"decisions": approvals})).raise_for_status().json()
        name, data = await read_events(client, "GET", f"/api/v1/runs/{decided['run_id']}/events")
    return name == "done"


async def serve(folder: Path, port: int, *, script: bool, unattended: bool) -> int:
    """Serve the agent on 127.0.0.1, and return the exit status."""
    token = secrets.token_urlsafe(32)
    sign_in = TokenSignIn("ana", token)
    async with open_model(script=script) as (model, options), SqliteStore(folder / "sessions.db") as store:
        engine = AgentEngine(model, AgentConfig(options=options))
        service = Service(engine, Clerk(), store, authenticate=sign_in.authenticate, may_decide=owner_may_decide)
        app = sign_in.protect(service)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", proxy_headers=False, ws="websockets-sansio"))
        with socket.create_server(("127.0.0.1", port)) as listener:
            address = f"http://127.0.0.1:{listener.getsockname()[1]}"
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            if not unattended:
                sys.stdout.write(f"Open {sign_in.address(f'{address}/')}\n")
                sys.stdout.write(
                    f"Ask, for example: {QUESTION} The inbox is at /inbox, the API at /docs. ctrl-C ends.\n"
                )
                sys.stdout.flush()
                await serving
                return 0
            headers = {"authorization": f"Bearer {token}"}
            async with httpx.AsyncClient(base_url=address, headers=headers, timeout=300, trust_env=False) as client:
                is_answered = await converse(client)
            server.should_exit = True
            await serving
    return 0 if is_answered else 1


def main() -> int:
    """Run the example, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("service-demo"), help="folder of the stored sessions")
    parser.add_argument("--port", type=int, default=0, help="port of 127.0.0.1; a free one by default")
    parser.add_argument("--script", action="store_true", help="use a scripted model")
    parser.add_argument("--unattended", action="store_true", help="play one conversation with an approval, and end")
    flags = parser.parse_args()
    flags.folder.mkdir(parents=True, exist_ok=True)
    return asyncio.run(serve(flags.folder, flags.port, script=flags.script, unattended=flags.unattended))


if __name__ == "__main__":
    sys.exit(main())
