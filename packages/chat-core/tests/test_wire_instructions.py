"""Instructions as system text: one text, or turns before and after the stored system turns."""

from __future__ import annotations

from chat_core import ChatOptions, Instructions, Messages
from chat_core.wire.instructions import (
    instruction_text,
    instruction_turns,
    leading_system_turns,
    turns_with_instructions,
)

BOTH = ChatOptions(instructions=Instructions("Be kind.", "It is Monday."))


def test_instruction_text_joins_fixed_stored_and_changing_instructions() -> None:
    assert instruction_text(BOTH, ["Stored.", "", "More."]) == "Be kind.\n\nStored.\n\nMore.\n\nIt is Monday."
    assert instruction_text(ChatOptions(instructions="Be kind.")) == "Be kind."
    assert instruction_text(ChatOptions()) == ""


def test_instruction_turns_returns_turns_before_and_after_the_stored_turns() -> None:
    before, after = instruction_turns(BOTH)

    assert [turn.text for turn in before] == ["Be kind."]
    assert [turn.text for turn in after] == ["It is Monday."]
    assert instruction_turns(ChatOptions()) == ([], [])
    assert instruction_turns(ChatOptions(instructions="")) == ([], [])


def test_leading_system_turns_returns_only_system_turns_at_the_start() -> None:
    messages = Messages()
    assert leading_system_turns(messages.view()) == []

    messages.system("one")
    messages.system("two")
    messages.user("hi")
    messages.system("three")
    assert [turn.text for turn in leading_system_turns(messages.view())] == ["one", "two"]


def test_turns_with_instructions_adds_system_turns_around_the_leading_ones() -> None:
    messages = Messages.from_system("Stored.").user("hi").system("Later.")

    turns = turns_with_instructions(messages.view(), BOTH)

    assert [(role, turn.text) for role, turn in turns] == [
        ("system", "Be kind."),
        ("system", "Stored."),
        ("system", "It is Monday."),
        ("user", "hi"),
        ("system", "Later."),
    ]
