"""What builders of this wire have in common: what they have been told, and what comes of it when they build."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn, Self, TypedDict, final

from chat_core.errors import UsageError
from chat_core.transport.protocol import Transport
from chat_core.wire.endpoint import Endpoint

from chat_completions.errors import ErrorPatterns
from chat_completions.options import Dialect, MaxTokensField, ReasoningReplay, ReasoningStyle
from chat_completions.presets import AnyPreset


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """What a builder has been told. `None` is decided when it builds."""

    preset: AnyPreset
    dialect: Dialect
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    transport: Transport | None = None
    description: str = ""
    max_tokens_field: MaxTokensField | None = None
    max_embedding_batch: int = 2048
    suffix: str = ""
    """Said behind the name of the model."""

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
        if not isinstance(model, str) or not model:  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"with_model() needs the name of a model, not {model!r}"
            raise UsageError(msg)
        return self.with_dialect(replace(self.dialect, model=model))

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


class Connectable:
    """What can be said to every builder, in every state."""

    __slots__ = ("_settings",)

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings.preset.title}, model={self._settings.dialect.model!r})"

    def _with(self, settings: Settings) -> Self:
        return type(self)(settings)

    def with_api_key(self, key: str) -> Self:
        """Send `key`. Without it, the server's own address gets the key in its variable of the environment."""
        if not isinstance(key, str) or not key.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = "with_api_key() needs a key, and it got nothing: is its environment variable set?"
            raise UsageError(msg)
        return self._with(replace(self._settings, api_key=key.strip()))

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """Send these headers too; one of the same name replaces the earlier one."""
        merged = {name.lower(): value for name, value in (*self._settings.headers, *headers.items())}
        return self._with(replace(self._settings, headers=tuple(merged.items())))

    def with_transport(self, transport: Transport) -> Self:
        """Travel by `transport`, which stays open when the provider closes. Without it, the httpx transport is used."""
        if not isinstance(transport, Transport):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"with_transport() needs a Transport (send, stream, aclose), not {transport!r}"
            raise UsageError(msg)
        return self._with(replace(self._settings, transport=transport))


class Adjustable(Connectable):
    """What depends on the model, and not on the server alone."""

    __slots__ = ()

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


class Addressable(Connectable):
    """What can be said to a builder whose server may be elsewhere."""

    __slots__ = ()

    def with_base_url(self, url: str) -> Self:
        """Ask the server at `url`, the part before `/chat/completions`; a query in it goes with every request."""
        return self._with(replace(self._settings, base_url=checked_url("with_base_url", url)))


def checked_url(method: str, url: str) -> str:
    """A URL as a caller gave it.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(url, str) or "://" not in url:  # pyright: ignore[reportUnnecessaryIsInstance]
        shown = url.rpartition("@")[2] if isinstance(url, str) else url  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"{method}() needs a URL like 'http://localhost:8080/v1', not {shown!r}"
        raise UsageError(msg)
    return url


def raise_missing_attribute(owner: object, name: str, hint: str | None) -> NoReturn:
    """Raise the error for an attribute that the builder `owner` does not have.

    Raises:
        AttributeError: Always, with `hint` as its message where there is one.
    """
    raise AttributeError(hint or f"{type(owner).__name__!r} object has no attribute {name!r}")


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
        "endpoint": endpoint_of(settings),
        "transport": settings.transport if settings.transport is not None else default_transport(),
        "owns_transport": settings.transport is None,
        "description": settings.description,
        "max_embedding_batch": settings.max_embedding_batch,
        "hint": settings.preset.hint,
        "error_patterns": settings.preset.error_patterns,
    }


def endpoint_of(settings: Settings) -> Endpoint:
    """Where the requests go, with the key.

    Raises:
        UsageError: the base URL is none, or missing; a key is missing where one is needed.
    """
    preset, headers = settings.preset, _headers(settings)
    variable = preset.base_url_variable
    if settings.base_url is None and variable is not None and (url := environment(variable)) is not None:
        with in_variable(variable):
            return Endpoint(url, headers)
    return Endpoint(settings.base_url or preset.base_url or "", headers)


def environment(name: str) -> str | None:
    """What a variable of the environment says; `None` where it says nothing."""
    return os.environ.get(name, "").strip() or None


@contextmanager
def in_variable(name: str) -> Generator[None, None, None]:
    """Tell where a mistake stands, that is in a variable of the environment."""
    try:
        yield
    except UsageError as error:
        msg = f"{name}: {error}"
        raise UsageError(msg) from None


def _headers(settings: Settings) -> dict[str, str]:
    headers, preset = dict(settings.headers), settings.preset
    key = settings.api_key or _key(settings, headers)
    if key is None:
        return headers
    return {preset.key_header: f"Bearer {key}" if preset.key_header == "authorization" else key} | headers


def _key(settings: Settings, headers: Mapping[str, str]) -> str | None:
    """The key in the environment. It is the one of the vendor, and goes to no other server."""
    preset = settings.preset
    elsewhere = settings.base_url is not None and not preset.own_server
    if elsewhere or preset.key_header in headers or "authorization" in headers:
        return None
    key = next((found for name in preset.key_variables if (found := environment(name))), None)
    if key is None and preset.key_needed and settings.transport is None:
        msg = f"there is no key: call .with_api_key('…'), or set {' or '.join(preset.key_variables)}"
        if not preset.own_server:
            msg += "; a server that needs none is named with .with_base_url('…')"
        raise UsageError(msg)
    return key


def default_transport() -> Transport:
    """A transport of the provider's own.

    Raises:
        UsageError: it is not installed.
    """
    try:
        from chat_transport_httpx import HttpxTransport  # noqa: PLC0415 - only the default is imported late
    except ImportError as error:
        msg = "there is no transport: install chat-transport-httpx, or pass one with .with_transport(…)"
        raise UsageError(msg) from error
    return HttpxTransport()
