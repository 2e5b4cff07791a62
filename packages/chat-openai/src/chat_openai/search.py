"""The two searches that OpenAI runs itself: of the web, and of files that were uploaded to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from chat_core.errors import UsageError

from chat_openai.native import NativeTool, require_range, require_texts, without_none

_COUNTRY = 2
_MOST_RESULTS = 50

ContextSize: TypeAlias = Literal["low", "medium", "high"]
Comparison: TypeAlias = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UserLocation:
    """About where the user is. One that says nothing keeps the server from assuming a place.

    Attributes:
        country: two letters, like `"NL"`.
        region, city: in any words.
        timezone: like `"Europe/Amsterdam"`.

    Raises:
        UsageError: the country is not two letters.
    """

    country: str | None = None
    region: str | None = None
    city: str | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        if self.country is not None and not (len(self.country) == _COUNTRY and self.country.isalpha()):
            msg = f"UserLocation(country=…) is two letters, like 'NL' (ISO 3166-1), not {self.country!r}"
            raise UsageError(msg)

    def request_fields(self) -> dict[str, object]:
        """What a declaration says of it."""
        place = {"country": self.country, "region": self.region, "city": self.city, "timezone": self.timezone}
        return {"type": "approximate", **without_none(place)}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WebSearch(NativeTool):
    """Searches the web. What it finds is cited in the answer's text.

    Attributes:
        search_context_size: how much of what was found the model reads.
        user_location: about where the user is.
        allowed_domains: search these sites and what is below them, and no others.
        live: `False` searches only what the server has stored.
        with_sources: whether answers hold all that was consulted, and not only what is cited.
        tool: which of the API's versions of it. Only the plain one takes `allowed_domains` and `live`.

    Raises:
        UsageError: a preview of the tool is asked for what it does not have.
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
        if "preview" in self.tool and (self.allowed_domains or self.live is not None):
            msg = f"{self.tool!r} knows neither allowed_domains nor live: leave them out, or use tool='web_search'"
            raise UsageError(msg)

    def declaration(self) -> dict[str, object]:
        """What a request says of it."""
        settings = {
            "search_context_size": self.search_context_size,
            "user_location": None if self.user_location is None else self.user_location.request_fields(),
            "filters": {"allowed_domains": list(self.allowed_domains)} if self.allowed_domains else None,
            "external_web_access": self.live,
        }
        return {"type": self.tool, **without_none(settings)}

    def includes(self) -> tuple[str, ...]:
        """What was consulted, where it is wanted."""
        return ("web_search_call.action.sources",) if self.with_sources else ()


@final
@dataclass(frozen=True, slots=True)
class Where:
    """A condition on an attribute of files: `Where("year", "gte", 2024)`.

    Raises:
        UsageError: `in` and `nin` have no tuple, or another comparison has one.
    """

    key: str
    comparison: Comparison
    value: str | float | bool | tuple[str | float, ...]

    def __post_init__(self) -> None:
        if isinstance(self.value, tuple) != (self.comparison in {"in", "nin"}):
            msg = f"{self.comparison!r} cannot compare with {self.value!r}: 'in' and 'nin' take a tuple, others a value"
            raise UsageError(msg)

    def request_fields(self) -> dict[str, object]:
        """What a declaration says of it."""
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        return {"type": self.comparison, "key": self.key, "value": value}


@final
@dataclass(frozen=True, slots=True, init=False)
class AllOf:
    """All of these conditions hold: `AllOf(Where(…), AnyOf(…))`."""

    filters: tuple[Filter, ...]

    def __init__(self, *filters: Filter) -> None:
        object.__setattr__(self, "filters", _several("AllOf", filters))

    def request_fields(self) -> dict[str, object]:
        """What a declaration says of it."""
        return {"type": "and", "filters": [inner.request_fields() for inner in self.filters]}


@final
@dataclass(frozen=True, slots=True, init=False)
class AnyOf:
    """One of these conditions holds, or more: `AnyOf(Where(…), Where(…))`."""

    filters: tuple[Filter, ...]

    def __init__(self, *filters: Filter) -> None:
        object.__setattr__(self, "filters", _several("AnyOf", filters))

    def request_fields(self) -> dict[str, object]:
        """What a declaration says of it."""
        return {"type": "or", "filters": [inner.request_fields() for inner in self.filters]}


Filter: TypeAlias = Where | AllOf | AnyOf
"""Which files are searched, by their attributes."""


def _several(name: str, filters: tuple[Filter, ...]) -> tuple[Filter, ...]:
    if not filters:
        msg = f"{name}() needs a condition, like {name}(Where('year', 'gte', 2024))"
        raise UsageError(msg)
    for inner in filters:
        if not isinstance(inner, Where | AllOf | AnyOf):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"{name}() takes Where(…), AllOf(…) and AnyOf(…), not {inner!r}"
            raise UsageError(msg)
    return filters


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """How what was found in files is ranked.

    Attributes:
        ranker: the API's name for who ranks.
        score_threshold: from 0 to 1; what scores less is left out.
        embedding_weight, text_weight: how much meaning counts against words; both are said, or neither.

    Raises:
        UsageError: the threshold is out of its range, or one weight stands alone.
    """

    ranker: str | None = None
    score_threshold: float | None = None
    embedding_weight: float | None = None
    text_weight: float | None = None

    def __post_init__(self) -> None:
        require_range("score_threshold", self.score_threshold, 0, 1)
        if (self.embedding_weight is None) != (self.text_weight is None):
            msg = "Ranking() needs embedding_weight and text_weight, or neither: one is weighed against the other"
            raise UsageError(msg)

    def request_fields(self) -> dict[str, object]:
        """What a declaration says of it."""
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
    """Searches files in vector stores. What it finds is cited in the answer's text.

    Attributes:
        vector_store_ids: where to search.
        max_results: at most so many, 1 to 50.
        ranking: how they are ranked.
        filters: which files are searched, by their attributes.
        with_results: whether answers hold what was found, and not only what is cited.

    Raises:
        UsageError: there is no vector store, or a number is out of its range.
    """

    vector_store_ids: tuple[str, ...]
    max_results: int | None = None
    ranking: Ranking | None = None
    filters: Filter | None = None
    with_results: bool = False

    def __post_init__(self) -> None:
        require_texts("FileSearch", "vector_store_ids", self.vector_store_ids)
        if not self.vector_store_ids:
            msg = "FileSearch() needs the id of a vector store to search: vector_store_ids=('vs_…',)"
            raise UsageError(msg)
        require_range("max_results", self.max_results, 1, _MOST_RESULTS)

    def declaration(self) -> dict[str, object]:
        """What a request says of it."""
        settings = {
            "max_num_results": self.max_results,
            "ranking_options": None if self.ranking is None else self.ranking.request_fields(),
            "filters": None if self.filters is None else self.filters.request_fields(),
        }
        return {"type": "file_search", "vector_store_ids": list(self.vector_store_ids), **without_none(settings)}

    def includes(self) -> tuple[str, ...]:
        """What was found, where it is wanted."""
        return ("file_search_call.results",) if self.with_results else ()
