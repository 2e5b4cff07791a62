"""Tool scopes of agents, and the function that combines the policies for an agent's call."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, cast, final

from chat_core import Action, Execute, FunctionCall, Paused, Reject, RequireApproval, ToolDefinition, ToolScope
from typing_extensions import TypeVar

from chat_agents.delegation import Delegation, SubAgent

PauseT = TypeVar("PauseT", bound=Paused)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True)

_LOG = logging.getLogger("chat_agents")
_EXECUTE: Final = Execute()


@final
class AgentScope(ToolScope[PauseT_co], Generic[PauseT_co]):
    """The part of a flow's tool scope that an agent may use.

    The policy of the scope, the policy of the agent and the parent policy all apply to a call.
    """

    __slots__ = ("_agent", "_names", "_parent_policy", "_scope")

    def __init__(
        self,
        scope: ToolScope[PauseT_co],
        agent: SubAgent[PauseT_co],
        delegation: Delegation[PauseT_co],
        names: tuple[str, ...],
    ) -> None:
        self._scope = scope
        self._agent = agent
        self._parent_policy = delegation.parent_policy
        self._names = names

    def definitions(self) -> Sequence[ToolDefinition]:
        """Return the tools of the scope whose names are in `SubAgent.tools`, or all tools if that is `None`."""
        definitions, allowed = self._scope.definitions(), self._agent.tools
        return [item for item in definitions if allowed is None or item.declaration.name in allowed]

    async def decide(
        self, call: FunctionCall, /, *, on_error: Callable[[BaseException], None] | None = None
    ) -> Action[PauseT_co]:
        """Return the most restrictive decision of all policies. If a policy fails, the call is rejected.

        Args:
            call: the call to decide.
            on_error: function that receives the error of a policy that fails.
        """
        actions = [await self._scope.decide(call, on_error=on_error)]
        try:
            if self._agent.policy is not None:
                actions.append(await _resolve_action(self._agent.policy(call)))
            if self._parent_policy is not None:
                actions.append(await _resolve_action(self._parent_policy(call, self._names)))
        except Exception as error:  # noqa: BLE001 - a policy may raise anything; the call must not run
            if on_error is not None:
                on_error(error)
            _LOG.exception("a policy for the agent %r failed; the call %s is not run", self._agent.name, call.id)
            return Reject(f"The policy failed with {type(error).__name__}, so the call did not run.")
        return _most_restrictive(actions)


async def _resolve_action(action: Any) -> Any:  # noqa: ANN401 - the type is that of the policy
    resolved = await action if inspect.isawaitable(action) else action
    if not isinstance(resolved, Action):
        msg = (
            f"a policy must return Execute(), Reject(…), RequireApproval(…), Defer(…) or Schedule(…), not {resolved!r}"
        )
        raise TypeError(msg)
    return cast("Any", resolved)


def _most_restrictive(actions: Sequence[Action[PauseT]]) -> Action[PauseT]:
    """Combine the actions of several policies into the most restrictive one.

    If two waits cannot be combined, return a rejection.
    """
    for action in actions:
        if isinstance(action, Reject):
            return action
    combined: Action[PauseT] = _EXECUTE
    for action in actions:
        combined = _combine(combined, action)
    return combined


def _combine(first: Action[PauseT], second: Action[PauseT]) -> Action[PauseT]:
    """Return the action that waits as both actions require, or a rejection if no action does."""
    if isinstance(first, Reject) or isinstance(second, Execute):
        return first
    if isinstance(first, Execute) or first == second:
        return second
    if not isinstance(first, RequireApproval) or not isinstance(second, RequireApproval):
        kinds = f"{type(first).__name__} and {type(second).__name__}"
        return Reject(f"Two policies make the call wait in different ways: {kinds}.")
    if first.of is not None and second.of is not None and first.of != second.of:
        return Reject(f"Two policies require different approvers: {first.of!r} and {second.of!r}.")
    times = [item for item in (first.expires_in, second.expires_in) if item is not None]
    # Both actions cause the same kind of pause.
    return cast("Action[PauseT]", RequireApproval(min(times, default=None), first.of or second.of))
