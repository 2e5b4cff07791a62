"""Recorded requests are rebuilt and encoded, and the result has the meaning of the recorded request."""

from __future__ import annotations

from dataclasses import replace

from chat_core.messages import Messages

from ..exchanges import ROOT, require_wire
from ..listed import judge, read_listed, read_rows, score
from .encoding import asked, found, questions, sent
from .rebuild import rebuild
from .replay import continuations

require_wire()

PAGE = ROOT / "docs" / "differences-responses.md"


def test_accepted_requests_are_encoded_equivalently_except_listed_differences() -> None:
    wrong = judge(found(), read_listed("Requests", PAGE))
    assert not wrong, "\n".join(wrong[:60])
    assert len(found()) >= 180


def test_recorded_responses_are_sent_back_as_their_vendor_requires() -> None:
    unlike = {continuation.id: differences for continuation, differences in continuations()}
    wrong = judge(unlike, read_listed("Responses sent back", PAGE))
    assert not wrong, "\n".join(wrong[:60])
    assert len(unlike) >= 44


def test_the_documentation_page_states_the_current_score() -> None:
    features = {item.id: (item.api, *item.features) for item in asked()}
    judged = [(features.get(name, ("responses-ws",)), unlike) for name, unlike in found().items()]
    table = score(judged, "responses", "responses-ws", "count-tokens")
    lines = "\n".join([f"| {' | '.join(row)} |" for row in table])
    assert read_rows("Score of requests", PAGE) == table, f"the score is now:\n{lines}"


def test_repeated_and_reloaded_requests_have_identical_bytes() -> None:
    for name, (provider, body) in questions().items():
        said = rebuild(body, provider)
        first = sent(said)
        assert first == sent(said), name
        stored = Messages.from_json(said.messages.to_json())
        assert first == sent(replace(said, messages=stored)), name


def test_an_appended_turn_does_not_change_the_encoding_of_earlier_turns() -> None:
    """Vendors cache prompts by prefix."""
    for name, (provider, body) in questions().items():
        said = rebuild(body, provider)
        before = (
            sent(said).partition(b'"input":[')[2].partition(b'],"tools":[' if b'],"tools":[' in sent(said) else b"]")
        )
        said.messages.user("And now?")
        assert sent(said).partition(b'"input":[')[2].startswith(before[0]), name
