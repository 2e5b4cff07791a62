from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_core.messages import Content, Embedding, FunctionCall, Messages, Reasoning, Text, Tool, Turn
from chat_core.usage import Metadata, Usage

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_content_is_the_concatenation_of_its_turns() -> None:
    tool = Tool(FunctionCall("f"), call_id="a")
    content = Content("model", [Turn([Text("one "), tool]), Turn([Text("two")])])
    assert content.parts == [Text("one "), tool, Text("two")]
    assert content.text == "one two"
    assert content.tools == [tool]


def test_a_content_keeps_its_turns_separate() -> None:
    content = Content("model", [Turn([Text("one")], finish_reason="tool_calls"), Turn([Text("two")])])
    assert [turn.text for turn in content.turns] == ["one", "two"]
    assert [turn.finish_reason for turn in content.turns] == ["tool_calls", None]


@pytest.mark.parametrize("wrong", [None, 5, {"text": "hi"}, ["hi"], b"hi"])
def test_a_message_with_a_value_that_cannot_be_stored_raises(wrong: Any) -> None:
    messages = Messages()
    for make in (Messages.from_user, messages.user, messages.system):
        with pytest.raises(UsageError, match="the message must consist of texts and parts, such as File"):
            make(wrong)
    assert len(messages) == 0


def test_content_of_makes_one_turn_and_converts_strings_to_text_parts() -> None:
    content = Content.of("user", "look:", Embedding((1.0,)))
    assert [turn.parts for turn in content.turns] == [(Text("look:"), Embedding((1.0,)))]


@pytest.mark.parametrize("role", ["assistant", "tool", "", None])
def test_an_unknown_role_is_refused(role: object) -> None:
    with pytest.raises(UsageError, match="role must be one of system, user, model, not"):
        Content(role)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - that is the test


def test_a_turn_has_parts_finish_reason_metadata_and_creation_time() -> None:
    metadata = Metadata("openai", "gpt-5", "id", "stop", Usage(1, 2))
    turn = Turn([Text("hi")], finish_reason="stop", metadata=metadata, created_at=NOON)
    assert (turn.parts, turn.finish_reason, turn.metadata, turn.created_at) == ((Text("hi"),), "stop", metadata, NOON)
    assert turn.usage == Usage(1, 2)
    assert turn.by is None


def test_the_creation_time_of_a_turn_defaults_to_the_current_time() -> None:
    before = datetime.now(UTC)
    assert before <= Turn([]).created_at <= datetime.now(UTC)


def test_a_turn_without_metadata_has_zero_usage() -> None:
    assert Turn([]).usage == Usage()


def test_the_text_of_a_turn_contains_only_its_text_parts() -> None:
    assert Turn([Reasoning("hm"), Text("a"), Text("b")]).text == "ab"


def test_turns_and_contents_compare_by_value() -> None:
    def made(text: str) -> Content:
        return Content("user", [Turn([Text(text)], created_at=NOON)])

    assert made("a") == made("a")
    assert made("a") != made("b")
    assert made("a") != "a"
    assert made("a").turns[0] != Turn([Text("a")], created_at=NOON, by="engine")
    assert "Text(text='a'" in repr(made("a"))


def test_an_encoding_is_cached_after_all_calls_of_the_turn_are_resolved() -> None:
    tool = Tool(FunctionCall("f"), call_id="a")
    turn = Turn([Text("x"), tool])
    made: list[str] = []

    def encode(turn: Turn) -> bytes:
        made.append(type(turn.tools[0].status).__name__)
        return turn.text.encode()

    turn.encoded("wire", encode)
    turn.encoded("wire", encode)
    tool.start()
    tool.complete(1)
    assert [turn.encoded("wire", encode) for _ in range(3)] == [b"x"] * 3
    assert made == ["Pending", "Pending", "Completed"]


def test_encodings_of_a_turn_are_cached_per_codec() -> None:
    turn = Turn([Text("x")])
    assert turn.encoded(("a", 1), lambda _: b"one") == b"one"
    assert turn.encoded(("a", 2), lambda _: b"two") == b"two"
    assert turn.encoded(("a", 1), lambda _: b"never") == b"one"
    assert turn == Turn([Text("x")], created_at=turn.created_at)


@pytest.mark.parametrize("reason", ["end_turn", "", 7, ["stop"], {}])
def test_an_unknown_finish_reason_is_replaced_by_other(reason: Any) -> None:
    turn = Turn([], finish_reason=reason)
    assert turn.finish_reason == "other"
    messages = Messages()
    messages.append("model", turn)
    assert Messages.from_json(messages.to_json()) == messages
