"""The tools that the server runs itself, each with the settings that it has."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, final

from chat_core.errors import UsageError
from chat_core.wire.shapes import Json


class NativeTool(Protocol):
    """A tool that the server runs itself."""

    def declaration(self) -> Json:
        """Its entry in the request's list of tools."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleSearch:
    """The server searches the web, and says what it found in the turn's metadata (`groundingMetadata`).

    Attributes:
        exclude: domains that are left out.
        since, until: the time that results are from; both or neither. Times need a zone.
    """

    exclude: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if (self.since is None) != (self.until is None):
            msg = "a search within a time needs its beginning and its end: give both since and until, or neither"
            raise UsageError(msg)
        for moment in (self.since, self.until):
            if moment is not None and moment.utcoffset() is None:
                msg = f"a time needs a zone, and {moment!r} has none: pass datetime(…, tzinfo=timezone.utc)"
                raise UsageError(msg)

    def declaration(self) -> Json:
        """Its entry in the request's list of tools."""
        settings: Json = {}
        if self.exclude:
            settings["excludeDomains"] = list(self.exclude)
        if self.since is not None and self.until is not None:
            settings["timeRangeFilter"] = {"startTime": self.since.isoformat(), "endTime": self.until.isoformat()}
        return {"googleSearch": settings}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleSearchRetrieval:
    """The search of models before Gemini 2: the model searches where it thinks that it must.

    Attributes:
        threshold: how sure of that it must be, from 0, which always searches, to 1, which never does.
    """

    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            msg = f"a threshold is between 0 and 1, not {self.threshold!r}"
            raise UsageError(msg)

    def declaration(self) -> Json:
        """Its entry in the request's list of tools."""
        if self.threshold is None:
            return {"googleSearchRetrieval": {}}
        dynamic = {"mode": "MODE_DYNAMIC", "dynamicThreshold": self.threshold}
        return {"googleSearchRetrieval": {"dynamicRetrievalConfig": dynamic}}


@final
@dataclass(frozen=True, slots=True)
class UrlContext:
    """The server reads the pages whose URLs stand in the conversation (`urlContextMetadata` says which)."""

    def declaration(self) -> Json:
        """Its entry in the request's list of tools."""
        return {"urlContext": {}}


@final
@dataclass(frozen=True, slots=True)
class CodeExecution:
    """The server runs code that the model writes; the code and what comes of it are provider parts of the answer."""

    def declaration(self) -> Json:
        """Its entry in the request's list of tools."""
        return {"codeExecution": {}}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleMaps:
    """The server looks places up.

    Attributes:
        latitude, longitude: where the user is; both or neither.
        language: of what is found, as in `de` or `pt-BR`.
        widget: whether the answer has a token for a map to show.
    """

    latitude: float | None = None
    longitude: float | None = None
    language: str | None = None
    widget: bool = False

    def __post_init__(self) -> None:
        if (self.latitude is None) != (self.longitude is None):
            msg = "a place needs both its latitude and its longitude"
            raise UsageError(msg)
        if self.latitude is not None and not -90 <= self.latitude <= 90:  # noqa: PLR2004 - degrees
            msg = f"a latitude is between -90 and 90 degrees, not {self.latitude!r}"
            raise UsageError(msg)
        if self.longitude is not None and not -180 <= self.longitude <= 180:  # noqa: PLR2004 - degrees
            msg = f"a longitude is between -180 and 180 degrees, not {self.longitude!r}"
            raise UsageError(msg)

    def declaration(self) -> Json:
        """Its entry in the request's list of tools."""
        return {"googleMaps": {"enableWidget": True} if self.widget else {}}

    def retrieval(self) -> Json:
        """What the request says beside its tools of where to look from."""
        config: Json = {}
        if self.latitude is not None:
            config["latLng"] = {"latitude": self.latitude, "longitude": self.longitude}
        if self.language is not None:
            config["languageCode"] = self.language
        return config


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileSearch:
    """The server searches files that it stores.

    Attributes:
        stores: the names of the stores, as in `fileSearchStores/…`.
        top_k: so many pieces of them are found at most.
        filter: what the metadata of a file must say, in the server's own language.
    """

    stores: tuple[str, ...]
    top_k: int | None = None
    filter: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.stores, str) or not self.stores:
            msg = f"FileSearch needs a tuple of the names of stores, not {self.stores!r}"
            raise UsageError(msg)

    def declaration(self) -> Json:
        """Its entry in the request's list of tools."""
        settings: Json = {"fileSearchStoreNames": list(self.stores)}
        if self.top_k is not None:
            settings["topK"] = self.top_k
        if self.filter is not None:
            settings["metadataFilter"] = self.filter
        return {"fileSearch": settings}
