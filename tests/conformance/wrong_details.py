"""Providers that change a detail of a response or a request, in one way each. A plain recording does not show it."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chat_core import (
    ChatOptions,
    InvalidResponseError,
    Messages,
    OutputSchema,
    Part,
    ProviderError,
    Reasoning,
    Text,
    Tool,
    ToolDeclarations,
    Turn,
)
from chat_core.provider import Delta

from .toy import Decoder, Encoder, Toy, ToyStream
from .wrong_providers import fails_at


@fails_at("ownership")
class LosesTheModel(Toy):
    """The metadata of a turn does not name the model."""

    class Decoding(Decoder):
        def turn(self) -> Turn:
            turn = super().turn()
            turn.metadata = replace(turn.metadata, model=None) if turn.metadata is not None else None
            return turn


@fails_at("partial")
class CountsNothingBeforeTheEnd(Toy):
    """A turn that is not complete has no usage, so that failed streams cost nothing."""

    class Streaming(ToyStream):
        def partial(self) -> Turn:
            turn = super().partial()
            turn.metadata = None
            return turn


@fails_at("exact_answer")
class UnescapesResponses(Toy):
    """The text of a response is taken for HTML."""

    class Decoding(Decoder):
        def on_say(self, event: Any) -> list[Delta]:
            return super().on_say({**event, "text": html.unescape(event["text"])})


@fails_at("exact_answer")
class StripsResponses(Toy):
    """White space at the beginning and at the end of a text is removed."""

    class Decoding(Decoder):
        def part(self, piece: dict[str, Any]) -> Part:
            part = super().part(piece)
            return Text(part.text.strip()) if isinstance(part, Text) else part


@fails_at("reasoning")
class StripsReasoning(Toy):
    """White space at the beginning and at the end of the reasoning is removed."""

    class Decoding(Decoder):
        def part(self, piece: dict[str, Any]) -> Part:
            part = super().part(piece)
            return replace(part, text=part.text.strip()) if isinstance(part, Reasoning) else part


@fails_at("exact_answer")
class DropsRepeatedDeltas(Toy):
    """An event that equals the one before it is taken for a repetition."""

    class Decoding(Decoder):
        last: Any = None

        def on_say(self, event: Any) -> list[Delta]:
            if event == self.last:
                return []
            self.last = event
            return super().on_say(event)


@fails_at("exact_answer")
class FailsWithoutText(Toy):
    """A response without text and calls is taken for a fault."""

    class Decoding(Decoder):
        def turn(self) -> Turn:
            turn = super().turn()
            if self.why is not None and not turn.text and not turn.tools:
                msg = "the response is empty"
                raise InvalidResponseError(msg)
            return turn


@fails_at("results")
class SortsArguments(Toy):
    """The arguments of a call are sent in the order of the alphabet."""

    class Encoding(Encoder):
        def call(self, tool: Tool) -> list[dict[str, Any]]:
            (item,) = super().call(tool)
            return [{**item, "input": json.dumps(dict(tool.call.arguments), sort_keys=True)}]


class _Rewrites(Toy):
    """Request bodies that a subclass rewrites."""

    def rewrite(self, fields: dict[str, Any]) -> str:
        """Return the JSON of a body."""
        raise NotImplementedError

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        return self.rewrite(json.loads(super().body(messages, tools, options, output))).encode()


@fails_at("declarations")
class SortsDeclarations(_Rewrites):
    """Tools are declared in the order of the alphabet, so that a new tool changes the beginning of the request."""

    def rewrite(self, fields: dict[str, Any]) -> str:
        return json.dumps({**fields, "tools": sorted(fields["tools"], key=lambda tool: str(tool["name"]))})


@fails_at("declarations")
class SortsParameters(_Rewrites):
    """The parameters of a tool are declared in the order of the alphabet."""

    def rewrite(self, fields: dict[str, Any]) -> str:
        return json.dumps(fields, sort_keys=True)


@fails_at("error_class")
class LosesTheMessage(Toy):
    """The error of an error response has no message."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        error = super().refusal(status, headers, body)
        error.args = ("",)
        return error
