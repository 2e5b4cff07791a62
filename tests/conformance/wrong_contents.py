"""Providers that change the contents of a request, in one way each, where a short test would not show the change."""

from __future__ import annotations

import json
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from anyio.lowlevel import checkpoint
from chat_core import (
    ChatOptions,
    Completed,
    EmbeddingsResponse,
    Messages,
    OutputSchema,
    Part,
    Rejected,
    Text,
    Tool,
    ToolDeclarations,
    Turn,
)

from .toy import Encoder, Toy
from .wrong_providers import fails_at

Items = list[dict[str, Any]]
SHORT = 100


@fails_at("json_results")
class RoundsNumbersOfResults(Toy):
    """A number of a tool result passes through a floating-point number."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> Items:
            (item,) = super().result(tool)
            try:
                value = json.loads(item["result"], parse_int=lambda digits: int(float(digits)))
            except ValueError:
                return [item]
            return [{**item, "result": json.dumps(value)}]


@fails_at("json_results")
class WritesNoneAsPython(Toy):
    """A result that is null or a truth value is written as Python prints it."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> Items:
            (item,) = super().result(tool)
            result = tool.status.result if isinstance(tool.status, Completed) else ""
            return [{**item, "result": str(result)}] if result is None or isinstance(result, bool) else [item]


@fails_at("failure_marks")
class MarksOnlyFailures(Toy):
    """A rejected call is marked as one that succeeded."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> Items:
            (item,) = super().result(tool)
            return [{**item, "ok": item["ok"] or isinstance(tool.status, Rejected)}]


@fails_at("result_ids")
class SendsEqualResultsOnce(Toy):
    """Of two calls with the same result, one result is sent."""

    class Encoding(Encoder):
        def turn(self, role: str, turn: Turn) -> Items:
            found: dict[str, dict[str, Any]] = {}
            for item in super().turn(role, turn):
                found.setdefault(str(item.get("result", item)), item)
            return list(found.values())


@fails_at("words_in_order")
class DropsRepeatedTexts(Toy):
    """A text that a message before it had is left out."""

    class Encoding(Encoder):
        def items(self, messages: Messages) -> Items:
            found: Items = []
            for item in super().items(messages):
                if "say" not in item or item not in found:
                    found.append(item)
            return found


@fails_at("words_in_order")
class SendsTheFirstSystemText(Toy):
    """Of several system texts only the first one is sent."""

    class Encoding(Encoder):
        def items(self, messages: Messages) -> Items:
            items = super().items(messages)
            system = [item for item in items if item.get("who") == "system"]
            return [item for item in items if item not in system[1:]]


class _ChangingEncoder(Encoder, ABC):
    """Texts that a subclass changes."""

    @abstractmethod
    def change(self, text: str) -> str: ...

    def part(self, role: str, part: Part) -> Items:
        return super().part(role, replace(part, text=self.change(part.text)) if isinstance(part, Text) else part)


@fails_at("exact_text")
class NormalizesCharacters(Toy):
    """Characters are replaced by equivalent ones."""

    class Encoding(_ChangingEncoder):
        def change(self, text: str) -> str:
            return unicodedata.normalize("NFC", text)


@fails_at("exact_text")
class NormalizesLineEnds(Toy):
    """A carriage return before a line feed is removed."""

    class Encoding(_ChangingEncoder):
        def change(self, text: str) -> str:
            return text.replace("\r\n", "\n")


@fails_at("exact_text")
class FormatsTexts(Toy):
    """A text is taken for a template, whose doubled braces become single ones."""

    class Encoding(_ChangingEncoder):
        def change(self, text: str) -> str:
            return text.replace("{{", "{").replace("}}", "}")


class _Declares(Toy, ABC):
    """Declarations that a subclass changes."""

    @abstractmethod
    def declared(self, tool: dict[str, Any]) -> dict[str, Any]: ...

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        fields = json.loads(super().body(messages, tools, options, output))
        return json.dumps({**fields, "tools": [self.declared(tool) for tool in fields["tools"]]}).encode()


def without(name: str, value: object) -> object:
    """Return a JSON value without the members called `name`, at any depth."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {key: without(name, item) for key, item in members.items() if key != name}
    return [without(name, item) for item in cast("list[object]", value)] if isinstance(value, list) else value


@fails_at("declarations")
class DeclaresNoEnumeratedValues(_Declares):
    """The values that a parameter may have are not declared."""

    def declared(self, tool: dict[str, Any]) -> dict[str, Any]:
        return {**tool, "takes": without("enum", tool["takes"])}


@fails_at("declarations")
class DeclaresNoDefinitions(_Declares):
    """The definitions to which a schema refers are left out."""

    def declared(self, tool: dict[str, Any]) -> dict[str, Any]:
        return {**tool, "takes": without("$defs", tool["takes"])}


@fails_at("declarations")
class DeclaresNoDescriptionsOfParameters(_Declares):
    """The descriptions of parameters are left out."""

    def declared(self, tool: dict[str, Any]) -> dict[str, Any]:
        return {**tool, "takes": without("description", tool["takes"])}


@fails_at("declarations")
class ShortensDescriptions(_Declares):
    """The description of a tool is cut after 100 characters."""

    def declared(self, tool: dict[str, Any]) -> dict[str, Any]:
        return {**tool, "about": tool["about"][:SHORT]}


@fails_at("state")
class KeepsDeclarations(Toy):
    """The tools of the first request are declared with each request after it."""

    first: ToolDeclarations | None = None

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        self.first = self.first or tools or None
        return super().body(messages, self.first or tools, options, output)


@fails_at("state")
class KeepsTheRequestInItself(Toy):
    """A request is kept in the provider until it is sent, where a concurrent call replaces it."""

    current: tuple[Messages, ToolDeclarations, ChatOptions, OutputSchema | None]

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        self.current = messages, tools, options, structured_output
        await checkpoint()
        return await super().complete(*self.current)


@fails_at("embeddings")
class ShortensTextsToEmbed(Toy):
    """A text to embed is cut after 100 characters."""

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        return await super().embed([text[:SHORT] for text in texts], options)


@fails_at("embeddings")
class FlattensTextsToEmbed(Toy):
    """Line ends of a text to embed become spaces."""

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        return await super().embed([text.replace("\n", " ") for text in texts], options)
