"""The builder of a provider, in two states: without a model it cannot build.

Both are immutable: every `with_…` returns a new one. What the types forbid fails at run time too, in words.
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
    """The methods of either state."""

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings())

    def _with_dialect(self, dialect: ResponsesDialect) -> Self:
        return self._with(replace(self._settings, dialect=dialect))

    def with_websocket(self) -> Self:
        """Speak over a WebSocket that stays open from turn to turn, which saves time where there are many of them.

        The transport is `WebSocketTransport(ResponsesFrames())` of `chat-transport-websockets`, which must be installed
        and is closed with the provider; one of your own, with a proxy for instance, is given by `with_transport()`.
        Tokens are not counted over it. With `with_previous_response()` each turn sends what is new, and nothing need be
        stored for that: the server has the last response of a connection.
        """
        return self._with_dialect(replace(self._settings.dialect, socket=True))

    def with_provider_name(self, name: str, description: str = "") -> Self:
        """Call the provider `name`: in errors, in metadata, and as the owner of opaque data in a history."""
        dialect = replace(self._settings.dialect, provider=require_provider_name(name))
        return self._with(replace(self._settings, dialect=dialect, description=description))

    def with_store(self, *, store: bool = True) -> Self:
        """Ask the server to keep its responses, or not to. Without a word it does as it likes, and mostly keeps them.

        Where nothing is kept, reasoning is asked for in encrypted form, and goes back so.
        """
        return self._with_dialect(replace(self._settings.dialect, store=store))

    def with_previous_response(self) -> Self:
        """Go on from the last response where the server has it, instead of sending the conversation again.

        That is done only if the history holds that response and everything before it as the server knows it, and
        nothing is lost where the server has forgotten it: the conversation is sent whole then.
        """
        return self._with_dialect(replace(self._settings.dialect, previous_response=True))

    def with_system_messages(self, role: Literal["system", "developer"] = "system") -> Self:
        """Send the instructions of a conversation as messages of that role, not as `instructions`."""
        return self._with_dialect(replace(self._settings.dialect, instructions=False, system_role=role))

    def with_developer_role(self) -> Self:
        """Send later instructions, those that come after something was said, as `developer`, not as `system`."""
        return self._with_dialect(replace(self._settings.dialect, system_role="developer"))

    def with_reasoning(
        self, *, encrypted: bool | None = None, replay: ReasoningReplay = "as-received", budget: bool = False
    ) -> Self:
        """Say whether reasoning is asked for in encrypted form, whether it goes back, and whether it takes a budget."""
        dialect = replace(
            self._settings.dialect, encrypted_reasoning=encrypted, reasoning_replay=replay, reasoning_budget=budget
        )
        return self._with_dialect(dialect)

    def with_strict(self, *, output: bool = True, tools: bool = True, rewrite: bool = True, say: bool = True) -> Self:
        """Say which schemas the server enforces, whether they are rewritten for it, and whether it is told `false`."""
        dialect = replace(
            self._settings.dialect, strict_output=output, strict_tools=tools, strict_rewrite=rewrite, say_strict=say
        )
        return self._with_dialect(dialect)

    def without_item_ids(self) -> Self:
        """Send items back without the ids that they came with: for servers that do not know them again."""
        return self._with_dialect(replace(self._settings.dialect, item_ids=False))


@final
class ResponsesBuilder(_Configurable):
    """Builds a provider for any server of the Responses wire. It needs a model first: `.with_model("…")`.

    The key for OpenAI, the default, is read from `OPENAI_API_KEY`.
    """

    __slots__ = ()

    def with_model(self, model: str) -> ReadyResponsesBuilder:
        """Ask for `model`, by the server's name for it."""
        dialect = replace(self._settings.dialect, model=require_model("with_model", model))
        return ReadyResponsesBuilder(replace(self._settings, dialect=dialect))

    def _missing_method_hint(self, name: str) -> str | None:
        return "build() needs a model: call .with_model('…') first" if name == "build" else None


@final
class ReadyResponsesBuilder(_Configurable):
    """A `ResponsesBuilder` with a model."""

    __slots__ = ()

    def _missing_method_hint(self, name: str) -> str | None:
        if name == "with_model":
            return f"it has its model, {self._settings.dialect.model!r}: begin with ResponsesBuilder() for another one"
        return None

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
            endpoint_for(settings),
            settings.transport_or_default(),
            owns_transport=settings.transport is None,
            description=settings.description,
        )
