from __future__ import annotations

import json
from random import Random

import pytest
from chat_testing.conformance.mutations import mutate_response

DOCUMENT = json.dumps(
    {"id": "r", "choices": [{"text": "words", "arguments": '{"cents": 5}'}], "usage": {"n": 3}}
).encode()
STREAM = b'event: a\ndata: {"text": "one"}\n\n: comment\r\ndata: {"text": "two"}\r\n\r\ndata: [DONE]\n\n'


def mutated(body: bytes, count: int = 300) -> list[bytes]:
    return [mutate_response(body, Random(seed)) for seed in range(count)]


def test_mutation_is_reproducible_from_its_seed() -> None:
    assert mutated(DOCUMENT) == mutated(DOCUMENT)
    assert len(set(mutated(DOCUMENT))) > 200


def test_mutated_json_documents_are_valid_json() -> None:
    parsed = 0
    for body in mutated(DOCUMENT):
        try:
            json.loads(body)
        except RecursionError:
            continue
        parsed += 1
    assert parsed > 200


@pytest.mark.parametrize(
    "words",
    [b"NaN", b"-1", b"1" + b"0" * 400, b"[" * 200, b'{"a":' * 100, b'"unexpected":', b"\\ud83d", b'\\"cents\\":-1'],
)
def test_mutations_insert_values_of_every_kind(words: bytes) -> None:
    assert any(words in body for body in mutated(DOCUMENT, 5000))


def test_mutations_remove_fields() -> None:
    assert any(b'"usage"' not in body for body in mutated(DOCUMENT))


def test_mutation_changes_one_json_line_at_a_time() -> None:
    lines = b'{"text":"a"}\n{"text":"b","end":true}\n'
    for body in mutated(lines):
        first, second, rest = body.split(b"\n")
        assert (first == lines.split(b"\n")[0]) or (second == lines.split(b"\n")[1])
        assert rest == b""
    assert len(set(mutated(lines))) > 100


def test_mutation_changes_only_the_data_of_events() -> None:
    for body in mutated(STREAM):
        lines = body.split(b"\n")
        assert len(lines) == len(STREAM.split(b"\n"))
        assert lines[0] == b"event: a"
        assert lines[4].startswith(b"data: ")
        assert lines[4].endswith(b"\r")
        assert lines[6] == b"data: [DONE]"


def test_mutation_leaves_text_that_is_not_json_unchanged() -> None:
    assert mutate_response(b"<html>", Random(0)) == b"<html>"


def test_the_mutated_fields_are_named() -> None:
    body = b'{"choices": [{"message": {"content": "Hi"}}]}'
    known = {"the whole document", "choices", "choices[0]", "choices[0].message", "choices[0].message.content"}
    named: set[str] = set()
    for seed in range(200):
        fields: list[str] = []
        mutate_response(body, Random(seed), fields)
        assert fields
        named.add(fields[0])

    assert named == known
