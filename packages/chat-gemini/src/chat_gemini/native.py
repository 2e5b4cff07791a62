"""Tools that the Gemini server runs, and their options."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, final

from chat_core.arguments import require_number
from chat_core.errors import UsageError
from chat_core.wire.shapes import Json


class NativeTool(Protocol):
    """Protocol for tools that the server runs."""

    def declaration(self) -> Json:
        """Return the tool's entry in the `tools` list of a request."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleSearch:
    """A web search tool. The metadata of the response contains the sources (`groundingMetadata`).

    Attributes:
        exclude: domains to leave out.
        since, until: time range of the results, as aware datetimes; both or neither.
    """

    exclude: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if (self.since is None) != (self.until is None):
            msg = "GoogleSearch needs both since and until, or neither: set the missing one"
            raise UsageError(msg)
        for moment in (self.since, self.until):
            if moment is not None and moment.utcoffset() is None:
                msg = f"GoogleSearch needs aware datetimes, not {moment!r}: pass datetime(…, tzinfo=timezone.utc)"
                raise UsageError(msg)

    def declaration(self) -> Json:
        """Return the tool's entry in the `tools` list of a request."""
        settings: Json = {}
        if self.exclude:
            settings["excludeDomains"] = list(self.exclude)
        if self.since is not None and self.until is not None:
            settings["timeRangeFilter"] = {"startTime": self.since.isoformat(), "endTime": self.until.isoformat()}
        return {"googleSearch": settings}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleSearchRetrieval:
    """A web search tool for models before Gemini 2. A threshold decides whether the model searches.

    Attributes:
        threshold: minimum score for a search, from 0 (always search) to 1 (never search). Default: the server's.
    """

    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None:
            require_number("threshold", self.threshold)
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            msg = f"threshold must be between 0 and 1, not {self.threshold!r}"
            raise UsageError(msg)

    def declaration(self) -> Json:
        """Return the tool's entry in the `tools` list of a request."""
        if self.threshold is None:
            return {"googleSearchRetrieval": {}}
        dynamic = {"mode": "MODE_DYNAMIC", "dynamicThreshold": self.threshold}
        return {"googleSearchRetrieval": {"dynamicRetrievalConfig": dynamic}}


@final
@dataclass(frozen=True, slots=True)
class UrlContext:
    """A tool that reads web pages whose URLs are in the conversation.

    The metadata of the response contains `urlContextMetadata`.
    """

    def declaration(self) -> Json:
        """Return the tool's entry in the `tools` list of a request."""
        return {"urlContext": {}}


@final
@dataclass(frozen=True, slots=True)
class CodeExecution:
    """A tool that runs code written by the model. Code and output become `ProviderPart`s of the response."""

    def declaration(self) -> Json:
        """Return the tool's entry in the `tools` list of a request."""
        return {"codeExecution": {}}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleMaps:
    """A tool that searches for places on Google Maps.

    Attributes:
        latitude, longitude: location of the user in degrees; both or neither.
        language: language of the results, such as `de` or `pt-BR`.
        widget: whether the response includes a token for a map widget.
    """

    latitude: float | None = None
    longitude: float | None = None
    language: str | None = None
    widget: bool = False

    def __post_init__(self) -> None:
        if (self.latitude is None) != (self.longitude is None):
            msg = "GoogleMaps needs both latitude and longitude, or neither: set the missing one"
            raise UsageError(msg)
        if self.latitude is not None and not -90 <= self.latitude <= 90:  # noqa: PLR2004 - degrees
            msg = f"latitude must be between -90 and 90 degrees, not {self.latitude!r}"
            raise UsageError(msg)
        if self.longitude is not None and not -180 <= self.longitude <= 180:  # noqa: PLR2004 - degrees
            msg = f"longitude must be between -180 and 180 degrees, not {self.longitude!r}"
            raise UsageError(msg)

    def declaration(self) -> Json:
        """Return the tool's entry in the `tools` list of a request."""
        return {"googleMaps": {"enableWidget": True} if self.widget else {}}

    def retrieval(self) -> Json:
        """Return the request's `retrievalConfig`, which contains the location and the language."""
        config: Json = {}
        if self.latitude is not None:
            config["latLng"] = {"latitude": self.latitude, "longitude": self.longitude}
        if self.language is not None:
            config["languageCode"] = self.language
        return config


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileSearch:
    """A tool that searches in files stored on the server.

    Attributes:
        stores: names of file search stores, such as `fileSearchStores/…`.
        top_k: maximum number of chunks to retrieve.
        filter: filter for the metadata of files, in the API's filter syntax.
    """

    stores: tuple[str, ...]
    top_k: int | None = None
    filter: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.stores, str) or not self.stores:
            msg = f"FileSearch needs a tuple with at least one store name, not {self.stores!r}"
            raise UsageError(msg)

    def declaration(self) -> Json:
        """Return the tool's entry in the `tools` list of a request."""
        settings: Json = {"fileSearchStoreNames": list(self.stores)}
        if self.top_k is not None:
            settings["topK"] = self.top_k
        if self.filter is not None:
            settings["metadataFilter"] = self.filter
        return {"fileSearch": settings}
