"""Settings for MCP servers, and functions that connect to them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, final
from urllib.parse import urlsplit

from chat_core.arguments import require_items, require_name, require_optional_text, require_path, require_text_fields
from chat_core.errors import UsageError
from mcp import StdioServerParameters, stdio_client
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client

from chat_mcp_tools._http_client import MAX_RETRIES, SessionClient
from chat_mcp_tools._readable_stream import ReadableStream
from chat_mcp_tools._response_limit import MAX_RESPONSE_BYTES, limit_response


@final
@dataclass(frozen=True, slots=True)
class StdioServer:
    """An MCP server that runs as a child process. Its stderr output goes to the stderr of this process.

    Args:
        command: program to run.
        args: command line arguments for the program.
        env: environment variables in addition to `HOME`, `PATH` and similar variables. The server does not inherit the
            environment of this process, which may contain secrets.
        cwd: working directory.
        name: name in metadata and errors. Default: the command line.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = field(default=None, repr=False)
    cwd: str | Path | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.args, str):
            msg = f"StdioServer() needs a list of arguments, such as [{self.args!r}], not {self.args!r}"
            raise UsageError(msg)
        require_name("command", self.command)
        require_items("args", self.args, str, "a list of strings, such as ['server.py']")
        if self.env is not None:
            require_text_fields("env", self.env)
        if self.cwd is not None:
            require_path("cwd", self.cwd)
        require_optional_text(name=self.name)

    @property
    def label(self) -> str:
        """The server's name for error messages and metadata."""
        return self.name or " ".join([self.command, *self.args])


@final
@dataclass(frozen=True, slots=True)
class HttpServer:
    """An MCP server that is reached over streamable HTTP.

    Args:
        url: URL of the endpoint.
        headers: sent with every request, such as `Authorization`. Errors and `repr()` do not contain them.
        name: name in metadata and errors. Default: the URL without credentials and query.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not _is_http_url(self.url):
            # The message does not contain the value, which may hold a secret.
            msg = "HttpServer() needs the URL of an endpoint, http://host… or https://host…"
            raise UsageError(msg)
        if self.headers is not None:
            require_text_fields("headers", self.headers)
        require_optional_text(name=self.name)

    @property
    def label(self) -> str:
        """The server's name for error messages and metadata."""
        if self.name:
            return self.name
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


McpServer: TypeAlias = StdioServer | HttpServer


def connect(
    server: McpServer, max_response_bytes: int = MAX_RESPONSE_BYTES, max_retries: int = MAX_RETRIES
) -> Transport:
    """Return a context manager that opens a transport to `server`. It can be entered only once.

    Args:
        server: the program to start (`StdioServer`), or the endpoint to connect to (`HttpServer`).
        max_response_bytes: limit on a response over HTTP.
        max_retries: number of retries of the handshake and of the list of tools over HTTP.
    """
    if isinstance(server, StdioServer):
        return _start_process(server)
    return _open_http(server, max_response_bytes, max_retries)


@asynccontextmanager
async def _start_process(server: StdioServer) -> AsyncGenerator[Any]:
    parameters = StdioServerParameters(
        command=server.command,
        args=list(server.args),
        env=None if server.env is None else dict(server.env),
        cwd=server.cwd,
    )
    # Not `sys.stderr`: notebooks and tests replace it with objects that have no file descriptor.
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: ASYNC230, PTH123 - opened at once
        async with stdio_client(parameters, errlog=sys.__stderr__ or nowhere) as (received, sent):
            yield ReadableStream(received), sent


_LOGGERS = ("httpx2", "mcp.client.streamable_http")
"""Loggers of the SDK and of its HTTP client that write the URL of a server."""


@final
class _SecretFilter(logging.Filter):
    """Log filter that removes the credentials in a server's URL from log records."""

    def __init__(self, url: str) -> None:
        super().__init__()
        parts = urlsplit(url)
        user = parts.netloc.rpartition("@")[0]
        self._secrets = [text for text in (parts.query, user) if text]

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace credentials in the message of a record. Return True, because no record is dropped."""
        message = record.getMessage()
        if any(secret in message for secret in self._secrets):
            for secret in self._secrets:
                message = message.replace(secret, "…")
            record.msg, record.args = message, None
        return True


@contextmanager
def _hide_credentials(url: str) -> Generator[None]:
    """Remove the credentials in `url` from the log records of the SDK while the connection is open."""
    secret_filter = _SecretFilter(url)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(secret_filter)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(secret_filter)


@asynccontextmanager
async def _open_http(server: HttpServer, max_response_bytes: int, max_retries: int) -> AsyncGenerator[Any]:
    headers = None if server.headers is None else dict(server.headers)
    with _hide_credentials(server.url):
        async with SessionClient(headers, max_retries) as client:
            client.event_hooks = {"response": [limit_response(max_response_bytes)]}
            opened = streamable_http_client(server.url, http_client=client, max_sse_event_size=max_response_bytes)
            async with opened as streams:
                yield streams
