"""Handwritten requests of every documented form keep their meaning when they are rebuilt and encoded."""

from __future__ import annotations

import json
from typing import Final, cast

import pytest

from ..normalise import Json, Object
from .canonical import differences
from .encoding import sent
from .rebuild import rebuild

USER: Final[Object] = {"role": "user", "content": "hi"}
CALL: Final[Object] = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
RESULT: Final[Object] = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
ANSWER: Final[Object] = {"type": "message", "id": "msg_1", "role": "assistant", "status": "incomplete"}
PICTURE: Final[Object] = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="}
TEXT: Final[Object] = {"type": "input_text", "text": "a"}
SCHEMA: Final[Object] = {
    "type": "object",
    "properties": {"x": {"type": "string"}},
    "required": ["x"],
    "additionalProperties": False,
}

CONVERSATIONS: Final[dict[str, list[Json]]] = {
    "reference": [USER, {"type": "item_reference", "id": "rs_1"}, RESULT],
    "two kinds of instructions": [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, USER],
    "user's item": [{"type": "message", "id": "msg_0", "role": "user", "content": [TEXT]}, USER],
    "incomplete answer": [USER, {**ANSWER, "content": [{"type": "output_text", "text": "a"}]}, USER],
    "refusal": [USER, {**ANSWER, "content": [{"type": "refusal", "refusal": "no"}]}, USER],
    "answer in input's words": [USER, {"role": "assistant", "content": [TEXT]}, USER],
    "empty answer": [USER, {"role": "assistant", "content": []}, USER],
    "several texts of a tool": [USER, CALL, {**RESULT, "output": [TEXT, TEXT]}],
    "picture before text": [USER, CALL, {**RESULT, "output": [PICTURE, TEXT]}],
    "result with an id": [USER, {**CALL, "id": "fc_1"}, {**RESULT, "id": "fco_1", "status": "completed"}],
    "result without words": [USER, CALL, {**RESULT, "output": []}],
    "custom tool": [
        USER,
        {"type": "custom_tool_call", "id": "ct_1", "call_id": "c", "name": "g", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": [TEXT]},
    ],
    "computer": [
        USER,
        {"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {"type": "click"}, "status": "completed"},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "file_id": "f"}},
    ],
    "shell": [
        USER,
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a", "stderr": ""}]},
    ],
    "approval": [
        USER,
        {"type": "mcp_approval_request", "id": "r", "server_label": "s", "name": "n", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True},
    ],
    "image by id": [USER, {"type": "image_generation_call", "id": "ig_1"}, USER],
    "compaction": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}, USER],
    "document": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1", "detail": "high"}]}],
    "nameless document": [{"role": "user", "content": [{"type": "input_file", "file_data": "data:x/y;base64,eA=="}]}],
}

BODIES: Final[dict[str, Object]] = {
    "instructions twice": {"instructions": "a", "input": [{"role": "system", "content": "b"}, USER]},
    "outcomes for a stored response": {
        "previous_response_id": "resp_1",
        "input": [RESULT, {"type": "custom_tool_call_output", "call_id": "c2", "output": "b"}, USER],
    },
    "a screenshot for a stored response": {
        "previous_response_id": "resp_1",
        "input": [{"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}}],
    },
    "what a socket remembers": {"previous_response_id": "resp_1", "store": False, "input": [RESULT]},
    "described format": {
        "input": "hi",
        "text": {
            "format": {"type": "json_schema", "name": "a", "description": "d", "schema": SCHEMA, "strict": True},
            "verbosity": "low",
        },
    },
    "any JSON": {"input": "hi", "text": {"format": {"type": "json_object"}, "verbosity": "low"}},
    "a prompt's tools": {"input": "hi", "prompt": {"id": "pmpt_1"}, "tool_choice": "required"},
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_every_documented_form_of_an_item_is_sent_unchanged(name: str) -> None:
    body: Object = {"model": "m", "input": CONVERSATIONS[name]}
    assert again(body) == []


@pytest.mark.parametrize("name", BODIES)
def test_every_documented_form_of_a_request_is_sent_unchanged(name: str) -> None:
    body: Object = {"model": "m", **BODIES[name]}
    assert again(body) == []


def again(body: Object) -> list[str]:
    """Return the differences between a body and the body that the library sends for it."""
    ours = cast("Object", json.loads(sent(rebuild(body, "p"))))
    return [str(difference) for difference in differences(body, ours)]
