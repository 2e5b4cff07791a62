"""Builders for OpenAI. The methods that a builder offers depend on earlier calls.

    OpenAIBuilder ── with_model() ──> ReadyOpenAIBuilder ── build() ──> OpenAIProvider (Responses API)
      │    │  └─ with_embeddings(model=…) ──> OpenAIEmbeddingsBuilder ── build() ──> OpenAIEmbeddings
      │    └──── with_completions() ──> …CompletionsBuilder (Chat Completions API)
      └───────── with_native_tools(), with_store() … ────> …ResponsesBuilder (Responses API only)

The model may be set before or after the API is chosen. After `with_completions()`, methods of the Responses API are
unavailable. After a method that only the Responses API supports, `with_completions()` is unavailable. Type checkers
reject such calls, and at run time the error explains why. Builders are immutable: every `with_…` method returns a new
builder.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Final, Generic, Literal, Self, TypeVar, final

from chat_completions import (
    CompletionsBuilder,
    CompletionsOptions,
    CompletionsProvider,
    Dialect,
    ReadyCompletionsBuilder,
)
from chat_completions.dialect_builder import DialectBuilder
from chat_completions.options import DEFAULT_PROVIDER as COMPLETIONS
from chat_core.errors import UsageError
from chat_core.wire.connection import without_frames
from chat_responses import ReadyResponsesBuilder, ResponsesBuilder, ResponsesOptions, ResponsesProvider
from chat_responses.options import DEFAULT_PROVIDER as RESPONSES

from chat_openai.client import OpenAICompletionsProvider, OpenAIEmbeddings, OpenAIProvider
from chat_openai.native import NativeTool
from chat_openai.presets import OPENAI
from chat_openai.settings import Connectable, Settings, Wire, endpoint_for, require_text, require_url

NextT = TypeVar("NextT")

ORGANIZATION: Final = "openai-organization"
PROJECT: Final = "openai-project"
OPENAI_HEADERS: Final = frozenset({ORGANIZATION, PROJECT})
"""Request headers that only OpenAI understands."""

# --- Providers ------------------------------------------------------------------------------------------


def build_responses(settings: Settings) -> tuple[ResponsesProvider, ResponsesOptions | None]:
    """Return a Responses API provider, and the options to add to every request or None.

    Raises:
        UsageError: the base URL is invalid, the API key is missing, or no transport is installed.
    """
    wire = ResponsesProvider(
        replace(settings.responses, model=settings.model),
        endpoint_for(settings, "responses"),
        settings.transport_or_default(),
        owns_transport=settings.transport is None,
        description=settings.description,
    )
    if not (settings.tools or settings.body or settings.summary):
        return wire, None
    includes = dict.fromkeys(name for tool in settings.tools for name in tool.includes())
    return wire, ResponsesOptions(
        tools=tuple([tool.declaration() for tool in settings.tools]),
        include=tuple(includes),
        reasoning_summary=settings.summary,
        extra_body=dict(settings.body) or None,
        provider=settings.responses.provider,
    )


def build_completions(settings: Settings) -> tuple[CompletionsProvider, CompletionsOptions | None]:
    """Return a provider for the Chat Completions API, and the options of every request, which may be None.

    Raises:
        UsageError: the base URL is invalid, the API key is missing, or no transport is installed.
    """
    wire = _completions_provider(settings, "completions", replace(settings.completions, model=settings.model))
    if not settings.body:
        return wire, None
    return wire, CompletionsOptions(extra_body=dict(settings.body), provider=settings.completions.provider)


def build_embeddings(settings: Settings) -> OpenAIEmbeddings:
    """Return the embeddings provider that `settings` describe.

    Raises:
        UsageError: the base URL is invalid, the API key is missing, or no transport is installed.
    """
    dialect = replace(settings.completions, model=settings.model, dimensions=settings.dimensions)
    return OpenAIEmbeddings(_completions_provider(settings, "embeddings", dialect))


def _completions_provider(settings: Settings, wire: Wire, dialect: Dialect) -> CompletionsProvider:
    return CompletionsProvider(
        dialect,
        endpoint_for(settings, wire),
        settings.transport_or_default(),
        owns_transport=settings.transport is None,
        description=settings.description,
        max_embedding_batch=settings.max_embedding_batch,
    )


# --- Methods of one API ---------------------------------------------------------------------------------

RESPONSES_ONLY_HINTS: Final = {
    "with_native_tools": "native tools need the Responses API: remove with_completions()",
    "with_store": "stored responses need the Responses API: remove with_completions()",
    "with_previous_response": "continuing from a previous response needs the Responses API: remove with_completions()",
    "with_encrypted_reasoning": "encrypted reasoning needs the Responses API: remove with_completions()",
    "with_reasoning_summary": "reasoning summaries need the Responses API: remove with_completions()",
    "with_completions": "this builder already uses the Chat Completions API",
}
"""Reasons why methods of the Responses API are unavailable in a builder for the Chat Completions API."""
COMPLETIONS_ONLY_HINTS: Final = {
    "with_reasoning": "with_reasoning() needs the Chat Completions API: call with_completions() first",
    "with_strict": "with_strict() needs the Chat Completions API: call with_completions() first",
    "with_url_files": "with_url_files() needs the Chat Completions API: call with_completions() first",
    "with_joined_messages": "with_joined_messages() needs the Chat Completions API: call with_completions() first",
    "with_assistant_after_tools": (
        "with_assistant_after_tools() needs the Chat Completions API: call with_completions() first"
    ),
    "with_system_first": "with_system_first() needs the Chat Completions API: call with_completions() first",
    "with_finish_reasons": "with_finish_reasons() needs the Chat Completions API: call with_completions() first",
}
"""Reasons why methods of the Chat Completions API are unavailable in a builder for the Responses API."""
RESPONSES_CHOSEN_HINTS: Final = COMPLETIONS_ONLY_HINTS | {
    "with_completions": "a setting of this builder needs the Responses API, so with_completions() is unavailable",
    "with_base_url": "a setting of this builder needs OpenAI's server; with_gateway() reaches OpenAI through a proxy",
}
"""Reasons why methods are unavailable after a setting that only the vendor's Responses API supports."""


class OnResponses(Connectable, Generic[NextT]):
    """Mixin of builder methods that only the Responses API supports. Each method commits the builder to that API."""

    __slots__ = ()
    _unavailable = COMPLETIONS_ONLY_HINTS

    @abstractmethod
    def _builder_for_responses(self, settings: Settings) -> NextT:
        """Return a builder with `settings` that is committed to the Responses API."""

    def with_native_tools(self, *tools: NativeTool) -> NextT:
        """Add tools that OpenAI defines, such as `WebSearch()`. Your chat runs the calls of some, such as `Shell()`.

        Raises:
            UsageError: an argument is not a `NativeTool`, or two remote MCP servers have the same label.
        """
        for tool in tools:
            if not isinstance(tool, NativeTool):
                msg = f"with_native_tools() takes native tools such as WebSearch(…) and FileSearch(…), not {tool!r}"
                raise UsageError(msg)
        all_tools = (*self._settings.tools, *tools)
        declarations = [tool.declaration() for tool in all_tools]
        labels = [declaration["server_label"] for declaration in declarations if "server_label" in declaration]
        if len(set(labels)) < len(labels):
            msg = f"each remote MCP server needs a different server_label, not {', '.join(map(str, labels))}"
            raise UsageError(msg)
        return self._builder_for_responses(replace(self._settings, tools=all_tools))

    def with_store(self, *, store: bool = True) -> NextT:
        """Set whether the server stores its responses. Without this setting, the server decides.

        If responses are not stored, reasoning models return encrypted reasoning, which later requests send back.

        Raises:
            UsageError: `store` is false, but the builder continues from stored responses.
        """
        dialect = self._settings.responses
        if dialect.previous_response and not store:
            msg = (
                "with_store(store=False) conflicts with with_previous_response(), which needs stored responses: "
                "remove one of them"
            )
            raise UsageError(msg)
        return self._builder_for_responses(replace(self._settings, responses=replace(dialect, store=store)))

    def with_previous_response(self) -> NextT:
        """Continue from the previous response stored by the server instead of sending the whole conversation.

        A conversation that was edited, or that another provider produced, is sent completely.

        Raises:
            UsageError: the builder requests that responses are not stored.
        """
        dialect = self._settings.responses
        if dialect.store is False:
            msg = "with_previous_response() needs stored responses: remove with_store(store=False)"
            raise UsageError(msg)
        return self._builder_for_responses(replace(self._settings, responses=replace(dialect, previous_response=True)))

    def with_encrypted_reasoning(self) -> NextT:
        """Request encrypted reasoning, which later requests can send back even if the server stores no responses.

        With `with_store(store=False)`, encrypted reasoning is requested from reasoning models without this method.
        """
        dialect = replace(self._settings.responses, encrypted_reasoning=True)
        return self._builder_for_responses(replace(self._settings, responses=dialect))

    def with_reasoning_summary(self, summary: Literal["auto", "concise", "detailed"] = "auto") -> NextT:
        """Request reasoning summaries with this level of detail, as `ReasoningDelta` events and `Reasoning` parts."""
        return self._builder_for_responses(replace(self._settings, summary=summary))


class OnCompletions(DialectBuilder, Connectable):
    """Mixin of builder methods that only the Chat Completions API supports."""

    __slots__ = ()
    _unavailable = RESPONSES_ONLY_HINTS

    @property
    def _dialect(self) -> Dialect:
        return self._settings.completions

    @property
    def _default_dialect(self) -> Dialect:
        return self._settings.vendor.preset.dialect

    def _with_dialect(self, dialect: Dialect) -> Self:
        return self._with(replace(self._settings, completions=dialect))


class ThroughGateway(Connectable):
    """Mixin with a builder method that sends requests to a vendor through a gateway."""

    __slots__ = ()

    @without_frames
    def with_gateway(self, url: str) -> Self:
        """Send requests and the API key to `url`, such as a regional host or a proxy of the vendor's API.

        For another vendor's server with a compatible API, use the `with_base_url()` method of an OpenAI builder.

        Raises:
            UsageError: `url` has no scheme.
        """
        return type(self)(self._settings.with_base_url(require_url("with_gateway", url)))


# --- OpenAI --------------------------------------------------------------------------------------------


class _OpenAI(ThroughGateway):
    """Base class with the methods that every builder for OpenAI has."""

    __slots__ = ()

    def with_organization(self, organization: str) -> Self:
        """Send requests on behalf of the organization with this id."""
        return self.with_headers(
            {ORGANIZATION: require_text(organization, "with_organization", "the id of an organization")}
        )

    def with_project(self, project: str) -> Self:
        """Send requests on behalf of the project with this id."""
        return self.with_headers({PROJECT: require_text(project, "with_project", "the id of a project")})


@final
class OpenAIBuilder(_OpenAI, OnResponses["OpenAIResponsesBuilder"]):
    """A builder for OpenAI models. Call `with_model()` or `with_embeddings()` before `build()`.

    The default API is the Responses API. The default API key is read from `OPENAI_API_KEY`.
    """

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings.for_vendor(OPENAI))

    def with_model(self, model: str) -> ReadyOpenAIBuilder:
        """Set the model, such as `gpt-5-mini`."""
        return ReadyOpenAIBuilder(self._settings.for_model(model))

    def with_completions(self) -> OpenAICompletionsBuilder:
        """Return a builder that uses the Chat Completions API."""
        return OpenAICompletionsBuilder(self._settings)

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

    @without_frames
    def with_base_url(self, url: str) -> ResponsesBuilder:
        """Return a builder for another server with a Responses API, without the methods that only OpenAI supports.

        The API key in the environment is not sent to that server.
        """
        return _responses_builder(url, self._settings)

    def _builder_for_responses(self, settings: Settings) -> OpenAIResponsesBuilder:
        return OpenAIResponsesBuilder(settings)


@final
class ReadyOpenAIBuilder(_OpenAI, OnResponses["ReadyOpenAIResponsesBuilder"]):
    """A builder for OpenAI models, after the model has been set."""

    __slots__ = ()

    def with_completions(self) -> ReadyOpenAICompletionsBuilder:
        """Return a builder that uses the Chat Completions API."""
        return ReadyOpenAICompletionsBuilder(self._settings)

    @without_frames
    def with_base_url(self, url: str) -> ReadyResponsesBuilder:
        """Return a builder for another server with a Responses API, without the methods that only OpenAI supports.

        The API key in the environment is not sent to that server.
        """
        return _responses_builder(url, self._settings).with_model(self._settings.model)

    def build(self) -> OpenAIProvider:
        """Return a provider that uses the Responses API.

        Raises:
            UsageError: the base URL is invalid, the API key is missing, or no transport is installed.
        """
        return OpenAIProvider(*build_responses(self._settings))

    def _builder_for_responses(self, settings: Settings) -> ReadyOpenAIResponsesBuilder:
        return ReadyOpenAIResponsesBuilder(settings)


@final
class OpenAIResponsesBuilder(_OpenAI, OnResponses["OpenAIResponsesBuilder"]):
    """A builder for OpenAI models, with a setting that only the Responses API supports."""

    __slots__ = ()
    _unavailable = RESPONSES_CHOSEN_HINTS

    def with_model(self, model: str) -> ReadyOpenAIResponsesBuilder:
        """Set the model, such as `gpt-5-mini`."""
        return ReadyOpenAIResponsesBuilder(self._settings.for_model(model))

    def _builder_for_responses(self, settings: Settings) -> OpenAIResponsesBuilder:
        return OpenAIResponsesBuilder(settings)


@final
class ReadyOpenAIResponsesBuilder(_OpenAI, OnResponses["ReadyOpenAIResponsesBuilder"]):
    """An `OpenAIResponsesBuilder` after the model has been set."""

    __slots__ = ()
    _unavailable = RESPONSES_CHOSEN_HINTS

    def build(self) -> OpenAIProvider:
        """Return a provider that uses the Responses API.

        Raises:
            UsageError: the base URL is invalid, the API key is missing, or no transport is installed.
        """
        return OpenAIProvider(*build_responses(self._settings))

    def _builder_for_responses(self, settings: Settings) -> ReadyOpenAIResponsesBuilder:
        return ReadyOpenAIResponsesBuilder(settings)


@final
class OpenAICompletionsBuilder(_OpenAI, OnCompletions):
    """A builder for OpenAI models that uses the Chat Completions API."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyOpenAICompletionsBuilder:
        """Set the model, such as `gpt-5-mini`."""
        return ReadyOpenAICompletionsBuilder(self._settings.for_model(model))

    @without_frames
    def with_base_url(self, url: str) -> CompletionsBuilder:
        """Return a builder for another server with a Chat Completions API.

        The API key in the environment is not sent to that server.
        """
        return _completions_builder(url, self._settings)


@final
class ReadyOpenAICompletionsBuilder(_OpenAI, OnCompletions):
    """An `OpenAICompletionsBuilder` after the model has been set."""

    __slots__ = ()

    @without_frames
    def with_base_url(self, url: str) -> ReadyCompletionsBuilder:
        """Return a builder for another server with a Chat Completions API.

        The API key in the environment is not sent to that server.
        """
        return _completions_builder(url, self._settings).with_model(self._settings.model)

    def build(self) -> OpenAICompletionsProvider:
        """Return a provider that uses the Chat Completions API.

        Raises:
            UsageError: the base URL is invalid, the API key is missing, or no transport is installed.
        """
        return OpenAICompletionsProvider(*build_completions(self._settings))


@final
class OpenAIEmbeddingsBuilder(Connectable):
    """A builder for an embedding model on OpenAI, Azure OpenAI or OpenRouter."""

    __slots__ = ()

    def build(self) -> OpenAIEmbeddings:
        """Return an embeddings provider with the settings of this builder.

        Raises:
            UsageError: the base URL is invalid, the API key is missing, or no transport is installed.
        """
        return build_embeddings(self._settings)


# --- Other servers --------------------------------------------------------------------------------------

BuilderT = TypeVar("BuilderT", ResponsesBuilder, CompletionsBuilder)


def _responses_builder(url: str, settings: Settings) -> ResponsesBuilder:
    builder = ResponsesBuilder().with_base_url(require_url("with_base_url", url))
    return _copy_connection(builder.with_provider_name(RESPONSES, settings.description), settings)


def _completions_builder(url: str, settings: Settings) -> CompletionsBuilder:
    builder = CompletionsBuilder().with_base_url(require_url("with_base_url", url))
    return _copy_connection(builder.with_provider_name(COMPLETIONS, settings.description), settings)


def _copy_connection(builder: BuilderT, settings: Settings) -> BuilderT:
    """Return `builder` with the transport, key and headers in `settings`, except headers that only OpenAI uses."""
    if settings.transport is not None:
        builder = builder.with_transport(settings.transport)
    if settings.key is not None:
        builder = builder.with_api_key(settings.key.function)
    return builder.with_headers({name: value for name, value in settings.headers if name not in OPENAI_HEADERS})


@without_frames
def openai(model: str, *, api_key: str | None = None) -> OpenAIProvider:
    """Return a provider for an OpenAI model, using the Responses API.

    Args:
        model: the name of the model, such as `gpt-5-mini`.
        api_key: the API key. `None` reads `OPENAI_API_KEY`.

    Raises:
        UsageError: `model` is empty, the API key is missing, or no transport is installed.
    """
    builder = OpenAIBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


@without_frames
def openai_embedder(model: str, *, api_key: str | None = None, dimensions: int | None = None) -> OpenAIEmbeddings:
    """Return an embeddings provider for an OpenAI model.

    Args:
        model: the name of the model, such as `text-embedding-3-small`.
        api_key: the API key. `None` reads `OPENAI_API_KEY`.
        dimensions: the length of the vectors. `None` uses the model's default.

    Raises:
        UsageError: `model` is empty, the API key is missing, or no transport is installed.
    """
    builder = OpenAIBuilder() if api_key is None else OpenAIBuilder().with_api_key(api_key)
    return builder.with_embeddings(model=model, dimensions=dimensions).build()
