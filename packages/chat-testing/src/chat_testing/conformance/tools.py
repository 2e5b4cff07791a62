"""Conformance scenarios for tools: received calls, sent results and unresolved calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, cast

from chat_core.errors import PendingToolsError
from chat_core.messages import FunctionCall, Messages, Text, Tool, Turn
from chat_core.provider import ToolDeclaration, ToolDeclarations

from chat_testing.conformance.answers import input_for
from chat_testing.conformance.scenario import scenario
from chat_testing.conformance.subject import (
    EXACT,
    QUESTION,
    RESULT,
    Method,
    Outcome,
    ProviderInput,
    SentBody,
    Subject,
    call_provider,
    conversation_after,
    declare_tools,
    make_turn_with_calls,
    reply_of,
    tool_description,
)
from chat_testing.conformance.tapes import Reply, Tape
from chat_testing.errors import fail


def _received_calls(outcome: Outcome) -> list[tuple[str, dict[str, object]]]:
    return [(tool.name, dict(tool.call.arguments)) for tool in outcome.result.tools]


def _expected_calls(tape: Tape) -> list[tuple[str, dict[str, object]]]:
    return [(call.name, dict(call.arguments)) for call in tape.calls]


@scenario("tools")
async def declarations(subject: Subject) -> None:
    """Each request declares every tool with its name, its description and the schema of its parameters, in order."""
    tools = declare_tools(subject.tapes.call, subject.tapes.no_arguments, subject.tapes.parallel)
    tape = subject.tapes.call or Tape()
    after_call = conversation_after(make_turn_with_calls(subject.owner_name, tape.calls))
    for method in subject.answer_methods:
        for when, messages in (("first request", Messages.from_user(QUESTION)), ("request with a result", after_call)):
            sent = await subject.capture_request(messages, tools, method)
            for tool in tools:
                parameters = cast("dict[str, object]", tool.parameters["properties"])
                if missing := [word for word in (tool.name, tool.description, *parameters) if not sent.contains(word)]:
                    fail(f"the {when} of {method}() with the tool {tool.name!r} lacks {missing}")
        bodies = [
            (await subject.capture_request(Messages.from_user(QUESTION), ToolDeclarations([tool]), method)).body
            for tool in SIMILAR_TOOLS
        ]
        whole = await subject.capture_request(Messages.from_user(QUESTION), ToolDeclarations([DETAILED_TOOL]), method)
        _require_declared_order(
            await subject.capture_request(Messages.from_user(QUESTION), ORDERED_TOOLS, method), method
        )
        if missing := [word for word in DETAILS if not whole.contains(word)]:
            fail(f"{method}() declares the tool {DETAILED_TOOL.name!r} without {missing}")
        for tool, body in zip(SIMILAR_TOOLS[1:], bodies[1:], strict=True):
            if body == bodies[0]:
                fail(
                    f"{method}() declares the parameters {dict(tool.parameters)} "
                    f"in the same way as {dict(SIMILAR_TOOLS[0].parameters)}"
                )


def _similar_tool(kind: str, *required: str) -> ToolDeclaration:
    properties = {"city": {"type": kind}, "days": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return ToolDeclaration("forecast", tool_description("forecast"), schema)


ORDERED_NAMES: Final = ("zeta", "alpha", "kappa", "beta", "omega")
ORDERED_TOOLS: Final = ToolDeclarations(
    [
        ToolDeclaration(
            f"{name}_tool",
            tool_description(name),
            {
                "type": "object",
                "properties": {f"{name}_{part}": {"type": "string"} for part in ORDERED_NAMES},
                "required": [f"{name}_{part}" for part in ORDERED_NAMES],
                "additionalProperties": False,
            },
        )
        for name in ORDERED_NAMES
    ]
)
"""Tools and parameters whose order is not that of the alphabet."""


def _require_declared_order(sent: SentBody, method: Method) -> None:
    """Fail unless the tools and their parameters are declared in order. Otherwise, prompt caches do not match."""
    for what, names in (
        ("tools", [f"{name}_tool" for name in ORDERED_NAMES]),
        *((f"parameters of {name}_tool", [f"{name}_{part}" for part in ORDERED_NAMES]) for name in ORDERED_NAMES),
    ):
        found = sorted(names, key=sent.position_of)
        if found != names:
            fail(f"{method}() declares the {what} in the order {', '.join(found)} instead of {', '.join(names)}")


SIMILAR_TOOLS: Final = (
    _similar_tool("string", "city", "days"),
    _similar_tool("integer", "city", "days"),
    _similar_tool("string", "city"),
)
"""Declarations of one tool that differ in the type of a parameter, or in whether a parameter is required."""


DETAILS: Final = (
    "Forecast the weather. " * 60 + "Call it once per day.",
    "the unit of the degrees",
    "celsius",
    "fahrenheit",
    "waypoint",
    "altitude",
    "thunderstorm",
)
"""Texts in the declaration of `DETAILED_TOOL`: long and nested descriptions, enumerated values and nested names."""

DETAILED_TOOL: Final = ToolDeclaration(
    "forecast",
    DETAILS[0],
    {
        "type": "object",
        "properties": {
            "unit": {"type": "string", "description": DETAILS[1], "enum": list(DETAILS[2:4])},
            "route": {"type": "array", "items": {"$ref": "#/$defs/Stop"}},
            "alarm": {"type": "array", "items": {"type": "string", "enum": ["thunderstorm"]}},
        },
        "required": ["unit", "route", "alarm"],
        "additionalProperties": False,
        "$defs": {
            "Stop": {
                "type": "object",
                "properties": {"waypoint": {"type": "string"}, "altitude": {"type": "integer"}},
                "required": ["waypoint", "altitude"],
                "additionalProperties": False,
            }
        },
    },
)
"""A tool whose parameters have descriptions, enumerated values, and a definition of their own."""


@scenario("tools")
async def call(subject: Subject) -> None:
    """The provider returns each call once, with its name and arguments, as a pending call."""
    for method, tape, reply in subject.replies_of(subject.tapes.call, subject.tapes.mixed):
        outcome = await subject.run(method, reply, input_for(tape))
        if _received_calls(outcome) != _expected_calls(tape):
            fail(f"the model called {_expected_calls(tape)}, but the turn of {method}() has {_received_calls(outcome)}")
        if any(tool.resolved or tool.attempts for tool in outcome.result.tools):
            fail(f"a call of {method}() is not Pending: a provider must not change the status of calls")


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
    """If the arguments of a call are not JSON, the call has a `problem`. The text of the arguments is not replaced."""
    for method, tape, reply in subject.replies_of(subject.tapes.broken_arguments):
        outcome = await subject.run(method, reply, input_for(tape))
        if outcome.error is not None:
            continue  # an error returns no call
        if not outcome.result.tools:
            fail(f"{method}() returned a turn without the call whose arguments are not JSON")
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


async def _capture_next_requests(
    subject: Subject, tape: Tape | None, resolve: Callable[[Tool], object] | None = None
) -> Sequence[tuple[Method, SentBody]]:
    """Return the request that each method sends after the calls of a recorded response are resolved.

    Args:
        subject: the provider under test.
        tape: the recorded response.
        resolve: function that resolves a call. Default: each call is completed with a numbered result.
    """
    tape = tape or Tape()
    turn = make_turn_with_calls(subject.owner_name, tape.calls, resolve)
    return [
        (method, await subject.capture_request(conversation_after(turn), declare_tools(tape), method))
        for method in subject.answer_methods
    ]


_LONG_RESULT: Final = EXACT * 500
"""Result that a provider may shorten by mistake, or change as it may change any text."""


def _complete_exactly(tool: Tool) -> None:
    tool.start()
    tool.complete(_LONG_RESULT)


@scenario("tools")
async def results(subject: Subject) -> None:
    """The next request contains a call and its result, unchanged, in order and of any length."""
    tape = subject.tapes.call or Tape()
    for method, sent in await _capture_next_requests(subject, tape):
        for call_ in tape.calls:
            for value in call_.arguments.values():
                if isinstance(value, str) and not sent.contains(value):
                    fail(f"the next request of {method}() lacks the argument {value!r} of the call of {call_.name!r}")
            if not sent.contains(call_.name):
                fail(f"the next request of {method}() does not contain the called tool {call_.name!r}")
        if not sent.contains(RESULT):
            fail(f"the next request of {method}() lacks a tool's result")
    for method in subject.answer_methods:
        await _require_order_of_arguments(subject, tape, method)
        exact = conversation_after(make_turn_with_calls(subject.owner_name, tape.calls[:1], _complete_exactly))
        if not (await subject.capture_request(exact, method=method)).contains(_LONG_RESULT):
            fail(
                f"{method}() does not send a tool's result of {len(_LONG_RESULT)} characters unchanged. It begins with "
                f"{EXACT!r}"
            )


async def _require_order_of_arguments(subject: Subject, tape: Tape, method: Method) -> None:
    """Fail unless the arguments of a call are sent in their order. Otherwise, prompt caches do not match."""
    calls = [FunctionCall(call_.name, {name: name for name in ORDERED_NAMES}, call_.id) for call_ in tape.calls[:1]]
    sent = await subject.capture_request(
        conversation_after(make_turn_with_calls(subject.owner_name, calls)), method=method
    )
    found = sorted(ORDERED_NAMES, key=sent.position_of)
    if calls and found != list(ORDERED_NAMES):
        fail(f"{method}() sends arguments in the order {', '.join(found)} instead of {', '.join(ORDERED_NAMES)}")


@scenario("tools")
async def call_names(subject: Subject) -> None:
    """The provider sends each call of the history under the name of its tool, even if the tool is not declared now."""
    tape = subject.tapes.parallel or subject.tapes.call or Tape()
    names = ("look_up_first", "look_up_second")[: len(tape.calls)]
    calls = [
        FunctionCall(name, {"of": f"argument {place}"}, call_.id)
        for place, (name, call_) in enumerate(zip(names, tape.calls, strict=False))
    ]
    messages = conversation_after(make_turn_with_calls(subject.owner_name, calls))
    for method in subject.answer_methods:
        sent = await subject.capture_request(messages, method=method)
        for place, name in enumerate(names):
            if not sent.contains(name):
                fail(f"{method}() sends a call of the tool {name!r} without this name")
            for words in (f"argument {place}", f"{RESULT}, {place}"):
                found = sent.words_near(words, names)
                if found and name not in found:
                    fail(f"{method}() sends {words!r} of a call of {name!r} under the name {found.pop()!r}")


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
        for method, sent in await _capture_next_requests(subject, subject.tapes.call, resolve):
            if not sent.contains(words):
                fail(f"the next request of {method}() does not report that a call was {what}")


@scenario("failure_marks")
async def failure_marks(subject: Subject) -> None:
    """The next request marks a failed call, so that its error message differs from a result with the same text."""
    words = "there is no such city"

    def fail_call(tool: Tool) -> None:
        tool.start()
        tool.fail(words)

    def reject_call(tool: Tool) -> None:
        tool.reject(words)

    tape = subject.tapes.call or Tape()
    for resolve, what in ((fail_call, "failed"), (reject_call, "rejected")):
        text = make_turn_with_calls(subject.owner_name, tape.calls, resolve).tools[0].result_text()
        failed = await _capture_next_requests(subject, tape, resolve)
        completed = await _capture_next_requests(subject, tape, _make_resolver(text))
        for (method, result), (_, failure) in zip(completed, failed, strict=True):
            if result.body == failure.body:
                fail(f"{method}() sends the error message of a {what} call as the result of a completed call")


LARGE: Final = 9_007_199_254_740_993
"""Integer that a conversion to a floating-point number changes."""


@scenario("tools")
async def json_results(subject: Subject) -> None:
    """The provider sends a tool result that is not text as JSON."""
    results: tuple[object, ...] = (
        {"degrees-there": 17.25},
        ["one-of-it", 17.25],
        17.25,
        {"deep": {"down": [17.25]}},
        {"large": LARGE},
    )
    for result in results:

        def resolve(tool: Tool, result: object = result) -> None:
            tool.start()
            tool.complete(result)

        words = [word for word in ("degrees-there", "one-of-it", "deep", "17.25", str(LARGE)) if word in str(result)]
        for method, sent in await _capture_next_requests(subject, subject.tapes.call, resolve):
            if missing := [word for word in words if not sent.contains(word)]:
                fail(f"the next request of {method}() lacks {missing} of the tool's result {result!r}")
    await _require_different_bodies(subject, ("", 0, False, [], {}))
    for result, python in ((True, "True"), (None, "None"), ({"degrees-there": [17]}, "{'degrees-there'")):
        for method, sent in await _capture_next_requests(subject, subject.tapes.call, _make_resolver(result)):
            if python.encode() in sent.body:
                fail(f"the next request of {method}() has {python!r} as the result of a tool, which is not JSON")


async def _require_different_bodies(subject: Subject, results: Sequence[object]) -> None:
    """Raise an error if two different tool results are sent in the same form."""
    sent: dict[tuple[Method, bytes], object] = {}
    for result in results:
        for method, body in await _capture_next_requests(subject, subject.tapes.call, _make_resolver(result)):
            if (method, body.body) in sent:
                fail(f"{method}() sends the tool result {result!r} in the same way as {sent[method, body.body]!r}")
            sent[method, body.body] = result


@scenario("tools")
async def edited_calls(subject: Subject) -> None:
    """If an approver edited a call, the next request contains the model's arguments and the edited arguments."""
    value = "what-was-approved"

    def resolve(tool: Tool) -> None:
        tool.await_approval()
        tool.approve(arguments=dict.fromkeys(tool.call.arguments, value))
        tool.start()
        tool.complete(RESULT)

    tape = subject.tapes.call or Tape()
    made = [item for call_ in tape.calls for item in call_.arguments.values() if isinstance(item, str)]
    for method, sent in await _capture_next_requests(subject, tape, resolve):
        if missing := [words for words in made if not sent.contains(words)]:
            fail(f"an approver edited a call, but the next request of {method}() lacks {missing} of the model's call")
        if not sent.contains(value):
            fail(f"an approver edited a call, but the next request of {method}() lacks the arguments that ran")


@scenario("tools")
async def calls_in_turn(subject: Subject) -> None:
    """The provider sends the calls and results of consecutive turns in order."""
    tape = subject.tapes.call or Tape()
    name = subject.owner_name
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


def _make_resolver(result: object) -> Callable[[Tool], None]:
    def resolve(tool: Tool) -> None:
        tool.start()
        tool.complete(result)

    return resolve


@scenario("call_ids")
async def result_ids(subject: Subject) -> None:
    """The provider sends each result, even an empty text, with the id of its call. No other call of the turn has it."""
    for tape in (subject.tapes.call, subject.tapes.parallel):
        if tape is None:
            continue
        ids = [call_.id for call_ in tape.calls]
        for method, sent in await _capture_next_requests(subject, tape):
            _require_ids_twice(method, sent, ids)
            for place, id_ in enumerate(ids):
                found = sent.words_near(f"{RESULT}, {place}", ids)
                if found and id_ not in found:
                    fail(f"{method}() sends the result of the call {id_!r} with the id {found.pop()!r}")
        for method, sent in await _capture_next_requests(subject, tape, _make_resolver("")):
            _require_ids_twice(method, sent, ids)
        await _require_ids_of_calls_without_ids(subject, tape)
    await _require_different_ids(subject, subject.tapes.parallel)


async def _require_ids_of_calls_without_ids(subject: Subject, tape: Tape) -> None:
    """Fail if a call that came without an id is sent without one, or if its result is sent with another id."""
    tape, id_ = replace(tape, calls=tape.calls[:1]), tape.calls[0].id
    nameless = replace(tape, calls=tuple([FunctionCall(call_.name, call_.arguments) for call_ in tape.calls]))
    known, sent = [await _capture_next_requests(subject, each) for each in (tape, nameless)]
    for (method, body), (_, other) in zip(known, sent, strict=True):
        found = [other.value_at(path) for path in body.paths_of(id_ or "")]
        if any(value != found[0] or value in {None, ""} for value in found):
            fail(f"{method}() sends a call without an id, and its result, with the ids {found}")


async def _require_different_ids(subject: Subject, tape: Tape | None) -> None:
    """Fail if the provider sends two calls of a turn with the same id. The server had given both calls this id."""
    if tape is None:
        return
    id_ = tape.calls[0].id
    same = replace(tape, calls=tuple([FunctionCall(call_.name, call_.arguments, id_) for call_ in tape.calls]))
    for method, sent in await _capture_next_requests(subject, same):
        if id_ and len(sent.paths_of(id_)) == 2 * len(tape.calls):
            fail(f"{method}() sends {len(tape.calls)} calls of a turn with one id, {id_!r}")


def _require_ids_twice(method: Method, sent: SentBody, ids: Sequence[str]) -> None:
    """Fail the scenario if an id is not sent both with the call and with its result."""
    for id_ in ids:
        if (times := sent.count(id_)) < 2:
            fail(f"{method}() must send the id {id_!r} with the call and with its result, but sends it {times} time(s)")


@scenario("parallel_tools")
async def parallel_results(subject: Subject) -> None:
    """The provider sends each parallel call with its own result, in the order of the calls."""
    tape = subject.tapes.parallel or Tape()
    for method, sent in await _capture_next_requests(subject, tape):
        places = [sent.index_of(f"{RESULT}, {place}") for place in range(len(tape.calls))]
        if -1 in places:
            fail(f"the next request of {method}() lacks the result of call {places.index(-1) + 1} of {len(tape.calls)}")
        if places != sorted(places):
            fail(f"{method}() sends the results of parallel calls in another order than the calls")


@scenario("tools")
async def pending(subject: Subject) -> None:
    """The provider raises `PendingToolsError` and sends no request while a call is unresolved."""
    tape = subject.tapes.call or Tape()
    for method in subject.answer_methods:
        provider, transport = subject.serve(reply_of(subject.text, method) or Reply())
        turn = make_turn_with_calls(subject.owner_name, tape.calls, lambda _: None)
        messages = Messages.from_user(QUESTION)
        messages.append("model", turn)
        outcome = await call_provider(provider, method, ProviderInput(messages, declare_tools(tape)))
        if transport.requests:
            fail(f"{method}() sent a request while a call was unresolved")
        if not isinstance(outcome.error, PendingToolsError):
            fail(f"{method}() with an unresolved call raised {outcome.error!r} instead of PendingToolsError")
