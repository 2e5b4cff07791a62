"""View model of the conversation page."""

from __future__ import annotations

from datetime import UTC, datetime

from chat_core import FunctionCall
from chat_core.messages import (
    Content,
    Embedding,
    File,
    Messages,
    Part,
    ProviderPart,
    Reasoning,
    Structured,
    Suspended,
    Text,
    Tool,
    Turn,
)
from chat_inbox.conversation_view import ConversationView, DecisionView, Item, call_anchor
from chat_inbox.forms import Field, build_form

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def find_form(_path: tuple[str, ...], tool: Tool) -> Field | None:
    return build_form(None, tool.effective_arguments)


def items(messages: Messages, max_turns: int | None = 40) -> tuple[list[Item], int]:
    return ConversationView(NOW, find_form, lambda _path: None).build_items(messages, max_turns)


def waiting(name: str) -> Tool:
    tool = Tool(FunctionCall("transfer", {"cents": 1}, id=name), call_id=name)
    tool.await_approval()
    return tool


def test_each_part_type_is_shown_as_its_kind_of_item() -> None:
    parts: list[Part] = [
        Text("words"),
        Reasoning("thoughts"),
        Structured({"a": 1}),
        File("image/png", data=b"1234", name="a.png"),
        File("image/png", url="https://files.example/b.png"),
        ProviderPart("claude", "redacted_thinking", {}),
        Embedding((1.0,)),
        Text(""),
    ]
    found, _ = items(Messages([Content("model", [Turn(parts)])]))

    assert [(item.kind, item.text) for item in found] == [
        ("text", "words"),
        ("reasoning", "thoughts"),
        ("text", '{\n  "a": 1\n}'),
        ("note", "File: a.png (image/png, 4 bytes)"),
        ("note", "File: https://files.example/b.png (image/png)"),
        ("note", "redacted_thinking (from claude)"),
        ("note", "Embedding"),
    ]


def test_items_show_the_role_of_their_turn() -> None:
    messages = Messages.from_system("rules").user("hello")
    messages.append("user", Turn([Text("again")], by="engine"))

    assert [item.role for item in items(messages)[0]] == ["Instructions", "User", "Library"]


def test_inner_conversation_follows_its_call() -> None:
    inner = waiting("inner")
    outer = Tool(
        FunctionCall("ask", {}), id="outer", status=Suspended(Messages([Content.of("model", "I will.", inner)]))
    )
    found, _ = items(Messages([Content.of("model", outer)]))

    assert [(item.kind, item.depth) for item in found] == [("call", 0), ("text", 1), ("call", 1)]
    call = found[2].call
    assert call is not None
    assert (call.key, call.anchor) == ("outer,inner", call_anchor(("outer", "inner")))
    assert call.form is not None


def test_view_shows_the_last_turns_and_earlier_waiting_calls() -> None:
    messages = Messages()
    for number in range(100):
        messages.user(f"{number}")
    found, before = items(messages)
    assert (len(found), before) == (40, 60)
    assert items(messages, None)[1] == 0

    early = Messages([Content.of("user", "hello"), Content.of("model", waiting("early"))])
    for _ in range(60):
        early.append("user", Turn([Text("more")]))
    assert items(early)[1] == 1


def test_item_key_does_not_change_and_its_version_does() -> None:
    tool = waiting("call_1")
    messages = Messages([Content.of("model", "Somebody must allow it.", tool)])
    before, _ = items(messages)
    tool.approve(by="ana", note="agreed", at=NOW)
    after, _ = items(messages)

    assert [item.key for item in before] == [item.key for item in after]
    assert before[0] == after[0]
    assert before[1].version != after[1].version
    assert after[1].call is not None
    assert after[1].call.decisions == (
        DecisionView("ana approved it", "2030-01-01T00:00:00+00:00", "2030-01-01 00:00 UTC", "agreed"),
    )
    assert after[1].call.form is None
