"""Encoder and decoder for the Message Batches API, without I/O.

A batch is submitted in one request and processed within 24 hours. Its results are a file of JSON lines in any order.
The API stores neither a name nor metadata of a batch. The ids of the requests begin with the name of the batch, but the
API returns these ids only with the results.

Source: https://platform.claude.com/docs/en/build-with-claude/batch-processing, and the types of the Anthropic SDK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, final

from chat_core.batches import Batch, BatchItem, BatchRequest, BatchState, BatchStatus, request_id
from chat_core.errors import BatchCancelledError, BatchExpiredError, BatchInDoubtError, ChatError, InvalidResponseError
from chat_core.json import dump_bytes
from chat_core.wire.decoded import Redact
from chat_core.wire.shapes import is_list, mapping, parse_object, whole_numbers

from chat_claude.codec import Encoded, decode
from chat_claude.errors import error_from_object
from chat_claude.options import Dialect

BETAS: Final = "betas"
"""Key in `BatchRequest.data` of the beta features."""
OUTPUT_TOOL: Final = "output_tool"
"""Key in `BatchRequest.data` and `Batch.data` of the tool whose arguments are the structured output."""

PAGE_SIZE: Final = 1000
"""Number of batches in one page of the list, which is the maximum of the API."""

STATES: Final[Mapping[str, BatchState]] = {"in_progress": "running", "canceling": "cancelling", "ended": "ended"}


@final
@dataclass(frozen=True, slots=True)
class ListedBatch:
    """A batch in the list of the API.

    Attributes:
        id: id of the batch.
        created_at: time at which the batch was created.
        requests: number of requests.
        ended: whether the batch has ended.
    """

    id: str
    created_at: datetime
    requests: int
    ended: bool


def batch_request(encoded: Encoded) -> BatchRequest:
    """Return an encoded request as a request of a batch."""
    data: dict[str, str] = {}
    if encoded.betas:
        data[BETAS] = ",".join(encoded.betas)
    if encoded.output_tool is not None:
        data[OUTPUT_TOOL] = encoded.output_tool
    return BatchRequest(encoded.body, data)


def encode_batch(requests: Sequence[BatchRequest], name: str) -> Encoded:
    """Encode the body of a batch. The parameters of each request are the body that `complete()` sends.

    Args:
        requests: the encoded requests.
        name: unique name of the batch.
    """
    pieces: list[bytes] = []
    betas: dict[str, None] = {}
    for index, item in enumerate(requests):
        custom_id = dump_bytes(request_id(name, index))
        pieces.append(b'{"custom_id":' + custom_id + b',"params":' + item.body + b"}")
        betas |= dict.fromkeys([beta for beta in item.data.get(BETAS, "").split(",") if beta])
    return Encoded(b'{"requests":[' + b",".join(pieces) + b"]}", tuple(betas))


def batch_data(requests: Sequence[BatchRequest]) -> dict[str, str]:
    """Return the data that is needed to decode the results of a batch."""
    tools = [item.data[OUTPUT_TOOL] for item in requests if OUTPUT_TOOL in item.data]
    return {OUTPUT_TOOL: tools[0]} if tools else {}


def in_doubt_error(candidates: Sequence[Batch], provider: str) -> BatchInDoubtError:
    """Return the error for a batch that cannot be distinguished from batches that the API still processes.

    Args:
        candidates: the batches that may be the batch in question.
        provider: name of the provider, for the error message.
    """
    msg = (
        f"{provider}: it is unknown whether the batch was submitted, because the API reports the ids of requests only "
        f"when a batch has ended. It may be {' or '.join([batch.id for batch in candidates])}: try again later, or "
        "decide which one it is"
    )
    return BatchInDoubtError(msg, candidates)


def decode_status(body: bytes, provider: str) -> BatchStatus:
    """Return the state of the batch in a response.

    Args:
        body: the response body as received.
        provider: name of the provider, for error messages.

    Raises:
        InvalidResponseError: the response is not a batch, or its state is unknown.
    """
    batch = parse_object(body, provider)
    state = STATES.get(str(batch.get("processing_status")))
    if state is None:
        msg = (
            f"{provider}: the batch has the unknown state {batch.get('processing_status')!r}; a newer version of this "
            "library may support it"
        )
        raise InvalidResponseError(msg, path="processing_status", raw=body)
    counts = whole_numbers(batch.get("request_counts"))
    results = sum(counts.values()) - counts.get("processing", 0)
    if state != "ended":
        return BatchStatus(state, results=results)
    if batch.get("cancel_initiated_at") is not None:
        return BatchStatus(state, "cancelled", results)
    return BatchStatus(state, "expired" if counts.get("expired") else "completed", results)


def decode_list(body: bytes, provider: str) -> tuple[list[ListedBatch], str | None]:
    """Return the batches in a page of the list, most recent first, and the cursor of the next page.

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
    batches = [_parse_list_entry(mapping(item), body, provider) for item in items]
    return batches, batches[-1].id if batches and page.get("has_more") is True else None


def _parse_list_entry(batch: Mapping[str, Any], body: bytes, provider: str) -> ListedBatch:
    try:
        created_at = datetime.fromisoformat(batch["created_at"])
        if created_at.utcoffset() is None:
            created_at = created_at.replace(tzinfo=UTC)
        requests = sum(whole_numbers(batch["request_counts"]).values())
        return ListedBatch(str(batch["id"]), created_at, requests, batch["processing_status"] == "ended")
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{provider}: an entry in the list of batches is not a batch"
        raise InvalidResponseError(msg, path="data", raw=body) from error


def decode_item(line: bytes, redact: Redact, *, batch: Batch, dialect: Dialect) -> BatchItem:
    """Decode a line of the results.

    A line that is not a result becomes an item with an error. Its id is empty if the line contains none.

    Args:
        line: one line of the result file.
        redact: removes the credentials of the request from an error.
        batch: the batch that the line belongs to. Its `data` names the tool for structured output, if there is one.
        dialect: the request format for the model on its platform.
    """
    id_ = ""
    try:
        entry = parse_object(line, dialect.provider)
        custom_id = entry.get("custom_id")
        id_ = custom_id if isinstance(custom_id, str) else ""
        result = mapping(entry.get("result"))
        match result.get("type"):
            case "succeeded":
                message = dump_bytes(result.get("message"))
                output_tool = batch.data.get(OUTPUT_TOOL)
                reasons = dialect.finish_reasons
                return BatchItem(
                    id_, decode(message, dialect.provider, output_tool=output_tool, finish_reasons=reasons)
                )
            case "errored":
                raise error_from_object(result.get("error"), dialect.provider)
            case "canceled":
                msg = f"{dialect.provider}: the batch was cancelled before the request was processed"
                raise BatchCancelledError(msg)
            case "expired":
                msg = f"{dialect.provider}: the batch expired before the request was processed"
                raise BatchExpiredError(msg)
            case kind:
                msg = f"{dialect.provider}: a result of a batch has the unknown type {kind!r}"
                raise InvalidResponseError(msg, path="result.type", raw=line)
    except ChatError as error:
        return BatchItem(id_, error=redact(error, received=line))
