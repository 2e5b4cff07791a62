from __future__ import annotations

import json
from typing import Any

import pytest
from chat_core.errors import AuthenticationError, InvalidResponseError, UnsupportedOptionError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, OutputSchema, ToolDeclaration, ToolDeclarations
from chat_core.usage import Usage
from chat_gemini.codec import decode_count, decode_embeddings, encode_count, encode_embeddings
from chat_gemini.options import Dialect, EmbeddingDialect, EmbeddingOptions

PLAIN = EmbeddingDialect(model="e")


def body(*texts: str, dialect: EmbeddingDialect = PLAIN, extras: EmbeddingOptions | None = None) -> Any:
    options = ChatOptions(extras=() if extras is None else (extras,))
    return json.loads(encode_embeddings(texts, options, dialect=dialect))


def read(answer: object, count: int = 1) -> Any:
    return decode_embeddings(json.dumps(answer).encode(), count, "p")


# --- Requests -----------------------------------------------------------------------------------------------


def test_each_text_of_a_batch_request_names_the_model() -> None:
    assert body("a", "b") == {
        "requests": [
            {"model": "models/e", "content": {"parts": [{"text": "a"}]}},
            {"model": "models/e", "content": {"parts": [{"text": "b"}]}},
        ]
    }


def test_task_type_and_dimensions_are_sent_with_each_text() -> None:
    dialect = EmbeddingDialect(model="e", dimensions=2, task_type="CLUSTERING", auto_truncate=False)
    (request,) = body("a", dialect=dialect)["requests"]
    assert request["taskType"] == "CLUSTERING"
    assert request["outputDimensionality"] == 2
    assert request["autoTruncate"] is False
    (request,) = body("a", dialect=dialect, extras=EmbeddingOptions(task_type="RETRIEVAL_DOCUMENT", title="T"))[
        "requests"
    ]
    assert (request["taskType"], request["title"]) == ("RETRIEVAL_DOCUMENT", "T")


def test_predict_requests_contain_instances_and_parameters() -> None:
    dialect = EmbeddingDialect(model="e", method="predict", dimensions=2, auto_truncate=True)
    assert body("a", "b", dialect=dialect, extras=EmbeddingOptions(task_type="CLUSTERING", title="T")) == {
        "instances": [
            {"content": "a", "task_type": "CLUSTERING", "title": "T"},
            {"content": "b", "task_type": "CLUSTERING", "title": "T"},
        ],
        "parameters": {"outputDimensionality": 2, "autoTruncate": True},
    }
    assert body("a", dialect=EmbeddingDialect(model="e", method="predict")) == {"instances": [{"content": "a"}]}


def test_an_embed_content_request_contains_exactly_one_text() -> None:
    dialect = EmbeddingDialect(model="e", method="embedContent")
    assert body("a", dialect=dialect) == {"content": {"parts": [{"text": "a"}]}}
    with pytest.raises(UnsupportedOptionError, match="one text per request, not 2"):
        body("a", "b", dialect=dialect)


def test_grouped_embedding_settings_are_sent_apart_from_the_text() -> None:
    dialect = EmbeddingDialect(model="e", method="embedContent", dimensions=8, auto_truncate=False, grouped=True)
    assert body("a", dialect=dialect, extras=EmbeddingOptions(task_type="CLUSTERING", title="t")) == {
        "content": {"parts": [{"text": "a"}]},
        "embedContentConfig": {
            "taskType": "CLUSTERING",
            "title": "t",
            "outputDimensionality": 8,
            "autoTruncate": False,
        },
    }
    plain = EmbeddingDialect(model="e", method="embedContent", grouped=True)
    assert body("a", dialect=plain) == {"content": {"parts": [{"text": "a"}]}}


def test_chat_options_are_rejected_for_embeddings() -> None:
    with pytest.raises(UnsupportedOptionError, match=r"gemini \(embeddings\).*temperature"):
        encode_embeddings(["a"], ChatOptions(temperature=0.5), dialect=PLAIN)
    with pytest.raises(UnsupportedOptionError, match=r"gemini \(embeddings\).*instructions"):
        encode_embeddings(["a"], ChatOptions(instructions="Be kind."), dialect=PLAIN)


# --- Responses ----------------------------------------------------------------------------------------------


def test_vectors_are_read_from_all_three_response_formats() -> None:
    assert read({"embeddings": [{"values": [1, 0.5]}, {"values": [0, 1]}]}, 2).vectors == ((1.0, 0.5), (0.0, 1.0))
    single = read({"embedding": {"values": [1]}, "usageMetadata": {"promptTokenCount": 3}})
    assert (single.vectors, single.usage) == (((1.0,),), Usage(3))
    predicted = {"embeddings": {"values": [1], "statistics": {"token_count": 2, "truncated": False}}}
    answer = read({"predictions": [predicted, predicted]}, 2)
    assert (answer.vectors, answer.usage) == (((1.0,), (1.0,)), Usage(4))


WRONG: list[tuple[object, str]] = [
    ({}, "embeddings"),
    ({"embeddings": []}, "embeddings"),
    ({"embeddings": {}}, "embeddings"),
    ({"embeddings": [{"values": []}]}, "embeddings[0]"),
    ({"embeddings": [{"values": ["x"]}]}, "embeddings[0]"),
    ({"embeddings": [7]}, "embeddings[0]"),
    ({"embedding": None}, "embedding[0]"),
    ({"predictions": [{}]}, "predictions[0]"),
    ([1], ""),
]


@pytest.mark.parametrize(("answer", "path"), WRONG)
def test_a_response_without_one_vector_per_text_raises_invalid_response(answer: object, path: str) -> None:
    with pytest.raises(InvalidResponseError) as error:
        read(answer)
    assert error.value.path == path


def test_token_counts_of_each_text_are_summed() -> None:
    told: list[object] = [
        {"values": [1], "statistics": {"tokenCount": 2}},
        {"values": [1], "statistics": {"token_count": 3}},
        {"values": [1], "statistics": {"token_count": 1e999}},
        {"values": [1], "statistics": None},
    ]
    assert read({"embedding": None, "embeddings": told}, 4).usage == Usage(5)
    assert read({"predictions": [{"embeddings": item} for item in told]}, 4).usage == Usage(5)


def test_the_token_count_of_each_text_and_whether_it_was_truncated_are_reported() -> None:
    counts = [{"token_count": 2048, "truncated": True}, {"tokenCount": 3}, {"truncated": "yes"}, None]
    predictions = [{"embeddings": {"values": [1], "statistics": item}} for item in counts]
    response = read({"predictions": predictions}, 4)
    assert (response.token_counts, response.truncated) == ({0: 2048, 1: 3}, frozenset({0}))


def test_an_error_object_instead_of_vectors_is_raised() -> None:
    reason = {"reason": "API_KEY_INVALID"}
    with pytest.raises(AuthenticationError):
        read({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "x", "details": [reason]}})
    with pytest.raises(InvalidResponseError, match="not JSON"):
        decode_embeddings(b"<html>", 1, "p")


# --- Counting -----------------------------------------------------------------------------------------------


def counted(messages: Messages, tools: ToolDeclarations = NO_TOOLS, *, flat: bool = False) -> Any:
    return json.loads(encode_count(messages, tools, dialect=Dialect(model="m"), flat=flat))


def test_contents_without_other_fields_are_counted_directly() -> None:
    assert counted(Messages.from_user("Hi")) == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


def test_token_counts_include_tools_and_instructions() -> None:
    tools = ToolDeclarations([ToolDeclaration("f", "", {"type": "object", "properties": {}})])
    whole = counted(Messages.from_user("Hi"), tools)["generateContentRequest"]
    assert whole.keys() == {"model", "contents", "tools"}
    messages = Messages.from_system("Be brief.")
    messages.user("Hi")
    assert counted(messages)["generateContentRequest"].keys() == {"model", "systemInstruction", "contents"}
    assert counted(messages, tools, flat=True).keys() == {"systemInstruction", "contents", "tools"}


def test_decode_count_returns_the_total_tokens() -> None:
    assert decode_count(b'{"totalTokens":12,"cachedContentTokenCount":3}', "p") == 12
    assert decode_count(b"{}", "p") == 0
    for body in (b'{"totalTokens":"12"}', b'{"totalTokens":null}', b'{"other":1}', b"[]"):
        with pytest.raises(InvalidResponseError):
            decode_count(body, "p")


@pytest.mark.parametrize("count", [True, 5.5, "5", None])
def test_a_token_count_that_is_not_an_integer_raises_invalid_response(count: object) -> None:
    with pytest.raises(InvalidResponseError, match="totalTokens"):
        decode_count(json.dumps({"totalTokens": count}).encode(), "p")


def test_token_counts_include_native_tools_and_schemas() -> None:
    schema = OutputSchema("answer", {"type": "object", "properties": {"city": {"type": "string"}}})
    dialect = Dialect(model="m", native_tools=({"googleSearch": {}},))
    body = encode_count(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), schema, dialect=dialect, flat=False)
    whole = json.loads(body)["generateContentRequest"]

    assert whole["tools"] == [{"googleSearch": {}}]
    assert "city" in json.dumps(whole["generationConfig"])
    assert json.loads(
        encode_count(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), schema, dialect=dialect, flat=True)
    ).keys() == {"contents", "tools", "generationConfig"}
