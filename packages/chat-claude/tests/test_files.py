from __future__ import annotations

import pytest
from chat_claude import cached, document, search_result, uploaded
from chat_claude.parts import file_block, text_block
from chat_core.errors import UsageError
from chat_core.messages import File, Opaque, Text

PDF = File("application/pdf", data=b"%PDF-1.7", name="report.pdf")


def test_an_uploaded_file_is_sent_by_its_id() -> None:
    assert file_block(uploaded("file_1", "image/png"), "claude") == {
        "type": "image",
        "source": {"type": "file", "file_id": "file_1"},
    }
    assert file_block(uploaded("file_1", "application/pdf", name="r.pdf"), "claude") == {
        "type": "document",
        "source": {"type": "file", "file_id": "file_1"},
        "title": "r.pdf",
    }
    assert file_block(uploaded("file_1", "text/csv"), "claude") == {"type": "container_upload", "file_id": "file_1"}


def test_a_document_is_sent_with_title_context_and_citation_setting() -> None:
    block = file_block(document(PDF, title="Report", context="of 2026"), "claude")
    assert (block["title"], block["context"], block["citations"]) == ("Report", "of 2026", {"enabled": True})
    assert file_block(document(PDF, citations=False), "claude")["citations"] == {"enabled": False}
    assert file_block(document(PDF), "claude")["title"] == "report.pdf"


def test_cached_adds_a_cache_point_to_a_part() -> None:
    assert text_block(cached(Text("x")), "claude") == {
        "type": "text",
        "text": "x",
        "cache_control": {"type": "ephemeral"},
    }
    block = file_block(cached(document(PDF), "1h"), "claude")
    assert block["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert block["citations"] == {"enabled": True}


def test_cached_rejects_a_part_of_another_provider() -> None:
    with pytest.raises(UsageError, match="opaque data of gemini"):
        cached(Text("x", Opaque("gemini", {"a": 1})))


def test_search_result_creates_a_citable_block() -> None:
    part = search_result("Rivers", "https://a.b", "The Loire is long.", "So is the Rhône.")
    assert part.kind == "search_result"
    assert part.data["content"] == [
        {"type": "text", "text": "The Loire is long."},
        {"type": "text", "text": "So is the Rhône."},
    ]
    assert part.data["citations"] == {"enabled": True}
    with pytest.raises(UsageError, match="has no text"):
        search_result("Rivers", "https://a.b")
