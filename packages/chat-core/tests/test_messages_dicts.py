"""Conversations from messages in the format of OpenAI's Chat Completions API."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from chat_core import ChatBuilder, FunctionCall, Messages, ToolCollection
from chat_core.errors import UsageError
from chat_core.messages import Completed, File, Pending, Reasoning, Text
from chat_core.testing import ScriptedProvider

CALL: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "pay", "arguments": '{"cents": 5}'},
}
PNG = base64.b64encode(b"\x89PNG").decode()


def test_from_dicts_reads_a_tool_call_with_its_result() -> None:
    messages = Messages.from_dicts(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Pay."}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None, "annotations": []},
            {"role": "tool", "tool_call_id": "call_1", "content": "paid"},
            {"role": "assistant", "content": "Done.", "reasoning_content": "It was paid."},
        ]
    )
    assert [content.role for content in messages.contents] == ["system", "user", "model"]
    tool = messages.tool("call_1")
    assert tool.call == FunctionCall("pay", {"cents": 5}, raw='{"cents": 5}')
    assert tool.status == Completed("paid")
    assert messages.contents[-1].turns[-1].parts == (Reasoning("It was paid."), Text("Done."))
    assert Messages.from_json(messages.to_json()) == messages


def test_from_dicts_reads_files_with_their_mime_types() -> None:
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
        {"type": "image_url", "image_url": "https://example.com/a.jpg?x=1"},
        {"type": "image_url", "image_url": {"url": "https://example.com/picture"}},
        {"type": "input_audio", "input_audio": {"data": PNG, "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}},
    ]
    messages = Messages.from_dicts([{"role": "user", "content": parts}])
    assert messages.contents[0].turns[0].parts == (
        File("image/png", data=b"\x89PNG"),
        File("image/jpeg", url="https://example.com/a.jpg?x=1"),
        File("image/*", url="https://example.com/picture"),
        File("audio/mpeg", data=b"\x89PNG"),
        File("application/pdf", data=b"\x89PNG", name="a.pdf"),
    )


@pytest.mark.anyio
async def test_call_without_a_result_runs_after_from_dicts() -> None:
    ran: list[int] = []
    tools = ToolCollection()

    @tools.tool
    async def pay(cents: int) -> None:
        ran.append(cents)

    messages = Messages.from_dicts(
        [{"role": "user", "content": "Pay."}, {"role": "assistant", "content": "", "tool_calls": [CALL]}]
    )
    assert messages.tool("call_1").status == Pending()
    await ChatBuilder().with_model(ScriptedProvider("done")).with_tools(tools).build().complete(messages)
    assert ran == [5]


ASSISTANT = {"role": "assistant", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "paid"}


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        (["hi"], r"messages\[0\] must be a dict, not 'hi'"),
        ([{"content": "hi"}], r"messages\[0\]\.role must be 'system', .* not None"),
        ([{"role": "bot", "content": "hi"}], r"messages\[0\]\.role must be .* not 'bot'"),
        ([{"role": "user"}], r"messages\[0\]\.content must be a list, not None"),
        ([{"role": "user", "content": "hi", "name": "bo"}], r"messages\[0\] has the field 'name', which"),
        ([{"role": "user", "content": [{"type": "table"}]}], r"content\[0\]\.type must be 'text', .* not 'table'"),
        ([{"role": "user", "content": [{"type": [1]}]}], r"content\[0\]\.type must be 'text', .* not \[1\]"),
        ([{"role": "user", "content": [{"type": "text"}]}], r"content\[0\]\.text must be a string, not None"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png,x"}}]}],
            r"image_url\.url must be a URL, or 'data:<type>;base64,<data>'",
        ),
        (
            [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "%", "format": "wav"}}]}],
            r"input_audio\.data is not base64",
        ),
        ([RESULT], r"messages\[0\] is the result of a tool, but no call precedes it"),
        ([{"role": "assistant", "content": "hi"}, RESULT], r"messages\[0\] has no call 'call_1', but a result"),
        ([ASSISTANT, RESULT, RESULT], r"messages\[2\] is another result of the call 'call_1'"),
        ([{"role": "assistant", "tool_calls": [CALL, CALL]}], "two calls with the same id"),
        (
            [{"role": "assistant", "tool_calls": [{"id": "a", "type": "custom"}]}],
            "type must be 'function', not 'custom'",
        ),
        ([{"role": "assistant", "tool_calls": [{"id": "a"}]}], r"tool_calls\[0\]\.function must be a dict, not None"),
        ([ASSISTANT, {**RESULT, "content": [{"type": "image_url", "image_url": "https://a/b.png"}]}], "must be text"),
    ],
)
def test_from_dicts_names_the_path_of_a_malformed_field(messages: list[Any], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        Messages.from_dicts(messages)


def test_messages_of_dicts_raises_and_points_to_from_dicts() -> None:
    wrong: Any = [{"role": "user", "content": "hi"}]
    with pytest.raises(UsageError, match=r"in the format of OpenAI, call Messages\.from_dicts\(\)"):
        Messages(wrong)
    text: Any = "hi"
    with pytest.raises(UsageError, match=r"Messages\(\) takes contents, such as Content\.of\('user', '…'\), not 'h'"):
        Messages(text)
