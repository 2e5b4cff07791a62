"""Recorded requests are rebuilt and encoded, and the result has the meaning of the recorded request."""

from __future__ import annotations

from dataclasses import replace

from chat_claude.codec import encode_turns
from chat_core.messages import Messages

from ..exchanges import ROOT, require_wire
from ..listed import judge, read_listed, read_rows, score
from .encoding import accepted, continuations, found, sent
from .forms import EQUIVALENCES
from .rebuild import rebuild

require_wire()

PAGE = ROOT / "docs" / "differences-claude.md"


def test_accepted_requests_are_encoded_equivalently_except_listed_differences() -> None:
    wrong = judge(found(), read_listed("Requests", PAGE))
    assert not wrong, "\n".join(wrong[:60])
    assert len(found()) >= 180


def test_recorded_responses_are_sent_back_as_required_except_listed_differences() -> None:
    unlike = {continuation.id: differences for continuation, differences in continuations()}
    wrong = judge(unlike, read_listed("Responses sent back", PAGE))
    assert not wrong, "\n".join(wrong[:60])
    assert len(unlike) >= 46


def test_the_documentation_page_states_the_score_of_requests() -> None:
    judged = [((item.api, item.provider, *item.features), found()[item.id]) for item in accepted()]
    table = score(judged, "messages", "count-tokens", "anthropic", "azure", "bedrock", "vertex")
    lines = "\n".join([f"| {' | '.join(row)} |" for row in table])
    assert read_rows("Score of the requests", PAGE) == table, f"the score is now:\n{lines}"


def test_the_documentation_page_lists_the_equivalences() -> None:
    rows = [[equivalence.name, equivalence.same, equivalence.reason] for equivalence in EQUIVALENCES]
    lines = "\n".join([f"| `{name}` | {same} | {reason} |" for name, same, reason in rows])
    shown = [[cell.replace("`", "") for cell in row] for row in read_rows("Equivalent requests", PAGE)]
    assert shown == [[cell.replace("`", "") for cell in row] for row in rows], f"the rows are now:\n{lines}"


def test_repeated_and_reloaded_requests_have_identical_bytes() -> None:
    for item in accepted():
        said = rebuild(item.asked or {})
        first = sent(said)
        assert first == sent(said), item.id
        stored = Messages.from_json(said.messages.to_json())
        assert first == sent(replace(said, messages=stored)), item.id


def test_an_appended_turn_does_not_change_the_encoding_of_earlier_turns() -> None:
    """The API caches prompts by prefix."""
    for item in accepted():
        said = rebuild(item.asked or {})
        system, before = encode_turns(said.messages.view(), said.dialect)
        said.messages.user("And now?")
        longer = encode_turns(said.messages.view(), said.dialect)
        assert longer[0] == system, item.id
        assert longer[1].startswith(before), item.id
