from __future__ import annotations

from dataclasses import fields, replace

import pytest
from chat_core import AuthenticationError, FunctionCall, RateLimitedError, Text, Tool, Usage, UsageError
from chat_testing import Capabilities, ProviderTapes, Refusal, Reply, Tape
from chat_testing.conformance.capabilities import CLAIMS, REQUIRED_CLAIMS, REQUIRED_TAPES, list_inconsistencies

REFUSALS = (
    Refusal(reply=Reply(status=429), error=RateLimitedError, retryable=True),
    Refusal(reply=Reply(status=401), error=AuthenticationError, retryable=False),
)
TEXT = ProviderTapes(text=Tape(whole=Reply(), text="Yes.", usage=Usage(1, 1)), refusals=REFUSALS)

CALL = Tape(whole=Reply(), calls=(FunctionCall("f"),), order=(Text, Tool))
STREAM = Reply(body=(b"1", b"2", b"3"))


def test_capability_requires_the_capabilities_that_it_is_based_on() -> None:
    for claim, base in REQUIRED_CLAIMS.items():
        bases = {base, *[lower for upper, lower in REQUIRED_CLAIMS.items() if upper == base]} - {base}
        with pytest.raises(UsageError, match=f"{claim}=True requires {base}=True"):
            Capabilities(**{"text": False, claim: True, **dict.fromkeys(bases, True), base: False})


def test_claimed_returns_the_names_of_the_claimed_capabilities() -> None:
    assert Capabilities().claimed == {"text", "json"}
    assert Capabilities(**dict.fromkeys(CLAIMS, True)).claimed == set(CLAIMS)


def test_every_tape_is_required_by_a_capability() -> None:
    needed = {name for names in REQUIRED_TAPES.values() for name in names}

    assert needed | {"finishes", "own_parts"} == {item.name for item in fields(ProviderTapes)}


def test_capabilities_with_their_tapes_have_no_inconsistencies() -> None:
    assert list_inconsistencies(Capabilities(), TEXT) == []


def test_capability_without_its_tape_is_an_inconsistency() -> None:
    (said,) = list_inconsistencies(Capabilities(structured=True), TEXT)

    assert said == "structured is claimed, but there is no tape 'structured' to check it with"


def test_tape_without_its_capability_is_an_inconsistency() -> None:
    tapes = replace(TEXT, structured=Tape(whole=Reply(), text="{}"))

    assert list_inconsistencies(Capabilities(), tapes) == [
        "there is a tape 'structured', but structured is not claimed"
    ]


def test_tape_must_have_a_reply_for_each_claimed_method() -> None:
    streamed = replace(TEXT, noise=(b": a comment\n\n",))

    assert list_inconsistencies(Capabilities(stream=True), streamed) == [
        "the tape 'text' has no `stream`, but stream is claimed"
    ]
    assert list_inconsistencies(Capabilities(), replace(TEXT, text=Tape(stream=Reply(), text="Yes."))) == [
        "the tape 'text' has no complete response in `whole`",
        "the tape 'text' has a `stream`, but stream is not claimed",
    ]


@pytest.mark.parametrize(
    ("capabilities", "tapes", "said"),
    [
        (Capabilities(), replace(TEXT, text=Tape(whole=Reply())), "the tape 'text' has no text"),
        (Capabilities(usage=True), replace(TEXT, text=Tape(whole=Reply(), text="a")), "the tape 'text' has no usage"),
        (Capabilities(waits=True), TEXT, "no refusal of the tapes has a `wait`"),
        (Capabilities(request_ids=True), TEXT, "no refusal of the tapes has a `request_id`"),
        (Capabilities(), replace(TEXT, refusals=REFUSALS[:1]), "one retryable and one non-retryable error"),
        (
            Capabilities(tools=True),
            replace(TEXT, call=CALL, mixed=replace(CALL, order=()), no_arguments=CALL),
            "has no `order`, the types of its parts",
        ),
        (
            Capabilities(stream=True),
            replace(TEXT, noise=(b": a comment\n\n",), text=Tape(whole=Reply(), stream=Reply(), text="Yes.")),
            "needs at least three chunks before its `tail`, to be truncated there",
        ),
        (
            Capabilities(reasoning=True, reasoning_replay=True),
            replace(TEXT, reasoning=Tape(whole=Reply(), reasoning="Hm.")),
            "has no `echo`, the texts to send back",
        ),
        (
            Capabilities(tools=True, parallel_tools=True),
            replace(TEXT, call=CALL, mixed=CALL, no_arguments=CALL, parallel=CALL),
            "has fewer than two calls",
        ),
    ],
)
def test_tape_without_the_data_of_its_capability_is_inconsistent(
    capabilities: Capabilities, tapes: ProviderTapes, said: str
) -> None:
    (sentence,) = list_inconsistencies(capabilities, tapes)

    assert sentence.endswith(said)


def test_broken_arguments_tape_may_have_only_a_stream() -> None:
    call = replace(CALL, stream=STREAM)
    tapes = replace(
        TEXT,
        text=Tape(whole=Reply(), stream=STREAM, text="Yes."),
        noise=(b": a comment\n\n",),
        call=call,
        mixed=call,
        no_arguments=call,
        broken_arguments=Tape(stream=Reply(), calls=(FunctionCall("f"),)),
    )

    assert list_inconsistencies(Capabilities(stream=True, tools=True, argument_text=True), tapes) == []
