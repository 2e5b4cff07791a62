"""The three mistakes that people make most often. `messages/` holds what each checker says about them."""

from __future__ import annotations

from chat_core import ChatBuilder, ScopedCollection

from world import ask_if_high, complete_only, hi, pays, risky


async def forgotten_pause() -> None:
    chat = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    answer = await chat.complete(hi())
    print(answer.text)


def build_without_a_model() -> None:
    ChatBuilder().build()


def embeddings_on_a_model_without_them() -> None:
    ChatBuilder().with_model(complete_only).with_embeddings()
