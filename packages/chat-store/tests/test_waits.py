"""Due times after runs that could not finish a conversation: workers neither retry in a loop nor forget it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from anyio import CancelScope, sleep_forever
from chat_core import (
    Action,
    ChatBuilder,
    ChatResponse,
    Delivery,
    FunctionCall,
    Messages,
    Paused,
    PolicyError,
    Recalled,
    RecalledNote,
    RequireApproval,
    Rewind,
    Schedule,
    ScopedCollection,
    StreamingChat,
    Text,
    ToolCollection,
    Turn,
)
from chat_core.errors import InterruptedToolsError, InvalidResponseError, ProviderError
from chat_core.testing import Answer, ScriptedProvider
from chat_store import MemoryStore
from chat_store._waits import LONGEST_REDELIVERY_DELAY, SHORTEST_REDELIVERY_DELAY
from chat_store.testing._fixtures import Clock

pytestmark = pytest.mark.anyio


class Office:
    """A store, and chats whose model calls `pay`, which needs approval, and then `post`, which is scheduled."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(now=self.clock)
        self.noon = self.clock.after(hours=3)
        self.behind = timedelta()
        self.broken = False
        self.posted = 0

    def policy(self, call: FunctionCall, _meta: None) -> Action[Paused]:
        if call.name == "post":
            return Schedule(self.noon)
        if self.broken:
            msg = "the list of limits"
            raise LookupError(msg)
        return RequireApproval(expires_in=timedelta(days=2))

    def chat(self) -> StreamingChat[ChatResponse, Paused]:
        tools = ToolCollection()

        @tools.tool
        async def pay() -> str:
            return "paid"

        @tools.tool(sequential=True)
        async def post() -> str:
            self.posted += 1
            return "posted"

        calls = [FunctionCall("pay", {}, id="pay"), FunctionCall("post", {}, id="post")]
        model = ScriptedProvider(calls, "Done.", by_history=True)
        builder = ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, self.policy))
        return builder.with_clock(lambda: self.clock() - self.behind).build()

    async def work(self) -> int:
        """Run every conversation that is due, as a worker does, and return the number of runs."""
        found = await self.store.due()
        for item in found:
            async with self.store.open(item.conversation) as conversation:
                await self.chat().complete(conversation)
        return len(found)


async def test_a_scheduled_sequential_call_behind_a_waiting_call_is_not_due_at_its_time() -> None:
    office = Office()
    name = await office.store.create(Messages.from_user("Pay and post."))
    assert [await office.work(), await office.work()] == [1, 0]

    office.clock.time = office.noon
    assert await office.work() <= 1
    assert await office.work() == 0
    office.clock.advance(hours=1)
    assert await office.work() == 0

    async with office.store.open(name) as person:
        person.messages.tool("pay").approve()
    assert [await office.work(), await office.work()] == [1, 0]
    assert office.posted == 1


async def test_a_call_behind_a_waiting_call_is_due_when_the_approval_of_that_call_expires() -> None:
    office = Office()
    await office.store.create(Messages.from_user("Pay and post."))
    await office.work()
    office.clock.time = office.noon
    await office.work()
    office.clock.advance(days=2)
    assert [await office.work(), await office.work()] == [1, 0]
    assert office.posted == 1


async def test_a_deadline_is_due_once_if_the_clock_of_a_run_is_behind_that_of_the_store() -> None:
    office = Office()
    await office.store.create(Messages.from_user("Pay and post."))
    office.behind = timedelta(hours=1)
    assert [await office.work(), await office.work()] == [1, 0]

    office.clock.time = office.noon
    assert await office.work() == 0
    office.clock.advance(hours=1)
    assert [await office.work(), await office.work()] == [1, 0]

    office.clock.advance(days=2)
    assert [await office.work(), await office.work()] == [1, 0]
    assert office.posted == 1


async def test_a_time_that_passed_during_a_policy_error_is_not_due_again() -> None:
    office = Office()
    await office.store.create(Messages.from_user("Pay and post."))
    await office.work()
    office.clock.time, office.broken = office.noon, True
    with pytest.raises(PolicyError):
        await office.work()
    assert await office.store.due() == []
    office.clock.advance(days=2)
    assert len(await office.store.due()) == 1


@pytest.mark.parametrize(("decided", "broken"), [("pay", "audit"), ("pay", "pay")])
async def test_a_decision_made_during_a_run_with_a_policy_error_is_used(decided: str, broken: str) -> None:
    store, ran, breaks = MemoryStore(now=Clock()), list[str](), set[str]()
    tools = ToolCollection()

    @tools.tool
    async def pay() -> str:
        ran.append("pay")
        return "paid"

    @tools.tool
    async def audit() -> str:
        ran.append("audit")
        return "audited"

    @tools.tool
    async def wait() -> str:
        async with store.open(name) as person:
            person.messages.tool(decided).approve()
        return "waited"

    def policy(call: FunctionCall, _meta: None) -> Action[Paused]:
        if call.name in breaks:
            msg = "the list of limits"
            raise LookupError(msg)
        return RequireApproval()

    calls = [FunctionCall(tool, {}, id=tool) for tool in ("pay", "audit", "wait")]
    model = ScriptedProvider(calls, "Done.", by_history=True)
    chat = ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, policy)).build()
    name = await store.create(Messages.from_user("Pay and audit."))
    async with store.open(name) as conversation:
        assert isinstance(await chat.complete(conversation), Paused)
    breaks.add(broken)
    async with store.open(name) as person:
        person.messages.tool("wait").approve()
    async with store.open(name) as conversation:
        if broken == decided:
            assert isinstance(await chat.complete(conversation), Paused)
        else:
            with pytest.raises(PolicyError):
                await chat.complete(conversation)
    assert ran == [decided]
    assert await store.due() == []


async def test_a_time_that_passes_behind_an_interrupted_call_is_not_due_again() -> None:
    office = Office()
    name = await office.store.create(Messages.from_user("Pay and post."))
    await office.work()
    async with office.store.open(name) as run:
        run.messages.tool("pay").approve()
        await run.claim()
        run.messages.tool("pay").start()
        await run.write_tool(("pay",), run.messages.tool("pay"))
        office.clock.time = office.noon
        with pytest.raises(InterruptedToolsError):
            await office.work()
        assert await office.store.due() == []


async def test_a_scheduled_time_that_arrives_during_a_run_makes_the_conversation_due() -> None:
    office = Office()

    def slow_policy(call: FunctionCall, _meta: None) -> Action[Paused]:
        if call.name == "pay":
            office.clock.time = office.noon
        return office.policy(call, _meta)

    tools = ToolCollection()

    @tools.tool
    async def post() -> str:
        return "posted"

    @tools.tool
    async def pay() -> str:
        return "paid"

    calls = [FunctionCall("post", {}, id="post"), FunctionCall("pay", {}, id="pay")]
    builder = ChatBuilder().with_model(ScriptedProvider(calls, "Done.", by_history=True))
    chat = builder.with_scoped_tools(ScopedCollection(tools, slow_policy)).with_clock(office.clock).build()
    name = await office.store.create(Messages.from_user("Post and pay."))
    async with office.store.open(name) as conversation:
        assert isinstance(await chat.complete(conversation), Paused)
    assert len(await office.store.due()) == 1


class Billing:
    """Chats that bill each answer, and the keys of the bills."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(now=self.clock)
        self.keys: list[str] = []
        self.error: BaseException | None = OSError("the billing service is down")

    def bill(self, _messages: Messages, delivery: Delivery) -> None:
        self.keys.append(delivery.key)
        if self.error is not None:
            raise self.error

    def chat(self, *, bills: bool = True) -> StreamingChat[ChatResponse]:
        builder = ChatBuilder().with_model(ScriptedProvider("Hello.", "Bye.", by_history=True)).with_clock(self.clock)
        return builder.with_after(self.bill).build() if bills else builder.build()

    async def run(self, name: str, *, bills: bool = True) -> None:
        async with self.store.open(name) as conversation:
            await self.chat(bills=bills).complete(conversation)

    async def due(self) -> list[tuple[str, datetime]]:
        return [(item.conversation, item.since) for item in await self.store.due()]


async def test_an_answer_is_due_until_its_failing_hook_succeeds() -> None:
    billing = Billing()
    name = await billing.store.create(Messages.from_user("hi"))
    with pytest.raises(OSError, match="billing"):
        await billing.run(name)
    assert await billing.due() == []
    billing.clock.advance(seconds=1)
    assert [found for found, _ in await billing.due()] == [name]

    billing.error = None
    await billing.run(name)
    billing.clock.advance(days=1)
    assert await billing.due() == []
    assert len(billing.keys) == 2
    assert len(set(billing.keys)) == 1


async def test_the_hooks_of_an_answer_before_a_summary_are_retried_until_they_succeed() -> None:
    billing = Billing()
    billing.error = None
    name = await billing.store.create(Messages.from_user("hi"))
    await billing.run(name)
    async with billing.store.open(name) as conversation:
        conversation.messages.user("bye")
    billing.error = OSError("the billing service is down")
    with pytest.raises(OSError, match="billing"):
        await billing.run(name)
    async with billing.store.open(name) as conversation:
        conversation.messages.summarize("A greeting.", 2)
        await conversation.claim()
    billing.clock.advance(days=1)
    assert [found for found, _ in await billing.due()] == [name]

    billing.error = None
    await billing.run(name)
    await billing.run(name)
    billing.clock.advance(days=1)
    assert await billing.due() == []
    _, second, again = billing.keys
    assert second == again


async def test_a_conversation_is_due_if_its_run_dies_after_a_rewind() -> None:
    billing = Billing()
    billing.error = None
    name = await billing.store.create(Messages.from_user("hi"))
    await billing.run(name)
    async with billing.store.open(name) as conversation:
        conversation.messages.rewind(1)
        await conversation.claim()
        await conversation.renew()
        billing.clock.advance(days=1)
        assert [found for found, _ in await billing.due()] == [name]


async def test_an_answer_whose_run_was_cancelled_in_a_hook_is_due() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    name = await store.create(Messages.from_user("hi"))
    with CancelScope() as scope:

        async def bill(_messages: Messages, _delivery: Delivery) -> None:
            scope.cancel()
            await sleep_forever()

        chat = ChatBuilder().with_model(ScriptedProvider("Hello.")).with_after(bill).build()
        async with store.open(name) as conversation:
            await chat.complete(conversation)
    clock.advance(seconds=1)
    assert [item.conversation for item in await store.due()] == [name]


async def test_a_failing_hook_is_retried_with_increasing_delays() -> None:
    billing = Billing()
    name = await billing.store.create(Messages.from_user("hi"))
    assert timedelta(seconds=1) == SHORTEST_REDELIVERY_DELAY
    assert timedelta(hours=1) == LONGEST_REDELIVERY_DELAY
    for seconds in (1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600):
        with pytest.raises(OSError, match="billing"):
            await billing.run(name)
        billing.clock.advance(seconds=seconds, microseconds=-1)
        assert await billing.due() == []
        billing.clock.advance(microseconds=1)
        assert [found for found, _ in await billing.due()] == [name]


async def test_a_chat_without_hooks_leaves_the_delivery_to_a_chat_with_hooks() -> None:
    billing = Billing()
    name = await billing.store.create(Messages.from_user("hi"))
    with pytest.raises(OSError, match="billing"):
        await billing.run(name)
    await billing.run(name, bills=False)
    billing.clock.advance(days=1)
    assert await billing.due() == []
    billing.error = None
    await billing.run(name)
    await billing.run(name)
    assert len(billing.keys) == 2


async def test_an_answer_without_hooks_is_not_due() -> None:
    billing = Billing()
    name = await billing.store.create(Messages.from_user("hi"))
    await billing.run(name, bills=False)
    billing.clock.advance(days=1)
    assert await billing.due() == []
    assert billing.keys == []


async def test_an_answer_that_cannot_be_decoded_is_not_due() -> None:
    billing = Billing()
    name = await billing.store.create(Messages.from_user("hi"))
    model = ScriptedProvider(*["no JSON"] * 9, by_history=True)
    builder = ChatBuilder().with_model(model).with_clock(billing.clock).with_structured_output(dict[str, int])
    chat = builder.with_after(billing.bill).build()
    for _ in range(2):
        async with billing.store.open(name) as conversation:
            with pytest.raises(InvalidResponseError):
                await chat.complete(conversation)
        billing.clock.advance(days=1)
        assert await billing.due() == []
    assert billing.keys == []


async def test_a_conversation_with_an_undelivered_answer_is_due_after_a_new_turn() -> None:
    billing = Billing()
    name = await billing.store.create(Messages.from_user("hi"))
    with pytest.raises(OSError, match="billing"):
        await billing.run(name)
    async with billing.store.open(name) as conversation:
        conversation.messages.user("And now?")
    assert [found for found, _ in await billing.due()] == [name]


async def test_an_interrupted_call_is_listed_with_the_approver_who_must_decide() -> None:
    tools = ToolCollection()

    @tools.tool
    async def pay() -> str:
        return "paid"

    reserved = ScopedCollection(tools, lambda _call, _meta: RequireApproval(of="cfo"))
    builder = ChatBuilder().with_model(ScriptedProvider(FunctionCall("pay", {}, id="pay"), by_history=True))
    chat = builder.with_scoped_tools(reserved).with_interrupted(RequireApproval()).build()
    store = MemoryStore()
    name = await store.create(Messages.from_user("Pay."))
    async with store.open(name) as conversation:
        await chat.complete(conversation)
    async with store.open(name) as conversation:
        tool = conversation.messages.tool("pay")
        tool.approve(by="cfo")
        tool.start()
        tool.lost("the process is gone")
        paused = await chat.complete(conversation)
    assert isinstance(paused, Paused)
    waits = [paused.waiting[0], (await store.waiting())[0].wait]
    assert [(wait.kind, wait.of) for wait in waits] == [("interrupted", "cfo")] * 2


async def test_a_run_cancelled_during_a_correction_is_due() -> None:
    store = MemoryStore(now=Clock())
    name = await store.create(Messages.from_user("hi"))
    with CancelScope() as scope:

        async def stop() -> None:
            scope.cancel()
            await sleep_forever()

        model = ScriptedProvider("no JSON", Answer(['{"n": 1}'], before=stop))
        chat = ChatBuilder().with_model(model).with_structured_output(dict[str, int]).build()
        async with store.open(name) as conversation:
            await chat.complete(conversation)
    assert (await store.load(name)).messages[-1].turns[-1].by == "engine"
    assert [item.conversation for item in await store.due()] == [name]


@pytest.mark.parametrize(("part", "is_due"), [(Text("noted"), False), (Rewind(0), True)])
async def test_a_conversation_that_ends_in_an_engine_turn_is_due_only_after_a_rewind(
    part: Text | Rewind, is_due: bool
) -> None:
    store = MemoryStore(now=Clock())
    name = await store.create(Messages.from_user("hi"))
    model = ScriptedProvider(ProviderError("down"))
    with pytest.raises(ProviderError):
        async with store.open(name) as conversation:
            await ChatBuilder().with_model(model).with_retry(0).build().complete(conversation)
    assert await store.due() == []
    async with store.open(name) as conversation:
        conversation.messages.append("user", Turn([part], by="engine"))
    assert bool(await store.due()) is is_due


class Clerk:
    """A store, and a chat whose tool `look` the application calls directly, between runs of its model."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(now=self.clock)
        self.keys: list[str] = []
        self.errors: list[Exception] = []

    def deliver(self, _messages: Messages, delivery: Delivery) -> None:
        self.keys.append(delivery.key)
        if self.errors:
            raise self.errors.pop()

    def chat(self) -> StreamingChat[ChatResponse]:
        tools = ToolCollection()

        @tools.tool
        async def look() -> str:
            return "all is well"

        model = ScriptedProvider("One.", "Two.", "Three.", by_history=True)
        return ChatBuilder().with_model(model).with_tools(tools).with_after(self.deliver).build()

    async def run(self, name: str) -> None:
        async with self.store.open(name) as conversation:
            await self.chat().complete(conversation)

    async def look(self, name: str) -> None:
        async with self.store.open(name) as conversation:
            await self.chat().call("look", {}, conversation, id="look")

    async def due(self) -> list[str]:
        self.clock.advance(days=1)
        return [item.conversation for item in await self.store.due()]


async def test_a_direct_call_leaves_an_unanswered_turn_due() -> None:
    clerk = Clerk()
    name = await clerk.store.create(Messages.from_user("hi"))
    await clerk.look(name)
    assert await clerk.due() == [name]
    await clerk.run(name)
    assert await clerk.due() == []


async def test_a_direct_call_leaves_posted_turns_to_the_next_run() -> None:
    clerk = Clerk()
    name = await clerk.store.create(Messages.from_user("hi"))
    await clerk.run(name)
    await clerk.store.post(name, Turn([Text("And now?")]), key="1")
    await clerk.look(name)
    assert list((await clerk.store.load(name)).posted) == ["1"]
    assert await clerk.due() == [name]
    await clerk.run(name)
    assert await clerk.due() == []
    assert not (await clerk.store.load(name)).posted


async def test_a_direct_call_after_an_answer_makes_nothing_due() -> None:
    clerk = Clerk()
    name = await clerk.store.create(Messages.from_user("hi"))
    await clerk.run(name)
    await clerk.look(name)
    assert await clerk.due() == []
    assert len(clerk.keys) == 1


async def test_a_direct_call_first_delivers_the_pending_answer() -> None:
    clerk = Clerk()
    name = await clerk.store.create(Messages.from_user("hi"))
    clerk.errors = [OSError("down"), OSError("down")]
    for step in (clerk.run, clerk.look):
        with pytest.raises(OSError, match="down"):
            await step(name)
        assert await clerk.due() == [name]
    await clerk.look(name)
    assert await clerk.due() == []
    messages = (await clerk.store.load(name)).messages
    assert [turn.delivered for content in messages for turn in content.turns] == [None, True, None]
    assert len(clerk.keys) == 3
    assert len(set(clerk.keys)) == 1


async def test_memory_notes_do_not_change_whether_a_conversation_is_due() -> None:
    billing = Billing()
    billing.error = None
    notes = Turn([Recalled((RecalledNote("Ana drinks tea."),))], by="engine")
    question = Messages.from_user("What do I drink?")
    question.append("user", notes)
    asked = await billing.store.create(question)
    answered = await billing.store.create(Messages.from_user("hi"))
    await billing.run(answered)
    async with billing.store.open(answered) as conversation:
        conversation.messages.append("user", Turn(notes.parts, by="engine"))
        await conversation.claim()

    assert [name for name, _ in await billing.due()] == [asked]
