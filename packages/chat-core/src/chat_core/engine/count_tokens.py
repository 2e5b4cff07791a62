"""The function that counts or estimates the input tokens of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chat_core.engine.plan import ChatPlan
from chat_core.json import dumps
from chat_core.messages.token_estimate import TURN_TOKENS, estimate_text, estimate_turn
from chat_core.provider import TokenCount, TokenCounter

if TYPE_CHECKING:
    from chat_core.messages import Messages
    from chat_core.options import ChatOptions


async def count_tokens(plan: ChatPlan[Any, Any], messages: Messages, options: ChatOptions | None) -> TokenCount:
    """Count the input tokens that the next request of a chat would use. Middlewares are not applied.

    Args:
        plan: configuration of the chat.
        messages: the conversation.
        options: options of the request, merged over those of the chat.

    Raises:
        ChatError: the provider's request to count the tokens failed.
    """
    model, schema = plan.model, plan.output.schema
    if isinstance(model, TokenCounter):
        merged = plan.settings.options if options is None else options.over(plan.settings.options)
        return TokenCount(await model.count_tokens(messages, plan.declarations, merged, schema), exact=True)
    tokens = sum([estimate_turn(turn) for _, turn in messages.view().turns])
    for tool in plan.declarations:
        tokens += TURN_TOKENS + sum(map(estimate_text, (tool.name, tool.description, dumps(dict(tool.parameters)))))
    if schema is not None:
        tokens += TURN_TOKENS + estimate_text(dumps(dict(schema.schema)))
    return TokenCount(tokens, exact=False)
