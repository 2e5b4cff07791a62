"""`AgentFlow`, the instructions and tools of an agent."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Generic, Never

from chat_core import Paused, Reject, RunContext, ToolScope, Withhold
from typing_extensions import TypeVar

from chat_agents.delegation import Delegation

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)

_INTERRUPTED = Reject("The call was interrupted, so its outcome is unknown: it may have taken effect.")


class AgentFlow(Generic[PauseT_co]):
    """Base class of flows: the instructions and tools of an agent. Subclasses set `name` and override methods.

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
        """Return what happens to calls that a crash or a closed stream interrupted.

        By default, the calls are rejected, and the model is informed that their outcome is unknown. `RequireApproval()`
        makes them wait until their outcome is recorded. Until then, the user cannot send a message.
        """
        return _INTERRUPTED
