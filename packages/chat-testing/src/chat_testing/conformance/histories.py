"""Conformance scenarios for requests that continue a conversation, with turns of the same or another provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, final

import anyio
from anyio.lowlevel import checkpoint
from chat_core.errors import UnsupportedPartError
from chat_core.messages import File, FunctionCall, Messages, Opaque, Part, ProviderPart, Reasoning, Text, Tool, Turn
from chat_core.options import ChatOptions
from chat_core.provider import ToolDeclaration, ToolDeclarations
from chat_core.testing.mock_transport import MockTransport, Step
from chat_core.usage import Metadata

from chat_testing.conformance.answers import comparable_turn, input_for
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
    schema_of,
    tool_description,
)
from chat_testing.conformance.tapes import Reply, Tape
from chat_testing.errors import fail

ANOTHER: Final = "another-provider"
PRIVATE: Final = "7d1e-private-to-another"
"""Text that only opaque data of another provider contains."""

LONG: Final = 61
"""Number of messages of a long conversation, which begins and ends with a user message."""
USER_NAMES: Final = ("user", "human", "User", "Human", "USER", "HUMAN")
MODEL_NAMES: Final = ("assistant", "model", "ai", "Assistant", "Model", "AI", "ASSISTANT", "MODEL")


@scenario("text")
async def words_in_order(subject: Subject) -> None:
    """The provider sends the instructions, and sends all messages in the order of the conversation."""
    said = ["first words", "second words", "third words", "fourth words"]
    for method in subject.answer_methods:
        messages = Messages.from_system("the instructions")
        messages.system("further instructions")
        messages.user(said[0], said[1])
        messages.append("model", Turn([Text(said[2])], metadata=Metadata(subject.owner_name)))
        messages.user(said[3])
        sent = await subject.capture_request(messages, method=method)
        places = [sent.index_of(words) for words in said]
        if missing := [words for words in ("the instructions", "further instructions") if not sent.contains(words)]:
            fail(f"{method}() does not send {missing[0]!r}, a text of the system")
        if -1 in places:
            fail(f"{method}() does not send {said[places.index(-1)]!r}")
        if places != sorted(places):
            fail(f"{method}() sends the messages in another order")
        await _require_long_history(subject, method)


async def _require_long_history(subject: Subject, method: Method) -> None:
    """Raise an error if the provider omits a message of a long conversation."""
    owner = subject.owner_name
    said = [f"message {number:03}" for number in range(LONG)]
    messages = Messages.from_user(said[0])
    for place, words in enumerate(said[1:], start=1):
        turn = Turn([Text(words)], metadata=Metadata(owner))
        messages.append("model", turn) if place % 2 else messages.user(words)
    sent = await subject.capture_request(messages, method=method)
    if missing := [words for words in said if not sent.contains(words)]:
        fail(f"{method}() does not send {missing[0]!r} of a conversation with {LONG} messages")
    messages = Messages.from_user("Go on.")
    for words in ("first", "Go on.", "second", "Go on."):
        turn = Turn([Text(words)], metadata=Metadata(owner))
        messages.user(words) if words == "Go on." else messages.append("model", turn)
    times = (await subject.capture_request(messages, method=method)).count("Go on.")
    if times != 3:
        fail(f"{method}() sends a text {times} time(s) that the user wrote 3 times")


@scenario("text")
async def roles(subject: Subject) -> None:
    """The provider sends texts of the model with the role of the model, and not with the role of the user.

    The scenario recognizes the usual names of these roles, such as `user` and `assistant`.
    """
    messages = Messages.from_user("words of the user")
    messages.append("model", Turn([Text("words of the model")], metadata=Metadata(subject.owner_name)))
    messages.user("more words of the user")
    for method in subject.answer_methods:
        sent = await subject.capture_request(messages, method=method)
        found = sent.words_near("words of the model", (*USER_NAMES, *MODEL_NAMES), apart_from="words of the user")
        if found and not found & set(MODEL_NAMES):
            fail(f"{method}() sends a text of the model with the role {found.pop()!r}")


@scenario("text")
async def exact_text(subject: Subject) -> None:
    """The provider sends each text unchanged, with its white space and with all of its characters."""
    for method in subject.answer_methods:
        sent = await subject.capture_request(Messages.from_user(EXACT), method=method)
        if not sent.contains(EXACT):
            fail(f"{method}() does not send the text {EXACT!r} unchanged")


@scenario("text")
async def state(subject: Subject) -> None:
    """The provider keeps no state between calls, even between concurrent ones: a request depends only on its call."""
    for method, tape, reply in subject.replies_of(subject.tapes.text):
        question = ProviderInput(Messages.from_user("Another question."))
        fresh, transport = subject.serve(reply)
        await call_provider(fresh, method, question)
        used, later = subject.serve(reply, reply)
        options = ChatOptions(temperature=0.25)
        declined = (await subject.run(method, reply, ProviderInput(options=options))).error is not None
        for asked in (ProviderInput() if declined else ProviderInput(options=options), question):
            (await call_provider(used, method, asked)).result  # noqa: B018 - an error is raised
        if later.last.request.path != transport.last.request.path or later.last.body != transport.last.body:
            fail(
                f"{method}() sends another request for the same conversation after it completed another conversation "
                f"({tape.text!r})"
            )
        if subject.capabilities.tools:
            await _require_own_declarations(subject, method, reply)
        await _require_own_requests(subject, method, reply)
        again, repeated = subject.serve(reply, reply)
        for _ in range(2):
            (await call_provider(again, method, question)).result  # noqa: B018 - an error is raised
        if len(repeated.requests) != 2:
            fail(f"{method}() was called twice with the same question, but sent {len(repeated.requests)} requests")


async def _require_own_declarations(subject: Subject, method: Method, reply: Reply) -> None:
    """Raise an error if a request declares the tools of an earlier request."""
    provider, transport = subject.serve(reply, reply)
    for name in ("look_up_first", "look_up_second"):
        tools = ToolDeclarations([ToolDeclaration(name, tool_description(name), schema_of({}))])
        (await call_provider(provider, method, ProviderInput(tools=tools))).result  # noqa: B018 - an error is raised
    if SentBody(transport.last.body).contains("look_up_first"):
        fail(f"{method}() declares the tools of an earlier request")


async def _require_own_requests(subject: Subject, method: Method, reply: Reply) -> None:
    """Raise an error if one of two concurrent calls sends another request than alone."""
    questions = [ProviderInput(Messages.from_user(f"The {number} question.")) for number in ("first", "second")]
    alone: list[bytes] = []
    for question in questions:
        provider, transport = subject.serve(reply)
        (await call_provider(provider, method, question)).result  # noqa: B018 - an error is raised
        alone.append(transport.last.body)
    provider, transport = subject.serve(reply, reply)
    async with anyio.create_task_group() as group:
        for question in questions:
            group.start_soon(call_provider, provider, method, question)
    if sorted([request.body for request in transport.requests]) != sorted(alone):
        fail(f"{method}() sends another request if two calls run at once")


@scenario("stream")
async def two_at_once(subject: Subject) -> None:
    """Two concurrent streams of one provider do not affect each other."""
    tape = subject.tapes.call or subject.tapes.text or Tape()
    text = subject.text
    transport = MockTransport()
    turns = _Alternation()
    for mine, (one, other) in ((text, (0, 1)), (tape, (1, 0))):
        chunks = mine.stream.chunks if mine.stream is not None else ()
        steps: list[Step] = []
        for chunk in chunks:
            steps += [turns.wait_for(one, other), chunk]
        transport.answer(200, {}, [*steps, turns.finish(one)])
    provider = subject.make_provider(transport)
    outcome: dict[int, Outcome] = {}

    async def listen(place: int, question: ProviderInput) -> None:
        outcome[place] = await call_provider(provider, "stream", question)

    async with anyio.create_task_group() as group:
        group.start_soon(listen, 0, ProviderInput())
        await turns.begun.wait()
        group.start_soon(listen, 1, input_for(tape))
    for place, (mine, question) in enumerate(((text, ProviderInput()), (tape, input_for(tape)))):
        alone = await subject.run("stream", mine.stream or Reply(), question)
        if comparable_turn(outcome[place].result) != comparable_turn(alone.result):
            fail(f"two concurrent streams were mixed up: {outcome[place].result!r}")


@final
class _Alternation:
    """Synchronization that keeps two streams in step: each waits until the other has taken as many steps."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self._steps = [0, 0]
        self._over = [False, False]

    def wait_for(self, one: int, other: int) -> Callable[[], Awaitable[object]]:
        async def step() -> None:
            self.begun.set()
            self._steps[one] += 1
            for _ in range(50):
                if self._over[other] or self._steps[other] >= self._steps[one]:
                    return
                await checkpoint()

        return step

    def finish(self, one: int) -> Callable[[], Awaitable[object]]:
        async def step() -> None:
            self._over[one] = True
            await checkpoint()

        return step


# --- Turns of other providers ---------------------------------------------------------------------------------------


def _turn_of_another_provider(subject: Subject) -> Turn:
    """Return a turn that another provider generated. Its parts have opaque data of that provider."""
    mine = Opaque(ANOTHER, {"signature": PRIVATE, "id": PRIVATE})
    parts: list[Part] = [
        Reasoning("I consider.", signature=PRIVATE, opaque=mine),
        ProviderPart(ANOTHER, "redacted", {"data": PRIVATE}),
        Text("words of another", opaque=mine),
    ]
    if subject.capabilities.tools:
        tool = Tool(FunctionCall("lookup_elsewhere", {"of": "Lyon"}, opaque=mine), call_id="call_of_another")
        tool.start()
        tool.complete(RESULT)
        parts.append(tool)
    return Turn(parts, metadata=Metadata(ANOTHER, "its-model", PRIVATE, extra={"private": PRIVATE}))


@scenario("text")
async def foreign_data(subject: Subject) -> None:
    """The provider does not send opaque data that belongs to another provider."""
    tape = Tape(calls=(FunctionCall("lookup_elsewhere", {"of": "Lyon"}),)) if subject.capabilities.tools else None
    for method in subject.answer_methods:
        sent = await subject.capture_request(
            conversation_after(_turn_of_another_provider(subject), "Go on."), declare_tools(tape), method
        )
        if sent.contains(PRIVATE):
            fail(f"{method}() sends opaque data of another provider")


@scenario("text")
async def foreign_words(subject: Subject) -> None:
    """A request contains the texts, tool calls and tool results of turns that another provider generated."""
    tape = Tape(calls=(FunctionCall("lookup_elsewhere", {"of": "Lyon"}),)) if subject.capabilities.tools else None
    words = ["words of another", *(["lookup_elsewhere", "Lyon", RESULT] if tape else [])]
    for method in subject.answer_methods:
        sent = await subject.capture_request(
            conversation_after(_turn_of_another_provider(subject), "Go on."), declare_tools(tape), method
        )
        if missing := [word for word in words if not sent.contains(word)]:
            fail(f"{method}() omits {missing} of a history from another provider")


@scenario("reasoning_replay")
async def reasoning_replay(subject: Subject) -> None:
    """The provider sends reasoning back with the next request, even after the conversation was stored and loaded."""
    for method, tape, reply in subject.replies_of(subject.tapes.reasoning):
        outcome = await subject.run(method, reply, input_for(tape))
        messages = conversation_after(outcome.result, None if tape.calls else "Go on.")
        for held in (messages, Messages.from_json(messages.to_json())):
            sent = await subject.capture_request(held, declare_tools(tape), method)
            if missing := [words for words in tape.echo if not sent.contains(words)]:
                fail(f"the next request of {method}() lacks {missing} of the reasoning")


@scenario("reasoning_replay")
async def reasoning_elsewhere(subject: Subject) -> None:
    """The provider does not send reasoning that a provider with another name generated."""
    name = subject.owner_name
    for method, tape, reply in subject.replies_of(subject.tapes.reasoning):
        outcome = await subject.run(method, reply, input_for(tape))
        turn = _attribute_to_another_provider(outcome.result, name)
        sent = await subject.capture_request(
            conversation_after(turn, None if tape.calls else "Go on."), declare_tools(tape), method
        )
        if found := [words for words in tape.echo if sent.contains(words)]:
            fail(f"{method}() sends {found}, which belongs to another provider")


def _attribute_to_another_provider(turn: Turn, name: str) -> Turn:
    """Return a copy of a turn in which all data of the provider `name` belongs to another provider."""

    def own(opaque: Opaque | None) -> Opaque | None:
        return replace(opaque, provider=ANOTHER) if opaque is not None and opaque.provider == name else opaque

    parts: list[Part] = []
    for part in turn.parts:
        if isinstance(part, ProviderPart):
            parts.append(replace(part, provider=ANOTHER))
        elif isinstance(part, Tool):
            parts.append(Tool(replace(part.call, opaque=own(part.call.opaque)), call_id=part.call_id))
        elif isinstance(part, (Text, Reasoning, File)):
            parts.append(replace(part, opaque=own(part.opaque)))
        else:
            parts.append(part)
    return Turn(parts, finish_reason=turn.finish_reason, metadata=Metadata(ANOTHER))


# --- Files and unsupported parts ------------------------------------------------------------------------------------


@scenario("files")
async def files(subject: Subject) -> None:
    """The provider sends the files of all user messages, each in its position between the texts."""
    for method in subject.answer_methods:
        for file in (*subject.tapes.files, *[_with_all_digits(file) for file in subject.tapes.files]):
            sent = await subject.capture_request(
                Messages.from_user("words before", file, "words behind"), method=method
            )
            if not sent.contains_file(file):
                fail(f"{method}() omits the file {file!r} of a user")
            if others := [mime for mime in IMAGES if mime != file.mime and file.data and sent.contains(mime)]:
                fail(f"{method}() sends the file {file!r} with the type {others[0]}")
            places = [sent.index_of("words before"), sent.index_of_file(file), sent.index_of("words behind")]
            if -1 in places or places != sorted(places):
                fail(f"{method}() changes the order of the file {file!r} and the texts around it")
        await _require_all_files(subject, method)


IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Types of images, of which a request with one image has at most one."""


def _with_all_digits(file: File) -> File:
    """Return a file whose base64 has the digits in which the alphabets differ (RFC 4648), or the file if it is text."""
    if file.data is None or file.kind == "text":
        return file
    padding = b"\0" * (-len(file.data) % 3)
    return replace(file, data=file.data + padding + b"\xfb\xef\xbe\xff\xff\xff")


async def _require_all_files(subject: Subject, method: Method) -> None:
    """Fail the scenario if the provider leaves out one of several files, or a file of an earlier message."""
    messages = Messages.from_user("earlier words", *subject.tapes.files)
    answer = Turn([Text("words")], metadata=Metadata(subject.owner_name))
    for place in range(2):
        sent = await subject.capture_request(messages, method=method)
        if missing := [file for file in subject.tapes.files if not sent.contains_file(file)]:
            which = "an earlier" if place else "the latest"
            fail(f"{method}() omits {missing[0]!r} of the {len(subject.tapes.files)} files of {which} message")
        messages.append("model", answer)
        messages.user("later words")


@scenario("text")
async def unsupported_parts(subject: Subject) -> None:
    """A part that cannot be sent raises `UnsupportedPartError` before a request is sent. Parts are never ignored."""
    odd = File("application/x-conformance", data=b"\x00conformance\xff" * 3)
    unknown = File("image/png", opaque=Opaque(ANOTHER, {"id": PRIVATE}))
    for method in subject.answer_methods:
        for file in (odd, unknown):
            provider, transport = subject.serve(*[reply for _, _, reply in subject.replies_of(subject.tapes.text)])
            outcome = await call_provider(provider, method, ProviderInput(Messages.from_user(QUESTION, file)))
            carried = bool(transport.requests) and SentBody(transport.last.body).contains_file(file)
            if transport.requests and not carried:
                fail(f"{method}() omitted {file!r} without an error")
            if not transport.requests and not isinstance(outcome.error, UnsupportedPartError):
                fail(f"{method}() with {file!r} raised {outcome.error!r} instead of UnsupportedPartError")


@scenario("files", "tools")
async def result_files(subject: Subject) -> None:
    """The provider sends a file in a tool result, or raises `UnsupportedPartError`."""
    file = next((file for file in subject.tapes.files if file.data is not None), File("image/png", data=b"\x89PNG"))
    tape = subject.tapes.call or Tape()

    def resolve(tool: Tool) -> None:
        tool.start()
        tool.complete(RESULT, files=(file,))

    for method in subject.answer_methods:
        provider, transport = subject.serve(reply_of(subject.text, method) or Reply())
        messages = conversation_after(make_turn_with_calls(subject.owner_name, tape.calls, resolve))
        outcome = await call_provider(provider, method, ProviderInput(messages, declare_tools(tape)))
        if transport.requests and not SentBody(transport.last.body).contains_file(file):
            fail(f"{method}() omits the file {file!r} in a tool's result")
        if not transport.requests and not isinstance(outcome.error, UnsupportedPartError):
            fail(
                f"{method}() with the file {file!r} in a tool's result raised "
                f"{outcome.error!r} instead of UnsupportedPartError"
            )


@scenario("text")
async def untouched(subject: Subject) -> None:
    """The provider does not modify the conversation that it receives."""
    for method in subject.answer_methods:
        messages = conversation_after(
            make_turn_with_calls(subject.owner_name, subject.tapes.call.calls if subject.tapes.call else ())
        )
        messages.append("model", Turn([Text("words")], metadata=Metadata(subject.owner_name)))
        messages.user("Go on.")
        before = messages.to_json()
        await subject.capture_request(messages, declare_tools(subject.tapes.call), method)
        if messages.to_json() != before:
            fail(f"{method}() modified the conversation")
