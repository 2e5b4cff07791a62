"""OpenAI's own client and this project's batches, against one server that behaves as OpenAI documents it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from batch_servers import OpenAIServer
from chat_batches import Batches
from chat_core import ChatBuilder, Messages
from chat_openai import OpenAIBuilder, OpenAIProvider
from chat_testing import LoopbackServer
from openai import OpenAI


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def address() -> Iterator[str]:
    with LoopbackServer(OpenAIServer()) as running:
        yield f"http://{running.host}/v1"


@pytest.fixture
def model(address: str, monkeypatch: pytest.MonkeyPatch) -> OpenAIProvider:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    return OpenAIBuilder().with_model("gpt-x").with_api_key("k").build()


@pytest.mark.anyio
async def test_the_official_client_reads_a_batch_that_this_project_has_submitted(
    address: str, model: OpenAIProvider
) -> None:
    batches = Batches(ChatBuilder().with_model(model).build(), model)
    async with model:
        handle = await batches.submit({"a": Messages.from_user("One?"), "b": Messages.from_user("Two?")})

    with OpenAI(base_url=address, api_key="k", max_retries=0) as client:
        assert [batch.id for batch in client.batches.list()] == [handle.id]
        client.batches.retrieve(handle.id)
        batch = client.batches.retrieve(handle.id)
        assert (batch.status, batch.endpoint) == ("completed", "/v1/responses")
        assert batch.metadata == {"chat_batches": handle.batch.name}
        assert batch.output_file_id is not None
        lines = client.files.content(batch.output_file_id).text.splitlines()
    assert sorted(json.loads(line)["custom_id"] for line in lines) == [f"{handle.batch.name}-{i}" for i in range(2)]


def test_the_official_client_submits_a_batch_to_the_server_of_the_tests(address: str) -> None:
    line: dict[str, object] = {
        "custom_id": "a",
        "method": "POST",
        "url": "/v1/responses",
        "body": {"model": "m", "input": "Hi"},
    }
    with OpenAI(base_url=address, api_key="k", max_retries=0) as client:
        file = client.files.create(file=("batch.jsonl", json.dumps(line).encode()), purpose="batch")
        batch = client.batches.create(
            input_file_id=file.id, endpoint="/v1/responses", completion_window="24h", metadata={"name": "n"}
        )
        assert client.batches.cancel(batch.id).status == "cancelling"
