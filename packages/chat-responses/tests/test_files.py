from __future__ import annotations

from typing import Any

import pytest
from chat_core.errors import UnsupportedPartError
from chat_core.messages import Embedding, File, Opaque, Reasoning, Structured, Text
from chat_responses import ResponsesDialect
from chat_responses.files import content_part, file_part

DIALECT = ResponsesDialect(model="m", provider="p")


def own(**data: Any) -> Opaque:
    return Opaque("p", data)


@pytest.mark.parametrize(
    ("file", "part"),
    [
        (File("image/png", url="https://h/a.png"), {"type": "input_image", "image_url": "https://h/a.png"}),
        (File("image/png", data=b"x"), {"type": "input_image", "image_url": "data:image/png;base64,eA=="}),
        (File("image/*", opaque=own(file_id="file-1")), {"type": "input_image", "file_id": "file-1"}),
        (
            File("image/png", url="https://h/a.png", opaque=own(detail="low", part={"cache": 1})),
            {"type": "input_image", "image_url": "https://h/a.png", "detail": "low", "cache": 1},
        ),
        (File("application/pdf", url="https://h/a.pdf"), {"type": "input_file", "file_url": "https://h/a.pdf"}),
        (
            File("application/pdf", data=b"x", name="a.pdf"),
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,eA=="},
        ),
        (
            File("text/plain", url="data:text/plain;base64,eA=="),
            {"type": "input_file", "filename": "file.plain", "file_data": "data:text/plain;base64,eA=="},
        ),
        (File("application/pdf", opaque=own(file_id="file-1")), {"type": "input_file", "file_id": "file-1"}),
        (
            File("application/pdf", opaque=own(file_id="file-1", detail="high")),
            {"type": "input_file", "file_id": "file-1", "detail": "high"},
        ),
        (
            File("application/pdf", data=b"x", name="a.pdf", opaque=own(detail="low")),
            {
                "type": "input_file",
                "filename": "a.pdf",
                "file_data": "data:application/pdf;base64,eA==",
                "detail": "low",
            },
        ),
    ],
)
def test_a_file_is_sent_as_bytes_by_url_or_by_id(file: File, part: dict[str, object]) -> None:
    assert file_part(file, DIALECT) == part


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (File("audio/wav", data=b"x"), r"File\(mime='audio/wav'\).*transcript"),
        (File("video/mp4", url="https://h/a.mp4"), "accepts no audio or video"),
        (File("image/svg+xml", data=b"<svg/>"), "PNG, JPEG, WebP or GIF"),
        (File("image/png", opaque=Opaque("q", {"file_id": "x"})), "another provider"),
        (File("application/pdf", opaque=Opaque("q", {"file_id": "x"})), "another provider"),
    ],
)
def test_a_file_that_the_api_cannot_carry_is_rejected_by_name(file: File, words: str) -> None:
    with pytest.raises(UnsupportedPartError, match=words):
        file_part(file, DIALECT)


def test_a_text_is_sent_with_the_opaque_fields_of_its_own_provider() -> None:
    assert content_part(Text("a"), DIALECT) == {"type": "input_text", "text": "a"}
    assert content_part(Text("a", own(part={"cache": 1})), DIALECT) == {"type": "input_text", "text": "a", "cache": 1}
    assert content_part(Text("a", Opaque("q", {"part": {"cache": 1}})), DIALECT) == {"type": "input_text", "text": "a"}


def test_a_structured_part_is_sent_as_json_text() -> None:
    assert content_part(Structured({"a": 1}), DIALECT) == {"type": "input_text", "text": '{"a":1}'}


def test_an_image_url_is_sent_as_an_image_content_part() -> None:
    assert content_part(File("image/png", url="https://h/a"), DIALECT)["type"] == "input_image"


def test_a_part_that_content_cannot_carry_is_rejected_by_name() -> None:
    with pytest.raises(UnsupportedPartError, match="Embedding of 2 numbers"):
        content_part(Embedding((1.0, 2.0)), DIALECT)
    with pytest.raises(UnsupportedPartError, match="Reasoning"):
        content_part(Reasoning("Hm"), DIALECT)
