"""A command that serves an assistant with the local model on this machine: `python -m chat_service`."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Sequence
from typing import Any, Final

import anyio
import uvicorn
from chat_agents import AgentConfig, AgentEngine, PromptFlow
from chat_core import ChatError, ChatOptions, UsageError, model
from chat_inbox import TokenSignIn
from chat_inbox.__main__ import listen, require_readable
from chat_store import SqliteStore

from chat_service.config import Config
from chat_service.config_command import add_commands, run_command
from chat_service.config_keys import SECRET_KEY
from chat_service.request_log import configure_logging
from chat_service.secret_values import Secrets
from chat_service.service import Service

_MIN_SECRET_BYTES: Final = 32


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line, then run the given subcommand, or serve an assistant until ctrl-C.

    Exits with a message if the configuration is wrong, the model is not available, the port cannot be opened or the
    store cannot be read.
    """
    options = _create_parser().parse_args(argv)
    if options.command is not None:
        sys.exit(run_command(options))
    names = {"llm.model": options.model, "server.port": options.port, "server.person": options.person}
    overrides = {**names, "server.store": options.store}
    secrets = Secrets(lambda: Config.load(overrides))
    try:
        config = Config.load(overrides).require_valid()
        engine = create_engine(config, secrets)
        secret = read_service_secret(secrets)
    except ChatError as error:
        sys.exit(str(error))
    configure_logging(config.get("log.format"), config.get("log.level"))
    try:
        listener = listen(config.get("server.port"))
    except OSError as error:
        sys.exit(f"--port {config.get('server.port')}: {error}")
    with listener:
        anyio.run(_serve, listener, engine, config, secret)


def create_engine(config: Config, secrets: Secrets) -> AgentEngine:
    """Create the engine that a configuration describes.

    Args:
        config: the configuration.
        secrets: the secrets. The key of the model is read for each of its requests.

    Raises:
        UsageError: the model is not available.
    """
    profile = config.profile()
    name, base_url = config.get(f"{profile}.model"), config.get(f"{profile}.base_url")
    settings: dict[str, Any] = {} if base_url is None else {"base_url": base_url}
    if secrets.read(f"{profile}.api_key") is not None:
        settings["api_key"] = secrets.getter(f"{profile}.api_key")
    try:
        provider = model(name, **settings)
    except (ChatError, TypeError) as error:
        msg = f"--model {name}: {error}"
        raise UsageError(msg) from error
    options = ChatOptions(max_tokens=config.get("agent.max_tokens"))
    return AgentEngine(provider, AgentConfig(max_tool_rounds=config.get("agent.max_iterations"), options=options))


def read_service_secret(secrets: Secrets) -> bytes | None:
    """Return the secret that signs exports and forms, or `None` if it is not set.

    Args:
        secrets: the secrets of the configuration.

    Raises:
        UsageError: the secret is too short.
    """
    found = secrets.read(SECRET_KEY)
    if found is None:
        return None
    secret, origin = found[0].encode(errors="surrogateescape"), found[1]  # a variable may contain any bytes
    if len(secret) < _MIN_SECRET_BYTES:
        msg = f"{origin}: {SECRET_KEY} has {len(secret)} bytes, but needs {_MIN_SECRET_BYTES}"
        raise UsageError(msg)
    return secret


def _create_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="chat-service", description="Serve an assistant over HTTP on this machine.")
    parser.add_argument("--store", help="file of the sessions (default: sessions.db)")
    parser.add_argument("--model", help="name of the model, such as claude:… (default: local)")
    parser.add_argument("--port", type=int, help="port of 127.0.0.1; 0 for a free one (default: 8080)")
    parser.add_argument("--person", help="name of the user (default: owner)")
    add_commands(parser)
    return parser


async def _serve(listener: socket.socket, engine: AgentEngine, config: Config, secret: bytes | None) -> None:
    sign_in = TokenSignIn(config.get("server.person"))
    flow = PromptFlow("assistant", config.get("agent.system_prompt"))
    path = config.get("server.store")
    async with SqliteStore(path) as store:
        await require_readable(store, path)
        service = Service(
            engine,
            flow,
            store,
            authenticate=sign_in.authenticate,
            may_decide=sign_in.may_decide,
            settings=config.service_settings(),
            secret=secret,
        )
        # The sign-in checks the address of the socket, so uvicorn must not replace it with a proxy header.
        app = sign_in.protect(service)
        server = uvicorn.Config(
            app, log_config=None, access_log=False, proxy_headers=False, server_header=False, ws="websockets-sansio"
        )
        address = sign_in.address(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        print(f"The chat page is at {address}", flush=True)  # noqa: T201 - the output of a command
        print("Programs send the value of startup_token in the header Authorization: Bearer.", flush=True)  # noqa: T201 - the output of a command
        print("The inbox is at /inbox, and the API is described at /docs. ctrl-C ends.", flush=True)  # noqa: T201 - the output of a command
        await uvicorn.Server(server).serve(sockets=[listener])
    await engine.chat(flow).aclose()


if __name__ == "__main__":
    main()
