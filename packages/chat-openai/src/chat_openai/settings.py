"""What the builders of this package have in common: what they have been told, and where it leads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, final

from chat_completions import Dialect
from chat_core.errors import UsageError
from chat_core.transport.protocol import Transport
from chat_core.wire.endpoint import Endpoint
from chat_responses import ResponsesDialect

from chat_openai.native import NativeTool
from chat_openai.presets import Vendor

Wire = Literal["responses", "completions", "embeddings"]


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """What a builder has been told.

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
    api_key: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    transport: Transport | None = None
    description: str = ""
    tools: tuple[NativeTool, ...] = ()
    body: tuple[tuple[str, object], ...] = ()
    summary: Literal["auto", "concise", "detailed"] | None = None
    dimensions: int | None = None
    max_embedding_batch: int = 2048

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


class Connectable:
    """What can be said to every builder, in every state."""

    __slots__ = ("_settings",)

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings.vendor.preset.title}, model={self._settings.model!r})"

    def _with(self, **changes: Any) -> Self:  # noqa: ANN401 - the fields of Settings
        return type(self)(replace(self._settings, **changes))

    def with_api_key(self, key: str) -> Self:
        """Send `key`, whatever the environment says, or an earlier header."""
        given = require_secret(key, "with_api_key", "a key: is its environment variable set?")
        taken = {"authorization", self._settings.vendor.preset.key_header}
        headers = tuple([header for header in self._settings.headers if header[0] not in taken])
        return self._with(api_key=given, headers=headers)

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """Send these headers too; one of the same name replaces the earlier one."""
        merged = {name.lower(): value for name, value in (*self._settings.headers, *headers.items())}
        return self._with(headers=tuple(merged.items()))

    def with_transport(self, transport: Transport) -> Self:
        """Travel by `transport`, which stays open when the provider closes. Without it, the httpx transport is used."""
        if not isinstance(transport, Transport):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"with_transport() needs a Transport (send, stream, aclose), not {transport!r}"
            raise UsageError(msg)
        return self._with(transport=transport)

    def with_description(self, description: str) -> Self:
        """Describe the provider in words of your own, for a router or a log."""
        return self._with(description=description)

    def _missing_method_hint(self, name: str) -> str | None:
        """Return why `name` is unavailable in this state, or None if no state has it."""
        begins = type(self).__name__
        if name == "build":
            return f"build() needs a model: call {begins}().with_model('…') first"
        if name in {"with_model", "with_deployment"}:
            return f"it has its model, {self._settings.model!r}: begin anew for another one"
        return None

    if not TYPE_CHECKING:  # pragma: no branch

        def __getattr__(self, name: str) -> NoReturn:
            reason = None if name.startswith("_") else self._missing_method_hint(name)
            raise AttributeError(reason or f"{type(self).__name__!r} object has no attribute {name!r}")


def require_text(value: str, method: str, what: str) -> str:
    """A text as a caller gave it.

    Raises:
        UsageError: it is none, or empty.
    """
    if not isinstance(value, str) or not value.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"{method}() needs {what}; it got {value!r}"
        raise UsageError(msg)
    return value


def require_secret(value: str, method: str, what: str) -> str:
    """The same of what no error may show.

    Raises:
        UsageError: it is none, or empty.
    """
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"{method}() needs {what}; it got {type(value).__name__}"
        raise UsageError(msg)
    if not value.strip():
        msg = f"{method}() needs {what}; it got nothing"
        raise UsageError(msg)
    return value.strip()


def require_url(method: str, url: str) -> str:
    """A URL as a caller gave it.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(url, str) or "://" not in url:  # pyright: ignore[reportUnnecessaryIsInstance]
        shown = url.rpartition("@")[2] if isinstance(url, str) else url  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"{method}() needs a URL like 'https://example.org/v1', not {shown!r}"
        raise UsageError(msg)
    return url.rstrip("/")


def environment(name: str) -> str | None:
    """What a variable of the environment says; `None` where it says nothing."""
    return os.environ.get(name, "").strip() or None


def endpoint_for(settings: Settings, wire: Wire) -> Endpoint:
    """Where the requests go, with the key.

    Raises:
        UsageError: the URL is none, or the key is missing.
    """
    return Endpoint(dict(settings.bases).get(wire, settings.vendor.preset.base_url or ""), _headers(settings))


def _headers(settings: Settings) -> dict[str, str]:
    headers, preset = dict(settings.headers), settings.vendor.preset
    if settings.api_key is None and headers.keys() & {preset.key_header, "authorization"}:
        return headers
    key = settings.api_key or next((found for name in preset.key_variables if (found := environment(name))), None)
    if key is None:
        if settings.transport is None:
            msg = f"there is no key: call .with_api_key('…'), or set {' or '.join(preset.key_variables)}"
            raise UsageError(msg)
        return headers
    return {preset.key_header: f"Bearer {key}" if preset.key_header == "authorization" else key} | headers
