"""The Gemini wire, without input or output: bodies to send, answers to read.

A request is encoded in `encode.py`, `parts.py` and `schema.py`; a response is decoded in `decode.py`, `answer.py`,
`calls.py` and `usage.py`. Token counts and embeddings are here, in the formats of the Gemini API and
of Vertex AI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from chat_core.errors import InvalidResponseError, UnsupportedOptionError
from chat_core.json import dump_bytes, loads
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import EmbeddingsResponse, ToolDeclarations
from chat_core.usage import Usage
from chat_core.wire.shapes import Json, is_list, is_object, mapping

from chat_gemini.decode import StreamDecoder, decode
from chat_gemini.encode import encode, encode_conversation, encode_tools
from chat_gemini.errors import error_from_object, find_error
from chat_gemini.options import Dialect, EmbeddingDialect, EmbeddingOptions
from chat_gemini.schema import InexpressibleError, json_form, openapi_form
from chat_gemini.usage import read_usage

__all__ = [
    "InexpressibleError",
    "StreamDecoder",
    "decode",
    "decode_count",
    "decode_embeddings",
    "encode",
    "encode_conversation",
    "encode_count",
    "encode_embeddings",
    "encode_tools",
    "json_form",
    "openapi_form",
]

CHAT_ONLY: Final = (
    "temperature", "top_p", "max_tokens", "stop", "seed", "tool_choice", "parallel_tool_calls", "reasoning",
)  # fmt: skip


def encode_embeddings(texts: Sequence[str], options: ChatOptions, *, dialect: EmbeddingDialect) -> bytes:
    """The body of a request for embeddings.

    Raises:
        UnsupportedOptionError: an option applies to answers only, or the method takes one text at a time.
    """
    options.refuse(f"{dialect.provider} (embeddings)", *CHAT_ONLY)
    extras = options.extra(EmbeddingOptions, dialect.provider) or EmbeddingOptions()  # noqa: S610 - not Django
    task = extras.task_type or dialect.task_type
    if dialect.method == "predict":
        return dump_bytes(_predict(texts, task, extras.title, dialect))
    requests = [_request(text, task, extras.title, dialect) for text in texts]
    if dialect.method == "batchEmbedContents":
        return dump_bytes({"requests": [{"model": f"models/{dialect.model}", **request} for request in requests]})
    if len(requests) != 1:
        msg = f"embedContent takes one text at a time, not {len(requests)}"
        raise UnsupportedOptionError(msg)
    return dump_bytes(requests[0])


def _request(text: str, task: str | None, title: str | None, dialect: EmbeddingDialect) -> Json:
    content: Json = {"content": {"parts": [{"text": text}]}}
    settings: Json = {}
    if task is not None:
        settings["taskType"] = task
    if title is not None:
        settings["title"] = title
    if dialect.dimensions is not None:
        settings["outputDimensionality"] = dialect.dimensions
    if dialect.auto_truncate is not None:
        settings["autoTruncate"] = dialect.auto_truncate
    return content | ({"embedContentConfig": settings} if settings and dialect.grouped else settings)


def _predict(texts: Sequence[str], task: str | None, title: str | None, dialect: EmbeddingDialect) -> Json:
    instance = {name: value for name, value in (("task_type", task), ("title", title)) if value is not None}
    body: Json = {"instances": [{"content": text, **instance} for text in texts]}
    parameters: Json = {}
    if dialect.dimensions is not None:
        parameters["outputDimensionality"] = dialect.dimensions
    if dialect.auto_truncate is not None:
        parameters["autoTruncate"] = dialect.auto_truncate
    return body | ({"parameters": parameters} if parameters else {})


def decode_embeddings(body: bytes, count: int, provider: str) -> EmbeddingsResponse:
    """The vectors in an answer, in the order of the texts.

    Raises:
        InvalidResponseError: it does not hold `count` vectors.
        ProviderError: the body says that the server failed.
    """
    answer = _answer(body, provider)
    path, items = _items(answer)
    if not is_list(items) or len(items) != count:
        found = f"{len(items)} items" if is_list(items) else "no list"
        msg = f"{provider}: `{path}` must hold {count} embeddings, not {found}"
        raise InvalidResponseError(msg, path=path, raw=body)
    vectors: list[tuple[float, ...]] = []
    for index, item in enumerate(items):
        vector = _vector(item)
        if vector is None:
            msg = f"{provider}: {path}[{index}] is not an embedding"
            raise InvalidResponseError(msg, path=f"{path}[{index}]", raw=body)
        vectors.append(vector)
    return EmbeddingsResponse(tuple(vectors), _spent(answer, items))


def _answer(body: bytes, provider: str) -> Json:
    try:
        answer = loads(body)
    except ValueError as error:
        msg = f"{provider}: the server's words are not JSON"
        raise InvalidResponseError(msg, raw=body) from error
    if (said := find_error(answer)) is not None:
        raise error_from_object(said, provider)
    if not is_object(answer):
        msg = f"{provider}: an answer is an object"
        raise InvalidResponseError(msg, raw=body)
    return answer


def _items(answer: Json) -> tuple[str, object]:
    """The embeddings, and where they stand."""
    if "predictions" in answer:
        return "predictions", answer["predictions"]
    if "embedding" in answer and answer.get("embeddings") is None:
        return "embedding", [answer["embedding"]]
    return "embeddings", answer.get("embeddings")


def _vector(item: Any) -> tuple[float, ...] | None:  # noqa: ANN401 - JSON
    place = mapping(item)
    numbers = mapping(place.get("embeddings", place)).get("values")
    if is_list(numbers) and numbers and all(number.__class__ in (float, int) for number in numbers):
        return tuple([float(number) for number in numbers])
    return None


def _spent(answer: Json, items: list[Any]) -> Usage:
    """The cost: of the request, or of each of its texts."""
    spent = read_usage(answer.get("usageMetadata"))
    if spent:
        return spent
    return Usage(sum([_count(mapping(item)) for item in items]))


def _count(item: Mapping[str, Any]) -> int:
    """The tokens of one text, by either name of the field."""
    told = mapping(mapping(item.get("embeddings", item)).get("statistics"))
    return read_usage({"promptTokenCount": told.get("token_count", told.get("tokenCount"))}).input_tokens


# --- Counting -----------------------------------------------------------------------------------------------


def encode_count(messages: Messages, tools: ToolDeclarations, *, dialect: Dialect, flat: bool) -> bytes:
    """The body of a request for the number of tokens in a conversation.

    Vertex takes instructions and tools beside the contents; the Gemini API takes them in a whole request.

    Raises:
        PendingToolsError: a call in the history is not resolved.
        UnsupportedPartError: this wire has no place for a part of the history.
    """
    conversation = encode_conversation(messages, dialect)
    declared = encode_tools(tools, None, dialect)
    said = conversation + (b',"tools":[' + declared + b"]" if declared else b"")
    if flat or (said.startswith(b'"contents"') and not declared):
        return b"{" + said + b"}"
    model = dump_bytes(f"models/{dialect.model}")
    return b'{"generateContentRequest":{"model":' + model + b"," + said + b"}}"


def decode_count(body: bytes, provider: str) -> int:
    """The number of tokens.

    Raises:
        InvalidResponseError: the answer does not tell it.
        ProviderError: the body says that the server failed.
    """
    answer = _answer(body, provider)
    total = answer.get("totalTokens", 0 if "totalTokens" in answer or not answer else None)
    if total.__class__ is not int:
        msg = f"{provider}: `totalTokens` is not a number"
        raise InvalidResponseError(msg, path="totalTokens", raw=body)
    return total
