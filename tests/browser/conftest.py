"""A real browser, and inboxes that are served by processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from chat_core import FunctionCall
from chat_core.messages import Content, Messages, Text, Tool, Turn
from chat_store import SqliteStore
from playwright.sync_api import Browser, expect, sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
T = TypeVar("T")
PATIENCE = 60_000
"""Milliseconds until something that must happen has not happened."""
expect.set_options(timeout=PATIENCE)


def run(function: Callable[[], Awaitable[T]]) -> T:
    """Run it in a thread: this one has the event loop of the browser's driver."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(anyio.run, function).result()


@contextmanager
def run_server(module: str, *arguments: str) -> Generator[str]:
    """Run a module of this package as a process until the end of the block; yield the address that it prints."""
    command = [sys.executable, "-m", f"tests.browser.{module}", *arguments]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("http://"), "the server did not start"
            yield address
        finally:
            process.terminate()


@dataclass
class Place:
    """A store in a file, what was done outside of it, and the gate of the model."""

    folder: Path
    servers: ExitStack = field(default_factory=ExitStack)

    @property
    def ledger(self) -> list[str]:
        """Return the effects of the tool."""
        path = self.folder / "ledger"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def let(self, words: int) -> None:
        """Let the model continue by a number of words."""
        with (self.folder / "gate").open("a", encoding="utf-8") as gate:
            gate.write("word\n" * words)

    def serve(self, person: str) -> str:
        """Another process that serves the inbox, for this person; its address."""
        return self.servers.enter_context(self._served(person))

    def _served(self, person: str) -> AbstractContextManager[str]:
        paths = [str(self.folder / name) for name in ("chats.db", "ledger", "gate")]
        return run_server("inbox_server", *paths, person)

    @contextmanager
    def command(self) -> Generator[str]:
        """Run `python -m chat_inbox`; the address that it prints."""
        command = [sys.executable, "-m", "chat_inbox", "--store", "chats.db", "--port", "0", "--person", "ana"]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield process.stdout.readline().partition("The inbox is at ")[2].partition(" ")[0]
            finally:
                process.terminate()

    def ask(
        self,
        conversation: str = "chat-17",
        *calls: FunctionCall,
        request: str = "Please pay Maria 40 euros for the flowers.",
    ) -> None:
        """Store a conversation in which calls wait."""

        async def store() -> None:
            messages = Messages.from_user(request)
            asked = calls or (FunctionCall("transfer", {"to": "Maria", "cents": 4000, "speed": "slow"}, id="call_1"),)
            tools = [Tool(call, call_id=call.id) for call in asked]
            for tool in tools:
                tool.await_approval()
            messages.push(Content("model", [Turn([Text("Somebody has to allow it."), *tools])]))
            async with SqliteStore(self.folder / "chats.db") as store:
                await store.create(messages, id=conversation, person="ana@example.com")

        run(store)

    def decided_elsewhere(self, by: str, conversation: str = "chat-17", call: str = "call_1") -> None:
        """Reject the call, in this process."""

        async def decide() -> None:
            async with SqliteStore(self.folder / "chats.db") as store, store.open(conversation) as opened:
                opened.messages.tool(call).reject("not this month", by=by)

        run(decide)

    def messages(self, conversation: str = "chat-17") -> Messages:
        """The conversation, as it is stored."""

        async def load() -> Messages:
            async with SqliteStore(self.folder / "chats.db") as store:
                return (await store.load(conversation)).messages

        return run(load)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A store in which `call_1` of `chat-17` waits."""
    (tmp_path / "gate").touch()
    place = Place(tmp_path)
    place.ask()
    with place.servers:
        yield place


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The Chromium of this machine: the one that CHAT_CHROMIUM names, or the one on the path."""
    path = os.environ.get("CHAT_CHROMIUM") or shutil.which("chromium")
    if not path:
        pytest.fail("there is no Chromium on the path; on Debian, `apt-get install chromium` brings it", pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS, timeout=PATIENCE * 2)
        try:
            yield browser
        finally:
            browser.close()
