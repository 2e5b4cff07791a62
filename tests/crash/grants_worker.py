"""The process that is killed while it gives a grant, revokes it and redacts a turn, with a store or a file."""

from __future__ import annotations

from datetime import UTC, datetime

from chat_core.approvals import approve_with_grant
from chat_core.messages import FunctionCall, Messages, Tool, Turn
from chat_store import ConversationStore, FileConversation

from .jobs_worker import open_target, serve
from .worker import Order, tell

# Orders are those of `jobs_worker.py`.

CARD = "4711 0815 1234"
UNTIL = datetime(2100, 1, 1, tzinfo=UTC)


async def create(store: ConversationStore | FileConversation) -> None:
    messages = Messages.from_user(f"My card is {CARD}.")
    tool = Tool(FunctionCall("pay", {"cents": 1}), id="a")
    tool.await_approval()
    messages.append("model", Turn([tool], finish_reason="tool_calls"))
    if not isinstance(store, FileConversation):
        if not await store.conversations():
            await store.create(messages, id="chat")
    elif not store.messages.contents:
        for content in messages.contents:
            store.messages.push(content)
        await store.save()


def give(messages: Messages) -> None:
    if not messages.grants:
        approve_with_grant(messages, ("a",), until=UNTIL, by="ana")


def revoke(messages: Messages) -> None:
    for grant in messages.grants:
        messages.grants.revoke(grant.id, by="ben")


async def run(order: Order) -> None:
    async with open_target(order) as target:
        store = target.store
        await create(store)
        for change in (give, revoke):
            if isinstance(store, FileConversation):
                change(store.messages)
                await store.save()
            else:
                async with store.open("chat") as conversation:
                    change(conversation.messages)
        if not isinstance(store, FileConversation):
            await store.redact("chat", 0, by="dpo", reason="request")
    tell(event="outcome", kind="Done")


if __name__ == "__main__":
    serve(run)
