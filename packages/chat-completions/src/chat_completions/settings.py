"""Settings and methods shared by the builders of this package, and functions that derive provider arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self, TypedDict, final

from chat_core.arguments import require_whole
from chat_core.transport.protocol import Transport
from chat_core.wire.connection import (
    AddressBuilder,
    Connection,
    ConnectionBuilder,
    MissingKeyError,
    credentials_for,
    read_environment,
    require_model,
    without_frames,
)
from chat_core.wire.endpoint import Endpoint

from chat_completions.dialect_builder import DialectBuilder
from chat_completions.errors import ErrorPatterns
from chat_completions.options import Dialect, MaxTokensField
from chat_completions.presets import AnyPreset


@final
@dataclass(frozen=True, slots=True)
class Settings(Connection):
    """The settings that a builder collects.

    Attributes:
        preset: the vendor's preset, which supplies the defaults.
        dialect: the dialect, including the model.
        description: the description of the provider for routers and logs.
        max_tokens_field: the request field for the token limit; `None` is resolved by `build()`.
        max_embedding_batch: the largest number of texts in one embedding request.
        suffix: the text appended to the name of the model in requests.
    """

    preset: AnyPreset
    dialect: Dialect
    description: str = ""
    max_tokens_field: MaxTokensField | None = None
    max_embedding_batch: int = 2048
    suffix: str = ""

    @property
    def key_header(self) -> str:
        """The name of the header with the API key. In `authorization` the key is a bearer token."""
        return self.preset.key_header

    @classmethod
    def for_preset(cls, preset: AnyPreset) -> Self:
        """Return the initial settings for a builder that uses `preset`."""
        return cls(preset, preset.dialect, max_embedding_batch=preset.max_embedding_batch)

    def with_dialect(self, dialect: Dialect) -> Settings:
        """Return a copy of these settings with `dialect`."""
        return replace(self, dialect=dialect)

    def for_model(self, model: str) -> Settings:
        """Return a copy of these settings with `model`.

        Raises:
            UsageError: `model` is empty.
        """
        return self.with_dialect(replace(self.dialect, model=require_model("with_model", model)))

    def with_embeddings(self, dimensions: int | None, max_batch: int | None) -> Settings:
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
        batch = self.preset.max_embedding_batch if max_batch is None else max_batch
        return replace(self, dialect=replace(self.dialect, dimensions=dimensions), max_embedding_batch=batch)


class Adjustable(DialectBuilder, ConnectionBuilder[Settings]):
    """Base class for this package's builders, with methods that change settings and the dialect."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings.preset.title}, model={self._settings.dialect.model!r})"

    @property
    def _dialect(self) -> Dialect:
        return self._settings.dialect

    @property
    def _default_dialect(self) -> Dialect:
        return self._settings.preset.dialect

    def _with_dialect(self, dialect: Dialect) -> Self:
        return self._with(self._settings.with_dialect(dialect))


class Addressable(AddressBuilder[Settings]):
    """Base class for builders that accept a base URL and an API key."""

    __slots__ = ()


# --- Provider arguments --------------------------------------------------------------------------------


class ProviderArguments(TypedDict):
    """The keyword arguments of a provider's constructor."""

    dialect: Dialect
    endpoint: Endpoint
    transport: Transport
    owns_transport: bool
    description: str
    max_embedding_batch: int
    hint: str
    error_patterns: ErrorPatterns


def provider_arguments(settings: Settings) -> ProviderArguments:
    """Return the constructor arguments for the provider that `settings` describe.

    Raises:
        UsageError: the base URL is invalid, a required API key is missing, or no transport is installed.
    """
    return {
        "dialect": replace(settings.dialect, model=f"{settings.dialect.model}{settings.suffix}"),
        "endpoint": endpoint_for(settings),
        "transport": settings.transport_or_default(),
        "owns_transport": settings.transport is None,
        "description": settings.description,
        "max_embedding_batch": settings.max_embedding_batch,
        "hint": settings.preset.hint,
        "error_patterns": settings.preset.error_patterns,
    }


@without_frames
def endpoint_for(settings: Settings) -> Endpoint:
    """Return the endpoint that requests are sent to, with its headers and API key.

    Raises:
        UsageError: the base URL is invalid, or a required API key is missing.
    """
    preset, headers = settings.preset, _request_headers(settings)
    if settings.base_url is not None or preset.base_url_variable is None:
        return Endpoint(settings.base_url or preset.base_url or "", headers, settings.key)
    return Endpoint.from_environment(
        preset.base_url_variable, preset.base_url or "", headers, settings.key, suffix=preset.base_url_path
    )


@without_frames
def _request_headers(settings: Settings) -> dict[str, str]:
    headers = dict(settings.headers)
    if settings.has_credentials or (key := _key_from_environment(settings)) is None:
        return headers
    return {settings.key_header: credentials_for(settings.key_header, key)} | headers


def _key_from_environment(settings: Settings) -> str | None:
    """Return the vendor's API key from the environment, or None if requests go to another server."""
    preset = settings.preset
    if settings.base_url is not None and not preset.own_server:
        return None
    key = read_environment(*preset.key_variables)
    if key is None and preset.key_needed and settings.transport is None:
        msg = f"the API key is missing: call .with_api_key('…'), or set {' or '.join(preset.key_variables)}"
        if not preset.own_server:
            msg += "; for a server that needs no key, call .with_base_url('…')"
        raise MissingKeyError(msg, preset.key_variables)
    return key
