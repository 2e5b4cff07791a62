"""Conversion of recorded requests of the Gemini API to the values that a caller of the library would pass.

The conversion follows the API reference and the documentation of the library. It shares no code with the encoder, so a
request that is rebuilt and encoded is an independent check.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final, cast

from chat_core.messages import (
    Completed,
    File,
    FunctionCall,
    Messages,
    Opaque,
    Part,
    ProviderPart,
    Reasoning,
    Text,
    Tool,
    Turn,
)
from chat_core.options import ChatOptions, NamedTool, ReasoningEffort, ToolChoice
from chat_core.provider import OutputSchema, ToolDeclaration, ToolDeclarations
from chat_core.usage import Metadata
from chat_gemini.options import Dialect, EmbeddingDialect, EmbeddingOptions, GeminiOptions, SafetySetting

from ..normalise import Json, Object
from .normalise import OPEN, SCHEMAS, camel, each_schema

DECLARED: Final = frozenset({"name", "description", "parameters", "parametersJsonSchema"})
"""What a declaration of the library's holds. One that holds more goes as a tool in the server's own words."""

ANY_OBJECT: Final[Object] = {"type": "object", "properties": {}}


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """The values that a caller would pass to the library."""

    messages: Messages
    tools: ToolDeclarations
    options: ChatOptions
    output: OutputSchema | None
    dialect: Dialect


@dataclass(frozen=True, kw_only=True)
class RebuiltEmbeddings:
    """The values that a caller would pass to the library for embeddings."""

    texts: tuple[str, ...]
    options: ChatOptions
    dialect: EmbeddingDialect


def rebuild(body: Object, provider: str) -> Rebuilt:
    """Return the values for which the library should send this body."""
    left = cast("Object", named(body))
    tools = [_object(tool) for tool in _list(left.pop("tools", None))]
    declared = [_object(item) for tool in tools for item in _list(tool.pop("functionDeclarations", None))]
    functions = [item for item in declared if item.keys() <= DECLARED]
    native = [tool for tool in tools if tool]
    if further := [item for item in declared if not item.keys() <= DECLARED]:
        native.insert(0, {"functionDeclarations": cast("list[Json]", further)})
    body_config = left.get("toolConfig")
    generation = _object(left.pop("generationConfig", None))
    openapi = "responseSchema" in generation or any("parameters" in item for item in functions)
    conversation = _Conversation(provider)
    messages = conversation.read(_list(left.pop("contents", None)), _object(left.pop("systemInstruction", None)))
    dialect = Dialect(
        model="m",
        provider=provider,
        schemas="openapi" if openapi else "json",
        files_in_results=conversation.files_in_results,
        retrieval=_object(_object(body_config).get("retrievalConfig")) or None,
    )
    return Rebuilt(
        messages=messages,
        tools=ToolDeclarations([_declaration(item) for item in functions]),
        output=_output(generation),
        options=_options(left, generation, provider, native, tools=bool(functions)),
        dialect=dialect,
    )


def rebuild_embeddings(body: Object, provider: str, method: str) -> RebuiltEmbeddings:
    """Return the values for which the library should send this body of an embeddings request."""
    form = cast("Object", named(body))
    if method == "predict":
        return _rebuilt_prediction(form, provider)
    requests = [_object(item) for item in _list(form["requests"])] if method == "batchEmbedContents" else [form]
    first = requests[0]
    settings = _object(first.get("embedContentConfig") or first)
    dimensions, cut = settings.get("outputDimensionality"), settings.get("autoTruncate")
    return RebuiltEmbeddings(
        texts=tuple([_words(request) for request in requests]),
        options=_embedding_options(settings.get("taskType"), settings.get("title"), provider),
        dialect=EmbeddingDialect(
            model=str(first.get("model", "")).removeprefix("models/"),
            provider=provider,
            method="batchEmbedContents" if method == "batchEmbedContents" else "embedContent",
            dimensions=dimensions if isinstance(dimensions, int) else None,
            auto_truncate=cut if isinstance(cut, bool) else None,
            grouped="embedContentConfig" in first,
        ),
    )


def _rebuilt_prediction(form: Object, provider: str) -> RebuiltEmbeddings:
    texts = [_object(item) for item in _list(form["instances"])]
    settings = _object(form.get("parameters") or {})
    dimensions, cut = settings.get("outputDimensionality"), settings.get("autoTruncate")
    return RebuiltEmbeddings(
        texts=tuple([str(item["content"]) for item in texts]),
        options=_embedding_options(texts[0].get("taskType"), texts[0].get("title"), provider),
        dialect=EmbeddingDialect(
            model="m",
            provider=provider,
            method="predict",
            dimensions=dimensions if isinstance(dimensions, int) else None,
            auto_truncate=cut if isinstance(cut, bool) else None,
        ),
    )


def _embedding_options(task: Json, title: Json, provider: str) -> ChatOptions:
    if task is None and title is None:
        return ChatOptions()
    named = [None if value is None else str(value) for value in (task, title)]
    return ChatOptions(extras=(EmbeddingOptions(task_type=named[0], title=named[1], provider=provider),))


def _words(request: Object) -> str:
    return "".join([str(_object(part).get("text")) for part in _list(_object(request["content"]).get("parts"))])


def named(value: Json, key: str = "") -> Json:
    """Return the value with the JSON names of its fields, and with lists for repeated fields."""
    if key in OPEN or key in SCHEMAS:
        return value
    if isinstance(value, dict):
        return {camel(name): named(item, camel(name)) for name, item in value.items() if item is not None}
    return [named(item) for item in value] if isinstance(value, list) else value


# --- Other fields --------------------------------------------------------------------------------


def _declaration(item: Object) -> ToolDeclaration:
    parameters = item.get("parametersJsonSchema", item.get("parameters", ANY_OBJECT))
    return ToolDeclaration(str(item["name"]), str(item.get("description") or ""), plain_schema(parameters))


def plain_schema(schema: Json) -> Object:
    """Return the schema in the form of JSON Schema: types in lower case, keywords with their own names."""
    return _object(each_schema(schema, _small))


def _small(schema: Object) -> Object:
    return {
        key: str(value).lower() if key == "type" and isinstance(value, str) else value for key, value in schema.items()
    }


def _output(generation: Object) -> OutputSchema | None:
    schema = generation.get("responseJsonSchema", generation.get("responseSchema"))
    if schema is None or generation.get("responseMimeType") != "application/json":
        return None
    for key in ("responseJsonSchema", "responseSchema", "responseMimeType"):
        generation.pop(key, None)
    return OutputSchema("answer", plain_schema(schema))


def _options(left: Object, generation: Object, provider: str, native: list[Object], *, tools: bool) -> ChatOptions:
    typed: dict[str, Any] = {}
    choice = _choice(_object(left.pop("toolConfig", None)), typed, tools=tools)
    if safety := _list(left.pop("safetySettings", None)):
        typed["safety"] = tuple([SafetySetting(**cast("dict[str, str]", _object(item))) for item in safety])
    if "cachedContent" in left:
        typed["cached_content"] = left.pop("cachedContent")
    thinking = _object(generation.get("thinkingConfig"))
    if "includeThoughts" in thinking:
        typed["include_thoughts"] = thinking.pop("includeThoughts")
    reasoning = thinking.pop("thinkingBudget", str(thinking.pop("thinkingLevel", "")).lower() or None)
    generation.pop("thinkingConfig", None)
    for field, name in GENERATION.items():
        if field in generation:
            value = generation.pop(field)
            typed[name] = tuple(value) if isinstance(value, list) else value
    plain: dict[str, Any] = {name: generation.pop(field) for field, name in PLAIN.items() if field in generation}
    if stop := _list(generation.pop("stopSequences", None)):
        plain["stop"] = tuple([str(text) for text in stop])
    extras = GeminiOptions(
        tools=tuple(native), generation_config=generation or None, extra_body=left or None, provider=provider, **typed
    )
    return ChatOptions(
        tool_choice=choice,
        reasoning=cast("ReasoningEffort | int | None", reasoning),
        extras=(extras,),
        **plain,
    )


PLAIN: Final = {"temperature": "temperature", "topP": "top_p", "maxOutputTokens": "max_tokens", "seed": "seed"}
GENERATION: Final = {
    "topK": "top_k",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "responseLogprobs": "response_logprobs",
    "logprobs": "logprobs",
    "responseModalities": "response_modalities",
    "speechConfig": "speech",
    "imageConfig": "image",
    "mediaResolution": "media_resolution",
}


def _choice(config: Object, typed: dict[str, Any], *, tools: bool) -> ToolChoice | None:
    calling = _object(config.get("functionCallingConfig"))
    for field, name, place in (
        ("streamFunctionCallArguments", "stream_arguments", calling),
        ("includeServerSideToolInvocations", "server_calls", config),
    ):
        if field in place:
            typed[name] = place[field]
    mode, names = calling.get("mode"), [str(name) for name in _list(calling.get("allowedFunctionNames"))]
    known: dict[object, ToolChoice] = {"AUTO": "auto", "NONE": "none", "ANY": "required"}
    if mode == "ANY" and len(names) == 1 and tools:
        return NamedTool(names[0])
    if mode in known and not names and tools:
        return known[mode]
    if mode is not None:
        typed["function_mode"] = mode
    if names:
        typed["allowed_functions"] = tuple(names)
    return None


# --- The conversation ---------------------------------------------------------------------------------------


class _Conversation:
    """Reads contents into `Messages`. A result becomes the status of the call that it answers."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._open = list[Tool]()
        self.files_in_results = True

    def read(self, contents: list[Json], system: Object) -> Messages:
        messages = Messages()
        if said := self._parts(system):
            messages.append("system", Turn(said))
        model = list[Part]()
        for item in contents:
            content = _object(item)
            if content.get("role") == "model":
                model += self._parts(content)  # everything up to the next role is one turn
                continue
            if model:
                messages.append("model", self._turn(model))
                model = []
            if said := self._parts(content):
                messages.append("user", Turn(said))
        if model:
            messages.append("model", self._turn(model))
        return messages

    def _turn(self, parts: list[Part]) -> Turn:
        self._open = [part for part in parts if isinstance(part, Tool)]
        return Turn(parts, finish_reason="stop", metadata=Metadata(self._provider))

    def _parts(self, content: Object) -> list[Part]:
        parts = content.get("parts")
        items = [parts] if isinstance(parts, dict) else _list(parts)
        return [part for item in items if (part := self._part(_object(item))) is not None]

    def _opaque(self, part: Object, *fields: str) -> Opaque | None:
        rest = {key: value for key, value in part.items() if key not in {*fields, "thought", "thoughtSignature"}}
        data: dict[str, object] = {"part": rest} if rest else {}
        if signature := part.get("thoughtSignature"):
            data["thoughtSignature"] = signature
        return Opaque(self._provider, data) if data else None

    def _part(self, part: Object) -> Part | None:
        if "text" in part:
            text = str(part["text"])
            if not part.get("thought"):
                return Text(text, self._opaque(part, "text"))
            signature = part.get("thoughtSignature")
            return Reasoning(text, str(signature) if signature else None, Opaque(self._provider, {}))
        if "functionCall" in part:
            return self._call(part)
        if "functionResponse" in part:
            return self._result(part)
        if "inlineData" in part or "fileData" in part:
            return self._file(part)
        return ProviderPart(self._provider, next(iter(part)), part)

    def _file(self, part: Object) -> File:
        blob, where = _object(part.get("inlineData")), _object(part.get("fileData"))
        opaque = self._opaque(part, "inlineData", "fileData")
        known = {"mimeType", "data", "fileUri"}
        if further := {key: value for key, value in (blob or where).items() if key not in known}:
            opaque = Opaque(self._provider, {**(opaque.data if opaque else {}), "blob": further})
        if blob:
            return File(str(blob["mimeType"]), data=base64.b64decode(str(blob["data"])), opaque=opaque)
        return File(str(where.get("mimeType") or "*/*"), url=str(where["fileUri"]), opaque=opaque)

    def _call(self, part: Object) -> Tool:
        call = _object(part["functionCall"])
        made = FunctionCall(str(call["name"]), _object(call.get("args")), opaque=self._opaque(part, "functionCall"))
        identity = call.get("id")
        return Tool(made, call_id=None if identity is None else str(identity))

    def _result(self, part: Object) -> Part | None:
        """Resolve the call that a result answers: the call with its id, or the first open call with its name."""
        response = _object(part["functionResponse"])
        identity, name = response.get("id"), response.get("name")
        tool = next((tool for tool in self._open if tool.call_id == identity and tool.name == name), None)
        if tool is None:
            return ProviderPart(self._provider, "functionResponse", part)
        self._open.remove(tool)
        files = [self._file(_object(item)) for item in _list(response.get("parts"))]
        tool.adopt(tool.with_status(Completed(_object(response.get("response")), files=tuple(files))))
        return None


def _object(value: object) -> Object:
    return dict(cast("Object", value)) if isinstance(value, dict) else {}


def _list(value: object) -> list[Json]:
    if isinstance(value, dict):
        return [cast("Json", value)]
    return cast("list[Json]", value) if isinstance(value, list) else []
