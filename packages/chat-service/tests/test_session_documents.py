"""Documents that describe sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from chat_core import FunctionCall, Messages, Tool
from chat_core.messages import Content, Text, Turn
from chat_service.session_documents import session_detail, session_item, session_messages
from chat_store import ConversationMeta

AT = datetime(2026, 11, 23, 12, tzinfo=UTC)
META = ConversationMeta("s", "ana", None, "Title", "clerk", {"turn_count": 1}, AT, AT)


def conversation() -> Messages:
    done = Tool(FunctionCall("pay", {"cents": 5}), call_id="c1")
    done.start()
    done.complete("paid")
    failed = Tool(FunctionCall("pay", {"cents": 6}), call_id="c2")
    failed.start()
    failed.fail("the key sk-1234 was refused")
    return Messages(
        [
            Content("user", [Turn([Text("Pay.")], created_at=AT)]),
            Content("model", [Turn([Text("I will."), done, failed], created_at=AT)]),
            Content("user", [Turn([Text("A note.")], created_at=AT, by="engine")]),
            Content("model", [Turn([Text("Paid.")], created_at=AT)]),
        ]
    )


def test_a_turn_holds_the_last_text_and_counts_the_calls() -> None:
    (turn,) = cast("list[object]", session_detail(META, conversation())["turns"])

    assert turn == {
        "id": "0",
        "user_message": "Pay.",
        "assistant_response": "Paid.",
        "tool_call_count": 2,
        "started_at": AT.isoformat(),
        "completed_at": AT.isoformat(),
    }


def test_messages_contain_calls_and_fixed_texts_for_failures() -> None:
    document = session_messages("s", conversation())

    messages = cast("list[dict[str, object]]", document["messages"])
    assert [(item["role"], item["content"]) for item in messages] == [
        ("user", "Pay."),
        ("assistant", "I will."),
        ("tool_use", "pay"),
        ("tool_result", "paid"),
        ("tool_use", "pay"),
        ("tool_result", "The pay tool failed."),
        ("assistant", "Paid."),
    ]
    assert document["count"] == 7


def test_an_item_of_a_list_has_no_messages() -> None:
    assert session_item(META) == {
        "id": "s",
        "title": "Title",
        "turn_count": 1,
        "created_at": AT.isoformat(),
        "updated_at": AT.isoformat(),
    }
