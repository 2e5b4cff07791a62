"""Script that renders chat-page.png and chat-page-phone.png: the chat page of a service with a scripted model.

python docs/assets/chat_page.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, sync_playwright

ASSETS: Final = Path(__file__).parent
ARGUMENTS: Final = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PROGRAM: Final = '''
import chat_service.__main__ as command
from chat_agents import PromptFlow
from chat_core import FunctionCall, RequireApproval, ScopedCollection, ToolCollection
from chat_core.testing import ScriptedProvider

tools = ToolCollection()


@tools.tool
def transfer(to: str, cents: int, urgent: bool = False) -> str:
    """Send money to somebody."""
    return f"sent {cents} cents to {to}"


ANSWER = """The order has **two** open invoices:

| invoice | supplier | amount |
|---|---|---|
| 1041 | Maria Gonçalves, flowers | 40.00 € |
| 1042 | Bo Berg, vases | 12.50 € |

Shall I pay one of them?"""
call = FunctionCall("transfer", {"to": "Maria Gonçalves", "cents": 4000, "urgent": False})
model = ScriptedProvider(ANSWER, ["I will pay invoice `1041`.", call], "It is paid.", by_history=True)
command.model = lambda name: model
command._FLOW = PromptFlow("clerk", "", [ScopedCollection(tools, lambda call, meta: RequireApproval())])
command.main(["--port", "0", "--person", "ana"])
'''


def main() -> None:
    """Serve the page, ask two questions, and take two screenshots."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", PROGRAM]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - a fixed command
            assert process.stdout is not None  # noqa: S101 - created with a pipe
            try:
                address = process.stdout.readline().split()[-1]
                with sync_playwright() as playwright:
                    path = os.environ.get("CHAT_CHROMIUM") or shutil.which("chromium")
                    browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
                    take(browser, address, 1000, "light", ASSETS / "chat-page.png")
                    take(browser, address, 390, "dark", ASSETS / "chat-page-phone.png")
                    browser.close()
            finally:
                process.terminate()


def take(browser: Browser, address: str, width: int, scheme: Literal["dark", "light"], picture: Path) -> None:
    """Save a screenshot of a new session to the file `picture`."""
    page = browser.new_page(viewport={"width": width, "height": 900}, device_scale_factor=1.5, color_scheme=scheme)
    page.goto(address)
    for question, shown in (
        ("Which invoices are open?", "Shall I pay"),
        ("Pay Maria, please.", "waits for your approval"),
    ):
        page.get_by_label("Message").fill(question)
        page.get_by_label("Message").press("Enter")
        page.get_by_text(shown).wait_for()
        page.get_by_role("button", name="Send").wait_for()
    page.screenshot(path=picture)
    page.close()


if __name__ == "__main__":
    main()
