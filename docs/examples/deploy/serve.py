"""A service for several users, with its settings in a file and in environment variables.

It reads the configuration of the command `chat-service`, and the users from a file with token hashes. The sessions are
stored in PostgreSQL if DATABASE_URL is set, and in the SQLite file `server.store` otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from chat_agents import AgentEngine, PromptFlow
from chat_core import ChatError, UsageError
from chat_core.approvals import Principal, owner_may_decide
from chat_service import BearerTokens, Service, configure_logging
from chat_service.__main__ import create_engine, read_service_secret
from chat_service.config import Config
from chat_service.secret_values import Secrets
from chat_store import SqliteStore

if TYPE_CHECKING:
    from chat_store.postgres import PostgresStore


def read_tokens(path: Path) -> BearerTokens:
    """Read the users from a TOML file with lines such as `HASH = "ana"`."""
    names = tomllib.loads(path.read_text(encoding="utf-8"))
    if not names:
        msg = f"{path}: the file names no user, so nobody could sign in"
        raise UsageError(msg)
    return BearerTokens({token_hash: Principal(name) for token_hash, name in names.items()})


def create_store(config: Config) -> PostgresStore | SqliteStore:
    """Create the store that the settings select."""
    if database := os.environ.get("DATABASE_URL"):
        # Requires psycopg, which an installation with SQLite does not have.
        from chat_store.postgres import PostgresStore  # noqa: PLC0415 - see above

        return PostgresStore(database)
    return SqliteStore(config.get("server.store"))


async def serve(config: Config, engine: AgentEngine, tokens: BearerTokens, secret: bytes | None, host: str) -> None:
    """Serve until the process receives SIGTERM or SIGINT."""
    settings = config.service_settings()
    flow = PromptFlow("assistant", config.get("agent.system_prompt"))
    async with create_store(config) as store:
        app = Service(
            engine, flow, store, authenticate=tokens, may_decide=owner_may_decide, settings=settings, secret=secret
        )
        server = uvicorn.Config(
            app,
            host=host,
            port=config.get("server.port"),
            ws="websockets-sansio",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(settings.grace_seconds) + 5,
        )
        await uvicorn.Server(server).serve()
    await engine.chat(flow).aclose()


def main() -> None:
    """Read the options and the configuration, and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--tokens", type=Path, required=True, help="TOML file with a token hash and a name per user")
    options = parser.parse_args()
    secrets = Secrets()
    try:
        config = Config.load().require_valid()
        engine = create_engine(config, secrets)
        tokens, secret = read_tokens(options.tokens), read_service_secret(secrets)
    except (ChatError, OSError, tomllib.TOMLDecodeError) as error:
        sys.exit(str(error))
    configure_logging(config.get("log.format"), config.get("log.level"))
    asyncio.run(serve(config, engine, tokens, secret, options.host))


if __name__ == "__main__":
    main()
