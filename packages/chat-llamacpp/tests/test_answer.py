from __future__ import annotations

import json
from typing import Any

import pytest
from chat_core.errors import TransportError
from chat_llamacpp.answer import ResponseAssembler, Translator, error_from_chunk

SAYING = '{"say": "It is 21."}'
CALL = '{"call": "pay", "arguments": {"to": "Bo"}}'


def chunk(content: str | None = None, finish: str | None = None, **delta: object) -> dict[str, Any]:
    said = delta if content is None else {"content": content, **delta}
    return {"id": "1", "model": "tiny", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


USAGE: dict[str, Any] = {"id": "1", "choices": [], "usage": {"prompt_tokens": 3}}


def translated(*chunks: dict[str, Any], calls: bool = True) -> list[dict[str, Any]]:
    translator = Translator(calls=calls)
    return [item for piece in chunks for item in translator.translate(piece)]


def deltas(chunks: list[dict[str, Any]]) -> list[tuple[object, object]]:
    return [(item["choices"][0]["delta"], item["choices"][0]["finish_reason"]) for item in chunks if item["choices"]]


def test_without_a_call_grammar_chunks_are_passed_unchanged() -> None:
    chunks = [chunk(role="assistant"), chunk(CALL), chunk(finish="stop"), USAGE]

    assert translated(*chunks, calls=False) == chunks


def test_a_say_object_becomes_text() -> None:
    first = chunk(role="assistant", content=None)
    chunks = translated(first, *[chunk(letter) for letter in SAYING], chunk(finish="stop"), USAGE)

    assert chunks[0] == first
    assert "".join(delta.get("content", "") for delta, _ in deltas(chunks[1:])) == "It is 21."  # type: ignore[attr-defined]  # JSON
    assert deltas(chunks)[-1] == ({}, "stop")
    assert chunks[-1] == USAGE


def test_a_call_object_becomes_a_tool_call_with_its_finish_reason() -> None:
    told = deltas(translated(chunk(CALL), chunk(finish="stop")))

    assert [list(delta) for delta, _ in told] == [["tool_calls"], ["tool_calls"], []]  # type: ignore[call-overload]  # JSON
    assert [finish for _, finish in told] == [None, None, "tool_calls"]


def test_text_and_finish_reason_may_arrive_in_one_chunk() -> None:
    told = deltas(translated(chunk(CALL, finish="stop")))

    assert [finish for _, finish in told] == [None, None, "tool_calls"]


@pytest.mark.parametrize(
    ("text", "finish", "told"),
    [
        (CALL[:-3], "length", "length"),
        (CALL[:-3], "stop", "length"),
        ("", "stop", "length"),
        (SAYING[:-3], "stop", "stop"),
        (SAYING[:-3], "length", "length"),
        (CALL, "length", "length"),
    ],
)
def test_a_truncated_call_finishes_with_length(text: str, finish: str, told: str) -> None:
    assert deltas(translated(chunk(text), chunk(finish=finish)))[-1] == ({}, told)


def test_finished_is_true_only_after_a_finish_reason() -> None:
    translator = Translator(calls=True)
    translator.translate(chunk(SAYING))
    assert not translator.finished

    translator.translate(chunk(finish="stop"))
    assert translator.finished


def test_text_outside_the_grammar_raises_a_protocol_error() -> None:
    with pytest.raises(TransportError, match="outside its grammar") as caught:
        translated(chunk("Gladly!"))

    assert caught.value.kind == "protocol"


def test_chunks_are_assembled_into_a_whole_response() -> None:
    whole = ResponseAssembler()
    for item in translated(
        chunk(role="assistant"), chunk(SAYING[:12]), chunk(SAYING[12:]), chunk(finish="stop"), USAGE
    ):
        whole.add(item)

    assert whole.body() == {
        "id": "1",
        "model": "tiny",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "It is 21."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3},
    }


def test_call_chunks_are_assembled_into_a_whole_response() -> None:
    whole = ResponseAssembler()
    for item in translated(*[chunk(letter) for letter in CALL], chunk(finish="stop")):
        whole.add(item)

    (choice,) = whole.body()["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert (call["type"], call["function"]["name"]) == ("function", "pay")
    assert json.loads(call["function"]["arguments"]) == {"to": "Bo"}


def test_assembling_chunks_without_a_finish_reason_raises() -> None:
    whole = ResponseAssembler()
    whole.add(chunk("half an ans"))

    with pytest.raises(TransportError, match="without a finish reason") as caught:
        whole.body()

    assert caught.value.kind == "stream"


@pytest.mark.parametrize(("code", "status"), [(400, 400), (503, 503), ("odd", 500), (None, 500)])
def test_an_error_chunk_raises_with_its_status(code: object, status: int) -> None:
    error = {"error": {"code": code, "message": "no room"}}

    with pytest.raises(TransportError, match="no room") as caught:
        ResponseAssembler().add(error)

    assert caught.value.status == error_from_chunk(error).status == status
    assert json.loads(caught.value.body) == error
