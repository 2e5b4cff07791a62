"""Encoder and decoder for batches of the Gemini API, without I/O.

A small batch contains its requests, and its responses are part of its description. The requests of a large batch are an
uploaded file of JSON lines, and so are its responses. The name of a batch is its display name.

Source: https://ai.google.dev/gemini-api/docs/batch-api, and the batches and files of the Google Gen AI SDK.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, final

from chat_core.batches import Batch, BatchItem, BatchOutcome, BatchRequest, BatchState, BatchStatus, request_id
from chat_core.errors import ChatError, InvalidResponseError
from chat_core.json import dump_bytes
from chat_core.wire.decoded import Redact
from chat_core.wire.shapes import is_list, is_object, mapping, parse_object

from chat_gemini.decode import decode
from chat_gemini.errors import error_from_object, find_error

MAX_INLINE_BYTES: Final = 15_000_000
"""Size from which the requests are uploaded as a file, because the API accepts requests of up to 20 MB."""
PAGE_SIZE: Final = 100
"""Number of batches in one page of the list."""
FILE_TYPE: Final = "application/jsonl"

STATES: Final[Mapping[str, tuple[BatchState, BatchOutcome | None]]] = {
    "UNSPECIFIED": ("running", None),
    "QUEUED": ("running", None),
    "PENDING": ("running", None),
    "RUNNING": ("running", None),
    "PAUSED": ("running", None),
    "UPDATING": ("running", None),
    "CANCELLING": ("cancelling", None),
    "SUCCEEDED": ("ended", "completed"),
    "PARTIALLY_SUCCEEDED": ("ended", "completed"),
    "CANCELLED": ("ended", "cancelled"),
    "EXPIRED": ("ended", "expired"),
    "FAILED": ("ended", "failed"),
}
"""Batch states by the end of the API's state name, which begins with `BATCH_STATE_` or `JOB_STATE_`."""


OUTPUT_TOOL: Final = "output_tool"
"""Key of the name of the tool for structured output in the data of a request and of a batch."""


def batch_data(requests: Sequence[BatchRequest]) -> dict[str, str]:
    """Return the data that is needed to decode the results of a batch.

    Args:
        requests: the encoded requests, which have the same output tool, if any.
    """
    tools = [item.data[OUTPUT_TOOL] for item in requests if OUTPUT_TOOL in item.data]
    return {OUTPUT_TOOL: tools[0]} if tools else {}


def encode_inline(requests: Sequence[BatchRequest], name: str) -> bytes | None:
    """Encode a batch that contains its requests, or return `None` if they are too large.

    Each request has the same body as in `complete()`.

    Args:
        requests: the encoded requests.
        name: unique name of the batch.
    """
    if sum([len(item.body) for item in requests]) > MAX_INLINE_BYTES:
        return None
    entries = [
        b'{"request":' + item.body + b',"metadata":' + dump_bytes({"key": request_id(name, index)}) + b"}"
        for index, item in enumerate(requests)
    ]
    head = dump_bytes({"displayName": name})[:-1] + b',"inputConfig":{"requests":{"requests":['
    return b'{"batch":' + head + b",".join(entries) + b"]}}}}"


def encode_lines(requests: Sequence[BatchRequest], name: str) -> bytes:
    """Encode the requests as a file of JSON lines. Each request has the same body as in `complete()`.

    Args:
        requests: the encoded requests.
        name: unique name of the batch.
    """
    lines = [
        b'{"key":' + dump_bytes(request_id(name, index)) + b',"request":' + item.body + b"}\n"
        for index, item in enumerate(requests)
    ]
    return b"".join(lines)


def encode_file_batch(file: str, name: str) -> bytes:
    """Encode a batch whose requests are in a file.

    Args:
        file: name of the uploaded file.
        name: unique name of the batch.
    """
    return dump_bytes({"batch": {"displayName": name, "inputConfig": {"fileName": file}}})


def decode_name(body: bytes, provider: str) -> str:
    """Return the name of the batch or of the file in a response.

    Args:
        body: the response body as received.
        provider: name of the provider, for error messages.

    Raises:
        InvalidResponseError: the response has no name.
        ProviderError: the response contains an error.
    """
    response = parse_object(body, provider)
    name = mapping(response.get("file", response)).get("name")
    if isinstance(name, str) and name:
        return name
    if (reported := find_error(response)) is not None:
        raise error_from_object(reported, provider)
    msg = f"{provider}: `name` must be a string, not {name!r}"
    raise InvalidResponseError(msg, path="name", raw=body)


def decode_status(body: bytes, provider: str) -> BatchStatus:
    """Return the state of the batch in a response.

    Args:
        body: the response body as received.
        provider: name of the provider, for error messages.

    Raises:
        InvalidResponseError: the response is not a batch, or its state is unknown.
    """
    operation = parse_object(body, provider)
    described = mapping(operation.get("metadata", operation))
    name = described.get("state")
    state, outcome = STATES.get(str(name).partition("STATE_")[2], (None, None))
    if state is None:
        msg = f"{provider}: the batch has the unknown state {name!r}; a newer version of this library may support it"
        raise InvalidResponseError(msg, path="metadata.state", raw=body)
    if outcome != "failed":
        return BatchStatus(state, outcome)
    return BatchStatus(state, outcome, 0, error_from_object(operation, provider))


def decode_list(body: bytes, provider: str) -> tuple[Sequence[tuple[str, object]], str]:
    """Return the name and the display name of each batch in a page of the list, and the token of the next page.

    The token of the last page is empty.

    Args:
        body: the response body as received.
        provider: name of the provider, for error messages.
    """
    page = parse_object(body, provider)
    items = page.get("operations")
    operations = [mapping(item) for item in items] if is_list(items) else []
    batches = [(str(item.get("name")), mapping(item.get("metadata", item)).get("displayName")) for item in operations]
    token = page.get("nextPageToken")
    return batches, token if isinstance(token, str) else ""


def decode_output(body: bytes, batch: Batch, provider: str) -> str | list[BatchItem]:
    """Return the name of the file with the results of an ended batch, or the results in its description.

    Args:
        body: body of the response that describes the batch.
        batch: the ended batch. Its name is part of the request ids. Its `data` names the tool for structured output, if
            there is one.
        provider: name of the provider, for error messages.
    """
    operation = parse_object(body, provider)
    output = mapping(mapping(operation.get("metadata")).get("output")) or mapping(operation.get("response"))
    file = output.get("responsesFile")
    if isinstance(file, str) and file:
        return file
    entries = mapping(output.get("inlinedResponses")).get("inlinedResponses")
    # The responses are in the order of the requests, and servers omit the metadata of some responses.
    return [
        _decode_entry(mapping(entry), request_id(batch.name, index), batch, provider)
        for index, entry in enumerate(entries if is_list(entries) else [])
    ]


def decode_item(line: bytes, redact: Redact, *, batch: Batch, provider: str) -> BatchItem:
    """Decode a line of the results.

    A line that is not a result becomes an item with an error. Its id is empty if the line contains none.

    Args:
        line: one line of the result file.
        redact: removes the credentials of the request from an error.
        batch: the batch that the line belongs to. Its `data` names the tool for structured output, if there is one.
        provider: name of the provider, for error messages.
    """
    try:
        item = _decode_entry(parse_object(line, provider), "", batch, provider)
    except ChatError as error:
        item = BatchItem("", error=error)
    if item.error is not None:
        redact(item.error, received=line)
    return item


def _decode_entry(entry: Mapping[str, Any], default_id: str, batch: Batch, provider: str) -> BatchItem:
    key = mapping(entry.get("metadata")).get("key", entry.get("key"))
    id_ = key if isinstance(key, str) and key else default_id
    try:
        if is_object(entry.get("response")):
            response = dump_bytes(entry["response"])
            return BatchItem(id_, decode(response, provider, output_tool=batch.data.get(OUTPUT_TOOL)))
        if (reported := find_error(dict(entry))) is not None:
            raise error_from_object(reported, provider)
        msg = f"{provider}: a result of a batch has neither a response nor an error"
        raise InvalidResponseError(msg, raw=dump_bytes(dict(entry)))
    except ChatError as error:
        return BatchItem(id_, error=error)


@final
class InlineItems:
    """Asynchronous iterator over results that were received with the description of the batch.

    Args:
        items: the results.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Sequence[BatchItem]) -> None:
        self._items = iter(items)

    def __aiter__(self) -> AsyncIterator[BatchItem]:
        return self

    async def __anext__(self) -> BatchItem:
        """Return the next result."""
        for item in self._items:
            return item
        raise StopAsyncIteration
