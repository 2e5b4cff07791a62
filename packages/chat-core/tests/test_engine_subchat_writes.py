"""Inner chats of stored conversations: writes before effects, crashes, and decisions while they run."""

from __future__ import annotations

from collections import Counter

import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    Reject,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    ToolContext,
)
from chat_core.errors import (
    InterruptedToolsError,
    LeaseLostError,
    ServerError,
)
from chat_core.events import NestedEvent, ToolResult
from chat_core.messages import Approved, Completed, Running, Suspended
from chat_core.testing import Answer, MemoryConversation, ScriptedProvider
from chat_core.testing.memory_conversation import Call
from inner_office import Office

pytestmark = pytest.mark.anyio


# --- Writes before the effects of inner calls ------------------------------------------------------------------------


class Firm:
    """Three nested chats. The clerk makes parallel calls, one of which needs approval.

    Attributes:
        effects: effect and idempotency key of each body that ran.
        crash_in: the call in whose body the process dies, for the first time.
        crashed: what is stored, and the effects, at that time.
    """

    def __init__(self, crash_in: str = "") -> None:
        self.effects: list[tuple[str, str]] = []
        self.crash_in = crash_in
        self.crashed: tuple[Messages, list[tuple[str, str]]] | None = None
        self.conversation = MemoryConversation()
        tools = ToolCollection(bool)

        @tools.tool(True)
        async def pay(to: str, context: ToolContext) -> str:
            return self._act(f"pay {to}", context)

        @tools.tool(False)
        async def ship(item: str, context: ToolContext) -> str:
            return self._act(f"ship {item}", context)

        self.scope: ScopedCollection[bool, Paused] = ScopedCollection(
            tools, lambda call, asks: RequireApproval() if asks else Execute()
        )

    def _act(self, effect: str, context: ToolContext) -> str:
        if effect == self.crash_in and self.crashed is None:
            self.crashed = self.conversation.resting(), [*self.effects]
        self.effects.append((effect, context.idempotency_key))
        return f"{effect} done"

    def chat(self) -> StreamingChat[ChatResponse, Paused]:
        names = ("ana", "bo")
        clerk = ScriptedProvider(
            [FunctionCall("ship", {"item": name}, id=f"ship_{name}") for name in names]
            + [FunctionCall("pay", {"to": name}, id=f"pay_{name}") for name in names],
            "The clerk is done.",
            by_history=True,
        )
        builder = ChatBuilder().with_model(clerk).with_scoped_tools(self.scope)
        chat = builder.with_interrupted(RequireApproval()).build()
        for level, count in (("office", 2), ("desk", 1)):
            calls = [FunctionCall(f"ask_{level}", {"request": str(n)}, id=f"{level}_{n}") for n in range(count)]
            model = ScriptedProvider(calls, f"The {level} is done.", by_history=True)
            asks = chat.as_tool(name=f"ask_{level}", description="Asks.")
            chat = ChatBuilder().with_model(model).with_scoped_tools(asks).build()
        return chat

    async def crash(self, messages: Messages) -> Messages:
        """Run until the process dies, and return the state stored then. Later effects are discarded."""
        self.conversation = MemoryConversation(messages)
        await self.chat().complete(self.conversation)
        assert self.crashed is not None
        stored, self.effects = self.crashed
        return stored


async def test_an_interrupted_inner_call_is_reported_by_its_path_after_a_crash() -> None:
    first, firm = Firm("ship bo"), Firm()
    stored = await first.crash(Messages.from_user("go"))
    assert isinstance(stored.tool("desk_0").status, Running)
    end = await firm.chat().complete(MemoryConversation(stored))
    assert isinstance(end, Paused)
    kinds = {wait.path: wait.kind for wait in end.waiting}
    assert kinds["desk_0", "office_0", "ship_bo"] == "interrupted"
    assert all(len(path) == 3 for path in kinds)
    assert not {key for _, key in first.effects} & {key for _, key in firm.effects}


async def test_inner_calls_run_once_and_keep_their_approvals_after_a_crash() -> None:
    for crash_in in ("ship ana", "ship bo", "pay ana", "pay bo"):
        first, firm = Firm(crash_in), Firm()
        messages = Messages.from_user("go")
        if crash_in.startswith("pay"):
            assert isinstance(await first.chat().complete(messages), Paused)
            for wait_path in [("desk_0", f"office_{n}", f"pay_{name}") for n in (0, 1) for name in ("ana", "bo")]:
                messages.tool(*wait_path).approve(by="dora")
        stored = await first.crash(messages)
        for _ in range(4):
            end = await firm.chat().complete(MemoryConversation(stored))
            if isinstance(end, ChatResponse):
                break
            for wait in end.waiting:
                tool = stored.tool(*wait.path)
                if wait.kind == "approval":
                    assert not crash_in.startswith("pay")
                    tool.approve()
                elif tool.idempotency_key in [key for _, key in first.effects]:
                    tool.complete("looked up")
                else:
                    tool.retry()
        assert stored.pending() == []
        effects = first.effects + firm.effects
        assert Counter(name for name, _ in effects) == dict.fromkeys(["ship ana", "ship bo", "pay ana", "pay bo"], 2)
        assert len({key for _, key in effects}) == len(effects)


async def test_an_inner_chat_whose_process_died_in_a_model_call_resumes() -> None:
    messages = Messages.from_user("pay")
    office = Office()
    await office.chat(3, 5).complete(messages)
    messages.tool("ask_2", "ask_1", "pay_5").approve()
    stored: list[Messages] = []

    def see(call: Call) -> None:
        if str(call) in ("write_tool pay_5 Completed", "write_tool ask_1 Completed"):
            stored.append(conversation.resting())

    conversation = MemoryConversation(messages, on_call=see)
    await office.chat(3, 5).complete(conversation)
    before, after = stored
    assert isinstance(before.tool("ask_2", "ask_1").status, Running)
    with pytest.raises(InterruptedToolsError) as caught:
        await office.chat(3, 5).complete(before)
    assert caught.value.tool_ids == ("ask_2/ask_1/pay_5",)
    assert isinstance(await office.chat(3, 5).complete(after), ChatResponse)
    assert office.paid == [5]


async def test_an_inner_conversation_is_stored_before_its_first_request() -> None:
    conversation = MemoryConversation(Messages.from_user("go"))
    seen: list[str] = []

    async def look() -> None:
        inner = conversation.resting().tool("a").inner
        assert inner is not None
        seen.append(inner.contents[0].turns[0].text)

    inner = ChatBuilder().with_model(ScriptedProvider(Answer(("Fine.",), before=look))).build()
    model = ScriptedProvider([FunctionCall("ask", {"request": "please"}, id="a")], "done")
    outer = ChatBuilder().with_model(model).with_scoped_tools(inner.as_tool(name="ask", description="Asks.")).build()
    await outer.complete(conversation)
    assert seen == ["please"]


async def test_a_failed_write_of_an_inner_call_ends_the_run() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    await office.chat(3, 5).complete(messages)
    messages.tool("ask_2", "ask_1", "pay_5").approve()

    def fail(call: Call) -> None:
        if str(call) == "write_tool pay_5 Completed":
            raise OSError("disk full")

    conversation = MemoryConversation(messages, on_call=fail)
    with pytest.raises(OSError, match="disk full"):
        await office.chat(3, 5).complete(conversation)
    assert isinstance(messages.tool("ask_2").status, Running)
    conversation.on_call = None
    assert isinstance(await office.chat(3, 5).complete(conversation), ChatResponse)
    assert office.paid == [5]


async def test_a_lease_lost_in_an_inner_chat_ends_the_run() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    await office.chat(2, 5).complete(messages)
    messages.tool("ask_1", "pay_5").approve()

    def overtake(call: Call) -> None:
        if str(call) == "write_tool pay_5 Running":
            conversation.overtake()

    conversation = MemoryConversation(messages, on_call=overtake)
    with pytest.raises(LeaseLostError):
        await office.chat(2, 5).complete(conversation)
    assert office.paid == []
    assert [str(call) for call in conversation.late] == ["write_tool pay_5 Running"]


async def test_inner_chats_whose_calls_all_wait_are_not_started_and_not_written() -> None:
    firm = Firm()
    conversation = MemoryConversation(Messages.from_user("go"))
    assert isinstance(await firm.chat().complete(conversation), Paused)
    conversation.calls.clear()
    end = await firm.chat().complete(conversation)
    assert isinstance(end, Paused)
    assert len(end.waiting) == 4
    assert conversation.operations == ["claim", "release"]
    conversation.messages.tool("desk_0", "office_0", "pay_bo").approve()
    conversation.calls.clear()
    async with firm.chat().stream(conversation) as stream:
        nested = {event.path async for event in stream if isinstance(event, NestedEvent)}
    assert nested == {("desk_0",), ("desk_0", "office_0")}
    assert not any("office_1" in operation for operation in conversation.operations)


async def test_a_waiting_inner_call_is_rejected_if_the_policy_now_rejects_it() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    await office.chat(2, 5, 6).complete(messages)
    office.asks = ScopedCollection(
        office.tools, lambda call, meta: Reject("too much") if call.arguments["cents"] == 6 else RequireApproval()
    )
    async with office.chat(2, 5, 6).stream(messages) as stream:
        events = [event async for event in stream]
    assert isinstance(events[-1], Paused)
    assert [wait.path for wait in events[-1].waiting] == [("ask_1", "pay_5")]
    told = [event for event in events if isinstance(event, NestedEvent) and isinstance(event.event, ToolResult)]
    assert [(event.path, event.event.tool.id) for event in told if isinstance(event.event, ToolResult)] == [
        (("ask_1",), "pay_6")
    ]


async def test_an_inner_chat_continues_after_the_policy_rejects_its_last_waiting_call() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    await office.chat(2, 5).complete(messages)
    office.asks = ScopedCollection(office.tools, lambda call, meta: Reject("too much"))
    assert isinstance(await office.chat(2, 5).complete(messages), ChatResponse)
    assert messages.tool("ask_1").status == Completed("The clerk has paid.")


async def test_an_inner_call_approved_while_a_sibling_runs_is_executed_in_the_same_run() -> None:
    firm = Firm()
    messages = Messages.from_user("go")
    await firm.chat().complete(messages)
    messages.tool("desk_0", "office_0", "pay_ana").approve()

    def approve(call: Call) -> None:
        if str(call) == "write_tool pay_ana Completed" and not isinstance(
            messages.tool("desk_0", "office_1", "pay_bo").status, Approved
        ):
            messages.tool("desk_0", "office_1", "pay_bo").approve()

    conversation = MemoryConversation(messages, on_call=approve)
    end = await firm.chat().complete(conversation)
    assert isinstance(end, Paused)
    assert [wait.path[1:] for wait in end.waiting] == [("office_0", "pay_bo"), ("office_1", "pay_ana")]
    assert [name for name, _ in firm.effects][-2:] == ["pay ana", "pay bo"]


async def test_an_inner_chat_interrupted_in_an_earlier_version_resumes_after_retry() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    await office.chat(2, 5).complete(messages)
    messages.tool("ask_1").start()
    messages = Messages.from_json(messages.to_json().replace(',"write_ahead":true', ""))
    outer = messages.tool("ask_1")
    assert isinstance(outer.status, Running)
    assert not outer.status.write_ahead
    with pytest.raises(InterruptedToolsError) as caught:
        await office.chat(2, 5).complete(messages)
    assert caught.value.tool_ids == ("ask_1",)
    outer.retry(by="dora")
    assert isinstance(outer.status, Suspended)
    messages = Messages.from_json(messages.to_json())
    messages.tool("ask_1", "pay_5").approve()
    assert isinstance(await office.chat(2, 5).complete(messages), ChatResponse)
    assert office.paid == [5]


async def test_a_stored_response_of_an_inner_chat_is_used_without_a_request() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    await office.chat(2, 5).complete(messages)
    messages.tool("ask_1", "pay_5").approve()
    stored: list[Messages] = []

    def see(call: Call) -> None:
        if str(call) == "write_tool ask_1 Completed":
            stored.append(conversation.resting())

    conversation = MemoryConversation(messages, on_call=see)
    await office.chat(2, 5).complete(conversation)
    silent = ChatBuilder().with_model(ScriptedProvider()).with_scoped_tools(office.asks).build()
    model = ScriptedProvider("Done.")
    asks = silent.as_tool(name="ask", description="Asks.")
    assert (await ChatBuilder().with_model(model).with_scoped_tools(asks).build().complete(stored[0])) is not None
    assert stored[0].tool("ask_1").status == Completed("The clerk has paid.")


async def test_the_result_of_a_failed_inner_chat_lists_the_calls_that_ran() -> None:
    paid: list[int] = []
    tools = ToolCollection()

    @tools.tool
    def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    clerk = ScriptedProvider(FunctionCall("pay", {"cents": 5}, id="p"), ServerError("503"))
    inner = ChatBuilder().with_model(clerk).with_retry(0).with_tools(tools).build()
    office = ScriptedProvider(FunctionCall("clerk", {"request": "Pay."}, id="c"), "Done.")
    asks = inner.as_tool(name="clerk", description="Pays.")
    messages = Messages.from_user("Pay.")

    await ChatBuilder().with_model(office).with_scoped_tools(asks).build().complete(messages)

    assert paid == [5]
    assert '- pay({"cents":5}): paid' in messages.tool("c").result_text()


async def test_waits_of_an_inner_chat_have_the_id_and_owner_of_the_conversation() -> None:
    office = Office()
    conversation = MemoryConversation(Messages.from_user("pay"), id="chat-7", owner="ana")
    paused = await office.chat(2, 5).complete(conversation)
    again = await office.chat(2, 5).complete(conversation)
    for pause in (paused, again):
        assert isinstance(pause, Paused)
        assert [(wait.path, wait.conversation, wait.owner) for wait in pause.waiting] == [
            (("ask_1", "pay_5"), "chat-7", "ana")
        ]
