"""The builders for OpenRouter, which lets one of many providers serve a model; who that is, can be said here.

Both wires reach it. It keeps no responses, so there is none to go on from. What it runs itself are plugins,
and tools of its own (`openrouter:web_search`), which a run declares by the `tools=…` of the wire's options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, Self, TypeAlias, final

from chat_core.errors import UsageError

from chat_openai.builder import (
    COMPLETIONS_ONLY_HINTS,
    RESPONSES_ONLY_HINTS,
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

_SEVERAL: Final = ("order", "only", "ignore", "quantizations")
"""What `Routing` has several of."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPrice:
    """The most that an answer may cost, in US dollars: for a million tokens, or for a request or an image."""

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
    """Which providers may serve a model, and which are preferred. `None` and an empty tuple say nothing.

    Attributes:
        order: providers by their names, the first one first.
        allow_fallbacks: whether others may serve it where those cannot.
        only, ignore: the providers that may serve it, and those that may not.
        require_parameters: whether a provider must know every option of the request.
        data_collection: whether providers may keep what is said.
        zdr: only endpoints that retain nothing.
        enforce_distillable_text: only models whose answers may be learned from.
        quantizations: the precisions that are good enough.
        sort: what is best, where there is no order.
        max_price: the most that it may cost.
        preferred_min_throughput: in tokens a second.
        preferred_max_latency: in seconds.

    Raises:
        UsageError: one text stands where several may.
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
        for name in _SEVERAL:
            require_texts("Routing", name, getattr(self, name))

    def request_fields(self) -> dict[str, object]:
        """What a request says of it."""
        settings: dict[str, object] = {}
        for item in fields(self):
            value: Any = getattr(self, item.name)
            if isinstance(value, MaxPrice):
                settings[item.name] = without_none({price.name: getattr(value, price.name) for price in fields(value)})
            elif value is not None and value != ():
                settings[item.name] = list(value) if item.name in _SEVERAL else value
        return settings


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WebPlugin:
    """Searches the web before the model answers, whatever the model. Newer is its tool `openrouter:web_search`.

    Attributes:
        engine: who searches; without it, the model's own provider where that can.
        max_results: at most so many.
        search_prompt: what introduces the results to the model.
        include_domains, exclude_domains: search these sites and no others, or all but these; `*.example.org` and
            `example.org/blog` are such sites too.
        max_uses: how often a model's own provider may search, where it lets one say so.

    Raises:
        UsageError: a number is less than 1, or one text stands where several may.
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
        """What a request says of it."""
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
    """Reads PDF files for models that cannot. `pdf_engine` is the API's name for how."""

    pdf_engine: str | None = None

    def request_fields(self) -> dict[str, object]:
        """What a request says of it."""
        return {"id": "file-parser", **without_none({"pdf": self.pdf_engine and {"engine": self.pdf_engine}})}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHealingPlugin:
    """Mends structured answers that are almost JSON."""

    def request_fields(self) -> dict[str, object]:
        """What a request says of it."""
        return {"id": "response-healing"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompressionPlugin:
    """Shortens a conversation that is too long for the model, from its middle outwards."""

    def request_fields(self) -> dict[str, object]:
        """What a request says of it."""
        return {"id": "context-compression"}


Plugin: TypeAlias = WebPlugin | FileParserPlugin | ResponseHealingPlugin | ContextCompressionPlugin
"""What OpenRouter does to a request or an answer."""
_PLUGINS: Final = (WebPlugin, FileParserPlugin, ResponseHealingPlugin, ContextCompressionPlugin)


# --- Builders ------------------------------------------------------------------------------------------


class _OpenRouter(ThroughGateway):
    """What can be said to every builder for OpenRouter."""

    __slots__ = ()

    def with_app(self, title: str, url: str | None = None) -> Self:
        """Name the application that asks, and its page, for OpenRouter's statistics."""
        headers = {"x-openrouter-title": require_text(title, "with_app", "the name of an application")}
        return self.with_headers(headers if url is None else {**headers, "http-referer": url})


class _Routed(_OpenRouter):
    """What can be said of chats, on either wire."""

    __slots__ = ()

    def with_routing(self, routing: Routing) -> Self:
        """Say which providers may serve the model."""
        if not isinstance(routing, Routing):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"with_routing() needs a Routing, such as Routing(order=('anthropic',)), not {routing!r}"
            raise UsageError(msg)
        return self._with_body({"provider": routing.request_fields()})

    def with_fallback_models(self, *models: str) -> Self:
        """Let these models answer, the first one first, where the model cannot."""
        require_texts("with_fallback_models", "models", models)
        if not models:
            msg = "with_fallback_models() needs the name of a model that may answer"
            raise UsageError(msg)
        return self._with_body({"models": list(models)})

    def with_plugins(self, *plugins: Plugin) -> Self:
        """Let OpenRouter do more than route, such as `WebPlugin()`."""
        for plugin in plugins:
            if not isinstance(plugin, _PLUGINS):  # pyright: ignore[reportUnnecessaryIsInstance]
                msg = f"with_plugins() takes WebPlugin(…), FileParserPlugin(…) and the like, not {plugin!r}"
                raise UsageError(msg)
        return self._with_body({"plugins": [plugin.request_fields() for plugin in plugins]})

    def with_session(self, session: str) -> Self:
        """Group requests: those of one session go to one provider, whose cache they find."""
        return self._with_body({"session_id": require_text(session, "with_session", "a name")})

    def _with_body(self, changes: Mapping[str, object]) -> Self:
        return self._with(replace(self._settings, body=tuple({**dict(self._settings.body), **changes}.items())))


class _Transformed(_Routed, OnCompletions):
    """What the Chat Completions wire has besides."""

    __slots__ = ()

    def with_transforms(self, *transforms: str) -> Self:
        """Transform what is sent, such as by `middle-out`; without any, nothing is, whatever the model's usual ones."""
        require_texts("with_transforms", "transforms", transforms)
        return self._with_body({"transforms": list(transforms)})


@final
class OpenRouterBuilder(_Routed):
    """Builds models that are served through OpenRouter, on the Responses wire unless told otherwise.

    The key is in `OPENROUTER_API_KEY`. It needs a model first: `.with_model("openai/gpt-5-mini")`.
    """

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings.of(OPENROUTER))

    def with_model(self, model: str) -> ReadyOpenRouterBuilder:
        """Ask for `model`, such as `openai/gpt-5-mini`."""
        return ReadyOpenRouterBuilder(self._settings.for_model(model))

    def with_completions(self) -> OpenRouterCompletionsBuilder:
        """Speak the Chat Completions wire."""
        return OpenRouterCompletionsBuilder(self._settings)

    def with_embeddings(
        self, *, model: str, dimensions: int | None = None, max_batch: int | None = None
    ) -> OpenAIEmbeddingsBuilder:
        """Make vectors by `model`, of this length where it lets one choose, so many texts in one request."""
        settings = self._settings.for_model(model, "with_embeddings").embedding(dimensions, max_batch)
        return OpenAIEmbeddingsBuilder(settings)

    def _missing_method_hint(self, name: str) -> str | None:
        return _MISSING_METHOD_HINTS.get(name) or super()._missing_method_hint(name)


@final
class ReadyOpenRouterBuilder(_Routed):
    """An `OpenRouterBuilder` with a model."""

    __slots__ = ()

    def with_completions(self) -> ReadyOpenRouterCompletionsBuilder:
        """Speak the Chat Completions wire."""
        return ReadyOpenRouterCompletionsBuilder(self._settings)

    def build(self) -> OpenRouterProvider:
        """The provider, on the Responses wire.

        Raises:
            UsageError: the key is missing, or there is no transport.
        """
        return OpenRouterProvider(*build_responses(self._settings))

    def _missing_method_hint(self, name: str) -> str | None:
        return _MISSING_METHOD_HINTS.get(name) or super()._missing_method_hint(name)


@final
class OpenRouterCompletionsBuilder(_Transformed):
    """An `OpenRouterBuilder` on the Chat Completions wire."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyOpenRouterCompletionsBuilder:
        """Ask for `model`, such as `openai/gpt-5-mini`."""
        return ReadyOpenRouterCompletionsBuilder(self._settings.for_model(model))

    def _missing_method_hint(self, name: str) -> str | None:
        return RESPONSES_ONLY_HINTS.get(name) or super()._missing_method_hint(name)


@final
class ReadyOpenRouterCompletionsBuilder(_Transformed):
    """An `OpenRouterCompletionsBuilder` with a model."""

    __slots__ = ()

    def build(self) -> OpenRouterProvider:
        """The provider, on the Chat Completions wire.

        Raises:
            UsageError: the key is missing, or there is no transport.
        """
        return OpenRouterProvider(*build_completions(self._settings))

    def _missing_method_hint(self, name: str) -> str | None:
        return RESPONSES_ONLY_HINTS.get(name) or super()._missing_method_hint(name)


_MISSING_METHOD_HINTS: Final = COMPLETIONS_ONLY_HINTS | {
    "with_native_tools": (
        "OpenRouter does not run OpenAI's native tools, but has plugins, with_plugins(), and tools of its own, which a "
        "run declares in their words: ResponsesOptions(tools=({'type': 'openrouter:web_search'},))"
    ),
    "with_store": "OpenRouter keeps no responses",
    "with_previous_response": "OpenRouter keeps no responses, so there is none to go on from",
    "with_transforms": "transforms are of the Chat Completions wire: call with_completions() first",
}


def openrouter(model: str, *, api_key: str | None = None) -> OpenRouterProvider:
    """A model of OpenRouter on the Responses wire: short for `OpenRouterBuilder().with_model(model).build()`."""
    builder = OpenRouterBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()
