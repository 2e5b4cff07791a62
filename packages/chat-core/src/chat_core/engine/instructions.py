"""The instructions of a run: a chat's texts and functions are evaluated when the run starts."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from chat_core.engine.plan import InstructionFunction
from chat_core.errors import UsageError
from chat_core.options import ChatOptions, Instructions, join_instructions
from chat_core.run_context import RunContext


async def evaluate_instructions(
    sources: Sequence[str | InstructionFunction], run: RunContext, options: ChatOptions
) -> ChatOptions:
    """Return `options` with the instructions of the chat and of the run combined.

    Args:
        sources: texts and functions of the chat, in the order in which they were added.
        run: context of the run, passed to the functions.
        options: options of the run. Their instructions follow those of the chat.

    Raises:
        UsageError: a function did not return a `str`.
    """
    if not sources:
        return options
    texts: list[str] = []
    evaluated: list[str] = []
    for source in sources:
        if isinstance(source, str):
            texts.append(source)
        else:
            evaluated.append(await _evaluate_function(source, run))
    own = Instructions.of(options.instructions)
    return replace(
        options,
        instructions=Instructions(
            join_instructions([*texts, own.fixed]), join_instructions([*evaluated, own.changing])
        ),
    )


async def _evaluate_function(function: InstructionFunction, run: RunContext) -> str:
    text = cast("object", function(run))
    if inspect.isawaitable(text):
        text = await text
    if not isinstance(text, str):
        name = getattr(function, "__qualname__", repr(function))
        msg = f"the instructions function {name} must return a string, not {type(text).__name__}; return '' for none"
        raise UsageError(msg)
    return text
