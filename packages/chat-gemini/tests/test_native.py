from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_gemini.native import (
    CodeExecution,
    FileSearch,
    GoogleMaps,
    GoogleSearch,
    GoogleSearchRetrieval,
    NativeTool,
    UrlContext,
)

SINCE, UNTIL = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("tool", "declared"),
    [
        (GoogleSearch(), {"googleSearch": {}}),
        (GoogleSearch(exclude=("a.com",)), {"googleSearch": {"excludeDomains": ["a.com"]}}),
        (
            GoogleSearch(since=SINCE, until=UNTIL),
            {
                "googleSearch": {
                    "timeRangeFilter": {
                        "startTime": "2026-01-01T00:00:00+00:00",
                        "endTime": "2026-02-01T00:00:00+00:00",
                    }
                }
            },
        ),
        (GoogleSearchRetrieval(), {"googleSearchRetrieval": {}}),
        (
            GoogleSearchRetrieval(threshold=0.0),
            {"googleSearchRetrieval": {"dynamicRetrievalConfig": {"mode": "MODE_DYNAMIC", "dynamicThreshold": 0.0}}},
        ),
        (UrlContext(), {"urlContext": {}}),
        (CodeExecution(), {"codeExecution": {}}),
        (GoogleMaps(), {"googleMaps": {}}),
        (GoogleMaps(widget=True), {"googleMaps": {"enableWidget": True}}),
        (FileSearch(stores=("fileSearchStores/a",)), {"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/a"]}}),
        (
            FileSearch(stores=("a",), top_k=3, filter="x = 1"),
            {"fileSearch": {"fileSearchStoreNames": ["a"], "topK": 3, "metadataFilter": "x = 1"}},
        ),
    ],
)
def test_a_native_tool_is_declared_with_its_settings(tool: NativeTool, declared: object) -> None:
    assert tool.declaration() == declared


def test_google_maps_returns_its_location_as_retrieval_config() -> None:
    maps = GoogleMaps(latitude=0.0, longitude=12.5, language="it")
    assert maps.retrieval() == {"latLng": {"latitude": 0.0, "longitude": 12.5}, "languageCode": "it"}
    assert GoogleMaps().retrieval() == {}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"latitude": 1.0}, "both"),
        ({"longitude": 1.0}, "both"),
        ({"latitude": 91.0, "longitude": 0.0}, "latitude"),
        ({"latitude": 0.0, "longitude": -181.0}, "longitude"),
    ],
)
def test_google_maps_rejects_an_incomplete_or_invalid_location(settings: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        GoogleMaps(latitude=settings.get("latitude"), longitude=settings.get("longitude"))


def test_google_search_requires_both_ends_of_a_period_with_time_zones() -> None:
    with pytest.raises(UsageError, match="both since and until"):
        GoogleSearch(since=SINCE)
    with pytest.raises(UsageError, match="zone"):
        GoogleSearch(since=datetime(2026, 1, 1), until=UNTIL)  # noqa: DTZ001 - this is what is refused


def test_a_retrieval_threshold_outside_zero_to_one_is_rejected() -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        GoogleSearchRetrieval(threshold=2)


def test_file_search_rejects_an_empty_or_invalid_store_list() -> None:
    wrong: list[Any] = [(), "a"]
    for stores in wrong:
        with pytest.raises(UsageError, match="store name"):
            FileSearch(stores=stores)
