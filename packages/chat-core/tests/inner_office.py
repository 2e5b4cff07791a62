"""A chat that another chat uses as a tool."""

from __future__ import annotations

from chat_core import (
    ChatBuilder,
    ChatResponse,
    FunctionCall,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
)
from chat_core.testing import ScriptedProvider


class Office:
    """A clerk who pays after approval, an assistant who calls the clerk, and a desk that calls the assistant."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.tools = ToolCollection()

        @self.tools.tool
        async def pay(cents: int) -> str:
            self.paid.append(cents)
            return "paid"

        self.asks: ScopedCollection[None, Paused] = ScopedCollection(self.tools, lambda call, meta: RequireApproval())

    def chat(self, depth: int, *payments: int) -> StreamingChat[ChatResponse, Paused]:
        pays = [FunctionCall("pay", {"cents": cents}, id=f"pay_{cents}") for cents in payments]
        clerk = ScriptedProvider(pays, "The clerk has paid.", by_history=True)
        chat = ChatBuilder().with_model(clerk).with_scoped_tools(self.asks).build()
        for level in range(1, depth):
            ask = FunctionCall("ask", {"request": "pay"}, id=f"ask_{level}")
            model = ScriptedProvider([ask], f"Done at level {level}.", by_history=True)
            chat = (
                ChatBuilder().with_model(model).with_scoped_tools(chat.as_tool(name="ask", description="Asks.")).build()
            )
        return chat
