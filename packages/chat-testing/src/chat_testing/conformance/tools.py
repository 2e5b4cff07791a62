"""Conformance scenarios for tools: received calls, sent results and unresolved calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from chat_core.errors import PendingToolsError
from chat_core.events import ToolCallDelta
from chat_core.messages import FunctionCall, Messages, Text, Tool, Turn

from chat_testing.conformance.answers import input_for
from chat_testing.conformance.scenario import scenario
from chat_testing.conformance.subject import (
    QUESTION,
    RESULT,
    Outcome,
    ProviderInput,
    SentBody,
    Subject,
    call_provider,
    conversation_after,
    declare_tools,
    make_turn_with_calls,
    reply_of,
)
from chat_testing.conformance.tapes import Reply, Tape
from chat_testing.errors import fail


def _received_calls(outcome: Outcome) -> list[tuple[str, dict[str, object]]]:
    return [(tool.name, dict(tool.call.arguments)) for tool in outcome.result.tools]


def _expected_calls(tape: Tape) -> list[tuple[str, dict[str, object]]]:
    return [(call.name, dict(call.arguments)) for call in tape.calls]


@scenario("tools")
async def declarations(subject: Subject) -> None:
    """The provider declares every tool with its description and parameters."""
    tools = declare_tools(subject.tapes.call, subject.tapes.no_arguments, subject.tapes.parallel)
    for method in subject.answer_methods:
        sent = await subject.capture_request(Messages.from_user(QUESTION), tools, method)
        for tool in tools:
            parameters = cast("dict[str, object]", tool.parameters["properties"])
            if missing := [word for word in (tool.name, tool.description, *parameters) if not sent.contains(word)]:
                fail(f"the request of {method}() with the tool {tool.name!r} lacks {missing}")


@scenario("tools")
async def call(subject: Subject) -> None:
    """The provider returns each call once, with its name and arguments, as a pending call."""
    for method, tape, reply in subject.replies_of(subject.tapes.call, subject.tapes.mixed):
        outcome = await subject.run(method, reply, input_for(tape))
        if _received_calls(outcome) != _expected_calls(tape):
            fail(f"the model called {_expected_calls(tape)}, but the turn of {method}() has {_received_calls(outcome)}")
        if any(tool.resolved or tool.attempts for tool in outcome.result.tools):
            fail(f"a call of {method}() is not Pending: a provider must not change the status of calls")


@scenario("tools", "stream")
async def call_deltas(subject: Subject) -> None:
    """The provider delivers every call as deltas, which together contain the text of its arguments."""
    tapes = subject.tapes
    for tape in (tapes.call, tapes.mixed, tapes.parallel):
        if tape is None or tape.stream is None:
            continue
        outcome = await subject.run("stream", tape.stream, input_for(tape))
        texts: dict[int, str] = {}
        for delta in outcome.deltas:
            if isinstance(delta, ToolCallDelta):
                texts[delta.index] = texts.get(delta.index, "") + delta.arguments
        joined = [dict(FunctionCall.parse("", texts[index]).arguments) for index in sorted(texts)]
        if joined != [arguments for _, arguments in _received_calls(outcome)]:
            fail(
                f"the deltas of the calls are {list(texts.values())}, "
                f"but the calls of the turn are {_received_calls(outcome)}"
            )


@scenario("tools")
async def no_arguments(subject: Subject) -> None:
    """A call to a tool without parameters has empty arguments and no reported problem."""
    for method, tape, reply in subject.replies_of(subject.tapes.no_arguments):
        outcome = await subject.run(method, reply, input_for(tape))
        found = [(tool.name, dict(tool.call.arguments), tool.call.problem) for tool in outcome.result.tools]
        if found != [(call.name, {}, None) for call in tape.calls]:
            fail(f"the model called {tape.calls[0].name!r} without arguments, but {method}() returned {found}")


@scenario("argument_text")
async def broken_arguments(subject: Subject) -> None:
    """Invalid JSON in the arguments of a call is reported as a problem of the call, and not replaced."""
    for method, tape, reply in subject.replies_of(subject.tapes.broken_arguments):
        outcome = await subject.run(method, reply, input_for(tape))
        if outcome.error is not None:
            continue  # an error returns no call
        for tool in outcome.result.tools:
            if tool.call.problem is None:
                fail(
                    f"{method}() read invalid JSON arguments as {dict(tool.call.arguments)} without reporting an error"
                )


@scenario("parallel_tools")
async def parallel_calls(subject: Subject) -> None:
    """The provider returns parallel calls separately and in order, even if they call the same tool."""
    for method, tape, reply in subject.replies_of(subject.tapes.parallel):
        outcome = await subject.run(method, reply, input_for(tape))
        if _received_calls(outcome) != _expected_calls(tape):
            fail(
                f"the model made the calls {_expected_calls(tape)}, "
                f"and the turn of {method}() has {_received_calls(outcome)}"
            )


@scenario("call_ids")
async def call_ids(subject: Subject) -> None:
    """The provider returns each call with the id that the server assigned."""
    for method, tape, reply in subject.replies_of(subject.tapes.call, subject.tapes.parallel):
        outcome = await subject.run(method, reply, input_for(tape))
        ids = [tool.call_id for tool in outcome.result.tools]
        given = [call.id for call in tape.calls]
        if any(id_ not in given for id_ in ids):
            fail(f"the call ids are {given}, but {method}() returned {ids}")


# --- Sent calls and results -----------------------------------------------------------------------------------------


async def _capture_next_request(
    subject: Subject, tape: Tape | None, resolve: Callable[[Tool], object] | None = None
) -> tuple[SentBody, Tape]:
    tape = tape or Tape()
    provider, _ = subject.serve()
    turn = make_turn_with_calls(provider.metadata.name, tape.calls, resolve)
    return await subject.capture_request(conversation_after(turn), declare_tools(tape)), tape


@scenario("tools")
async def results(subject: Subject) -> None:
    """The next request contains a call and its result."""
    sent, tape = await _capture_next_request(subject, subject.tapes.call)
    for call_ in tape.calls:
        for value in call_.arguments.values():
            if isinstance(value, str) and not sent.contains(value):
                fail(f"the next request lacks the argument {value!r} of the call of {call_.name!r}")
        if not sent.contains(call_.name):
            fail(f"the next request does not contain the called tool {call_.name!r}")
    if not sent.contains(RESULT):
        fail("the next request lacks a tool's result")


@scenario("tools")
async def failures(subject: Subject) -> None:
    """The next request contains the error message of a failed or rejected call."""
    words = "no, not this month"

    def reject_call(tool: Tool) -> None:
        tool.reject(words)

    def fail_call(tool: Tool) -> None:
        tool.start()
        tool.fail(words)

    for resolve, what in ((reject_call, "rejected"), (fail_call, "failed")):
        sent, _ = await _capture_next_request(subject, subject.tapes.call, resolve)
        if not sent.contains(words):
            fail(f"the next request does not report that a call was {what}")


@scenario("tools")
async def json_results(subject: Subject) -> None:
    """The provider sends a tool result that is not text as JSON."""
    results: tuple[object, ...] = ({"degrees-there": 17.25}, ["one-of-it", 17.25], 17.25, {"deep": {"down": [17.25]}})
    for result in results:

        def resolve(tool: Tool, result: object = result) -> None:
            tool.start()
            tool.complete(result)

        sent, _ = await _capture_next_request(subject, subject.tapes.call, resolve)
        words = [word for word in ("degrees-there", "one-of-it", "deep", "17.25") if word in str(result)]
        if missing := [word for word in words if not sent.contains(word)]:
            fail(f"the next request lacks {missing} of the tool's result {result!r}")


@scenario("tools")
async def edited_calls(subject: Subject) -> None:
    """If an approver edited a call, the next request contains the model's arguments and the edited arguments."""
    value = "what-was-approved"

    def resolve(tool: Tool) -> None:
        tool.await_approval()
        tool.approve(arguments=dict.fromkeys(tool.call.arguments, value))
        tool.start()
        tool.complete(RESULT)

    sent, tape = await _capture_next_request(subject, subject.tapes.call, resolve)
    made = [item for call_ in tape.calls for item in call_.arguments.values() if isinstance(item, str)]
    if missing := [words for words in made if not sent.contains(words)]:
        fail(f"an approver edited a call, and the next request lacks {missing} of the model's call")
    if not sent.contains(value):
        fail("an approver edited a call, and the next request lacks the arguments that ran")


@scenario("tools")
async def calls_in_turn(subject: Subject) -> None:
    """The provider sends the calls and results of consecutive turns in order."""
    tape = subject.tapes.call or Tape()
    provider, _ = subject.serve()
    name = provider.metadata.name
    messages = Messages.from_user(QUESTION)
    for step in ("first", "second"):
        calls = [FunctionCall(call_.name, call_.arguments, call_.id and f"{step}{call_.id}") for call_ in tape.calls]
        turn = make_turn_with_calls(name, calls, _make_resolver(f"{step} result"), f"answer_{step}")
        messages.append("model", Turn([Text(f"{step} words"), *turn.parts], metadata=turn.metadata))
    for method in subject.answer_methods:
        sent = await subject.capture_request(messages, declare_tools(tape), method)
        order = ["first words", "first result", "second words", "second result"]
        places = [sent.index_of(words) for words in order]
        if -1 in places or places != sorted(places):
            fail(f"{method}() does not send a response after the results that preceded it")


def _make_resolver(result: str) -> Callable[[Tool], None]:
    def resolve(tool: Tool) -> None:
        tool.start()
        tool.complete(result)

    return resolve


@scenario("call_ids")
async def result_ids(subject: Subject) -> None:
    """The provider sends each result with the id of its call."""
    for tape in (subject.tapes.call, subject.tapes.parallel):
        if tape is None:
            continue
        sent, _ = await _capture_next_request(subject, tape)
        for call_ in tape.calls:
            if (times := sent.count(call_.id)) < 2:  # noqa: PLR2004 - with the call and with its result
                fail(f"the id {call_.id!r} must be sent with the call and with its result, but is sent {times} time(s)")


@scenario("parallel_tools")
async def parallel_results(subject: Subject) -> None:
    """The provider sends each parallel call with its own result, in the order of the calls."""
    sent, tape = await _capture_next_request(subject, subject.tapes.parallel)
    places = [sent.index_of(f"{RESULT}, {place}") for place in range(len(tape.calls))]
    if -1 in places:
        fail(f"the next request lacks the result of call {places.index(-1) + 1} of {len(tape.calls)}")
    if places != sorted(places):
        fail("the results of parallel calls are sent in another order than the calls")


@scenario("tools")
async def pending(subject: Subject) -> None:
    """The provider raises `PendingToolsError` and sends no request while a call is unresolved."""
    tape = subject.tapes.call or Tape()
    for method in subject.answer_methods:
        provider, transport = subject.serve(reply_of(subject.text, method) or Reply())
        turn = make_turn_with_calls(provider.metadata.name, tape.calls, lambda _: None)
        messages = Messages.from_user(QUESTION)
        messages.append("model", turn)
        outcome = await call_provider(provider, method, ProviderInput(messages, declare_tools(tape)))
        if transport.requests:
            fail(f"{method}() sent a request while a call was unresolved")
        if not isinstance(outcome.error, PendingToolsError):
            fail(f"{method}() with an unresolved call raised {outcome.error!r} instead of PendingToolsError")
