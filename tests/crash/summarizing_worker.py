"""Worker process whose chat summarizes a long conversation before it answers.

The commands are those of `nested_worker.py`. The ledger lists the requests to the two models, `summary` and `answer`. A
command whose `tool` is one of these names stops the process in that request: before (`begun`) or after it is paid
(`done`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Never

from chat_core import ChatBuilder, ChatResponse, Messages, StreamingChat, Summarize, Text, Turn
from chat_core.testing import Answer, ScriptedProvider

from .nested_worker import open_conversation, serve
from .worker import Order, stop_here, tell

QUESTION = "The last question."
LIMIT = 900
"""Number of tokens above which the chat summarizes, about a third of the conversation."""


def long_conversation() -> Messages:
    """Return a conversation that must be summarized before its last question is answered."""
    messages = Messages()
    for number in range(5):
        messages.user(f"Question {number}. {'More words. ' * 60}")
        messages.append("model", Turn([Text(f"Answer {number}. {'More words. ' * 60}")], finish_reason="stop"))
    return messages.user(QUESTION)


def make_chat(order: Order) -> StreamingChat[ChatResponse, Never]:
    """Build the chat. Both of its models add a line to the ledger for each request."""
    ledger = Path(str(order["ledger"]))

    def paying(name: str) -> Callable[[], Awaitable[object]]:
        async def pay() -> None:
            if (order.get("tool"), order.get("phase")) == (name, "begun"):
                stop_here()
            with ledger.open("a") as file:  # noqa: ASYNC230 - the line is short
                file.write(f"{name}\n")
            if (order.get("tool"), order.get("phase")) == (name, "done"):
                stop_here()

        return pay

    writer = ScriptedProvider(Answer(["They exchanged words."], before=paying("summary")))
    model = ScriptedProvider(Answer(["Everything is done."], before=paying("answer")))
    return ChatBuilder().with_model(model).with_context(Summarize(writer, LIMIT, LIMIT)).build()


async def run(order: Order) -> None:
    """Run the chat once and report its answer."""
    async with open_conversation(order) as conversation:
        outcome = await make_chat(order).complete(conversation)
    tell(event="outcome", kind="Done", text=outcome.text)


if __name__ == "__main__":
    make_chat({"ledger": ""})
    serve(run)
