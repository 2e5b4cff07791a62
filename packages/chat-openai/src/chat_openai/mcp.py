"""Remote MCP servers that OpenAI calls, and a tool scope that approves or rejects these calls.

If a remote tool needs approval, the model's response contains an approval request instead of a result. The request
appears as a call to the tool `mcp_approval`. A completed call approves the request, and any other outcome rejects the
request. `McpApprovals` is a tool scope with only this tool, so the type of the chat shows whether the chat can pause
for a user. Without this scope every request is rejected, because no tool has that name.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Generic, Literal, Self, TypeAlias, cast, final
from urllib.parse import urlsplit

from chat_core.arguments import require_optional_text, require_type
from chat_core.errors import UsageError
from chat_core.messages import FunctionCall
from chat_core.response import Paused
from chat_core.tools import (
    Action,
    FunctionTool,
    Reject,
    ScopedCollection,
    Strategy,
    ToolCollection,
    ToolDefinition,
    ToolScope,
    Withhold,
)
from chat_core.wire.shapes import is_mapping, mapping
from typing_extensions import TypeVar

from chat_openai.native import NativeTool, require_texts, without_none

WaitT_co = TypeVar("WaitT_co", bound=Paused, covariant=True, default=Paused)

APPROVAL: Final = "mcp_approval"
"""The name of the tool whose calls are approval requests."""

_EDITED_REASON = (
    "its arguments were edited, and the remote server would be called with those that the model wrote: "
    "the model has to ask again"
)
_DUPLICATE_KEYS_REASON = (
    "it says something twice, and the remote server may read it otherwise than who approves it: say it once"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class McpTools:
    """A filter that selects tools of a remote MCP server. A tool must match every field that is set.

    Attributes:
        names: the names of the tools.
        read_only: whether the server annotates the tool as read-only.

    Raises:
        UsageError: neither field is set, or a name is empty.
    """

    names: tuple[str, ...] = ()
    read_only: bool | None = None

    def __post_init__(self) -> None:
        require_texts("McpTools", "names", self.names)
        if not self.names and self.read_only is None:
            msg = "McpTools() needs a condition: set names=('search',) or read_only=True"
            raise UsageError(msg)

    def request_fields(self) -> dict[str, object]:
        """Return the filter as a JSON object for the declaration of the server."""
        return without_none({"tool_names": list(self.names) or None, "read_only": self.read_only})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalFor:
    """A setting that names the remote tools that always need approval and the tools that never need it.

    OpenAI's default applies to all other tools.

    Attributes:
        always: the tools whose every call needs approval.
        never: the tools whose calls never need approval.

    Raises:
        UsageError: neither field is set, or both fields name the same tool.
    """

    always: McpTools | None = None
    never: McpTools | None = None

    def __post_init__(self) -> None:
        if self.always is None and self.never is None:
            msg = "ApprovalFor() needs always=… or never=…: set one of them, or omit require_approval"
            raise UsageError(msg)
        for name, tools in (("always", self.always), ("never", self.never)):
            if tools is not None:
                require_type(name, tools, McpTools, "McpTools(...)")
        always, never = (tools.names if tools is not None else () for tools in (self.always, self.never))
        if duplicates := [name for name in always if name in never]:
            msg = f"tools are in both always and never: {', '.join(duplicates)}; remove each tool from one of them"
            raise UsageError(msg)

    def request_fields(self) -> dict[str, object]:
        """Return the value of `require_approval` in the declaration of the server."""
        always, never = self.always, self.never
        return without_none({"always": always and always.request_fields(), "never": never and never.request_fields()})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteMcp(NativeTool):
    """A native tool for a remote MCP server, an OpenAI connector, or a tunnel. OpenAI calls the server.

    Attributes:
        server_label: the name that identifies the server in calls. Each server needs a different label.
        server_url: the URL of the server. `repr` omits its user and query, which may be secrets.
        connector_id: the id of an OpenAI connector, for models released before September 2026.
        tunnel_id: the id of a tunnel. Exactly one of `server_url`, `connector_id` and `tunnel_id` is set.
        server_description: the purpose of the server, for the model.
        allowed_tools: the tools that the model may call, as names or a filter. `None` allows all tools.
        require_approval: the calls that need approval. `None` uses OpenAI's default: every call.
        headers: the headers of requests to the server. They are secret, and `repr` omits them.
        authorization: the OAuth access token for the server. It is secret, and `repr` omits it.
        defer_loading: whether the model loads the tools on demand through tool search.

    Raises:
        UsageError: the label is missing, not exactly one address is set, or no tool is allowed.
    """

    server_label: str
    server_url: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    server_description: str | None = None
    allowed_tools: tuple[str, ...] | McpTools | None = None
    require_approval: Literal["always", "never"] | ApprovalFor | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False, hash=False)
    authorization: str | None = field(default=None, repr=False)
    defer_loading: bool | None = None

    def __post_init__(self) -> None:
        if not self.server_label:
            msg = "RemoteMcp() needs a server_label, which identifies the server in calls"
            raise UsageError(msg)
        addresses = [self.server_url, self.connector_id, self.tunnel_id]
        if sum([bool(address) for address in addresses]) != 1:
            msg = f"RemoteMcp({self.server_label!r}) needs exactly one of server_url, connector_id and tunnel_id"
            raise UsageError(msg)
        require_optional_text(server_url=self.server_url)
        if self.server_url is not None and "://" not in self.server_url:
            msg = f"RemoteMcp({self.server_label!r}): server_url needs a scheme, as in 'https://host/mcp'"
            raise UsageError(msg)
        if not isinstance(self.allowed_tools, McpTools | None):
            require_texts("RemoteMcp", "allowed_tools", self.allowed_tools)
            if not self.allowed_tools:
                msg = f"RemoteMcp({self.server_label!r}) allows no tool: name at least one, or omit allowed_tools"
                raise UsageError(msg)

    def __repr__(self) -> str:
        shown = {item.name: getattr(self, item.name) for item in fields(self) if item.repr}
        if self.server_url is not None:
            url = urlsplit(self.server_url)
            shown["server_url"] = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
        return f"RemoteMcp({', '.join([f'{name}={value!r}' for name, value in shown.items()])})"

    def declaration(self) -> dict[str, object]:
        """Return the server's entry in the request field `tools`, including secrets."""
        tools, approval = self.allowed_tools, self.require_approval
        settings = {
            "server_url": self.server_url,
            "connector_id": self.connector_id,
            "tunnel_id": self.tunnel_id,
            "server_description": self.server_description,
            "allowed_tools": tools.request_fields() if isinstance(tools, McpTools) else tools and list(tools),
            "require_approval": approval.request_fields() if isinstance(approval, ApprovalFor) else approval,
            "headers": None if self.headers is None else dict(self.headers),
            "authorization": self.authorization,
            "defer_loading": self.defer_loading,
        }
        return {"type": "mcp", "server_label": self.server_label, **without_none(settings)}


@final
@dataclass(frozen=True, slots=True)
class McpRequest:
    """A request by the model to call a tool on a remote MCP server.

    Attributes:
        server_label: the label of the server.
        name: the name of the tool.
        arguments: the arguments of the call.
    """

    server_label: str
    name: str
    arguments: Mapping[str, object] = field(hash=False)

    @classmethod
    def of(cls, call: FunctionCall, /) -> Self:
        """Return the approval request that a call to the tool `mcp_approval` describes."""
        require_type("call", call, FunctionCall, "a FunctionCall")
        arguments = call.arguments.get("arguments")
        return cls(
            str(call.arguments.get("server_label", "")),
            str(call.arguments.get("name", "")),
            arguments if is_mapping(arguments) else {},
        )


McpPolicy: TypeAlias = Strategy[McpRequest, WaitT_co]
"""A function, possibly async, that takes a call to `mcp_approval` and its `McpRequest`, and returns an action."""


@final
class McpApprovals(ToolScope[WaitT_co], Generic[WaitT_co]):
    """A tool scope that decides approval requests for remote MCP tools.

    Add it with `chat.with_scoped_tools(McpApprovals(policy))`.

    The policy approves with `Execute()` and rejects with `Reject()`. With `RequireApproval()` the chat pauses until a
    user decides. The return type of the policy determines whether the chat can pause, as with any scope. The tool
    `mcp_approval` is not declared to the model.
    """

    __slots__ = ("_definitions", "_scope")

    def __init__(self, policy: McpPolicy[WaitT_co], /, *, fallback: Withhold[WaitT_co] | None = None) -> None:
        """Create a scope that decides requests with `policy`.

        Args:
            policy: the function that decides each request.
            fallback: the action if the policy raises. `None` rejects the request.

        Raises:
            UsageError: `policy` is not callable, or `fallback` is not an action that withholds the call.
        """
        if not callable(policy):
            msg = f"McpApprovals() needs a function that takes a call and its McpRequest, not {policy!r}"
            raise UsageError(msg)
        tools = ToolCollection()
        tools.tool(name=APPROVAL, idempotent=True)(_approve)

        def decide(call: FunctionCall, _meta: None, /) -> Action[WaitT_co] | Awaitable[Action[WaitT_co]]:
            if dict(call.arguments) != dict(FunctionCall.parse(APPROVAL, call.text).arguments):
                return cast("Action[WaitT_co]", Reject(_EDITED_REASON))
            if _has_duplicate_keys(call):
                return cast("Action[WaitT_co]", Reject(_DUPLICATE_KEYS_REASON))
            return policy(call, McpRequest.of(call))

        self._scope = ScopedCollection(tools, decide, fallback=fallback)
        self._definitions = tuple([_hide_from_model(definition) for definition in self._scope.definitions()])

    def __repr__(self) -> str:
        return "McpApprovals()"

    def definitions(self) -> Sequence[ToolDefinition]:
        """Return a sequence with the definition of the tool `mcp_approval`."""
        return self._definitions

    async def decide(
        self, call: FunctionCall, /, *, on_error: Callable[[BaseException], None] | None = None
    ) -> Action[WaitT_co]:
        """Return the action that the policy chooses for `call`, or the fallback if the policy raises.

        Args:
            call: a call to `mcp_approval`.
            on_error: function that is called with the policy's exception, if the policy raises.
        """
        return await self._scope.decide(call, on_error=on_error)


def _has_duplicate_keys(call: FunctionCall) -> bool:
    """Return whether the raw JSON arguments of the remote call have a duplicate key or are invalid JSON."""
    item = None if call.opaque is None else call.opaque.data.get("item")
    raw_arguments = mapping(item).get("arguments")
    try:
        if isinstance(raw_arguments, str) and raw_arguments.strip():
            json.loads(raw_arguments, object_pairs_hook=_reject_duplicate_keys)
    except ValueError:
        return True
    return False


def _reject_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError
    return members


async def _approve(server_label: str, name: str, arguments: dict[str, Any] | Literal[""] | None = None) -> str:
    """Return a text that confirms that the remote tool may be called."""
    return f"{name} of {server_label} may be called{' as it was asked for' if arguments else ''}"


def _hide_from_model(definition: ToolDefinition) -> ToolDefinition:
    assert isinstance(definition, FunctionTool)  # noqa: S101 - the collection above holds only function tools
    return replace(definition, declaration=replace(definition.declaration, declared=False))
