from __future__ import annotations

import json
from typing import Any, cast

import pytest
from chat_completions import Dialect
from chat_completions.message_order import RESULTS_READ, arrange_messages

CALLS: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}, {"id": "2"}]}
RESULTS = [{"role": "tool", "tool_call_id": id_, "content": "r"} for id_ in ("1", "2")]
READ = {"role": "assistant", "content": RESULTS_READ}


def arranged(*messages: dict[str, Any], dialect: Dialect) -> list[dict[str, Any]]:
    encoded = json.dumps(messages, separators=(",", ":"))[1:-1].encode()
    return cast("list[dict[str, Any]]", json.loads(b"[" + arrange_messages(encoded, dialect) + b"]"))


def joined(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    return arranged(*messages, dialect=Dialect(model="m", join_messages=True))


def test_joined_texts_of_one_role_are_separated_by_an_empty_line() -> None:
    messages = [{"role": "user", "content": text} for text in "abc"]
    assert joined(*messages) == [{"role": "user", "content": "a\n\nb\n\nc"}]


def test_joining_text_and_parts_gives_one_list_of_parts() -> None:
    image = {"type": "image_url", "image_url": {"url": "u"}}
    assert joined({"role": "user", "content": "a"}, {"role": "user", "content": [image]}) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, image]}
    ]


def test_joined_messages_keep_their_calls_and_reasoning() -> None:
    first = {"role": "assistant", "content": None, "reasoning_content": "x", "tool_calls": [{"id": "1"}]}
    second: dict[str, Any] = {"role": "assistant", "content": "b", "reasoning_content": "y"}
    second |= {"tool_calls": [{"id": "2"}], "audio": {"id": "z"}}
    assert joined(first, second) == [
        {
            "role": "assistant",
            "content": "b",
            "reasoning_content": "xy",
            "tool_calls": [{"id": "1"}, {"id": "2"}],
            "audio": {"id": "z"},
        }
    ]


def test_tool_results_and_different_roles_are_not_joined() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}, {"id": "2"}]},
        {"role": "tool", "tool_call_id": "1", "content": "r"},
        {"role": "tool", "tool_call_id": "2", "content": "r"},
        {"role": "assistant", "content": "a"},
    ]
    assert joined(*messages) == messages


def test_messages_are_unchanged_if_the_server_accepts_any_order() -> None:
    encoded = b'{"role":"tool", "content":"r"},{"role":"user", "content":"u"}'
    assert arrange_messages(encoded, Dialect(model="m")) is encoded


def test_an_assistant_message_is_added_between_tool_results_and_a_user_message() -> None:
    question, answer = {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}
    messages = [question, CALLS, *RESULTS, question, answer, question, CALLS, *RESULTS, answer]
    assert arranged(*messages, dialect=Dialect(model="m", assistant_after_tools=True)) == [
        *[question, CALLS, *RESULTS, READ],
        *[question, answer, question, CALLS, *RESULTS, answer],
    ]


@pytest.mark.parametrize("content", ["u", '"role":"tool"'])
def test_a_conversation_without_tool_results_gets_no_further_message(content: str) -> None:
    messages = [{"role": "user", "content": content}, {"role": "user", "content": "v"}]
    assert arranged(*messages, dialect=Dialect(model="m", assistant_after_tools=True)) == messages


SYSTEM = {"role": "system", "content": "s"}
LATER = {"role": "system", "content": "t"}
QUESTION = {"role": "user", "content": "u"}


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_messages_are_sent_first_in_their_order(role: str) -> None:
    system = [{**message, "role": role} for message in (SYSTEM, LATER, {**LATER, "content": "v"})]
    messages = [system[0], QUESTION, CALLS, *RESULTS, system[1], QUESTION, system[2]]
    assert arranged(*messages, dialect=Dialect(model="m", system_first=True)) == [
        *[*system, QUESTION, CALLS, *RESULTS, QUESTION]
    ]


def test_system_messages_that_are_moved_are_joined_and_separate_no_tool_results() -> None:
    dialect = Dialect(model="m", join_messages=True, assistant_after_tools=True, system_first=True)
    assert arranged(SYSTEM, QUESTION, CALLS, *RESULTS, LATER, QUESTION, dialect=dialect) == [
        *[{"role": "system", "content": "s\n\nt"}, QUESTION, CALLS, *RESULTS, READ, QUESTION]
    ]


@pytest.mark.parametrize("text", ["u", '"role":"system"'])
def test_messages_are_unchanged_if_all_system_messages_are_first(text: str) -> None:
    messages = json.dumps([SYSTEM, LATER, {"role": "user", "content": text}], separators=(",", ":"))[1:-1].encode()
    assert arrange_messages(messages, Dialect(model="m", system_first=True)) is messages


def test_joined_user_messages_follow_one_assistant_message_after_tool_results() -> None:
    messages = [CALLS, *RESULTS, {"role": "user", "content": "u"}, {"role": "user", "content": "v"}]
    dialect = Dialect(model="m", join_messages=True, assistant_after_tools=True)
    assert arranged(*messages, dialect=dialect) == [CALLS, *RESULTS, READ, {"role": "user", "content": "u\n\nv"}]
