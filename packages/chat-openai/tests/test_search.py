"""The two search tools: declarations in requests, and refused settings."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from chat_core.errors import UsageError
from chat_openai import AllOf, AnyOf, FileSearch, NativeTool, Ranking, UserLocation, WebSearch, Where

DECLARATIONS: dict[str, tuple[NativeTool, dict[str, object]]] = {
    "the web": (WebSearch(), {"type": "web_search"}),
    "the web from a place": (
        WebSearch(
            search_context_size="medium",
            user_location=UserLocation(country="NL", region="Utrecht", city="Utrecht", timezone="Europe/Amsterdam"),
        ),
        {
            "type": "web_search",
            "search_context_size": "medium",
            "user_location": {
                "type": "approximate",
                "country": "NL",
                "region": "Utrecht",
                "city": "Utrecht",
                "timezone": "Europe/Amsterdam",
            },
        },
    ),
    "the web from nowhere": (
        WebSearch(user_location=UserLocation()),
        {"type": "web_search", "user_location": {"type": "approximate"}},
    ),
    "some sites": (
        WebSearch(allowed_domains=("example.org", "example.com"), live=False),
        {
            "type": "web_search",
            "filters": {"allowed_domains": ["example.org", "example.com"]},
            "external_web_access": False,
        },
    ),
    "a preview": (WebSearch(tool="web_search_preview"), {"type": "web_search_preview"}),
    "files": (FileSearch(vector_store_ids=("vs_1",)), {"type": "file_search", "vector_store_ids": ["vs_1"]}),
    "files in every detail": (
        FileSearch(
            vector_store_ids=("vs_1", "vs_2"),
            max_results=5,
            ranking=Ranking(ranker="auto", score_threshold=0.0, embedding_weight=0.7, text_weight=0.3),
            filters=AllOf(
                Where("year", "gte", 2024), AnyOf(Where("open", "eq", True), Where("city", "in", ("Ghent", "Utrecht")))
            ),
        ),
        {
            "type": "file_search",
            "vector_store_ids": ["vs_1", "vs_2"],
            "max_num_results": 5,
            "ranking_options": {
                "ranker": "auto",
                "score_threshold": 0.0,
                "hybrid_search": {"embedding_weight": 0.7, "text_weight": 0.3},
            },
            "filters": {
                "type": "and",
                "filters": [
                    {"type": "gte", "key": "year", "value": 2024},
                    {
                        "type": "or",
                        "filters": [
                            {"type": "eq", "key": "open", "value": True},
                            {"type": "in", "key": "city", "value": ["Ghent", "Utrecht"]},
                        ],
                    },
                ],
            },
        },
    ),
}


@pytest.mark.parametrize("case", DECLARATIONS)
def test_web_and_file_searches_are_sent_in_the_flat_form_of_the_api(case: str) -> None:
    tool, said = DECLARATIONS[case]
    assert tool.declaration() == said
    assert json.loads(json.dumps(tool.declaration())) == said


def test_a_user_location_keeps_its_fields() -> None:
    place = UserLocation(country="NL", city="Utrecht")
    assert (place.country, place.region, place.city, place.timezone) == ("NL", None, "Utrecht", None)
    assert place == UserLocation(country="NL", city="Utrecht")


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "a country in words": (lambda: UserLocation(country="Netherlands"), "two letters, such as 'NL'"),
    "a preview that filters": (
        lambda: WebSearch(tool="web_search_preview", allowed_domains=("example.org",)),
        "use tool='web_search'",
    ),
    "a preview that is not live": (lambda: WebSearch(tool="web_search_preview", live=False), "remove them"),
    "one site": (
        lambda: WebSearch(allowed_domains="example.org"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        r"allowed_domains=\('example.org',\)",
    ),
    "no store": (lambda: FileSearch(vector_store_ids=()), "needs the id of at least one vector store"),
    "no results": (lambda: FileSearch(vector_store_ids=("vs_1",), max_results=0), "max_results must be from 1 to 50"),
    "a score beyond one": (lambda: Ranking(score_threshold=2), "score_threshold must be from 0 to 1"),
    "one weight": (lambda: Ranking(text_weight=1), "or neither"),
    "one value for several": (lambda: Where("city", "in", "Ghent"), "only 'in' and 'nin' take a tuple"),
    "several values for one": (lambda: Where("city", "eq", ("Ghent",)), "only 'in' and 'nin' take a tuple"),
    "all of nothing": (AllOf, "needs at least one condition"),
    "any of nothing": (AnyOf, "needs at least one condition"),
    "a condition that is none": (
        lambda: AnyOf("city"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        "takes Where",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_an_invalid_setting_raises_an_error_that_explains_it(case: str) -> None:
    make, words = MISTAKES[case]
    with pytest.raises(UsageError, match=words):
        make()


def test_search_results_are_requested_only_if_enabled() -> None:
    assert WebSearch(with_sources=True).includes() == ("web_search_call.action.sources",)
    assert FileSearch(vector_store_ids=("vs_1",), with_results=True).includes() == ("file_search_call.results",)
    assert WebSearch().includes() == FileSearch(vector_store_ids=("vs_1",)).includes() == ()
