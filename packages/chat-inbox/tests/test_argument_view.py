"""Read-only views of arguments: nothing is shortened without its length and its full text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_core import FunctionCall
from chat_core.messages import Content, Messages, Text, Tool, Turn
from chat_inbox.argument_view import PREVIEW_LENGTH, ArgumentView, find_request, view_arguments, view_text


@pytest.mark.parametrize(
    ("value", "preview"),
    [
        pytest.param("Maria", "Maria", id="text"),
        pytest.param("4000", '"4000"', id="text-like-a-number"),
        pytest.param("null", '"null"', id="text-like-null"),
        pytest.param("", '""', id="empty-text"),
        pytest.param(" a ", '" a "', id="text-with-margins"),
        pytest.param("a\n", '"a\\n"', id="line-with-its-end"),
        pytest.param("\n\n", '"\\n\\n"', id="only-line-breaks"),
        pytest.param('"a"', '"\\"a\\""', id="text-in-quotation-marks"),
        pytest.param(4000, "4000", id="number"),
        pytest.param(None, "null", id="null"),
        pytest.param({"a": ["b  c"]}, '{"a": ["b  c"]}', id="object"),
    ],
)
def test_short_values_are_shown_whole_with_distinct_types(value: Any, preview: str) -> None:
    (view,) = view_arguments({"x": value})

    assert (view.preview, view.full) == (preview, None)


@pytest.mark.parametrize(
    ("value", "length"),
    [
        pytest.param("word " * 100 + ".", 501, id="long-text"),
        pytest.param("first\nsecond", 12, id="two-lines"),
        pytest.param("two  spaces", 11, id="collapsed-spaces"),
        pytest.param(["x" * 50] * 4, 216, id="long-json"),
    ],
)
def test_value_that_does_not_fit_has_its_full_text_and_length(value: Any, length: int) -> None:
    (view,) = view_arguments({"x": value})

    assert len(view.preview) <= PREVIEW_LENGTH
    assert view.length == length
    assert view.full is not None
    if isinstance(value, str):
        assert view.full == value


@pytest.mark.parametrize(
    ("text", "preview", "full"),
    [
        pytest.param("Hi,\nbye.\n", "Hi, bye.", r"Hi,~bye.\n", id="line-break-at-the-end"),
        pytest.param("Hi,\r\nbye. \t\r\n", "Hi, bye.", "Hi,\r~bye." r"\u0020\t\r\n", id="white-space-at-the-end"),
        pytest.param("\n Hi,\nbye.", "Hi, bye.", r"~ Hi,~bye.", id="line-break-at-the-beginning"),
        pytest.param("I \u2764\ufe0f\nyou", "I \u2764\ufe0f you", "I \u2764\ufe0f~you", id="invisible-characters"),
    ],
)
def test_text_with_several_lines_is_shown_with_its_lines(text: str, preview: str, full: str) -> None:
    (view,) = view_arguments({"x": text})

    assert (view.preview, view.full, view.length) == (preview, full.replace("~", "\n"), len(text))


def test_a_text_that_is_a_list_as_json_is_shown_in_quotes() -> None:
    items = [f"{'a' * 30}{number}" for number in range(8)]
    (text,) = view_arguments({"x": json.dumps(items, indent=2)})
    (value,) = view_arguments({"x": items})
    assert (text.full or "")[:2] == '"['
    assert text.full != value.full


def test_hints_are_the_descriptions_of_the_schema() -> None:
    schema = {"type": "object", "properties": {"cents": {"type": "integer", "description": "In cents.", "minimum": 1}}}

    assert [view.hint for view in view_arguments({"cents": 1, "other": 2}, schema)] == ["In cents. · at least 1", ""]


def test_invisible_characters_are_shown_as_escapes_of_json() -> None:
    assert view_arguments({"x": ["\u202e"]})[0].preview == r'["\u202e"]'
    assert view_arguments({"x": "a\u202eb"})[0].preview == r'"a\u202eb"'
    assert view_arguments({"x": "שלום 👨👩"})[0].preview == "שלום 👨👩"


def test_view_text_shortens_to_its_limit() -> None:
    assert view_text("abcdef", "n", limit=4) == ArgumentView("n", "abc…", "abcdef", 6)


def test_request_is_the_last_user_text_before_the_call() -> None:
    messages = Messages.from_user("first")
    messages.append("model", Turn([Text("ok")]))
    messages.user("Pay Maria.")
    messages.append("user", Turn([Text("Correct your answer.")], by="engine"))
    tool = Tool(FunctionCall("pay", {}, id="c"), call_id="c")
    messages.push(Content("model", [Turn([tool])]))

    assert find_request(messages, messages.tool("c").id) == "Pay Maria."
    assert find_request(messages, "none") == ""
