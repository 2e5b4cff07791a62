"""The builder of a provider: without a model it cannot build, and what it offers then depends on the kind of model.

All states are immutable: every `with_…` returns a new one. What the types forbid fails at run time too, in words.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, Literal, Self, final

from chat_core.errors import UsageError
from chat_core.wire.connection import (
    AUTHORIZATION,
    AddressBuilder,
    require_model,
    require_provider_name,
    require_secret,
)

from chat_gemini.client import GeminiEmbeddings, GeminiProvider
from chat_gemini.native import CodeExecution, FileSearch, GoogleMaps, GoogleSearch, NativeTool, UrlContext
from chat_gemini.options import Dialect, EmbeddingDialect, SafetySetting, Thinking
from chat_gemini.settings import Settings, endpoint_for

STAND_IN: Final = "skip_thought_signature_validator"
"""What the vendor takes for the signature of a call that another model made."""

NEW_MODEL: Final = re.compile(r"gemini-(?!(?:[12]\b|pro$|pro-vision))")
"""Models from Gemini 3 on: they think by level, sign their calls, and see the files in a result."""


class _Configurable(AddressBuilder[Settings]):
    """The methods of every state."""

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings())

    def with_vertex(self, project: str, location: str = "global") -> Self:
        """Ask Vertex AI for a project's models in a location. It needs `with_token()`."""
        if not project or not location:
            msg = "with_vertex() needs the id of a project and a location, as in ('my-project', 'europe-west4')"
            raise UsageError(msg)
        return self._with(replace(self._settings, vertex=(project, location)))

    def with_token(self, token: str) -> Self:
        """Send `token` as a bearer token, in place of a key."""
        secret = require_secret("with_token", token, "a token")
        return self._with(self._settings.with_credentials(AUTHORIZATION, secret))

    def with_provider_name(self, name: str, description: str = "") -> Self:
        """Call the provider `name`: in errors, in metadata, and as the owner of opaque data in a history."""
        return self._with(replace(self._settings, provider=require_provider_name(name), description=description))


@final
class GeminiBuilder(_Configurable):
    """Builds a provider of Gemini's models. It needs a model first: `.with_model("…")`.

    The key is read from `GEMINI_API_KEY` or `GOOGLE_API_KEY`.
    """

    __slots__ = ()

    def with_model(self, model: str) -> ReadyGeminiBuilder:
        """Ask for answers of `model`."""
        return ReadyGeminiBuilder(replace(self._settings, model=_model("with_model", model)))

    def with_embedding_model(
        self,
        model: str,
        *,
        dimensions: int | None = None,
        task_type: str | None = None,
        auto_truncate: bool | None = None,
        max_batch: int | None = None,
    ) -> GeminiEmbeddingsBuilder:
        """Ask for vectors of `model`.

        Args:
            model: its name.
            dimensions: of the vectors, where the model leaves a choice.
            task_type: what they are for: `RETRIEVAL_DOCUMENT`, `SEMANTIC_SIMILARITY` and so on.
            auto_truncate: whether a text that is too long is cut, or refused.
            max_batch: how many texts one request may hold, where it is not what the vendor says.
        """
        for name, value in (("dimensions", dimensions), ("max_batch", max_batch)):
            if value is not None and value < 1:
                msg = f"{name} must be at least 1, not {value!r}"
                raise UsageError(msg)
        settings = replace(
            self._settings,
            model=_model("with_embedding_model", model),
            dimensions=dimensions,
            task_type=task_type,
            auto_truncate=auto_truncate,
            max_batch=max_batch,
        )
        return GeminiEmbeddingsBuilder(settings)

    def _missing_method_hint(self, name: str) -> str | None:
        if name in vars(ReadyGeminiBuilder):
            return f"{name}() needs a model: call .with_model('…') first"
        return None


class _WithModel(_Configurable):
    """A builder that has its model."""

    __slots__ = ()

    def _missing_method_hint(self, name: str) -> str | None:
        if name in {"with_model", "with_embedding_model"}:
            return f"it has its model, {self._settings.model!r}: begin with GeminiBuilder() for another one"
        if name in vars(ReadyGeminiBuilder):
            return f"{name}() is for models that answer, and {self._settings.model!r} makes vectors"
        return None


@final
class ReadyGeminiBuilder(_WithModel):
    """A `GeminiBuilder` with a model that answers."""

    __slots__ = ()

    def with_google_search(self, search: GoogleSearch | None = None) -> Self:
        """Let the server search the web."""
        return self._with_tool(search or GoogleSearch())

    def with_url_context(self) -> Self:
        """Let the server read the pages whose URLs stand in the conversation."""
        return self._with_tool(UrlContext())

    def with_code_execution(self) -> Self:
        """Let the server run code that the model writes."""
        return self._with_tool(CodeExecution())

    def with_google_maps(self, maps: GoogleMaps | None = None) -> Self:
        """Let the server look places up."""
        return self._with_tool(maps or GoogleMaps())

    def with_file_search(self, *stores: str, top_k: int | None = None, filter: str | None = None) -> Self:  # noqa: A002 - the vendor's word
        """Let the server search files that it stores. Vertex AI has no such tool."""
        return self._with_tool(FileSearch(stores=stores, top_k=top_k, filter=filter))

    def with_native_tool(self, tool: NativeTool) -> Self:
        """Let the server run another tool of its own."""
        return self._with_tool(tool)

    def _with_tool(self, tool: NativeTool) -> Self:
        kept = tuple([known for known in self._settings.tools if type(known) is not type(tool)])
        return self._with(replace(self._settings, tools=(*kept, tool)))

    def with_thoughts(self, *, told: bool = True, style: Thinking | None = None) -> Self:
        """Say whether the model's thoughts are told, and whether an effort is a level or a budget of tokens.

        Without a style it is what the model's name says: levels from Gemini 3 on.
        """
        return self._with(replace(self._settings, include_thoughts=told, thinking=style))

    def with_modalities(self, *modalities: Literal["TEXT", "IMAGE", "AUDIO"]) -> Self:
        """Say what answers are made of. Images and sound are files of the answer, in streams too."""
        if not modalities:
            msg = "with_modalities() needs one at least, as in ('TEXT', 'IMAGE')"
            raise UsageError(msg)
        return self._with(replace(self._settings, modalities=modalities))

    def with_safety(self, *settings: SafetySetting) -> Self:
        """Say which content is blocked."""
        return self._with(replace(self._settings, safety=settings))

    def with_openapi_schemas(self) -> Self:
        """Send schemas in the older fields, for servers and models that do not know those for JSON Schema."""
        return self._with(replace(self._settings, schemas="openapi"))

    def with_json_array_streams(self) -> Self:
        """Ask for streams as one JSON array, for servers or proxies that do not pass server-sent events on."""
        return self._with(replace(self._settings, framing="json-array"))

    def build(self) -> GeminiProvider:
        """The provider.

        Raises:
            UsageError: the base URL is none, a key is missing where one is needed, there is no transport, or the server
                has no such tool.
        """
        settings = self._settings
        if settings.vertex is not None and any(isinstance(tool, FileSearch) for tool in settings.tools):
            msg = "Vertex AI has no file search: leave .with_file_search(…) out, or ask the Gemini API"
            raise UsageError(msg)
        new = NEW_MODEL.match(settings.model.rpartition("/")[2]) is not None
        dialect = Dialect(
            model=settings.model,
            provider=settings.provider,
            schemas=settings.schemas,
            thinking=settings.thinking or ("level" if new else "budget"),
            include_thoughts=settings.include_thoughts,
            files_in_results=new,
            stand_in=STAND_IN if new else None,
            modalities=settings.modalities,
            safety=settings.safety,
            native_tools=tuple([tool.declaration() for tool in settings.tools]),
            retrieval=next((tool.retrieval() for tool in settings.tools if isinstance(tool, GoogleMaps)), None),
        )
        return GeminiProvider(
            dialect,
            endpoint_for(settings),
            settings.transport_or_default(),
            owns_transport=settings.transport is None,
            description=settings.description,
            framing=settings.framing,
            flat_counts=settings.vertex is not None,
        )


@final
class GeminiEmbeddingsBuilder(_WithModel):
    """A `GeminiBuilder` with a model of embeddings."""

    __slots__ = ()

    def build(self) -> GeminiEmbeddings:
        """The provider.

        Raises:
            UsageError: the base URL is none, a key is missing where one is needed, or there is no transport.
        """
        settings = self._settings
        method: Literal["batchEmbedContents", "embedContent", "predict"] = "batchEmbedContents"
        if settings.vertex is not None:
            # On Vertex the newest models take one text at a time, and the others are asked for predictions.
            method = "embedContent" if "gemini-embedding-2" in settings.model else "predict"
        dialect = EmbeddingDialect(
            model=settings.model,
            provider=settings.provider,
            method=method,
            dimensions=settings.dimensions,
            task_type=settings.task_type,
            auto_truncate=settings.auto_truncate,
            grouped=method == "embedContent",
        )
        return GeminiEmbeddings(
            dialect,
            endpoint_for(settings),
            settings.transport_or_default(),
            owns_transport=settings.transport is None,
            description=settings.description,
            max_batch=settings.max_batch,
        )


def gemini(model: str, *, api_key: str | None = None) -> GeminiProvider:
    """A model of Google in one call, its key from the environment where none is given."""
    builder = GeminiBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def _model(method: str, model: str) -> str:
    return require_model(method, model).removeprefix("models/")
