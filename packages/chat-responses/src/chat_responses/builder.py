"""Builder for Responses API providers, in two states: without a model, and with a model and `build()`.

Builders are immutable: each `with_…` method returns a new builder. Calling a method that a state lacks raises an error
with a hint at run time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Self, final

from chat_core.errors import UsageError
from chat_core.wire.connection import AddressBuilder, require_model, require_provider_name

from chat_responses.client import ResponsesProvider
from chat_responses.options import ReasoningReplay, ResponsesDialect
from chat_responses.settings import Settings, endpoint_for


class _Configurable(AddressBuilder[Settings]):
    """Base class with the methods that are available both with and without a model."""

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings())

    def _with_dialect(self, dialect: ResponsesDialect) -> Self:
        """Return a copy of this builder with `dialect`."""
        return self._with(replace(self._settings, dialect=dialect))

    def with_websocket(self) -> Self:
        """Send requests over a WebSocket that stays open between requests, which reduces latency.

        The transport is `WebSocketTransport(ResponsesFrames())` of `chat-transport-websockets`, which must be
        installed. The provider owns and closes this transport. To configure the transport, also pass your own to
        `with_transport()`.

        Counting tokens is not supported over a WebSocket. With `with_previous_response()` each request sends only new
        items, even if nothing is stored, because the server has the last response of a connection.
        """
        return self._with_dialect(replace(self._settings.dialect, socket=True))

    def with_provider_name(self, name: str, description: str = "") -> Self:
        """Set the provider name used in errors, in metadata, and as the owner of opaque data.

        Args:
            name: the provider name.
            description: free text that describes the provider.
        """
        dialect = replace(self._settings.dialect, provider=require_provider_name(name))
        return self._with(replace(self._settings, dialect=dialect, description=description))

    def with_store(self, *, store: bool = True) -> Self:
        """Set whether the server stores responses. By default the server decides, and usually stores them.

        If `store` is `False`, reasoning is requested in encrypted form and sent back in that form.
        """
        return self._with_dialect(replace(self._settings.dialect, store=store))

    def with_previous_response(self) -> Self:
        """Continue from the last response with `previous_response_id` instead of sending the whole conversation.

        The id is sent only if the history contains that response and all turns before it unchanged. If the server no
        longer has the response, the whole conversation is sent.
        """
        return self._with_dialect(replace(self._settings.dialect, previous_response=True))

    def with_system_messages(self, role: Literal["system", "developer"] = "system") -> Self:
        """Send leading system turns as messages of `role` instead of `instructions`."""
        return self._with_dialect(replace(self._settings.dialect, instructions=False, system_role=role))

    def with_developer_role(self) -> Self:
        """Send system turns after the first message with the role `developer` instead of `system`."""
        return self._with_dialect(replace(self._settings.dialect, system_role="developer"))

    def with_reasoning(
        self, *, encrypted: bool | None = None, replay: ReasoningReplay = "as-received", budget: bool = False
    ) -> Self:
        """Set whether reasoning is encrypted, sent back to the model, and limited by a token budget.

        Args:
            encrypted: whether to request encrypted reasoning. `None` requests it if nothing is stored and the model is
                known to reason.
            replay: whether reasoning is sent back to the model.
            budget: whether the server supports a reasoning budget in tokens.
        """
        dialect = replace(
            self._settings.dialect, encrypted_reasoning=encrypted, reasoning_replay=replay, reasoning_budget=budget
        )
        return self._with_dialect(dialect)

    def with_strict(self, *, output: bool = True, tools: bool = True, rewrite: bool = True, say: bool = True) -> Self:
        """Configure strict mode, in which the server enforces schemas.

        Args:
            output: whether the server enforces the schema of structured output.
            tools: whether the server enforces the parameters of tools.
            rewrite: whether schemas are rewritten for strict mode.
            say: whether tools that are not enforced are sent with `strict: false`.
        """
        dialect = replace(
            self._settings.dialect, strict_output=output, strict_tools=tools, strict_rewrite=rewrite, say_strict=say
        )
        return self._with_dialect(dialect)

    def without_item_ids(self) -> Self:
        """Send items without their ids, for servers that do not recognize the ids."""
        return self._with_dialect(replace(self._settings.dialect, item_ids=False))


@final
class ResponsesBuilder(_Configurable):
    """Builder for Responses API providers. Call `.with_model("…")` before `build()`.

    The API key for OpenAI, the default server, is read from `OPENAI_API_KEY`.
    """

    __slots__ = ()

    def with_model(self, model: str) -> ReadyResponsesBuilder:
        """Set the model by its name on the server."""
        dialect = replace(self._settings.dialect, model=require_model("with_model", model))
        return ReadyResponsesBuilder(replace(self._settings, dialect=dialect))

    def _missing_method_hint(self, name: str) -> str | None:
        return "build() needs a model: call .with_model('…') first" if name == "build" else None


@final
class ReadyResponsesBuilder(_Configurable):
    """Builder for Responses API providers, after the model has been set."""

    __slots__ = ()

    def _missing_method_hint(self, name: str) -> str | None:
        if name == "with_model":
            return f"the model is already {self._settings.dialect.model!r}: use a new ResponsesBuilder() for another"
        return None

    def build(self) -> ResponsesProvider:
        """Return a provider with the settings of this builder.

        Raises:
            UsageError: the base URL is invalid, the API key or the default transport is missing, or two settings
                contradict each other.
        """
        settings = self._settings
        dialect = settings.dialect
        if dialect.previous_response and dialect.store is False and not dialect.socket:
            msg = (
                "with_previous_response() needs stored responses or a WebSocket: remove with_previous_response() or "
                "with_store(store=False), or call .with_websocket()"
            )
            raise UsageError(msg)
        return ResponsesProvider(
            dialect,
            endpoint_for(settings),
            settings.transport_or_default(),
            owns_transport=settings.transport is None,
            description=settings.description,
        )
