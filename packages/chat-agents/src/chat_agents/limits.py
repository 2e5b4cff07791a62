"""Limits of running delegations, computed from their conversations."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Final, cast, final

from chat_core import (
    Completed,
    Messages,
    Middleware,
    OpenStream,
    Paused,
    ProviderRequest,
    ProviderStream,
    Rejected,
    Tool,
    Turn,
)
from chat_core.engine.checkpoint import is_final
from chat_core.messages import APPLICATION

from chat_agents._changed_stream import change_turn, refuse_calls
from chat_agents.delegation import SubAgent
from chat_agents.usage import RESULT

SECONDS: Final = "active_seconds"
"""Name of the stored field that contains the active time of an agent in seconds.

In a response, the time is counted from the previous response or from the last resumption of the agent. In the call that
runs the agent, or in the description of its conversation, the time is counted from the last response to the pause.
"""
CALL_OVER_LIMIT: Final = "The call did not run: the agent may not make further calls. Answer without tools."


class LimitReachedError(Exception):
    """An agent has used all of its turns or its budget. The message is written for the model."""


@final
@dataclass(slots=True)
class RunningDelegation:
    """A delegation that runs in this process.

    Attributes:
        messages: conversation of the agent.
        max_turns: how many model responses the agent may use.
        tokens: limit on tokens, or `None`.
        calls: limit on tool calls, or `None`.
        seconds: limit on active time, or `None`.
        earlier: active time in seconds between the last response and the last pause, which no response contains.
        since: monotonic time up to which the active time has been counted.
        closing: turns of this agent and of agents inside it that may not be stored yet, each with its conversation.
    """

    messages: Messages
    max_turns: int
    tokens: int | None
    calls: int | None
    seconds: float | None
    earlier: float
    since: float
    closing: list[tuple[Messages, Turn]] = field(default_factory=list[tuple[Messages, Turn]])

    @classmethod
    def of(cls, messages: Messages, stored: Mapping[str, object] | None) -> RunningDelegation:
        """Return the running delegation for a conversation whose state was created by `initial_state()`.

        Args:
            messages: conversation of the agent.
            stored: object in which `with_active_time()` has stored the active time before a pause, if any.
        """
        limits = cast("Mapping[str, int | None]", read_state(messages)["limits"])
        turns = cast("int", limits["max_turns"])
        earlier = cast("float", (stored or {}).get(SECONDS, 0.0))
        return cls(messages, turns, limits["tokens"], limits["calls"], limits["seconds"], earlier, time.monotonic())

    @property
    def remaining_seconds(self) -> float | None:
        """Remaining active time of the agent in seconds, or `None` if there is no limit or the agent has answered."""
        return None if self.seconds is None or is_answered(self.messages) else self.seconds - self.active_seconds

    @property
    def active_seconds(self) -> float:
        """Active time of the agent in seconds, up to its last response or its last pause."""
        seconds = [(turn.extra or {}).get(SECONDS, 0.0) for _, turn in self.messages.turns]
        return self.earlier + sum([cast("float", item) for item in seconds])

    @property
    def remaining_calls(self) -> int | None:
        """Number of calls that the agent may still make, or `None` if there is no limit."""
        if self.calls is None:
            return None
        self.closing = [(messages, turn) for messages, turn in self.closing if not _contains_turn(messages, turn)]
        unstored = sum([not tool.resolved for _, turn in self.closing for tool in turn.tools])
        return self.calls - count_calls(self.messages) - unstored

    def with_active_time(self, stored: Mapping[str, object] | None) -> dict[str, object]:
        """Return a copy of `stored` with the active time since the last response, to store when the agent pauses.

        Args:
            stored: the object that was stored before, if any.
        """
        self.earlier += self._take_seconds()
        return {**(stored or {}), SECONDS: self.earlier}

    def add_active_time(self, turn: Turn) -> None:
        """Store the active time since the previous response in a model response.

        Args:
            turn: the response, before it is stored.
        """
        turn.extra = {**(turn.extra or {}), SECONDS: self._take_seconds()}

    def _take_seconds(self) -> float:
        since, self.since = self.since, time.monotonic()
        return self.since - since

    def time_error(self) -> LimitReachedError:
        """Return the error for an agent that has used its active time."""
        return LimitReachedError(f"it has used its budget of {self.seconds:g} seconds.")

    def require_tokens(self) -> None:
        """Check that the token budget is not used up.

        Raises:
            LimitReachedError: the budget is used up.
        """
        if self.tokens is not None and self.messages.usage.total_tokens >= self.tokens:
            msg = f"it has used its budget of {self.tokens} tokens."
            raise LimitReachedError(msg)


DELEGATIONS: Final[ContextVar[tuple[RunningDelegation, ...]]] = ContextVar("chat_agents_delegations", default=())
"""The delegations inside which the current code runs, outermost first."""


def initial_state(agent: SubAgent[Paused], max_turns: int | None, *, is_background: bool = False) -> dict[str, object]:
    """Return the initial state of an agent's conversation, which contains the limits of the delegation.

    Args:
        agent: the agent that works on the task, with its limit on turns and its budget.
        max_turns: limit on turns that the model asked for, if any.
        is_background: whether the agent works in the background.
    """
    turns = agent.max_turns if max_turns is None else min(max_turns, agent.max_turns)
    state: dict[str, object] = {"agent": agent.name, "limits": {"max_turns": turns, **asdict(agent.budget)}}
    return {RESULT: {**state, "background": True} if is_background else state}


def read_state(messages: Messages) -> Mapping[str, object]:
    """Return the state that `initial_state()` created for an agent's conversation.

    Args:
        messages: conversation of an agent.
    """
    return cast("Mapping[str, object]", messages.state[RESULT])


def agent_name(messages: Messages) -> str:
    """Return the name of the agent of a conversation.

    Args:
        messages: conversation of an agent.
    """
    return str(read_state(messages)["agent"])


def is_answered(messages: Messages) -> bool:
    """Return whether the last turn of a conversation is the model's answer.

    Args:
        messages: the conversation.
    """
    role, turn = messages.last_turn or (None, None)
    return role == "model" and turn is not None and is_final(turn)


def count_turns(messages: Messages) -> int:
    """Return the number of model responses in a conversation.

    Args:
        messages: the conversation.
    """
    return sum([role == "model" and turn.by != APPLICATION for role, turn in messages.turns])


def count_calls(messages: Messages) -> int:
    """Return the number of calls in a conversation and in the delegations inside it, without rejected calls.

    Args:
        messages: the conversation.
    """
    return sum(
        [1 + _count_inner_calls(tool) for tool in _list_tools(messages) if not isinstance(tool.status, Rejected)]
    )


def _contains_turn(messages: Messages, turn: Turn) -> bool:
    return any(stored is turn for _, stored in messages.turns)


def _list_tools(messages: Messages) -> list[Tool]:
    return [tool for content in messages for tool in content.tools]


def _count_inner_calls(tool: Tool) -> int:
    if tool.inner is not None:
        return count_calls(tool.inner)
    if isinstance(tool.status, Completed):
        # Only the number of calls of a finished agent is stored, not its conversation.
        payloads = [item.payload for item in tool.status.data if item.type == RESULT]
        return sum([cast("int", cast("Mapping[str, object]", payload).get("calls", 0)) for payload in payloads])
    return 0


@final
class DelegationLimits(Middleware):
    """Middleware for the models of agents, which enforces the limits of the current and all outer delegations."""

    __slots__ = ()

    def stream(
        self, request: ProviderRequest, open_stream: OpenStream, /
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Open the response stream. The last response that the limits allow cannot call tools.

        Args:
            request: the request from the engine.
            open_stream: function that opens the stream of the provider.

        Raises:
            LimitReachedError: the agent may not send further requests.
        """
        delegations = DELEGATIONS.get()
        for delegation in delegations:
            delegation.require_tokens()
        own = delegations[-1]
        turns = own.max_turns - count_turns(own.messages)
        if turns <= 0:
            msg = f"it has no answer after {own.max_turns} turns."
            raise LimitReachedError(msg)
        remaining = [calls for item in delegations if (calls := item.remaining_calls) is not None]
        if turns == 1:
            remaining.append(0)
        calls = min(remaining, default=None)
        if calls is not None and calls <= 0 and request.tools:
            request = replace(request, options=replace(request.options, tool_choice="none"))
        return change_turn(open_stream(request), partial(_limit_turn, delegations=delegations))


def _limit_turn(turn: Turn, delegations: Sequence[RunningDelegation]) -> None:
    """Reject the calls of a turn that are over the limits, and store the active time in the turn."""
    own = delegations[-1]
    own.add_active_time(turn)
    remaining = [calls for item in delegations if (calls := item.remaining_calls) is not None]
    if count_turns(own.messages) + 1 >= own.max_turns:
        remaining.append(0)
    if remaining:
        refuse_calls(turn, CALL_OVER_LIMIT, after=max(0, min(remaining)))
    for item in delegations:
        item.closing.append((own.messages, turn))
