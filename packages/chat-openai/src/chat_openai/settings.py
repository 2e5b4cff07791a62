"""The settings and methods that the builders of this package share, and the endpoint they lead to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self, final

from chat_completions import Dialect
from chat_core.errors import UsageError
from chat_core.wire import connection
from chat_core.wire.connection import Connection, ConnectionBuilder, credentials_for, read_environment
from chat_core.wire.endpoint import Endpoint
from chat_responses import ResponsesDialect

from chat_openai.native import NativeTool
from chat_openai.presets import Vendor

Wire = Literal["responses", "completions", "embeddings"]


@final
@dataclass(frozen=True, slots=True)
class Settings(Connection):
    """The settings of a builder.

    Attributes:
        bases: the URLs to ask at, by wire, where they are not the vendor's own.
        tools: what the server runs itself.
        body: further fields of every request.
        summary: how much of its reasoning a model tells.
    """

    vendor: Vendor
    responses: ResponsesDialect
    completions: Dialect
    model: str = ""
    bases: tuple[tuple[Wire, str], ...] = ()
    description: str = ""
    tools: tuple[NativeTool, ...] = ()
    body: tuple[tuple[str, object], ...] = ()
    summary: Literal["auto", "concise", "detailed"] | None = None
    dimensions: int | None = None
    max_embedding_batch: int = 2048

    @property
    def key_header(self) -> str:
        """The header that carries the API key. In `authorization` the key is a bearer token."""
        return self.vendor.preset.key_header

    @classmethod
    def of(cls, vendor: Vendor) -> Self:
        """The settings that a vendor's builder begins with."""
        preset = vendor.preset
        return cls(vendor, vendor.responses, preset.dialect, max_embedding_batch=preset.max_embedding_batch)

    def for_model(self, model: str, method: str = "with_model", what: str = "a model") -> Settings:
        """The same for a model.

        Raises:
            UsageError: it has no name.
        """
        return replace(self, model=require_text(model, method, f"the name of {what}"))

    def with_base_url(self, url: str) -> Settings:
        """The same, asked at one URL on every wire."""
        return replace(self, bases=(("responses", url), ("completions", url), ("embeddings", url)))

    def embedding(self, dimensions: int | None, max_batch: int | None) -> Settings:
        """The same for vectors of this length, so many at once.

        Raises:
            UsageError: one of them is less than 1.
        """
        for name, value in (("dimensions", dimensions), ("max_batch", max_batch)):
            if value is not None and value < 1:
                msg = f"{name} must be at least 1, not {value!r}"
                raise UsageError(msg)
        batch = self.vendor.preset.max_embedding_batch if max_batch is None else max_batch
        return replace(self, dimensions=dimensions, max_embedding_batch=batch)


class Connectable(ConnectionBuilder[Settings]):
    """A builder of this package, in any state."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings.vendor.preset.title}, model={self._settings.model!r})"

    def with_description(self, description: str) -> Self:
        """Describe the provider in words of your own, for a router or a log."""
        return self._with(replace(self._settings, description=description))

    def _missing_method_hint(self, name: str) -> str | None:
        """Return why `name` is unavailable in this state, or None if no state has it."""
        begins = type(self).__name__
        if name == "build":
            return f"build() needs a model: call {begins}().with_model('…') first"
        if name in {"with_model", "with_deployment"}:
            return f"it has its model, {self._settings.model!r}: begin anew for another one"
        return None


def require_text(value: str, method: str, what: str) -> str:
    """A text as a caller gave it.

    Raises:
        UsageError: it is none, or empty.
    """
    if not isinstance(value, str) or not value.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"{method}() needs {what}; it got {value!r}"
        raise UsageError(msg)
    return value


def require_url(method: str, url: str) -> str:
    """Return a URL that a caller passed, without the slash at its end.

    Raises:
        UsageError: it has no scheme, or is not text.
    """
    return connection.require_url(method, url, "https://example.org/v1").rstrip("/")


def endpoint_for(settings: Settings, wire: Wire) -> Endpoint:
    """Where the requests go, with the key.

    Raises:
        UsageError: the URL is none, or the key is missing.
    """
    return Endpoint(dict(settings.bases).get(wire, settings.vendor.preset.base_url or ""), _headers(settings))


def _headers(settings: Settings) -> dict[str, str]:
    headers, variables = dict(settings.headers), settings.vendor.preset.key_variables
    if settings.has_credentials:
        return headers
    if (key := read_environment(*variables)) is not None:
        return {settings.key_header: credentials_for(settings.key_header, key)} | headers
    if settings.transport is None:
        msg = f"there is no key: call .with_api_key('…'), or set {' or '.join(variables)}"
        raise UsageError(msg)
    return headers
