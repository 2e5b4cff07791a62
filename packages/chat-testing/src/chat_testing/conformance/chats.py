"""Scenarios of whole chats: a provider under the engine, with tools that run, wait, or must not run.

The engine is imported when a chat is built: whoever imports a test double does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from chat_core.errors import ChatError
from chat_core.messages import FunctionCall, Messages
from chat_core.provider import ChatProvider
from chat_core.response import ChatResponse, Paused

from chat_testing.conformance.scenario import scenario
from chat_testing.conformance.streams import cuts
from chat_testing.conformance.subject import (
    QUESTION,
    RESULT,
    AnyProvider,
    Sent,
    Subject,
    Way,
    completing,
    describe,
    reply_of,
    schema_of,
    told,
)
from chat_testing.conformance.tapes import Reply, Tape
from chat_testing.errors import fail

if TYPE_CHECKING:
    from chat_core.tools import Execute, RequireApproval, ScopedCollection


def _toolbox(tape: Tape, ran: list[str], *, approve: bool) -> ScopedCollection[None, Paused]:
    """The tools that a tape calls; what runs is noted in `ran`. With `approve`, a person is asked first."""
    from chat_core.tools import Execute, RequireApproval, ScopedCollection, ToolCollection  # noqa: PLC0415 - see above

    tools = ToolCollection()
    for name, call in {call.name: call for call in tape.calls}.items():
        tools.register(name, schema_of(dict(call.arguments)), _handler(name, ran), description=describe(name))

    def policy(_call: FunctionCall, _meta: None) -> Execute | RequireApproval:
        return RequireApproval() if approve else Execute()

    return ScopedCollection(tools, policy)


def _handler(name: str, ran: list[str]) -> Callable[[dict[str, Any]], object]:
    async def handler(_arguments: dict[str, Any]) -> str:
        ran.append(name)
        return RESULT

    return handler


async def _run(
    provider: AnyProvider, way: Way, messages: Messages, scope: ScopedCollection[None, Paused]
) -> ChatResponse | Paused:
    """One run of a chat over the provider, either way."""
    from chat_core.builder import ChatBuilder  # noqa: PLC0415 - see above

    if way == "complete":
        return (
            await ChatBuilder()
            .with_model(completing(provider))
            .with_scoped_tools(scope)
            .with_retry(0)
            .build()
            .complete(messages)
        )
    if not isinstance(provider, ChatProvider):
        fail(f"it claims to stream, and {type(provider).__name__} has no stream() beside complete()")
    chat = ChatBuilder().with_model(provider).with_scoped_tools(scope).with_retry(0).build()
    async with chat.stream(messages) as stream:
        async for _ in stream:
            pass
    return stream.response


@scenario("tools", "stream")
async def truncated_call(subject: Subject) -> None:
    """A call in a stream that was cut never runs."""
    for tape in (subject.tapes.call, subject.tapes.mixed, subject.tapes.parallel):
        if tape is None:
            continue
        ran: list[str] = []
        tools = _toolbox(tape, ran, approve=False)
        # Behind each event; within one, nothing more has come.
        for place, steps in cuts(tape)[::2]:
            provider, transport = subject.serve()
            transport.answer(200, {}, steps)
            with suppress(ChatError):  # whether the cut was seen is another promise
                await _run(provider, "stream", Messages.from_user(QUESTION), tools)
            if ran:
                fail(f"the stream was cut behind {place} events, and the tool {ran[0]!r} ran")


@scenario("tools")
async def pause(subject: Subject) -> None:
    """A chat pauses for a person, is stored, and goes on in another process as if nothing had been between."""
    for way, tape, reply in subject.plays(subject.tapes.call):
        paused = await _paused(subject, way, tape, reply)
        stored = paused.to_json()
        sent = [await _resumed(subject, way, tape, messages) for messages in (paused, Messages.from_json(stored))]
        if sent[0].body != sent[1].body:
            fail(f"{told(way)} sends something else of a conversation that was stored than of one that was not")
        if not sent[1].says(RESULT):
            fail(f"an approved call ran, and {told(way)} does not send its result")


async def _paused(subject: Subject, way: Way, tape: Tape, reply: Reply) -> Messages:
    provider, transport = subject.serve(reply)
    messages, ran = Messages.from_user(QUESTION), list[str]()
    response = await _run(provider, way, messages, _toolbox(tape, ran, approve=True))
    if not isinstance(response, Paused):
        fail(f"a call waits for a person, and the chat over {told(way)} did not pause")
    if len(transport.requests) != 1:
        fail(f"a call waits for a person, and {told(way)} sent {len(transport.requests)} requests")
    return messages


async def _resumed(subject: Subject, way: Way, tape: Tape, messages: Messages) -> Sent:
    """Approve what waits and go on, in a provider that knows nothing of the first; what it sent."""
    for tool in messages.pending():
        tool.approve()
    provider, transport = subject.serve(reply_of(subject.text, way) or Reply())
    ran: list[str] = []
    response = await _run(provider, way, messages, _toolbox(tape, ran, approve=True))
    if ran != [call.name for call in tape.calls]:
        fail(f"{[call.name for call in tape.calls]} were approved, and {ran} ran")
    if not isinstance(response, ChatResponse):
        fail(f"the chat went on behind its pause, and {told(way)} ended in {response!r}")
    return Sent(transport.last.body)
