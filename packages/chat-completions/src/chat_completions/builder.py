"""The builder of a provider, in two states: without a model it cannot build.

Both are immutable: every `with_…` returns a new one. What the types forbid fails at run time too, in words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self, final

from chat_core.wire.connection import require_provider_name

from chat_completions.client import CompletionsProvider
from chat_completions.options import MaxTokensField
from chat_completions.presets import ANY_SERVER
from chat_completions.settings import Addressable, Adjustable, Settings, provider_arguments


class _Configurable(Adjustable, Addressable):
    """What can be said in either state."""

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings.of(ANY_SERVER))

    def with_provider_name(self, name: str, description: str = "") -> Self:
        """Call the provider `name`: in errors, in metadata, and as the owner of opaque data in a history."""
        dialect = replace(self._settings.dialect, provider=require_provider_name(name))
        return self._with(replace(self._settings, dialect=dialect, description=description))

    def with_max_tokens_field(self, name: MaxTokensField) -> Self:
        """Call the limit of an answer `name`. Without it, OpenAI gets the first and every other server the second."""
        return self._with(replace(self._settings, max_tokens_field=name))

    def with_developer_role(self) -> Self:
        """Send instructions as `developer`, not as `system`."""
        return self._with(self._settings.with_dialect(replace(self._settings.dialect, system_role="developer")))

    def without_stream_usage(self) -> Self:
        """Do not ask streams for their usage: for servers that refuse `stream_options`."""
        return self._with(self._settings.with_dialect(replace(self._settings.dialect, stream_usage=False)))

    def with_short_call_ids(self) -> Self:
        """Shorten ids of calls to nine letters and digits where they are anything else: for Mistral's models."""
        return self._with(self._settings.with_dialect(replace(self._settings.dialect, short_call_ids=True)))

    def without_null_content(self) -> Self:
        """Send an empty text as the content of messages that hold calls alone: for servers that refuse null."""
        return self._with(self._settings.with_dialect(replace(self._settings.dialect, null_content=False)))

    def with_embeddings(self, *, dimensions: int | None = None, max_batch: int = 2048) -> Self:
        """Say how long the vectors of `embed()` are, and how many texts one request may hold."""
        return self._with(self._settings.with_embeddings(dimensions, max_batch))


@final
class CompletionsBuilder(_Configurable):
    """Builds a provider for any server of the Chat Completions wire. It needs a model first: `.with_model("…")`.

    The known vendors have presets: `vendor_builder(GROQ)`.
    """

    __slots__ = ()

    def with_model(self, model: str) -> ReadyCompletionsBuilder:
        """Ask for `model`, by the server's name for it."""
        return ReadyCompletionsBuilder(self._settings.for_model(model))

    def _missing_method_hint(self, name: str) -> str | None:
        return "build() needs a model: call .with_model('…') first" if name == "build" else None


@final
class ReadyCompletionsBuilder(_Configurable):
    """A `CompletionsBuilder` with a model."""

    __slots__ = ()

    def _missing_method_hint(self, name: str) -> str | None:
        if name != "with_model":
            return None
        return f"it has its model, {self._settings.dialect.model!r}: begin with CompletionsBuilder() for another one"

    def build(self) -> CompletionsProvider:
        """The provider.

        Raises:
            UsageError: the base URL is none, a key is missing where one is needed, or there is no transport.
        """
        settings = self._settings
        # OpenAI's reasoning models refuse the old name, and many other servers do not know the new one.
        usual: MaxTokensField = "max_completion_tokens" if settings.base_url is None else "max_tokens"
        dialect = replace(settings.dialect, max_tokens_field=settings.max_tokens_field or usual)
        return CompletionsProvider(**provider_arguments(settings.with_dialect(dialect)))
