"""Scenarios of histories: what a provider sends of a conversation, its own or one that came from elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, final

import anyio
from anyio.lowlevel import checkpoint
from chat_core.errors import UnsupportedPartError
from chat_core.messages import File, FunctionCall, Messages, Opaque, Part, ProviderPart, Reasoning, Text, Tool, Turn
from chat_core.testing.mock_transport import MockTransport, Step
from chat_core.usage import Metadata

from chat_testing.conformance.answers import asking, gist
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

ANOTHER: Final = "another-provider"
PRIVATE: Final = "7d1e-private-to-another"
"""What stands in opaque data of another provider, and nowhere else."""


@scenario("text")
async def words_in_order(subject: Subject) -> None:
    """Instructions, and what each side has said, are sent, in the order in which they were said."""
    provider, _ = subject.serve()
    said = ["first words", "second words", "third words", "fourth words"]
    for way in subject.ways:
        messages = Messages.from_system("the instructions")
        messages.user(said[0], said[1])
        messages.append("model", Turn([Text(said[2])], metadata=Metadata(provider.metadata.name)))
        messages.user(said[3])
        sent = await subject.sends(messages, way=way)
        places = [sent.place(words) for words in said]
        if not sent.says("the instructions"):
            fail(f"{told(way)} does not send the instructions")
        if -1 in places:
            fail(f"{told(way)} does not send {said[places.index(-1)]!r}")
        if places != sorted(places):
            fail(f"{told(way)} sends what was said in another order")


@scenario("text")
async def state(subject: Subject) -> None:
    """A provider keeps nothing of a conversation: what it sends depends on what it is given alone."""
    for way, tape, reply in subject.plays(subject.tapes.text):
        question = Question(Messages.from_user("Another question."))
        fresh, transport = subject.serve(reply)
        await ask(fresh, way, question)
        used, later = subject.serve(reply, reply)
        for asked in (Question(), question):
            (await ask(used, way, asked)).said  # noqa: B018 - an error is raised
        if later.last.request.path != transport.last.request.path or later.last.body != transport.last.body:
            fail(
                f"{told(way)} sends something else for the same conversation when it has answered another one before "
                f"({tape.text!r})"
            )


@scenario("stream")
async def two_at_once(subject: Subject) -> None:
    """Two answers that arrive at once over one provider stay apart."""
    tape = subject.tapes.call or subject.tapes.text or Tape()
    text = subject.text
    transport = MockTransport()
    turns = _Turns()
    for mine, (one, other) in ((text, (0, 1)), (tape, (1, 0))):
        chunks = mine.stream.chunks if mine.stream is not None else ()
        steps: list[Step] = []
        for chunk in chunks:
            steps += [turns.wait_for(one, other), chunk]
        transport.answer(200, {}, [*steps, turns.over(one)])
    provider = subject.make_provider(transport)
    heard: dict[int, Heard] = {}

    async def listen(place: int, question: Question) -> None:
        heard[place] = await ask(provider, "stream", question)

    async with anyio.create_task_group() as group:
        group.start_soon(listen, 0, Question())
        await turns.begun.wait()
        group.start_soon(listen, 1, asking(tape))
    for place, (mine, question) in enumerate(((text, Question()), (tape, asking(tape)))):
        alone = await subject.hear("stream", mine.stream or Reply(), question)
        if gist(heard[place].said) != gist(alone.said):
            fail(f"two streams were read at once, and what one of them says was mixed up: {heard[place].said!r}")


@final
class _Turns:
    """Lets two streams go on by turns: each waits for a step of the other."""

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

    def over(self, one: int) -> Callable[[], Awaitable[object]]:
        async def step() -> None:
            self._over[one] = True
            await checkpoint()

        return step


# --- From elsewhere -------------------------------------------------------------------------------------------------


def _foreign(subject: Subject) -> Turn:
    """A turn of another provider, with all that is its own."""
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
    """What is opaque data of another provider stays at home."""
    tape = Tape(calls=(FunctionCall("lookup_elsewhere", {"of": "Lyon"}),)) if subject.capabilities.tools else None
    for way in subject.ways:
        sent = await subject.sends(after(_foreign(subject), "Go on."), declared(tape), way)
        if sent.says(PRIVATE):
            fail(f"a history has opaque data of another provider, and {told(way)} sends it")


@scenario("text")
async def foreign_words(subject: Subject) -> None:
    """What another provider's model said, called and was told is sent."""
    tape = Tape(calls=(FunctionCall("lookup_elsewhere", {"of": "Lyon"}),)) if subject.capabilities.tools else None
    words = ["words of another", *(["lookup_elsewhere", "Lyon", RESULT] if tape else [])]
    for way in subject.ways:
        sent = await subject.sends(after(_foreign(subject), "Go on."), declared(tape), way)
        if missing := [word for word in words if not sent.says(word)]:
            fail(f"a history comes from another provider, and {told(way)} drops {missing} of it")


@scenario("reasoning_replay")
async def reasoning_replay(subject: Subject) -> None:
    """What was thought goes back with the next request, also from a conversation that was stored."""
    for way, tape, reply in subject.plays(subject.tapes.reasoning):
        heard = await subject.hear(way, reply, asking(tape))
        messages = after(heard.said, None if tape.calls else "Go on.")
        for held in (messages, Messages.from_json(messages.to_json())):
            sent = await subject.sends(held, declared(tape), way)
            if missing := [words for words in tape.echo if not sent.says(words)]:
                fail(f"the next request of {told(way)} must have {missing} of what was thought, and does not")


@scenario("reasoning_replay")
async def reasoning_elsewhere(subject: Subject) -> None:
    """What was thought by a provider of another name does not go back."""
    provider, _ = subject.serve()
    name = provider.metadata.name
    for way, tape, reply in subject.plays(subject.tapes.reasoning):
        heard = await subject.hear(way, reply, asking(tape))
        turn = _moved(heard.said, name)
        sent = await subject.sends(after(turn, None if tape.calls else "Go on."), declared(tape), way)
        if found := [words for words in tape.echo if sent.says(words)]:
            fail(f"{found} belongs to another provider, and {told(way)} sends it")


def _moved(turn: Turn, name: str) -> Turn:
    """The turn, as if another provider had said it."""

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


# --- Files, and what cannot be sent ---------------------------------------------------------------------------------


@scenario("files")
async def files(subject: Subject) -> None:
    """A file of a user is sent, between the words around it."""
    for way in subject.ways:
        for file in subject.tapes.files:
            sent = await subject.sends(Messages.from_user("words before", file, "words behind"), way=way)
            if not sent.carries(file):
                fail(f"a user sent {file!r}, and {told(way)} drops it")
            places = [sent.place("words before"), sent.place_of(file), sent.place("words behind")]
            if -1 in places or places != sorted(places):
                fail(f"a user sent {file!r} with words around it, and {told(way)} does not keep them in order")


@scenario("text")
async def unsupported_parts(subject: Subject) -> None:
    """What cannot be sent is refused by `UnsupportedPartError` before anything is sent, never dropped."""
    odd = File("application/x-conformance", data=b"\x00conformance\xff" * 3)
    unknown = File("image/png", opaque=Opaque(ANOTHER, {"id": PRIVATE}))
    for way in subject.ways:
        for file in (odd, unknown):
            provider, transport = subject.serve(*[reply for _, _, reply in subject.plays(subject.tapes.text)])
            heard = await ask(provider, way, Question(Messages.from_user(QUESTION, file)))
            carried = bool(transport.requests) and Sent(transport.last.body).carries(file)
            if transport.requests and not carried:
                fail(f"{told(way)} was given {file!r}, and dropped it in silence")
            if not transport.requests and not isinstance(heard.error, UnsupportedPartError):
                fail(f"{told(way)} was given {file!r}, and raised {heard.error!r} and not UnsupportedPartError")


@scenario("files", "tools")
async def result_files(subject: Subject) -> None:
    """A file that a tool returned beside its result is sent, or refused by `UnsupportedPartError`."""
    file = next((file for file in subject.tapes.files if file.data is not None), File("image/png", data=b"\x89PNG"))
    tape = subject.tapes.call or Tape()

    def resolve(tool: Tool) -> None:
        tool.start()
        tool.complete(RESULT, files=(file,))

    for way in subject.ways:
        provider, transport = subject.serve(reply_of(subject.text, way) or Reply())
        messages = after(called(provider.metadata.name, tape.calls, resolve))
        heard = await ask(provider, way, Question(messages, declared(tape)))
        if transport.requests and not Sent(transport.last.body).carries(file):
            fail(f"a tool returned {file!r}, and {told(way)} drops it")
        if not transport.requests and not isinstance(heard.error, UnsupportedPartError):
            fail(f"a tool returned {file!r}, and {told(way)} raised {heard.error!r} and not UnsupportedPartError")


@scenario("text")
async def untouched(subject: Subject) -> None:
    """A provider changes nothing in the conversation that it is given."""
    for way in subject.ways:
        provider, _ = subject.serve()
        messages = after(called(provider.metadata.name, subject.tapes.call.calls if subject.tapes.call else ()))
        messages.append("model", Turn([Text("words")], metadata=Metadata(provider.metadata.name)))
        messages.user("Go on.")
        before = messages.to_json()
        await subject.sends(messages, declared(subject.tapes.call), way)
        if messages.to_json() != before:
            fail(f"{told(way)} changed the conversation that it was given")
