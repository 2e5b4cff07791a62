"""Conversion of recorded requests of the Messages API to the values that a caller of the library would pass.

The conversion follows the API reference and the documentation of the library. It shares no code with the encoder, so a
request that is rebuilt and encoded is an independent check.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from chat_claude import (
    AdaptiveThinking,
    Advisor,
    BudgetThinking,
    Cache,
    ClaudeOptions,
    CodeExecution,
    Dialect,
    KnownTool,
    NativeTool,
    NoThinking,
    ToolSearch,
    UserLocation,
    WebFetch,
    WebSearch,
    on_bedrock,
    on_vertex,
)
from chat_core.messages import (
    Completed,
    Failed,
    File,
    FunctionCall,
    Messages,
    Opaque,
    Part,
    ProviderPart,
    Reasoning,
    Role,
    Text,
    Tool,
    Turn,
)
from chat_core.options import ChatOptions, NamedTool, ToolChoice
from chat_core.provider import OutputSchema, ToolDeclaration, ToolDeclarations

from ..normalise import Json, Object
from .answers import PROVIDER, object_of

UNVERSIONED: Final = "claude"
"""Model for which no option is refused. On Bedrock and Vertex AI, the body does not contain the model's name."""


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """The values that a caller would pass to the library."""

    messages: Messages
    tools: ToolDeclarations
    options: ChatOptions
    output: OutputSchema | None
    dialect: Dialect
    stream: bool


def rebuild(body: Object) -> Rebuilt:
    """Return the values for which the library should send this body."""
    left: Object = {key: value for key, value in body.items() if value is not None}
    wire = [object_of(message) for message in _list(left.pop("messages"))]
    tools = [object_of(tool) for tool in _list(left.pop("tools", None))]
    own = [tool for tool in tools if "input_schema" in tool]
    strict = bool(own) and all(tool.get("strict") is True for tool in own)
    stream = left.pop("stream", None) is True
    output = _output(left)
    dialect = replace(
        _dialect(left),
        strict_tools=strict,
        system_in_place=any(message.get("role") == "system" for message in wire),
    )
    moving = _moving_point(wire)
    messages = _Conversation().read(left.pop("system", None), wire, stripped=moving is not None)
    tools_point = tools[-1].get("cache_control") if tools and not strict else None
    options = _options(left)
    extras = replace(
        _extras(left),
        tools=tuple([_native(tool) for tool in tools if "input_schema" not in tool]),
        tool_fields=_fields(own, strict=strict, marked=tools_point is not None) or None,
        cache=_cache(left, moving, tools_point),
    )
    extras = replace(extras, extra_body={key: value for key, value in left.items() if key not in KNOWN} or None)
    return Rebuilt(
        messages=messages,
        tools=ToolDeclarations([_declaration(tool) for tool in own]),
        options=replace(options, extras=(extras,)),
        output=output,
        dialect=dialect,
        stream=stream,
    )


# --- Other fields --------------------------------------------------------------------------------------


def _dialect(left: Object) -> Dialect:
    version = left.pop("anthropic_version", None)
    if version == "vertex-2023-10-16":
        return on_vertex(UNVERSIONED)
    if version == "bedrock-2023-05-31":
        return on_bedrock(UNVERSIONED)
    return Dialect.of(str(left.pop("model", "")))


def _declaration(tool: Object) -> ToolDeclaration:
    return ToolDeclaration(str(tool["name"]), str(tool.get("description") or ""), object_of(tool["input_schema"]))


def _fields(tools: list[Object], *, strict: bool, marked: bool) -> dict[str, Object]:
    """Return the fields of each tool other than name, description and schema."""
    known = {"name", "description", "input_schema", "type", *(["strict"] if strict else [])}
    found = {str(tool["name"]): {key: value for key, value in tool.items() if key not in known} for tool in tools}
    if marked and tools:
        found[str(tools[-1]["name"])].pop("cache_control", None)
    return {name: fields for name, fields in found.items() if fields}


def _native(tool: Object) -> NativeTool | Object:
    """Return a typed declaration, or the tool unchanged if it has none."""
    kind, _, version = str(tool["type"]).rpartition("_")
    rest: Any = {key: value for key, value in tool.items() if key not in {"type", "name"}}
    if kind in {"web_search", "web_fetch"}:
        return _both_lists(tool) or _web(kind, version, rest)
    match kind:
        case "code_execution":
            return CodeExecution(version=version)
        case "tool_search_tool_bm25" | "tool_search_tool_regex":
            return ToolSearch(by=cast("Any", kind.rpartition("_")[2]), version=version)
        case "advisor":
            return Advisor(version=version, **rest)
        case _:
            # A set of tools has no name of its own.
            return KnownTool(str(tool["type"]), str(tool["name"]), rest) if "name" in tool else tool


def _web(kind: str, version: str, rest: Any) -> NativeTool:
    for key in ("allowed_domains", "blocked_domains"):
        if isinstance(rest.get(key), list):
            rest[key] = tuple(rest[key])
    if kind == "web_fetch":
        if citations := rest.pop("citations", None):
            rest["citations"] = citations["enabled"]
        return WebFetch(version=version, **rest)
    if place := rest.pop("user_location", None):
        rest["user_location"] = UserLocation(**{key: value for key, value in place.items() if key != "type"})
    return WebSearch(version=version, **rest)


def _both_lists(tool: Object) -> Object | None:
    """Return a tool that has both lists of domains, which no typed option can express. Return None for others."""
    return tool if tool.get("allowed_domains") is not None and tool.get("blocked_domains") is not None else None


def _output(left: Object) -> OutputSchema | None:
    config = dict(object_of(left.get("output_config")))
    named = object_of(left.pop("output_format", None)) or object_of(config.pop("format", None))
    if "output_config" in left:
        left["output_config"] = config
    return OutputSchema("answer", object_of(named["schema"])) if named else None


def _options(left: Object) -> ChatOptions:
    stop = left.pop("stop_sequences", None)
    choice = object_of(left.pop("tool_choice", None))
    kinds: dict[str, ToolChoice] = {"auto": "auto", "none": "none", "any": "required"}
    kind = str(choice.get("type", ""))
    return ChatOptions(
        temperature=cast("float | None", left.pop("temperature", None)),
        top_p=cast("float | None", left.pop("top_p", None)),
        max_tokens=cast("int | None", left.pop("max_tokens", None)),
        stop=tuple([str(text) for text in _list(stop)]) or None,
        tool_choice=NamedTool(str(choice["name"])) if kind == "tool" else kinds.get(kind),
        parallel_tool_calls=False if choice.get("disable_parallel_tool_use") is True else None,
    )


KNOWN: Final = frozenset({"output_config", "cache_control", "metadata", "container"})


def _extras(left: Object) -> ClaudeOptions:
    config, thinking = object_of(left.get("output_config")), object_of(left.pop("thinking", None))
    kinds: Any = {
        "enabled": lambda: BudgetThinking(cast("int", thinking["budget_tokens"]), cast("Any", thinking.get("display"))),
        "adaptive": lambda: AdaptiveThinking(cast("Any", thinking.get("display"))),
        "disabled": NoThinking,
    }
    typed = thinking.keys() <= {"type", "budget_tokens", "display"} and thinking.get("type") in kinds
    if thinking and not typed:
        left["thinking"] = thinking  # a form of it that is new
    return ClaudeOptions(
        thinking=kinds[str(thinking["type"])]() if typed else None,
        effort=cast("Any", config.get("effort")),
        task_budget=cast("int | None", object_of(config.get("task_budget")).get("total")),
        top_k=cast("int | None", left.pop("top_k", None)),
        user_id=cast("str | None", object_of(left.get("metadata")).get("user_id")),
        service_tier=cast("str | None", left.pop("service_tier", None)),
        container=cast("str | None", left.get("container")),
        context_management=object_of(left.pop("context_management", None)) or None,
    )


# --- Cache points -------------------------------------------------------------------------------------------------


def _cache(left: Object, moving: str | None, tools: Json) -> Cache | None:
    automatic = object_of(left.get("cache_control"))
    cache = Cache(
        tools=cast("Any", _ttl(tools)),
        messages=cast("Any", moving),
        automatic=cast("Any", _ttl(automatic) if automatic else None),
    )
    return None if cache == Cache() else cache


def _ttl(point: Json) -> str | None:
    return str(object_of(point).get("ttl", "5m")) if point else None


def _moving_point(wire: list[Object]) -> str | None:
    """Return the lifetime of the cache point after the last message."""
    blocks = _list(wire[-1].get("content")) if wire and not isinstance(wire[-1].get("content"), str) else []
    return _ttl(object_of(blocks[-1]).get("cache_control")) if blocks else None


# --- The conversation ---------------------------------------------------------------------------------------------


class _Conversation:
    def __init__(self) -> None:
        self._turns: list[tuple[Role, Turn]] = []

    def read(self, system: Json, wire: list[Object], *, stripped: bool) -> Messages:
        if blocks := _blocks(system):
            self._turns.append(("system", Turn([_part(block) for block in blocks])))
        for number, message in enumerate(wire):
            blocks = _blocks(message.get("content"))
            if stripped and number == len(wire) - 1:
                blocks[-1] = {key: value for key, value in blocks[-1].items() if key != "cache_control"}
            self._message(str(message["role"]), blocks)
        messages = Messages()
        for role, turn in self._turns:
            messages.append(role, turn)
        return messages

    def _message(self, role: str, blocks: list[Object]) -> None:
        if role == "assistant":
            self._turns.append(("model", Turn([_spoken(block) for block in blocks])))
            return
        said: list[Part] = []
        for block in blocks:
            if block.get("type") == "tool_result":
                self._result(block)
            else:
                said.append(_part(block))
        if said:
            self._turns.append(("system" if role == "system" else "user", Turn(said)))

    def _result(self, block: Object) -> None:
        tools = [tool for role, turn in self._turns if role == "model" for tool in turn.tools]
        tool = next(tool for tool in reversed(tools) if tool.call_id == block["tool_use_id"])
        blocks = _blocks(block.get("content"))
        texts = [str(item["text"]) for item in blocks if item.get("type") == "text"]
        files = tuple([part for item in blocks if isinstance(part := _part(item), File)])
        if block.get("is_error") is True:
            tool.adopt(tool.with_status(Failed("".join(texts))))
        elif any(item.get("type") in {"tool_reference", "search_result"} for item in blocks):
            tool.adopt(tool.with_status(Completed(list(blocks))))
        else:
            tool.adopt(tool.with_status(Completed(None if files and not texts else "".join(texts), files)))


def _blocks(content: Json) -> list[Object]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [dict(object_of(block)) for block in _list(content)]


def _spoken(block: Object) -> Part:
    kind = block.get("type")
    if kind == "tool_use":
        further = {key: value for key, value in block.items() if key not in {"type", "id", "name", "input"}}
        opaque = Opaque(PROVIDER, further) if further else None
        call = FunctionCall(str(block["name"]), object_of(block["input"]), opaque=opaque)
        return Tool(call, call_id=str(block["id"]))
    if kind == "thinking":
        return Reasoning(str(block["thinking"]), str(block["signature"]), Opaque(PROVIDER, {}))
    if kind == "text":
        return _part(block)
    return ProviderPart(PROVIDER, str(kind), block)


def _part(block: Object) -> Part:
    kind = str(block.get("type"))
    further: Object = {key: value for key, value in block.items() if key not in {"type", "text", "source", "title"}}
    opaque = Opaque(PROVIDER, further) if further else None
    if kind == "text":
        return Text(str(block["text"]), opaque)
    if kind == "container_upload":
        return File("application/octet-stream", opaque=opaque)
    file = _file(block, kind, further) if kind in {"image", "document"} else None
    return file or ProviderPart(PROVIDER, kind, block)


def _file(block: Object, kind: str, further: Object) -> File | None:
    source = object_of(block.get("source"))
    name = cast("str | None", block.get("title"))
    opaque = Opaque(PROVIDER, further) if further else None
    mime = "image/*" if kind == "image" else "application/pdf"
    match source.get("type"):
        case "base64":
            data = base64.b64decode(str(source["data"]))
            return File(str(source["media_type"]), data=data, name=name, opaque=opaque)
        case "text":
            return File("text/plain", data=str(source["data"]).encode(), name=name, opaque=opaque)
        case "url":
            return File(mime, url=str(source["url"]), name=name, opaque=opaque)
        case "file":
            return File(mime, name=name, opaque=Opaque(PROVIDER, {**further, "file_id": source["file_id"]}))
        case _:
            return None


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
