"""Encoder and decoder for the Messages API, without I/O.

Requests are encoded in `encode.py`, `request.py`, `parts.py` and `schema.py`. Responses are decoded in `decode.py`,
`answer.py` and `usage.py`. Vertex AI and Bedrock use the same bodies with other URLs and signatures. `on_vertex()` and
`on_bedrock()` return the request format. The caller builds the URL, signs the request and sends it.
"""

from __future__ import annotations

from dataclasses import replace

from chat_core.errors import InvalidResponseError
from chat_core.wire.shapes import mapping, parse_body

from chat_claude.decode import StreamDecoder, decode, is_last
from chat_claude.encode import Encoded, encode, encode_count, encode_turns
from chat_claude.errors import error_from_object, find_error
from chat_claude.options import BEDROCK_VERSION, DEFAULT_PROVIDER, VERTEX_VERSION, Dialect

__all__ = [
    "Encoded",
    "StreamDecoder",
    "decode",
    "decode_count",
    "encode",
    "encode_count",
    "encode_turns",
    "is_last",
    "on_bedrock",
    "on_vertex",
]


def on_vertex(model: str, *, provider: str = DEFAULT_PROVIDER) -> Dialect:
    """Return the request format for a model on Vertex AI (`rawPredict` and `streamRawPredict`).

    The request URL contains the model, so the body does not.

    Args:
        model: name of the model on Vertex AI, such as `claude-sonnet-4-5@20250929`.
        provider: provider name in errors, metadata and opaque data.
    """
    return replace(Dialect.of(model, provider=provider), anthropic_version=VERTEX_VERSION, model_in_body=False)


def on_bedrock(model: str, *, provider: str = DEFAULT_PROVIDER) -> Dialect:
    """Return the request format for a model on Bedrock (`InvokeModel`).

    The request URL contains the model and selects streaming, so the body has no such fields.

    Args:
        model: id of the model on Bedrock, such as `us.anthropic.claude-sonnet-4-5-20250929-v1:0`.
        provider: provider name in errors, metadata and opaque data.
    """
    return replace(
        Dialect.of(model, provider=provider),
        anthropic_version=BEDROCK_VERSION,
        model_in_body=False,
        stream_in_body=False,
        betas_in_body=True,
        urls=False,
    )


def decode_count(body: bytes, provider: str, field: str = "input_tokens") -> int:
    """Return the number of input tokens from a response of the token count endpoint.

    Args:
        body: the response body as received.
        provider: name of the provider, for error messages.
        field: name of the field with the number.

    Raises:
        InvalidResponseError: the body is not JSON or has no `input_tokens`.
        ProviderError: the body contains an error object.
    """
    response = parse_body(body, provider)
    if (error_object := find_error(response, "")) is not None:
        raise error_from_object(error_object, provider)
    count = mapping(response).get(field)
    if not isinstance(count, int):
        msg = f"{provider}: `{field}` must be a number, not {count!r}"
        raise InvalidResponseError(msg, path=field, raw=body)
    return count
