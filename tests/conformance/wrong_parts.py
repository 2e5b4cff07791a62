"""Providers that read or send one kind of part wrong, or that do not use their own name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chat_core import (
    ChatError,
    ChatOptions,
    InvalidResponseError,
    Messages,
    NamedTool,
    OutputSchema,
    Part,
    ProviderPart,
    Structured,
    Tool,
    ToolCallDelta,
    ToolDeclarations,
    Turn,
)
from chat_core.json import parse
from chat_core.provider import Delta
from chat_core.transport import Event
from chat_core.wire.shapes import is_object
from chat_core.wire.surrogates import SurrogateBuffer

from .toy import Decoder, Encoder, Toy, ToyStream
from .wrong_providers import fails_at

Items = list[dict[str, Any]]

# --- Events and items of responses ----------------------------------------------------------------------------------


@fails_at("events_before_an_error")
class LosesDeltasBeforeAnError(Toy):
    """If an event of a chunk is an error, the deltas of the chunk are not delivered."""

    class Streaming(ToyStream):
        def read_batch(self, batch: Sequence[Event]) -> tuple[list[Delta], ChatError | None]:
            deltas, failure = super().read_batch(batch)
            return (deltas, None) if failure is None else ([], failure)


class _Replacing:
    """A buffer that replaces each half of a surrogate pair in the texts of some events."""

    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds
        self.others = SurrogateBuffer()

    def feed(self, event: object) -> object:
        text = event.get("text") if is_object(event) and event.get("t") in self.kinds else None
        if not is_object(event) or not isinstance(text, str):
            return self.others.feed(event)
        return {**event, "text": text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")}


@fails_at("split_characters")
class ReplacesSplitCharacters(Toy):
    """Each half of a surrogate pair becomes a replacement character."""

    class Decoding(Decoder):
        def __init__(self) -> None:
            super().__init__()
            self.surrogates: Any = _Replacing("say", "think", "input")


@fails_at("split_characters")
class JoinsOnlySplitTexts(Toy):
    """A character that is split between two events is joined in texts, but not in the arguments of a call."""

    class Decoding(Decoder):
        def __init__(self) -> None:
            super().__init__()
            self.surrogates: Any = _Replacing("input")


@fails_at("split_characters")
class FailsAtSplitCharacters(Toy):
    """An event with one half of a surrogate pair is no JSON for the parser."""

    class Streaming(ToyStream):
        def read(self, data: bytes) -> list[Delta]:
            try:
                parse(data)
            except ValueError as error:
                msg = "the event is no JSON"
                raise InvalidResponseError(msg, raw=data) from error
            return super().read(data)


@fails_at("field_paths")
class NamesNoField(Toy):
    """The error for a field of a wrong type does not name the field."""

    class Streaming(ToyStream):
        def read(self, data: bytes) -> list[Delta]:
            try:
                return super().read(data)
            except InvalidResponseError as error:
                error.path = ""
                raise

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        try:
            return await super().complete(messages, tools, options, structured_output)
        except InvalidResponseError as error:
            error.path = ""
            raise


@fails_at("field_paths")
class ReadsNumbersAsTexts(Toy):
    """A number in place of a text is read as a text."""

    class Decoding(Decoder):
        def on_say(self, event: Any) -> list[Delta]:
            return super().on_say({**event, "text": str(event["text"])})


@fails_at("text_after_a_call")
class MovesTextsToTheFront(Toy):
    """The texts of a turn come before its calls."""

    class Decoding(Decoder):
        def parts(self) -> list[Part]:
            return sorted(super().parts(), key=lambda part: isinstance(part, Tool))


@fails_at("call_deltas")
class NamesNoCallsInDeltas(Toy):
    """The deltas of a call do not name its tool. The turn does."""

    class Decoding(Decoder):
        def on_call(self, event: Any) -> list[Delta]:
            return [replace(delta, name=None) for delta in super().on_call(event) if isinstance(delta, ToolCallDelta)]


@fails_at("call_deltas")
class GivesNoIdsInDeltas(Toy):
    """The deltas of a call do not have its id. The turn has it."""

    class Decoding(Decoder):
        def on_call(self, event: Any) -> list[Delta]:
            return [
                replace(delta, call_id=None) for delta in super().on_call(event) if isinstance(delta, ToolCallDelta)
            ]


# --- Parts of a history ---------------------------------------------------------------------------------------------


@fails_at("structured_parts")
class DropsStructuredParts(Toy):
    """Structured parts are not sent."""

    class Encoding(Encoder):
        def part(self, role: str, part: Part) -> Items:
            return [] if isinstance(part, Structured) else super().part(role, part)


@fails_at("structured_parts")
class DropsStructuredPartsOfOthers(Toy):
    """Structured parts of another provider are not sent."""

    class Encoding(Encoder):
        def turn(self, role: str, turn: Turn) -> Items:
            foreign = turn.metadata is not None and turn.metadata.provider != self.name
            kept = [part for part in turn.parts if not (foreign and isinstance(part, Structured))]
            return super().turn(role, Turn(kept, metadata=turn.metadata))


@fails_at("structured_parts")
class SendsStructuredPartsRaw(Toy):
    """The value of a structured part is sent as it is, where the API requires a text."""

    class Encoding(Encoder):
        def part(self, role: str, part: Part) -> Items:
            return [{"who": role, "say": part.value}] if isinstance(part, Structured) else super().part(role, part)


@fails_at("structured_parts")
class SendsStructuredPartsInPython(Toy):
    """The value of a structured part is sent as Python writes it."""

    class Encoding(Encoder):
        def part(self, role: str, part: Part) -> Items:
            return [{"who": role, "say": str(part.value)}] if isinstance(part, Structured) else super().part(role, part)


@fails_at("own_parts")
class DropsItsOwnParts(Toy):
    """Provider parts are not sent, whoever made them."""

    class Encoding(Encoder):
        def part(self, role: str, part: Part) -> Items:
            return [] if isinstance(part, ProviderPart) else super().part(role, part)


# --- Tools ----------------------------------------------------------------------------------------------------------


@fails_at("undeclared_tools")
class DeclaresUndeclaredTools(Toy):
    """Tools with `declared=False` are declared to the model."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        every = ToolDeclarations([replace(tool, declared=True) for tool in tools])
        return super().body(messages, every, options, output)


@fails_at("tool_choice")
class RequiresAnyToolForOne(Toy):
    """The choice of one tool is sent as the choice of any tool."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        if isinstance(options.tool_choice, NamedTool):
            options = replace(options, tool_choice="required")
        return super().body(messages, tools, options, output)


# --- The name of the provider ---------------------------------------------------------------------------------------


@fails_at("provider_name")
class NamesTurnsByAConstant(Toy):
    """The decoder does not use the configured name of the provider."""

    def decoder(self) -> Decoder:
        return self.Decoding()


@fails_at("provider_name")
class KnowsItsDataByAConstant(Toy):
    """The encoder does not use the configured name of the provider to recognize its own data."""

    def encoder(self) -> Encoder:
        return self.Encoding()


@fails_at("cached_turns")
class CachesTurnsUnderOneKey(Toy):
    """The key of the cached encoding of a turn lacks the name of the provider."""

    class Encoding(Encoder):
        def turn(self, role: str, turn: Turn) -> Items:
            encode = super().turn
            items: Items = json.loads(turn.encoded(("toy", role), lambda each: json.dumps(encode(role, each)).encode()))
            return items
