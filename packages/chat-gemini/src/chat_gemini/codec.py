"""Encoder and decoder for the Gemini API, without I/O.

Requests are encoded in `encode.py`, `parts.py` and `schema.py`. Responses are decoded in `decode.py`, `answer.py`,
`calls.py` and `usage.py`. This module adds token counts and embeddings, in the formats of the Gemini API and Vertex AI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from chat_core.errors import InvalidResponseError, UnsupportedOptionError
from chat_core.json import dump_bytes, loads
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import EmbeddingsResponse, OutputSchema, ToolDeclarations, require_embeddings_request
from chat_core.usage import Usage
from chat_core.wire.shapes import Json, is_list, is_object, mapping, parse_body

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

NO_OPTIONS: Final = ChatOptions()
COUNTED: Final = frozenset({"systemInstruction", "contents", "tools", "generationConfig"})
"""Request fields that contain tokens or affect the number of tokens."""

CHAT_ONLY: Final = (
    "temperature", "top_p", "top_k", "max_tokens", "stop", "seed", "tool_choice", "parallel_tool_calls", "reasoning",
    "instructions",
)  # fmt: skip


def encode_embeddings(texts: Sequence[str], options: ChatOptions, *, dialect: EmbeddingDialect) -> bytes:
    """Encode the body of an embeddings request.

    Args:
        texts: texts to embed.
        options: options of the request; `EmbeddingOptions` in `extras` are used.
        dialect: model and API method.

    Raises:
        UnsupportedOptionError: an option applies only to chat, or `texts` has several texts and the API method accepts
            only one text.
    """
    require_embeddings_request(texts, options)
    options.refuse(f"{dialect.provider} (embeddings)", *CHAT_ONLY)
    extras = options.extra(EmbeddingOptions, dialect.provider) or EmbeddingOptions()
    task = extras.task_type or dialect.task_type
    if dialect.method == "predict":
        return dump_bytes(_predict_body(texts, task, extras.title, dialect))
    requests = [_embed_request(text, task, extras.title, dialect) for text in texts]
    if dialect.method == "batchEmbedContents":
        return dump_bytes({"requests": [{"model": f"models/{dialect.model}", **request} for request in requests]})
    if len(requests) != 1:
        msg = f"embedContent accepts one text per request, not {len(requests)}: set max_batch=1"
        raise UnsupportedOptionError(msg)
    return dump_bytes(requests[0])


def _embed_request(text: str, task: str | None, title: str | None, dialect: EmbeddingDialect) -> Json:
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


def _predict_body(texts: Sequence[str], task: str | None, title: str | None, dialect: EmbeddingDialect) -> Json:
    instance = {name: value for name, value in (("task_type", task), ("title", title)) if value is not None}
    body: Json = {"instances": [{"content": text, **instance} for text in texts]}
    parameters: Json = {}
    if dialect.dimensions is not None:
        parameters["outputDimensionality"] = dialect.dimensions
    if dialect.auto_truncate is not None:
        parameters["autoTruncate"] = dialect.auto_truncate
    return body | ({"parameters": parameters} if parameters else {})


def decode_embeddings(body: bytes, count: int, provider: str) -> EmbeddingsResponse:
    """Decode an embeddings response and return its vectors in the order of the texts.

    Args:
        body: the response body as received.
        count: expected number of vectors.
        provider: name of the provider, for error messages.

    Raises:
        InvalidResponseError: the body is not a JSON object, or does not contain exactly `count` vectors.
        ProviderError: the body contains an error object.
    """
    response = _parse_response(body, provider)
    path, items = _find_embeddings(response)
    if not is_list(items) or len(items) != count:
        found = f"{len(items)} items" if is_list(items) else "no list"
        msg = f"{provider}: `{path}` must contain {count} embeddings, not {found}"
        raise InvalidResponseError(msg, path=path, raw=body)
    vectors: list[tuple[float, ...]] = []
    for index, item in enumerate(items):
        vector = _read_vector(item)
        if vector is None:
            msg = f"{provider}: {path}[{index}] must contain a vector of finite numbers"
            raise InvalidResponseError(msg, path=f"{path}[{index}]", raw=body)
        vectors.append(vector)
    counts = {index: count for index, item in enumerate(items) if (count := _token_count(item))}
    truncated = frozenset([index for index, item in enumerate(items) if _statistics(item).get("truncated") is True])
    usage = read_usage(response.get("usageMetadata")) or Usage(sum(counts.values()))
    return EmbeddingsResponse(tuple(vectors), usage, token_counts=counts, truncated=truncated)


def _parse_response(body: bytes, provider: str) -> Json:
    response = parse_body(body, provider)
    if (error_object := find_error(response)) is not None:
        raise error_from_object(error_object, provider)
    if not is_object(response):
        msg = f"{provider}: the response must be a JSON object"
        raise InvalidResponseError(msg, raw=body)
    return response


def _find_embeddings(response: Json) -> tuple[str, object]:
    """Return the name and the value of the response field that contains the embeddings.

    A single embedding is returned as a list of one item.
    """
    if "predictions" in response:
        return "predictions", response["predictions"]
    if "embedding" in response and response.get("embeddings") is None:
        return "embedding", [response["embedding"]]
    return "embeddings", response.get("embeddings")


def _read_vector(item: Any) -> tuple[float, ...] | None:  # noqa: ANN401 - JSON
    embedding = mapping(item)
    numbers = mapping(embedding.get("embeddings", embedding)).get("values")
    if is_list(numbers) and numbers and all(number.__class__ in (float, int) for number in numbers):
        return tuple([float(number) for number in numbers])
    return None


def _token_count(item: object) -> int:
    """Return the number of tokens of one embedded text. The name of the field depends on the API method."""
    statistics = _statistics(item)
    return read_usage({"promptTokenCount": statistics.get("token_count", statistics.get("tokenCount"))}).input_tokens


def _statistics(item: object) -> Mapping[str, Any]:
    embedding = mapping(item)
    return mapping(mapping(embedding.get("embeddings", embedding)).get("statistics"))


# --- Counting -----------------------------------------------------------------------------------------------


def encode_count(
    messages: Messages,
    tools: ToolDeclarations,
    options: ChatOptions = NO_OPTIONS,
    structured_output: OutputSchema | None = None,
    *,
    dialect: Dialect,
    flat: bool,
) -> bytes:
    """Encode the body of a token count request.

    The body contains all fields of the chat request that affect the number of tokens.

    Args:
        messages: the conversation to send.
        tools: tools that the model may call.
        options: settings of the request, such as `temperature`.
        structured_output: schema of the structured output, or `None` for text.
        dialect: the request format of the model.
        flat: whether the fields are sent at the top level, as Vertex AI requires, or in a nested
            `generateContentRequest`, as the Gemini API requires.

    Raises:
        PendingToolsError: a tool call in the history is not resolved.
        UnsupportedPartError: the API cannot represent a part of the history.
        UnsupportedOptionError: the API does not support an option, or cannot represent a schema.
    """
    body = encode(messages, tools, options, structured_output, dialect=dialect)
    request = cast("dict[str, object]", loads(body))
    counted = {name: value for name, value in request.items() if name in COUNTED}
    if flat or counted.keys() == {"contents"}:
        return dump_bytes(counted)
    return dump_bytes({"generateContentRequest": {"model": f"models/{dialect.model}", **counted}})


def decode_count(body: bytes, provider: str) -> int:
    """Decode the response to a token count request and return the number of tokens.

    Args:
        body: the response body as received.
        provider: name of the provider, for error messages.

    Raises:
        InvalidResponseError: the body is not JSON or has no valid `totalTokens`.
        ProviderError: the body contains an error object.
    """
    response = _parse_response(body, provider)
    total = response.get("totalTokens", 0 if "totalTokens" in response or not response else None)
    if total.__class__ is not int:
        msg = f"{provider}: `totalTokens` must be an integer, not {total!r}"
        raise InvalidResponseError(msg, path="totalTokens", raw=body)
    return total
