"""`AgentFlow` and `PromptFlow`, the instructions and tools of an agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Never, cast, final, overload

from chat_core import Paused, Reject, RunContext, ToolScope, UsageError, Withhold
from chat_core.arguments import argument_error, require_items, require_name, require_type
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


def require_flow(flow: object) -> None:
    """Raise `UsageError` unless an argument is a flow with a name."""
    if not isinstance(flow, AgentFlow):
        hint = ": create an instance of the class" if isinstance(flow, type) else ""
        msg = f"flow must be an AgentFlow, such as PromptFlow('support', 'Be brief.'), not {flow!r}{hint}"
        raise UsageError(msg)
    named = cast("AgentFlow[Paused]", flow)
    if not isinstance(cast("object", named.name), str) or not named.name.strip():
        msg = f"{type(named).__name__} has no name: set name = '…' in the class"
        raise UsageError(msg)


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

        Raises:
            UsageError: the name is empty, or an argument has a wrong type.
        """
        require_name("name", name)
        if not isinstance(instructions, str) and not callable(instructions):
            raise argument_error("instructions", "a string or a function that returns it", instructions)
        require_items("scopes", scopes, ToolScope, "a list of tool scopes, such as [ScopedCollection(tools, policy)]")
        if delegation is not None:
            require_type("delegation", delegation, Delegation, "a Delegation or None")
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
