"""Tools that a model may call, and the strategies that decide about their calls."""

from __future__ import annotations

from chat_core.messages.function_call import CallContext
from chat_core.tools.action import Action, Defer, Execute, Reject, RequireApproval, Schedule, Strategy, Withhold
from chat_core.tools.chat_tools import ChatTools, GrantRule, SubchatDefinition
from chat_core.tools.client_tools import ClientTools
from chat_core.tools.collection import Handler, ToolCollection
from chat_core.tools.context import ToolContext
from chat_core.tools.declare import FunctionTool, ToolOptions, declare, require_name
from chat_core.tools.definition import InvalidArgumentsError, ToolDefinition, ToolScope
from chat_core.tools.raw import RawTool, SchemaChecker, declare_raw
from chat_core.tools.scope import FixedScope, ScopedCollection, execute_all, require_collection, require_unique_names

__all__ = [
    "Action",
    "CallContext",
    "ChatTools",
    "ClientTools",
    "Defer",
    "Execute",
    "FixedScope",
    "FunctionTool",
    "GrantRule",
    "Handler",
    "InvalidArgumentsError",
    "RawTool",
    "Reject",
    "RequireApproval",
    "Schedule",
    "SchemaChecker",
    "ScopedCollection",
    "Strategy",
    "SubchatDefinition",
    "ToolCollection",
    "ToolContext",
    "ToolDefinition",
    "ToolOptions",
    "ToolScope",
    "Withhold",
    "declare",
    "declare_raw",
    "execute_all",
    "require_collection",
    "require_name",
    "require_unique_names",
]
