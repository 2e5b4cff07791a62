"""`kill -9` at the writes of a durable batch: it is submitted and paid once, and each conversation has one answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from chat_core.messages import Messages
from chat_store import SqliteStore
from chat_testing import Exchange, LoopbackServer

from .batches_worker import IDS
from .processes import Event, Sample, Server

MOST = 8


class Provider:
    """A server of message batches that ends each batch at once, as the documentation of the API describes batches."""

    def __init__(self) -> None:
        self.batches: list[list[dict[str, Any]]] = []

    def __call__(self, exchange: Exchange) -> None:
        path = exchange.path.partition("?")[0].removeprefix("/v1/messages/batches").strip("/")
        if exchange.method == "POST":
            self.batches.append(json.loads(exchange.body)["requests"])
            respond(exchange, self.describe(len(self.batches) - 1))
        elif path.endswith("/results"):
            lines = [json.dumps(answer(request["custom_id"])) for request in self.batches[int(path.split("/")[0])]]
            exchange.answer(200, {}, "\n".join(lines).encode())
        elif path:
            respond(exchange, self.describe(int(path)))
        else:
            respond(exchange, {"data": [self.describe(i) for i in range(len(self.batches))], "has_more": False})

    def describe(self, number: int) -> dict[str, Any]:
        counts = {"succeeded": len(self.batches[number]), "processing": 0}
        created_at = "2999-01-01T00:00:00Z"
        described = {"id": str(number), "processing_status": "ended", "created_at": created_at}
        return {**described, "request_counts": counts}


def respond(exchange: Exchange, value: object) -> None:
    exchange.answer(200, {"content-type": "application/json"}, json.dumps(value).encode())


def answer(id_: str) -> dict[str, Any]:
    content = [{"type": "text", "text": "Yes."}]
    message = {"id": f"msg_{id_}", "content": content, "stop_reason": "end_turn", "usage": {"output_tokens": 1}}
    return {"custom_id": id_, "result": {"type": "succeeded", "message": message}}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("-m", "tests.crash.batches_worker") as server:
        yield server


async def read_answers(path: Path) -> list[list[str]]:
    async with SqliteStore(path) as store:
        messages: list[Messages] = [(await store.load(id_)).messages for id_ in IDS]
    return [[content.text for content in item if content.role == "model"] for item in messages]


def test_a_kill_at_any_write_submits_one_batch_and_answers_each_conversation_once(
    server: Server, tmp_path: Path, sample: Sample, request: pytest.FixtureRequest
) -> None:
    with LoopbackServer(provider := Provider()) as running:
        url = f"http://{running.host}"
        server.order(store=tmp_path / "first.db", url=url)
        steps: Event = server.until("steps")
        assert server.until("gone")["status"] == 0
        assert isinstance(steps["steps"], int)
        kills = [(step, phase) for step in range(1, steps["steps"] + 1) for phase in ("written", "committed")]
        for step, phase in (sampled := sample(kills, MOST)):
            path = tmp_path / f"{step}-{phase}.db"
            provider.batches.clear()
            server.order(store=path, url=url, step=step, phase=phase)
            server.end(server.until("reached"))
            assert len(provider.batches) <= 1
            server.order(store=path, url=url, ahead=60)
            server.until("outcome")
            assert server.until("gone")["status"] == 0
            assert len(provider.batches) == 1, f"{phase} at write {step}"
            assert anyio.run(read_answers, path) == [["Yes."], ["Yes."]], f"{phase} at write {step}"
    request.node.user_properties.append(("kills at writes of a batch", len(sampled)))
