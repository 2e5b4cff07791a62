from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
from chat_batches import BatchHandle, BatchMember, BatchResult, BatchResults
from chat_core import Batch, BatchCancelledError, BatchItem, BatchStatus, StreamTruncatedError, Text, Turn

pytestmark = pytest.mark.anyio

HANDLE = BatchHandle("claude", "m", Batch("batch_1", "abc"), (BatchMember("a", 1), BatchMember("b", 1)))


async def iterate(items: Sequence[BatchItem]) -> AsyncIterator[BatchItem]:
    for item in items:
        yield item


def answer(id_: str) -> BatchItem:
    return BatchItem(id_, Turn([Text("Yes.")]))


async def read(status: BatchStatus, *items: BatchItem) -> list[BatchResult]:
    return [result async for result in BatchResults(HANDLE, status, iterate(items))]


async def test_each_result_belongs_to_the_conversation_with_its_id() -> None:
    found = await read(BatchStatus("ended", "completed", 2), answer("abc-1"), answer("abc-0"))
    assert [result.id for result in found] == ["b", "a"]


async def test_the_first_of_two_results_with_one_id_counts() -> None:
    first, second = answer("abc-0"), answer("abc-0")
    found = await read(BatchStatus("ended", "completed", 2), first, second, answer("abc-1"))
    assert found[0].turn is first.turn
    assert len(found) == 2


async def test_a_completed_batch_without_a_result_is_an_error() -> None:
    with pytest.raises(StreamTruncatedError, match="after 1 of 2"):
        await read(BatchStatus("ended", "completed", None), answer("abc-0"))


async def test_a_cancelled_batch_has_errors_for_missing_results() -> None:
    found = await read(BatchStatus("ended", "cancelled", 1), answer("abc-1"))
    assert [(result.id, type(result.error)) for result in found] == [("b", type(None)), ("a", BatchCancelledError)]
