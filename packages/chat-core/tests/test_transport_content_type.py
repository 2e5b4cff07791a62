from __future__ import annotations

from chat_core.transport.content_type import body_may_match_framing, type_matches_framing


def test_a_content_type_declares_a_framing_or_does_not() -> None:
    assert type_matches_framing("text/event-stream; charset=utf-8", "sse")
    assert not type_matches_framing("application/json", "sse")
    assert type_matches_framing("application/json", "json-array")


def test_the_beginning_of_a_body_shows_whether_it_may_have_a_framing() -> None:
    assert body_may_match_framing(b"data: 1", "sse")
    assert not body_may_match_framing(b"<html>", "sse")
