"""Native tools with which OpenAI searches the web or uploaded files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from chat_core.arguments import require_optional_text, require_text
from chat_core.errors import UsageError

from chat_openai.native import NativeTool, require_range, require_texts, without_none

_COUNTRY_CODE_LENGTH = 2
_MAX_RESULTS = 50

ContextSize: TypeAlias = Literal["low", "medium", "high"]
Comparison: TypeAlias = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UserLocation:
    """The approximate location of the user. If no field is set, the server assumes no location.

    Attributes:
        country: the ISO 3166-1 country code of two letters, such as `"NL"`.
        region: the region or state, as free text.
        city: the city, as free text.
        timezone: the IANA time zone, such as `"Europe/Amsterdam"`.

    Raises:
        UsageError: `country` does not consist of two letters.
    """

    country: str | None = None
    region: str | None = None
    city: str | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        require_optional_text(country=self.country)
        if self.country is not None and not (len(self.country) == _COUNTRY_CODE_LENGTH and self.country.isalpha()):
            msg = f"UserLocation(country=…) needs an ISO 3166-1 code of two letters, such as 'NL', not {self.country!r}"
            raise UsageError(msg)

    def request_fields(self) -> dict[str, object]:
        """Return the value of `user_location` in the declaration of the search tool."""
        location = {"country": self.country, "region": self.region, "city": self.city, "timezone": self.timezone}
        return {"type": "approximate", **without_none(location)}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WebSearch(NativeTool):
    """A tool that searches the web. The text of the response cites the results.

    Attributes:
        search_context_size: amount of text from search results that the model reads.
        user_location: the approximate location of the user.
        allowed_domains: the only domains to search, including their subdomains.
        live: whether pages may be fetched from the web. `False` restricts the search to the server's cache.
        with_sources: whether responses include all consulted sources, not only the cited sources.
        tool: the version of the tool. Preview versions do not support `allowed_domains` and `live`.

    Raises:
        UsageError: `allowed_domains` or `live` is set for a preview version.
    """

    search_context_size: ContextSize | None = None
    user_location: UserLocation | None = None
    allowed_domains: tuple[str, ...] = ()
    live: bool | None = None
    with_sources: bool = False
    tool: Literal["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"] = (
        "web_search"
    )

    def __post_init__(self) -> None:
        require_texts("WebSearch", "allowed_domains", self.allowed_domains)
        require_text(tool=self.tool)
        if "preview" in self.tool and (self.allowed_domains or self.live is not None):
            msg = f"{self.tool!r} does not support allowed_domains and live: remove them, or use tool='web_search'"
            raise UsageError(msg)

    def declaration(self) -> dict[str, object]:
        """Return the tool's entry in the request field `tools`."""
        settings = {
            "search_context_size": self.search_context_size,
            "user_location": None if self.user_location is None else self.user_location.request_fields(),
            "filters": {"allowed_domains": list(self.allowed_domains)} if self.allowed_domains else None,
            "external_web_access": self.live,
        }
        return {"type": self.tool, **without_none(settings)}

    def includes(self) -> tuple[str, ...]:
        """Return the entry for consulted sources if `with_sources` is set."""
        return ("web_search_call.action.sources",) if self.with_sources else ()


@final
@dataclass(frozen=True, slots=True)
class Where:
    """A condition on an attribute of a file, such as `Where("year", "gte", 2024)`.

    Attributes:
        key: the name of the attribute.
        comparison: the comparison operator.
        value: the value to compare with. `in` and `nin` need a tuple of values.

    Raises:
        UsageError: `in` or `nin` has a single value, or another operator has a tuple.
    """

    key: str
    comparison: Comparison
    value: str | float | bool | tuple[str | float, ...]

    def __post_init__(self) -> None:
        require_text(key=self.key, comparison=self.comparison)
        if isinstance(self.value, tuple) != (self.comparison in {"in", "nin"}):
            msg = f"{self.comparison!r} does not accept {self.value!r}: only 'in' and 'nin' take a tuple"
            raise UsageError(msg)

    def request_fields(self) -> dict[str, object]:
        """Return the condition as a value of `filters` in the declaration of the search tool."""
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        return {"type": self.comparison, "key": self.key, "value": value}


@final
@dataclass(frozen=True, slots=True, init=False)
class AllOf:
    """A condition that is true if all of its filters are true, such as `AllOf(Where(…), AnyOf(…))`."""

    filters: tuple[Filter, ...]

    def __init__(self, *filters: Filter) -> None:
        object.__setattr__(self, "filters", _require_filters("AllOf", filters))

    def request_fields(self) -> dict[str, object]:
        """Return the condition as a value of `filters` in the declaration of the search tool."""
        return {"type": "and", "filters": [inner.request_fields() for inner in self.filters]}


@final
@dataclass(frozen=True, slots=True, init=False)
class AnyOf:
    """A condition that is true if at least one of its filters is true, such as `AnyOf(Where(…), Where(…))`."""

    filters: tuple[Filter, ...]

    def __init__(self, *filters: Filter) -> None:
        object.__setattr__(self, "filters", _require_filters("AnyOf", filters))

    def request_fields(self) -> dict[str, object]:
        """Return the condition as a value of `filters` in the declaration of the search tool."""
        return {"type": "or", "filters": [inner.request_fields() for inner in self.filters]}


Filter: TypeAlias = Where | AllOf | AnyOf
"""A filter that selects files by their attributes."""


def _require_filters(name: str, filters: tuple[Filter, ...]) -> tuple[Filter, ...]:
    if not filters:
        msg = f"{name}() needs at least one condition, such as {name}(Where('year', 'gte', 2024))"
        raise UsageError(msg)
    for inner in filters:
        if not isinstance(inner, Where | AllOf | AnyOf):
            msg = f"{name}() takes Where(…), AllOf(…) and AnyOf(…), not {inner!r}"
            raise UsageError(msg)
    return filters


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Settings that decide how file search results are ranked.

    Attributes:
        ranker: the name of the ranker in OpenAI's API.
        score_threshold: the lowest score of a result, from 0 to 1.
        embedding_weight: the weight of semantic similarity in hybrid search. Needs `text_weight`.
        text_weight: the weight of keyword matches in hybrid search. Needs `embedding_weight`.

    Raises:
        UsageError: the threshold is out of range, or only one weight is set.
    """

    ranker: str | None = None
    score_threshold: float | None = None
    embedding_weight: float | None = None
    text_weight: float | None = None

    def __post_init__(self) -> None:
        require_range("score_threshold", self.score_threshold, 0, 1)
        if (self.embedding_weight is None) != (self.text_weight is None):
            msg = "Ranking() needs both embedding_weight and text_weight, or neither of them: set the other weight too"
            raise UsageError(msg)

    def request_fields(self) -> dict[str, object]:
        """Return the value of `ranking_options` in the declaration of the search tool."""
        weights = {"embedding_weight": self.embedding_weight, "text_weight": self.text_weight}
        settings = {
            "ranker": self.ranker,
            "score_threshold": self.score_threshold,
            "hybrid_search": weights if self.text_weight is not None else None,
        }
        return without_none(settings)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileSearch(NativeTool):
    """A tool that searches files in vector stores. The text of the response cites the results.

    Attributes:
        vector_store_ids: the ids of the vector stores to search.
        max_results: the largest number of results, from 1 to 50.
        ranking: the ranking of the results.
        filters: the filter that selects the files to search by their attributes.
        with_results: whether responses include all results, not only the cited sources.

    Raises:
        UsageError: there is no vector store, or `max_results` is out of range.
    """

    vector_store_ids: tuple[str, ...]
    max_results: int | None = None
    ranking: Ranking | None = None
    filters: Filter | None = None
    with_results: bool = False

    def __post_init__(self) -> None:
        require_texts("FileSearch", "vector_store_ids", self.vector_store_ids)
        if not self.vector_store_ids:
            msg = "FileSearch() needs the id of at least one vector store: vector_store_ids=('vs_…',)"
            raise UsageError(msg)
        require_range("max_results", self.max_results, 1, _MAX_RESULTS)

    def declaration(self) -> dict[str, object]:
        """Return the tool's entry in the request field `tools`."""
        settings = {
            "max_num_results": self.max_results,
            "ranking_options": None if self.ranking is None else self.ranking.request_fields(),
            "filters": None if self.filters is None else self.filters.request_fields(),
        }
        return {"type": "file_search", "vector_store_ids": list(self.vector_store_ids), **without_none(settings)}

    def includes(self) -> tuple[str, ...]:
        """Return the `include` entry that requests the search results, if `with_results` is set."""
        return ("file_search_call.results",) if self.with_results else ()
