"""Builder for models on Google Cloud, with one class per kind of credentials.

`with_gemini_model()`, `with_claude_model()` and `with_embedding_model()` return the builders of chat-gemini and
chat-claude, with the server and the credentials set. States are immutable: every `with_…` method returns a new builder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Self, final

from chat_claude import ClaudeBuilder, ClaudeProvider
from chat_claude.builder import ReadyGatewayClaudeBuilder
from chat_core.errors import UsageError
from chat_core.transport.protocol import Transport
from chat_core.wire.connection import ApiKey, require_key, require_url, without_frames
from chat_core.wire.endpoint import Endpoint
from chat_gemini import GeminiBuilder, GeminiEmbeddings, GeminiEmbeddingsBuilder, GeminiProvider, ReadyGeminiBuilder

from chat_vertex.credentials import AccountJson, Credentials, MetadataServer, ServiceAccount, credentials_from_file
from chat_vertex.settings import (
    API_KEY_VARIABLES,
    GEMINI_API,
    REGION_VARIABLE,
    SDK_VARIABLES,
    Account,
    Settings,
    account_for,
    key_from_environment,
    require_place,
)

QUOTA_HEADER: Final = "x-goog-user-project"
_CLAUDE_AND_KEYS: Final = (
    "Claude on Google Cloud accepts no API key: use a project and a service account, application default credentials, "
    "the metadata server or a token"
)


class _Models(ABC):
    """Base class for the builder states."""

    __slots__ = ("_settings",)

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()

    def _with(self, settings: Settings) -> Self:
        return type(self)(settings)

    @without_frames
    def with_base_url(self, url: str) -> Self:
        """Send requests to another server, such as a private endpoint. Environment credentials are not sent to it.

        Args:
            url: URL of the server, up to `/v1`.
        """
        address = require_url("with_base_url", url, "https://aiplatform.example").rstrip("/")
        Endpoint(address, {})  # raises for an invalid URL
        return self._with(replace(self._settings, base_url=address.removesuffix("/v1")))

    def with_transport(self, transport: Transport) -> Self:
        """Send requests and token requests over `transport`. The caller owns it: closing a provider leaves it open.

        A `TokenSource` that you pass to `with_token()` uses its own transport.
        """
        GeminiBuilder().with_transport(transport)  # raises for anything else
        return self._with(replace(self._settings, transport=transport))

    @abstractmethod
    def _gemini_builder(self) -> GeminiBuilder:
        """Return a builder with the server and the credentials."""

    def _batch_limit(self) -> int | None:
        """Return the maximum number of texts per request, or `None` for the limit of the API method."""
        return None

    def with_gemini_model(self, model: str) -> ReadyGeminiBuilder:
        """Return the builder for a Gemini chat model, such as `gemini-2.5-flash`.

        Raises:
            UsageError: the credentials or the project are missing or malformed.
        """
        return self._gemini_builder().with_model(model)

    def with_embedding_model(
        self,
        model: str,
        *,
        dimensions: int | None = None,
        task_type: str | None = None,
        auto_truncate: bool | None = None,
        max_batch: int | None = None,
        max_characters: int = 80_000,
        concurrency: int = 4,
    ) -> GeminiEmbeddingsBuilder:
        """Return the builder for an embedding model.

        Args:
            model: name of the model, such as `gemini-embedding-001`.
            dimensions: length of the vectors. Default: the model's.
            task_type: purpose of the vectors, such as `RETRIEVAL_DOCUMENT`.
            auto_truncate: whether the server truncates texts that are too long.
            max_batch: maximum number of texts per request. Default: 1 on Vertex AI, 100 with an API key.
            max_characters: maximum number of characters per request. A longer text is sent in a request of its own.
            concurrency: maximum number of requests at the same time.

        Raises:
            UsageError: the credentials or the project are missing or malformed, or a number is less than 1.
        """
        return self._gemini_builder().with_embedding_model(
            model,
            dimensions=dimensions,
            task_type=task_type,
            auto_truncate=auto_truncate,
            max_batch=max_batch or self._batch_limit(),
            max_characters=max_characters,
            concurrency=concurrency,
        )


@final
class VertexKeyBuilder(_Models):
    """Builder for Gemini models with an API key, on the Gemini API. Claude needs other credentials."""

    __slots__ = ("_key",)

    def __init__(self, key: ApiKey, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self._key = key

    def _with(self, settings: Settings) -> Self:
        return type(self)(self._key, settings)

    def _gemini_builder(self) -> GeminiBuilder:
        return _gemini_with_key(self._key, self._settings)

    if not TYPE_CHECKING:  # a type checker reports the missing method itself

        def __getattr__(self, name: str) -> NoReturn:
            if name == "with_claude_model":
                raise AttributeError(_CLAUDE_AND_KEYS)
            if name in vars(VertexBuilder):
                msg = f"{name}() is not available with an API key: use a new VertexBuilder()"
                raise AttributeError(msg)
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)


@final
class VertexBuilder(_Models):
    """Builder for Gemini and Claude models on Google Cloud.

    Explicit settings take precedence over the environment. Without any, an API key in `VERTEX_API_KEY` or
    `GEMINI_API_KEY` is used. Without a key, the project is read from `VERTEX_PROJECT_ID`, the region from
    `VERTEX_REGION`, and the credentials from the file in `GOOGLE_APPLICATION_CREDENTIALS`, from the file of
    `gcloud auth application-default login`, or from the metadata server.

    If one of the first two variables is not set, the variable of the vendor's SDK is read: `GOOGLE_CLOUD_PROJECT` and
    `GOOGLE_CLOUD_LOCATION` for Gemini, `ANTHROPIC_VERTEX_PROJECT_ID` and `CLOUD_ML_REGION` for Claude. The base URL is
    read from `GOOGLE_VERTEX_BASE_URL` or `ANTHROPIC_VERTEX_BASE_URL`.
    """

    __slots__ = ()

    def with_api_key(self, key: ApiKey) -> VertexKeyBuilder:
        """Use an API key for Gemini models. It replaces other credentials.

        Args:
            key: the key, or an async function that is called for each request and returns the key.
        """
        settings = Settings(base_url=self._settings.base_url, transport=self._settings.transport)
        return VertexKeyBuilder(require_key("with_api_key", key, "a key"), settings)

    def with_project(self, project: str, region: str | None = None) -> Self:
        """Set the Google Cloud project and its region. Keys in the environment are then ignored.

        Args:
            project: id of the Google Cloud project.
            region: region, such as `europe-west4`, multi-region, `us` or `eu`, or `global`. Default: `VERTEX_REGION`,
                the variable of the vendor's SDK (`GOOGLE_CLOUD_LOCATION` or `CLOUD_ML_REGION`), or `asia-south1`.

        Raises:
            UsageError: the project or the region is malformed.
        """
        require_place(project, region or "global")
        return self._with(replace(self._settings, project=project, region=region))

    def with_service_account_file(self, path: str | Path) -> Self:
        """Use the service account whose key is in a JSON file.

        Raises:
            UsageError: the file cannot be read or contains no service account.
        """
        credentials = credentials_from_file(path)
        if not isinstance(credentials, ServiceAccount):
            msg = f"{str(path)!r} contains no service account: use with_credentials(credentials_from_file(…))"
            raise UsageError(msg)
        return self.with_credentials(credentials)

    def with_service_account_json(self, account: AccountJson) -> Self:
        """Use the service account with this key: the content of its JSON file, as a string or as a mapping.

        Raises:
            UsageError: the content is not the key of a service account.
        """
        return self.with_credentials(ServiceAccount.from_json(account))

    def with_default_credentials(self) -> Self:
        """Use application default credentials, even if an API key is in the environment."""
        return self._with(replace(self._settings, use_default=True, credentials=None, token=None))

    def with_metadata_server(self) -> Self:
        """Use the account of the machine or service that the program runs on."""
        return self.with_credentials(MetadataServer())

    def with_credentials(self, credentials: Credentials) -> Self:
        """Use other credentials, such as those of `credentials_from_file()`."""
        return self._with(replace(self._settings, credentials=credentials, token=None))

    def with_token(self, token: ApiKey) -> Self:
        """Send a token of your own.

        Args:
            token: the token, or an async function that is called for each request and returns the token. A
                `TokenSource` can be shared between providers.
        """
        return self._with(replace(self._settings, token=require_key("with_token", token, "a token"), credentials=None))

    def with_claude_model(self, model: str) -> ReadyGatewayClaudeBuilder:
        """Return the builder for a Claude model, such as `claude-sonnet-4-5@20250929`.

        Raises:
            UsageError: the credentials or the project are missing or malformed, or the environment has an API key,
                which takes precedence and which Claude does not accept.
        """
        if key_from_environment(self._settings) is not None:
            names = " or ".join(API_KEY_VARIABLES)
            msg = f"{_CLAUDE_AND_KEYS}; unset {names}, or call with_project() or with_default_credentials()"
            raise UsageError(msg)
        account = account_for(self._settings, "anthropic")
        builder = ClaudeBuilder().with_vertex(account.url("anthropic")).with_bearer_token(account.token)
        builder = builder.with_headers(_quota_headers(account))
        if self._settings.transport is not None:
            builder = builder.with_transport(self._settings.transport)
        return builder.with_model(model)

    def _batch_limit(self) -> int | None:
        # The limit of the Gemini models; older models accept more.
        return 1 if key_from_environment(self._settings) is None else None

    def _gemini_builder(self) -> GeminiBuilder:
        if (key := key_from_environment(self._settings)) is not None:
            return _gemini_with_key(key, self._settings)
        account = account_for(self._settings, "google")
        builder = GeminiBuilder().with_vertex(account.project, account.region).with_base_url(account.url("google"))
        builder = builder.with_token(account.token).with_headers(_quota_headers(account))
        return builder if self._settings.transport is None else builder.with_transport(self._settings.transport)


def vertex_gemini(model: str, *, project: str | None = None, region: str | None = None) -> GeminiProvider:
    """Return a Gemini chat provider on Google Cloud, with credentials as in `VertexBuilder`.

    Args:
        model: name of the model.
        project: id of the Google Cloud project. Default: read from the environment.
        region: region of the project, such as `europe-west4`.

    Raises:
        UsageError: the credentials or the project are missing, or no transport is installed.
    """
    return _create_builder(project, region).with_gemini_model(model).build()


def vertex_claude(model: str, *, project: str | None = None, region: str | None = None) -> ClaudeProvider:
    """Return a Claude chat provider on Google Cloud, with credentials as in `VertexBuilder`.

    Args:
        model: name of the model.
        project: id of the Google Cloud project. Default: read from the environment.
        region: region of the project, such as `europe-west4`.

    Raises:
        UsageError: the credentials or the project are missing, or no transport is installed.
    """
    return _create_builder(project, region).with_claude_model(model).build()


def vertex_embedder(
    model: str, *, project: str | None = None, region: str | None = None, dimensions: int | None = None
) -> GeminiEmbeddings:
    """Return an embeddings provider on Google Cloud, with credentials as in `VertexBuilder`.

    Args:
        model: name of the model.
        project: id of the Google Cloud project. Default: read from the environment.
        region: region of the project, such as `europe-west4`.
        dimensions: length of the vectors. Default: the model's.

    Raises:
        UsageError: the credentials or the project are missing, or no transport is installed.
    """
    return _create_builder(project, region).with_embedding_model(model, dimensions=dimensions).build()


def _create_builder(project: str | None, region: str | None) -> VertexBuilder:
    if project is None:
        if region is not None:
            regions = " or ".join([REGION_VARIABLE, *[region for _, region, _ in SDK_VARIABLES.values()]])
            msg = f"a region needs a project: pass both, or set {regions}"
            raise UsageError(msg)
        return VertexBuilder()
    return VertexBuilder().with_project(project, region)


def _gemini_with_key(key: ApiKey, settings: Settings) -> GeminiBuilder:
    builder = GeminiBuilder().with_base_url(f"{settings.base_url or GEMINI_API}/v1beta").with_api_key(key)
    return builder if settings.transport is None else builder.with_transport(settings.transport)


def _quota_headers(account: Account) -> dict[str, str]:
    return {} if account.quota_project is None else {QUOTA_HEADER: account.quota_project}
