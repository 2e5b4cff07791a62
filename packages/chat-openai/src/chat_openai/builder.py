"""The builders for OpenAI. What a builder has been told decides what it may be told next.

    OpenAIBuilder ── with_model() ──> ReadyOpenAIBuilder ── build() ──> OpenAIProvider, on the Responses wire
      │    │  └─ with_embeddings(model=…) ──> OpenAIEmbeddingsBuilder ── build() ──> OpenAIEmbeddings
      │    └──── with_completions() ──> …CompletionsBuilder: the other wire
      └───────── with_native_tools(), with_store() … ────> …ResponsesBuilder: this wire, and not the other one

The model may be named before the wire is chosen or after it. What one wire alone has cannot be said where the other one
was chosen, and a builder that was told of it offers no change of wires. All are immutable: every `with_…` returns a new
one. What the types forbid fails at run time too, in words.
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
from chat_completions.options import DEFAULT_PROVIDER as COMPLETIONS
from chat_completions.options import ReasoningReplay, ReasoningStyle
from chat_core.errors import UsageError
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
"""Headers that mean something to OpenAI alone."""

# --- What comes of it ----------------------------------------------------------------------------------


def build_responses(settings: Settings) -> tuple[ResponsesProvider, ResponsesOptions | None]:
    """The Responses wire, and what goes with every request.

    Raises:
        UsageError: the URL is none, the key is missing, or there is no transport.
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
    """The Chat Completions wire, and what goes with every request.

    Raises:
        UsageError: the URL is none, the key is missing, or there is no transport.
    """
    wire = _completions(settings, "completions", replace(settings.completions, model=settings.model))
    if not settings.body:
        return wire, None
    return wire, CompletionsOptions(extra_body=dict(settings.body), provider=settings.completions.provider)


def build_embeddings(settings: Settings) -> OpenAIEmbeddings:
    """The model that makes vectors.

    Raises:
        UsageError: the URL is none, the key is missing, or there is no transport.
    """
    dialect = replace(settings.completions, model=settings.model, dimensions=settings.dimensions)
    return OpenAIEmbeddings(_completions(settings, "embeddings", dialect))


def _completions(settings: Settings, wire: Wire, dialect: Dialect) -> CompletionsProvider:
    return CompletionsProvider(
        dialect,
        endpoint_for(settings, wire),
        settings.transport_or_default(),
        owns_transport=settings.transport is None,
        description=settings.description,
        max_embedding_batch=settings.max_embedding_batch,
    )


# --- What one wire alone has ---------------------------------------------------------------------------


class OnResponses(Connectable, Generic[NextT]):
    """What the Responses wire alone has. Whoever says it has chosen this wire."""

    __slots__ = ()

    def _missing_method_hint(self, name: str) -> str | None:
        return COMPLETIONS_ONLY_HINTS.get(name) or super()._missing_method_hint(name)

    @abstractmethod
    def _choose_responses(self, settings: Settings) -> NextT:
        """The state in which this wire is chosen."""

    def with_native_tools(self, *tools: NativeTool) -> NextT:
        """Let the model use tools that the server runs itself, such as `WebSearch()`; they join those named before.

        Raises:
            UsageError: something is none of them, or two remote servers have one label.
        """
        for tool in tools:
            if not isinstance(tool, NativeTool):  # pyright: ignore[reportUnnecessaryIsInstance]
                msg = f"with_native_tools() takes WebSearch(…), FileSearch(…) and the like, not {tool!r}"
                raise UsageError(msg)
        together = (*self._settings.tools, *tools)
        labels = [said["server_label"] for tool in together if "server_label" in (said := tool.declaration())]
        if len(set(labels)) < len(labels):
            msg = f"remote servers are told apart by their labels, and two have the same: {', '.join(map(str, labels))}"
            raise UsageError(msg)
        return self._choose_responses(replace(self._settings, tools=together))

    def with_store(self, *, store: bool = True) -> NextT:
        """Ask the server to keep its responses, or not to. Without a word it does as it likes, and mostly keeps them.

        Where nothing is kept, reasoning is asked for in encrypted form, and goes back so.
        """
        dialect = self._settings.responses
        if dialect.previous_response and not store:
            msg = "with_store(store=False) leaves no response to go on from: leave out with_previous_response()"
            raise UsageError(msg)
        return self._choose_responses(replace(self._settings, responses=replace(dialect, store=store)))

    def with_previous_response(self) -> NextT:
        """Go on from the last response where the server has it, instead of sending the conversation again.

        A history that was edited, or that comes from elsewhere, is sent whole.
        """
        dialect = self._settings.responses
        if dialect.store is False:
            msg = "with_previous_response() needs responses that are stored: leave out with_store(store=False)"
            raise UsageError(msg)
        return self._choose_responses(replace(self._settings, responses=replace(dialect, previous_response=True)))

    def with_encrypted_reasoning(self) -> NextT:
        """Have reasoning in encrypted form wherever there is some, so that it goes back although the server forgets it.

        Where nothing is stored, models that reason are asked for it without this.
        """
        dialect = replace(self._settings.responses, encrypted_reasoning=True)
        return self._choose_responses(replace(self._settings, responses=dialect))

    def with_reasoning_summary(self, summary: Literal["auto", "concise", "detailed"] = "auto") -> NextT:
        """Have a summary of what the model thinks, as `ReasoningDelta`s and `Reasoning` parts."""
        return self._choose_responses(replace(self._settings, summary=summary))


class OnCompletions(Connectable):
    """The settings that only the Chat Completions wire has."""

    __slots__ = ()

    def with_reasoning(
        self,
        *,
        style: ReasoningStyle | None = None,
        replay: ReasoningReplay = "as-received",
        field: Literal["reasoning_content", "reasoning"] | None = None,
    ) -> Self:
        """Set how reasoning is requested, whether it is sent back, and the field for reasoning that no provider owns.

        Args:
            style: `effort` sends `reasoning_effort`; `object` sends `reasoning`, which also takes a budget.
            replay: Whether reasoning is sent back to the model that produced it.
            field: The field of reasoning that the caller wrote.
        """
        usual = self._settings.vendor.preset.dialect
        dialect = self._settings.completions.with_reasoning(usual, style=style, replay=replay, field=field)
        return self._with(replace(self._settings, completions=dialect))

    def with_strict(self, *, output: bool = True, tools: bool = False, rewrite: bool | None = None) -> Self:
        """Set which schemas the server enforces.

        Args:
            output: Whether it enforces the schema of a structured output.
            tools: Whether it enforces the schemas of tools.
            rewrite: Whether schemas are rewritten for it; without a value, as the vendor demands.
        """
        usual = self._settings.vendor.preset.dialect
        dialect = self._settings.completions.with_strict(usual, output=output, tools=tools, rewrite=rewrite)
        return self._with(replace(self._settings, completions=dialect))


class ThroughGateway(Connectable):
    """The method that sends requests to a vendor through another host."""

    __slots__ = ()

    def with_gateway(self, url: str) -> Self:
        """Send requests through `url`, which forwards them with the key: a region's own host, or a proxy.

        For another server that speaks the same wire, see `with_base_url()` of a builder without native tools.
        """
        return type(self)(self._settings.with_base_url(require_url("with_gateway", url)))


# --- OpenAI --------------------------------------------------------------------------------------------


class _OpenAI(ThroughGateway):
    """What can be said to every builder for OpenAI."""

    __slots__ = ()

    def with_organization(self, organization: str) -> Self:
        """Ask as this organization."""
        return self.with_headers({ORGANIZATION: require_text(organization, "with_organization", "its id")})

    def with_project(self, project: str) -> Self:
        """Ask as this project."""
        return self.with_headers({PROJECT: require_text(project, "with_project", "its id")})


RESPONSES_ONLY_HINTS: Final = {
    "with_native_tools": "the Chat Completions wire has no native tools: leave out with_completions()",
    "with_store": "responses are stored on the Responses wire: leave out with_completions()",
    "with_previous_response": "the Chat Completions wire goes on from no response: leave out with_completions()",
    "with_encrypted_reasoning": "reasoning is encrypted on the Responses wire: leave out with_completions()",
    "with_reasoning_summary": "reasoning is summed up on the Responses wire: leave out with_completions()",
    "with_completions": "it is on the Chat Completions wire already",
}
"""Why a builder on the Chat Completions wire lacks what the Responses wire has."""
COMPLETIONS_ONLY_HINTS: Final = {
    "with_reasoning": "with_reasoning() is of the Chat Completions wire: call with_completions() first",
    "with_strict": "with_strict() is of the Chat Completions wire: call with_completions() first",
}
"""Why a builder on the Responses wire lacks what the Chat Completions wire has."""
RESPONSES_CHOSEN_HINTS: Final = {
    "with_completions": "it was told of what the Responses wire alone has, so it cannot change to the other wire",
    "with_base_url": "other servers lack what it was told of; with_gateway() is for OpenAI by way of somebody else",
}
"""Why a builder that has chosen the Responses wire lacks what a builder with the choice has."""


@final
class OpenAIBuilder(_OpenAI, OnResponses["OpenAIResponsesBuilder"]):
    """Builds models of OpenAI, on the Responses wire unless told otherwise. The key is in `OPENAI_API_KEY`.

    It needs a model first: `.with_model("…")`.
    """

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings.of(OPENAI))

    def with_model(self, model: str) -> ReadyOpenAIBuilder:
        """Ask for `model`."""
        return ReadyOpenAIBuilder(self._settings.for_model(model))

    def with_completions(self) -> OpenAICompletionsBuilder:
        """Speak the Chat Completions wire."""
        return OpenAICompletionsBuilder(self._settings)

    def with_embeddings(
        self, *, model: str, dimensions: int | None = None, max_batch: int | None = None
    ) -> OpenAIEmbeddingsBuilder:
        """Make vectors by `model`, of this length where it lets one choose, so many texts in one request."""
        settings = self._settings.for_model(model, "with_embeddings").embedding(dimensions, max_batch)
        return OpenAIEmbeddingsBuilder(settings)

    def with_base_url(self, url: str) -> ResponsesBuilder:
        """Ask another server that speaks the Responses wire: what is OpenAI's alone is not offered any more.

        The key in the environment is not sent there.
        """
        return _responses_at(url, self._settings)

    def _choose_responses(self, settings: Settings) -> OpenAIResponsesBuilder:
        return OpenAIResponsesBuilder(settings)


@final
class ReadyOpenAIBuilder(_OpenAI, OnResponses["ReadyOpenAIResponsesBuilder"]):
    """An `OpenAIBuilder` with a model."""

    __slots__ = ()

    def with_completions(self) -> ReadyOpenAICompletionsBuilder:
        """Speak the Chat Completions wire."""
        return ReadyOpenAICompletionsBuilder(self._settings)

    def with_base_url(self, url: str) -> ReadyResponsesBuilder:
        """Ask another server that speaks the Responses wire: what is OpenAI's alone is not offered any more.

        The key in the environment is not sent there.
        """
        return _responses_at(url, self._settings).with_model(self._settings.model)

    def build(self) -> OpenAIProvider:
        """The provider, on the Responses wire.

        Raises:
            UsageError: the URL is none, the key is missing, or there is no transport.
        """
        return OpenAIProvider(*build_responses(self._settings))

    def _choose_responses(self, settings: Settings) -> ReadyOpenAIResponsesBuilder:
        return ReadyOpenAIResponsesBuilder(settings)


@final
class OpenAIResponsesBuilder(_OpenAI, OnResponses["OpenAIResponsesBuilder"]):
    """An `OpenAIBuilder` that was told of what the Responses wire alone has."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyOpenAIResponsesBuilder:
        """Ask for `model`."""
        return ReadyOpenAIResponsesBuilder(self._settings.for_model(model))

    def _choose_responses(self, settings: Settings) -> OpenAIResponsesBuilder:
        return OpenAIResponsesBuilder(settings)

    def _missing_method_hint(self, name: str) -> str | None:
        return RESPONSES_CHOSEN_HINTS.get(name) or super()._missing_method_hint(name)


@final
class ReadyOpenAIResponsesBuilder(_OpenAI, OnResponses["ReadyOpenAIResponsesBuilder"]):
    """An `OpenAIResponsesBuilder` with a model."""

    __slots__ = ()

    def build(self) -> OpenAIProvider:
        """The provider, on the Responses wire.

        Raises:
            UsageError: the URL is none, the key is missing, or there is no transport.
        """
        return OpenAIProvider(*build_responses(self._settings))

    def _choose_responses(self, settings: Settings) -> ReadyOpenAIResponsesBuilder:
        return ReadyOpenAIResponsesBuilder(settings)

    def _missing_method_hint(self, name: str) -> str | None:
        return RESPONSES_CHOSEN_HINTS.get(name) or super()._missing_method_hint(name)


@final
class OpenAICompletionsBuilder(_OpenAI, OnCompletions):
    """An `OpenAIBuilder` on the Chat Completions wire."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyOpenAICompletionsBuilder:
        """Ask for `model`."""
        return ReadyOpenAICompletionsBuilder(self._settings.for_model(model))

    def with_base_url(self, url: str) -> CompletionsBuilder:
        """Ask another server that speaks this wire. The key in the environment is not sent there."""
        return _completions_at(url, self._settings)

    def _missing_method_hint(self, name: str) -> str | None:
        return RESPONSES_ONLY_HINTS.get(name) or super()._missing_method_hint(name)


@final
class ReadyOpenAICompletionsBuilder(_OpenAI, OnCompletions):
    """An `OpenAICompletionsBuilder` with a model."""

    __slots__ = ()

    def with_base_url(self, url: str) -> ReadyCompletionsBuilder:
        """Ask another server that speaks this wire. The key in the environment is not sent there."""
        return _completions_at(url, self._settings).with_model(self._settings.model)

    def build(self) -> OpenAICompletionsProvider:
        """The provider, on the Chat Completions wire.

        Raises:
            UsageError: the URL is none, the key is missing, or there is no transport.
        """
        return OpenAICompletionsProvider(*build_completions(self._settings))

    def _missing_method_hint(self, name: str) -> str | None:
        return RESPONSES_ONLY_HINTS.get(name) or super()._missing_method_hint(name)


@final
class OpenAIEmbeddingsBuilder(Connectable):
    """A builder of OpenAI, Azure or OpenRouter whose model makes vectors."""

    __slots__ = ()

    def build(self) -> OpenAIEmbeddings:
        """The provider.

        Raises:
            UsageError: the URL is none, the key is missing, or there is no transport.
        """
        return build_embeddings(self._settings)


# --- Another server -------------------------------------------------------------------------------------

BuilderT = TypeVar("BuilderT", ResponsesBuilder, CompletionsBuilder)


def _responses_at(url: str, settings: Settings) -> ResponsesBuilder:
    builder = ResponsesBuilder().with_base_url(require_url("with_base_url", url))
    return _copy_connection(builder.with_provider_name(RESPONSES, settings.description), settings)


def _completions_at(url: str, settings: Settings) -> CompletionsBuilder:
    builder = CompletionsBuilder().with_base_url(require_url("with_base_url", url))
    return _copy_connection(builder.with_provider_name(COMPLETIONS, settings.description), settings)


def _copy_connection(builder: BuilderT, settings: Settings) -> BuilderT:
    """The builder of a wire with what was said so far, but for what OpenAI alone is told."""
    if settings.transport is not None:
        builder = builder.with_transport(settings.transport)
    return builder.with_headers({name: value for name, value in settings.headers if name not in OPENAI_HEADERS})


def openai(model: str, *, api_key: str | None = None) -> OpenAIProvider:
    """A model of OpenAI on the Responses wire: short for `OpenAIBuilder().with_model(model).build()`."""
    builder = OpenAIBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()
