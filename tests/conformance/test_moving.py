"""A conversation that moves between providers: its texts are sent to each, and opaque data only to its owner."""

from __future__ import annotations

from itertools import permutations

import pytest
from chat_core import CompletionProvider, Messages
from chat_core.transport import Transport
from chat_core.wire.provider import TransportProvider
from chat_testing import ProviderConformance, Subject
from chat_testing.conformance.answers import input_for
from chat_testing.conformance.subject import RESULT, Method, declare_tools

from .test_claude import TestClaude as Claude
from .test_completions import TestCompletions as Completions
from .test_gemini import TestGemini as Gemini
from .test_responses import TestResponses as Responses

pytestmark = pytest.mark.anyio

WIRES: tuple[type[ProviderConformance], ...] = (Claude, Completions, Gemini, Responses)
PAIRS = list(permutations(WIRES, 2))


def name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind)).removeprefix("Test")


async def thought_by(subject: Subject, method: Method, messages: Messages) -> Messages:
    """Return the conversation after a turn of this provider with reasoning, text and calls, which are resolved."""
    tape = subject.tapes.reasoning
    assert tape is not None
    reply = tape.whole if method == "complete" else tape.stream
    assert reply is not None
    turn = (await subject.run(method, reply, input_for(tape))).result
    for tool in turn.tools:
        tool.start()
        tool.complete(f"{RESULT} of {turn.metadata.provider if turn.metadata else ''}")
    messages.append("model", turn)
    return Messages.from_json(messages.to_json())


@pytest.mark.parametrize("method", ["complete", "stream"])
@pytest.mark.parametrize(("home", "abroad"), PAIRS, ids=name)
async def test_opaque_data_is_not_sent_to_another_provider_but_text_and_calls_are(
    home: type[ProviderConformance], abroad: type[ProviderConformance], method: Method
) -> None:
    one, other = home().subject(), abroad().subject()
    tape = one.tapes.reasoning
    assert tape is not None
    messages = (await thought_by(one, method, Messages.from_user("What is there?"))).user("Go on.")
    sent = await other.capture_request(messages, declare_tools(tape), method)
    (call,) = tape.calls

    assert [words for words in tape.echo if sent.contains(words)] == []
    assert [words for words in (tape.text, call.name, "Lyon", RESULT, "Go on.") if not sent.contains(words)] == []


@pytest.mark.parametrize("method", ["complete", "stream"])
@pytest.mark.parametrize(("home", "abroad"), PAIRS, ids=name)
async def test_a_conversation_that_returns_to_its_provider_keeps_its_opaque_data(
    home: type[ProviderConformance], abroad: type[ProviderConformance], method: Method
) -> None:
    one, other = home().subject(), abroad().subject()
    mine, theirs = one.tapes.reasoning, other.tapes.reasoning
    assert mine is not None
    assert theirs is not None
    messages = (await thought_by(one, method, Messages.from_user("What is there?"))).user("Go on.")
    messages = (await thought_by(other, method, messages)).user("And back.")
    sent = await one.capture_request(messages, declare_tools(mine), method)
    own = {words for words in theirs.echo if words not in (*mine.echo, mine.reasoning)}

    assert [words for words in mine.echo if not sent.contains(words)] == []
    assert [words for words in own if sent.contains(words)] == []
    assert sent.index_of("What is there?") < sent.index_of("Go on.") < sent.index_of("And back.")


@pytest.mark.parametrize("method", ["complete", "stream"])
@pytest.mark.parametrize("wire", WIRES, ids=name)
async def test_opaque_data_is_not_sent_to_another_account_of_its_provider(
    wire: type[ProviderConformance], method: Method
) -> None:
    one = wire().subject()

    def other_account(transport: Transport, /) -> CompletionProvider:
        provider = one.make_provider(transport)
        assert isinstance(provider, TransportProvider)
        renamed = provider.with_provider_name("another-account")
        assert isinstance(renamed, CompletionProvider)
        return renamed

    tape = one.tapes.reasoning
    assert tape is not None
    messages = (await thought_by(one, method, Messages.from_user("What is there?"))).user("Go on.")
    other = Subject(other_account, one.capabilities, one.tapes)
    sent = await other.capture_request(messages, declare_tools(tape), method)
    (call,) = tape.calls

    assert [words for words in tape.echo if sent.contains(words)] == []
    assert [words for words in (tape.text, call.name, "Lyon", RESULT, "Go on.") if not sent.contains(words)] == []
