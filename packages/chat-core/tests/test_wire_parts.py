from __future__ import annotations

import pytest
from chat_core.errors import UnsupportedPartError
from chat_core.messages import Embedding, File, FunctionCall, Opaque, Part, Reasoning, Text, Turn
from chat_core.wire.parts import arguments_text, file_url, own_data, sole_text, unsupported_part


def test_own_data_returns_opaque_data_of_the_same_provider_only() -> None:
    opaque = Opaque("ours", {"a": 1})
    assert own_data(opaque, "ours") == {"a": 1}
    assert own_data(opaque, "theirs") == {}
    assert own_data(None, "ours") == {}


def test_sole_text_is_the_text_of_a_turn_without_any_other_content() -> None:
    assert sole_text(Turn([Text("a")])) == "a"
    assert sole_text(Turn([Text("")])) == ""
    others: list[list[Part]] = [[], [Text("a"), Text("b")], [Text("a", Opaque("p", {}))], [Reasoning("a")]]
    assert [sole_text(Turn(parts)) for parts in others] == [None] * 4


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        ('{"cents": 1.0} ', '{"cents": 1.0} '),
        ('{"cents": 1', '{"INVALID_JSON":"{\\"cents\\": 1"}'),
        ('"x"', '{"INVALID_JSON":"\\"x\\""}'),
        (" ", "{}"),
        ("null", "{}"),
    ],
)
def test_arguments_are_the_text_of_an_object(raw: str, sent: str) -> None:
    assert arguments_text(FunctionCall.parse("pay", raw)) == sent


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (Text("x"), "Text"),
        (Embedding((1.0, 2.0)), "Embedding of 2 numbers"),
        (File("audio/wav", data=b"x"), "File(mime='audio/wav')"),
        (File("audio/wav", url="https://host/a.wav"), "File(mime='audio/wav')"),
    ],
)
def test_unsupported_part_error_names_the_part(part: Part, name: str) -> None:
    error = unsupported_part(part, "the wire of p")
    assert isinstance(error, UnsupportedPartError)
    assert (
        str(error)
        == f"the wire of p does not accept {name} in this message: remove the part, or send its content as text"
    )


def test_unsupported_part_error_shows_the_url_flag_and_the_reason() -> None:
    error = unsupported_part(File("audio/wav", url="https://host/a.wav"), "the wire of p", "send text", show_url=True)
    assert str(error) == "the wire of p does not accept File(mime='audio/wav', by URL) in this message: send text"


@pytest.mark.parametrize(
    ("file", "url"),
    [
        (File("image/png", b"a", name="a.png"), "data:image/png;base64,YQ=="),
        (File("image/png", url="https://host/a.png"), "https://host/a.png"),
        (File("image/png", opaque=Opaque("x", {"file_id": "f-1"})), ""),
    ],
)
def test_the_url_of_a_file_contains_its_bytes(file: File, url: str) -> None:
    assert file_url(file) == url
