from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import Message
from chat_core.messages import File, FunctionCall, Messages, Opaque, Reasoning, Text, Tool, Turn
from chat_streams import ClientInputError, PostedCall, PostedMessage, PostedResult
from chat_streams.agui.messages import read_messages, snapshot_messages
from pydantic import TypeAdapter

_MESSAGES: TypeAdapter[Any] = TypeAdapter(list[Message])


def conversation() -> Messages:
    messages = Messages.from_system("Be short.")
    messages.user("Look at this.", File("image/png", data=b"png"), File("text/plain", url="https://example.com/a.txt"))
    done = Tool(FunctionCall("look", {"at": 1}), id="call_1")
    done.start()
    done.complete({"seen": True})
    failed = Tool(FunctionCall("look", {"at": 2}), id="call_2")
    failed.start()
    failed.fail("no such file: secret.txt")
    messages.append("model", Turn([Reasoning("hm"), Text("Looking."), done, failed]))
    messages.append("model", Turn([Text("A cat.")]))
    return messages


def test_a_snapshot_contains_valid_protocol_messages() -> None:
    written = snapshot_messages(conversation())
    _MESSAGES.validate_python(written)
    assert [(item["id"], item["role"]) for item in written] == [
        ("turn-1", "user"),
        ("turn-2-reasoning", "reasoning"),
        ("turn-2", "assistant"),
        ("call_1-result", "tool"),
        ("call_2-result", "tool"),
        ("turn-3", "assistant"),
    ]
    assert written[3]["content"] == '{"seen":true}'
    assert (written[4]["content"], written[4]["error"]) == ("The look tool failed.", "The look tool failed.")
    assert "secret" not in str(written)


def test_a_posted_snapshot_is_read_as_the_same_messages() -> None:
    messages, results = read_messages(snapshot_messages(conversation()))
    assert messages == [
        PostedMessage(
            "turn-1",
            "user",
            (
                Text("Look at this."),
                File("image/png", data=b"png"),
                File("text/plain", url="https://example.com/a.txt"),
            ),
        ),
        PostedMessage(
            "turn-2",
            "model",
            (Text("Looking."),),
            (PostedCall("call_1", "look", '{"at":1}'), PostedCall("call_2", "look", '{"at":2}')),
        ),
        PostedMessage("turn-3", "model", (Text("A cat."),)),
    ]
    assert results == [
        PostedResult("call_1", '{"seen":true}'),
        PostedResult("call_2", "The look tool failed.", "The look tool failed."),
    ]


def test_a_file_stored_at_a_provider_is_omitted() -> None:
    messages = Messages.from_user("See.", File("image/png", opaque=Opaque("vendor", {"id": "f-1"})))
    assert snapshot_messages(messages)[0]["content"] == [{"type": "text", "text": "See."}]


def test_system_developer_reasoning_and_activity_messages_are_ignored() -> None:
    posted = [{"id": role, "role": role, "content": "x"} for role in ("system", "developer", "reasoning", "activity")]
    assert read_messages(posted) == ([], [])
    assert read_messages(None) == ([], [])


@pytest.mark.parametrize(
    "posted",
    [
        "x",
        ["x"],
        [{"role": "user", "content": "hi"}],
        [{"id": 1, "role": "user", "content": "hi"}],
        [{"id": "a", "role": "user", "content": 1}],
        [{"id": "a", "role": "user", "content": ["x"]}],
        [{"id": "a", "role": "user", "content": [{"type": "text"}]}],
        [{"id": "a", "role": "user", "content": [{"type": [1]}]}],
        [{"id": "a", "role": "user", "content": [{"type": "binary", "data": "x"}]}],
        [{"id": "a", "role": "user", "content": [{"type": "image", "source": "x"}]}],
        [{"id": "a", "role": "user", "content": [{"type": "image", "source": {"type": "file", "value": "f"}}]}],
        [
            {
                "id": "a",
                "role": "user",
                "content": [{"type": "image", "source": {"type": "url", "value": "https://x/y"}}],
            }
        ],
        [
            {
                "id": "a",
                "role": "user",
                "content": [{"type": "image", "source": {"type": "data", "value": "€", "mimeType": "image/png"}}],
            }
        ],
        [{"id": "a", "role": "assistant", "toolCalls": [{"id": "b"}]}],
        [{"id": "a", "role": "assistant", "toolCalls": [{"id": "b", "function": {"name": "c"}}]}],
        [{"id": "a", "role": "tool", "content": "x"}],
        [{"id": "a", "role": "tool", "content": 1, "toolCallId": "b"}],
    ],
)
def test_a_malformed_message_is_refused(posted: object) -> None:
    with pytest.raises(ClientInputError) as raised:
        read_messages(posted)
    assert raised.value.status == 400
