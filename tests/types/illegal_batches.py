"""Illegal: batches of a model that does not support them.

Each line that ends in `# E: <regex>` must be rejected, and by a message that matches. A function that ends in
`# R: <regex>` must also fail at run time.
"""

from __future__ import annotations

from chat_batches import Batches
from chat_claude import claude
from chat_completions import groq
from chat_router import Router

from chat_core import ChatBuilder, Messages

from fakes import FakeFull

model = claude("m", api_key="k")
other = groq("m", api_key="k")
full = FakeFull()
router = Router([model, model])


def p74_a_model_without_batches() -> None:  # R: UsageError: .*has no batches
    Batches(ChatBuilder().with_model(full).build(), full)  # E: .


def p75_a_preset_of_chat_completions_has_no_batches() -> None:  # R: UsageError: .*has no batches
    Batches(ChatBuilder().with_model(other).build(), other)  # E: .


def p76_a_router_has_no_batches() -> None:  # R: UsageError: .*has no batches
    Batches(ChatBuilder().with_model(router).build(), router)  # E: .


async def p77_a_batch_maps_ids_to_conversations() -> None:  # R: UsageError: conversations must be a mapping
    batches = Batches(ChatBuilder().with_model(model).build(), model)
    await batches.submit([Messages.from_user("hi")])  # E: .
