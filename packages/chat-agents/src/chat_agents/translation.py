"""Conversion of the events and errors of a chat into the events of an agent."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import final

from chat_core import (
    AttemptReset,
    Failed,
    FilePart,
    InvalidResponseError,
    MaxStepsExceededError,
    Messages,
    NetworkError,
    Paused,
    ProgressEvent,
    ProviderError,
    ReasoningDelta,
    RefusalError,
    StepFinished,
    StreamTruncatedError,
    StructuredPart,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolData,
    ToolResult,
)

from chat_agents.events import CallStatus, Data, Error, ErrorCode, Text, ToolStatus, error_event
from chat_agents.usage import RESULT

_LOG = logging.getLogger("chat_agents")
_MODEL_ERRORS = (ProviderError, NetworkError, StreamTruncatedError, InvalidResponseError, RefusalError)


@final
class Translation:
    """A converter from the events of a chat run to the events of an agent run. Each run needs a new instance.

    Attributes:
        has_output: whether the current response has sent anything.
    """

    __slots__ = ("_announced", "_seen", "_session_id", "has_output")

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._announced: set[str] = set()
        self._seen = 0
        self.has_output: bool = False

    def events(self, event: ProgressEvent, /) -> Sequence[Text | ToolStatus | Data | Error]:
        """Convert an event of the chat to events of the agent, and return them.

        Args:
            event: any event except the last event.
        """
        match event:
            case TextDelta(text):
                self.has_output = True
                return (Text(text),) if text else ()
            case ToolCall(tool):
                return self._announce_call(tool)
            case ToolData(tool, data):
                return (*self._announce_call(tool), Data(data.type, data.payload))
            case ToolResult(tool):
                return self._translate_result(tool)
            case ReasoningDelta() | ToolCallDelta() | FilePart() | StructuredPart():
                self.has_output = True
            case StepFinished() | AttemptReset():
                self.has_output = False
            case _:
                pass
        return ()

    def posted(self, messages: Messages) -> Sequence[Data]:
        """Return the results of background agents that were posted to the conversation since the last call.

        Args:
            messages: the conversation.
        """
        turns = messages.turns
        new, self._seen = turns[self._seen :], len(turns)
        return [Data(RESULT, turn.extra[RESULT]) for _, turn in new if turn.extra and RESULT in turn.extra]

    def pause(self, paused: Paused, messages: Messages) -> Sequence[ToolStatus]:
        """Return a `waiting` status for each call that a paused run waits for.

        Args:
            paused: the outcome of the run, with the calls that wait.
            messages: the conversation. A call that waits inside another call is reported as the outermost call.
        """
        tools = [messages.tool(tool_id) for tool_id in dict.fromkeys([wait.path[0] for wait in paused.waiting])]
        return [event for tool in tools for event in (*self._announce_call(tool), _status_event(tool, "waiting"))]

    def error_code(self, error: BaseException) -> ErrorCode:
        """Return the error code that describes an exception to the front end."""
        if isinstance(error, MaxStepsExceededError):
            return "max_tool_rounds"
        if isinstance(error, _MODEL_ERRORS):
            return "stream_error" if self.has_output or isinstance(error, StreamTruncatedError) else "llm_error"
        return "internal"

    def _announce_call(self, tool: Tool) -> Sequence[ToolStatus]:
        if tool.id in self._announced:
            return ()
        self._announced.add(tool.id)
        return (_status_event(tool, "calling"),)

    def _translate_result(self, tool: Tool) -> Sequence[ToolStatus | Error]:
        announced = self._announce_call(tool)
        if not tool.failed:
            return (*announced, _status_event(tool, "done"))
        status = _status_event(tool, "error")
        if not isinstance(tool.status, Failed):
            return (*announced, status)
        _LOG.warning("the tool %r failed in the session %s: %s", tool.name, self._session_id, tool.status.error)
        return (*announced, status, error_event("tool_error", tool=tool.name))


def _status_event(tool: Tool, status: CallStatus) -> ToolStatus:
    label = tool.call.arguments.get("doing")
    return ToolStatus(tool.name, tool.id, status, label if isinstance(label, str) else None)
