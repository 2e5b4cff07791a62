"""Encoder and decoder for the Batch API of OpenAI, without I/O.

The requests of a batch are a file of JSON lines, which is uploaded first. The results are two files: the responses, and
the errors of requests that failed or expired. The name of a batch is part of its metadata.

Source: https://platform.openai.com/docs/guides/batch, and the types of the OpenAI SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias
from uuid import uuid4

from chat_core.batches import BatchItem, BatchOutcome, BatchRequest, BatchState, BatchStatus, request_id
from chat_core.errors import (
    BatchCancelledError,
    BatchExpiredError,
    ChatError,
    InvalidRequestError,
    InvalidResponseError,
    ProviderError,
)
from chat_core.json import dump_bytes
from chat_core.messages import Turn
from chat_core.wire.decoded import Redact
from chat_core.wire.errors import error_from_object
from chat_core.wire.shapes import Json, is_list, is_object, mapping, parse_object, whole_numbers

NAME: Final = "chat_batches"
"""Key of the name in the metadata of a batch."""
WINDOW: Final = "24h"
"""Time within which a batch is processed, the only value that the API supports."""
PAGE_SIZE: Final = 100
"""Number of batches in one page of the list, which is the maximum of the API."""

STATES: Final[Mapping[str, tuple[BatchState, BatchOutcome | None]]] = {
    "validating": ("running", None),
    "in_progress": ("running", None),
    "finalizing": ("running", None),
    "cancelling": ("cancelling", None),
    "completed": ("ended", "completed"),
    "expired": ("ended", "expired"),
    "cancelled": ("ended", "cancelled"),
    "failed": ("ended", "failed"),
}

ResponseError: TypeAlias = Callable[[int, Mapping[str, str], bytes], ProviderError]
"""Function that returns the error for a status, headers and a body."""


def encode_lines(requests: Sequence[BatchRequest], name: str, url: str) -> bytes:
    """Encode the requests as a file of JSON lines. Each request has the same body as in `complete()`.

    Args:
        requests: the encoded requests.
        name: unique name of the batch.
        url: path of the endpoint that handles the requests.
    """
    lines: list[bytes] = []
    for index, item in enumerate(requests):
        head = dump_bytes({"custom_id": request_id(name, index), "method": "POST", "url": url})
        lines.append(head[:-1] + b',"body":' + item.body + b"}\n")
    return b"".join(lines)


def encode_upload(lines: bytes, name: str) -> tuple[bytes, str]:
    """Encode the upload of a file as a form. Return the body and its content type.

    Args:
        lines: content of the file.
        name: unique name of the batch.
    """
    boundary = uuid4().hex
    purpose = f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    file = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}.jsonl"\r\n'
        "Content-Type: application/jsonl\r\n\r\n"
    )
    body = purpose.encode() + file.encode() + lines + f"\r\n--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"


def encode_batch(file_id: str, name: str, url: str) -> bytes:
    """Encode the request that creates a batch.

    Args:
        file_id: id of the uploaded file.
        name: unique name of the batch.
        url: path of the endpoint that handles the requests.
    """
    fields = {"input_file_id": file_id, "endpoint": url, "completion_window": WINDOW, "metadata": {NAME: name}}
    return dump_bytes(fields)


def decode_status(body: bytes, provider: str) -> BatchStatus:
    """Return the state of the batch in a response.

    Args:
        body: the response body as received.
        provider: name of the provider, for error messages.

    Raises:
        InvalidResponseError: the response is not a batch, or its state is unknown.
    """
    batch = parse_object(body, provider)
    state, outcome = STATES.get(str(batch.get("status")), (None, None))
    if state is None:
        msg = (
            f"{provider}: the batch has the unknown state {batch.get('status')!r}; a newer version of this library may "
            "support it"
        )
        raise InvalidResponseError(msg, path="status", raw=body)
    counts = whole_numbers(batch.get("request_counts"))
    results = counts.get("completed", 0)
    if outcome == "completed":
        # Requests that were cancelled or have expired may be counted as failed without a line in the files.
        results += counts.get("failed", 0)
    return BatchStatus(state, outcome, results, _batch_error(batch, provider) if outcome == "failed" else None)


def _batch_error(batch: Json, provider: str) -> InvalidRequestError:
    """Return the error that the server reports for a batch whose file it rejected."""
    entries = mapping(batch.get("errors")).get("data")
    errors = [mapping(entry) for entry in entries] if is_list(entries) else []
    texts = [f"line {entry.get('line')}: {entry.get('message')}" for entry in errors[:3]]
    code = errors[0].get("code") if errors else None
    msg = f"{provider}: the batch was rejected: {'; '.join(texts) or 'the API reports no reason'}"
    return InvalidRequestError(msg, code=code if isinstance(code, str) else None)


def decode_files(body: bytes, provider: str) -> list[str]:
    """Return the ids of the files with the results of an ended batch.

    Args:
        body: the response body as received.
        provider: name of the provider, for error messages.
    """
    batch = parse_object(body, provider)
    ids = [batch.get("output_file_id"), batch.get("error_file_id")]
    return [id_ for id_ in ids if isinstance(id_, str) and id_]


def decode_list(body: bytes, provider: str) -> tuple[list[tuple[str, str | None]], str | None]:
    """Return the id and the name of each batch in a page of the list, and the cursor of the next page.

    Args:
        body: the response body as received.
        provider: name of the provider, for error messages.

    Raises:
        InvalidResponseError: the response is not a list of batches.
    """
    page = parse_object(body, provider)
    items = page.get("data")
    if not is_list(items):
        msg = f"{provider}: `data` of a list of batches must be a list, not {items!r}"
        raise InvalidResponseError(msg, path="data", raw=body)
    batches = [(str(batch.get("id")), mapping(batch.get("metadata")).get(NAME)) for batch in map(mapping, items)]
    return batches, batches[-1][0] if batches and page.get("has_more") is True else None


def decode_item(
    line: bytes, redact: Redact, *, provider: str, decode: Callable[[bytes], Turn], response_error: ResponseError
) -> BatchItem:
    """Decode a line of the results.

    A line that is not a result becomes an item with an error. Its id is empty if the line contains none.

    Args:
        line: one line of the result file.
        redact: removes the credentials of the request from an error.
        provider: name of the provider, for error messages.
        decode: function that decodes the body of a response.
        response_error: function that returns the error for a response whose status is not 200.
    """
    id_ = ""
    try:
        entry = parse_object(line, provider)
        custom_id = entry.get("custom_id")
        id_ = custom_id if isinstance(custom_id, str) else ""
        response: Mapping[str, Any] = mapping(entry.get("response"))
        status, body = response.get("status_code"), dump_bytes(response.get("body"))
        if status == 200:  # noqa: PLR2004 - RFC 9110, section 15.3
            return BatchItem(id_, decode(body))
        if isinstance(status, int):
            raise response_error(status, {}, body)
        raise _line_error(entry.get("error"), provider, line)
    except ChatError as error:
        return BatchItem(id_, error=redact(error, received=line))


def _line_error(reported: object, provider: str, line: bytes) -> ChatError:
    """Return the error of a request without a response."""
    match mapping(reported).get("code"):
        case "batch_expired":
            return BatchExpiredError(f"{provider}: the batch expired before the request was processed")
        case "batch_cancelled":
            return BatchCancelledError(f"{provider}: the batch was cancelled before the request was processed")
        case _ if is_object(reported):
            return error_from_object(reported, provider)
        case _:
            msg = f"{provider}: a result of a batch has neither a response nor an error"
            return InvalidResponseError(msg, raw=line)
