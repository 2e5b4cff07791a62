"""Results of a server, and the parts of them that a history contains."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

import pytest
from chat_core import Data, File, ToolOutput
from chat_mcp_tools._content import error_text_of, output_of, value_of
from mcp.types import CallToolResult

DATA = b64encode(b"bytes").decode()


def result(*content: Mapping[str, object], structured: object = None) -> CallToolResult:
    return CallToolResult.model_validate({"content": content, "structuredContent": structured})


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def test_content_blocks_are_converted_to_a_value_a_list_or_none() -> None:
    assert value_of(result()) is None
    assert value_of(result(text("a"))) == "a"
    assert value_of(result(text("a"), text("b"))) == ["a", "b"]


def test_structured_content_that_repeats_the_text_is_returned_once() -> None:
    assert value_of(result(text('{"n": 1}'), structured={"n": 1})) == {"n": 1}
    assert value_of(result(text("one"), structured={"n": 1})) == [{"n": 1}, "one"]
    assert value_of(result(structured={"result": 1})) == {"result": 1}
    assert value_of(result(text("3"), structured={"result": 3})) == 3
    assert value_of(result(text("a: b"), structured={"result": "a: b"})) == "a: b"


@pytest.mark.parametrize(
    ("texts", "structured", "told"),
    [
        # As the protocol asks for it: the text is the JSON.
        (['{"n": 1}'], {"n": 1}, {"n": 1}),
        (['{"content": "a"}'], {"content": "a"}, {"content": "a"}),
        (["[1, 2]"], [1, 2], [1, 2]),
        (["1"], "1", "1"),
        # A value in an object, and its words.
        (["a\nb"], {"content": "a\nb"}, "a\nb"),
        (["21"], {"result": "21"}, "21"),
        (['"a"'], {"result": "a"}, "a"),
        (["null"], {"result": None}, None),
        (["[1, 2]"], {"content": [1, 2]}, [1, 2]),
        # A list, and a text for each item.
        (["a"], {"result": ["a"]}, ["a"]),
        (["a", '{"n": 1}'], {"result": ["a", {"n": 1}]}, ["a", {"n": 1}]),
        (["1", "2", "3"], {"result": [[1, 2], [None, 3]]}, [[1, 2], [None, 3]]),
        (["[1, 2]", "[3]"], {"result": [[1, 2], [3]]}, [[1, 2], [3]]),
        (["a", "b"], ["a", "b"], ["a", "b"]),
        # A name has information, so it is kept.
        (["21"], {"degrees": 21}, {"degrees": 21}),
        (["a", "b"], {"names": ["a", "b"]}, {"names": ["a", "b"]}),
        (["hello"], {"path": "a.txt", "content": "hello"}, {"path": "a.txt", "content": "hello"}),
    ],
)
def test_a_text_that_repeats_structured_content_is_omitted(texts: list[str], structured: object, told: object) -> None:
    assert value_of(result(*map(text, texts), structured=structured)) == told


@pytest.mark.parametrize(
    ("texts", "structured", "told"),
    [
        (["a", "more"], {"result": "a"}, ["a", "more"]),
        (["a", "more"], {"content": "a"}, ["a", "more"]),
        (["other"], {"content": "a"}, [{"content": "a"}, "other"]),
        (["b", "a"], {"result": ["a", "b"]}, [{"result": ["a", "b"]}, "b", "a"]),
        (["a"], {"result": ["a", "b"]}, [{"result": ["a", "b"]}, "a"]),
        (["5"], {"n": 5, "pages": 7}, [{"n": 5, "pages": 7}, "5"]),
        (["[" * 100_000], {"n": 1}, [{"n": 1}, "[" * 100_000]),
        ([], {"content": "a"}, {"content": "a"}),
        ([], {"result": []}, {"result": []}),
    ],
)
def test_a_text_that_differs_from_structured_content_is_kept(
    texts: list[str], structured: object, told: object
) -> None:
    assert value_of(result(*map(text, texts), structured=structured)) == told


def test_structured_content_that_repeats_the_blocks_is_omitted() -> None:
    image = {"type": "image", "data": DATA, "mimeType": "image/png"}
    assert value_of(result(image, structured={"content": [image]})) == File("image/png", data=b"bytes")
    assert value_of(result(text("a"), structured={"content": [text("a")]})) == "a"
    more = {"content": [image], "width": 3}
    assert value_of(result(image, structured=more)) == [more, File("image/png", data=b"bytes")]


def test_images_and_audio_are_converted_to_files() -> None:
    image = {"type": "image", "data": DATA, "mimeType": "image/png"}
    sound = {"type": "audio", "data": DATA, "mimeType": "audio/wav"}
    assert value_of(result(image, sound)) == [File("image/png", data=b"bytes"), File("audio/wav", data=b"bytes")]


def test_resources_are_converted_to_their_content_and_links_to_names() -> None:
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


@pytest.mark.parametrize("data", ["!", "é"])
def test_a_file_with_invalid_base64_is_refused(data: str) -> None:
    with pytest.raises(ValueError, match="the server sent a file that is not base64"):
        value_of(result({"type": "image", "data": data, "mimeType": "image/png"}))


def test_an_error_result_is_converted_to_text() -> None:
    assert error_text_of(result(text("a"), text("b"))) == "a\nb"
    assert error_text_of(result(structured={"code": 1})) == '{"code": 1}'
    assert error_text_of(result()) == "it failed, and gave no reason"


def test_structured_content_is_also_returned_as_data() -> None:
    wrapped = output_of(result(text("4 cents"), structured={"cents": 4}))
    assert wrapped == ToolOutput([{"cents": 4}, "4 cents"], data=Data("structured", {"cents": 4}))
    alone = output_of(result(structured={"cents": 4}))
    assert alone == ToolOutput({"cents": 4}, data=Data("structured", {"cents": 4}))
    assert output_of(result(text("a"), structured={"content": [text("a")]})) == "a"
    assert output_of(result(text("a"))) == "a"


def test_structured_content_beyond_the_limit_is_only_in_the_value() -> None:
    large = {"rows": ["x" * 100]}
    within, beyond = (output_of(result(structured=large), limit) for limit in (113, 112))
    assert within == ToolOutput(large, data=Data("structured", large))
    assert beyond == large
    assert output_of(result(structured={"n": 1}), 0) == {"n": 1}


def test_structured_content_with_nan_is_not_sent_to_a_front_end() -> None:
    output = output_of(result(structured={"n": float("inf")}))
    assert output == {"n": float("inf")}
