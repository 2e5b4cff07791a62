"""A started conversation ends with its answer, after any kind of wait, and its workflow reports the outcome."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from chat_core import ChatBuilder, Injected, Messages, RequireApproval, RunContext, ScopedCollection, ToolCollection
from chat_core.errors import AuthenticationError, OverloadedError, UsageError
from chat_core.messages import Completed
from chat_core.testing import ScriptedProvider
from chat_dbos import ConversationFailedError, DurableChats, WorkflowTiming, launched
from chat_dbos._run_step import Busy, Failed, Halted
from chat_store import UnknownConversationError
from dbos import DBOS, DBOSClient
from dbos_world import CALL, Shop, running, wait_until

pytestmark = pytest.mark.anyio


async def test_a_workflow_pauses_until_a_decision_and_ends(shop: Shop) -> None:
    async with running(shop, shop.durable()) as durable:
        handle = await durable.start("c", chat="shop")
        await shop.until_waiting()
        await shop.approve()
        assert await durable.decided("c") == 1
        assert (await handle.get_result())["conversation"] == "c"
    assert shop.paid == [5]


async def test_each_run_of_a_workflow_creates_its_injected_values(shop: Shop) -> None:
    owners: list[str | None] = []
    tools = ToolCollection()

    @tools.tool
    async def pay(cents: int, wallet: Injected[dict[str, int]]) -> str:
        wallet["paid"] = cents
        return "paid"

    def wallet(context: RunContext) -> dict[str, int]:
        owners.append(context.owner)
        return {}

    chat = (
        ChatBuilder()
        .with_model(ScriptedProvider(CALL, "Paid.", by_history=True))
        .with_scoped_tools(ScopedCollection(tools, lambda _call, _meta: RequireApproval()))
        .with_values(dict[str, int], wallet)
        .build()
    )
    await shop.store.create(Messages.from_user("Pay."), id="of-carl", owner="carl")
    async with running(shop, shop.durable(chat)) as durable:
        handle = await durable.start("of-carl", chat="shop")
        await wait_until(lambda: _waits(shop))
        async with shop.store.open("of-carl") as conversation:
            conversation.messages.pending()[0].approve(by="ana")
        await durable.decided("of-carl")
        await handle.get_result()

    assert owners == ["carl", "carl"]


async def _waits(shop: Shop) -> bool:
    return any(item.conversation == "of-carl" for item in await shop.store.waiting())


async def test_a_conversation_without_waits_needs_one_run(shop: Shop) -> None:
    async with running(shop, shop.durable(shop.chat("Hello."))) as durable:
        handle = await durable.start("c", chat="shop")
        assert await handle.get_result() == {"conversation": "c", "runs": 1}


async def test_repeated_decided_messages_change_nothing(shop: Shop) -> None:
    async with running(shop, shop.durable()) as durable:
        handle = await durable.start("c", chat="shop")
        await shop.until_waiting()
        for _ in range(3):
            assert await durable.decided("c") == 1
        await shop.approve()
        await durable.decided("c")
        await durable.decided("c")
        await handle.get_result()
        assert await durable.decided("c") == 0
    assert shop.paid == [5]


async def test_starting_a_waiting_conversation_returns_its_running_workflow(shop: Shop) -> None:
    async with running(shop, shop.durable()) as durable:
        first = await durable.start("c", chat="shop")
        await shop.until_waiting()
        await shop.approve()
        second = await durable.start("c", chat="shop")
        assert second.workflow_id == first.workflow_id
        await second.get_result()
    assert shop.paid == [5]


async def test_a_message_after_the_end_starts_a_new_workflow(shop: Shop) -> None:
    async with running(shop, shop.durable(shop.chat("One.", "Two."))) as durable:
        first = await durable.start("c", chat="shop")
        await first.get_result()
        await shop.say("And now?")
        second = await durable.start("c", chat="shop")
        await second.get_result()
        assert first.workflow_id != second.workflow_id
    assert [content.turns[-1].text for content in await shop.messages() if content.role == "model"] == ["One.", "Two."]


async def test_a_conversation_id_that_is_a_prefix_of_another_wakes_nothing(shop: Shop) -> None:
    async with running(shop, shop.durable()) as durable:
        await durable.start("c", chat="shop")
        await shop.until_waiting()
        assert await durable.decided("c/1") == 0
        assert await durable.decided("") == 0


async def test_starting_an_unknown_chat_or_conversation_is_refused(shop: Shop) -> None:
    async with running(shop, shop.durable()) as durable:
        with pytest.raises(UsageError, match="no chat 'shoe'; there are: 'shop'"):
            await durable.start("c", chat="shoe")
        with pytest.raises(UnknownConversationError):
            await durable.start("nobody", chat="shop")
        assert await DBOS.list_workflows_async() == []


async def test_workflows_are_started_on_the_given_queue(shop: Shop) -> None:
    async with running(shop, shop.durable(shop.chat("Hello."), queue="chats")) as durable:
        # A queue is registered after the launch; it is no longer made by a constructor.
        await DBOS.register_queue_async("chats", polling_interval_sec=0.05)
        handle = await durable.start("c", chat="shop")
        await handle.get_result()
        assert (await handle.get_status()).queue_name == "chats"


# --- Failures -------------------------------------------------------------------------------------------------------


async def test_a_retryable_failure_is_retried(shop: Shop) -> None:
    durable = shop.durable(shop.chat(OverloadedError("full"), OverloadedError("full"), "Hello."))
    async with running(shop, durable):
        handle = await durable.start("c", chat="shop")
        assert (await handle.get_result())["runs"] == 3


async def test_a_repeated_failure_is_raised_and_the_conversation_can_be_restarted(
    shop: Shop,
) -> None:
    durable = shop.durable(shop.chat(*[OverloadedError("full")] * 3, "Hello."))
    async with running(shop, durable):
        first = await durable.start("c", chat="shop")
        with pytest.raises(ConversationFailedError, match="OverloadedError: full"):
            await first.get_result()
        client = DBOSClient(system_database_url=shop.url)
        (status,) = await client.list_workflows_async()
        client.destroy()
        assert (status.status, str(status.error)) == ("ERROR", "OverloadedError: full")
        data = {"conversation": "c", "error": "OverloadedError", "message": "full", "failures": 3}
        assert vars(status.error)["data"] == data
        second = await durable.start("c", chat="shop")
        await second.get_result()
        assert second.workflow_id != first.workflow_id


async def test_a_permanent_failure_is_not_retried(shop: Shop) -> None:
    durable = shop.durable(shop.chat(AuthenticationError("who are you?"), "Hello."))
    async with running(shop, durable):
        handle = await durable.start("c", chat="shop")
        with pytest.raises(ConversationFailedError, match="who are you"):
            await handle.get_result()
        status = await handle.get_status()
        assert vars(status.error)["data"]["failures"] == 1


async def test_a_workflow_waits_for_a_decision_about_an_interrupted_call(shop: Shop) -> None:
    async with shop.store.open("c") as conversation:
        await shop.chat().complete(conversation)
        tool = conversation.messages.tool("call_pay")
        tool.approve()
        await conversation.claim()
        tool.start()
        await conversation.write_tool((tool.id,), tool)
        await conversation.release()
    durable = shop.durable(shop.chat(interrupted=False))
    async with running(shop, durable):
        handle = await durable.start("c", chat="shop")
        await shop.until_waiting("interrupted")
        async with shop.store.open("c") as conversation:
            conversation.messages.tool("call_pay").complete("looked up")
        await durable.decided("c")
        await handle.get_result()
    assert shop.paid == []
    assert (await shop.messages()).tool("call_pay").status == Completed("looked up")


async def test_a_workflow_fails_if_its_worker_does_not_know_the_chat(shop: Shop) -> None:
    async with running(shop, shop.durable()) as durable:
        await durable.start("c", chat="shop")
        await shop.until_waiting()
    DBOS.destroy(destroy_registry=True)
    durable = DurableChats(shop.store, {})
    async with running(shop, durable):
        await durable.wake_due()
        assert await durable.decided("c") == 1

        async def failed() -> bool:
            return [item.status for item in await DBOS.list_workflows_async()] == ["ERROR"]

        await wait_until(failed)
        (status,) = await DBOS.list_workflows_async()
        assert str(status.error) == "UsageError: there is no chat 'shop'; there are: none"


# --- Taking over ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["same", "other"])
async def test_a_new_worker_continues_the_workflows_of_another(shop: Shop, version: str) -> None:
    config = shop.config
    config["application_version"] = "same"
    durable = shop.durable()
    async with launched(config):
        first = await durable.start("c", chat="shop")
        await shop.until_waiting()
    await shop.approve()
    config["application_version"], config["executor_id"] = version, "two"
    async with launched(config):
        assert await durable.take_over("nobody") == []
        assert await durable.take_over("one") == ["c"]

        async def ended() -> bool:
            return "SUCCESS" in [item.status for item in await DBOS.list_workflows_async()]

        await wait_until(ended)
        ends = {item.workflow_id: (item.status, item.executor_id) for item in await DBOS.list_workflows_async()}
    assert shop.paid == [5]
    if version == "same":
        assert ends == {first.workflow_id: ("SUCCESS", "two")}
    else:
        assert ends.pop(first.workflow_id) == ("CANCELLED", "one")
        assert list(ends.values()) == [("SUCCESS", "two")]


async def test_a_deleted_conversation_does_not_prevent_a_takeover_of_others(shop: Shop) -> None:
    config = shop.config
    config["application_version"] = "same"
    durable = shop.durable()
    async with shop.store.open("gone") as conversation:
        conversation.messages.user("Pay, too.")

    async def both_wait() -> bool:
        return len(await shop.store.waiting()) == 2

    async with launched(config):
        first = await durable.start("gone", chat="shop")
        await durable.start("c", chat="shop")
        await wait_until(both_wait)
    await shop.approve()
    await shop.store.delete("gone")
    config["application_version"], config["executor_id"] = "other", "two"
    async with launched(config):
        assert sorted(await durable.take_over("one")) == ["c", "gone"]

        async def ended() -> bool:
            return "SUCCESS" in [item.status for item in await DBOS.list_workflows_async()]

        await wait_until(ended)
        ends = {item.workflow_id: item.status for item in await DBOS.list_workflows_async()}
    assert shop.paid == [5]
    assert ends[first.workflow_id] == "CANCELLED"


async def test_a_workflow_waits_until_another_run_releases_the_conversation(shop: Shop) -> None:
    async with running(shop, shop.durable(shop.chat("Hello."))) as durable, shop.store.open("c") as other:
        await other.claim()
        handle = await durable.start("c", chat="shop")

        async def busy() -> bool:
            steps = await DBOS.list_workflow_steps_async(handle.workflow_id)
            return {"kind": "busy"} in [step["output"] for step in steps]

        await wait_until(busy)
        await other.release()
        assert (await handle.get_result())["runs"] > 1


# --- Data stored by DBOS --------------------------------------------------------------------------------------------


async def test_dbos_stores_only_the_conversation_id_and_chat_name(shop: Shop) -> None:
    async with running(shop, shop.durable()) as durable:
        handle = await durable.start("c", chat="shop")
        await shop.until_waiting()
        await shop.approve()
        await durable.decided("c")
        await handle.get_result()
        steps = await DBOS.list_workflow_steps_async(handle.workflow_id)
    runs = [step["output"] for step in steps if step["function_name"] == "run"]
    assert runs[0] == {"kind": "halted", "until": None}
    assert runs[-1] == {"kind": "answered"}
    with closing(sqlite3.connect(shop.folder / "dbos.db")) as connection:
        ((inputs,),) = connection.execute("SELECT inputs FROM workflow_input").fetchall()
    assert json.loads(inputs)["positionalArgs"] == ["c", "shop"]


async def test_a_waiting_workflow_sleeps_longer_than_the_default_of_dbos(shop: Shop) -> None:
    async with running(shop, shop.durable()) as durable:
        handle = await durable.start("c", chat="shop")

        async def waits() -> bool:
            return "DBOS.sleep" in [
                step["function_name"] for step in await DBOS.list_workflow_steps_async(handle.workflow_id)
            ]

        await wait_until(waits)
        steps = await DBOS.list_workflow_steps_async(handle.workflow_id)
        (end,) = [cast("float", step["output"]) for step in steps if step["function_name"] == "DBOS.sleep"]
    # It is when the wait ends, in seconds; a minute would be over long before.
    assert end > time.time() + 1_800


# --- Timing ---------------------------------------------------------------------------------------------------------

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def failed(retry_after: float | None = None) -> Failed:
    return Failed(kind="failed", error="X", message="x", retryable=True, retry_after=retry_after)


def until(seconds: float) -> Halted:
    return Halted(kind="halted", until=(NOW + timedelta(seconds=seconds)).isoformat())


async def test_the_delay_depends_on_the_outcome_of_the_run() -> None:
    timing = WorkflowTiming(first=2, longest=60, busy=7, look_every=3_600)
    assert timing.delay_after(until(100), 0, NOW) == 100
    assert timing.delay_after(until(10**9), 0, NOW) == 3_600
    assert timing.delay_after(until(-10), 0, NOW) == 1
    assert timing.delay_after(Halted(kind="halted", until=None), 0, NOW) == 3_600
    assert timing.delay_after(Busy(kind="busy"), 0, NOW) == 7
    assert [timing.delay_after(failed(), failures, NOW) for failures in (1, 2, 3, 99, 5_000)] == [2, 4, 8, 60, 60]
    assert timing.delay_after(failed(retry_after=90), 1, NOW) == 90


@pytest.mark.parametrize("wrong", [0, -1.0, "1"])
async def test_workflow_timing_must_be_positive_numbers(wrong: float) -> None:
    with pytest.raises(UsageError, match=r"WorkflowTiming\(busy=...\) needs a number above 0"):
        WorkflowTiming(busy=wrong)


async def test_a_chat_that_cannot_pause_is_accepted(shop: Shop) -> None:
    chat = ChatBuilder().with_model(ScriptedProvider("Hello.")).build()
    async with running(shop, shop.durable(chat)) as durable:
        await (await durable.start("c", chat="shop")).get_result()
