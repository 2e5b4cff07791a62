from __future__ import annotations

from chat_core.transport.content_type import body_may_match_framing, type_matches_framing


def test_type_matches_framing_compares_the_content_type_with_the_framing() -> None:
    assert type_matches_framing("text/event-stream; charset=utf-8", "sse")
    assert not type_matches_framing("application/json", "sse")
    assert type_matches_framing("application/json", "json-array")


def test_body_may_match_framing_checks_the_beginning_of_the_body() -> None:
    assert body_may_match_framing(b"data: 1", "sse")
    assert not body_may_match_framing(b"<html>", "sse")
