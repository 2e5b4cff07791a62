"""The number of input tokens of a request, counted by the provider or estimated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chat_core.engine.checkpoint import Checkpoint
from chat_core.engine.instructions import evaluate_instructions
from chat_core.engine.plan import ChatPlan
from chat_core.engine.tasks import RunTaskGroup
from chat_core.json import dumps
from chat_core.messages.token_estimate import TURN_TOKENS, estimate_text, estimate_turn
from chat_core.options import Instructions
from chat_core.provider import TokenCount, TokenCounter

if TYPE_CHECKING:
    from chat_core.messages import Messages
    from chat_core.options import ChatOptions


async def count_tokens(
    plan: ChatPlan[Any, Any],
    messages: Messages,
    options: ChatOptions | None,
    inject: Mapping[Any, object] | None,
    owner: str | None,
) -> TokenCount:
    """Count the input tokens that the next request of a chat would use. Middlewares are not applied.

    Args:
        plan: configuration of the chat.
        messages: the conversation.
        options: options of the request, merged over those of the chat.
        inject: values by type, for the functions that return instructions.
        owner: owner of the conversation.

    Raises:
        ChatError: the provider's request to count the tokens failed.
    """
    plan = plan.for_messages(messages)
    merged = await evaluate_options(plan, messages, options, inject, owner)
    model = plan.model
    if isinstance(model, TokenCounter):
        return TokenCount(await model.count_tokens(messages, plan.declarations, merged, plan.output.schema), exact=True)
    tokens = sum([estimate_turn(turn) for _, turn in messages.view().turns])
    return TokenCount(tokens + estimate_overhead(plan, merged), exact=False)


async def evaluate_options(
    plan: ChatPlan[Any, Any],
    messages: Messages,
    options: ChatOptions | None,
    inject: Mapping[Any, object] | None,
    owner: str | None,
) -> ChatOptions:
    """Return the options of the next request of a chat, with its evaluated instructions.

    Args:
        plan: configuration of the chat.
        messages: the conversation.
        options: options of the request, merged over those of the chat.
        inject: values by type, for the functions that return instructions.
        owner: owner of the conversation.
    """
    merged = plan.settings.options if options is None else options.over(plan.settings.options)
    return await _with_instructions(plan, messages, merged, inject or {}, owner)


def estimate_overhead(plan: ChatPlan[Any, Any], options: ChatOptions) -> int:
    """Estimate the tokens of a request without its turns: instructions, tool declarations and output schema.

    Args:
        plan: configuration of the chat, with the client tools of the request.
        options: options of the request, with the evaluated instructions.
    """
    instructions = Instructions.of(options.instructions)
    texts = [text for text in (instructions.fixed, instructions.changing) if text]
    texts += [f"{item.name} {item.description} {dumps(dict(item.parameters))}" for item in plan.declarations]
    texts += [dumps(dict(plan.output.schema.schema))] if plan.output.schema is not None else []
    return sum([TURN_TOKENS + estimate_text(text) for text in texts])


async def _with_instructions(
    plan: ChatPlan[Any, Any],
    messages: Messages,
    options: ChatOptions,
    inject: Mapping[Any, object],
    owner: str | None,
) -> ChatOptions:
    """Return `options` with the instructions of the chat. Instruction functions receive the same values as in a run."""
    sources = plan.settings.instructions
    checkpoint = Checkpoint(messages, owner)
    if all(isinstance(source, str) for source in sources):
        return await evaluate_instructions(sources, checkpoint.run, options)
    error: BaseException | None = None
    async with RunTaskGroup() as group:
        try:
            await checkpoint.open_values(plan.tools, inject, group)
            return await evaluate_instructions(sources, checkpoint.run, options)
        except BaseException as caught:
            error = caught
            raise
        finally:
            await checkpoint.close_values(error)
            del error
