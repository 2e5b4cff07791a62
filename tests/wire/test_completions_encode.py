"""Recorded requests are rebuilt and encoded, and the result has the meaning of the recorded request."""

from __future__ import annotations

from dataclasses import replace

from chat_completions.codec import encode_turns
from chat_core.messages import Messages

from .encoding import found, sent
from .exchanges import accepted, require_wire
from .listed import judge, read_listed, read_rows, score
from .rebuild import rebuild
from .replay import continuations

require_wire()


def test_accepted_requests_are_encoded_equivalently_except_listed_differences() -> None:
    wrong = judge(found(), read_listed("Requests"))
    assert not wrong, "\n".join(wrong[:60])


def test_recorded_responses_are_sent_back_as_their_vendor_requires() -> None:
    unlike = {continuation.id: differences for continuation, differences in continuations()}
    wrong = judge(unlike, read_listed("Responses sent back"))
    assert not wrong, "\n".join(wrong[:60])
    assert len(unlike) > 90


def test_the_documentation_page_states_the_current_score() -> None:
    judged = [((item.api, *item.features), found().get(item.id, ())) for item in accepted()]
    table = score(judged, "chat-completions", "embeddings")
    lines = "\n".join([f"| {' | '.join(row)} |" for row in table])
    assert read_rows("Score") == table, f"the score is now:\n{lines}"


def test_repeated_and_reloaded_requests_have_identical_bytes() -> None:
    for exchange in accepted():
        if exchange.api == "chat-completions":
            said = rebuild(exchange.body, exchange.provider)
            first = sent(said)
            assert first == sent(said), exchange.id
            stored = Messages.from_json(said.messages.to_json())
            assert first == sent(replace(said, messages=stored)), exchange.id


def test_an_appended_turn_does_not_change_the_encoding_of_earlier_turns() -> None:
    """Vendors cache prompts by prefix."""
    for exchange in accepted():
        if exchange.api == "chat-completions":
            said = rebuild(exchange.body, exchange.provider)
            before = encode_turns(said.messages.view(), said.dialect)
            said.messages.user("And now?")
            assert encode_turns(said.messages.view(), said.dialect).startswith(before), exchange.id
