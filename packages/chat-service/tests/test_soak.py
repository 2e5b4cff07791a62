"""Conversations with faults, one round after another: nothing is lost, and nothing that they used is kept.

A round is played until its connections and tasks have ended. Then the open descriptors and the objects of the process
are counted, and compared with the counts after the first rounds. In CI there are some rounds, and with
`CHAT_THOROUGH=1` ten minutes of them.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import anyio.lowlevel
import pytest
from chat_agents import AgentConfig, AgentEngine
from chat_core import Messages, OverloadedError, Retry
from chat_core.approvals import owner_may_decide
from chat_core.messages import Turn
from chat_core.provider import ProviderMeta
from chat_core.testing import Answer, ScriptedProvider
from chat_service import Service, ServiceSettings
from chat_store import SqliteStore
from service_helpers import CALL, TOKENS, WAIT, Bank, Client, Event, approve, names, scripted, serving, text_of

pytestmark = pytest.mark.anyio
SECONDS: Final = 600 if os.environ.get("CHAT_THOROUGH") else 60 if os.environ.get("CI") else 0
"""Least duration after the warm-up, which ends with the round that is then in progress."""
ROUNDS: Final = 6
"""Least number of rounds after the warm-up, also on a slow machine."""
WARM_UP: Final = 3
"""Rounds in which caches, threads and connections are created."""
SAME: Final = 3
"""Conversations of each kind in a round."""
COUNTED: Final = ("chat_", "starlette.", "uvicorn.")
MORE_DESCRIPTORS, MORE_OBJECTS, MORE_BYTES = 12, SAME * ROUNDS // 2, 200_000
"""Allowed differences after any number of conversations. For objects, the difference of each class.

The database keeps a descriptor for each connection that was ever in use at the same time. An object that one kind of
conversation loses each time exceeds its number within the rounds of CI.
"""
LONG: Final = " ".join(["word" * 500] * 300)
"""A response that does not fit into the buffers of a connection."""


def script(kind: str) -> ScriptedProvider:
    """Return a model that answers the messages of one kind. It is not kept, because it records each request."""
    scripts: Mapping[str, list[Any]] = {
        "plain": ["It is well."],
        "drop": ["One moment please, I think about it."],
        "pay": [["I will pay.", CALL], "It is paid."],
        "overload": [OverloadedError("there is too much to do")],
        "truncate": [Answer(["One moment please, I think."], fail_after=3)],
        "cancel": [Answer(["Never."], before=anyio.sleep_forever)],
        "slow": [LONG],
    }
    return scripted(*scripts[kind])


class FaultyModel:
    """A model that answers, fails or waits as the first word of the last message determines."""

    metadata = ProviderMeta("faulty", "m")

    async def complete(self, *_arguments: Any) -> Turn:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, messages: Messages, *arguments: Any) -> AsyncGenerator[Any]:
        last = [content for content in messages.contents if content.role == "user"][-1]
        async with script(last.turns[-1].text.split()[0]).stream(messages, *arguments) as stream:
            yield stream


class Soak:
    """Clients that hold conversations, and check what they and the store have received."""

    def __init__(self, client: Client, store: SqliteStore, bank: Bank) -> None:
        self._client = client
        self._store = store
        self._bank = bank
        self._random = random.Random(15)
        self.kinds: Mapping[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "drop": self.drop_connections,
            "pay": self.approve_a_call,
            "overload": lambda: self.fail_and_go_on("overload", "llm_error"),
            "truncate": lambda: self.fail_and_go_on("truncate", "stream_error"),
            "cancel": self.cancel,
            "slow": self.read_slowly,
        }
        self.conversations = 0

    async def play_round(self) -> None:
        paid = len(self._bank.paid)
        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as group:
                for play in self._random.sample([*self.kinds.values()] * SAME, len(self.kinds) * SAME):
                    group.start_soon(play)
        self.conversations += len(self.kinds) * SAME
        assert len(self._bank.paid) == paid + SAME
        self._bank.paid.clear()

    async def drop_connections(self) -> None:
        """Leave after some events, again and again, and continue after the last event."""
        body: object = {"message": "drop"}
        method, path, place, found = "POST", "/api/v1/chat/stream", "", list[Event]()
        while not found or found[-1].name != "done":
            async with self._client.stream(method, path, body, headers={"last-event-id": place}) as events:
                wanted = self._random.randint(1, 3)
                async for event in events:
                    found.append(event)
                    wanted -= 1
                    if not wanted:
                        break
            path, method, body = f"/api/v1/runs/{found[0].data['run_id']}/events", "GET", None
            place = next((event.id for event in reversed(found) if event.id), "")
        assert text_of(found) == await self._stored_text(found[0]) == "One moment please, I think about it."

    async def approve_a_call(self) -> None:
        found = await self._send("pay")
        session = found[0].data["session_id"]
        assert found[-1].name == "paused"
        decided = await self._client.post(f"/api/v1/sessions/{session}/decisions", approve(found[-1].data["waiting"]))
        assert decided.status == 202, decided.body
        while found[-1].name != "done":
            path = f"/api/v1/runs/{found[0].data['run_id']}/events"
            found += await self._client.events("GET", path, headers={"last-event-id": found[-1].id or ""})
        assert [name for name in names(found) if name.startswith("tool_")] == ["tool_start", "tool_output", "tool_end"]
        assert text_of(found) == await self._stored_text(found[0]) == "I will pay.It is paid."

    async def fail_and_go_on(self, kind: str, code: str) -> None:
        found = await self._send(kind)
        assert (found[-1].name, found[-1].data["code"]) == ("error", code)
        found = await self._send("plain", session_id=found[0].data["session_id"])
        assert found[-1].name == "done"
        assert text_of(found) == await self._stored_text(found[0]) == "It is well."

    async def cancel(self) -> None:
        async with self._client.stream("POST", "/api/v1/chat/stream", {"message": "cancel"}) as events:
            begun = await anext(events)
            cancelled = await self._client.post(f"/api/v1/runs/{begun.data['run_id']}/cancel")
            assert cancelled.status == 200, cancelled.body
            rest = [event async for event in events]
        assert (names(rest), rest[-1].data["code"]) == (["error"], "cancelled")
        path = f"/api/v1/sessions/{begun.data['session_id']}"
        while (reply := await self._client.request("DELETE", path)).status != 204:
            assert reply.status == 409, reply.body  # the worker has not stopped yet

    async def read_slowly(self) -> None:
        """Read nothing before the run has ended."""
        async with self._client.stream("POST", "/api/v1/chat/stream", {"message": "slow"}) as events:
            begun = await anext(events)
            run = f"/api/v1/runs/{begun.data['run_id']}"
            assert (await self._client.events("GET", f"{run}/events"))[-1].name == "done"
            rest = [event async for event in events]
        assert rest[-1].name == "done"
        assert text_of(rest) == await self._stored_text(begun) == LONG

    async def _send(self, message: str, **fields: object) -> list[Event]:
        return await self._client.events("POST", "/api/v1/chat/stream", {"message": message, **fields})

    async def _stored_text(self, begun: Event) -> str:
        messages = (await self._store.load(begun.data["session_id"])).messages
        return "".join([content.text for content in messages if content.role == "model"])


class Counts(NamedTuple):
    """What the process uses: open descriptors, objects by their class, and the size of all objects in bytes.

    Only classes of this project and of the server are counted, because the event loop keeps expired timers for a while.
    """

    descriptors: int
    objects: Counter[str]
    size: int

    @classmethod
    def now(cls) -> Counts:
        gc.collect()
        objects = gc.get_objects()
        names = [f"{type(item).__module__}.{type(item).__qualname__}" for item in objects]
        counted = Counter([name for name in names if name.startswith(COUNTED)])
        return cls(len(list(Path("/proc/self/fd").iterdir())), counted, sum(map(sys.getsizeof, objects)))


async def settle(tasks: int) -> None:
    """Wait until there are no more tasks than before, because the server closes connections after the client."""
    with anyio.fail_after(WAIT):
        while len(asyncio.all_tasks()) > tasks:
            await anyio.lowlevel.checkpoint()


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
async def test_a_long_time_with_faults_loses_nothing_and_keeps_nothing(
    tmp_path: Path, record_property: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulthandler.dump_traceback_later(SECONDS + 300, exit=True)  # pytest allows 300 seconds
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)  # pytest would keep all records
    bank = Bank()
    model: Any = FaultyModel()
    engine = AgentEngine(model, AgentConfig(retry=Retry(0)))
    settings = ServiceSettings(workers=4, requests_per_minute=0, address_requests_per_minute=0)
    async with SqliteStore(str(tmp_path / "sessions.db")) as store:
        service = Service(
            engine, bank.flow(), store, authenticate=TOKENS, may_decide=owner_may_decide, settings=settings
        )
        async with serving(service) as client:
            soak = Soak(client, store, bank)
            assert (await client.request("GET", "/health/ready")).status == 200  # its tasks have started
            await anyio.wait_all_tasks_blocked()
            tasks = len(asyncio.all_tasks())
            for _ in range(WARM_UP):
                await soak.play_round()
                await settle(tasks)
            before, played = Counts.now(), -soak.conversations
            begun_at, rounds = anyio.current_time(), 0
            while rounds < ROUNDS or anyio.current_time() < begun_at + SECONDS:
                await soak.play_round()
                await settle(tasks)
                rounds += 1
            seconds = anyio.current_time() - begun_at
            after, played = Counts.now(), played + soak.conversations
    record_property("conversations and seconds of the soak", (played, round(seconds)))
    record_property("descriptors and bytes before the soak", (before.descriptors, before.size))
    record_property("descriptors and bytes after the soak", (after.descriptors, after.size))
    assert after.descriptors - before.descriptors <= MORE_DESCRIPTORS
    assert {name: more for name, more in (after.objects - before.objects).items() if more > MORE_OBJECTS} == {}
    assert after.size - before.size <= MORE_BYTES
