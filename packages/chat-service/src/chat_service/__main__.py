"""A command that serves an assistant with the local model on this machine: `python -m chat_service`."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Sequence

import anyio
import uvicorn
from chat_agents import AgentEngine, PromptFlow
from chat_core import ChatError, model
from chat_inbox import TokenSignIn
from chat_inbox.__main__ import listen
from chat_store import SqliteStore

from chat_service.service import Service

_FLOW = PromptFlow("assistant", "You are a helpful assistant.")


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line and serve an assistant until ctrl-C.

    Exits with a message if the model is not available or the port cannot be opened.
    """
    options = _create_parser().parse_args(argv)
    try:
        engine = AgentEngine(model(options.model))
    except ChatError as error:
        sys.exit(f"--model {options.model}: {error}")
    try:
        listener = listen(options.port)
    except OSError as error:
        sys.exit(f"--port {options.port}: {error}")
    with listener:
        anyio.run(_serve, listener, engine, options.store, options.person)


def _create_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="chat-service", description="Serve an assistant over HTTP on this machine.")
    parser.add_argument("--store", default="sessions.db", help="file of the sessions (default: sessions.db)")
    parser.add_argument("--model", default="local", help="name of the model, such as claude:… (default: local)")
    parser.add_argument("--port", type=int, default=8080, help="port of 127.0.0.1; 0 for a free one (default: 8080)")
    parser.add_argument("--person", default="owner", help="name of the user (default: owner)")
    return parser


async def _serve(listener: socket.socket, engine: AgentEngine, path: str, person: str) -> None:
    sign_in = TokenSignIn(person)
    async with SqliteStore(path) as store:
        service = Service(engine, _FLOW, store, authenticate=sign_in.authenticate, may_decide=sign_in.may_decide)
        # The sign-in checks the address of the socket, so uvicorn must not replace it with a proxy header.
        app = sign_in.protect(service)
        config = uvicorn.Config(
            app, log_level="warning", proxy_headers=False, server_header=False, ws="websockets-sansio"
        )
        address = sign_in.address(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        print(f"The chat page is at {address}", flush=True)  # noqa: T201
        print("Programs send the value of startup_token in the header Authorization: Bearer.", flush=True)  # noqa: T201
        print("The inbox is at /inbox, and the API is described at /docs. ctrl-C ends.", flush=True)  # noqa: T201
        await uvicorn.Server(config).serve(sockets=[listener])
    await engine.chat(_FLOW).aclose()


if __name__ == "__main__":
    main()
