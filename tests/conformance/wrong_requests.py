"""Providers that decode calls wrong, or send data that they must not send, in one way each."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from chat_core import (
    ChatOptions,
    Completed,
    EmbeddingsResponse,
    File,
    FunctionCall,
    Messages,
    Opaque,
    OutputSchema,
    Part,
    ProviderError,
    ProviderPart,
    Reasoning,
    Tool,
    ToolCallDelta,
    ToolDeclarations,
    Turn,
    Usage,
)
from chat_core.provider import Delta
from chat_core.transport import Request, Transport

from .toy import Decoder, Encoder, Toy, ToyStream
from .wrong_providers import fails_at

Items = list[dict[str, Any]]

# --- Calls ----------------------------------------------------------------------------------------------------------


@fails_at("parallel_calls", "call_deltas")
class DropsTheSecondCall(Toy):
    """Only the first of several parallel calls is returned."""

    class Decoding(Decoder):
        def parts(self) -> list[Part]:
            parts = super().parts()
            return [part for place, part in enumerate(parts) if not (place and isinstance(parts[place - 1], Tool))]


@fails_at("parallel_calls", "call_deltas")
class MergesCallsOfOneName(Toy):
    """Two calls of the same tool are merged."""

    class Decoding(Decoder):
        def parts(self) -> list[Part]:
            last = {piece["name"]: piece for piece in self.pieces if piece["t"] == "call"}
            return [self.part(piece) for piece in self.pieces if piece["t"] != "call" or last[piece["name"]] is piece]


@fails_at("call", "call_deltas", "parallel_calls", "no_arguments", "pause")
class CallsTwice(Toy):
    """Every call is returned twice."""

    class Decoding(Decoder):
        def parts(self) -> list[Part]:
            parts = super().parts()
            again = [Tool(part.call, call_id=part.call_id) for part in parts if isinstance(part, Tool)]
            return [*parts, *again]


@fails_at("broken_arguments")
class InventsArguments(Toy):
    """Arguments that cannot be decoded are replaced by empty arguments."""

    class Decoding(Decoder):
        def call(self, piece: dict[str, Any]) -> Tool:
            tool = super().call(piece)
            return Tool(FunctionCall(tool.name, tool.call.arguments), call_id=tool.call_id)


@fails_at("no_arguments")
class WantsArguments(Toy):
    """A call without arguments is reported as invalid."""

    class Decoding(Decoder):
        def call(self, piece: dict[str, Any]) -> Tool:
            tool = super().call(piece)
            problem = None if piece["input"] else "there are no arguments"
            return Tool(replace(tool.call, problem=tool.call.problem or problem), call_id=tool.call_id)


@fails_at("call_deltas")
class NumbersAllCallsAlike(Toy):
    """The deltas of all calls have the same index."""

    class Decoding(Decoder):
        def on_input(self, event: Any) -> list[Delta]:
            super().on_input(event)
            return [ToolCallDelta(event["text"], 0)]


@fails_at("call_deltas")
class KeepsCallsToItself(Toy):
    """No delta of a call is delivered before the response has ended."""

    class Decoding(Decoder):
        def on_call(self, event: Any) -> list[Delta]:
            super().on_call(event)
            return []

        def on_input(self, event: Any) -> list[Delta]:
            super().on_input(event)
            return []


@fails_at("call_ids")
class MakesIdsOfItsOwn(Toy):
    """The ids of calls are replaced by other ids."""

    class Decoding(Decoder):
        def call(self, piece: dict[str, Any]) -> Tool:
            return Tool(super().call(piece).call)


@fails_at("result_ids")
class SendsResultsWithoutId(Toy):
    """A result is sent without the id of its call."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> Items:
            return [{"result": tool.result_text(), "ok": not tool.failed}]


@fails_at(
    "results",
    "failures",
    "failure_marks",
    "parallel_results",
    "foreign_words",
    "pause",
    "result_ids",
    "json_results",
    "edited_calls",
    "calls_in_turn",
)
class ForgetsResults(Toy):
    """Results are never sent."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> Items:
            del tool
            return []


@fails_at("failures")
class SendsAnEmptyFailure(Toy):
    """The result of a failed or rejected call is sent as an empty text."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> Items:
            return [{"result": "" if tool.failed else tool.result_text(), "of": tool.call_id or tool.id}]


@fails_at("parallel_results")
class TurnsResultsRound(Toy):
    """The results of parallel calls are sent in reverse order."""

    class Encoding(Encoder):
        def turn(self, role: str, turn: Turn) -> Items:
            super().turn(role, turn)  # finds repeated ids
            said = [item for part in turn.parts for item in self.part(role, part)]
            rest = [item for tool in reversed(turn.tools) for item in (*self.result(tool), *self.beside(tool))]
            return [*said, *rest]


@fails_at("json_results")
class SendsTextAlone(Toy):
    """A result that is not text is sent as text."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> Items:
            (item,) = super().result(tool)
            is_text = not isinstance(tool.status, Completed) or isinstance(tool.status.result, str)
            return [item if is_text else {**item, "result": "done"}]


@fails_at("edited_calls")
class SendsTheEditAsTheCall(Toy):
    """The arguments as edited by the approver are sent in place of the model's arguments."""

    class Encoding(Encoder):
        def call(self, tool: Tool) -> Items:
            (item,) = super().call(tool)
            return [{**item, "input": json.dumps(dict(tool.effective_arguments))}]


@fails_at("calls_in_turn")
class GathersResults(Toy):
    """The results of all responses are sent after the last response."""

    class Encoding(Encoder):
        def items(self, messages: Messages) -> Items:
            found: Items = []
            for content in messages:
                self.turn(content.role, content.turns[-1])  # finds repeated ids
                found += [item for part in content.parts for item in self.part(content.role, part)]
                found += [item for tool in content.tools for item in (*self.result(tool), *self.beside(tool))]
            return found


@fails_at("pending")
class SendsUnresolvedCalls(Toy):
    """A request is sent while a call waits."""

    class Encoding(Encoder):
        def call(self, tool: Tool) -> Items:
            return [{"call": tool.name, "input": tool.call.text, "id": tool.call_id or tool.id}]

        def result(self, tool: Tool) -> Items:
            return super().result(tool) if tool.resolved else []


@fails_at("declarations")
class DeclaresBareNames(Toy):
    """Tools are declared by their names only."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        bare = ToolDeclarations([replace(tool, description="", parameters={}) for tool in tools])
        return super().body(messages, bare, options, output)


@fails_at("pause")
class KeepsWhatCannotBeStored(Toy):
    """Opaque data is not JSON, so it changes when the conversation is stored."""

    class Encoding(Encoder):
        def call(self, tool: Tool) -> Items:
            (item,) = super().call(tool)
            raw = tool.call.opaque.data["raw"] if tool.call.opaque and tool.call.opaque.provider == self.name else b""
            return [{**item, "raw": list(raw) if isinstance(raw, bytes) else raw}]

    class Decoding(Decoder):
        def call(self, piece: dict[str, Any]) -> Tool:
            tool = super().call(piece)
            return Tool(replace(tool.call, opaque=Opaque(self.name, {"raw": b"raw"})), call_id=tool.call_id)


# --- Histories ------------------------------------------------------------------------------------------------------


@fails_at("words_in_order", "calls_in_turn", "instructions")
class SendsTheLatestFirst(Toy):
    """The messages are sent in reverse order."""

    class Encoding(Encoder):
        def items(self, messages: Messages) -> Items:
            turns = [(content.role, turn) for content in messages for turn in content.turns]
            return [item for role, turn in reversed(turns) for item in self.turn(role, turn)]


@fails_at("words_in_order", "instructions")
class ForgetsInstructions(Toy):
    """The system text is not sent."""

    class Encoding(Encoder):
        def turn(self, role: str, turn: Turn) -> Items:
            return [] if role == "system" else super().turn(role, turn)


@fails_at("state")
class ChainsByMemory(Toy):
    """The id of the last response is sent with the next request, even in another conversation."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.last: str | None = None

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        turn = await super().complete(messages, tools, options, structured_output)
        self.last = turn.metadata.id if turn.metadata else None
        return turn

    def request(self, path: str, body: bytes) -> Request:
        request = super().request(path, body)
        return request if self.last is None else replace(request, body=body[:-1] + b', "previous": "a"}')


@fails_at("two_at_once")
class SharesItsDecoder(Toy):
    """All streams share one decoder."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._shared = Decoder()

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[ToyStream]:
        async with super().stream(messages, tools, options, structured_output) as stream:
            self._shared.name = self.name
            stream.decoder = self._shared
            yield stream


@fails_at("reasoning_replay")
class LosesSignatures(Toy):
    """The signature of reasoning is dropped."""

    class Decoding(Decoder):
        def on_proof(self, event: Any) -> list[Delta]:
            del event
            return []

        def whole(self, answer: Any) -> Turn:
            return super().whole({**answer, "items": [{**item, "proof": ""} for item in answer["items"]]})


@fails_at("foreign_data", "reasoning_elsewhere")
class SendsWhatIsNotItsOwn(Toy):
    """Opaque data is sent to every provider."""

    class Encoding(Encoder):
        def thought(self, part: Reasoning) -> Items:
            return [{"think": part.text, "opaque": dict(part.opaque.data)}] if part.opaque else []


@fails_at("foreign_data")
class SendsBlocksOfOthers(Toy):
    """Provider parts of other providers are sent."""

    class Encoding(Encoder):
        def part(self, role: str, part: Part) -> Items:
            return [dict(part.data)] if isinstance(part, ProviderPart) else super().part(role, part)


@fails_at("foreign_words")
class SendsOnlyItsOwn(Toy):
    """Turns of other providers are omitted."""

    class Encoding(Encoder):
        def turn(self, role: str, turn: Turn) -> Items:
            foreign = turn.metadata is not None and turn.metadata.provider != self.name
            return [] if foreign else super().turn(role, turn)


@fails_at("files", "unsupported_parts", "result_files")
class DropsFiles(Toy):
    """Files are omitted without an error."""

    class Encoding(Encoder):
        def file(self, file: File) -> Items:
            del file
            return []


@fails_at("files")
class PutsFilesLast(Toy):
    """Files are sent after all text."""

    class Encoding(Encoder):
        def items(self, messages: Messages) -> Items:
            return sorted(super().items(messages), key=lambda item: "look" in item)


@fails_at("unsupported_parts")
class DropsWhatItCannotSend(Toy):
    """Parts that cannot be sent are omitted without an error."""

    class Encoding(Encoder):
        def file(self, file: File) -> Items:
            return super().file(file) if file.data or file.url else []


@fails_at("foreign_options")
class IgnoresForeignOptions(Toy):
    """Options of other providers are ignored."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        return super().body(messages, tools, replace(options, extras=()), output)


@fails_at("result_files")
class DropsFilesOfTools(Toy):
    """Files in the result of a tool are omitted without an error."""

    class Encoding(Encoder):
        def beside(self, tool: Tool) -> Items:
            del tool
            return []


@fails_at("untouched")
class WritesIntoTheHistory(Toy):
    """A note for the next request is stored in the conversation."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        body = super().body(messages, tools, options, output)
        messages.extra = {"sent": True}
        return body


# --- Options --------------------------------------------------------------------------------------------------------


@fails_at("options")
class DropsOptions(Toy):
    """Unknown options are ignored without an error."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        return super().body(messages, tools, replace(options, seed=None, reasoning=None), output)


@fails_at("instructions")
class DropsInstructions(Toy):
    """The conversation is sent without its instructions."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        return super().body(messages, tools, replace(options, instructions=None), output)


@fails_at("tool_choice")
class ChoosesForItself(Toy):
    """The tool choice of the request is not sent."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        return super().body(messages, tools, replace(options, tool_choice=None), output)


@fails_at("timeout", "embeddings_timeout")
class WaitsAsLongAsItLikes(Toy):
    """The timeout of the caller is not passed to the transport."""

    def patient(self, request: Request, options: ChatOptions) -> Request:
        del options
        return request


# --- Vectors --------------------------------------------------------------------------------------------------------


@fails_at("embeddings")
class MixesVectorsUp(Toy):
    """Vectors are returned in the order in which they arrived."""

    def vectors(self, answer: Any, count: int) -> EmbeddingsResponse:
        super().vectors(answer, count)
        rows = tuple([tuple(row["vector"]) for row in answer["rows"]])
        return EmbeddingsResponse(rows, Usage(answer["tokens"]))


@fails_at("embeddings_missing")
class CountsNoVectors(Toy):
    """A missing vector is not detected."""

    def vectors(self, answer: Any, count: int) -> EmbeddingsResponse:
        del count
        return super().vectors(answer, len(answer["rows"]))


@fails_at("error_retryable", "error_of_a_gateway")
class RetriesNoVectors(Toy):
    """Error responses to embedding requests are not retryable."""

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        try:
            return await super().embed(texts, options)
        except ProviderError as error:
            error.retryable = False
            raise
