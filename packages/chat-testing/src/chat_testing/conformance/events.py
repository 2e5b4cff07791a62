"""Conformance scenarios for the events and the items of a response that a recording contains in one form only."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from chat_core.errors import InvalidResponseError
from chat_core.events import TextDelta, ToolCallDelta
from chat_core.json import dumps, loads
from chat_core.messages import FunctionCall, Reasoning, Text, Tool
from chat_core.wire.shapes import is_list, is_object

from chat_testing.conformance.answers import comparable_turn, input_for, joined_deltas
from chat_testing.conformance.replaced_texts import chunks_with, replace_type, split_text
from chat_testing.conformance.scenario import scenario
from chat_testing.conformance.subject import Method, Outcome, Subject, list_texts
from chat_testing.conformance.tapes import Reply, Tape
from chat_testing.errors import fail

SPLIT: Final = ("a \ud83d", "\ude00 b")
"""Two texts between which the halves of a surrogate pair are split."""


@scenario("stream")
async def events_before_an_error(subject: Subject) -> None:
    """Deltas that arrive in one chunk with a server error or an invalid event are delivered before the error."""
    chunks = subject.text.stream.chunks if subject.text.stream else ()
    failure = subject.tapes.failure
    whole = await subject.run("stream", subject.text.stream or Reply())
    if joined_deltas(await subject.run_steps("stream", [b"".join(chunks)])) != joined_deltas(whole):
        return  # the scenario `cut_anywhere` reports this
    for frame in (subject.tapes.malformed, *([failure.frame] if failure is not None else [])):
        for index in range(2, len(chunks) - subject.text.tail):
            apart = await subject.run_steps("stream", [*chunks[:index], frame])
            joined = await subject.run_steps("stream", [b"".join([*chunks[:index], frame])])
            if apart.error is None or type(joined.error) is not type(apart.error):
                continue  # the scenarios `malformed_frame` and `failure_in_stream` report this
            if (found := joined_deltas(joined)) != (wanted := joined_deltas(apart)):
                fail(
                    f"{index} events and {frame[:60]!r} arrived in one chunk: the deltas before the error are {found} "
                    f"instead of {wanted}"
                )


@scenario("stream")
async def split_characters(subject: Subject) -> None:
    """A character whose two surrogates arrive in two events, as JSON escapes, is joined in deltas and in the turn."""
    text, reasoning, call = subject.tapes.text, subject.tapes.reasoning, subject.tapes.call
    cases: list[tuple[str, Tape | None, str, tuple[str, str]]] = [("text", text, text.text if text else "", SPLIT)]
    if reasoning is not None:
        cases.append(("reasoning", reasoning, reasoning.reasoning, SPLIT))
    if call is not None and call.calls and subject.capabilities.argument_text:
        arguments = dict(call.calls[0].arguments)
        halves = (f'{{"{next(iter(arguments), "text")}":"{SPLIT[0]}', f'{SPLIT[1]}"}}')
        cases += [("arguments", call, dump(arguments), halves) for dump in (json.dumps, dumps)]
    for what, tape, old, halves in cases:
        if tape is None or tape.stream is None:
            continue
        together = "".join(halves).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        apart, known = [split_text(tape.stream, old, pair) for pair in (halves, (together, ""))]
        if apart is None or known is None:
            continue  # a format that is not supported
        if _texts_of(await subject.run("stream", known, input_for(tape)), what) != {together}:
            continue  # other scenarios report this
        outcome = await subject.run("stream", apart, input_for(tape))
        if outcome.error is not None:
            fail(f"a character of the {what} was split between two events, and stream() raised {outcome.error!r}")
        if (found := _texts_of(outcome, what)) != {together}:
            fail(f"a character of the {what} {together!r} was split between two events, but stream() returned {found}")
        _require_characters(outcome)


def _texts_of(outcome: Outcome, what: str) -> set[str]:
    """Return the text, the reasoning or the arguments that a stream delivered as deltas, and those of its turn."""
    turn, deltas = outcome.turn, joined_deltas(outcome)
    if turn is None:
        return set()
    if what == "arguments":
        return {dumps(dict(tool.call.arguments)) for tool in turn.tools} | {deltas.get("call 0", "")}
    kind = Text if what == "text" else Reasoning
    return {"".join([part.text for part in turn.parts if isinstance(part, kind)]), deltas.get(what, "")}


def _require_characters(outcome: Outcome) -> None:
    """Fail if a delta cannot be sent on as UTF-8."""
    for delta in outcome.deltas:
        if isinstance(delta, TextDelta) and any("\ud800" <= char <= "\udfff" for char in delta.text):
            fail(f"a delta has one half of a surrogate pair: {delta.text!a}")


@scenario("tools", "stream")
async def call_deltas(subject: Subject) -> None:
    """The provider delivers every call as deltas: the first one has its name and id, and all have its arguments."""
    tapes = subject.tapes
    for tape in (tapes.call, tapes.mixed, tapes.parallel):
        if tape is None or tape.stream is None:
            continue
        outcome = await subject.run("stream", tape.stream, input_for(tape))
        calls: dict[int, list[ToolCallDelta]] = {}
        for delta in outcome.deltas:
            if isinstance(delta, ToolCallDelta):
                calls.setdefault(delta.index, []).append(delta)
        deltas = [calls[index] for index in sorted(calls)]
        texts = ["".join([delta.arguments for delta in found]) for found in deltas]
        tools = outcome.result.tools
        if [dict(FunctionCall.parse("", text).arguments) for text in texts] != [dict(t.call.arguments) for t in tools]:
            fail(f"the deltas of the calls are {texts}, but the calls of the turn are {tools}")
        for found, tool in zip(deltas, tools, strict=True):
            if found[0].name != tool.name:
                fail(f"the first delta of a call of {tool.name!r} has the name {found[0].name!r}")
            if tool.call_id is not None and found[0].call_id != tool.call_id:
                fail(f"the first delta of the call {tool.call_id!r} has the id {found[0].call_id!r}")


@scenario("text")
async def field_paths(subject: Subject) -> None:
    """A text or a tool name of a wrong type raises `InvalidResponseError`, whose `path` names the field."""
    tapes = subject.tapes
    cases = [(tapes.text, tapes.text.text if tapes.text else "")]
    if tapes.call is not None and tapes.call.calls:
        cases.append((tapes.call, tapes.call.calls[0].name))
    for tape, text in cases:
        for method, _, reply in subject.replies_of(tape):
            wrong = replace_type(reply, text, 17)
            if wrong is None or tape is None:
                continue  # a format that is not supported
            error = (await subject.run(method, wrong[0], input_for(tape))).error
            if not isinstance(error, InvalidResponseError):
                fail(f"the field {wrong[1]!r} is 17 instead of a text, but {method}() raised {error!r}")
            if wrong[1] not in error.path:
                fail(
                    f"the field {wrong[1]!r} is 17, but the InvalidResponseError of {method}() has path={error.path!r}"
                )


@scenario("text")
async def content_types(subject: Subject) -> None:
    """A content type in capitals or with a parameter, such as `charset`, does not change the result."""
    for method, _, reply in subject.replies_of(subject.tapes.text):
        kind = {name.lower(): value for name, value in reply.headers.items()}.get("content-type", "")
        if not kind or ";" in kind:
            continue
        known = (await subject.run(method, reply)).result
        for other in (f"{kind}; charset=utf-8", f"{kind};charset=UTF-8", kind.title()):
            outcome = await subject.run(method, replace(reply, headers={**reply.headers, "content-type": other}))
            if outcome.error is not None:
                fail(f"{method}() raised {outcome.error!r} for a response with the content type {other!r}")
            if comparable_turn(outcome.result) != comparable_turn(known):
                fail(f"the content type {other!r} in place of {kind!r} changes the turn of {method}()")


# --- A call before text ---------------------------------------------------------------------------------------------


@scenario("tools")
async def text_after_a_call(subject: Subject) -> None:
    """A text that the response has after a call follows the call in the turn, if the API orders text and calls."""
    tape = subject.tapes.mixed
    whole = _with_call_first(tape) if tape is not None else None
    if tape is None or whole is None:
        return  # the API has no list with texts and calls
    replies: tuple[tuple[Method, Reply | None], ...] = (
        ("complete", whole),
        ("stream", _streamed_with_call_first(tape)),
    )
    for method, reply in replies:
        if reply is None:
            continue
        outcome = await subject.run(method, reply, input_for(tape))
        if outcome.error is not None:
            continue  # the items refer to each other in another way
        kinds = [type(part) for part in outcome.result.parts if isinstance(part, (Text, Tool))]
        if kinds == [Text, Tool]:
            fail(f"a response has a call and then text, but in the turn of {method}() the text comes first")


def _with_call_first(tape: Tape) -> Reply | None:
    """Return a copy of a complete response whose call comes before its text, if they are items of one list."""
    try:
        body: object = loads(tape.whole.data) if tape.whole is not None else None
    except ValueError:
        return None
    if not tape.calls or not tape.text or not _swap_items(body, tape.text, tape.calls[0].name):
        return None
    return Reply.json(body)


def _swap_items(value: object, one: str, other: str) -> bool:
    """Swap the two items of the innermost list that contain the two texts. Return whether there is such a list."""
    items = list(value.values()) if is_object(value) else value
    if not is_list(items):
        return False
    if any(_swap_items(item, one, other) for item in items):
        return True
    places = [[place for place, item in enumerate(items) if text in list_texts(item)] for text in (one, other)]
    if not is_list(value) or not all(places) or places[0] == places[1]:
        return False
    first, second = places[0][0], places[1][0]
    value[first], value[second] = value[second], value[first]
    return True


def _streamed_with_call_first(tape: Tape) -> Reply | None:
    """Return a copy of a stream whose call comes before its text, if its events have no index."""
    if tape.stream is None:
        return None
    chunks, call = tape.stream.chunks, tape.calls[0]
    said = chunks_with(tape.stream, tape.text)
    called = [
        place for text in (call.name, json.dumps(dict(call.arguments))) for place in chunks_with(tape.stream, text)
    ]
    if not said or not called or said[-1] + 1 != min(called) or any(b'index"' in chunks[place] for place in said):
        return None
    first, middle, end = said[0], min(called), max(called) + 1
    return replace(tape.stream, body=(*chunks[:first], *chunks[middle:end], *chunks[first:middle], *chunks[end:]))
