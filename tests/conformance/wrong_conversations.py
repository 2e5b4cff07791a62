"""Providers that send another request than the conversation and the options require, in one way each."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from chat_core import ChatOptions, Messages, OutputSchema, Part, Text, Tool, ToolDeclarations

from .toy import Decoder, Encoder, Toy
from .wrong_providers import fails_at


@fails_at("declarations")
class DeclaresToolsOnce(Toy):
    """A request that contains a result declares no tools."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        fields = json.loads(super().body(messages, tools, options, output))
        if any("result" in item for item in fields["items"]):
            fields["tools"] = []
        return json.dumps(fields).encode()


@fails_at("words_in_order")
class SendsTheSystemTextOnce(Toy):
    """The system text is sent with the first request only."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        fields = json.loads(super().body(messages, tools, options, output))
        if any(item.get("who") == "model" for item in fields["items"]):
            fields["items"] = [item for item in fields["items"] if item.get("who") != "system"]
        return json.dumps(fields).encode()


@fails_at("state")
class KeepsAnOption(Toy):
    """The temperature of a request is sent with the requests after it."""

    temperature: float | None = None

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        if options.temperature is None:
            options = replace(options, temperature=self.temperature)
        self.temperature = options.temperature
        return super().body(messages, tools, options, output)


@fails_at("results")
class ShortensResults(Toy):
    """The result of a tool is cut after 1,000 characters."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> list[dict[str, Any]]:
            return [{**item, "result": item["result"][:1000]} for item in super().result(tool)]


@fails_at("results")
class StripsResults(Toy):
    """White space at the beginning and at the end of a result is removed."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> list[dict[str, Any]]:
            return [{**item, "result": item["result"].strip()} for item in super().result(tool)]


@fails_at("results")
class SendsResultsAsAscii(Toy):
    """Characters of a result outside ASCII are left out."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> list[dict[str, Any]]:
            results = super().result(tool)
            return [{**item, "result": item["result"].encode("ascii", "ignore").decode()} for item in results]


@fails_at("broken_arguments")
class ReadsABrokenCallAsText(Toy):
    """A call whose arguments are not JSON becomes a text."""

    class Decoding(Decoder):
        def part(self, piece: dict[str, Any]) -> Part:
            part = super().part(piece)
            return Text(piece["input"]) if isinstance(part, Tool) and part.call.problem is not None else part


@fails_at("schema_sent")
class StreamsWithoutTheSchema(Toy):
    """A stream does not request the structured output that a complete response has."""

    def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Any:
        del structured_output
        return super().stream(messages, tools, options, None)


@fails_at("options")
class StreamsWithoutOptions(Toy):
    """Options are sent with `complete()`, and not with `stream()`."""

    def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Any:
        bare = replace(options, temperature=None, max_tokens=None)
        return super().stream(messages, tools, bare, structured_output)
