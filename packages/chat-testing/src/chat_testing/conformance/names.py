"""Conformance scenarios for providers whose name is changed with `with_provider_name()`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Protocol, runtime_checkable

from chat_core.errors import UnsupportedPartError
from chat_core.messages import Messages, Turn
from chat_core.testing.mock_transport import MockTransport
from chat_core.transport import Transport

from chat_testing.conformance.answers import answer_tapes, input_for, owners_of_opaque_data
from chat_testing.conformance.scenario import scenario
from chat_testing.conformance.sent_parts import UNKNOWN_DATA, own_parts_of
from chat_testing.conformance.subject import AnyProvider, Method, Subject, conversation_after, declare_tools
from chat_testing.conformance.tapes import Tape
from chat_testing.errors import fail

RENAMED: Final = "renamed-by-conformance"


@runtime_checkable
class _Renamable(Protocol):
    def with_provider_name(self, name: str) -> AnyProvider: ...


def renamed(subject: Subject) -> Subject | None:
    """Return the provider under test with another name, or None if it has no `with_provider_name()`."""
    make = subject.make_provider
    if subject.owner is not None or not isinstance(make(MockTransport()), _Renamable):
        return None

    def make_renamed(transport: Transport, /) -> AnyProvider:
        provider = make(transport)
        return provider.with_provider_name(RENAMED) if isinstance(provider, _Renamable) else provider

    return replace(subject, make_provider=make_renamed)


@scenario("text")
async def provider_name(subject: Subject) -> None:
    """After `with_provider_name()`, turns and their opaque data have the new name, and the data is sent back."""
    other = renamed(subject)
    if other is None:
        return
    if (name := other.owner_name) != RENAMED:
        fail(f"with_provider_name({RENAMED!r}) returned a provider with the name {name!r}")
    for method, tape, reply in subject.replies_of(*answer_tapes(subject)):
        before = (await subject.run(method, reply, input_for(tape))).result
        turn = (await other.run(method, reply, input_for(tape))).result
        if before.metadata is None or before.metadata.provider != subject.owner_name:
            continue  # the scenario `ownership` reports this
        said = turn.metadata.provider if turn.metadata is not None else None
        if said != RENAMED:
            fail(f"the provider has the name {RENAMED!r}, but a turn of {method}() has the provider {said!r}")
        if owners := owners_of_opaque_data(turn) - {RENAMED}:
            fail(f"the provider has the name {RENAMED!r}, but a turn of {method}() has data of {sorted(owners)}")
        sent = [
            await each.capture_request(
                conversation_after(made, None if tape.calls else "Go on."), declare_tools(tape), method
            )
            for each, made in ((subject, before), (other, turn))
        ]
        if lost := [text for text in tape.echo if sent[0].contains(text) and not sent[1].contains(text)]:
            fail(f"after with_provider_name({RENAMED!r}), the next request of {method}() lacks its own data {lost}")


@scenario("text")
async def cached_turns(subject: Subject) -> None:
    """A turn that a provider has encoded is encoded anew for a provider with another name."""
    other = renamed(subject)
    if other is None:
        return
    part = own_parts_of(subject)[0]
    for method, tape, reply in subject.replies_of(*answer_tapes(subject)):
        turn = (await subject.run(method, reply, input_for(tape))).result
        with_part = Turn([*turn.parts, part], finish_reason=turn.finish_reason, metadata=turn.metadata)
        for made in (turn, with_part):
            document = conversation_after(made, None if tape.calls else "Go on.").to_json()
            for first, second in ((subject, other), (other, subject)):
                try:
                    await _require_encoded_anew(first, second, document, tape, method)
                except (UnsupportedPartError, *UNKNOWN_DATA):
                    if made is turn:
                        raise


async def _require_encoded_anew(first: Subject, second: Subject, document: str, tape: Tape, method: Method) -> None:
    """Fail if the provider `second` sends a turn as `first` has encoded it."""
    messages, tools = Messages.from_json(document), declare_tools(tape)
    await first.capture_request(messages, tools, method)
    cached = await second.capture_request(messages, tools, method)
    anew = await second.capture_request(Messages.from_json(document), tools, method)
    if cached.body != anew.body:
        fail(
            f"{method}() of the provider {second.owner_name!r} sends a turn as the provider {first.owner_name!r} "
            "encoded it: the key of turn.encoded() needs the name of the provider"
        )
