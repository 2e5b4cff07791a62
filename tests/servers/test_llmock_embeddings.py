"""Embeddings from llmock."""

from __future__ import annotations

import pytest
from chat_core import ChatBuilder
from chat_transport_httpx import HttpxTransport

from .asking import AT_ONCE
from .peers import Llmock

pytestmark = pytest.mark.anyio


async def test_embeddings_are_requested_in_batches(llmock: Llmock, transport: HttpxTransport) -> None:
    model = llmock.model(transport).with_embeddings(max_batch=2).build()
    texts = ["tea", "coffee", "tea", "milk", "water"]

    found = await ChatBuilder().with_model(model).with_embeddings().build().embed(texts)

    assert [len(vector) for vector in found.vectors] == [1536] * 5
    assert found.vectors[0] == found.vectors[2]
    assert found.vectors[0] != found.vectors[1]
    assert found.usage.input_tokens > 0
    assert [request["body"]["input"] for request in llmock.requests()] == [texts[:2], texts[2:4], texts[4:]]


async def test_only_a_failed_embeddings_batch_is_retried(llmock: Llmock, transport: HttpxTransport) -> None:
    model = llmock.model(transport).with_embeddings(max_batch=1).build()
    chat = ChatBuilder().with_model(model).with_embeddings().with_retry(AT_ONCE).build()
    llmock.order({"type": "fail", "status": 502}, {"type": "fail", "status": 500})

    found = await chat.embed(["a", "b"])

    assert len(found.vectors) == 2
    assert [(request["status"], request["body"]["input"]) for request in llmock.requests()] == [
        (502, ["a"]),
        (500, ["a"]),
        (200, ["a"]),
        (200, ["b"]),
    ]
