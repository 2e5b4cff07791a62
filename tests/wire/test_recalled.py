"""Recalled notes on every wire: a corpus of stored injections reaches the model only as marked and escaped data."""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import UTC, datetime
from typing import cast

import pytest
from chat_core.messages import Messages, Recalled, RecalledNote, Text, Turn

from .injections import INJECTIONS
from .test_views import WIRES

SAID_AT = datetime(2025, 3, 1, tzinfo=UTC)


def asked_with(*notes: RecalledNote) -> Messages:
    messages = Messages.from_system("Be kind.")
    messages.user("How are you?")
    messages.append("model", Turn([Text("Well.")], finish_reason="stop"))
    messages.user("What do I drink?")
    messages.append("user", Turn([Recalled(notes)], by="engine"))
    return messages


def texts(value: object, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], str]]:
    """Return all strings of a request with the keys and roles that lead to them."""
    if isinstance(value, str):
        return [(path, value)]
    if isinstance(value, list):
        return [found for item in cast("list[object]", value) for found in texts(item, path)]
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        role = fields.get("role")
        inner = (*path, role) if isinstance(role, str) else path
        return [found for key, item in fields.items() for found in texts(item, (*inner, key))]
    return []


def block_of(body: bytes) -> tuple[tuple[str, ...], list[str]]:
    """Return the place and the lines of the only text of a request that contains recalled notes."""
    found = [(path, text) for path, text in texts(json.loads(body)) if "[Notes from memory" in text]
    assert len(found) == 1
    path, text = found[0]
    return path, text.split("\n")


def test_the_corpus_has_enough_injections() -> None:
    assert len(INJECTIONS) >= 40


@pytest.mark.parametrize("injection", INJECTIONS)
@pytest.mark.parametrize("wire", WIRES)
def test_an_injection_stays_inside_the_marked_block(wire: str, injection: str) -> None:
    attack = INJECTIONS[injection]
    plain = WIRES[wire](asked_with(RecalledNote("PLAIN", "PLAIN", SAID_AT, 0.5, "PLAIN")))
    body = WIRES[wire](asked_with(RecalledNote(attack, attack, SAID_AT, 0.5, attack)))

    place, lines = block_of(body)
    expected_place, (heading, line, end) = block_of(plain)
    assert place == expected_place
    assert "system" not in place
    assert (lines[0], lines[-1], len(lines)) == (heading, end, 3), "the note is one line between the same two lines"
    note = json.loads(lines[1])
    assert note == {"note": note["note"], "source": note["note"], "date": "2025-03-01", "confidence": 0.5}
    assert not re.search(r"[<>\[\]`]", unicodedata.normalize("NFKC", lines[1]))
    assert json.loads(unicodedata.normalize("NFKC", lines[1])).keys() == note.keys(), "some tokenizers apply NFKC"
    categories = {unicodedata.category(character) for character in lines[1]}
    assert not categories & {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
    before, after = plain.split(json.dumps(line)[1:-1].encode())
    assert body.startswith(before)
    assert body.endswith(after), "nothing outside of the note changes"


@pytest.mark.parametrize("wire", WIRES)
def test_notes_are_sent_directly_before_the_question(wire: str) -> None:
    notes = RecalledNote("Ana drinks tea.", "Ana", SAID_AT, 0.87, "f1"), RecalledNote("Ana lives in Rome.")
    body = WIRES[wire](asked_with(*notes))

    found = [text for _, text in texts(json.loads(body))]
    block = next(text for text in found if "[Notes" in text)
    assert found.index("Well.") < found.index(block) < found.index("What do I drink?")
    assert block.split("\n")[1:-1] == [
        '{"note": "Ana drinks tea.", "source": "Ana", "date": "2025-03-01", "confidence": 0.87}',
        '{"note": "Ana lives in Rome."}',
    ]
    assert "f1" not in body.decode()
