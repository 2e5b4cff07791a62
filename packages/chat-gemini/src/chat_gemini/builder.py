"""Builder for Gemini providers, with one class per configuration state.

`build()` needs a model. The other methods depend on whether this is a chat model or an embedding model. States are
immutable: every `with_…` method returns a new builder. Calling a method that a state lacks raises `AttributeError`
with the missing step.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, Literal, Self, final

from chat_core.arguments import require_text, require_whole
from chat_core.errors import UsageError
from chat_core.wire.connection import (
    AUTHORIZATION,
    AddressBuilder,
    ApiKey,
    require_key,
    require_model,
    require_provider_name,
    without_frames,
)

from chat_gemini.client import GeminiEmbeddings, GeminiProvider, model_path
from chat_gemini.native import CodeExecution, FileSearch, GoogleMaps, GoogleSearch, NativeTool, UrlContext
from chat_gemini.options import Dialect, EmbeddingDialect, SafetySetting, Thinking
from chat_gemini.settings import Settings, endpoint_for

PLACEHOLDER_SIGNATURE: Final = "skip_thought_signature_validator"
"""Value that the API accepts as the signature of a call made by another model."""

PROJECT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]*")
"""Pattern for the id or number of a Google Cloud project, which is part of the URL path."""

LOCATION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
"""Pattern for the name of a Google Cloud location, which is part of the host name."""

NEW_MODEL: Final = re.compile(r"gemini-(?!(?:[12]\b|pro$|pro-vision))")
"""Pattern for the names of Gemini 3 and later models.

These models have thinking levels, sign their function calls, read files in function results, and accept an output
schema next to tools.
"""


class _Configurable(AddressBuilder[Settings]):
    """Base class with the methods that all builder states share."""

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings())

    def with_vertex(self, project: str, location: str = "global") -> Self:
        """Send requests to Vertex AI. The credentials must be set with `with_token()`.

        Args:
            project: id of the Google Cloud project.
            location: region, such as `europe-west4`, multi-region, `us` or `eu`, or `global`.

        Raises:
            UsageError: the project or the location is malformed.
        """
        require_text(project=project, location=location)
        if PROJECT.fullmatch(project) is None or LOCATION.fullmatch(location) is None:
            msg = (
                "with_vertex() needs a project id and a location, such as ('my-project', 'europe-west4'), "
                f"not {(project, location)!r}"
            )
            raise UsageError(msg)
        return self._with(replace(self._settings, vertex=(project, location)))

    @without_frames
    def with_token(self, token: ApiKey) -> Self:
        """Send a bearer token instead of an API key.

        Args:
            token: the token, or an async function that is called for each request and returns the token.
        """
        secret = require_key("with_token", token, "a token")
        return self._with(self._settings.with_credentials(AUTHORIZATION, secret))

    def with_provider_name(self, name: str, description: str = "") -> Self:
        """Set the provider's name.

        Args:
            name: used in errors and metadata, and recorded as the owner of opaque data in the history.
            description: free text for `ProviderMeta.description`.
        """
        return self._with(replace(self._settings, provider=require_provider_name(name), description=description))


@final
class GeminiBuilder(_Configurable):
    """Builder for Gemini providers. `build()` is available after `with_model()` or `with_embedding_model()`.

    Unless credentials are set, the API key is read from the environment variable `GOOGLE_API_KEY` or `GEMINI_API_KEY`.
    """

    __slots__ = ()

    def with_model(self, model: str) -> ReadyGeminiBuilder:
        """Set the chat model, such as `gemini-3-flash-preview`."""
        return ReadyGeminiBuilder(replace(self._settings, model=_model_name("with_model", model)))

    def with_embedding_model(
        self,
        model: str,
        *,
        dimensions: int | None = None,
        task_type: str | None = None,
        auto_truncate: bool | None = None,
        max_batch: int | None = None,
        max_characters: int | None = None,
        concurrency: int = 1,
    ) -> GeminiEmbeddingsBuilder:
        """Set the embedding model and its settings.

        Args:
            model: name of the model, such as `gemini-embedding-001`.
            dimensions: length of the vectors. Default: the model's.
            task_type: purpose of the vectors, such as `RETRIEVAL_DOCUMENT` or `SEMANTIC_SIMILARITY`.
            auto_truncate: whether the server truncates texts that are too long instead of rejecting them.
            max_batch: maximum number of texts per request. Default: the limit of the API method.
            max_characters: maximum number of characters per request. A longer text is sent in a request of its own.
            concurrency: maximum number of requests at the same time.

        Raises:
            UsageError: `dimensions`, `max_batch`, `max_characters` or `concurrency` is less than 1.
        """
        limits = {"max_batch": max_batch, "max_characters": max_characters, "concurrency": concurrency}
        for name, value in {"dimensions": dimensions, **limits}.items():
            if value is not None:
                require_whole(name, value, 1)
        settings = replace(
            self._settings,
            model=_model_name("with_embedding_model", model),
            dimensions=dimensions,
            task_type=task_type,
            auto_truncate=auto_truncate,
            max_batch=max_batch,
            max_characters=max_characters,
            concurrency=concurrency,
        )
        return GeminiEmbeddingsBuilder(settings)

    def _missing_method_hint(self, name: str) -> str | None:
        if name in vars(ReadyGeminiBuilder):
            return f"{name}() needs a model: call .with_model('…') first"
        return None


class _WithModel(_Configurable):
    """Base class with the methods that all builder states with a model share."""

    __slots__ = ()

    def _missing_method_hint(self, name: str) -> str | None:
        if name in {"with_model", "with_embedding_model"}:
            return f"the builder already has the model {self._settings.model!r}: use a new GeminiBuilder() for another"
        if name in vars(ReadyGeminiBuilder):
            return f"{name}() is only available for chat models, but {self._settings.model!r} is an embedding model"
        return None


@final
class ReadyGeminiBuilder(_WithModel):
    """Builder for a Gemini chat provider, after the model has been set."""

    __slots__ = ()

    def with_google_search(self, search: GoogleSearch | None = None) -> Self:
        """Let the server search the web with Google Search. `search` contains the options of the tool."""
        return self._with_tool(search or GoogleSearch())

    def with_url_context(self) -> Self:
        """Let the server read web pages whose URLs are in the conversation."""
        return self._with_tool(UrlContext())

    def with_code_execution(self) -> Self:
        """Let the server run code that the model writes."""
        return self._with_tool(CodeExecution())

    def with_google_maps(self, maps: GoogleMaps | None = None) -> Self:
        """Let the server search for places on Google Maps. `maps` contains the options of the tool."""
        return self._with_tool(maps or GoogleMaps())

    def with_file_search(self, *stores: str, top_k: int | None = None, filter: str | None = None) -> Self:  # noqa: A002 - the vendor's word
        """Let the server search in stored files. Not available on Vertex AI.

        Args:
            *stores: names of file search stores, such as `fileSearchStores/…`.
            top_k: maximum number of chunks to retrieve.
            filter: filter for the metadata of files, in the API's filter syntax.

        Raises:
            UsageError: `stores` is empty.
        """
        return self._with_tool(FileSearch(stores=stores, top_k=top_k, filter=filter))

    def with_native_tool(self, tool: NativeTool) -> Self:
        """Enable a server-side tool, replacing an earlier tool of the same class."""
        return self._with_tool(tool)

    def _with_tool(self, tool: NativeTool) -> Self:
        others = tuple([other for other in self._settings.tools if type(other) is not type(tool)])
        return self._with(replace(self._settings, tools=(*others, tool)))

    def with_thoughts(self, *, include: bool = True, style: Thinking | None = None) -> Self:
        """Set whether responses include thought summaries, and the format of `ChatOptions.reasoning`.

        Args:
            include: whether the server returns thought summaries.
            style: whether an effort is sent as a `"level"` or as a `"budget"` in tokens. Default: a level for Gemini 3
                and later models, a budget for earlier models.
        """
        return self._with(replace(self._settings, include_thoughts=include, thinking=style))

    def with_modalities(self, *modalities: Literal["TEXT", "IMAGE", "AUDIO"]) -> Self:
        """Set the output types of responses. Images and audio are returned as `File` parts, even in streams."""
        if not modalities:
            msg = "with_modalities() needs at least one modality, such as ('TEXT', 'IMAGE')"
            raise UsageError(msg)
        return self._with(replace(self._settings, modalities=modalities))

    def with_safety(self, *settings: SafetySetting) -> Self:
        """Set the thresholds for blocking content. The new settings replace all earlier settings."""
        return self._with(replace(self._settings, safety=settings))

    def with_openapi_schemas(self) -> Self:
        """Send schemas in the OpenAPI format, for servers and models without support for JSON Schema."""
        return self._with(replace(self._settings, schemas="openapi"))

    def with_json_array_streams(self) -> Self:
        """Request streams as one JSON array, for servers or proxies that do not support server-sent events."""
        return self._with(replace(self._settings, framing="json-array"))

    def build(self) -> GeminiProvider:
        """Return a provider with the settings of this builder.

        Raises:
            UsageError: the base URL is invalid, the API key is missing, no transport is installed, or file search is
                enabled on Vertex AI.
        """
        settings = self._settings
        if settings.vertex is not None and any(isinstance(tool, FileSearch) for tool in settings.tools):
            msg = "Vertex AI does not support file search: remove .with_file_search(…), or use the Gemini API"
            raise UsageError(msg)
        new = NEW_MODEL.match(settings.model.rpartition("/")[2]) is not None
        dialect = Dialect(
            model=settings.model,
            provider=settings.provider,
            schemas=settings.schemas,
            thinking=settings.thinking or ("level" if new else "budget"),
            include_thoughts=settings.include_thoughts,
            files_in_results=new,
            stand_in=PLACEHOLDER_SIGNATURE if new else None,
            modalities=settings.modalities,
            safety=settings.safety,
            schemas_with_tools=new,
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
    """Builder for a Gemini embeddings provider, after the model has been set."""

    __slots__ = ()

    def build(self) -> GeminiEmbeddings:
        """Return a provider with the settings of this builder.

        Raises:
            UsageError: the base URL is invalid, the API key is missing, or no transport is installed.
        """
        settings = self._settings
        method: Literal["batchEmbedContents", "embedContent", "predict"] = "batchEmbedContents"
        if settings.vertex is not None:
            # On Vertex AI the newest models accept one text per request; the others use the `predict` method.
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
            max_characters=settings.max_characters,
            concurrency=settings.concurrency,
        )


@without_frames
def gemini(model: str, *, api_key: str | None = None) -> GeminiProvider:
    """Return a Gemini chat provider for `model` with default settings.

    Args:
        model: name of the model.
        api_key: API key. Default: read from the environment, as in `GeminiBuilder`.

    Raises:
        UsageError: the API key is missing, or no transport is installed.
    """
    builder = GeminiBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def _model_name(method: str, model: str) -> str:
    name = require_model(method, model).removeprefix("models/")
    model_path(name)  # raises now instead of in build()
    return name


@without_frames
def gemini_embedder(model: str, *, api_key: str | None = None, dimensions: int | None = None) -> GeminiEmbeddings:
    """Return a Gemini embeddings provider for `model`.

    Args:
        model: name of the model in the API.
        api_key: API key. Default: read from the environment, as in `GeminiBuilder`.
        dimensions: length of the vectors. Default: the model's own.

    Raises:
        UsageError: the API key is missing, or no transport is installed.
    """
    builder = GeminiBuilder() if api_key is None else GeminiBuilder().with_api_key(api_key)
    return builder.with_embedding_model(model, dimensions=dimensions).build()
