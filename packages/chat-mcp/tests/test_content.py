"""What a server may return, and what a history keeps of it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

import pytest
from chat_core import File
from chat_mcp._content import value_of, words_of
from mcp.types import CallToolResult

DATA = b64encode(b"bytes").decode()


def result(*content: Mapping[str, object], structured: object = None) -> CallToolResult:
    return CallToolResult.model_validate({"content": content, "structuredContent": structured})


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def test_one_thing_is_itself_several_are_a_list_and_nothing_is_nothing() -> None:
    assert value_of(result()) is None
    assert value_of(result(text("a"))) == "a"
    assert value_of(result(text("a"), text("b"))) == ["a", "b"]


def test_structured_content_is_told_once() -> None:
    assert value_of(result(text('{"n": 1}'), structured={"n": 1})) == {"n": 1}
    assert value_of(result(text("one"), structured={"n": 1})) == [{"n": 1}, "one"]
    assert value_of(result(structured={"result": 1})) == {"result": 1}
    assert value_of(result(text("3"), structured={"result": 3})) == 3
    assert value_of(result(text("a: b"), structured={"result": "a: b"})) == "a: b"


def test_images_and_sounds_are_files() -> None:
    image = {"type": "image", "data": DATA, "mimeType": "image/png"}
    sound = {"type": "audio", "data": DATA, "mimeType": "audio/wav"}
    assert value_of(result(image, sound)) == [File("image/png", data=b"bytes"), File("audio/wav", data=b"bytes")]


def test_resources_are_what_is_in_them_and_links_are_told() -> None:
    words = {"type": "resource", "resource": {"uri": "note:1", "text": "hello"}}
    blob = {"type": "resource", "resource": {"uri": "note:2", "blob": DATA, "mimeType": "application/pdf"}}
    bare = {"type": "resource", "resource": {"uri": "note:3", "blob": DATA}}
    link = {"type": "resource_link", "uri": "note:4", "name": "four"}
    assert value_of(result(words, blob, bare, link)) == [
        {"resource": "note:1", "text": "hello"},
        File("application/pdf", data=b"bytes", name="note:2"),
        File("application/octet-stream", data=b"bytes", name="note:3"),
        {"resource": "note:4", "name": "four"},
    ]


def test_a_file_that_is_not_base64_is_refused() -> None:
    with pytest.raises(ValueError, match="the server sent a file that is not base64"):
        value_of(result({"type": "image", "data": "!", "mimeType": "image/png"}))


def test_a_failure_has_words() -> None:
    assert words_of(result(text("a"), text("b"))) == "a\nb"
    assert words_of(result(structured={"code": 1})) == '{"code": 1}'
    assert words_of(result()) == "it failed, and gave no reason"
