"""Conversion of recorded requests of the Responses API to the values that a caller of the library would pass.

The conversion follows the API reference and the documentation of the library. It shares no code with the encoder, so a
request that is rebuilt and encoded is an independent check.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast, get_args

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
from chat_core.usage import Metadata
from chat_responses import ResponsesDialect, ResponsesOptions
from chat_responses.codec import sealed

from ..normalise import Json, Object


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """The values that a caller would pass to the library."""

    messages: Messages
    tools: ToolDeclarations
    options: ChatOptions
    output: OutputSchema | None
    dialect: ResponsesDialect
    stream: bool


TYPED_EXTRAS: Final = (
    "max_tool_calls",
    "top_logprobs",
    "truncation",
    "conversation",
    "prompt",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
)
"""What `ResponsesOptions` has a field for, under its name on the wire."""

OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
"""The outcomes of calls that are run here."""

PLAIN_TOOL: Final = frozenset({"type", "name", "description", "parameters", "strict"})

ANY_SCHEMA: Final = frozenset({"xai", "openrouter", "copilot", "local"})
"""Vendors that take `strict` with schemas that others refuse."""

ENCRYPTED: Final = "reasoning.encrypted_content"


def rebuild(body: Object, provider: str) -> Rebuilt:
    """Return the values for which the library should send this body."""
    left: Object = {key: value for key, value in body.items() if value is not None}
    given = left.pop("input", None)
    items = [{"role": "user", "content": given}] if isinstance(given, str) else list_of(given)
    wire = [object_of(item) for item in cast("list[Json]", items)]
    tools = [object_of(tool) for tool in list_of(left.pop("tools", None))]
    stream = left.pop("stream", None) is True
    output = _output(left)
    include = [str(name) for name in list_of(left.pop("include", None))]
    plain, raw = _sorted(tools)
    instructions = left.pop("instructions", None)
    # A WebSocket remembers responses that are not stored. The library receives them as raw items.
    previous = left.pop("previous_response_id", None) if left.get("store") is not False else None
    dialect = ResponsesDialect(
        model=str(left.pop("model", "")),
        provider=provider,
        instructions=instructions is not None,
        system_role="developer" if any(item.get("role") == "developer" for item in wire) else "system",
        store=cast("bool | None", left.pop("store", None)),
        previous_response=previous is not None,
        encrypted_reasoning=ENCRYPTED in include,
        reasoning_budget=True,
        strict_output=bool(output and output[1]),
        strict_tools=any(tool.get("strict") is True for tool in plain),
        strict_rewrite=provider not in ANY_SCHEMA,
    )
    conversation = Conversation(provider, dialect.system_role, instructed=instructions is not None)
    messages = Messages()
    if isinstance(instructions, str):
        messages.append("system", Turn([Text(instructions)]))
    turns = conversation.read(wire, dialect, None if previous is None else str(previous))
    for role, turn in turns:
        messages.append(role, turn)
    return Rebuilt(
        messages=messages,
        tools=ToolDeclarations([_declaration(tool) for tool in plain]),
        options=_options(left, provider, raw, tuple([name for name in include if name != ENCRYPTED])),
        output=output[0] if output else None,
        dialect=dialect,
        stream=stream,
    )


# --- Other fields --------------------------------------------------------------------------------------


def _sorted(tools: list[Object]) -> tuple[list[Object], list[Object]]:
    """Return the tools of the chat and the raw tools. In a mixed list, all are raw tools, in their order."""
    plain = [
        tool
        for tool in tools
        if tool.get("type") == "function" and isinstance(tool.get("parameters"), dict) and tool.keys() <= PLAIN_TOOL
    ]
    raw = tools[len(plain) :]
    mixed = tools[: len(plain)] != plain or len({tool.get("strict") is True for tool in plain}) > 1
    return ([], tools) if mixed else (plain, raw)


def _declaration(tool: Object) -> ToolDeclaration:
    return ToolDeclaration(str(tool["name"]), str(tool.get("description") or ""), object_of(tool["parameters"]))


def _output(left: Object) -> tuple[OutputSchema, bool] | None:
    """Remove the requested structured output from `left`, and return it with whether it is strict."""
    text = object_of(left.get("text"))
    shape = object_of(text.get("format"))
    if shape.get("type") != "json_schema":
        return None
    rest: Object = {key: value for key, value in text.items() if key != "format"}
    further_fields: Object = {
        key: value
        for key, value in shape.items()
        if key not in {"type", "name", "schema", "strict"} and value is not None
    }
    del left["text"]
    if further_fields:
        rest["format"] = further_fields
    if rest:
        left["text"] = rest
    return OutputSchema(str(shape.get("name")), object_of(shape.get("schema"))), shape.get("strict") is True


def _options(left: Object, provider: str, raw: list[Object], include: tuple[str, ...]) -> ChatOptions:
    typed: dict[str, Any] = {"include": include, "tools": tuple(raw), "background": left.pop("background", None)}
    text = dict(object_of(left.get("text")))
    if text:
        typed["verbosity"] = text.pop("verbosity", None)
        typed["text"] = text or None
        del left["text"]
    reasoning = _reasoning(left, typed)
    choice = _choice(left)
    if isinstance(left.get("tool_choice"), dict):
        typed["tool_choice"] = left.pop("tool_choice")
    options = ChatOptions(
        temperature=cast("float | None", left.pop("temperature", None)),
        top_p=cast("float | None", left.pop("top_p", None)),
        max_tokens=cast("int | None", left.pop("max_output_tokens", None)),
        tool_choice=choice,
        parallel_tool_calls=cast("bool | None", left.pop("parallel_tool_calls", None)),
        reasoning=reasoning,
    )
    typed |= {name: left.pop(name) for name in TYPED_EXTRAS if name in left}
    extras = replace(ResponsesOptions(extra_body=left or None, provider=provider), **typed)
    return options if extras == ResponsesOptions(provider=provider) else replace(options, extras=(extras,))


def _choice(left: Object) -> ToolChoice | None:
    choice = left.get("tool_choice")
    asked = object_of(choice)
    if asked.keys() == {"type", "name"} and asked["type"] == "function":
        del left["tool_choice"]
        return NamedTool(str(asked["name"]))
    known: dict[str, ToolChoice] = {"auto": "auto", "none": "none", "required": "required"}
    if isinstance(choice, str) and choice in known:
        del left["tool_choice"]
        return known[choice]
    return None


def _reasoning(left: Object, typed: dict[str, Any]) -> ReasoningEffort | None:
    asked = {key: value for key, value in object_of(left.pop("reasoning", None)).items() if value is not None}
    effort = asked.pop("effort", None) if asked.get("effort") in get_args(ReasoningEffort) else None
    if asked.get("summary") in {"auto", "concise", "detailed"}:
        typed["reasoning_summary"] = asked.pop("summary")
    if asked:
        typed["reasoning"] = asked
    return cast("ReasoningEffort | None", effort)


# --- The conversation ------------------------------------------------------------------------------------------------


class Conversation:
    """Reads items into turns. An item that answers a call becomes the status of that call."""

    def __init__(self, provider: str, system_role: str = "system", *, instructed: bool = False) -> None:
        self._provider = provider
        self._system_role = system_role
        self._instructed = instructed  # whether the first messages are sent as instructions
        self._turns: list[tuple[Role, list[Part]]] = []
        self._open: dict[str, Tool] = {}
        self._answered = False
        self._unanswered: dict[int, ProviderPart] = {}  # the result of a call with an unknown outcome

    def read(self, wire: list[Object], dialect: ResponsesDialect, previous: str | None) -> list[tuple[Role, Turn]]:
        """Return the turns after the response with the id `previous`."""
        turns = list[tuple[Role, Turn]]()
        if previous is not None:
            calls = [self._asked(item) for item in wire if item.get("type") in OUTPUTS]
            metadata = Metadata(self._provider, None, previous, "completed")
            turns.append(("model", sealed(Turn(calls, metadata=metadata), (), dialect)))
        for item in wire:
            self._item({key: value for key, value in item.items() if value is not None})
        for role, parts in self._turns:
            turns.append((role, Turn([self._unanswered.get(id(part), part) for part in parts])))
        return turns

    def _asked(self, output: Object) -> Tool:
        """Return a call that is known only from its output."""
        custom = output["type"] == "custom_tool_call_output"
        opaque = self._opaque({"item": {"type": "custom_tool_call"}} if custom else {})
        return self._called(FunctionCall("asked", opaque=opaque), str(output["call_id"]))

    def _opaque(self, data: Mapping[str, object]) -> Opaque | None:
        return Opaque(self._provider, data) if data else None

    def _model(self) -> list[Part]:
        """Return the parts of the current model turn. A turn does not continue after the result of one of its calls."""
        if not self._turns or self._turns[-1][0] != "model" or self._answered:
            self._turns.append(("model", []))
            self._answered = False
        return self._turns[-1][1]

    def _item(self, item: Object) -> None:
        kind, role = item.get("type", "message"), item.get("role")
        if kind in OUTPUTS:
            self._result(item)
        elif kind == "reasoning":
            self._model().append(self._thought(item))
        elif kind in {"function_call", "custom_tool_call"}:
            call = self._call(item)
            self._unanswered[id(call)] = ProviderPart(self._provider, str(kind), item)
            self._model().append(call)
        elif kind != "message":
            part = ProviderPart(self._provider, str(kind), item)
            if role is None:
                self._model().append(part)
            else:
                self._turns.append(("user", [part]))
        elif not self._is_plain(item):
            part = ProviderPart(self._provider, "message", dict[str, object]({"type": "message"}) | item)
            if role == "assistant":
                self._model().append(part)
            else:
                self._turns.append(("user", [part]))
        elif role == "assistant":
            said = self._said(item)
            parts = self._model()
            if parts and is_bare(parts[-1]) and is_bare(said[0]):
                self._turns.append(("model", parts := []))  # two messages without an id were two turns
            parts.extend(said)
        else:
            parts = self._content(item.get("content"))
            self._turns.append(("user" if role == "user" else "system", parts))

    def _is_plain(self, item: Object) -> bool:
        """Return whether a caller would pass a message as parts. Other messages are passed as raw items."""
        role, content = item.get("role"), item.get("content")
        parts = [object_of(part).get("type") for part in list_of(content)]
        if role == "assistant":
            return isinstance(content, str) or (bool(parts) and set(parts) <= {"output_text", "refusal"})
        if role != "user" and (role != self._system_role or (self._instructed and not self._turns)):
            return False
        further_fields = item.keys() - {"type", "role", "content"}
        return (isinstance(content, str) or bool(parts)) and (not further_fields or is_over(item, further_fields))

    def _content(self, content: Json) -> list[Part]:
        if isinstance(content, str):
            return [Text(content)]
        return [self._part(object_of(part)) for part in list_of(content)]

    def _part(self, part: Object) -> Part:
        kind = part.get("type")
        if kind == "input_text":
            return Text(str(part["text"]), self._opaque(further(part, "text")))
        if kind == "input_image" and "image_url" in part:
            detail = {key: value for key, value in part.items() if key == "detail"}
            return file_of(
                str(part["image_url"]), "image/png", self._opaque(detail | further(part, "image_url", "detail"))
            )
        if kind == "input_file" and "file_url" in part:
            return File("application/pdf", url=str(part["file_url"]), opaque=self._opaque(further(part, "file_url")))
        if kind == "input_file" and "filename" in part and str(part.get("file_data")).startswith("data:"):
            file = file_of(
                str(part["file_data"]), "application/pdf", self._opaque(further(part, "file_data", "filename"))
            )
            return replace(file, name=str(part.get("filename")))
        if kind in {"input_file", "input_image"} and "file_id" in part:
            mime = "image/*" if kind == "input_image" else "application/octet-stream"
            rest = {key: value for key, value in part.items() if key in {"file_id", "detail"}}
            return File(mime, opaque=self._opaque(rest))
        return ProviderPart(self._provider, "part", part)

    def _said(self, item: Object) -> list[Part]:
        head = {key: value for key, value in item.items() if key not in {"type", "role", "content"}}
        kept: dict[str, object] = {"item": head} if head and not is_over(item, head.keys()) else {}
        content = item.get("content")
        if isinstance(content, str):
            return [Text(content, self._opaque(kept))]
        parts = list[Part]()
        for part in map(object_of, list_of(content)):
            if part.get("type") == "refusal":
                parts.append(ProviderPart(self._provider, "refusal", {"refusal": part["refusal"], **kept}))
            else:
                parts.append(Text(str(part["text"]), self._opaque({**kept, **further(part, "text", "logprobs")})))
        return parts

    def _thought(self, item: Object) -> Reasoning:
        texts = [
            str(object_of(piece).get("text")) for name in ("summary", "content") for piece in list_of(item.get(name))
        ]
        sealed_text = item.get("encrypted_content")
        kept = {key: value for key, value in item.items() if key not in {"type", "encrypted_content"}}
        signature = sealed_text if isinstance(sealed_text, str) else None
        return Reasoning("".join(texts), signature, Opaque(self._provider, {"item": kept}))

    def _call(self, item: Object) -> Tool:
        custom = item.get("type") == "custom_tool_call"
        kept = {key: value for key, value in item.items() if key not in {"name", "arguments", "input", "call_id"}}
        if not custom:
            del kept["type"]
        opaque = self._opaque({"item": kept} if kept else {})
        text = str(item.get("input" if custom else "arguments"))
        call = FunctionCall(str(item["name"]), {"input": text}, raw=text, opaque=opaque)
        if not custom:
            call = FunctionCall.parse(str(item["name"]), text, opaque=opaque)
        return self._called(call, str(item["call_id"]))

    def _called(self, call: FunctionCall, call_id: str) -> Tool:
        tool = Tool(call, call_id=call_id)
        self._open[call_id] = tool
        return tool

    def _result(self, item: Object) -> None:
        """Resolve the call with the id of a result. A result without a call becomes a raw item."""
        tool = self._open.pop(str(item.get("call_id")), None)
        if tool is None or not is_plain_output(item):
            self._turns.append(("user", [ProviderPart(self._provider, str(item["type"]), item)]))
            return
        self._unanswered.pop(id(tool), None)
        self._answered = True
        output = item.get("output")
        if not isinstance(output, list):
            tool.adopt(tool.with_status(Completed(output or "")))
            return
        parts = self._content(output)
        texts = [part.text for part in parts if isinstance(part, Text)]
        files = tuple([part for part in parts if isinstance(part, File)])
        tool.adopt(tool.with_status(Completed("".join(texts), files)))


def is_over(item: Object, fields: Collection[str]) -> bool:
    """Return whether `status` is the only one of these fields, and is `completed`."""
    return set(fields) == {"status"} and item["status"] == "completed"


def is_plain_output(item: Object) -> bool:
    """Return whether the output of a call is a text that files may follow."""
    further_fields = item.keys() - {"type", "call_id", "output", "caller"}
    if further_fields and not is_over(item, further_fields):
        return False
    output = item.get("output")
    kinds = [object_of(part).get("type") for part in list_of(output)]
    return isinstance(output, str) or (bool(kinds) and "input_text" not in kinds[1:])


def is_bare(part: Part) -> bool:
    """Return whether a part is text without fields of a provider."""
    return isinstance(part, Text) and part.opaque is None


def further(part: Object, *known: str) -> dict[str, object]:
    """Return the fields of a content part that the library does not know."""
    rest: Object = {key: value for key, value in part.items() if key not in {"type", *known}}
    return {"part": rest} if rest else {}


def file_of(url: str, mime: str, opaque: Opaque | None) -> File:
    """Return the file at a URL, with the bytes of a `data:` URL. `mime` is used if the URL has no MIME type."""
    head, comma, data = url.partition(",")
    if not url.startswith("data:") or not comma:
        return File(mime, url=url, opaque=opaque)
    said = head.removeprefix("data:").partition(";")[0]
    return File(said or mime, data=base64.b64decode(data), opaque=opaque)


def object_of(value: object) -> Object:
    """Return the value if it is an object, or an empty object."""
    return cast("Object", value) if isinstance(value, dict) else {}


def list_of(value: object) -> list[Json]:
    """Return the value if it is a list, or an empty list."""
    return cast("list[Json]", value) if isinstance(value, list) else []
