"""Serve the pages with a scripted model: `python docs/examples/front_ends`.

Then open http://127.0.0.1:8000/agui, http://127.0.0.1:8000/openai or http://127.0.0.1:8000/plain.
"""

from __future__ import annotations

import uvicorn
from app import create_app
from chat_core import ChatBuilder, FunctionCall, RequireApproval, ScopedCollection, ToolCollection
from chat_core.testing import ScriptedProvider
from chat_store import MemoryStore

tools = ToolCollection()


@tools.tool
def pay(to: str, cents: int) -> str:
    """Pay money to a person."""
    return f"paid {cents} cents to {to}"


def policy(_call: FunctionCall, _meta: None) -> RequireApproval:
    return RequireApproval()


script = ScriptedProvider(
    ["I will pay Maria.", FunctionCall("pay", {"to": "Maria", "cents": 4000}, id="call_1")],
    "Maria has her money.",
    by_history=True,
)
chat = ChatBuilder().with_model(script).with_scoped_tools(ScopedCollection(tools, policy)).build()

if __name__ == "__main__":
    uvicorn.run(create_app(chat, MemoryStore()), host="127.0.0.1", port=8000)
