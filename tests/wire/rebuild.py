"""Conversion of recorded requests of the Chat Completions API to the values that a caller of the library would pass.

`rebuild()` reads a body of a chat, `rebuild_embeddings()` one of embeddings. The conversion follows the API reference
and the documentation of the library. It shares no code with the encoder, so a request that is rebuilt and encoded is an
independent check.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast, get_args

from chat_completions.options import CompletionsOptions, Dialect
from chat_core.messages import (
    Completed,
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
from chat_core.options import ChatOptions, NamedTool, ReasoningEffort, ToolChoice
from chat_core.provider import OutputSchema, ToolDeclaration, ToolDeclarations

from .normalise import Json, Object


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """The values that a caller would pass to the library."""

    messages: Messages
    tools: ToolDeclarations
    options: ChatOptions
    output: OutputSchema | None
    dialect: Dialect
    stream: bool


@dataclass(frozen=True, kw_only=True)
class RebuiltEmbeddings:
    """The values that a caller would pass to the library for embeddings."""

    texts: tuple[str, ...]
    options: ChatOptions
    dialect: Dialect


TYPED_EXTRAS: Final = (
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "service_tier",
    "store",
    "metadata",
    "audio",
    "prediction",
    "verbosity",
    "web_search_options",
)
"""What `CompletionsOptions` has a field for, under its name on the wire."""

ANY_SCHEMA: Final = frozenset({"cerebras", "copilot", "llamacpp", "openrouter", "xai"})
"""Vendors that take `strict` with schemas that others refuse: open objects, optional properties, any format."""

AUDIO: Final = {"wav": "audio/wav", "mp3": "audio/mpeg"}


def rebuild(body: Object, provider: str) -> Rebuilt:
    """Return the values for which the library should send this body."""
    left: Object = {key: value for key, value in body.items() if value is not None}
    wire = [_object(message) for message in _list(left.pop("messages"))]
    tools = [_object(tool) for tool in _list(left.pop("tools", None))]
    stream = left.pop("stream", None) is True
    usage = stream and left.get("stream_options") == {"include_usage": True}
    if usage:
        del left["stream_options"]
    output = _output(left)
    developer = any(message.get("role") == "developer" for message in wire)
    dialect = Dialect(
        model=str(left.pop("model", "")),
        provider=provider,
        system_role="developer" if developer else "system",
        max_tokens_field="max_completion_tokens" if "max_completion_tokens" in left else "max_tokens",
        reasoning_style="object" if _object(left.get("reasoning")) else "effort",
        strict_output=bool(output and output[1]),
        strict_tools=any(_object(tool.get("function")).get("strict") is True for tool in tools),
        strict_rewrite=provider not in ANY_SCHEMA,
        stream_usage=usage,
    )
    return Rebuilt(
        messages=_Conversation(provider).read(wire),
        tools=ToolDeclarations([_declaration(tool) for tool in tools if "function" in tool]),
        options=_options(left, dialect, [tool for tool in tools if "function" not in tool]),
        output=output[0] if output else None,
        dialect=dialect,
        stream=stream,
    )


def rebuild_embeddings(body: Object, provider: str) -> RebuiltEmbeddings:
    """Return the values for which the library should send this body of an embeddings request."""
    left: Object = {key: value for key, value in body.items() if value is not None}
    given = left.pop("input")
    dimensions = left.pop("dimensions", None)
    dialect = Dialect(
        model=str(left.pop("model")),
        provider=provider,
        dimensions=dimensions if isinstance(dimensions, int) else None,
    )
    if left.get("encoding_format") == "float":
        del left["encoding_format"]
    return RebuiltEmbeddings(
        texts=(given,) if isinstance(given, str) else tuple([str(text) for text in _list(given)]),
        options=ChatOptions(extras=_extras(left, provider, [])),
        dialect=dialect,
    )


# --- Other fields --------------------------------------------------------------------------------------


def _declaration(tool: Object) -> ToolDeclaration:
    function = _object(tool["function"])
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return ToolDeclaration(str(function["name"]), str(function.get("description") or ""), _object(parameters))


def _output(left: Object) -> tuple[OutputSchema, bool] | None:
    """Remove the requested structured output from `left`, and return it with whether it is strict."""
    named = _object(_object(left.get("response_format")).get("json_schema"))
    if not named:
        return None
    del left["response_format"]
    if "description" in named:
        left["output_description"] = named["description"]
    return OutputSchema(str(named.get("name")), _object(named.get("schema"))), named.get("strict") is True


def _options(left: Object, dialect: Dialect, further: list[Object]) -> ChatOptions:
    stop = left.pop("stop", None)
    return ChatOptions(
        temperature=_number(left.pop("temperature", None)),
        top_p=_number(left.pop("top_p", None)),
        max_tokens=_whole(left.pop(dialect.max_tokens_field, None)),
        stop=None if stop is None else (stop,) if isinstance(stop, str) else tuple([str(text) for text in _list(stop)]),
        seed=_whole(left.pop("seed", None)),
        tool_choice=_choice(left),
        parallel_tool_calls=cast("bool | None", left.pop("parallel_tool_calls", None)),
        reasoning=_reasoning(left, dialect),
        extras=_extras(left, dialect.provider, further),
    )


def _choice(left: Object) -> ToolChoice | None:
    choice = left.get("tool_choice")
    name = _object(_object(choice).get("function")).get("name")
    if isinstance(name, str):
        del left["tool_choice"]
        return NamedTool(name)
    known: dict[str, ToolChoice] = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
    if isinstance(choice, str) and choice in known:
        del left["tool_choice"]
        return known[choice]
    return None


def _reasoning(left: Object, dialect: Dialect) -> ReasoningEffort | int | None:
    """Return the reasoning of a message: plain text from one of two fields, and the structured details."""
    if dialect.reasoning_style == "effort":
        effort = left.get("reasoning_effort")
        if effort in get_args(ReasoningEffort):
            del left["reasoning_effort"]
            return cast("ReasoningEffort", effort)
        return None
    asked = _object(left["reasoning"])
    if asked.keys() == {"effort"} and asked["effort"] in get_args(ReasoningEffort):
        del left["reasoning"]
        return cast("ReasoningEffort", asked["effort"])
    if asked.keys() == {"max_tokens"}:
        del left["reasoning"]
        return _whole(asked["max_tokens"])
    return None


def _extras(left: Object, provider: str, tools: list[Object]) -> tuple[CompletionsOptions, ...]:
    """Return the remaining fields as typed options or as extra fields of the body. `tools` are those of the server."""
    if not left and not tools:
        return ()
    typed: dict[str, Any] = {name: left.pop(name) for name in TYPED_EXTRAS if name in left}
    if "output_description" in left:
        typed["output_description"] = left.pop("output_description")
    if "modalities" in left:
        typed["modalities"] = tuple(_list(left.pop("modalities")))
    return (replace(CompletionsOptions(extra_body=left or None, provider=provider, tools=tuple(tools)), **typed),)


# --- The conversation ------------------------------------------------------------------------------------------------


class _Conversation:
    """Reads messages into `Messages`. A message with the role `tool` becomes the status of the call that it answers."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._open: dict[str, Tool] = {}

    def read(self, wire: list[Object]) -> Messages:
        turns = list[tuple[Role, Turn]]()
        for message in wire:
            given = cast("Object", _without_nulls(message))
            role = given.pop("role", None)
            if role == "tool":
                self._result(given)
            elif role == "assistant":
                turns.append(("model", Turn(self._assistant(given))))
            else:
                turns.append(("user" if role == "user" else "system", Turn(self._plain(given))))
        messages = Messages()
        for role, turn in turns:
            messages.append(role, turn)
        return messages

    def _opaque(self, data: Mapping[str, object]) -> Opaque | None:
        return Opaque(self._provider, data) if data else None

    def _own(self, kind: str, data: Object) -> list[Part]:
        return [ProviderPart(self._provider, kind, data)] if data else []

    def _plain(self, message: Object) -> list[Part]:
        parts = self._content(message.pop("content", None))
        return [*self._own("message", message), *parts]

    def _content(self, content: Json) -> list[Part]:
        if isinstance(content, str):
            return [Text(content)] if content else []
        return [self._part(_object(part)) for part in _list(content)]

    def _part(self, part: Object) -> Part:
        kind = part.get("type")
        if kind == "text":
            return Text(str(part["text"]), self._opaque(_further(part, "text")))
        file = self._media(part)
        return file or ProviderPart(self._provider, "part", part)

    def _media(self, part: Object) -> File | None:
        """Return the file in a content part, or `None` for a part of another kind."""
        kind = str(part.get("type"))
        media, further = _object(part.get(kind)), _further(part, kind)
        if kind in {"image_url", "video_url"} and media:
            detail = {key: value for key, value in media.items() if key == "detail"}
            mime = "image/png" if kind == "image_url" else "video/mp4"
            return _file(str(media["url"]), mime, opaque=self._opaque({**detail, **further}))
        if kind == "input_audio":
            mime = AUDIO.get(str(media["format"]), f"audio/{media['format']}")
            return File(mime, data=base64.b64decode(str(media["data"])), opaque=self._opaque(further))
        if kind == "file":
            return self._document(media, further)
        return None

    def _document(self, media: Object, further: dict[str, object]) -> File:
        if "file_id" in media:
            return File("application/octet-stream", opaque=self._opaque({"file_id": media["file_id"], **further}))
        name = media.get("filename")
        return _file(
            str(media["file_data"]),
            "application/pdf",
            name=None if name is None else str(name),
            opaque=self._opaque(further),
        )

    def _assistant(self, message: Object) -> list[Part]:
        reasoning = self._reasoning(message)
        calls = [self._call(_object(call)) for call in _list(message.pop("tool_calls", None))]
        said = self._content(message.pop("content", None))
        parts = [self._thought(part) if isinstance(part, ProviderPart) else part for part in said]
        for kind in ("refusal", "annotations"):
            if found := message.pop(kind, None):
                parts += self._own(kind, {kind: found})
        audio = _object(message.pop("audio", None))
        if audio:
            parts.append(File("audio/wav", opaque=self._opaque({"audio": audio})))
        return [*self._own("message", message), *reasoning, *parts, *calls]

    def _reasoning(self, message: Object) -> list[Part]:
        """Return the reasoning outside the content: text from one of two fields, and the structured details."""
        details = _list(message.pop("reasoning_details", None))
        structured: dict[str, object] = {"details": details} if details else {}
        for field in ("reasoning_content", "reasoning"):
            text = message.get(field)
            if isinstance(text, str):
                del message[field]
                return [Reasoning(text, opaque=self._opaque({"field": field, **structured}))]
        if not details:
            return []
        texts = [str(_object(item).get("text") or _object(item).get("summary") or "") for item in details]
        return [Reasoning("".join(texts), opaque=self._opaque(structured))]

    def _thought(self, part: ProviderPart) -> Part:
        """Return the reasoning in a content part of kind `thinking` with one text."""
        chunk = cast("Object", part.data)
        texts = _list(chunk.get("thinking"))
        if chunk.get("type") != "thinking" or len(texts) != 1 or _object(texts[0]).keys() != {"type", "text"}:
            return part
        rest = {key: value for key, value in chunk.items() if key != "thinking"}
        return Reasoning(str(_object(texts[0])["text"]), opaque=self._opaque({"chunk": rest}))

    def _call(self, call: Object) -> Tool:
        identity = call.get("id")
        rest: Object = {key: value for key, value in call.items() if key not in {"id", "type", "function", "custom"}}
        if call.get("index") == 0:
            del rest["index"]
        if "custom" in call:
            custom = _object(call["custom"])
            opaque = Opaque(self._provider, {"type": "custom", **rest})
            made = FunctionCall(str(custom["name"]), raw=str(custom["input"]), opaque=opaque)
        else:
            function = _object(call["function"])
            made = FunctionCall.parse(
                str(function["name"]), str(function.get("arguments", "")), opaque=self._opaque(rest)
            )
        tool = Tool(made, call_id=None if identity is None else str(identity))
        if identity is not None:
            self._open[str(identity)] = tool
        return tool

    def _result(self, message: Object) -> None:
        """Resolve the latest call with the id of a result. A history cannot contain a result without a call."""
        tool = self._open.pop(str(message.get("tool_call_id")), None)
        if tool is None:
            return
        content = message.get("content")
        texts = [str(_object(part).get("text", "")) for part in _list(content)] if isinstance(content, list) else []
        tool.adopt(tool.with_status(Completed("".join(texts) if texts else content or "")))


def _further(part: Object, kind: str) -> dict[str, object]:
    rest: Object = {key: value for key, value in part.items() if key not in {"type", kind}}
    return {"part": rest} if rest else {}


def _file(url: str, mime: str, *, name: str | None = None, opaque: Opaque | None = None) -> File:
    """Return the file at a URL, with the bytes of a `data:` URL. `mime` is used if the URL has no MIME type."""
    head, comma, tail = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        try:
            data = base64.b64decode(tail, validate=True)
        except binascii.Error:
            return File(mime, url=url, name=name, opaque=opaque)
        return File(head[5:-7] or mime, data=data, name=name, opaque=opaque)
    return File(mime, url=url, name=name, opaque=opaque)


def _object(value: Json) -> Object:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _number(value: Json) -> float | None:
    return value if isinstance(value, (int, float)) else None


def _whole(value: Json) -> int | None:
    return value if isinstance(value, int) else None


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
