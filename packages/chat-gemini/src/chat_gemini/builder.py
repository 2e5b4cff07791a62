"""The builder of a provider: without a model it cannot build, and what it offers then depends on the kind of model.

All states are immutable: every `with_…` returns a new one. What the types forbid fails at run time too, in words.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NoReturn, Self, final

from chat_core.errors import UsageError
from chat_core.transport.protocol import Transport
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.shapes import Json

from chat_gemini.client import GeminiEmbeddings, GeminiProvider
from chat_gemini.options import DEFAULT_PROVIDER, Dialect, EmbeddingDialect, SafetySetting, Schemas, Thinking
from chat_gemini.tools import CodeExecution, FileSearch, GoogleMaps, GoogleSearch, NativeTool, UrlContext

DEFAULT_BASE_URL: Final = "https://generativelanguage.googleapis.com/v1beta"
API_KEY_VARIABLES: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
"""Where the key for the default base URL is looked for, in this order. It is never sent to another one."""

STAND_IN: Final = "skip_thought_signature_validator"
"""What the vendor takes for the signature of a call that another model made."""

NEW_MODEL: Final = re.compile(r"gemini-(?!(?:[12]\b|pro$|pro-vision))")
"""Models from Gemini 3 on: they think by level, sign their calls, and see the files in a result."""


@final
@dataclass(frozen=True, slots=True)
class _Settings:
    """What a builder has been told. `None` is decided when it builds."""

    model: str = ""
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    vertex: tuple[str, str] | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    transport: Transport | None = None
    provider: str = DEFAULT_PROVIDER
    description: str = ""
    schemas: Schemas = "json"
    thinking: Thinking | None = None
    include_thoughts: bool | None = None
    modalities: tuple[str, ...] | None = None
    safety: tuple[SafetySetting, ...] | None = None
    tools: tuple[NativeTool, ...] = ()
    framing: Literal["sse", "json-array"] = "sse"
    dimensions: int | None = None
    task_type: str | None = None
    auto_truncate: bool | None = None
    max_batch: int | None = None


class _Configurable:
    """What can be said in every state."""

    __slots__ = ("_settings",)

    def __init__(self, settings: _Settings = _Settings()) -> None:
        self._settings = settings

    def _with(self, settings: _Settings) -> Self:
        return type(self)(settings)

    def with_base_url(self, url: str) -> Self:
        """Ask the server at `url`, the part before `/models/…`; a query in it goes with every request."""
        if not isinstance(url, str) or "://" not in url:  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"with_base_url() needs a URL like 'http://localhost:8080/v1beta', not {url!r}"
            raise UsageError(msg)
        return self._with(replace(self._settings, base_url=url))

    def with_vertex(self, project: str, location: str = "global") -> Self:
        """Ask Vertex AI for a project's models in a location. It needs `with_token()`."""
        if not project or not location:
            msg = "with_vertex() needs the id of a project and a location, as in ('my-project', 'europe-west4')"
            raise UsageError(msg)
        return self._with(replace(self._settings, vertex=(project, location)))

    def with_api_key(self, key: str) -> Self:
        """Send `key`. Without it, the default base URL takes the key from `GEMINI_API_KEY` or `GOOGLE_API_KEY`."""
        return self._with(replace(self._settings, api_key=_secret(key, "with_api_key()"), token=None))

    def with_token(self, token: str) -> Self:
        """Send `token` as a bearer token, in place of a key."""
        return self._with(replace(self._settings, token=_secret(token, "with_token()"), api_key=None))

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """Send these headers too; one of the same name replaces the earlier one."""
        merged = {name.lower(): value for name, value in (*self._settings.headers, *headers.items())}
        return self._with(replace(self._settings, headers=tuple(merged.items())))

    def with_transport(self, transport: Transport) -> Self:
        """Travel by `transport`, which stays open when the provider closes. Without it, the httpx transport is used."""
        if not isinstance(transport, Transport):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"with_transport() needs a Transport (send, stream, aclose), not {transport!r}"
            raise UsageError(msg)
        return self._with(replace(self._settings, transport=transport))

    def with_provider_name(self, name: str, description: str = "") -> Self:
        """Call the provider `name`: in errors, in metadata, and as the owner of opaque data in a history."""
        if not name:
            msg = "with_provider_name() needs a name, not an empty text"
            raise UsageError(msg)
        return self._with(replace(self._settings, provider=name, description=description))


@final
class GeminiBuilder(_Configurable):
    """Builds a provider of Gemini's models. It needs a model first: `.with_model("…")`."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyGeminiBuilder:
        """Ask for answers of `model`."""
        return ReadyGeminiBuilder(replace(self._settings, model=_model(model, "with_model()")))

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
            model=_model(model, "with_embedding_model()"),
            dimensions=dimensions,
            task_type=task_type,
            auto_truncate=auto_truncate,
            max_batch=max_batch,
        )
        return GeminiEmbeddingsBuilder(settings)

    if not TYPE_CHECKING:  # pragma: no branch

        def __getattr__(self, name: str) -> NoReturn:
            if name == "build" or name in vars(ReadyGeminiBuilder):
                msg = f"{name}() needs a model: call .with_model('…') first"
                raise AttributeError(msg)
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)


class _WithModel(_Configurable):
    """A builder that has its model."""

    __slots__ = ()

    if not TYPE_CHECKING:  # pragma: no branch

        def __getattr__(self, name: str) -> NoReturn:
            if name in {"with_model", "with_embedding_model"}:
                msg = f"it has its model, {self._settings.model!r}: begin with GeminiBuilder() for another one"
                raise AttributeError(msg)
            if name in vars(ReadyGeminiBuilder):
                msg = f"{name}() is for models that answer, and {self._settings.model!r} makes vectors"
                raise AttributeError(msg)
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)


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
            _endpoint(settings),
            _transport(settings),
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
            _endpoint(settings),
            _transport(settings),
            owns_transport=settings.transport is None,
            description=settings.description,
            max_batch=settings.max_batch,
        )


def gemini(model: str, *, api_key: str | None = None) -> GeminiProvider:
    """A model of Google in one call, its key from the environment where none is given."""
    builder = GeminiBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


# --- What they share ----------------------------------------------------------------------------------------


def _secret(value: str, where: str) -> str:
    if not isinstance(value, str) or not value.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"{where} needs a secret, and it got nothing: is its environment variable set?"
        raise UsageError(msg)
    return value.strip()


def _model(model: str, where: str) -> str:
    if not isinstance(model, str) or not model:  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"{where} needs the name of a model, not {model!r}"
        raise UsageError(msg)
    return model.removeprefix("models/")


def _endpoint(settings: _Settings) -> Endpoint:
    return Endpoint(settings.base_url or _base_url(settings), _headers(settings))


def _base_url(settings: _Settings) -> str:
    if settings.vertex is None:
        return DEFAULT_BASE_URL
    project, location = settings.vertex
    host = "aiplatform.googleapis.com" if location == "global" else f"{location}-aiplatform.googleapis.com"
    return f"https://{host}/v1beta1/projects/{project}/locations/{location}/publishers/google"


def _headers(settings: _Settings) -> Json:
    headers: Json = dict(settings.headers)
    if settings.token is not None:
        return {"authorization": f"Bearer {settings.token}"} | headers
    key = settings.api_key
    if key is None and not headers.keys() & {"authorization", "x-goog-api-key"}:
        key = _key_for(settings)
    return headers if key is None else {"x-goog-api-key": key} | headers


def _key_for(settings: _Settings) -> str | None:
    """The key of the environment, which goes to the vendor's own server alone."""
    if settings.base_url is not None:
        return None
    if settings.vertex is None:
        for name in API_KEY_VARIABLES:
            if key := os.environ.get(name, "").strip():
                return key
    if settings.transport is None:
        what = "token: call .with_token('…')" if settings.vertex is not None else "key: call .with_api_key('…')"
        variables = "" if settings.vertex is not None else f", set {API_KEY_VARIABLES[0]}"
        msg = f"there is no {what}{variables}, or name another server with .with_base_url('…')"
        raise UsageError(msg)
    return None


def _transport(settings: _Settings) -> Transport:
    if settings.transport is not None:
        return settings.transport
    try:
        from chat_transport_httpx import HttpxTransport  # noqa: PLC0415 - only the default is imported late
    except ImportError as error:
        msg = "there is no transport: install chat-transport-httpx, or pass one with .with_transport(…)"
        raise UsageError(msg) from error
    return HttpxTransport()
