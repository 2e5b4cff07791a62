from __future__ import annotations

import json

from chat_testing import Reply, sse_event


def test_an_event_is_framed_as_the_server_would() -> None:
    assert sse_event("[DONE]") == b"data: [DONE]\n\n"
    assert sse_event({"a": 1}, "news") == b'event: news\ndata: {"a":1}\n\n'


def test_a_stream_has_a_chunk_for_each_event() -> None:
    reply = Reply.sse({"type": "begin"}, {"type": "end"}, named=True)

    assert reply.chunks == (
        b'event: begin\ndata: {"type":"begin"}\n\n',
        b'event: end\ndata: {"type":"end"}\n\n',
    )
    assert reply.headers["content-type"] == "text/event-stream"


def test_a_stream_without_names_may_hold_words() -> None:
    assert Reply.sse({"a": 1}, "[DONE]").data == b'data: {"a":1}\n\ndata: [DONE]\n\n'


def test_a_whole_answer_is_one_chunk_of_json() -> None:
    reply = Reply.json({"ok": True}, 429, {"retry-after": "2"})

    assert (reply.status, reply.headers["retry-after"], len(reply.chunks)) == (429, "2", 1)
    assert json.loads(reply.data) == {"ok": True}


def test_lines_and_arrays_are_cut_between_values() -> None:
    assert Reply.json_lines({"a": 1}, {"b": 2}).chunks == (b'{"a":1}\n', b'{"b":2}\n')
    assert Reply.json_array({"a": 1}, {"b": 2}).chunks == (b'[{"a":1}', b',{"b":2}', b"]")
    assert json.loads(Reply.json_array({"a": 1}, {"b": 2}).data) == [{"a": 1}, {"b": 2}]
