"""Remote MCP servers, which OpenAI calls itself, and the policy or person that allows each call.

Where a server's tool needs an approval, the model's answer holds a request in place of a result. It arrives as a call
of the tool `mcp_approval`, whose outcome is the approval: completed is yes, and anything else is no. `McpApprovals` is
the scope of that one tool, so the chat's type says whether it can pause for a person. Without it every request is
refused, because no tool has that name.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Generic, Literal, Self, TypeAlias, cast, final
from urllib.parse import urlsplit

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
"""The name of the tool whose calls are requests for approval."""

_EDITED = (
    "its arguments were edited, and the remote server would be called with those that the model wrote: "
    "the model has to ask again"
)
_TWICE = "it says something twice, and the remote server may read it otherwise than who approves it: say it once"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class McpTools:
    """Some of a server's tools: those of these names, or those that it declares to change nothing, or both at once.

    Raises:
        UsageError: it says neither.
    """

    names: tuple[str, ...] = ()
    read_only: bool | None = None

    def __post_init__(self) -> None:
        require_texts("McpTools", "names", self.names)
        if not self.names and self.read_only is None:
            msg = "McpTools() says nothing of tools: name them, names=('search',), or say read_only=True"
            raise UsageError(msg)

    def request_fields(self) -> dict[str, object]:
        """What a declaration says of them."""
        return without_none({"tool_names": list(self.names) or None, "read_only": self.read_only})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalFor:
    """Which of a server's tools are approved call by call, and which never; the server decides about the rest.

    Raises:
        UsageError: it says neither, or both of one tool.
    """

    always: McpTools | None = None
    never: McpTools | None = None

    def __post_init__(self) -> None:
        if self.always is None and self.never is None:
            msg = "ApprovalFor() says nothing of approvals: leave it out, or say always=… or never=…"
            raise UsageError(msg)
        always, never = (tools.names if tools is not None else () for tools in (self.always, self.never))
        if both := [name for name in always if name in never]:
            msg = f"a tool is approved call by call or not at all, and these are in always and never: {', '.join(both)}"
            raise UsageError(msg)

    def request_fields(self) -> dict[str, object]:
        """What a declaration says of it."""
        always, never = self.always, self.never
        return without_none({"always": always and always.request_fields(), "never": never and never.request_fields()})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteMcp(NativeTool):
    """A remote MCP server, by its URL, or one of OpenAI's connectors, or a tunnel. OpenAI calls it, not this process.

    Attributes:
        server_label: what its calls are told apart by.
        server_url, connector_id, tunnel_id: where it is; exactly one of them. `repr` shows a URL without its user and
            query, which may be secrets. Connectors are for models from before September 2026.
        server_description: what it is for, in words for the model.
        allowed_tools: the names of the tools that the model is told of, or a filter; all of them if nothing is said.
        require_approval: which calls are approved first. The API asks for every one if nothing is said.
        headers: sent to the server, a secret. `repr` leaves them out.
        authorization: an OAuth token for the server, a secret. `repr` leaves it out.
        defer_loading: whether its tools are found by the tool search.

    Raises:
        UsageError: it has no label, not exactly one place, or no tool that is allowed.
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
            msg = "RemoteMcp() needs a server_label, by which its calls are told apart"
            raise UsageError(msg)
        places = [self.server_url, self.connector_id, self.tunnel_id]
        if sum([bool(place) for place in places]) != 1:
            msg = f"RemoteMcp({self.server_label!r}) needs one of server_url, connector_id and tunnel_id, and no second"
            raise UsageError(msg)
        if self.server_url is not None and "://" not in self.server_url:
            msg = f"RemoteMcp({self.server_label!r}): server_url is a URL, like 'https://host/mcp'"
            raise UsageError(msg)
        if not isinstance(self.allowed_tools, McpTools | None):
            require_texts("RemoteMcp", "allowed_tools", self.allowed_tools)
            if not self.allowed_tools:
                msg = (
                    f"RemoteMcp({self.server_label!r}) allows none of its tools: name some, or leave allowed_tools out"
                )
                raise UsageError(msg)

    def __repr__(self) -> str:
        shown = {item.name: getattr(self, item.name) for item in fields(self) if item.repr}
        if self.server_url is not None:
            url = urlsplit(self.server_url)
            shown["server_url"] = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
        return f"RemoteMcp({', '.join([f'{name}={value!r}' for name, value in shown.items()])})"

    def declaration(self) -> dict[str, object]:
        """What a request says of it, with its secrets."""
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
    """What a model wants of a remote server: the server's label, the name of the tool, and its arguments."""

    server_label: str
    name: str
    arguments: Mapping[str, object] = field(hash=False)

    @classmethod
    def of(cls, call: FunctionCall, /) -> Self:
        """What a call of `mcp_approval` asks for."""
        arguments = call.arguments.get("arguments")
        return cls(
            str(call.arguments.get("server_label", "")),
            str(call.arguments.get("name", "")),
            arguments if is_mapping(arguments) else {},
        )


McpPolicy: TypeAlias = Strategy[McpRequest, WaitT_co]
"""Decides about a request: it takes the call and what it asks for, and returns an action. It may be a coroutine."""


@final
class McpApprovals(ToolScope[WaitT_co], Generic[WaitT_co]):
    """The scope of requests for approval: `chat.with_scoped_tools(McpApprovals(policy))`.

    `Execute()` approves, `Reject()` refuses, and with `RequireApproval()` the chat pauses until a person does either.
    How it can pause is read off what the policy returns, as with any scope. No model is told of its tool.
    """

    __slots__ = ("_definitions", "_scope")

    def __init__(self, policy: McpPolicy[WaitT_co], /, *, fallback: Withhold[WaitT_co] | None = None) -> None:
        """`fallback` decides where the policy cannot, because it raised. Without one the request is refused.

        Raises:
            UsageError: `fallback` would execute, or one of the two is not what it should be.
        """
        if not callable(policy):
            msg = f"McpApprovals() needs a function of a call and its McpRequest, not {policy!r}"
            raise UsageError(msg)
        tools = ToolCollection()
        tools.tool(name=APPROVAL, idempotent=True)(_approve)

        def decide(call: FunctionCall, _meta: None, /) -> Action[WaitT_co] | Awaitable[Action[WaitT_co]]:
            if dict(call.arguments) != dict(FunctionCall.parse(APPROVAL, call.text).arguments):
                return cast("Action[WaitT_co]", Reject(_EDITED))
            if _says_twice(call):
                return cast("Action[WaitT_co]", Reject(_TWICE))
            return policy(call, McpRequest.of(call))

        self._scope = ScopedCollection(tools, decide, fallback=fallback)
        self._definitions = tuple([_untold(definition) for definition in self._scope.definitions()])

    def __repr__(self) -> str:
        return "McpApprovals()"

    def definitions(self) -> Sequence[ToolDefinition]:
        """The one tool, `mcp_approval`."""
        return self._definitions

    async def decide(self, call: FunctionCall, /) -> Action[WaitT_co]:
        """What the policy says of a request. Where it raises, the fallback decides; without one it is refused."""
        return await self._scope.decide(call)


def _says_twice(call: FunctionCall) -> bool:
    """Whether an object in the arguments, as the model wrote them, has two values of one name."""
    item = None if call.opaque is None else call.opaque.data.get("item")
    written = mapping(item).get("arguments")
    try:
        if isinstance(written, str) and written.strip():
            json.loads(written, object_pairs_hook=_once)
    except ValueError:
        return True
    return False


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


async def _approve(server_label: str, name: str, arguments: dict[str, Any] | Literal[""] | None = None) -> str:
    """Allow a remote server to be called."""
    return f"{name} of {server_label} may be called{' as it was asked for' if arguments else ''}"


def _untold(definition: ToolDefinition) -> ToolDefinition:
    assert isinstance(definition, FunctionTool)  # noqa: S101 - it is made of a function, above
    return replace(definition, declaration=replace(definition.declaration, told=False))
