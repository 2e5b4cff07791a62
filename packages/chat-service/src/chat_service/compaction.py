"""Summaries of long sessions that a user requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import final

import anyio
from chat_core import ChatError, ConflictError, ContextLengthError, Summarize, Summarized
from chat_core.context import ContextChoice, ContextSize
from chat_inbox.http_errors import HTTPError
from chat_store import ConversationClosedError, UnknownConversationError

from chat_service.context import ServiceContext
from chat_service.runs import Runs


@final
@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of a request for a summary.

    Attributes:
        compacted: whether a summary was stored. Otherwise, the session was too short.
        turns_compacted: number of turns that the summary replaces in requests to the model.
        tokens_before: estimated tokens of the history in a request before.
        tokens_after: estimated tokens of the history in a request after.
    """

    compacted: bool
    turns_compacted: int
    tokens_before: int
    tokens_after: int


async def compact_session(
    context: ServiceContext, runs: Runs, session_id: str, report: Callable[[int], Awaitable[None]], *, force: bool
) -> Compaction:
    """Summarize the first part of a session with the `Summarize` policy of the engine, and store the summary.

    The history itself is kept. Further requests to the model contain the summary instead of the first turns.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
        session_id: id of a session of the user.
        report: called with the number of turns of the session before the model is asked.
        force: whether to summarize as many turns as possible, even if the session is short.

    Raises:
        HTTPError: 409 if the agent has no such policy, or a run of the session is active or waits, or starts
            meanwhile; 503 if the model writes no summary in time.
    """
    policy = context.engine.config.context
    if not isinstance(policy, Summarize):
        raise HTTPError(409, "The agent writes no summaries: its AgentConfig needs context=Summarize(…).")
    found = await runs.of_session(session_id)
    if found and (found[-1].is_active or found[-1].state == "paused"):
        raise HTTPError(409, "A run of this session is active or waits: compact the session when it has ended.")
    snapshot = await context.store.load(session_id)
    view = snapshot.messages.view()
    before = view.tokens
    keep = 1 if force else policy.keep
    await report(len(view.turns))
    try:
        size = ContextSize(before, exact=False, of_view=before)
        choice = policy.summarize(view, size, keep) if before > keep else None
    except ContextLengthError:  # there is nothing before the last message
        choice = None
    if isinstance(choice, Awaitable):
        choice = await _with_limit(choice, context.settings.run_seconds)
        if not isinstance(choice, Summarized):
            raise HTTPError(503, "The model wrote no summary: try again later.")
        context.counters.model_calls += 1
        context.counters.input_tokens += choice.turn.usage.input_tokens or 0
        context.counters.output_tokens += choice.turn.usage.output_tokens or 0
    if not isinstance(choice, Summarized):
        return Compaction(compacted=False, turns_compacted=0, tokens_before=before, tokens_after=before)
    snapshot.messages.append("user", choice.turn)
    try:  # `apply()` accepts no summary
        await context.store.save(session_id, snapshot.messages, revision=snapshot.revision)
    except ConflictError:
        raise HTTPError(409, "The session has changed meanwhile: compact it again when its run has ended.") from None
    except (ConversationClosedError, UnknownConversationError):
        raise HTTPError(404, "There is no such session: it was closed.") from None
    after = (await context.store.load(session_id)).messages.view()
    replaced = len(view.turns) - (len(after.turns) - 1)  # the summary is a turn, too
    return Compaction(compacted=True, turns_compacted=replaced, tokens_before=before, tokens_after=after.tokens)


async def _with_limit(work: Awaitable[ContextChoice], seconds: float) -> ContextChoice:
    """Return the result of an awaitable, or `None` if it fails or takes too long."""
    with anyio.move_on_after(seconds):
        try:
            return await work
        except ChatError:
            return None
    return None
