"""Conformance scenarios that run a provider in a complete chat, with tools that run, wait or must not run.

The chat engine is imported only when a chat is built, so that importing this package stays fast.
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
from chat_testing.conformance.streams import truncated_streams
from chat_testing.conformance.subject import (
    QUESTION,
    RESULT,
    AnyProvider,
    Method,
    SentBody,
    Subject,
    reply_of,
    require_completion,
    schema_of,
    tool_description,
)
from chat_testing.conformance.tapes import Reply, Tape
from chat_testing.errors import fail

if TYPE_CHECKING:
    from chat_core.tools import Execute, RequireApproval, ScopedCollection


def _scoped_tools(tape: Tape, ran: list[str], *, approve: bool) -> ScopedCollection[None, Paused]:
    """Build the tools that a recorded response calls, with a policy that executes each call or requires approval.

    Args:
        tape: the recorded response.
        ran: list to which the name of each executed tool is added.
        approve: whether each call requires approval.
    """
    from chat_core.tools import Execute, RequireApproval, ScopedCollection, ToolCollection  # noqa: PLC0415 - see above

    tools = ToolCollection()
    for name, call in {call.name: call for call in tape.calls}.items():
        tools.register(
            name, schema_of(dict(call.arguments)), _recording_handler(name, ran), description=tool_description(name)
        )

    def policy(_call: FunctionCall, _meta: None) -> Execute | RequireApproval:
        return RequireApproval() if approve else Execute()

    return ScopedCollection(tools, policy)


def _recording_handler(name: str, ran: list[str]) -> Callable[[dict[str, Any]], object]:
    async def handler(_arguments: dict[str, Any]) -> str:
        ran.append(name)
        return RESULT

    return handler


async def _run_chat(
    provider: AnyProvider, method: Method, messages: Messages, scope: ScopedCollection[None, Paused]
) -> ChatResponse | Paused:
    """Run a chat with the provider, and return its response, or `Paused` if a tool call waits."""
    from chat_core.builder import ChatBuilder  # noqa: PLC0415 - see above

    if method == "complete":
        return (
            await ChatBuilder()
            .with_model(require_completion(provider))
            .with_scoped_tools(scope)
            .with_retry(0)
            .build()
            .complete(messages)
        )
    if not isinstance(provider, ChatProvider):
        fail(f"streaming is declared, but {type(provider).__name__} has no stream() in addition to complete()")
    chat = ChatBuilder().with_model(provider).with_scoped_tools(scope).with_retry(0).build()
    async with chat.stream(messages) as stream:
        async for _ in stream:
            pass
    return stream.response


@scenario("tools", "stream")
async def truncated_call(subject: Subject) -> None:
    """A tool call in a truncated stream is never executed."""
    for tape in (subject.tapes.call, subject.tapes.mixed, subject.tapes.parallel):
        if tape is None:
            continue
        ran: list[str] = []
        tools = _scoped_tools(tape, ran, approve=False)
        # Only truncated between events: a partial event delivers nothing more.
        for place, steps in truncated_streams(tape)[::2]:
            provider, transport = subject.serve()
            transport.answer(200, {}, steps)
            with suppress(ChatError):  # the scenario `truncation` checks the error
                await _run_chat(provider, "stream", Messages.from_user(QUESTION), tools)
            if ran:
                fail(f"the tool {ran[0]!r} ran although the stream was truncated after {place} events")


@scenario("tools")
async def pause(subject: Subject) -> None:
    """A chat pauses for approval and resumes with the same request, even if it was stored and loaded in between."""
    for method, tape, reply in subject.replies_of(subject.tapes.call):
        paused = await _run_until_paused(subject, method, tape, reply)
        stored = paused.to_json()
        sent = [
            await _approve_and_resume(subject, method, tape, messages)
            for messages in (paused, Messages.from_json(stored))
        ]
        if sent[0].body != sent[1].body:
            fail(f"{method}() sends another request for a stored and reloaded conversation")
        if not sent[1].contains(RESULT):
            fail(f"{method}() does not send the result of an approved call")


async def _run_until_paused(subject: Subject, method: Method, tape: Tape, reply: Reply) -> Messages:
    provider, transport = subject.serve(reply)
    messages, ran = Messages.from_user(QUESTION), list[str]()
    response = await _run_chat(provider, method, messages, _scoped_tools(tape, ran, approve=True))
    if not isinstance(response, Paused):
        fail(f"the chat over {method}() did not pause although a call waits for approval")
    if len(transport.requests) != 1:
        fail(f"{method}() sent {len(transport.requests)} requests although a call waits for approval")
    return messages


async def _approve_and_resume(subject: Subject, method: Method, tape: Tape, messages: Messages) -> SentBody:
    """Approve the pending calls, resume the chat with a new provider, and return the request body that it sends."""
    for tool in messages.pending():
        tool.approve()
    provider, transport = subject.serve(reply_of(subject.text, method) or Reply())
    ran: list[str] = []
    response = await _run_chat(provider, method, messages, _scoped_tools(tape, ran, approve=True))
    if ran != [call.name for call in tape.calls]:
        fail(f"the calls {[call.name for call in tape.calls]} were approved, but {ran} ran")
    if not isinstance(response, ChatResponse):
        fail(f"the chat was resumed after its pause, but {method}() returned {response!r}")
    return SentBody(transport.last.body)
