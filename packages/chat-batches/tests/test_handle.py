from __future__ import annotations

import json
from typing import Any

import pytest
from chat_batches import BatchHandle, BatchMember
from chat_batches.handle import request_index
from chat_core import Batch, InvalidDocumentError

HANDLE = BatchHandle("claude", "m", Batch("batch_1", "abc", {"output_tool": "City"}), (BatchMember("chat 1", 2, 1),))


def test_a_handle_is_stored_and_loaded() -> None:
    assert BatchHandle.from_json(HANDLE.to_json()) == HANDLE
    assert BatchHandle.from_json(HANDLE.to_json().encode()).batch.data == {"output_tool": "City"}


def test_the_json_form_of_a_handle_is_stable() -> None:
    stored = (
        '{"version":1,"provider":"claude","model":"m","id":"batch_1","name":"abc","data":{"output_tool":"City"},'
        '"members":[["chat 1",2,1]]}'
    )
    assert HANDLE.to_json() == stored


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"id": 1}, {"data": []}, {"data": {"a": 1}}, {"members": "x"}, {"members": [["a", 1]]}],
    ids=json.dumps,
)
def test_a_wrong_handle_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidDocumentError):
        BatchHandle.from_json(json.dumps({**json.loads(HANDLE.to_json()), **change}))


@pytest.mark.parametrize("text", ["", "[1]", "{"])
def test_text_that_is_not_a_handle_is_refused(text: str) -> None:
    with pytest.raises(InvalidDocumentError):
        BatchHandle.from_json(text)


@pytest.mark.parametrize(
    ("id_", "index"), [("abc-0", 0), ("abc-17", 17), ("abc-01", None), ("abd-1", None), ("abc-", None), ("", None)]
)
def test_only_ids_of_the_batch_have_an_index(id_: str, index: int | None) -> None:
    assert request_index("abc", id_) == index
