"""Scenarios of tools: calls that are read, results that are sent, and the life between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from chat_core.errors import PendingToolsError
from chat_core.events import ToolCallDelta
from chat_core.messages import FunctionCall, Messages, Text, Tool, Turn

from chat_testing.conformance.answers import asking
from chat_testing.conformance.scenario import scenario
from chat_testing.conformance.subject import (
    QUESTION,
    RESULT,
    Heard,
    Question,
    Sent,
    Subject,
    after,
    ask,
    called,
    declared,
    reply_of,
    told,
)
from chat_testing.conformance.tapes import Reply, Tape
from chat_testing.errors import fail


def _calls(heard: Heard) -> list[tuple[str, dict[str, object]]]:
    return [(tool.name, dict(tool.call.arguments)) for tool in heard.said.tools]


def _wanted(tape: Tape) -> list[tuple[str, dict[str, object]]]:
    return [(call.name, dict(call.arguments)) for call in tape.calls]


@scenario("tools")
async def declarations(subject: Subject) -> None:
    """Every tool is declared, with its description and its parameters."""
    tools = declared(subject.tapes.call, subject.tapes.no_arguments, subject.tapes.parallel)
    for way in subject.ways:
        sent = await subject.sends(Messages.from_user(QUESTION), tools, way)
        for tool in tools:
            parameters = cast("dict[str, object]", tool.parameters["properties"])
            if missing := [word for word in (tool.name, tool.description, *parameters) if not sent.says(word)]:
                fail(f"{told(way)} was given the tool {tool.name!r}, and its request does not have {missing}")


@scenario("tools")
async def call(subject: Subject) -> None:
    """A call arrives once, with its name and its arguments, and waits."""
    for way, tape, reply in subject.plays(subject.tapes.call, subject.tapes.mixed):
        heard = await subject.hear(way, reply, asking(tape))
        if _calls(heard) != _wanted(tape):
            fail(f"the model called {_wanted(tape)}, and the turn of {told(way)} has {_calls(heard)}")
        if any(tool.resolved or tool.attempts for tool in heard.said.tools):
            fail(f"a call of {told(way)} is not Pending: a provider runs nothing")


@scenario("tools", "stream")
async def call_deltas(subject: Subject) -> None:
    """Every call is told while it comes; its deltas, joined, are the text of its arguments."""
    tapes = subject.tapes
    for tape in (tapes.call, tapes.mixed, tapes.parallel):
        if tape is None or tape.stream is None:
            continue
        heard = await subject.hear("stream", tape.stream, asking(tape))
        texts: dict[int, str] = {}
        for delta in heard.deltas:
            if isinstance(delta, ToolCallDelta):
                texts[delta.index] = texts.get(delta.index, "") + delta.arguments
        joined = [dict(FunctionCall.parse("", texts[index]).arguments) for index in sorted(texts)]
        if joined != [arguments for _, arguments in _calls(heard)]:
            fail(f"the deltas of the calls say {list(texts.values())}, and the calls of the turn {_calls(heard)}")


@scenario("tools")
async def no_arguments(subject: Subject) -> None:
    """A call of a tool that takes no arguments has none, and nothing is wrong with it."""
    for way, tape, reply in subject.plays(subject.tapes.no_arguments):
        heard = await subject.hear(way, reply, asking(tape))
        found = [(tool.name, dict(tool.call.arguments), tool.call.problem) for tool in heard.said.tools]
        if found != [(call.name, {}, None) for call in tape.calls]:
            fail(f"the model called {tape.calls[0].name!r} without arguments, and {told(way)} made {found} of it")


@scenario("argument_text")
async def broken_arguments(subject: Subject) -> None:
    """Arguments that are not JSON are told as a problem of the call: none are invented."""
    for way, tape, reply in subject.plays(subject.tapes.broken_arguments):
        heard = await subject.hear(way, reply, asking(tape))
        if heard.error is not None:
            continue  # no call, no harm
        for tool in heard.said.tools:
            if tool.call.problem is None:
                fail(
                    f"the arguments of a call are not JSON, and {told(way)} made {dict(tool.call.arguments)} of them "
                    "without a word"
                )


@scenario("parallel_tools")
async def parallel_calls(subject: Subject) -> None:
    """Calls of one answer stay apart and in order, also those of the same tool."""
    for way, tape, reply in subject.plays(subject.tapes.parallel):
        heard = await subject.hear(way, reply, asking(tape))
        if _calls(heard) != _wanted(tape):
            fail(f"the model made the calls {_wanted(tape)}, and the turn of {told(way)} has {_calls(heard)}")


@scenario("call_ids")
async def call_ids(subject: Subject) -> None:
    """The id of a call is kept as the provider gave it."""
    for way, tape, reply in subject.plays(subject.tapes.call, subject.tapes.parallel):
        heard = await subject.hear(way, reply, asking(tape))
        ids = [tool.call_id for tool in heard.said.tools]
        given = [call.id for call in tape.calls]
        if any(id_ not in given for id_ in ids):
            fail(f"the ids of the calls are {given}, and {told(way)} has {ids}")


# --- What is sent ---------------------------------------------------------------------------------------------------


async def _sent_after(
    subject: Subject, tape: Tape | None, resolve: Callable[[Tool], object] | None = None
) -> tuple[Sent, Tape]:
    tape = tape or Tape()
    provider, _ = subject.serve()
    turn = called(provider.metadata.name, tape.calls, resolve)
    return await subject.sends(after(turn), declared(tape)), tape


@scenario("tools")
async def results(subject: Subject) -> None:
    """A call is sent back with its result behind it."""
    sent, tape = await _sent_after(subject, subject.tapes.call)
    for call_ in tape.calls:
        for value in call_.arguments.values():
            if isinstance(value, str) and not sent.says(value):
                fail(f"the call of {call_.name!r} had the argument {value!r}, and the next request does not have it")
        if not sent.says(call_.name):
            fail(f"{call_.name!r} was called, and the next request does not name it")
    if not sent.says(RESULT):
        fail("a tool gave a result, and the next request does not have it")


@scenario("tools")
async def failures(subject: Subject) -> None:
    """A call that failed, or that a person rejected, is sent back with the words that say so."""
    words = "no, not this month"

    def reject_call(tool: Tool) -> None:
        tool.reject(words)

    def fail_call(tool: Tool) -> None:
        tool.start()
        tool.fail(words)

    for resolve, what in ((reject_call, "rejected"), (fail_call, "failed")):
        sent, _ = await _sent_after(subject, subject.tapes.call, resolve)
        if not sent.says(words):
            fail(f"a call was {what}, and the next request does not say so")


@scenario("tools")
async def json_results(subject: Subject) -> None:
    """A result that is not text is sent as JSON, whatever it is."""
    results: tuple[object, ...] = ({"degrees-there": 17.25}, ["one-of-it", 17.25], 17.25, {"deep": {"down": [17.25]}})
    for result in results:

        def resolve(tool: Tool, result: object = result) -> None:
            tool.start()
            tool.complete(result)

        sent, _ = await _sent_after(subject, subject.tapes.call, resolve)
        words = [word for word in ("degrees-there", "one-of-it", "deep", "17.25") if word in str(result)]
        if missing := [word for word in words if not sent.says(word)]:
            fail(f"a tool gave the result {result!r}, and the next request does not have {missing}")


@scenario("tools")
async def edited_calls(subject: Subject) -> None:
    """A call that its approver changed is sent as the model made it, with a result that says what ran."""
    value = "what-was-approved"

    def resolve(tool: Tool) -> None:
        tool.await_approval()
        tool.approve(arguments=dict.fromkeys(tool.call.arguments, value))
        tool.start()
        tool.complete(RESULT)

    sent, tape = await _sent_after(subject, subject.tapes.call, resolve)
    made = [item for call_ in tape.calls for item in call_.arguments.values() if isinstance(item, str)]
    if missing := [words for words in made if not sent.says(words)]:
        fail(f"an approver changed a call, and the next request does not have {missing}, as the model made it")
    if not sent.says(value):
        fail("an approver changed a call, and the next request does not say what ran")


@scenario("tools")
async def calls_in_turn(subject: Subject) -> None:
    """Calls of two answers, one behind the other, stay so: the second call stands behind the first result."""
    tape = subject.tapes.call or Tape()
    provider, _ = subject.serve()
    name = provider.metadata.name
    messages = Messages.from_user(QUESTION)
    for step in ("first", "second"):
        calls = [FunctionCall(call_.name, call_.arguments, call_.id and f"{step}{call_.id}") for call_ in tape.calls]
        turn = called(name, calls, _resolved(f"{step} result"), f"answer_{step}")
        messages.append("model", Turn([Text(f"{step} words"), *turn.parts], metadata=turn.metadata))
    for way in subject.ways:
        sent = await subject.sends(messages, declared(tape), way)
        order = ["first words", "first result", "second words", "second result"]
        places = [sent.place(words) for words in order]
        if -1 in places or places != sorted(places):
            fail(f"one answer followed the results of another, and {told(way)} does not send them in that order")


def _resolved(result: str) -> Callable[[Tool], None]:
    def resolve(tool: Tool) -> None:
        tool.start()
        tool.complete(result)

    return resolve


@scenario("call_ids")
async def result_ids(subject: Subject) -> None:
    """A result names the call that it is of: the id stands with both."""
    for tape in (subject.tapes.call, subject.tapes.parallel):
        if tape is None:
            continue
        sent, _ = await _sent_after(subject, tape)
        for call_ in tape.calls:
            if (times := sent.count(call_.id)) < 2:  # noqa: PLR2004 - with the call and with its result
                fail(f"the id {call_.id!r} should stand with the call and with its result, and is sent {times} time(s)")


@scenario("parallel_tools")
async def parallel_results(subject: Subject) -> None:
    """Each call of an answer is sent back with its own result, in the order of the calls."""
    sent, tape = await _sent_after(subject, subject.tapes.parallel)
    places = [sent.place(f"{RESULT}, {place}") for place in range(len(tape.calls))]
    if -1 in places:
        fail(
            f"{len(tape.calls)} calls had a result each, and the next request lacks that of call {places.index(-1) + 1}"
        )
    if places != sorted(places):
        fail("the results of parallel calls are sent in another order than the calls")


@scenario("tools")
async def pending(subject: Subject) -> None:
    """Nothing is sent while a call is unresolved."""
    tape = subject.tapes.call or Tape()
    for way in subject.ways:
        provider, transport = subject.serve(reply_of(subject.text, way) or Reply())
        turn = called(provider.metadata.name, tape.calls, lambda _: None)
        messages = Messages.from_user(QUESTION)
        messages.append("model", turn)
        heard = await ask(provider, way, Question(messages, declared(tape)))
        if transport.requests:
            fail(f"{told(way)} sent a request while a call was unresolved")
        if not isinstance(heard.error, PendingToolsError):
            fail(f"a call was unresolved, and {told(way)} raised {heard.error!r} and not PendingToolsError")
