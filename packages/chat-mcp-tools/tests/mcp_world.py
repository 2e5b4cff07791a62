"""Servers, and a chat that calls their tools."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

import anyio
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
)
from chat_core.messages import Messages, Tool
from chat_core.testing import ScriptedProvider
from chat_mcp_tools import HttpServer, McpAnnotations, StdioServer

SERVER = str(Path(__file__).with_name("server.py"))
PATIENCE = 120.0


def stdio(folder: Path) -> StdioServer:
    return StdioServer(sys.executable, [SERVER, "stdio", str(folder)], name="toolbox")


def odd(folder: Path, **schemas: object) -> StdioServer:
    """Return a server whose tools have these schemas."""
    (folder / "schemas").write_text(json.dumps(schemas))
    return StdioServer(sys.executable, [SERVER, "odd", str(folder)], name="odd")


@contextmanager
def http(folder: Path) -> Generator[HttpServer]:
    process = subprocess.Popen([sys.executable, SERVER, "http", str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        try:
            port = json.loads(process.stdout.readline())["port"]
            yield HttpServer(f"http://127.0.0.1:{port}/mcp", name="toolbox")
        finally:
            process.kill()
            process.wait(PATIENCE)


@final
@dataclass(frozen=True)
class Toolbox:
    """A server, and the folder in which it records its calls."""

    server: StdioServer | HttpServer
    folder: Path

    def notes(self) -> list[str]:
        return notes(self.folder)


def notes(folder: Path) -> list[str]:
    path = folder / "notes"
    return path.read_text().splitlines() if path.exists() else []


async def until_noted(folder: Path, line: str) -> None:
    with anyio.fail_after(PATIENCE):
        while True:
            if line in notes(folder):
                return
            await anyio.sleep(0.01)


def kill(folder: Path) -> None:
    """Kill the server process that was recorded last with `kill -9`."""
    pids = [int(line.split()[1]) for line in notes(folder) if line.startswith("pid")]
    os.kill(pids[-1], signal.SIGKILL)


def execute(_: FunctionCall, __: McpAnnotations) -> Execute:
    return Execute()


def careful(_: FunctionCall, meta: McpAnnotations) -> Execute | RequireApproval:
    return RequireApproval() if meta.destructive else Execute()


@final
@dataclass(frozen=True)
class Called:
    """A conversation in which a model made calls, and the resulting calls by the names of their tools."""

    messages: Messages
    outcome: ChatResponse | Paused

    @property
    def tools(self) -> dict[str, Tool]:
        return {tool.name: tool for content in self.messages for tool in content.tools}


def chat_of(
    tools: ToolCollection[McpAnnotations], *turns: Iterable[FunctionCall], ask: bool = False
) -> StreamingChat[ChatResponse, Paused]:
    """Return a chat whose model makes these calls, one list in each turn, and then answers."""
    model = ScriptedProvider(*[list(turn) for turn in turns], "Done.", by_history=True)
    scope = ScopedCollection(tools, careful if ask else execute)
    return ChatBuilder().with_model(model).with_scoped_tools(scope).with_interrupted(RequireApproval()).build()


async def run(tools: ToolCollection[McpAnnotations], *turns: Iterable[FunctionCall], ask: bool = False) -> Called:
    messages = Messages.from_user("Go on.")
    return Called(messages, await chat_of(tools, *turns, ask=ask).complete(messages))
