"""Calls and decisions of the application, without a model."""

from __future__ import annotations

from datetime import timedelta

import pytest
from chat_core import (
    Action,
    ChatBuilder,
    ChatOptions,
    Completed,
    Execute,
    Failed,
    FunctionCall,
    Injected,
    Instructions,
    InterruptedToolsError,
    InvalidResponseError,
    Messages,
    Paused,
    Pending,
    PendingToolsError,
    Reject,
    Rejected,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    Tool,
    ToolCollection,
    Turn,
    UsageError,
)
from chat_core.chat import Chat
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_core.testing.memory_conversation import Call

pytestmark = pytest.mark.anyio


class Bank:
    """Tools of a bank: payments above 100 need an approval, above 1,000 they are rejected."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.tools = ToolCollection()
        self.tools.tool(self.pay)

    async def pay(self, amount: int) -> str:
        """Pay an amount."""
        if amount == 13:
            msg = "no luck"
            raise ValueError(msg)
        self.paid.append(amount)
        return f"paid {amount}"

    def policy(self, call: FunctionCall, _meta: None) -> Action[Paused]:
        amount = call.arguments["amount"]
        assert isinstance(amount, int)
        if amount > 1000:
            return Reject("too much")
        return RequireApproval(expires_in=timedelta(hours=1)) if amount > 100 else Execute()

    def chat(self, *answers: str | FunctionCall) -> StreamingChat[object, Paused]:
        scope = ScopedCollection(self.tools, self.policy)
        return ChatBuilder().with_model(ScriptedProvider(*answers)).with_scoped_tools(scope).build()


async def test_a_direct_call_runs_without_a_model_and_is_added_to_the_history() -> None:
    bank, messages = Bank(), Messages()
    chat = bank.chat()

    tool = await chat.call("pay", {"amount": 5}, messages)

    assert isinstance(tool, Tool)
    assert isinstance(tool.status, Completed)
    assert tool.status.result == "paid 5"
    assert messages.tool(tool.id) is tool
    assert messages.contents[-1].role == "model"
    assert messages.contents[-1].turns[-1].by == "application"
    assert Messages.from_json(messages.to_json()) == messages


async def test_a_direct_call_of_a_chat_without_policies_returns_a_tool() -> None:
    bank = Bank()
    chat = ChatBuilder().with_model(ScriptedProvider()).with_tools(bank.tools).build()

    tool: Tool = await chat.call("pay", {"amount": 5_000}, Messages())

    assert isinstance(tool.status, Completed)
    assert chat.blocking.call("pay", {"amount": 6}, Messages()).resolved
    assert bank.paid == [5_000, 6]


async def test_failed_and_rejected_direct_calls_return_the_tool() -> None:
    chat = Bank().chat()

    failed = await chat.call("pay", {"amount": 13}, Messages())
    rejected = await chat.call("pay", {"amount": 5_000}, Messages())

    assert isinstance(failed, Tool)
    assert isinstance(rejected, Tool)
    assert isinstance(failed.status, Failed)
    assert isinstance(rejected.status, Rejected)


async def test_a_paused_direct_call_is_resumed_by_its_id_and_runs_once() -> None:
    bank, messages = Bank(), Messages()
    chat = bank.chat()

    paused = await chat.call("pay", {"amount": 500}, messages, id="order-7")
    again = await chat.call("pay", {"amount": 500}, messages, id="order-7")
    messages.tool("order-7").approve(by="ana")
    tool = await chat.call("pay", {"amount": 500}, messages, id="order-7")
    repeated = await chat.call("pay", {"amount": 500}, messages, id="order-7")

    assert isinstance(paused, Paused)
    assert isinstance(again, Paused)
    assert paused.waiting == again.waiting
    assert [wait.tool_id for wait in paused.waiting] == ["order-7"]
    assert repeated is tool
    assert bank.paid == [500]


async def test_the_policy_decides_about_edited_arguments_of_a_direct_call() -> None:
    bank, messages = Bank(), Messages()
    chat = bank.chat()
    await chat.call("pay", {"amount": 500}, messages, id="p")

    messages.tool("p").approve(arguments={"amount": 5_000})
    tool = await chat.call("pay", {"amount": 500}, messages, id="p")

    assert isinstance(tool, Tool)
    assert isinstance(tool.status, Rejected)
    assert bank.paid == []


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("fly", {}, "this chat has no tool 'fly': its tools are pay"),
        ("pay", {"amount": "much"}, r"the arguments of pay\(\) are invalid: "),
        ("pay", {"amount": 6}, "the id 'a' belongs to a call of pay"),
    ],
)
async def test_an_invalid_direct_call_raises_usage_error_and_changes_nothing(
    name: str, arguments: dict[str, object], message: str
) -> None:
    bank, messages = Bank(), Messages()
    chat = bank.chat()
    await chat.call("pay", {"amount": 5}, messages, id="a")
    before = messages.to_json()

    with pytest.raises(UsageError, match=message):
        await chat.call(name, arguments, messages, id="a" if arguments == {"amount": 6} else "")

    assert messages.to_json() == before


async def test_a_direct_call_is_refused_while_other_calls_are_unresolved() -> None:
    bank, messages = Bank(), Messages()
    chat = bank.chat()
    await chat.call("pay", {"amount": 500}, messages, id="first")

    with pytest.raises(PendingToolsError, match="first"):
        await chat.call("pay", {"amount": 5}, messages)

    assert bank.paid == []


async def test_a_direct_call_is_stored_before_its_tool_starts() -> None:
    bank = Bank()
    chat = bank.chat()
    conversation = MemoryConversation()

    await chat.call("pay", {"amount": 5}, conversation, id="p")

    assert [str(call) for call in conversation.calls] == [
        "claim",
        "write_turn model",
        "write_tool p Running",
        "write_tool p Completed",
        "release",
    ]


@pytest.mark.parametrize("step", range(4))
async def test_a_direct_call_runs_at_most_once_if_a_write_fails(step: int) -> None:
    bank = Bank()
    chat = bank.chat()
    count = 0

    def fail(_call: Call) -> None:
        nonlocal count
        count += 1
        if count == step + 1:
            msg = "the disk is full"
            raise OSError(msg)

    conversation = MemoryConversation(on_call=fail)
    for _ in range(3):
        try:
            await chat.call("pay", {"amount": 5}, conversation, id="p")
        except OSError:
            continue
        except InterruptedToolsError:
            conversation.messages.tool("p").complete("paid 5")

    assert len(bank.paid) <= 1
    assert conversation.messages.tool("p").resolved


async def test_a_model_can_continue_from_the_result_of_a_direct_call() -> None:
    bank, messages = Bank(), Messages.from_user("What did I pay?")
    chat = bank.chat("You paid 5.")

    await chat.call("pay", {"amount": 5}, messages)
    answer = await chat.complete(messages)

    assert not isinstance(answer, Paused)
    assert [turn.by for content in messages for turn in content.turns] == [None, "application", None]


async def test_a_direct_call_does_not_satisfy_a_forced_tool_choice() -> None:
    bank, messages = Bank(), Messages.from_user("Pay 6.")
    model = ScriptedProvider(FunctionCall("pay", {"amount": 6}), "done")
    chat = ChatBuilder().with_model(model).with_tools(bank.tools).build()
    await chat.call("pay", {"amount": 5}, messages)

    await chat.complete(messages, options=ChatOptions(tool_choice="required"))

    assert [asked.options.tool_choice for asked in model.asked] == ["required", "auto"]


async def test_a_direct_call_ignores_client_tools_of_the_last_user_turn() -> None:
    bank, messages = Bank(), Messages()
    for name in ("locate", "pay"):
        messages.user("hi", client_tools=[{"name": name, "description": "Another tool of this name."}])

        tool = await bank.chat().call("pay", {"amount": 5}, messages)

        assert isinstance(tool, Tool)
        assert tool.resolved
    assert bank.paid == [5, 5]


async def test_a_direct_call_requires_only_the_values_of_its_own_tool() -> None:
    inner = ToolCollection()

    @inner.tool
    def pay(amount: int, bank: Injected[Bank]) -> str:
        """Pay an amount."""
        bank.paid.append(amount)
        return "paid"

    tools = ToolCollection()
    tools.tool(pay)

    @tools.tool
    def clock() -> str:
        """Tell the time."""
        return "noon"

    model = ScriptedProvider(FunctionCall("pay", {"amount": 7}), "Done.")
    teller = ChatBuilder().with_model(model).with_tools(inner).build().as_tool(name="teller", description="Pay.")
    chat = ChatBuilder().with_model(ScriptedProvider()).with_tools(tools).with_scoped_tools(teller).build()
    bank = Bank()

    assert (await chat.call("clock", {}, Messages())).result_text() == "noon"
    with pytest.raises(UsageError, match="the tool 'pay' needs a value of the type Bank"):
        await chat.call("pay", {"amount": 5}, Messages())
    with pytest.raises(UsageError, match="the tool 'teller/pay' needs a value of the type Bank"):
        await chat.call("teller", {"request": "Pay 7."}, Messages())
    await chat.call("pay", {"amount": 5}, Messages(), inject={Bank: bank})
    await chat.call("teller", {"request": "Pay 7."}, Messages(), inject={Bank: bank})
    assert bank.paid == [5, 7]


async def test_a_direct_call_runs_no_before_hooks() -> None:
    called: list[Messages] = []
    bank = Bank()
    builder = ChatBuilder().with_model(ScriptedProvider()).with_tools(bank.tools).with_before(called.append)

    await builder.build().call("pay", {"amount": 5}, Messages())

    assert called == []


async def test_a_direct_call_runs_after_an_invalid_structured_response() -> None:
    bank, delivered = Bank(), list[str]()
    model = ScriptedProvider(*["no JSON"] * 9)
    builder = ChatBuilder().with_model(model).with_tools(bank.tools).with_structured_output(dict[str, int])
    chat = builder.with_after(lambda _, delivery: delivered.append(delivery.key)).build()
    conversation = MemoryConversation(Messages.from_user("hi"))
    with pytest.raises(InvalidResponseError):
        await chat.complete(conversation)

    assert (await chat.call("pay", {"amount": 5}, conversation)).resolved
    assert delivered == []


async def test_a_direct_call_can_run_an_inner_chat() -> None:
    bank = Bank()
    inner = bank.chat(FunctionCall("pay", {"amount": 500}, id="x"), "paid it")
    outer = ChatBuilder().with_model(ScriptedProvider())
    chat = outer.with_scoped_tools(inner.as_tool(name="bank", description="Ask the bank.")).build()
    messages = Messages()

    paused = await chat.call("bank", {"request": "pay 500"}, messages, id="b")
    assert isinstance(paused, Paused)
    messages.tool(*paused.waiting[0].path).approve()
    tool = await chat.call("bank", {"request": "pay 500"}, messages, id="b")

    assert isinstance(tool, Tool)
    assert isinstance(tool.status, Completed)
    assert tool.status.result == "paid it"


async def test_decide_returns_the_action_of_the_policy_and_runs_nothing() -> None:
    bank = Bank()
    chat = bank.chat()

    assert await chat.decide(FunctionCall("pay", {"amount": 5})) == Execute()
    assert await chat.decide(FunctionCall("pay", {"amount": 500})) == RequireApproval(expires_in=timedelta(hours=1))
    assert await chat.decide(FunctionCall("pay", {"amount": 5_000})) == Reject("too much")
    assert bank.paid == []


async def test_decide_refuses_unknown_tools_and_invalid_arguments() -> None:
    chat = Bank().chat()

    with pytest.raises(UsageError, match="no tool 'fly'"):
        await chat.decide(FunctionCall("fly"))
    with pytest.raises(UsageError, match="are invalid"):
        await chat.decide(FunctionCall.parse("pay", "{broken"))


async def test_decide_returns_execute_without_a_policy() -> None:
    chat: Chat[object] = ChatBuilder().with_model(ScriptedProvider()).with_tools(Bank().tools).build()

    assert await chat.decide(FunctionCall("pay", {"amount": 5})) == Execute()


def test_the_model_of_a_chat_is_public() -> None:
    model = ScriptedProvider()

    assert ChatBuilder().with_model(model).build().model is model


async def test_resolving_calls_runs_them_under_the_policy_without_a_model() -> None:
    bank = Bank()
    chat = bank.chat()
    conversation = MemoryConversation(Messages.from_user("pay"))
    calls = [Tool(FunctionCall("pay", {"amount": amount}), id=f"call_{amount}") for amount in (5, 500, 5000)]
    conversation.messages.append("model", Turn(calls, finish_reason="tool_calls"))

    pause = await chat.resolve_calls(conversation)

    assert pause is not None
    assert [wait.tool_id for wait in pause.waiting] == ["call_500"]
    assert [type(tool.status) for tool in calls] == [Completed, Pending, Rejected]
    assert bank.paid == [5]
    assert "write_tool call_5 Running" in conversation.operations
    assert conversation.operations[-1] == "release"

    calls[1].approve()
    assert await chat.resolve_calls(conversation) is None
    assert bank.paid == [5, 500]
    assert await chat.resolve_calls(conversation) is None


async def test_resolving_the_calls_of_a_conversation_needs_the_values_of_its_tools() -> None:
    with pytest.raises(UsageError, match=r"resolve_calls\(\) needs Messages or a Conversation, not 'pay'"):
        await Bank().chat().resolve_calls("pay")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - wrong on purpose


async def test_the_options_of_a_request_have_the_evaluated_instructions() -> None:
    chat = (
        ChatBuilder()
        .with_model(ScriptedProvider())
        .with_options(ChatOptions(max_tokens=9))
        .with_instructions("Be brief.")
        .build()
    )

    options = await chat.request_options(Messages(), options=ChatOptions(temperature=0.5))

    assert Instructions.of(options.instructions).fixed == "Be brief."
    assert (options.temperature, options.max_tokens) == (0.5, 9)
