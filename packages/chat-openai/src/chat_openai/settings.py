"""Settings and methods shared by the builders of this package, and functions that check their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar, Literal, Self, final

from chat_completions import Dialect
from chat_core.arguments import require_whole
from chat_core.errors import UsageError
from chat_core.wire import connection
from chat_core.wire.connection import (
    AUTHORIZATION,
    Connection,
    ConnectionBuilder,
    MissingKeyError,
    credentials_for,
    read_environment,
    without_frames,
)
from chat_core.wire.endpoint import Endpoint
from chat_responses import ResponsesDialect

from chat_openai.native import NativeTool
from chat_openai.presets import Vendor

Wire = Literal["responses", "completions", "embeddings"]


@final
@dataclass(frozen=True, slots=True)
class Settings(Connection):
    """The settings that a builder collects.

    Attributes:
        vendor: the vendor, whose preset supplies the defaults.
        responses: the dialect of the Responses API.
        completions: the dialect of the Chat Completions API.
        model: the model or deployment; empty until it is set.
        base_urls: base URLs by API, which replace the vendor's base URL.
        description: the description of the provider for routers and logs.
        tools: the native tools of every request, which the server runs.
        body: additional fields of the JSON body of every request, as pairs.
        summary: the detail of reasoning summaries; `None` requests no summary.
        dimensions: the length of embedding vectors; `None` uses the default of the model.
        max_embedding_batch: the largest number of texts in one embedding request.
    """

    vendor: Vendor
    responses: ResponsesDialect
    completions: Dialect
    model: str = ""
    base_urls: tuple[tuple[Wire, str], ...] = field(default=(), repr=False)  # a query may contain a key
    description: str = ""
    tools: tuple[NativeTool, ...] = ()
    body: tuple[tuple[str, object], ...] = ()
    summary: Literal["auto", "concise", "detailed"] | None = None
    dimensions: int | None = None
    max_embedding_batch: int = 2048

    @property
    def key_header(self) -> str:
        """The name of the header with the API key. In `authorization` the key is a bearer token."""
        return self.vendor.preset.key_header

    @classmethod
    def for_vendor(cls, vendor: Vendor) -> Self:
        """Return the initial settings for a builder of `vendor`."""
        preset = vendor.preset
        return cls(vendor, vendor.responses, preset.dialect, max_embedding_batch=preset.max_embedding_batch)

    def for_model(self, model: str, method: str = "with_model", noun: str = "a model") -> Settings:
        """Return a copy of these settings with `model`.

        Args:
            model: the name of the model or deployment.
            method: the name of the public method that was called, for the error message.
            noun: the kind of thing that `model` names, for the error message.

        Raises:
            UsageError: `model` is empty.
        """
        return replace(self, model=require_text(model, method, f"the name of {noun}"))

    def with_base_url(self, url: str) -> Settings:
        """Return a copy of these settings that uses the base URL `url` for every API."""
        return replace(self, base_urls=(("responses", url), ("completions", url), ("embeddings", url)))

    def for_embeddings(self, dimensions: int | None, max_batch: int | None) -> Settings:
        """Return a copy of these settings with limits for embeddings.

        Args:
            dimensions: the length of the vectors; `None` uses the default of the model.
            max_batch: the largest number of texts in one request; `None` uses the limit of the vendor.

        Raises:
            UsageError: a number is less than 1.
        """
        for name, value in (("dimensions", dimensions), ("max_batch", max_batch)):
            if value is not None:
                require_whole(name, value, 1)
        batch = self.vendor.preset.max_embedding_batch if max_batch is None else max_batch
        return replace(self, dimensions=dimensions, max_embedding_batch=batch)


class Connectable(ConnectionBuilder[Settings]):
    """Base class for this package's builders, with or without a model."""

    __slots__ = ()
    _unavailable: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """The reasons why this builder lacks methods of other builders, by name of the method."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings.vendor.preset.title}, model={self._settings.model!r})"

    def with_description(self, description: str) -> Self:
        """Set the provider's description, which routers and logs show."""
        return self._with(replace(self._settings, description=description))

    def _missing_method_hint(self, name: str) -> str | None:
        """Return a hint for the missing method `name`, or None if no state of the builder has this method."""
        if name in self._unavailable:
            return self._unavailable[name]
        initial_class = type(self).__name__
        if name == "build":
            return f"build() needs a model: call {initial_class}().with_model('…') first"
        if name in {"with_model", "with_deployment"}:
            return f"the model is already set to {self._settings.model!r}: create a new builder for another one"
        return None


def require_text(value: str, method: str, noun: str) -> str:
    """Return `value`, or raise an error if it is not a string or is blank.

    Args:
        value: the argument of a public method.
        method: the name of that method, for the error message.
        noun: the expected value, such as "the name of a model", for the error message.

    Raises:
        UsageError: `value` is not a string, or it is blank.
    """
    if not isinstance(value, str) or not value.strip():
        msg = f"{method}() needs {noun}, not {value!r}"
        raise UsageError(msg)
    return value


def require_url(method: str, url: str) -> str:
    """Check that `url` is a base URL, and return it without trailing slashes.

    Args:
        method: the name of the public method that received `url`, for the error message.
        url: a base URL with its scheme.

    Raises:
        UsageError: `url` is not a string, or it has no scheme.
    """
    return connection.require_url(method, url, "https://example.org/v1").rstrip("/")


@without_frames
def endpoint_for(settings: Settings, wire: Wire) -> Endpoint:
    """Return the endpoint that requests are sent to, with its headers and API key.

    Args:
        settings: the settings of the builder.
        wire: the API that the requests use.

    Raises:
        UsageError: the base URL is invalid, or the API key is missing.
    """
    preset, base_url = settings.vendor.preset, dict(settings.base_urls).get(wire)
    if base_url is not None or preset.base_url_variable is None:
        return Endpoint(base_url or preset.base_url or "", _request_headers(settings), settings.key)
    return Endpoint.from_environment(
        preset.base_url_variable, preset.base_url or "", _request_headers(settings), settings.key
    )


@without_frames
def _request_headers(settings: Settings) -> dict[str, str]:
    headers, variables = dict(settings.headers), settings.vendor.preset.key_variables
    if settings.has_credentials:
        return headers
    token_variable = settings.vendor.token_variable
    if token_variable is not None and (token := read_environment(token_variable)) is not None:
        return {AUTHORIZATION: credentials_for(AUTHORIZATION, token)} | headers
    if (key := read_environment(*variables)) is not None:
        return {settings.key_header: credentials_for(settings.key_header, key)} | headers
    if settings.transport is None:
        msg = f"the API key is missing: call .with_api_key('…'), or set {' or '.join(variables)}"
        raise MissingKeyError(msg, variables)
    return headers
