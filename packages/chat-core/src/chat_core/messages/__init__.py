"""Data model for conversations: messages, contents, turns, parts, and tool calls with their status.

A `Messages` object is a list of `Content` objects. A `Content` holds consecutive `Turn`s of one role. A `Turn` holds
parts, such as texts, files and tool calls.
"""

from chat_core import errors
from chat_core.messages import _timeline, codec, function_call, status, tool, view
from chat_core.messages.codec import schema, tool_from_dict, tool_to_dict, turn_from_dict, turn_to_dict
from chat_core.messages.content import APPLICATION, WITHDRAWN_REASONS, Content, FinishReason, Part, Role, Turn
from chat_core.messages.function_call import FunctionCall
from chat_core.messages.grants import Grant, Grants
from chat_core.messages.messages import Messages
from chat_core.messages.parts import (
    NOBODY,
    Embedding,
    File,
    Opaque,
    ProviderPart,
    Reasoning,
    Recalled,
    RecalledNote,
    Rewind,
    Structured,
    Summary,
    Text,
)
from chat_core.messages.status import (
    TRANSITIONS,
    Approved,
    Completed,
    Data,
    Decision,
    Failed,
    Interrupted,
    Pending,
    Rejected,
    Running,
    Suspended,
    ToolEvent,
    ToolStatus,
)
from chat_core.messages.tool import Tool
from chat_core.messages.view import View

# `typing.get_type_hints()` looks up the names of annotations in the module of a class. These modules are below the
# modules that define the names, and import the names for type checkers only.
errors.__dict__["Turn"] = Turn
function_call.__dict__["Content"] = Content
view.__dict__["Timeline"] = _timeline.Timeline
for _module in (codec, status, tool):
    _module.__dict__["Messages"] = Messages

__all__ = [
    "APPLICATION",
    "NOBODY",
    "TRANSITIONS",
    "WITHDRAWN_REASONS",
    "Approved",
    "Completed",
    "Content",
    "Data",
    "Decision",
    "Embedding",
    "Failed",
    "File",
    "FinishReason",
    "FunctionCall",
    "Grant",
    "Grants",
    "Interrupted",
    "Messages",
    "Opaque",
    "Part",
    "Pending",
    "ProviderPart",
    "Reasoning",
    "Recalled",
    "RecalledNote",
    "Rejected",
    "Rewind",
    "Role",
    "Running",
    "Structured",
    "Summary",
    "Suspended",
    "Text",
    "Tool",
    "ToolEvent",
    "ToolStatus",
    "Turn",
    "View",
    "schema",
    "tool_from_dict",
    "tool_to_dict",
    "turn_from_dict",
    "turn_to_dict",
]
