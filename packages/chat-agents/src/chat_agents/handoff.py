"""`Handoff`, a tool with which the model of a flow hands its session over to another flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, cast, final

from chat_core import (
    Action,
    Data,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    Tool,
    ToolCollection,
    ToolDefinition,
    ToolOutput,
    ToolScope,
    UsageError,
)
from typing_extensions import TypeVar

from chat_agents.flow import AgentFlow

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True)

HANDOFF: Final = "handoff"
"""Type of the data that is stored with the call that hands a session over."""
_EXECUTE: Final = Execute()


@final
class Handoff(ToolScope[PauseT_co], Generic[PauseT_co]):
    """A scope with one tool, which hands the session over to another flow.

    The other flow answers from the next message of the user on. It has the whole conversation. A flow with this scope
    can pause if the other flow can pause. Agents of the flow do not get the tool.
    """

    def __init__(self, flow: AgentFlow[PauseT_co], description: str) -> None:
        """Create the scope.

        Args:
            flow: the other flow.
            description: when to hand over, for the model.

        Raises:
            UsageError: the flow has no name.
        """
        if not flow.name:
            msg = f"{type(flow).__name__} has no name: set name = '…' in the class"
            raise UsageError(msg)
        self._flow = flow
        tools = ToolCollection()

        @tools.tool(name=_tool_name(flow.name), description=description)
        async def hand_over() -> ToolOutput:
            text = f"From the next message of the user on, {flow.name!r} answers. Tell the user."
            return ToolOutput(text, data=Data(HANDOFF, {"flow": flow.name}, keep=True))

        self._definitions: Sequence[ToolDefinition] = [item for item, _ in tools.snapshot().values()]

    @property
    def flow(self) -> AgentFlow[PauseT_co]:
        """The other flow."""
        return self._flow

    def definitions(self) -> Sequence[ToolDefinition]:
        """Return the tool."""
        return self._definitions

    async def decide(
        self,
        _call: FunctionCall,
        /,
        *,
        on_error: Callable[[BaseException], None] | None = None,  # noqa: ARG002 - nothing can fail
    ) -> Action[PauseT_co]:
        """Return `Execute`."""
        return _EXECUTE

    @property
    def always(self) -> Action[PauseT_co]:
        """`Execute`, so that no call is decided one by one."""
        return _EXECUTE


def flow_after_handoffs(messages: Messages, *, is_next: bool = True) -> str | None:
    """Return the name of the flow to which a conversation was handed over, or `None`.

    Args:
        messages: the conversation.
        is_next: whether the flow for the next message is meant, instead of the one that answers the last message.
    """
    counts = is_next
    for role, turn in reversed(messages.live_turns):
        if role == "user" and turn.by is None:
            counts = True
        elif counts:
            for tool in reversed(turn.tools):
                if name := _flow_of(tool):
                    return name
    return None


def _flow_of(tool: Tool) -> str | None:
    """Return the name of the flow to which a call has handed the session over. Other tools may use the type of data."""
    for item in tool.data:
        payload: object = item.payload
        if item.type == HANDOFF and isinstance(payload, Mapping):
            name = cast("Mapping[str, object]", payload).get("flow")
            if isinstance(name, str) and tool.name == _tool_name(name):
                return name
    return None


def _tool_name(flow: str) -> str:
    return f"hand_over_to_{flow}"
