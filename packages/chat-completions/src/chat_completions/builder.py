"""Builder for providers on any server with a Chat Completions API, in two states: with and without a model.

Builders are immutable: every `with_…` method returns a new builder. Type checkers reject a method that is unavailable
in a state, and at run time the error explains the reason.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self, final

from chat_core.errors import UsageError
from chat_core.wire.connection import require_provider_name, without_frames

from chat_completions.client import CompletionsProvider
from chat_completions.options import EncodingFormat, MaxTokensField
from chat_completions.presets import ANY_SERVER
from chat_completions.settings import Addressable, Adjustable, Settings, provider_arguments


class _Configurable(Adjustable, Addressable):
    """Base class with the methods that are available both with and without a model."""

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings.for_preset(ANY_SERVER))

    def with_provider_name(self, name: str, description: str = "") -> Self:
        """Set the provider name in errors and metadata. It also marks the owner of opaque data in a conversation.

        Args:
            name: the provider name.
            description: the description of the provider for routers and logs.

        Raises:
            UsageError: `name` is empty.
        """
        dialect = replace(self._settings.dialect, provider=require_provider_name(name))
        return self._with(replace(self._settings, dialect=dialect, description=description))

    def with_max_tokens_field(self, name: MaxTokensField) -> Self:
        """Set the request field for the token limit of a response.

        The default is `max_completion_tokens` for OpenAI and `max_tokens` for a server set with `with_base_url()`.
        """
        return self._with(replace(self._settings, max_tokens_field=name))

    def with_developer_role(self) -> Self:
        """Send system messages with the role `developer`."""
        return self._with(self._settings.with_dialect(replace(self._settings.dialect, system_role="developer")))

    def without_stream_usage(self) -> Self:
        """Omit `stream_options`, which requests the usage of a stream, for servers that reject it."""
        return self._with(self._settings.with_dialect(replace(self._settings.dialect, stream_usage=False)))

    def with_short_call_ids(self) -> Self:
        """Replace call ids that are not nine letters and digits, as models of Mistral require."""
        return self._with(self._settings.with_dialect(replace(self._settings.dialect, short_call_ids=True)))

    def without_null_content(self) -> Self:
        """Send an empty string instead of null as the content of messages that only contain tool calls."""
        return self._with(self._settings.with_dialect(replace(self._settings.dialect, null_content=False)))

    def with_embeddings(
        self, *, dimensions: int | None = None, max_batch: int = 2048, encoding_format: EncodingFormat | None = None
    ) -> Self:
        """Set the limits of embedding requests.

        Args:
            dimensions: the length of the vectors. `None` uses the default of the model.
            max_batch: the largest number of texts in one request.
            encoding_format: the encoding that requests ask for: `float`, `base64` or `base64_int8`. `None` sends no
                `encoding_format`, because some servers reject the field.

        Raises:
            UsageError: a number is less than 1.
        """
        settings = self._settings.with_embeddings(dimensions, max_batch)
        return self._with(settings.with_dialect(replace(settings.dialect, encoding_format=encoding_format)))


@final
class CompletionsBuilder(_Configurable):
    """A builder for any server with a Chat Completions API. Call `with_model()` before `build()`.

    For known vendors, use a preset: `vendor_builder(GROQ)`.
    """

    __slots__ = ()

    def with_model(self, model: str) -> ReadyCompletionsBuilder:
        """Set the model by the name that the server uses."""
        return ReadyCompletionsBuilder(self._settings.for_model(model))

    def _missing_method_hint(self, name: str) -> str | None:
        return "build() needs a model: call .with_model('…') first" if name == "build" else None


@final
class ReadyCompletionsBuilder(_Configurable):
    """A builder for any server with a Chat Completions API, after the model has been set."""

    __slots__ = ()

    def _missing_method_hint(self, name: str) -> str | None:
        if name != "with_model":
            return None
        return f"the model is already set to {self._settings.dialect.model!r}: create a new builder for another one"

    def build(self) -> CompletionsProvider:
        """Return a provider with the settings of this builder.

        Raises:
            UsageError: the base URL is invalid, a required API key is missing, or no transport is installed.
        """
        settings = self._settings
        # OpenAI's reasoning models reject `max_tokens`, and many other servers do not support the newer field.
        default_field: MaxTokensField = "max_completion_tokens" if settings.base_url is None else "max_tokens"
        dialect = replace(settings.dialect, max_tokens_field=settings.max_tokens_field or default_field)
        return CompletionsProvider(**provider_arguments(settings.with_dialect(dialect)))


@without_frames
def completions(model: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsProvider:
    """Return a provider for a model on any server with a Chat Completions API.

    Args:
        model: the name of the model.
        base_url: the URL of the server, such as `http://localhost:8000/v1`.
        api_key: the API key, if the server needs one.

    Raises:
        UsageError: `base_url` is missing or invalid, or no transport is installed.
    """
    if base_url is None:
        msg = "completions:NAME needs a base_url, such as http://localhost:8000/v1"
        raise UsageError(msg)
    builder = CompletionsBuilder().with_model(model).with_base_url(base_url)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()
