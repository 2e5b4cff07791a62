"""Citations: stored without loss, and whether their source may have changed."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from chat_core.errors import InvalidDocumentError
from chat_memory import (
    Citation,
    FileCitation,
    SessionCitation,
    SystemCitation,
    UserCitation,
    WebCitation,
    staleness,
)
from chat_memory.citations import citation_from_dict, citation_to_dict

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "citation",
    [
        SessionCitation("chat-17", 3, NOW),
        SessionCitation("chat-17"),
        FileCitation("notes.md", 1, 9, "c0ffee", "f00d", NOW),
        WebCitation("https://example.com/", NOW, "Example", "f00d", '"1"'),
        UserCitation("ana", NOW),
        SystemCitation("crm import", NOW),
    ],
)
def test_a_citation_is_decoded_as_it_was_encoded(citation: Citation) -> None:
    assert citation_from_dict(citation_to_dict(citation)) == citation


@pytest.mark.parametrize("document", [{}, {"kind": "rumor"}, {"kind": "web"}, {"kind": "user", "by": "a", "x": 1}])
def test_an_invalid_citation_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(InvalidDocumentError, match="is not a citation"):
        citation_from_dict(document)


def test_a_file_citation_is_stale_if_the_file_was_changed_or_removed(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.touch()
    for seconds, expected in ((0, "fresh"), (1, "fresh"), (2, "file_modified"), (-2, "file_modified")):
        os.utime(path, (NOW.timestamp(), NOW.timestamp() + seconds))
        assert staleness(FileCitation(str(path), modified=NOW), NOW) == expected
    assert staleness(FileCitation(str(path)), NOW) == "unknown"
    path.unlink()
    assert staleness(FileCitation(str(path), modified=NOW), NOW) == "file_not_found"


def test_a_web_citation_is_stale_after_seven_days() -> None:
    assert staleness(WebCitation("https://example.com/", NOW - timedelta(days=7)), NOW) == "fresh"
    late = NOW - timedelta(days=7, seconds=1)
    assert staleness(WebCitation("https://example.com/", late), NOW) == "age_exceeded"


def test_a_session_citation_is_always_fresh() -> None:
    assert staleness(SessionCitation("chat-17"), NOW) == "fresh"
    assert staleness(None, NOW) == "unknown"
