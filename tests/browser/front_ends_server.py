"""The process that serves `docs/examples/front_ends`: `python -m tests.browser.front_ends_server GATE`.

The answer after the approval begins when the file GATE has a line.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from chat_core import (
    ChatBuilder,
    FunctionCall,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
)
from chat_core.testing import Answer, ScriptedProvider
from chat_inbox.__main__ import listen
from chat_store import MemoryStore

APP = Path(__file__).parents[2] / "docs" / "examples" / "front_ends" / "app.py"


def load_app() -> Any:
    """Import the example, which is not a package."""
    spec = importlib.util.spec_from_file_location("front_ends_example", APP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_chat(gate: Path) -> StreamingChat[object, Paused]:
    tools = ToolCollection()

    @tools.tool
    def pay(to: str, cents: int) -> str:
        """Pay somebody."""
        return f"paid {cents} cents to {to}"

    def policy(_call: FunctionCall, _meta: None) -> RequireApproval:
        return RequireApproval()

    async def gate_opens() -> None:
        while not await anyio.Path(gate).read_bytes():  # noqa: ASYNC110 - another process writes it
            await anyio.sleep(0.01)

    script = ScriptedProvider(
        ["I will pay Maria.", FunctionCall("pay", {"to": "Maria", "cents": 4000}, id="call_1")],
        Answer(["Maria has her money."], before=gate_opens),
        by_history=True,
    )
    return ChatBuilder().with_model(script).with_scoped_tools(ScopedCollection(tools, policy)).build()


if __name__ == "__main__":
    app = load_app().create_app(build_chat(Path(sys.argv[1])), MemoryStore())
    listener = listen(0)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])
