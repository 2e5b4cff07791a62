"""Leases that are due at the same time are renewed in one transaction, and each lease has its own error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import timedelta

import anyio
import pytest
from anyio.lowlevel import checkpoint
from chat_core.clock import utc_now
from chat_core.concurrency import finish_in_thread
from chat_core.errors import ChatError, LeaseLostError
from chat_store import MemoryStore, SqliteStore
from chat_store._backend import WriteTransaction
from chat_store._base_store import BaseStore
from chat_store._shared_renewals import MAX_LEASES, SharedRenewals
from chat_store.memory import MemoryBackend
from chat_store.sqlite import SqliteBackend
from chat_store.testing._fixtures import Clock

pytestmark = pytest.mark.anyio


class Leases:
    """Leases that are renewed in a thread. A renewal can wait, and the row of a lease can be locked."""

    def __init__(self) -> None:
        self.transactions: list[list[str]] = []
        self.locked = ""
        self.lost = ""
        self.may_end = threading.Event()
        self.may_end.set()
        self.in_use: set[str] = set()

    async def renew(self, names: Sequence[str]) -> list[ChatError | None]:
        def work() -> list[ChatError | None]:
            self.transactions.append(sorted(names))
            self.in_use.update(names)
            self.may_end.wait(60)
            self.in_use.difference_update(names)
            if self.locked in names:
                raise TimeoutError(self.locked)
            return [LeaseLostError(name) if name == self.lost else None for name in names]

        return await finish_in_thread(work)

    async def until_in_use(self, name: str) -> None:
        while name not in self.in_use:
            await checkpoint()


async def renew_all(renewals: SharedRenewals[str], *names: str) -> dict[str, Exception]:
    """Renew leases while another renewal is in progress, and return the errors."""
    errors: dict[str, Exception] = {}

    async def renew(name: str) -> None:
        try:
            await renewals.renew(name)
        except (ChatError, OSError) as error:
            errors[name] = error

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(renew, name)
    return errors


async def test_renewals_that_are_requested_together_share_a_transaction() -> None:
    leases = Leases()
    with anyio.fail_after(20):
        assert await renew_all(SharedRenewals(leases.renew), "a", "b", "c") == {}
    assert leases.transactions == [["a", "b", "c"]]


async def test_renewals_that_are_requested_during_a_transaction_share_the_next_one() -> None:
    leases = Leases()
    renewals = SharedRenewals(leases.renew)
    leases.may_end.clear()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(renewals.renew, "a")
            await leases.until_in_use("a")
            group.start_soon(renew_all, renewals, "b", "c")
            await anyio.wait_all_tasks_blocked()
            leases.may_end.set()
    assert leases.transactions == [["a"], ["b", "c"]]


async def test_a_lost_lease_is_an_error_of_its_own_renewal_only() -> None:
    leases = Leases()
    leases.lost = "b"
    with anyio.fail_after(20):
        errors = await renew_all(SharedRenewals(leases.renew), "a", "b", "c")
    assert [*errors] == ["b"]
    assert isinstance(errors["b"], LeaseLostError)


async def test_a_locked_row_does_not_prevent_the_other_renewals_of_its_transaction() -> None:
    leases = Leases()
    leases.locked = "b"
    with anyio.fail_after(20):
        errors = await renew_all(SharedRenewals(leases.renew), "a", "b", "c")
    assert [*errors] == ["b"]
    assert isinstance(errors["b"], TimeoutError)
    assert sorted(leases.transactions[1:]) == [["a"], ["b"], ["c"]]


async def test_a_cancelled_task_waits_for_the_transaction_that_uses_its_lease() -> None:
    leases = Leases()
    renewals = SharedRenewals(leases.renew)
    leases.may_end.clear()
    in_use_after: list[set[str]] = []

    async def renew(name: str) -> None:
        try:
            await renewals.renew(name)
        finally:
            in_use_after.append(leases.in_use & {name})

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(renew, "a")
            group.start_soon(renew, "b")
            await leases.until_in_use("b")
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
            leases.may_end.set()
    assert in_use_after == [set(), set()]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_asyncio_cancels_waits_for_the_transaction_that_uses_its_lease() -> None:
    leases = Leases()
    renewals = SharedRenewals(leases.renew)
    leases.may_end.clear()
    with anyio.fail_after(20):
        tasks = [asyncio.create_task(renewals.renew(name)) for name in ("a", "b")]
        await leases.until_in_use("b")
        tasks[1].cancel()
        await anyio.wait_all_tasks_blocked()
        assert not tasks[1].done()
        leases.may_end.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(item) for item in found] == [type(None), asyncio.CancelledError]
    assert leases.transactions == [["a", "b"]]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_next_transaction_does_not_use_the_lease_of_a_cancelled_task() -> None:
    leases = Leases()
    renewals = SharedRenewals(leases.renew)
    leases.may_end.clear()
    with anyio.fail_after(20):
        tasks = [asyncio.create_task(renewals.renew(name)) for name in ("a", "b", "c")]
        await leases.until_in_use("c")
        tasks[1].cancel()
        tasks[2].cancel()
        await anyio.wait_all_tasks_blocked()
        tasks.append(asyncio.create_task(renewals.renew("d")))
        await anyio.wait_all_tasks_blocked()
        tasks[0].cancel()
        await anyio.wait_all_tasks_blocked()
        leases.may_end.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(item) for item in found] == [*[asyncio.CancelledError] * 3, type(None)]
    assert leases.transactions == [["a", "b", "c"], ["d"]]


async def test_many_renewals_are_divided_into_several_transactions() -> None:
    leases = Leases()
    with anyio.fail_after(20):
        assert await renew_all(SharedRenewals(leases.renew), *map(str, range(2 * MAX_LEASES + 1))) == {}
    assert [len(names) for names in leases.transactions] == [MAX_LEASES, MAX_LEASES, 1]


async def test_event_loops_do_not_wait_for_the_transactions_of_each_other() -> None:
    leases = Leases()
    renewals = SharedRenewals(leases.renew)
    leases.may_end.clear()
    other = threading.Thread(target=anyio.run, args=(renewals.renew, "a"))
    with anyio.fail_after(20):
        other.start()
        await leases.until_in_use("a")
        async with anyio.create_task_group() as group:
            group.start_soon(renewals.renew, "b")
            await leases.until_in_use("b")
            leases.may_end.set()
        await anyio.to_thread.run_sync(other.join)
    assert leases.transactions == [["a"], ["b"]]


# --- Conversations ---------------------------------------------------------------------------------------------------


class Counting(MemoryBackend):
    """A database that records which conversations each transaction for leases contains."""

    def __init__(self) -> None:
        super().__init__()
        self.renewed: list[list[str]] = []

    @contextmanager
    def lease_transaction(self, *, is_shared: bool) -> Generator[Callable[[str], WriteTransaction]]:
        names: list[str] = []
        with super().lease_transaction(is_shared=is_shared) as transaction:

            def part(id: str) -> WriteTransaction:
                names.append(id)
                return transaction(id)

            yield part
        self.renewed.append(names)


async def test_leases_of_conversations_are_renewed_in_one_transaction() -> None:
    backend = Counting()
    store = BaseStore(backend, 30, utc_now)
    async with AsyncExitStack() as stack:
        runs = [await stack.enter_async_context(store.open(name)) for name in ("c", "a", "b")]
        for run in runs:
            await run.claim()
        async with anyio.create_task_group() as group:
            for run in runs:
                group.start_soon(run.renew)
    assert backend.renewed == [["a", "b", "c"]]


@pytest.mark.parametrize("database", ["memory", "sqlite"])
async def test_a_run_that_lost_its_lease_does_not_prevent_other_renewals(database: str, tmp_path: object) -> None:
    clock, path = Clock(), f"{tmp_path}/chats.db"
    store = MemoryStore(now=clock) if database == "memory" else SqliteStore(path, now=clock)
    lost: list[str] = []
    async with store, AsyncExitStack() as stack:
        runs = {name: await stack.enter_async_context(store.open(name)) for name in ("a", "b", "c")}
        for run in runs.values():
            await run.claim()
        clock.time += timedelta(seconds=31)
        other = await stack.enter_async_context(store.open("b"))
        await other.claim()

        async def renew(name: str) -> None:
            try:
                await runs[name].renew()
            except LeaseLostError:
                lost.append(name)

        async with anyio.create_task_group() as group:
            for name in runs:
                group.start_soon(renew, name)
        assert [name for name in ("a", "b", "c") if (await store.load(name)).running] == ["a", "b", "c"]
    assert lost == ["b"]


async def test_the_renewal_of_a_lease_does_not_wake_subscribers(tmp_path: object) -> None:
    woken: list[int] = []

    class Backend(SqliteBackend):
        def __init__(self) -> None:
            super().__init__(f"{tmp_path}/chats.db", 10.0, 3600)
            vars(self)["_poller"].notify = lambda: woken.append(1)

    async with BaseStore(Backend(), 30, utc_now) as store, store.open("a") as run:
        await run.claim()
        woken.clear()
        await run.renew()
        assert woken == []
