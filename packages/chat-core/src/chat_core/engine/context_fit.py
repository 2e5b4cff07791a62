"""The part of a run that applies the context policy of a chat before each model request."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final, Literal, final

from chat_core.arguments import require_type
from chat_core.context import ContextChoice, ContextSize, Summarized
from chat_core.engine.count_tokens import estimate_overhead
from chat_core.engine.model_call import usage_of_failure
from chat_core.errors import ChatError, UsageError
from chat_core.events import Compacted, Compacting
from chat_core.messages import Summary, Turn, View
from chat_core.messages.token_estimate import TURN_TOKENS, estimate_text, estimate_turn
from chat_core.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from chat_core.context import ContextPolicy
    from chat_core.engine.checkpoint import Checkpoint
    from chat_core.engine.observation import ObservedRun
    from chat_core.engine.plan import ChatPlan
    from chat_core.options import ChatOptions
    from chat_core.provider import ProviderMeta
    from chat_core.response import Paused

MAX_CHOICES: Final = 3
"""Maximum number of policy calls before one request. After a stored summary, the request may still be too long."""


@final
class ContextFit:
    """The context policy of a run, with the choices that the policy has made so far."""

    __slots__ = (
        "_checkpoint", "_choices", "_chosen_at", "_max_steps", "_meta", "_options", "_overhead", "_pending", "_plan",
        "_policy", "_ready", "_reduced", "_refused", "_step", "_usage", "_view", "_warnings",
    )  # fmt: skip

    def __init__(self, plan: ChatPlan[object, Paused], checkpoint: Checkpoint, options: ChatOptions) -> None:
        """Create the policy state for one run. The messages must be up to date with the stored conversation.

        Args:
            plan: configuration of a chat that has a context policy.
            checkpoint: checkpoint of the run, with its messages.
            options: options of the run, with the evaluated instructions.
        """
        assert plan.settings.context is not None  # noqa: S101 - the caller has checked it
        self._policy: ContextPolicy = plan.settings.context
        self._checkpoint = checkpoint
        self._meta = plan.model.metadata
        self._max_steps = plan.settings.max_steps
        self._options = options
        self._plan = plan
        self._overhead = estimate_overhead(plan, options)
        self._pending: Awaitable[ContextChoice] | None = None
        self._view = checkpoint.messages.view()
        self._chosen_at = 0
        self._step = 0
        self._choices = 0
        self._ready = False
        self._reduced = False
        self._refused: ChatError | None = None
        self._usage = NO_USAGE
        self._warnings = [
            f"a {type(part).__name__} was ignored, because the turns that it refers to have changed"
            for part in self._view.ignored
        ]

    def report(self, observed_run: ObservedRun | None) -> Usage:
        """Pass new warnings to the observers, and return the token usage of summaries since the last report.

        Args:
            observed_run: observers of the run, if any.
        """
        warnings, self._warnings = self._warnings, []
        if observed_run is not None:
            observed_run.warn(warnings)
        usage, self._usage = self._usage, NO_USAGE
        return usage

    def refuse(self, error: ChatError) -> bool:
        """Handle a request that the provider refused as too long. Return whether the policy is called again.

        The policy is called again only for the first refusal of a request.

        Args:
            error: the error that the provider returned.
        """
        if self._refused is not None:
            return False
        self._refused = error
        self._ready = self._reduced = False
        return True

    async def next(self, plan: ChatPlan[object, Paused], step: int) -> Sequence[Compacting | Compacted] | None:
        """Reduce the request by one step and return the events of the step, or `None` if the request can be sent.

        Args:
            plan: configuration of the chat, with the client tools of the request.
            step: number of the request in the run, from 1.

        Raises:
            ContextLengthError: the conversation cannot be reduced enough.
            UsageError: the policy chose a longer view than before, a turn that is not a summary, or something else.
        """
        if self._pending is not None:
            pending, self._pending = self._pending, None
            return await self._apply_choice(await pending)
        if self._step != step:
            self._step, self._choices, self._ready, self._refused = step, 0, False, None
        if self._ready or step > self._max_steps:
            return None
        if plan is not self._plan:
            self._plan, self._overhead = plan, estimate_overhead(plan, self._options)
        self._view = self._checkpoint.messages.view()
        size = self._measure_request()
        choice = self._policy(self._view, size)
        started = Compacting(size.tokens, size.exact)
        if isinstance(choice, Awaitable):
            self._pending = choice
            return (started,)
        events = await self._apply_choice(choice)
        return (started, *events) if events else None

    def aclose(self) -> None:
        """Close a policy coroutine that the run has not awaited."""
        pending, self._pending = self._pending, None
        if inspect.iscoroutine(pending):
            pending.close()

    async def _apply_choice(self, choice: ContextChoice) -> Sequence[Compacted]:
        """Apply a choice of the policy, and return the events that describe the change."""
        self._choices += 1
        turns_before = len(self._view.turns)
        if choice is None or (isinstance(choice, View) and not self._is_shorter(choice)):
            if self._refused is not None and not self._reduced:
                raise self._refused
            self._ready = True
            return ()
        if isinstance(choice, View):
            await self._add_failure_warning(choice.cause)
            self._checkpoint.messages.choose_view(choice)
        else:
            require_type("the result of the context policy", choice, Summarized, "a View, a Summarized or None")
            await self._store_summary(choice.turn)
        self._reduced = True
        self._ready = self._refused is not None or self._choices >= MAX_CHOICES
        after = self._checkpoint.messages.view()
        self._chosen_at = after.timeline.length if after.timeline is not None else 0
        kind: Literal["summary", "window"] = "window" if isinstance(choice, View) else "summary"
        return (Compacted(kind, after.offset, turns_before, len(after.turns), self._overhead + after.tokens),)

    def _is_shorter(self, chosen: View) -> bool:
        """Return whether the view `chosen` is shorter than the current view.

        Raises:
            UsageError: `chosen` begins earlier than the current view, or restores shortened tool results.
        """
        current = self._view
        if chosen.offset < current.offset or not chosen.elided >= current.elided:
            msg = (
                f"the context policy returned {chosen!r}, which restores turns or tool results that the current view "
                f"{current!r} omits: return the current view, or a shorter one"
            )
            raise UsageError(msg)
        return chosen.offset > current.offset or chosen.elided != current.elided

    async def _store_summary(self, turn: Turn) -> None:
        """Append a summary turn to the history, and add its token usage."""
        require_type("the turn of Summarized()", turn, Turn, "Turn([view.summary(text, offset)], by='engine')")
        if turn.by != "engine" or not all(isinstance(part, Summary) for part in turn.parts):
            msg = "the turn of Summarized() must be Turn([view.summary(text, offset)], by='engine')"
            raise UsageError(msg)
        self._usage += turn.usage
        await self._checkpoint.append_turn("user", turn)

    async def _add_failure_warning(self, cause: Exception | None) -> None:
        """Add a warning about a summary that failed, and record the token usage of its request."""
        if cause is None:
            return
        self._warnings.append(f"no summary was made, and the view was shortened instead: {cause}")
        if isinstance(cause, ChatError):
            usage = usage_of_failure(cause)
            self._usage += usage
            await self._checkpoint.record_failed_usage(usage, 1)

    # --- Sizes ------------------------------------------------------------------------------------------------

    def _measure_request(self) -> ContextSize:
        reported = self._reported_tokens()
        estimated = self._view.tokens
        tokens = estimated + self._overhead if reported is None else reported
        of_view = estimated if reported is None else max(tokens - self._overhead, 0)
        return ContextSize(
            tokens,
            reported is not None,
            of_view,
            self._step,
            refused=self._refused is not None,
            run=self._checkpoint.run,
        )

    def _reported_tokens(self) -> int | None:
        """Return the token count of the current view, based on the last response, or `None`.

        The count is the usage that the provider reported, plus estimates for the content added since that response.
        """
        timeline = self._view.timeline
        if timeline is None or (self._view.elided and timeline.response_index < self._chosen_at):
            return None
        turn, later = timeline.turns_after_response()
        metadata = turn.metadata if turn is not None else None
        if turn is None or metadata is None or not metadata.usage.input_tokens:
            return None
        if turn.view_offset != self._view.offset or not _is_from_model(metadata.provider, metadata.model, self._meta):
            return None
        results = sum([estimate_text(tool.result_text()) + TURN_TOKENS for tool in turn.tools if tool.resolved])
        return metadata.usage.total_tokens + results + sum([estimate_turn(item) for item in later])


def _is_from_model(provider: str | None, model: str | None, meta: ProviderMeta) -> bool:
    """Return whether a response is from the model of `meta`. Providers may append a date to the model name."""
    if provider != meta.name or model is None:
        return False
    return model == meta.model or re.fullmatch(rf"{re.escape(meta.model)}[-@]\d.*", model) is not None
