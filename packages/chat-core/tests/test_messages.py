from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from chat_core.errors import ConversationBusyError, IllegalTransitionError, PendingToolsError, UsageError
from chat_core.messages import (
    Approved,
    Completed,
    Content,
    File,
    FunctionCall,
    Interrupted,
    Messages,
    Pending,
    Rejected,
    Role,
    Suspended,
    Text,
    Tool,
    ToolStatus,
    Turn,
)
from chat_core.messages.codec import copy_tool
from chat_core.usage import Metadata, Usage


def tool(call_id: str | None = None) -> Tool:
    return Tool(FunctionCall.parse("transfer", '{"cents": 500}'), call_id=call_id)


def answer(*parts: Text | Tool, usage: Usage | None = None) -> Turn:
    return Turn(parts, finish_reason="stop", metadata=Metadata("p", "m", usage=usage or Usage()))


def paused(*ids: str) -> Messages:
    messages = Messages.from_user("pay")
    messages.append("model", answer(*[tool(call_id) for call_id in ids]))
    return messages


# --- Adding turns ------------------------------------------------------------------------------------------------


def test_contents_of_one_role_merge_and_keep_their_turns() -> None:
    messages = Messages.from_user("one")
    messages.push(Content.of("user", "two"))
    assert len(messages) == 1
    assert messages[0].text == "onetwo"
    assert [turn.text for turn in messages[0].turns] == ["one", "two"]


def test_turns_are_listed_with_their_roles_and_do_not_change_later() -> None:
    messages = Messages.from_user("One.").user("Two.")
    turns = messages.turns
    messages.append("model", Turn([Text("Three.")]))
    messages.rewind(1)

    assert [(role, turn.text) for role, turn in turns] == [("user", "One."), ("user", "Two.")]
    assert [role for role, _ in messages.turns] == ["user", "user", "model", "user"]
    assert [turn for _, turn in messages.turns] == [turn for content in messages for turn in content.turns]


def test_contents_of_different_roles_do_not_merge() -> None:
    messages = Messages.from_system("be brief").user("hello").system("in French").user("again")
    assert [content.role for content in messages] == ["system", "user", "system", "user"]


def test_merging_keeps_the_order_of_calls_and_answers() -> None:
    messages = Messages.from_user("go")
    first, second = tool("a"), tool("b")
    messages.append("model", answer(Text("look"), first))
    messages.append("model", answer(second))
    messages.append("model", answer(Text("done")))
    assert [[type(part).__name__ for part in turn.parts] for turn in messages[1].turns] == [
        ["Text", "Tool"],
        ["Tool"],
        ["Text"],
    ]


def test_merging_keeps_each_finish_reason_and_all_metadata() -> None:
    messages = Messages()
    messages.append("model", Turn([], finish_reason="tool_calls", metadata=Metadata("p", "m", "1", usage=Usage(1, 2))))
    messages.append("model", Turn([], finish_reason="stop", metadata=Metadata("p", "m2", "2", usage=Usage(10, 20))))
    turns = messages[0].turns
    assert [turn.finish_reason for turn in turns] == ["tool_calls", "stop"]
    assert [turn.metadata.id for turn in turns if turn.metadata] == ["1", "2"]
    assert [turn.metadata.model for turn in turns if turn.metadata] == ["m", "m2"]


def test_pushing_to_messages_does_not_change_contents_pushed_before() -> None:
    content = Content.of("user", "one")
    messages = Messages([content])
    messages.user("two")
    assert len(content.turns) == 1


def test_content_keeps_unknown_fields_when_it_is_merged() -> None:
    messages = Messages([Content("user", [Turn([])], extra={"a": 1})])
    messages.push(Content("user", [Turn([])], extra={"b": 2}))
    messages.push(Content("user", [], extra={"c": 3}))
    assert messages[0].extra == {"a": 1, "b": 2}


def test_system_user_and_file_append_contents() -> None:
    file = File("a/b", data=b"")
    messages = Messages().system("be brief").user("look", Text("!")).file(file)
    assert messages[0].role == "system"
    assert messages[1].parts == [Text("look"), Text("!"), file]
    assert messages.last is messages[1]
    assert Messages().last is None


def test_push_of_a_value_that_is_not_a_content_raises_usage_error() -> None:
    with pytest.raises(UsageError, match=r"for text, call messages\.user\('…'\)"):
        Messages().push("hello")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - that is the test


# --- Conversations with waiting calls ----------------------------------------------------------------------------


def test_push_raises_and_names_the_pending_calls() -> None:
    messages = paused("a", "b")
    messages.tool("b").reject()
    before = messages.to_json()
    with pytest.raises(PendingToolsError, match=r"messages\.cancel_pending") as caught:
        messages.user("never mind")
    assert caught.value.tool_ids == ("a",)
    assert messages.to_json() == before


def test_cancel_pending_rejects_pending_calls_so_that_the_conversation_can_continue() -> None:
    messages = paused("a", "b", "c", "d")
    messages.tool("b").approve()
    messages.tool("c").start()
    messages.tool("c").lost("gone")
    messages.tool("d").start()
    messages.tool("d").suspend(Messages())
    cancelled = messages.cancel_pending("the user went on", by="ana")
    assert [replace(tool.status, started=None) for tool in cancelled if isinstance(tool.status, Rejected)] == [
        Rejected("the user went on", "cancelled")
    ] * 4
    kept = [tool.status.started for tool in cancelled if isinstance(tool.status, Rejected)]
    assert [type(status).__name__ for status in kept] == ["NoneType", "NoneType", "Interrupted", "Suspended"]
    assert [tool.decisions[-1].by for tool in cancelled] == ["ana"] * 4
    messages.user("something else")
    assert messages[-1].text == "something else"


def test_cancel_pending_raises_and_changes_nothing_while_a_call_runs() -> None:
    messages = paused("a", "b", "c")
    messages.tool("b").start()
    before = messages.to_json()
    with pytest.raises(IllegalTransitionError, match=r"'b' is Running and cannot be cancelled; nothing was changed"):
        messages.cancel_pending("no")
    assert messages.to_json() == before
    messages.tool("b").lost("its process is gone")
    assert len(messages.cancel_pending("no")) == 3


def test_pending_finds_calls_in_every_content() -> None:
    messages = paused("a")
    messages.append("user", Turn([Text("by a store")]))
    messages.append("model", answer(tool("b")))
    assert [tool.id for tool in messages.pending()] == ["a", "b"]
    messages.tool("a").reject()
    assert [tool.id for tool in messages.pending()] == ["b"]


def test_pending_returns_every_unresolved_call() -> None:
    statuses: list[ToolStatus] = [Pending(), Approved(), Suspended(Messages()), Interrupted("a")]
    messages = Messages()
    for status in statuses:
        messages.append("model", answer(Tool(FunctionCall("f"), status=status)))
    assert [tool.status for tool in messages.pending()] == statuses


def test_pending_does_not_search_resolved_calls() -> None:
    messages = Messages()
    for number in range(500):
        done = tool(f"call_{number}")
        messages.append("model", answer(done))
        done.start()
        done.complete(number)
    assert messages.pending() == []
    assert messages._unresolved == {}  # pyright: ignore[reportPrivateUsage] - what the search goes through


# --- Finding -----------------------------------------------------------------------------------------------------


def test_tool_finds_a_call_anywhere_in_the_history() -> None:
    messages = paused("a")
    messages.tool("a").reject()
    for number in range(9):
        messages.user(f"{number}").append("model", answer(Text("ok")))
    assert messages.tool("a").id == "a"


def test_tool_raises_key_error_that_lists_unresolved_calls_if_the_id_is_unknown() -> None:
    with pytest.raises(KeyError, match="no tool with id 'x' among 1 tool calls; unresolved tool calls: a"):
        paused("a").tool("x")


def test_tool_follows_a_path_into_inner_conversations() -> None:
    inner, middle, outer = paused("x", "y"), paused("m"), paused("o")
    middle.tool("m").start()
    middle.tool("m").suspend(inner)
    outer.tool("o").start()
    outer.tool("o").suspend(middle)
    outer.tool("o", "m", "x").approve(by="ana")
    assert isinstance(inner.tool("x").status, Approved)
    assert inner.tool("y").status == Pending()
    with pytest.raises(KeyError, match="'x' has no inner conversation"):
        outer.tool("o", "m", "x", "deeper")


# --- Ids ---------------------------------------------------------------------------------------------------------


def test_repeated_call_ids_get_new_unique_ids_and_keep_the_providers_call_id() -> None:
    messages = Messages()
    for _ in range(3):
        messages.append("model", answer(tool("call_0"), tool("call_0")))
    tools = messages[0].tools
    assert len({tool.id for tool in tools}) == 6
    assert {tool.call_id for tool in tools} == {"call_0"}
    assert all(messages.tool(tool.id) is tool for tool in tools)


def test_calls_without_an_id_get_one() -> None:
    messages = Messages()
    messages.append("model", answer(tool(None), tool("")))
    assert all(messages.tool(tool.id) is tool and tool.id for tool in messages[0].tools)


def test_appending_a_turn_twice_raises_usage_error() -> None:
    messages, turn = Messages(), answer(tool("a"))
    messages.append("model", turn)
    with pytest.raises(UsageError, match="'a' is in these messages already"):
        messages.append("model", turn)
    assert len(messages[0].turns) == 1


# --- A live run --------------------------------------------------------------------------------------------------


def test_messages_in_a_run_refuse_a_second_run_and_a_push() -> None:
    messages = Messages.from_user("go")
    assert not messages.busy
    with messages.lend():
        assert messages.busy
        with pytest.raises(ConversationBusyError, match="a second run is not possible while"), messages.lend():
            pass
        with pytest.raises(ConversationBusyError, match=r"push\(\) is not possible while"):
            messages.user("more")
        with pytest.raises(ConversationBusyError, match=r"cancel_pending\(\) is not possible while"):
            messages.cancel_pending()
        messages.append("model", answer(Text("the loop's own")))
    messages.user("more")


def test_messages_are_not_busy_after_a_run_fails() -> None:
    messages = Messages()
    with pytest.raises(ZeroDivisionError), messages.lend():
        raise ZeroDivisionError
    assert not messages.busy


# --- The conversation as a whole ---------------------------------------------------------------------------------


def test_usage_is_the_sum_over_the_conversation_and_survives_storage() -> None:
    messages = Messages.from_user("go")
    messages.append("model", answer(Text("one"), usage=Usage(10, 1, 2, 3, 4)))
    messages.user("more")
    messages.append("model", answer(Text("two"), usage=Usage(20, 5)))
    assert messages.usage == Usage(30, 6, 2, 3, 4)
    assert Messages.from_json(messages.to_json()).usage == Usage(30, 6, 2, 3, 4)


def test_str_of_messages_shows_roles_texts_calls_and_their_status() -> None:
    messages = Messages.from_system("be brief").user("pay")
    done = tool("a")
    messages.append("model", answer(Text("paying"), done, tool("b")))
    done.start()
    done.complete("paid")
    messages.append("user", Turn([File("image/png", url="u")]))
    assert str(messages).splitlines()[:4] == [
        "system: be brief",
        "user: pay",
        "model: paying",
        'model: transfer({"cents": 500}) → Completed: paid',
    ]
    assert 'transfer({"cents": 500}) → Pending' in str(messages)
    assert "user: File(mime='image/png'" in str(messages)


def test_str_of_messages_shows_edited_arguments() -> None:
    messages = paused("a")
    messages.tool("a").approve(arguments={"cents": 5})
    assert str(messages).splitlines()[-1] == 'model: transfer({"cents":5}, edited) → Approved'


def test_messages_with_the_same_contents_are_equal() -> None:
    messages = paused("a")
    again = Messages.from_json(messages.to_json())
    assert again == messages
    again.tool("a").approve()
    assert again != messages
    assert messages != "messages"
    assert messages.contents == tuple(messages)
    assert repr(messages).startswith("Messages([Content('user', ")


def test_conversation_with_a_failed_call_can_be_continued_and_stored() -> None:
    messages = paused("a")
    messages.tool("a").fail("there is no tool transfer")
    messages.user("go on")
    assert isinstance(Messages.from_json(messages.to_json()).tool("a").status, type(messages.tool("a").status))


def test_conversation_can_be_stored_after_a_result_is_recorded() -> None:
    messages = paused("a")
    messages.tool("a").start()
    messages.tool("a").complete({"n": 1})
    assert Messages.from_json(messages.to_json()).tool("a").status == Completed({"n": 1})


# --- Encoding -----------------------------------------------------------------------------------------------------


def test_encoded_caches_settled_turns_and_encodes_unresolved_calls_again() -> None:
    asked: list[str] = []

    def encode(turn: Turn) -> bytes:
        asked.append(turn.text or "tools")
        return (turn.text or ",".join([tool.result_text() if tool.resolved else "?" for tool in turn.tools])).encode()

    encoders: dict[Role, Callable[[Turn], bytes]] = {"system": encode, "user": encode, "model": encode}
    messages = Messages.from_user("a")
    messages.append("model", Turn([Text("b")]))
    assert messages.view().encoded("key", encoders) == b"a,b"
    tool = Tool(FunctionCall("f"), call_id="call_1")
    messages.append("model", Turn([tool]))
    messages.append("model", Turn([Text("c")]))
    assert messages.view().encoded("key", encoders) == b"a,b,?,c"
    tool.start()
    tool.complete("done")
    assert messages.view().encoded("key", encoders) == messages.view().encoded("key", encoders) == b"a,b,done,c"
    assert asked == ["a", "b", "tools", "c", "tools"]
    assert messages.view().encoded("other key", encoders) == b"a,b,done,c"
    assert Messages().view().encoded("key", encoders) == b""


# --- Use by other modules ------------------------------------------------------------------------------------------


def _calls(*ids: str) -> Messages:
    messages = Messages.from_user("pay")
    messages.append("model", Turn([Tool(FunctionCall("transfer"), id=id) for id in ids]))
    return messages


def test_adopting_an_unresolved_call_makes_it_pending_again_in_its_place() -> None:
    messages = _calls("a", "b", "c")
    messages.tool("b").reject("no")
    assert [tool.id for tool in messages.pending()] == ["a", "c"]

    messages.adopt(["b"], Tool(FunctionCall("transfer"), id="b"))

    assert [tool.id for tool in messages.pending()] == ["a", "b", "c"]


def test_adopting_a_call_does_no_work_in_other_conversations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages, others = _calls(*[f"call_{number}" for number in range(100)]), _calls("a")
    for tool in [*messages.pending(), *others.pending()]:
        tool.reject("no")
    assert messages.pending() == []

    others.adopt(["a"], Tool(FunctionCall("transfer"), id="a"))
    examined: list[Tool] = []
    is_resolved = vars(Tool)["resolved"].fget

    def examine(tool: Tool) -> bool:
        examined.append(tool)
        return bool(is_resolved(tool))

    monkeypatch.setattr(Tool, "resolved", property(examine))

    assert messages.pending() == []
    assert examined == []


def test_adopt_updates_a_call_of_an_inner_conversation_by_its_path() -> None:
    messages, inner = _calls("ask"), _calls("a", "b")
    messages.tool("ask").start()
    messages.tool("ask").suspend(inner)
    inner.tool("a").reject("no")
    assert [tool.id for tool in inner.pending()] == ["b"]

    messages.adopt(("ask", "a"), Tool(FunctionCall("transfer"), id="a"))

    assert [tool.id for tool in inner.pending()] == ["a", "b"]
    with pytest.raises(KeyError, match="no tool with id 'x'"):
        messages.adopt(("ask", "x"), Tool(FunctionCall("transfer"), id="x"))


def result_of(messages: Messages) -> bytes:
    def encode(turn: Turn) -> bytes:
        return turn.tools[0].result_text().encode()

    return messages[-1].turns[0].encoded("key", encode)


def test_a_copy_of_a_resolved_call_shares_its_encoding_until_the_call_changes() -> None:
    tool = Tool(FunctionCall("pay", {}), id="p")
    messages = Messages([Content("model", [Turn([tool])])])
    before = copy_tool(tool, Messages)
    tool.start()
    tool.complete("paid")
    copied = Messages(messages)
    assert result_of(messages) == b"paid"
    assert copied[-1].turns[0].encodings == messages[-1].turns[0].encodings

    messages.adopt(("p",), before)
    tool.start()
    tool.complete("paid twice")

    assert result_of(messages) == b"paid twice"
    assert result_of(copied) == b"paid"


def waiting() -> Messages:
    tool = Tool(FunctionCall("pay", {}), id="p")
    tool.await_approval()
    messages = Messages.from_user("Pay.")
    messages.append("model", Turn([Text("I will pay."), tool], finish_reason="tool_calls"))
    return messages


def test_messages_made_from_other_messages_copy_their_tool_calls() -> None:
    messages = waiting()
    for copy in (Messages(messages.contents), Messages([Content("model", messages[1].turns)]), Messages(messages)):
        assert copy[-1] == messages[-1]
        copy.tool("p").approve(by="ana")
        assert isinstance(messages.tool("p").status, Pending)
        assert messages.tool("p").decisions == ()


def test_a_turn_added_to_other_messages_gets_copies_of_its_tool_calls() -> None:
    messages, other = Messages.from_json(waiting().to_json()), Messages.from_user("Go.")
    other.push(messages[1])
    other.tool("p").reject("no")
    assert isinstance(messages.tool("p").status, Pending)


def test_messages_share_the_tool_calls_of_a_turn_that_belongs_to_no_conversation() -> None:
    tool = Tool(FunctionCall("pay", {}), id="p")
    messages = Messages([Content("model", [Turn([tool])])])
    assert messages.tool("p") is tool
