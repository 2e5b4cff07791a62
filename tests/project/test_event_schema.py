"""The JSON Schema of events is written from their classes."""

from __future__ import annotations

from .event_schema import FILE, write


def test_the_event_schema_is_up_to_date() -> None:
    assert FILE.read_text(encoding="utf-8") == write(), "write it anew: python -m tests.project.event_schema"
