"""Builders for OpenRouter, which routes each request to one of many providers that serve a model.

OpenRouter supports the Responses API and the Chat Completions API. It stores no responses. Additional
features are plugins and server tools such as `openrouter:web_search`, which a run declares with `tools=…` in
`ResponsesOptions` or `CompletionsOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, Self, TypeAlias, final

from chat_core.errors import UsageError
from chat_core.wire.connection import without_frames

from chat_openai.builder import (
    COMPLETIONS_ONLY_HINTS,
    OnCompletions,
    OpenAIEmbeddingsBuilder,
    ThroughGateway,
    build_completions,
    build_responses,
)
from chat_openai.client import OpenRouterProvider
from chat_openai.native import require_range, require_texts, without_none
from chat_openai.presets import OPENROUTER
from chat_openai.settings import Settings, require_text

_TUPLE_FIELDS: Final = ("order", "only", "ignore", "quantizations")
"""The fields of `Routing` that contain a tuple of strings."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPrice:
    """The maximum prices that a provider may charge, in US dollars. `None` sets no limit.

    Attributes:
        prompt: the price of one million input tokens.
        completion: the price of one million output tokens.
        request: the price of one request.
        image: the price of one image.
        audio: the price of audio, in the unit of OpenRouter's price list.

    Raises:
        UsageError: a price is negative.
    """

    prompt: float | None = None
    completion: float | None = None
    request: float | None = None
    image: float | None = None
    audio: float | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            require_range(item.name, getattr(self, item.name), 0, float("inf"))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Settings that decide which providers may serve a model, and in which order they are tried.

    If a field is `None` or empty, OpenRouter decides.

    Attributes:
        order: the names of providers in the order in which they are tried.
        allow_fallbacks: whether other providers may serve the model if those in `order` cannot.
        only: the names of the only providers that may serve the model.
        ignore: the names of providers that may not serve the model.
        require_parameters: whether a provider must support every option of the request.
        data_collection: whether providers may store the conversation.
        zdr: whether only endpoints with zero data retention are used.
        enforce_distillable_text: whether only models are used whose license allows training on their output.
        quantizations: the allowed quantizations of the model's weights, such as `fp8`.
        sort: the property by which providers are sorted if `order` is empty.
        max_price: the highest prices that a provider may charge.
        preferred_min_throughput: the preferred throughput, in tokens per second.
        preferred_max_latency: the preferred latency, in seconds.

    Raises:
        UsageError: a field that takes a tuple holds a single string, or a tuple holds a value that is not a string.
    """

    order: tuple[str, ...] = ()
    allow_fallbacks: bool | None = None
    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    require_parameters: bool | None = None
    data_collection: Literal["allow", "deny"] | None = None
    zdr: bool | None = None
    enforce_distillable_text: bool | None = None
    quantizations: tuple[str, ...] = ()
    sort: Literal["price", "throughput", "latency"] | None = None
    max_price: MaxPrice | None = None
    preferred_min_throughput: float | None = None
    preferred_max_latency: float | None = None

    def __post_init__(self) -> None:
        for name in _TUPLE_FIELDS:
            require_texts("Routing", name, getattr(self, name))

    def request_fields(self) -> dict[str, object]:
        """Return the value of the request field `provider`."""
        settings: dict[str, object] = {}
        for item in fields(self):
            value: Any = getattr(self, item.name)
            if isinstance(value, MaxPrice):
                settings[item.name] = without_none({price.name: getattr(value, price.name) for price in fields(value)})
            elif value is not None and value != ():
                settings[item.name] = list(value) if item.name in _TUPLE_FIELDS else value
        return settings


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WebPlugin:
    """A plugin that searches the web before the model runs, for any model.

    A newer alternative is the server tool that is declared as `{"type": "openrouter:web_search"}` in the `tools` of a
    run's options.

    Attributes:
        engine: the search engine. `None` uses the search of the model's provider if it has one.
        max_results: the largest number of results.
        search_prompt: the text that introduces the results to the model.
        include_domains: the only sites to search. `*.example.org` and `example.org/blog` are allowed forms.
        exclude_domains: the sites to exclude, in the same forms.
        max_uses: the largest number of searches by the model's own provider, if that provider supports a limit.

    Raises:
        UsageError: a number is less than 1, or a field that takes a tuple holds a single string.
    """

    engine: Literal["native", "exa", "firecrawl", "parallel", "perplexity"] | None = None
    max_results: int | None = None
    search_prompt: str | None = None
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()
    max_uses: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_results", "max_uses"):
            require_range(name, getattr(self, name), 1, float("inf"))
        for name in ("include_domains", "exclude_domains"):
            require_texts("WebPlugin", name, getattr(self, name))

    def request_fields(self) -> dict[str, object]:
        """Return the plugin's entry in the request field `plugins`."""
        settings = {
            "engine": self.engine,
            "max_results": self.max_results,
            "search_prompt": self.search_prompt,
            "include_domains": list(self.include_domains) or None,
            "exclude_domains": list(self.exclude_domains) or None,
            "max_uses": self.max_uses,
        }
        return {"id": "web", **without_none(settings)}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileParserPlugin:
    """A plugin that parses PDF files for models that do not support them.

    Attributes:
        pdf_engine: the name of the parser engine in OpenRouter's API. `None` leaves the choice to OpenRouter.
    """

    pdf_engine: str | None = None

    def request_fields(self) -> dict[str, object]:
        """Return the plugin's entry in the request field `plugins`."""
        return {"id": "file-parser", **without_none({"pdf": self.pdf_engine and {"engine": self.pdf_engine}})}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHealingPlugin:
    """A plugin that repairs structured output that is almost valid JSON."""

    def request_fields(self) -> dict[str, object]:
        """Return the plugin's entry in the request field `plugins`."""
        return {"id": "response-healing"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompressionPlugin:
    """A plugin that shortens a conversation that exceeds the model's context. Middle messages are removed first."""

    def request_fields(self) -> dict[str, object]:
        """Return the plugin's entry in the request field `plugins`."""
        return {"id": "context-compression"}


Plugin: TypeAlias = WebPlugin | FileParserPlugin | ResponseHealingPlugin | ContextCompressionPlugin
"""A plugin that changes a request or a response."""
_PLUGINS: Final = (WebPlugin, FileParserPlugin, ResponseHealingPlugin, ContextCompressionPlugin)


# --- Builders ------------------------------------------------------------------------------------------


class _OpenRouter(ThroughGateway):
    """Base class with the methods that every builder for OpenRouter has."""

    __slots__ = ()

    def with_app(self, title: str, url: str | None = None) -> Self:
        """Identify your application in OpenRouter's statistics.

        Args:
            title: the name of the application.
            url: the URL of the application's website.

        Raises:
            UsageError: `title` is empty.
        """
        headers = {"x-openrouter-title": require_text(title, "with_app", "the name of an application")}
        return self.with_headers(headers if url is None else {**headers, "http-referer": url})


class _OpenRouterChat(_OpenRouter):
    """Base class with the methods that all builders for chat models on OpenRouter have."""

    __slots__ = ()

    def with_routing(self, routing: Routing) -> Self:
        """Set which providers may serve the model, and in which order they are tried."""
        if not isinstance(routing, Routing):
            msg = f"with_routing() needs a Routing, such as Routing(order=('anthropic',)), not {routing!r}"
            raise UsageError(msg)
        return self._with_body({"provider": routing.request_fields()})

    def with_fallback_models(self, *models: str) -> Self:
        """Set the models that are tried in this order if the model fails.

        Raises:
            UsageError: there is no name, or a name is empty.
        """
        require_texts("with_fallback_models", "models", models)
        if not models:
            msg = "with_fallback_models() needs the name of at least one model"
            raise UsageError(msg)
        return self._with_body({"models": list(models)})

    def with_plugins(self, *plugins: Plugin) -> Self:
        """Set the plugins that OpenRouter runs, such as `WebPlugin()`. They replace all earlier plugins.

        Raises:
            UsageError: an argument is not a plugin.
        """
        for plugin in plugins:
            if not isinstance(plugin, _PLUGINS):
                msg = f"with_plugins() takes plugins such as WebPlugin(…) and FileParserPlugin(…), not {plugin!r}"
                raise UsageError(msg)
        return self._with_body({"plugins": [plugin.request_fields() for plugin in plugins]})

    def with_session(self, session: str) -> Self:
        """Set the session id. Requests with the same id are routed to the same provider, to benefit from its cache.

        Raises:
            UsageError: `session` is empty.
        """
        return self._with_body({"session_id": require_text(session, "with_session", "the id of a session")})

    def _with_body(self, changes: Mapping[str, object]) -> Self:
        return self._with(replace(self._settings, body=tuple({**dict(self._settings.body), **changes}.items())))


class _OpenRouterCompletions(_OpenRouterChat, OnCompletions):
    """Base class with methods that only OpenRouter's Chat Completions API supports."""

    __slots__ = ()

    def with_transforms(self, *transforms: str) -> Self:
        """Set the transforms that OpenRouter applies to messages, such as `middle-out`.

        Without arguments, no transform is applied.

        Raises:
            UsageError: a name is empty or not a string.
        """
        require_texts("with_transforms", "transforms", transforms)
        return self._with_body({"transforms": list(transforms)})


_MISSING_METHOD_HINTS: Final = COMPLETIONS_ONLY_HINTS | {
    "with_native_tools": (
        "OpenRouter does not run OpenAI's native tools: use plugins, with_plugins(), or OpenRouter's server tools, "
        "which a run declares: ResponsesOptions(tools=({'type': 'openrouter:web_search'},))"
    ),
    "with_store": "OpenRouter does not store responses",
    "with_previous_response": "OpenRouter does not store responses, so a request cannot continue from one",
    "with_transforms": "transforms need the Chat Completions API: call with_completions() first",
}


@final
class OpenRouterBuilder(_OpenRouterChat):
    """A builder for models served through OpenRouter. Call `with_model()` or `with_embeddings()` before `build()`.

    The default API is the Responses API. The default API key is read from `OPENROUTER_API_KEY`.
    """

    __slots__ = ()
    _unavailable = _MISSING_METHOD_HINTS

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings.for_vendor(OPENROUTER))

    def with_model(self, model: str) -> ReadyOpenRouterBuilder:
        """Set the model, such as `openai/gpt-5-mini`."""
        return ReadyOpenRouterBuilder(self._settings.for_model(model))

    def with_completions(self) -> OpenRouterCompletionsBuilder:
        """Return a builder that uses the Chat Completions API."""
        return OpenRouterCompletionsBuilder(self._settings)

    def with_embeddings(
        self, *, model: str, dimensions: int | None = None, max_batch: int | None = None
    ) -> OpenAIEmbeddingsBuilder:
        """Return a builder for an embedding model.

        Args:
            model: the name of the embedding model.
            dimensions: the length of the vectors, for models that support a choice. `None` uses the model's default.
            max_batch: the largest number of texts in one request. `None` uses the vendor's limit.

        Raises:
            UsageError: `model` is empty, or a number is less than 1.
        """
        settings = self._settings.for_model(model, "with_embeddings").for_embeddings(dimensions, max_batch)
        return OpenAIEmbeddingsBuilder(settings)


@final
class ReadyOpenRouterBuilder(_OpenRouterChat):
    """A builder for models served through OpenRouter, after the model has been set."""

    __slots__ = ()
    _unavailable = _MISSING_METHOD_HINTS

    def with_completions(self) -> ReadyOpenRouterCompletionsBuilder:
        """Return a builder that uses the Chat Completions API."""
        return ReadyOpenRouterCompletionsBuilder(self._settings)

    def build(self) -> OpenRouterProvider:
        """Return a provider that uses the Responses API.

        Raises:
            UsageError: the API key is missing, or no transport is installed.
        """
        return OpenRouterProvider(*build_responses(self._settings))


@final
class OpenRouterCompletionsBuilder(_OpenRouterCompletions):
    """A builder for models served through OpenRouter, using the Chat Completions API."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyOpenRouterCompletionsBuilder:
        """Set the model, such as `openai/gpt-5-mini`."""
        return ReadyOpenRouterCompletionsBuilder(self._settings.for_model(model))


@final
class ReadyOpenRouterCompletionsBuilder(_OpenRouterCompletions):
    """An `OpenRouterCompletionsBuilder` after the model has been set."""

    __slots__ = ()

    def build(self) -> OpenRouterProvider:
        """Return a provider that uses the Chat Completions API.

        Raises:
            UsageError: the API key is missing, or no transport is installed.
        """
        return OpenRouterProvider(*build_completions(self._settings))


@without_frames
def openrouter(model: str, *, api_key: str | None = None) -> OpenRouterProvider:
    """Return a provider for a model on OpenRouter, using the Responses API.

    Args:
        model: the name of the model, such as `openai/gpt-5-mini`.
        api_key: the API key. `None` reads `OPENROUTER_API_KEY`.

    Raises:
        UsageError: `model` is empty, the API key is missing, or no transport is installed.
    """
    builder = OpenRouterBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()
