"""The builder of a provider, in two states: without a model it cannot build.

Both are immutable: every `with_…` returns a new one. What the types forbid fails at run time too, in words.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NoReturn, Self, final

from chat_core.errors import UsageError
from chat_core.transport.protocol import Transport
from chat_core.wire.endpoint import Endpoint

from chat_responses.client import ResponsesProvider
from chat_responses.frames import websocket_transport
from chat_responses.options import ReasoningReplay, ResponsesDialect

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"
API_KEY_VARIABLE: Final = "OPENAI_API_KEY"
"""Where the key for the default base URL is looked for. It is never sent to another one."""


NOTHING_SAID: Final = ResponsesDialect(model="")


@final
@dataclass(frozen=True, slots=True)
class _Settings:
    """What a builder has been told. `None` is decided when it builds."""

    dialect: ResponsesDialect = NOTHING_SAID
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    transport: Transport | None = None
    description: str = ""


class _Configurable:
    """What can be said in either state."""

    __slots__ = ("_settings",)

    def __init__(self, settings: _Settings = _Settings()) -> None:
        self._settings = settings

    def _with(self, settings: _Settings) -> Self:
        return type(self)(settings)

    def _speaking(self, dialect: ResponsesDialect) -> Self:
        return self._with(replace(self._settings, dialect=dialect))

    def with_base_url(self, url: str) -> Self:
        """Ask the server at `url`, the part before `/responses`; a query in it goes with every request."""
        if not isinstance(url, str) or "://" not in url:  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"with_base_url() needs a URL like 'http://localhost:8080/v1', not {url!r}"
            raise UsageError(msg)
        return self._with(replace(self._settings, base_url=url))

    def with_api_key(self, key: str) -> Self:
        """Send `key` as a bearer token. Without it, the default base URL takes the key from `OPENAI_API_KEY`."""
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

    def with_websocket(self) -> Self:
        """Speak over a WebSocket that stays open from turn to turn, which saves time where there are many of them.

        The transport is `WebSocketTransport(ResponsesFrames())` of `chat-transport-websockets`, which must be installed
        and is closed with the provider; one of your own, with a proxy for instance, is given by `with_transport()`.
        Tokens are not counted over it. With `with_previous_response()` each turn sends what is new, and nothing need be
        stored for that: the server has the last response of a connection.
        """
        return self._speaking(replace(self._settings.dialect, socket=True))

    def with_provider_name(self, name: str, description: str = "") -> Self:
        """Call the provider `name`: in errors, in metadata, and as the owner of opaque data in a history."""
        if not name:
            msg = "with_provider_name() needs a name, not an empty text"
            raise UsageError(msg)
        settings = replace(self._settings, description=description)
        return self._with(replace(settings, dialect=replace(settings.dialect, provider=name)))

    def with_store(self, *, store: bool = True) -> Self:
        """Ask the server to keep its responses, or not to. Without a word it does as it likes, and mostly keeps them.

        Where nothing is kept, reasoning is asked for in encrypted form, and goes back so.
        """
        return self._speaking(replace(self._settings.dialect, store=store))

    def with_previous_response(self) -> Self:
        """Go on from the last response where the server has it, instead of sending the conversation again.

        That is done only if the history holds that response and everything before it as the server knows it, and
        nothing is lost where the server has forgotten it: the conversation is sent whole then.
        """
        return self._speaking(replace(self._settings.dialect, previous_response=True))

    def with_system_messages(self, role: Literal["system", "developer"] = "system") -> Self:
        """Send the instructions of a conversation as messages of that role, not as `instructions`."""
        return self._speaking(replace(self._settings.dialect, instructions=False, system_role=role))

    def with_developer_role(self) -> Self:
        """Send later instructions, those that come after something was said, as `developer`, not as `system`."""
        return self._speaking(replace(self._settings.dialect, system_role="developer"))

    def with_reasoning(
        self, *, encrypted: bool | None = None, replay: ReasoningReplay = "as-received", budget: bool = False
    ) -> Self:
        """Say whether reasoning is asked for in encrypted form, whether it goes back, and whether it takes a budget."""
        dialect = replace(
            self._settings.dialect, encrypted_reasoning=encrypted, reasoning_replay=replay, reasoning_budget=budget
        )
        return self._speaking(dialect)

    def with_strict(self, *, output: bool = True, tools: bool = True, rewrite: bool = True, say: bool = True) -> Self:
        """Say which schemas the server enforces, whether they are rewritten for it, and whether it is told `false`."""
        dialect = replace(
            self._settings.dialect, strict_output=output, strict_tools=tools, strict_rewrite=rewrite, say_strict=say
        )
        return self._speaking(dialect)

    def without_item_ids(self) -> Self:
        """Send items back without the ids that they came with: for servers that do not know them again."""
        return self._speaking(replace(self._settings.dialect, item_ids=False))


@final
class ResponsesBuilder(_Configurable):
    """Builds a provider for any server of the Responses wire. It needs a model first: `.with_model("…")`."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyResponsesBuilder:
        """Ask for `model`, by the server's name for it."""
        if not isinstance(model, str) or not model:  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"with_model() needs the name of a model, not {model!r}"
            raise UsageError(msg)
        settings = self._settings
        return ReadyResponsesBuilder(replace(settings, dialect=replace(settings.dialect, model=model)))

    if not TYPE_CHECKING:  # pragma: no branch

        def __getattr__(self, name: str) -> NoReturn:
            if name == "build":
                msg = "build() needs a model: call .with_model('…') first"
                raise AttributeError(msg)
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)


@final
class ReadyResponsesBuilder(_Configurable):
    """A `ResponsesBuilder` with a model."""

    __slots__ = ()

    if not TYPE_CHECKING:  # pragma: no branch

        def __getattr__(self, name: str) -> NoReturn:
            if name == "with_model":
                model = self._settings.dialect.model
                msg = f"it has its model, {model!r}: begin with ResponsesBuilder() for another one"
                raise AttributeError(msg)
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)

    def build(self) -> ResponsesProvider:
        """The provider.

        Raises:
            UsageError: the base URL is none, a key is missing where one is needed, two settings contradict each other,
                or there is no transport.
        """
        settings = self._settings
        dialect = settings.dialect
        if dialect.previous_response and dialect.store is False and not dialect.socket:
            msg = (
                "with_previous_response() needs responses that are stored, or a WebSocket: leave it out, or "
                "with_store(store=False), or call .with_websocket()"
            )
            raise UsageError(msg)
        return ResponsesProvider(
            dialect,
            Endpoint(settings.base_url or DEFAULT_BASE_URL, _headers(settings)),
            settings.transport if settings.transport is not None else _default_transport(socket=dialect.socket),
            owns_transport=settings.transport is None,
            description=settings.description,
        )


def _headers(settings: _Settings) -> dict[str, str]:
    headers = dict(settings.headers)
    key = settings.api_key
    if key is None and settings.base_url is None and "authorization" not in headers:
        key = os.environ.get(API_KEY_VARIABLE, "").strip() or None
        if key is None and settings.transport is None:
            msg = (
                f"there is no key: call .with_api_key('…'), set {API_KEY_VARIABLE}, "
                "or name another server with .with_base_url('…')"
            )
            raise UsageError(msg)
    if key is not None:
        headers = {"authorization": f"Bearer {key}"} | headers
    return headers


def _default_transport(*, socket: bool) -> Transport:
    if socket:
        return websocket_transport()
    try:
        from chat_transport_httpx import HttpxTransport  # noqa: PLC0415 - only the default is imported late
    except ImportError as error:
        msg = "there is no transport: install chat-transport-httpx, or pass one with .with_transport(…)"
        raise UsageError(msg) from error
    return HttpxTransport()
