from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from chat_core.errors import InvalidDocumentError, UsageError
from chat_core.messages import (
    Embedding,
    File,
    Messages,
    Opaque,
    ProviderPart,
    Reasoning,
    Recalled,
    RecalledNote,
    Structured,
    Text,
    Turn,
)
from chat_core.messages.codec import schema


def test_parts_are_immutable_and_compare_by_value() -> None:
    assert Text("a") == Text("a")
    assert Reasoning("a", "signed") != Reasoning("a")
    assert Structured({"a": [1]}) == Structured({"a": [1]})
    assert Embedding((1.0,)) == Embedding((1.0,))
    assert ProviderPart("claude", "k", {"a": 1}) != ProviderPart("gemini", "k", {"a": 1})
    with pytest.raises(AttributeError):
        Text("a").text = "b"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue] - that is the test


def test_file_with_both_data_and_url_raises() -> None:
    with pytest.raises(UsageError, match="both data and url"):
        File("a/b", data=b"", url="https://example.com")


def test_file_without_content_raises() -> None:
    with pytest.raises(UsageError, match="got no content"):
        File("a/b")


def test_file_may_have_only_a_provider_id_or_empty_data() -> None:
    assert File("a/b", opaque=Opaque("openai", {"file_id": "f"})).data is None
    assert File("a/b", data=b"").data == b""


def test_from_path_reads_the_file_immediately(tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(b"\x89PNG")
    file = File.from_path(path)
    path.unlink()
    assert (file.mime, file.data, file.name) == ("image/png", b"\x89PNG", "cat.png")
    assert file.kind == "image"


def test_from_url_does_not_fetch_and_guesses_the_mime_type_from_the_path() -> None:
    file = File.from_url("https://example.invalid/a.pdf?download=1#page.png")
    assert (file.mime, file.url, file.data) == (
        "application/pdf",
        "https://example.invalid/a.pdf?download=1#page.png",
        None,
    )
    assert file.kind == "application"


def test_file_without_a_guessable_mime_type_needs_an_explicit_one(tmp_path: Path) -> None:
    path = tmp_path / "noext"
    path.write_bytes(b"x")
    with pytest.raises(UsageError, match="pass mime="):
        File.from_path(path)
    with pytest.raises(UsageError, match="pass mime="):
        File.from_url("https://example.invalid/noext")
    assert File.from_path(path, "text/plain").mime == "text/plain"
    assert File.from_url("https://example.invalid/noext", "text/plain").mime == "text/plain"


def test_repr_of_a_file_does_not_show_its_bytes() -> None:
    assert "secret" not in repr(File("a/b", data=b"secret"))


@pytest.mark.parametrize("value", [math.nan, {1: 2}, b"bytes", [{"a": math.inf}], {"a": {1}}, object()])
def test_structured_raises_for_a_value_that_is_not_json(value: object) -> None:
    with pytest.raises(UsageError, match=r"Structured\(\) needs JSON"):
        Structured(value)


def test_structured_accepts_any_json_value() -> None:
    value = {"a": [1, 2.5, None, True, "x"]}
    assert Structured(value).value == value


NOTES = Recalled(
    (
        RecalledNote("Ana drinks tea.", "Ana", datetime(2025, 3, 1, tzinfo=UTC), 0.5, "f1", {"weight": 2}),
        RecalledNote("Ana lives in Rome."),
    ),
    {"query": "tea"},
)


def test_recalled_notes_are_stored_with_their_unknown_fields() -> None:
    messages = Messages.from_user("What do I drink?")
    messages.append("user", Turn([NOTES], by="engine"))

    document = messages.to_json()

    assert (
        '{"type":"recalled","notes":[{"text":"Ana drinks tea.","source":"Ana","said_at":"2025-03-01T00:00:00+00:00",'
        '"confidence":0.5,"id":"f1","weight":2},{"text":"Ana lives in Rome."}],"query":"tea"}'
    ) in document
    assert Messages.from_json(document) == messages
    assert Messages.from_json(document).to_json() == document
    jsonschema.validate(json.loads(document), schema())


@pytest.mark.parametrize(
    ("field", "value"),
    [("confidence", 2), ("confidence", "high"), ("confidence", True), ("said_at", "2025-03-01"), ("text", None)],
)
def test_malformed_recalled_note_raises_with_its_path(field: str, value: object) -> None:
    note = {"text": "Ana drinks tea.", field: value}
    turn = {"parts": [{"type": "recalled", "notes": [note]}], "created_at": "2025-03-01T00:00:00+00:00"}
    document = {"version": 1, "contents": [{"role": "user", "turns": [turn]}]}

    with pytest.raises(InvalidDocumentError, match=rf"notes\[0\]\.{field}"):
        Messages.from_json(json.dumps(document))


def test_recalled_note_raises_without_a_time_zone_or_with_confidence_above_one() -> None:
    with pytest.raises(UsageError, match="has no time zone"):
        RecalledNote("a", said_at=datetime(2025, 3, 1))  # noqa: DTZ001 - that is the test
    with pytest.raises(UsageError, match=r"between 0 and 1, not 1\.5"):
        RecalledNote("a", confidence=1.5)
