"""Conformance scenarios that check the turn that a provider builds from a response."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final, cast

from chat_core.errors import InvalidResponseError
from chat_core.events import ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.json import dumps
from chat_core.messages import File, FunctionCall, Messages, Part, ProviderPart, Reasoning, Structured, Text, Tool, Turn
from chat_core.messages.storable import require_storable
from chat_core.provider import OutputSchema

from chat_testing.conformance.mutations import mutate_response
from chat_testing.conformance.replaced_texts import replace_call, replace_text
from chat_testing.conformance.scenario import scenario
from chat_testing.conformance.subject import (
    Method,
    Outcome,
    ProviderInput,
    SentBody,
    Subject,
    call_provider,
    conversation_after,
    declare_tools,
    open_stream,
    schema_of,
)
from chat_testing.conformance.tapes import Reply, Tape
from chat_testing.errors import NonconformingError, fail

UNUSUAL_NAME: Final = "property_of_the_conformance_suite"
"""Name of a property that no other part of a request contains."""

MUTATED_RESPONSES: Final = 100
"""Number of responses that the scenario `mutated_responses` checks. Its seeds are below this number."""


def answer_tapes(subject: Subject) -> list[Tape]:
    """Return the recorded model responses of a provider under test."""
    tapes = subject.tapes
    named = (tapes.text, *tapes.finishes, tapes.call, tapes.mixed, tapes.parallel, tapes.no_arguments, tapes.reasoning)
    return [tape for tape in named if tape is not None]


def representative_tapes(subject: Subject) -> list[Tape]:
    """Return at most one recorded response of each kind, for scenarios that repeat it once for each of its events."""
    tapes = subject.tapes
    return [tape for tape in (tapes.text, tapes.mixed, tapes.parallel, tapes.reasoning) if tape is not None]


def input_for(tape: Tape) -> ProviderInput:
    """Return provider arguments for a recorded response: a default question and the tools that the response calls."""
    return ProviderInput(tools=declare_tools(tape))


def comparable_turn(turn: Turn) -> list[object]:
    """Return the parts, finish reason and usage of a turn for comparison, without generated ids."""
    parts = [
        (part.name, dict(part.call.arguments), part.call.problem, part.call_id) if isinstance(part, Tool) else part
        for part in turn.parts
    ]
    return [parts, turn.finish_reason, turn.usage]


@scenario("text")
async def text(subject: Subject) -> None:
    """The provider returns a turn with the complete text of the response."""
    for method, tape, reply in subject.replies_of(subject.tapes.text):
        outcome = await subject.run(method, reply)
        if outcome.result.text != tape.text:
            fail(f"the server sent {tape.text!r}, but the turn of {method}() has {outcome.result.text!r}")


@scenario("stream")
async def deltas(subject: Subject) -> None:
    """The text deltas of a stream, joined, equal the text of the resulting turn."""
    for method, tape, reply in subject.replies_of(subject.tapes.text):
        if method == "stream":
            outcome = await subject.run(method, reply)
            said = "".join([delta.text for delta in outcome.deltas if isinstance(delta, TextDelta)])
            if said != tape.text:
                fail(f"the server sent {tape.text!r}, but the deltas are {said!r}")


REPLACED_PIECES: Final = ("ha", "  <b>&amp;</b> {0} \\n é\r\n\u2028", " \n", "")
"""Texts of each part of a response: equal ones, unusual ones, blank ones, and none."""


@scenario("text")
async def exact_answer(subject: Subject) -> None:
    """The turn has the text of the response unchanged: equal parts, white space, any characters, or no text at all."""
    for method, tape, reply in subject.replies_of(subject.tapes.text):
        if _received_texts(await subject.run(method, reply), method) != {tape.text}:
            continue  # other scenarios report this
        for piece in REPLACED_PIECES:
            replaced = replace_text(reply, tape.text, piece)
            if replaced is None:
                continue  # a format that is not supported
            outcome = await subject.run(method, replaced[0])
            if outcome.error is not None:
                fail(f"{method}() raised {outcome.error!r} for a response with the text {replaced[1]!r}")
            if (found := _received_texts(outcome, method)) != {replaced[1]}:
                fail(f"the server sent {replaced[1]!r}, but {method}() returned {sorted(found)}")


REPLACED_ARGUMENTS: Final[Mapping[str, object]] = {
    "number": 2**53 + 1,
    "ratio": 0.5,
    "zero": 0,
    "false": False,
    "null": None,
    "nothing": "",
    "items": [],
    "fields": {},
    "digits": "17",
    "text": "  <b>&amp;</b> {0} \\n é\r\n\u2028 " * 3,
}
"""Arguments that a provider may change by mistake."""

REPLACED_NAME: Final = "lookUp_Weather"
"""Name of a tool that is not in lower case."""


@scenario("tools")
async def exact_call(subject: Subject) -> None:
    """A call has the tool name and the arguments of the response unchanged: any numbers, texts and empty values."""
    for method, tape, reply in subject.replies_of(subject.tapes.call):
        replaced = replace_call(reply, tape.calls[0], REPLACED_NAME, REPLACED_ARGUMENTS) if tape.calls else None
        if replaced is None:
            continue  # a format that is not supported, or arguments that are written in another way
        known = _received_calls(await subject.run(method, reply, input_for(tape)), method)
        if known != _written_calls(tape.calls, method):
            continue  # other scenarios report this
        call = FunctionCall(REPLACED_NAME, REPLACED_ARGUMENTS, tape.calls[0].id)
        outcome = await subject.run(method, replaced, input_for(replace(tape, calls=(call,))))
        if outcome.error is not None:
            fail(f"{method}() raised {outcome.error!r} for a call with the arguments {call.text}")
        if (found := _received_calls(outcome, method)) != _written_calls([call], method):
            fail(f"the model called {call.name!r} with {call.text}, but {method}() returned {found}")


def _written_calls(calls: Sequence[FunctionCall], method: Method) -> list[str]:
    arguments = [dumps(dict(call.arguments)) for call in calls]
    named = [f"{call.name} {text}" for call, text in zip(calls, arguments, strict=True)]
    return named + (arguments if method == "stream" else [])


def _received_calls(outcome: Outcome, method: Method) -> list[str]:
    """Return the calls of a turn and, of a stream, the arguments that the deltas of each call have."""
    if outcome.error is not None:
        return []
    joined = [text for key, text in joined_deltas(outcome).items() if key.startswith("call")]
    streamed = [dumps(dict(FunctionCall.parse("", text).arguments)) for text in joined]
    turn = [f"{tool.name} {dumps(dict(tool.call.arguments))}" for tool in outcome.result.tools]
    return turn + (streamed if method == "stream" else [])


def _received_texts(outcome: Outcome, method: Method) -> set[str]:
    """Return the text of a turn and, of a stream, the text of its deltas. Both should be equal."""
    if outcome.error is not None:
        return set()
    texts = {outcome.result.text}
    if method == "stream":
        texts.add("".join([delta.text for delta in outcome.deltas if isinstance(delta, TextDelta)]))
    return texts


@scenario("stream")
async def piece_by_piece(subject: Subject) -> None:
    """The provider delivers the deltas of a received chunk before it reads the next chunk."""
    transport_steps = subject.text.stream.chunks if subject.text.stream else ()
    provider, transport = subject.serve()
    seen: list[TextDelta] = []
    before_the_last: list[int] = []

    async def note() -> None:
        before_the_last.append(len(seen))

    transport.answer(200, {}, [*transport_steps[:-1], note, *transport_steps[-1:]])
    async with open_stream(provider, ProviderInput()) as (stream, batches):
        async for batch in batches:
            seen += [delta for delta in batch if isinstance(delta, TextDelta)]
        stream.close()
    if before_the_last == [0] and seen:
        fail("no delta was delivered before the last chunk: the provider buffers the stream")


@scenario("tools")
async def order(subject: Subject) -> None:
    """The parts of the turn are in the same order as in the response."""
    for method, tape, reply in subject.replies_of(*answer_tapes(subject)):
        if not tape.order:
            continue
        outcome = await subject.run(method, reply, input_for(tape))
        found = _without_repeats([type(part) for part in outcome.result.parts if type(part) in tape.order])
        wanted = _without_repeats([kind for kind in tape.order if kind in found])
        if found != wanted:
            fail(
                f"the response has the parts {_format_types(wanted)}, but "
                f"the turn of {method}() has {_format_types(found)}"
            )


def _without_repeats(kinds: list[type[Part]]) -> list[type[Part]]:
    return [kind for place, kind in enumerate(kinds) if place == 0 or kinds[place - 1] is not kind]


def _format_types(kinds: list[type[Part]]) -> str:
    return ", ".join([kind.__name__ for kind in kinds])


@scenario("text")
async def finish_reason(subject: Subject) -> None:
    """The turn has the finish reason that the server reported."""
    for method, tape, reply in subject.replies_of(*answer_tapes(subject)):
        outcome = await subject.run(method, reply, input_for(tape))
        if outcome.result.finish_reason != tape.finish_reason:
            fail(
                f"the finish reason is {tape.finish_reason!r}, but the turn of {method}() has "
                f"{outcome.result.finish_reason!r}"
            )


@scenario("usage")
async def usage(subject: Subject) -> None:
    """The turn has the token usage that the server reported, counted once."""
    for method, tape, reply in subject.replies_of(*answer_tapes(subject)):
        outcome = await subject.run(method, reply, input_for(tape))
        if tape.usage and outcome.result.usage != tape.usage:
            fail(f"the server reported {tape.usage!r}, but the turn of {method}() has {outcome.result.usage!r}")


@scenario("text")
async def ownership(subject: Subject) -> None:
    """The turn contains the names of the provider and the model, and all of its opaque data that of the provider."""
    name = subject.owner_name
    if not name:
        fail("the provider's metadata has no name, which is required to own provider parts")
    for method, tape, reply in subject.replies_of(*answer_tapes(subject)):
        outcome = await subject.run(method, reply, input_for(tape))
        said = outcome.result.metadata.provider if outcome.result.metadata is not None else None
        if said != name:
            fail(f"the provider's name is {name!r}, but the metadata of a turn of {method}() has the provider {said!r}")
        if outcome.result.metadata is None or not outcome.result.metadata.model:
            fail(f"the metadata of a turn of {method}() does not name the model")
        if others := owners_of_opaque_data(outcome.result) - {name}:
            fail(f"the provider's name is {name!r}, but a turn of {method}() has provider parts of {sorted(others)}")


def owners_of_opaque_data(turn: Turn) -> set[str]:
    """Return the names of the providers to which provider parts and opaque data of a turn belong."""
    owners = {part.provider for part in turn.parts if isinstance(part, ProviderPart)}
    for part in turn.parts:
        opaque = part.call.opaque if isinstance(part, Tool) else None
        if isinstance(part, (Text, Reasoning, File)):
            opaque = part.opaque
        if opaque is not None:
            owners.add(opaque.provider)
    return owners


@scenario("text", "json")
async def unknown_fields(subject: Subject) -> None:
    """An unknown field in a response does not change the resulting turn."""
    for method, tape, reply in subject.replies_of(*answer_tapes(subject)):
        if method != "complete":
            continue
        known = await subject.run(method, reply, input_for(tape))
        more = await subject.run(method, _with_unknown_fields(reply), input_for(tape))
        if more.error is not None:
            fail(f"an unknown field in a response raised {type(more.error).__name__}: {more.error}")
        if comparable_turn(more.result) != comparable_turn(known.result):
            fail("an unknown field changed the response")


def _with_unknown_fields(reply: Reply) -> Reply:
    body: object = json.loads(reply.data)
    if not isinstance(body, dict):
        fail("a complete response in the tapes is not a JSON object: declare json=False")
    fields = cast("Mapping[str, object]", body)
    more = {"x_conformance": {"a": [1, None]}, **fields, "x_conformance_null": None}
    return Reply.json(more, reply.status, reply.headers)


@scenario("stream")
async def unknown_events(subject: Subject) -> None:
    """An unknown event, at any position in a stream, does not change the resulting turn."""
    for tape in representative_tapes(subject):
        if tape.stream is None:
            continue
        known = await subject.run("stream", tape.stream, input_for(tape))
        chunks = tape.stream.chunks
        for frame in subject.tapes.noise:
            for place in range(1, len(chunks)):
                more = await subject.run_steps("stream", [*chunks[:place], frame, *chunks[place:]], input_for(tape))
                if more.error is not None:
                    fail(f"an unknown event, {frame!r}, raised {more.error!r} in a stream")
                if comparable_turn(more.result) != comparable_turn(known.result):
                    fail(f"an unknown event, {frame!r}, changed the result of a stream")


@scenario("stream")
async def cut_anywhere(subject: Subject) -> None:
    """A stream has the same result, no matter how its bytes are split into chunks."""
    for tape in representative_tapes(subject):
        if tape.stream is None:
            continue
        whole = await subject.run("stream", tape.stream, input_for(tape))
        data = tape.stream.data
        cuts = ([data], [data[place : place + 1] for place in range(len(data))])
        for chunks in cuts:
            cut = await subject.run_steps("stream", chunks, input_for(tape))
            if cut.error is not None:
                fail(f"a stream received in {len(chunks)} chunks raised {cut.error!r}")
            if comparable_turn(cut.result) != comparable_turn(whole.result):
                fail(f"a stream received in {len(chunks)} chunks has another result")
            if (found := joined_deltas(cut)) != (wanted := joined_deltas(whole)):
                fail(f"a stream received in {len(chunks)} chunks has the deltas {found} instead of {wanted}")


def joined_deltas(outcome: Outcome) -> dict[str, str]:
    """Return the joined deltas of a stream: its text, its reasoning, and the arguments of each call by index."""
    joined: dict[str, str] = {}
    for delta in outcome.deltas:
        match delta:
            case TextDelta():
                key, text = "text", delta.text
            case ReasoningDelta():
                key, text = "reasoning", delta.text
            case ToolCallDelta():
                key, text = f"call {delta.index}", delta.arguments
            case _:
                continue
        joined[key] = joined.get(key, "") + text
    return joined


@scenario("structured")
async def structured(subject: Subject) -> None:
    """The provider returns structured output as the JSON value that the server sent."""
    for method, tape, reply in subject.replies_of(subject.tapes.structured):
        value: object = json.loads(tape.text)
        outcome = await subject.run(method, reply, ProviderInput(output=OutputSchema("answer", schema_of(value))))
        found = _structured_value(outcome.result)
        if found != value:
            fail(f"the server sent {value!r}, but the turn of {method}() has {found!r}")


def _structured_value(turn: Turn) -> object:
    for part in turn.parts:
        if isinstance(part, Structured):
            return part.value
    try:
        return cast("object", json.loads(turn.text))
    except ValueError:
        return turn.text


@scenario("structured")
async def schema_sent(subject: Subject) -> None:
    """The provider sends the schema of a structured output, with the names and the types of its properties."""
    for method, tape, reply in subject.replies_of(subject.tapes.structured):
        value = cast("dict[str, object]", json.loads(tape.text))
        bodies: list[bytes] = []
        for added in ("text", 17):
            schema = schema_of({**value, UNUSUAL_NAME: added})
            provider, transport = subject.serve(reply)
            await call_provider(provider, method, ProviderInput(output=OutputSchema("answer", schema)))
            bodies.append(transport.last.body)
        sent = SentBody(bodies[0])
        if missing := [name for name in (*value, UNUSUAL_NAME) if not sent.contains(name)]:
            fail(f"structured output was requested, but the request of {method}() does not contain {missing}")
        if bodies[0] == bodies[1]:
            fail(f"{method}() sends schemas in the same way that differ in the type of a property")


@scenario("reasoning")
async def reasoning(subject: Subject) -> None:
    """The provider returns the model's reasoning unchanged, as reasoning parts and not as text."""
    for method, tape, reply in subject.replies_of(subject.tapes.reasoning):
        outcome = await subject.run(method, reply, input_for(tape))
        found = "".join([part.text for part in outcome.result.parts if isinstance(part, Reasoning)])
        if found != tape.reasoning:
            fail(f"the reasoning is {tape.reasoning!r}, but the turn of {method}() has {found!r}")
        if tape.reasoning in outcome.result.text:
            fail(f"the turn of {method}() has the reasoning {tape.reasoning!r} as text")
        flowed = "".join([delta.text for delta in outcome.deltas if isinstance(delta, ReasoningDelta)])
        if method == "stream" and flowed != tape.reasoning:
            fail(f"the reasoning is {tape.reasoning!r}, but the reasoning deltas are {flowed!r}")
        replaced = replace_text(reply, tape.reasoning, REPLACED_PIECES[1])
        if replaced is not None:
            turn = (await subject.run(method, replaced[0], input_for(tape))).result
            found = "".join([part.text for part in turn.parts if isinstance(part, Reasoning)])
            if found != replaced[1]:
                fail(f"the reasoning is {replaced[1]!r}, but the turn of {method}() has {found!r}")


# --- Mutated responses ----------------------------------------------------------------------------------------------


@scenario("text")
async def mutated_responses(subject: Subject) -> None:
    """A response with wrong types, extreme values or missing fields raises a `ChatError` or returns a usable turn.

    A usable turn can be stored, loaded again, and sent in the next request, unless the engine refuses to store it.
    """
    replies = subject.replies_of(*answer_tapes(subject))
    for seed in range(MUTATED_RESPONSES):
        random = Random(seed)  # noqa: S311 - reproducible
        method, tape, reply = random.choice(replies)
        fields: list[str] = []
        mutated = Reply(body=mutate_response(reply.data, random, fields), headers=reply.headers)
        server = f"the server sent {' and '.join(fields)} changed in {_abbreviate_line(mutated.data)} (seed {seed})"
        step = f"{method}()"
        try:
            provider, _ = subject.serve(mutated)
            outcome = await call_provider(provider, method, input_for(tape))
            if outcome.turn is None or not _is_storable(outcome.turn):
                continue
            step = "storing its turn"
            messages = conversation_after(outcome.turn, "Go on.")
            document = messages.to_json()
            step = "reading its stored turn"
            again = Messages.from_json(document)
            if again.to_json() != document:
                fail(f"{server}, and the turn changed when it was stored and read")
            step = "sending its turn"
            for conversation in (messages, again):
                await subject.capture_request(conversation, declare_tools(tape))
        except NonconformingError:
            raise
        except Exception as error:
            msg = f"{server}, and {step} raised {type(error).__name__}: {_abbreviate_line(str(error).encode())}"
            raise NonconformingError(msg) from error


def _is_storable(turn: Turn) -> bool:
    try:
        require_storable(turn)
    except InvalidResponseError:
        return False
    return True


def _abbreviate_line(text: bytes) -> str:
    line = " ".join(text[:200].decode(errors="replace").split())
    return line if len(text) <= len(line) else f"{line}…"
