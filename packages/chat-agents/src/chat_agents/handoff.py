"""`Handoff`, a tool with which the model of a flow hands its session over to another flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast, final

from chat_core import (
    Data,
    Messages,
    Paused,
    Tool,
    ToolCollection,
    ToolOutput,
    UsageError,
)
from chat_core.arguments import require_type
from chat_core.tools import FixedScope
from typing_extensions import TypeVar

from chat_agents.flow import AgentFlow, require_flow

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True)

HANDOFF: Final = "handoff"
"""Type of the data that is stored with the call that hands a session over."""


@final
class Handoff(FixedScope[PauseT_co]):
    """A scope with one tool, which hands the session over to another flow.

    The other flow answers the next and all later user messages. It receives the whole conversation. A flow with
    this scope can pause if the other flow can pause. Agents of the flow do not get the tool.
    """

    def __init__(self, flow: AgentFlow[PauseT_co], description: str) -> None:
        """Create the scope.

        Args:
            flow: the other flow.
            description: when to hand over, for the model.

        Raises:
            UsageError: the flow has no name, or its name cannot be part of the tool's name.
        """
        require_flow(flow)
        require_type("description", description, str, "a string that describes when to hand over")
        self._flow = flow
        tools = ToolCollection()

        async def hand_over() -> ToolOutput:
            text = f"From the next message of the user on, {flow.name!r} answers. Tell the user."
            return ToolOutput(text, data=Data(HANDOFF, {"flow": flow.name}, keep=True))

        try:
            tools.tool(name=_tool_name(flow.name), description=description)(hand_over)
        except UsageError as error:
            msg = (
                f"the flow name {flow.name!r} cannot be part of the tool name {_tool_name(flow.name)!r}: "
                "for a Handoff, a flow name is 1 to 51 of the characters a-z, A-Z, 0-9, _ and -"
            )
            raise UsageError(msg) from error
        super().__init__([item for item, _ in tools.snapshot().values()])

    @property
    def flow(self) -> AgentFlow[PauseT_co]:
        """The flow to which the session is handed over."""
        return self._flow


def flow_after_handoffs(messages: Messages, *, is_next: bool = True) -> str | None:
    """Return the name of the flow to which a conversation was handed over, or `None`.

    Args:
        messages: the conversation.
        is_next: whether to return the flow that answers the next message instead of the last message.
    """
    counts = is_next
    for role, turn in reversed(messages.live_turns):
        if role == "user" and turn.by is None:
            counts = True
        elif counts and (names := [name for tool in turn.tools if (name := _handoff_target(tool))]):
            return names[-1]
    return None


def _handoff_target(tool: Tool) -> str | None:
    """Return the flow name that a handoff call selected, or `None` if the call is not a handoff.

    The tool's name is checked, because other tools may return data of the same type.
    """
    for item in tool.data:
        payload: object = item.payload
        if item.type == HANDOFF and isinstance(payload, Mapping):
            name = cast("Mapping[str, object]", payload).get("flow")
            if isinstance(name, str) and tool.name == _tool_name(name):
                return name
    return None


def _tool_name(flow: str) -> str:
    return f"hand_over_to_{flow}"
