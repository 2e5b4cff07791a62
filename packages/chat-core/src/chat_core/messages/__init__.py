"""What a conversation is: messages of contents, contents of turns, turns of parts; and the life of a tool call.

The modules of this package refer to each other in their types, for the data is recursive: a part can be a tool, and a
suspended tool holds the conversation of a chat. At run time they import each other in one direction.
"""

from chat_core.messages.codec import schema, tool_from_dict, tool_to_dict, turn_from_dict, turn_to_dict
from chat_core.messages.content import Content, FinishReason, Role, Turn
from chat_core.messages.messages import Messages
from chat_core.messages.parts import NOBODY, Embedding, File, Opaque, Part, ProviderPart, Reasoning, Structured, Text
from chat_core.messages.status import (
    TRANSITIONS,
    Approved,
    Completed,
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
from chat_core.messages.tool import FunctionCall, Tool

__all__ = [
    "NOBODY",
    "TRANSITIONS",
    "Approved",
    "Completed",
    "Content",
    "Decision",
    "Embedding",
    "Failed",
    "File",
    "FinishReason",
    "FunctionCall",
    "Interrupted",
    "Messages",
    "Opaque",
    "Part",
    "Pending",
    "ProviderPart",
    "Reasoning",
    "Rejected",
    "Role",
    "Running",
    "Structured",
    "Suspended",
    "Text",
    "Tool",
    "ToolEvent",
    "ToolStatus",
    "Turn",
    "schema",
    "tool_from_dict",
    "tool_to_dict",
    "turn_from_dict",
    "turn_to_dict",
]
