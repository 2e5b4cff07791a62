"""Execution of a run whose events are not delivered to the application."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeVar

from chat_core.engine.run import Run
from chat_core.engine.tasks import RunTaskGroup
from chat_core.events import Done
from chat_core.messages import Messages
from chat_core.response import Paused

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from chat_core.conversation import Conversation
    from chat_core.engine.plan import ChatPlan
    from chat_core.options import ChatOptions

OutT = TypeVar("OutT")
PauseT = TypeVar("PauseT", bound=Paused)


async def complete(
    plan: ChatPlan[OutT, PauseT],
    target: Messages | Conversation,
    options: ChatOptions | None,
    inject: Mapping[Any, object] | None = None,
    owner: str | None = None,
) -> OutT | PauseT:
    """Execute a run to its end, and return the output or the pause.

    Args:
        plan: configuration of the chat.
        target: plain messages or a stored conversation.
        options: options of this run, merged over those of the chat.
        inject: values for injected parameters, by type.
        owner: owner of the conversation. Used only for plain messages.

    Raises:
        ChatError: the run failed. The history is valid and contains all completed work.
    """
    run = Run(plan, target, options, streaming=False, deliver_events=False, inject=inject, owner=owner)
    if plan.tools.owners or plan.tools.factories or not isinstance(target, Messages):
        # Only the renewal of a lease has to be cancelled.
        async with RunTaskGroup(cancel_on_exit=not isinstance(target, Messages)) as group:
            await run_to_end(run, group)
    else:
        # Such a run needs no tasks. A task group would add about 5 % to the cost of a call.
        await run_to_end(run, None)
    last = run.last
    assert last is not None  # noqa: S101 - a run that does not raise sets it
    return last.response if isinstance(last, Done) else last


async def run_to_end(run: Run[OutT, PauseT], group: TaskGroup | None) -> None:
    """Execute a run to its end, without its events.

    Args:
        run: the run.
        group: task group for tools and lease renewal, see `Run.events()`.
    """
    async with aclosing(run.events(group)) as events:
        async for _ in events:
            pass
