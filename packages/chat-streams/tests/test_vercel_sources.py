"""Sources that a model cites, in the formats of the providers."""

from __future__ import annotations

import pytest
from chat_core.messages import Opaque, Part, ProviderPart, Text
from chat_streams.vercel.sources import find_sources

PAGE = {"url": "https://example.org/rain", "title": "Rain"}


@pytest.mark.parametrize(
    "part",
    [
        ProviderPart("openai", "annotations", {"annotations": [{"type": "url_citation", "url_citation": PAGE}]}),
        Text("Rain.", Opaque("openai", {"part": {"annotations": [{"type": "url_citation", **PAGE}]}})),
        Text("Rain.", Opaque("anthropic", {"citations": [{"type": "web_search_result_location", **PAGE}]})),
    ],
    ids=["completions", "responses", "claude"],
)
def test_a_cited_page_is_sent_as_a_source(part: Part) -> None:
    source = {"type": "source-url", "sourceId": PAGE["url"], **PAGE}

    assert find_sources([part]) == [source]
    assert find_sources([part, part]) == [source]


def test_a_cited_document_is_sent_as_a_source_with_its_title() -> None:
    cited = {"type": "char_location", "document_title": "The manual", "document_index": 0}

    assert find_sources([Text("Rain.", Opaque("anthropic", {"citations": [cited]}))]) == [
        {"type": "source-document", "sourceId": "The manual", "mediaType": "text/plain", "title": "The manual"}
    ]


def test_other_provider_data_is_not_a_source() -> None:
    assert find_sources([Text("Rain.", Opaque("openai", {"annotations": [{"type": "file_path"}, 3]})), Text("x")]) == []
