from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from chat_completions import CompletionsOptions, Dialect
from chat_completions.codec import decode_embeddings, encode_embeddings, requested_encoding
from chat_completions.options import EncodingFormat
from chat_core.errors import InvalidResponseError, RateLimitedError, UnsupportedOptionError
from chat_core.options import ChatOptions
from chat_core.usage import Usage


def answer(*items: object, **fields: object) -> bytes:
    return json.dumps({"object": "list", "data": list(items), "model": "e", **fields}).encode()


def vector(index: int | None, *numbers: float) -> dict[str, Any]:
    item: dict[str, Any] = {"object": "embedding", "embedding": list(numbers)}
    return item if index is None else {**item, "index": index}


def test_all_texts_are_sent_in_one_embeddings_request() -> None:
    sent = json.loads(encode_embeddings(["a", "b"], ChatOptions(), dialect=Dialect(model="e", dimensions=3)))
    assert sent == {"model": "e", "input": ["a", "b"], "dimensions": 3}


def test_the_dialect_names_the_dimensions_field() -> None:
    dialect = Dialect(model="e", dimensions=3, dimensions_field="output_dimension")
    assert json.loads(encode_embeddings(["a"], ChatOptions(), dialect=dialect)) == {
        "model": "e", "input": ["a"], "output_dimension": 3,
    }  # fmt: skip


def test_embeddings_requests_contain_user_and_extra_body() -> None:
    options = ChatOptions(timeout=3, extras=(CompletionsOptions(user="u", extra_body={"truncate": True}),))
    sent = json.loads(encode_embeddings(["a"], options, dialect=Dialect(model="e")))
    assert (sent["user"], sent["truncate"]) == ("u", True)
    assert "dimensions" not in sent


@pytest.mark.parametrize(
    "options",
    [
        ChatOptions(temperature=1.0),
        ChatOptions(reasoning="low"),
        ChatOptions(instructions="Be kind."),
        ChatOptions(extras=(CompletionsOptions(logprobs=True),)),
        ChatOptions(extras=(CompletionsOptions(tools=({"type": "x"},)),)),
        ChatOptions(extras=(CompletionsOptions(extra_body={"input": 1}),)),
    ],
)
def test_chat_options_are_rejected_for_embeddings(options: ChatOptions) -> None:
    with pytest.raises(UnsupportedOptionError):
        encode_embeddings(["a"], options, dialect=Dialect(model="e"))


@pytest.mark.parametrize("name", ["output_dtype", "embedding_type", "embedding_types", "encoding_format"])
@pytest.mark.parametrize("kind", ["int8", "ubinary", "base64_binary", ["float", "int8"], None])
def test_requests_for_vectors_other_than_floats_are_rejected(name: str, kind: object) -> None:
    options = ChatOptions(extras=(CompletionsOptions(extra_body={name: kind}),))
    with pytest.raises(UnsupportedOptionError, match=r"can(not)? be decoded"):
        encode_embeddings(["a"], options, dialect=Dialect(model="e"))


@pytest.mark.parametrize("kind", ["float", "base64", "base64_int8"])
def test_extra_body_selects_the_encoding_of_vectors(kind: str) -> None:
    options = ChatOptions(extras=(CompletionsOptions(extra_body={"encoding_format": kind}),))
    dialect = Dialect(model="e", encoding_format="float")
    sent = json.loads(encode_embeddings(["a"], options, dialect=dialect))
    assert sent["encoding_format"] == kind
    assert requested_encoding(options, dialect) == kind


def test_floats_can_be_requested_by_type() -> None:
    options = ChatOptions(extras=(CompletionsOptions(extra_body={"embedding_types": ["float"]}),))
    assert json.loads(encode_embeddings(["a"], options, dialect=Dialect(model="e")))["embedding_types"] == ["float"]


def test_the_encoding_format_of_the_dialect_is_sent() -> None:
    dialect = Dialect(model="e", encoding_format="base64_int8")
    sent = json.loads(encode_embeddings(["a"], ChatOptions(), dialect=dialect))
    assert sent["encoding_format"] == "base64_int8"
    assert requested_encoding(ChatOptions(), dialect) == "base64_int8"
    assert requested_encoding(ChatOptions(), Dialect(model="e")) is None


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "no", "code": 429}},
        {"error": "rate limit exceeded"},
        {"object": "error", "message": "no", "code": 429},
        {"status_code": 429, "message": "no"},
        [{"error": {"message": "no", "code": 429}}],
    ],
)
def test_an_error_object_of_any_shape_in_an_embeddings_response_is_raised(body: object) -> None:
    with pytest.raises(RateLimitedError):
        decode_embeddings(json.dumps(body).encode(), 1, "p")


@pytest.mark.parametrize("vector", ["", [], {"float": [0.1]}, [[0.1]], [0.1, None], [True], "AAA=", "not base64"])
def test_a_vector_that_is_not_a_list_of_numbers_raises_invalid_response(vector: object) -> None:
    with pytest.raises(InvalidResponseError, match="must have a list of finite numbers"):
        decode_embeddings(answer({"index": 0, "embedding": vector}), 1, "p")


def test_vectors_are_returned_in_the_order_of_the_texts() -> None:
    body = answer(vector(1, 3, 4), vector(0, 1, 2), usage={"prompt_tokens": 5, "total_tokens": 5})
    response = decode_embeddings(body, 2, "p")
    assert response.vectors == ((1.0, 2.0), (3.0, 4.0))
    assert response.usage == Usage(5)
    assert response.model == "e"


def test_vectors_without_an_index_keep_the_order_of_the_response() -> None:
    assert decode_embeddings(answer(vector(None, 1), vector(None, 2), model=None), 2, "p").vectors == ((1.0,), (2.0,))


def test_base64_is_decoded_in_the_requested_encoding() -> None:
    floats = answer({"index": 0, "embedding": base64.b64encode(struct.pack("<2f", 0.5, -2.0)).decode()})
    assert decode_embeddings(floats, 1, "p", encoding_format="base64").vectors == ((0.5, -2.0),)
    signed = answer({"index": 0, "embedding": base64.b64encode(bytes([1, 127, 128, 255])).decode()})
    assert decode_embeddings(signed, 1, "p", encoding_format="base64_int8").vectors == ((1.0, 127.0, -128.0, -1.0),)


@pytest.mark.parametrize("encoding", [None, "float"])
def test_base64_that_was_not_requested_is_refused(encoding: EncodingFormat | None) -> None:
    body = answer({"index": 0, "embedding": base64.b64encode(bytes(256)).decode()})
    with pytest.raises(InvalidResponseError, match="set `encoding_format`"):
        decode_embeddings(body, 1, "p", encoding_format=encoding)


@pytest.mark.parametrize("encoding", ["base64", "base64_int8"])
def test_numbers_are_accepted_in_every_encoding(encoding: EncodingFormat) -> None:
    assert decode_embeddings(answer(vector(0, 1, 2)), 1, "p", encoding_format=encoding).vectors == ((1.0, 2.0),)


def test_a_vector_must_have_the_requested_dimensions() -> None:
    text = base64.b64encode(bytes(256)).decode()
    body = answer({"index": 0, "embedding": text})
    with pytest.raises(InvalidResponseError, match="64 dimensions, but 256 were requested") as error:
        decode_embeddings(body, 1, "p", encoding_format="base64", dimensions=256)
    assert error.value.path == "data[0].embedding"
    assert len(decode_embeddings(body, 1, "p", encoding_format="base64_int8", dimensions=256).vectors[0]) == 256


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e999", "NaN", "-Infinity"])
def test_numbers_that_are_not_finite_floats_are_refused(number: str) -> None:
    body = f'{{"data": [{{"index": 0, "embedding": [0.5, {number}]}}]}}'.encode()
    with pytest.raises(InvalidResponseError) as error:
        decode_embeddings(body, 1, "p")
    assert error.value.path == "data[0]"


def test_base64_floats_must_be_finite() -> None:
    text = base64.b64encode(struct.pack("<2f", 0.5, float("nan"))).decode()
    with pytest.raises(InvalidResponseError):
        decode_embeddings(answer({"index": 0, "embedding": text}), 1, "p", encoding_format="base64")


def test_total_tokens_alone_are_read_as_input_tokens() -> None:
    assert decode_embeddings(answer(vector(0, 1), usage={"total_tokens": 3}), 1, "p").usage == Usage(3)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"nothing", ""),
        (b"[]", ""),
        (b"{}", "data"),
        (answer(), "data"),
        (answer(vector(0, 1), vector(1, 1)), "data"),
        (answer(7), "data[0]"),
        (answer({"index": 0, "embedding": ["a"]}), "data[0]"),
        (answer({"index": 0, "embedding": [True]}), "data[0]"),
        (answer({"index": 0, "embedding": "***"}), "data[0]"),
        (answer({"index": 0, "embedding": "eHg="}), "data[0]"),
        (answer(vector(1, 1)), "data[0]"),
    ],
)
def test_a_response_without_one_vector_per_text_raises_invalid_response(body: bytes, path: str) -> None:
    with pytest.raises(InvalidResponseError) as error:
        decode_embeddings(body, 1, "p")
    assert error.value.path == path


def test_two_vectors_with_the_same_index_raise_invalid_response() -> None:
    with pytest.raises(InvalidResponseError):
        decode_embeddings(answer(vector(0, 1), vector(0, 2)), 2, "p")


def test_an_error_object_with_status_200_is_raised() -> None:
    with pytest.raises(RateLimitedError):
        decode_embeddings(b'{"error": {"message": "slow down", "code": 429}}', 1, "p")
