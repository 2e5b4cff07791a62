"""`AgentFlow` and `PromptFlow`, the instructions and tools of an agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Never, final, overload

from chat_core import Paused, Reject, RunContext, ToolScope, Withhold
from typing_extensions import TypeVar

from chat_agents.delegation import Delegation

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)

_INTERRUPTED = Reject("The call was interrupted, so its outcome is unknown: it may have taken effect.")


class AgentFlow(Generic[PauseT_co]):
    """Base class for flows: the instructions and tools of an agent. Subclasses set `name` and override methods.

    The type parameter is the kind of pause that the tools of the flow can cause: `AgentFlow[Paused]` if a policy may
    require an approval, `AgentFlow` if no call ever waits. Create a flow once and use it for all sessions: its tools
    are read at the first run, and flows must not change after that.

    Attributes:
        name: name of the flow. Sessions store it, and run only with the flow of that name.
    """

    name: str = ""

    def instructions(self, context: RunContext, /) -> str | Awaitable[str]:
        """Return the system text of a run. Called once at the start of each run; it may be a coroutine function.

        Args:
            context: the session's id and owner, and the values injected into the run.
        """
        del context
        return ""

    def scopes(self) -> Sequence[ToolScope[PauseT_co]]:
        """Return the tools of the agent, in scopes that decide about their calls. Called once for each engine."""
        return ()

    def delegation(self) -> Delegation[PauseT_co] | None:
        """Return the agents to which the model of this flow can delegate tasks. Called once for each engine."""
        return None

    def interrupted(self) -> Withhold[PauseT_co]:
        """Return the action for calls that a crash or a closed stream interrupted.

        By default, the calls are rejected, and the model is informed that their outcome is unknown. `RequireApproval()`
        makes them wait until their outcome is recorded. Until then, the user cannot send a message.
        """
        return _INTERRUPTED


@final
class PromptFlow(AgentFlow[PauseT_co]):
    """A flow that is created from a prompt and tools, without a subclass."""

    @overload
    def __init__(
        self: PromptFlow[Never], name: str, instructions: str | Callable[[RunContext], str | Awaitable[str]]
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        instructions: str | Callable[[RunContext], str | Awaitable[str]],
        scopes: Sequence[ToolScope[PauseT_co]],
        *,
        delegation: Delegation[PauseT_co] | None = None,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        instructions: str | Callable[[RunContext], str | Awaitable[str]],
        scopes: Sequence[ToolScope[PauseT_co]] = (),
        *,
        delegation: Delegation[PauseT_co] | None = None,
    ) -> None:
        """Create the flow.

        Args:
            name: name of the flow.
            instructions: system text of each run, or a function that returns it.
            scopes: the tools, in scopes that decide about their calls.
            delegation: agents to which the model can delegate tasks.
        """
        self.name = name
        self._instructions = instructions
        self._scopes = tuple(scopes)
        self._delegation = delegation

    def instructions(self, context: RunContext, /) -> str | Awaitable[str]:
        """Return the system text of a run.

        Args:
            context: context of the run.
        """
        return self._instructions(context) if callable(self._instructions) else self._instructions

    def scopes(self) -> Sequence[ToolScope[PauseT_co]]:
        """Return the tools, in the scopes that were passed to the constructor."""
        return self._scopes

    def delegation(self) -> Delegation[PauseT_co] | None:
        """Return the delegation that was passed to the constructor, or `None`."""
        return self._delegation
