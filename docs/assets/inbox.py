"""Script that renders inbox-list.png and inbox.png: a tool call waiting for approval, in a local browser.

python docs/assets/inbox.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

ASSETS: Final = Path(__file__).parent
ARGUMENTS: Final = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]

PROGRAM: Final = '''
import anyio
from datetime import timedelta
from typing import Annotated, Literal

from chat_core import *
from chat_core.testing import ScriptedProvider
from chat_store import SqliteStore
from pydantic import Field

tools = ToolCollection()


@tools.tool()
def transfer(
    to: Annotated[str, Field(description="Who gets it.")],
    cents: Annotated[int, Field(gt=0, description="In cents of a euro.")],
    speed: Literal["in a day", "at once"] = "in a day",
) -> str:
    """Send money to somebody."""
    return f"sent {cents} cents to {to}"


def policy(call, meta):
    return RequireApproval(expires_in=timedelta(hours=24, seconds=30))


request = FunctionCall("transfer", {"to": "Maria Gonçalves", "cents": 4000}, id="call_1")
model = ScriptedProvider(["I can send Maria her 40 euros. Somebody has to allow it first.", request], by_history=True)
chat = ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, policy)).build()


async def ask():
    async with SqliteStore("chats.db") as store, store.open("flowers", person="ana@example.com") as conversation:
        conversation.messages.user("The flowers have come. Please pay Maria 40 euros for them.")
        await chat.complete(conversation)


if __name__ == "__main__":
    anyio.run(ask)
'''


def main() -> None:
    """Create a pending call, serve the inbox and take a screenshot."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "flowers.py").write_text(PROGRAM, encoding="utf-8")
        subprocess.run([sys.executable, "flowers.py"], cwd=folder, check=True)
        command = [sys.executable, "-m", "chat_inbox", "--store", "chats.db", "--chat", "flowers:chat"]
        command += ["--port", "0", "--person", "ana@example.com"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - a fixed command
            assert process.stdout is not None  # noqa: S101 - created with a pipe
            try:
                take(process.stdout.readline().partition("The inbox is at ")[2].partition(" ")[0])
            finally:
                process.terminate()


def take(address: str) -> None:
    """Save screenshots of the list at `address`, which signs in, and of the conversation."""
    path = os.environ.get("CHAT_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 900, "height": 400}, device_scale_factor=1.5)
        page.goto(address)
        page.screenshot(path=ASSETS / "inbox-list.png", full_page=True)
        page.get_by_role("link", name="transfer").click()
        page.get_by_role("heading", name="flowers").wait_for()
        page.screenshot(path=ASSETS / "inbox.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
