"""The settings and methods that the builders of this wire share, and the arguments of a provider they lead to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self, TypedDict, final

from chat_core.errors import UsageError
from chat_core.transport.protocol import Transport
from chat_core.wire.connection import (
    AddressBuilder,
    Connection,
    ConnectionBuilder,
    credentials_for,
    naming_variable,
    read_environment,
    require_model,
)
from chat_core.wire.endpoint import Endpoint

from chat_completions.errors import ErrorPatterns
from chat_completions.options import Dialect, MaxTokensField, ReasoningReplay, ReasoningStyle
from chat_completions.presets import AnyPreset


@final
@dataclass(frozen=True, slots=True)
class Settings(Connection):
    """The settings of a builder. `None` is decided when it builds.

    Attributes:
        suffix: appended to the name of the model.
    """

    preset: AnyPreset
    dialect: Dialect
    description: str = ""
    max_tokens_field: MaxTokensField | None = None
    max_embedding_batch: int = 2048
    suffix: str = ""

    @property
    def key_header(self) -> str:
        """The header that carries the API key. In `authorization` the key is a bearer token."""
        return self.preset.key_header

    @classmethod
    def of(cls, preset: AnyPreset) -> Self:
        """The settings that a vendor's builder begins with."""
        return cls(preset, preset.dialect, max_embedding_batch=preset.max_embedding_batch)

    def with_dialect(self, dialect: Dialect) -> Settings:
        """The same in another dialect."""
        return replace(self, dialect=dialect)

    def for_model(self, model: str) -> Settings:
        """The same for a model.

        Raises:
            UsageError: it has no name.
        """
        return self.with_dialect(replace(self.dialect, model=require_model("with_model", model)))

    def with_embeddings(self, dimensions: int | None, max_batch: int | None) -> Settings:
        """The same for vectors of this length, so many at once.

        Raises:
            UsageError: one of them is less than 1.
        """
        for name, value in (("dimensions", dimensions), ("max_batch", max_batch)):
            if value is not None and value < 1:
                msg = f"{name} must be at least 1, not {value!r}"
                raise UsageError(msg)
        batch = self.preset.max_embedding_batch if max_batch is None else max_batch
        return replace(self, dialect=replace(self.dialect, dimensions=dimensions), max_embedding_batch=batch)


class Adjustable(ConnectionBuilder[Settings]):
    """A builder of this wire, with the methods for what depends on the model."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings.preset.title}, model={self._settings.dialect.model!r})"

    def with_reasoning(
        self,
        *,
        style: ReasoningStyle | None = None,
        replay: ReasoningReplay = "as-received",
        field: Literal["reasoning_content", "reasoning"] | None = None,
    ) -> Self:
        """Say how reasoning is asked for, whether it goes back, and where reasoning goes that no provider owns."""
        settings = self._settings
        dialect = settings.dialect.with_reasoning(settings.preset.dialect, style=style, replay=replay, field=field)
        return self._with(settings.with_dialect(dialect))

    def with_strict(self, *, output: bool = True, tools: bool = False, rewrite: bool | None = None) -> Self:
        """Say which schemas the server enforces, and whether they are rewritten for it or sent as they are written."""
        settings = self._settings
        usual = settings.preset.dialect
        dialect = settings.dialect.with_strict(usual, output=output, tools=tools, rewrite=rewrite)
        return self._with(settings.with_dialect(dialect))


class Addressable(AddressBuilder[Settings]):
    """A builder whose server may be anywhere."""

    __slots__ = ()


# --- What comes of it ----------------------------------------------------------------------------------


class ProviderArguments(TypedDict):
    """The arguments of a provider's constructor."""

    dialect: Dialect
    endpoint: Endpoint
    transport: Transport
    owns_transport: bool
    description: str
    max_embedding_batch: int
    hint: str
    error_patterns: ErrorPatterns


def provider_arguments(settings: Settings) -> ProviderArguments:
    """Return the arguments of the provider that `settings` describe.

    Raises:
        UsageError: the base URL is none, a key is missing where one is needed, or there is no transport.
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


def endpoint_for(settings: Settings) -> Endpoint:
    """Where the requests go, with the key.

    Raises:
        UsageError: the base URL is none, or missing; a key is missing where one is needed.
    """
    preset, headers = settings.preset, _headers(settings)
    variable = preset.base_url_variable
    if settings.base_url is None and variable is not None and (url := read_environment(variable)) is not None:
        with naming_variable(variable):
            return Endpoint(url, headers)
    return Endpoint(settings.base_url or preset.base_url or "", headers)


def _headers(settings: Settings) -> dict[str, str]:
    headers = dict(settings.headers)
    if settings.has_credentials or (key := _key_from_environment(settings)) is None:
        return headers
    return {settings.key_header: credentials_for(settings.key_header, key)} | headers


def _key_from_environment(settings: Settings) -> str | None:
    """Return the vendor's key in the environment. It is never sent to another server."""
    preset = settings.preset
    if settings.base_url is not None and not preset.own_server:
        return None
    key = read_environment(*preset.key_variables)
    if key is None and preset.key_needed and settings.transport is None:
        msg = f"there is no key: call .with_api_key('…'), or set {' or '.join(preset.key_variables)}"
        if not preset.own_server:
            msg += "; a server that needs none is named with .with_base_url('…')"
        raise UsageError(msg)
    return key
