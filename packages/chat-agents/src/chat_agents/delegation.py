"""`Delegation`, the agents to which the model of a flow can delegate tasks, and their limits."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Never, TypeAlias, cast, final

from chat_core import Action, ChatProvider, CompletionProvider, FunctionCall, Paused, UsageError
from chat_core.arguments import require_callable, require_items, require_name, require_type, require_whole
from chat_store import ConversationStore
from typing_extensions import TypeVar

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)
PauseT = TypeVar("PauseT", bound=Paused)

AgentPolicy: TypeAlias = Callable[[FunctionCall], Action[PauseT] | Awaitable[Action[PauseT]]]
"""Function that decides about a call of an agent. It may be a coroutine function."""
ParentPolicy: TypeAlias = Callable[[FunctionCall, tuple[str, ...]], Action[PauseT] | Awaitable[Action[PauseT]]]
"""Function that decides about a call of any agent.

The second argument contains the names of the agents that lead to this agent, outermost first, and its own name."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of one delegation, including the delegations inside it. `None` means no limit.

    The limits are stored with the delegation. The used part is computed from the history of the delegation, so a pause
    or a restart does not reset it.

    Attributes:
        tokens: input and output tokens. After a request that reaches the limit, no further request is sent.
        calls: tool calls, except rejected calls. Further calls are rejected.
        seconds: time during which the agent runs. Time in which its calls wait for a decision is not counted.

    Raises:
        UsageError: a limit is not a positive finite number.
    """

    tokens: int | None = None
    calls: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "calls", "seconds"):
            value = cast("object", getattr(self, name))
            kinds = (int, float) if name == "seconds" else int
            if value is None:
                continue
            if not isinstance(value, kinds) or isinstance(value, bool) or not 0 < value < math.inf:
                expected = "a positive finite number" if name == "seconds" else "a positive whole number"
                msg = f"the limit {name} of a Budget must be {expected}, or None for no limit, not {value!r}"
                raise UsageError(msg)


@final
@dataclass(frozen=True, kw_only=True)  # without slots: typing cannot call a subscripted class that has them
class SubAgent(Generic[PauseT_co]):
    """An agent to which a model can delegate tasks.

    Attributes:
        name: name by which the model selects the agent.
        description: purpose of the agent, which the delegating model reads.
        instructions: system text of the agent.
        tools: names of the tools that the agent may call. Each must be a tool of the flow. `None` means all tools of
            the flow.
        model: the model of the agent. `None` means the model of the engine.
        max_turns: how many model responses the agent may use. The last response must be the answer.
        policy: policy for the calls of the agent. It applies in addition to the policies of the flow's scopes.
        budget: limits of each delegation to the agent.

    Raises:
        UsageError: the name is empty, `max_turns` is not positive, or a value has a wrong type.
    """

    name: str
    description: str
    instructions: str
    tools: Sequence[str] | None = None
    model: ChatProvider | None = None
    max_turns: int = 10
    policy: AgentPolicy[PauseT_co] | None = None
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        require_name("the name of a SubAgent", self.name)
        of = f"of the agent {self.name!r}"
        require_type(f"description {of}", self.description, str, "a string")
        require_type(f"instructions {of}", self.instructions, str, "a string")
        if self.tools is not None:
            require_items(f"tools {of}", self.tools, str, "a list of names of tools, such as ['search'], or None")
        if self.model is not None:
            require_type(f"model {of}", self.model, ChatProvider, "a model that streams, or None")
        require_whole(f"max_turns {of}", self.max_turns, 1)
        if self.policy is not None:
            require_callable(f"policy {of}", self.policy, "a function of a call that returns an action, or None")
        require_type(f"budget {of}", self.budget, Budget, "a Budget, such as Budget(calls=20)")


@final
@dataclass(frozen=True, kw_only=True)  # without slots: typing cannot call a subscripted class that has them
class Delegation(Generic[PauseT_co]):
    """The agents to which the model of a flow can delegate tasks, with the tools `delegate` and `read_result`.

    Agents use tools of the flow under the same policies. If an agent pauses, the run pauses too, and the path of each
    `Wait` leads to the agent's call.

    Attributes:
        agents: the agents that the model can choose, by name.
        parent_policy: policy for every call of every agent, in addition to all other policies. The most restrictive
            decision applies.
        max_depth: maximum nesting depth of delegations. With 1, agents cannot delegate.
        max_result: maximum number of characters of a result that the model receives at once. The limit of
            `AgentConfig.max_result_bytes` applies, too.
        summarizer: model that summarizes longer results. If it is `None` or fails, longer results are shortened.
        max_summary: maximum number of characters of a summary.
        max_context: maximum number of characters of the context that a model can pass to an agent. The rest is cut off.
        background: store of the sessions, in which agents can also work in the background, see `BackgroundAgents`.
            `None` means that the model waits for each agent.

    Raises:
        UsageError: two agents have the same name, a limit is not positive, or a value has a wrong type.
    """

    agents: Sequence[SubAgent[PauseT_co]]
    parent_policy: ParentPolicy[PauseT_co] | None = None
    max_depth: int = 1
    max_result: int = 8_000
    summarizer: CompletionProvider | None = None
    max_summary: int = 4_000
    max_context: int = 4_000
    background: ConversationStore | None = None

    def __post_init__(self) -> None:
        require_items("agents", self.agents, SubAgent, "a list of agents, such as [SubAgent(name='clerk', …)]")
        names = [agent.name for agent in self.agents]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            msg = f"two agents are named {repeated[0]!r}: names must be unique"
            raise UsageError(msg)
        for name in ("max_depth", "max_summary", "max_context"):
            require_whole(name, getattr(self, name), 1)
        require_whole("max_result", self.max_result, _SMALLEST_RESULT)
        if self.parent_policy is not None:
            expected = "a function of a call and the path of agents that returns an action, or None"
            require_callable("parent_policy", self.parent_policy, expected)
        if self.summarizer is not None:
            require_type("summarizer", self.summarizer, CompletionProvider, "a model, or None")
        if self.background is not None:
            require_type("background", self.background, ConversationStore, "a store of conversations, or None")


_SMALLEST_RESULT = 200
