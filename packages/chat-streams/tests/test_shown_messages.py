from __future__ import annotations

from chat_core.messages import Content, FunctionCall, Messages, Reasoning, Text, Tool, Turn
from chat_streams import ShownMessage, message_id, shown_messages


def test_shown_messages_have_the_client_id_or_the_turn_number() -> None:
    messages = Messages.from_system("Be short.")
    messages.push(Content("user", [Turn([Text("hi")], client_id="m-1"), Turn([Text("there")])]))
    messages.append("model", Turn([Reasoning("hm"), Text("hello"), Text(" ana")]))
    shown = shown_messages(messages)
    assert [(item.id, item.role, item.text, item.reasoning) for item in shown] == [
        ("m-1", "user", "hi", ""),
        ("turn-2", "user", "there", ""),
        ("turn-3", "model", "hello ana", "hm"),
    ]
    assert message_id(4) == "turn-4"


def test_consecutive_model_turns_can_be_joined_into_one_message() -> None:
    messages = Messages.from_user("hi")
    tool = Tool(FunctionCall("look", {}), id="call_1")
    tool.refuse("no")
    messages.append("model", Turn([tool]))
    messages.append("model", Turn([Text("done")]))
    messages.user("thanks")
    joined = shown_messages(messages, join_model_turns=True)
    assert [item.id for item in joined] == ["turn-0", "turn-1", "turn-3"]
    assert (joined[1].text, joined[1].tools) == ("done", [tool])
    assert [item.id for item in shown_messages(messages)] == ["turn-0", "turn-1", "turn-2", "turn-3"]


def test_turns_of_the_engine_and_removed_turns_are_not_shown() -> None:
    messages = Messages.from_user("hi")
    messages.append("model", Turn([Text("one")]))
    messages.append("user", Turn([Text("again, as JSON")], by="engine"))
    messages.append("model", Turn([Text("two")]))
    messages.rewind(3)
    messages.append("model", Turn([Text("three")]))
    assert shown_messages(messages) == [
        ShownMessage("turn-0", "user", (messages[0].turns[0],)),
        ShownMessage("turn-1", "model", (messages[1].turns[0],)),
        ShownMessage("turn-5", "model", (messages[-1].turns[0],)),
    ]
