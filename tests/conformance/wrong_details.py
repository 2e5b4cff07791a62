"""Providers that change a detail of a response or a request, in one way each. A plain recording does not show it."""

from __future__ import annotations

import html
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chat_core import (
    ChatOptions,
    FunctionCall,
    InvalidResponseError,
    Messages,
    OutputSchema,
    Part,
    ProviderError,
    Reasoning,
    Text,
    TextDelta,
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
            text = event["text"]
            return super().on_say({**event, "text": html.unescape(text) if isinstance(text, str) else text})


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


# --- Several events in one chunk ------------------------------------------------------------------------------------


class _Batches(ToyStream):
    """A stream that changes the deltas of several events that arrived together."""

    def change(self, deltas: list[Delta]) -> list[Delta]:
        """Return the deltas of a chunk."""
        raise NotImplementedError

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        async for batch in super().__aiter__():
            yield self.change(list(batch)) if len(batch) > 1 else batch


@fails_at("cut_anywhere")
class ReversesBatches(Toy):
    """The deltas of events that arrive together are delivered in the reverse order."""

    class Streaming(_Batches):
        def change(self, deltas: list[Delta]) -> list[Delta]:
            return deltas[::-1]


@fails_at("cut_anywhere")
class KeepsTheLastOfABatch(Toy):
    """Of the deltas of events that arrive together only the last one is delivered."""

    class Streaming(_Batches):
        def change(self, deltas: list[Delta]) -> list[Delta]:
            return deltas[-1:]


@fails_at("cut_anywhere")
class DeliversBatchesTwice(Toy):
    """The deltas of events that arrive together are delivered twice."""

    class Streaming(_Batches):
        def change(self, deltas: list[Delta]) -> list[Delta]:
            return deltas * 2


@fails_at("exact_answer")
class DropsBlankDeltas(Toy):
    """A delta of white space only is not delivered. The turn has it."""

    class Decoding(Decoder):
        def on_say(self, event: Any) -> list[Delta]:
            return [delta for delta in super().on_say(event) if not isinstance(delta, TextDelta) or delta.text.strip()]


# --- Calls of the model ---------------------------------------------------------------------------------------------


class _Arguments(Decoder):
    """A decoder that changes the arguments of the calls."""

    def change(self, value: Any) -> Any:
        """Return the new value of an argument."""
        return value

    def keeps(self, value: Any) -> bool:
        """Return whether an argument is kept."""
        del value
        return True

    def call(self, piece: dict[str, Any]) -> Tool:
        tool = super().call(piece)
        if tool.call.problem is not None:
            return tool
        arguments = {key: self.change(value) for key, value in tool.call.arguments.items() if self.keeps(value)}
        return Tool(FunctionCall(tool.name, arguments), call_id=piece["id"])


@fails_at("exact_call")
class RoundsArguments(Toy):
    """An integer of a call goes through a floating-point number."""

    class Decoding(_Arguments):
        def change(self, value: Any) -> Any:
            return int(float(value)) if type(value) is int else value


@fails_at("exact_call")
class WritesNumbersAsStrings(Toy):
    """A number of a call is returned as a string."""

    class Decoding(_Arguments):
        def change(self, value: Any) -> Any:
            return str(value) if type(value) in {int, float} else value


@fails_at("exact_call")
class DropsFalsyArguments(Toy):
    """An argument of a call that is zero, false, null or empty is dropped."""

    class Decoding(_Arguments):
        def keeps(self, value: Any) -> bool:
            return bool(value)


@fails_at("exact_call")
class StripsArguments(Toy):
    """White space at the beginning and at the end of an argument is removed."""

    class Decoding(_Arguments):
        def change(self, value: Any) -> Any:
            return value.strip() if isinstance(value, str) else value


@fails_at("exact_call")
class WritesArgumentsInAscii(Toy):
    """Other characters than those of ASCII are dropped from the arguments of a call."""

    class Decoding(_Arguments):
        def change(self, value: Any) -> Any:
            return value.encode("ascii", "ignore").decode() if isinstance(value, str) else value


@fails_at("exact_call")
class UnescapesArguments(Toy):
    """The arguments of a call are taken for HTML."""

    class Decoding(_Arguments):
        def change(self, value: Any) -> Any:
            return html.unescape(value) if isinstance(value, str) else value


@fails_at("exact_call")
class CutsArguments(Toy):
    """An argument of a call is cut after 40 characters."""

    class Decoding(_Arguments):
        def change(self, value: Any) -> Any:
            return value[:40] if isinstance(value, str) else value


@fails_at("exact_call")
class LowersToolNames(Toy):
    """The name of a called tool is returned in lower case."""

    class Decoding(Decoder):
        def call(self, piece: dict[str, Any]) -> Tool:
            tool = super().call(piece)
            return Tool(replace(tool.call, name=tool.name.lower()), call_id=tool.call_id)
