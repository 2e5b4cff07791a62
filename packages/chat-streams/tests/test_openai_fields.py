"""Fields of requests in the format of OpenAI's API."""

from __future__ import annotations

import pytest
from chat_core.messages import File, Text
from chat_streams import ClientInputError
from chat_streams.openai.fields import read_content, read_flag, read_options, refuse_other_fields


def test_message_content_may_be_a_text_or_a_list() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,cG5n"}
    linked = {"type": "input_image", "image_url": "https://example.org/a.png"}
    file = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"}

    assert read_content("Hi.") == [Text("Hi.")]
    assert read_content([{"type": "input_text", "text": "Hi."}, image, linked, file]) == [
        Text("Hi."),
        File("image/png", data=b"png"),
        File("image/png", url="https://example.org/a.png"),
        File("application/pdf", data=b"pdf", name="a.pdf"),
    ]


@pytest.mark.parametrize(
    "content",
    [
        3,
        [3],
        [{"type": "input_audio"}],
        [{"type": "input_text"}],
        [{"type": "input_image", "file_id": "file-1"}],
        [{"type": "input_image", "image_url": "data:image/png;base64,?"}],
        [{"type": "input_image", "image_url": "data:image/png;base64,é"}],
    ],
)
def test_unsupported_content_is_refused(content: object) -> None:
    with pytest.raises(ClientInputError):
        read_content(content)


def test_an_unsupported_field_that_is_not_empty_is_refused() -> None:
    refuse_other_fields({"model": "m", "metadata": {}, "seed": None}, {"model"})

    with pytest.raises(ClientInputError, match="'seed'"):
        refuse_other_fields({"model": "m", "seed": 3}, {"model"})


def test_options_and_flags_of_the_wrong_type_are_refused() -> None:
    options = read_options({"temperature": 0.5, "max_tokens": 9}, "max_tokens")

    assert (options.temperature, options.top_p, options.max_tokens) == (0.5, None, 9)
    with pytest.raises(ClientInputError):
        read_options({"temperature": "hot"}, "max_tokens")
    with pytest.raises(ClientInputError):
        read_flag({"stream": "yes"}, "stream")
