"""Builders for Azure OpenAI, where a model is a deployment on the customer's endpoint.

    AzureBuilder ── with_endpoint() ──> AzureEndpointBuilder ── with_model(), with_deployment() ──> ReadyAzureBuilder

Azure has two API generations. `with_model()` uses the v1 API (`/openai/v1`), which needs no version and names the
deployment in the request body. `with_deployment()` uses the dated API, which has a version in every URL and names the
deployment in the path of Chat Completions requests. The builder with a deployment uses the Responses API, unless
`with_completions()` selects the Chat Completions API.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, Self, final
from urllib.parse import quote, unquote

from chat_core.arguments import argument_error
from chat_core.errors import UsageError
from chat_core.wire.connection import AUTHORIZATION, ApiKey, read_environment, require_key, without_frames

from chat_openai.builder import (
    RESPONSES_CHOSEN_HINTS,
    RESPONSES_ONLY_HINTS,
    OnCompletions,
    OnResponses,
    OpenAIEmbeddingsBuilder,
    build_completions,
    build_responses,
)
from chat_openai.client import OpenAICompletionsProvider, OpenAIProvider
from chat_openai.presets import AZURE
from chat_openai.settings import Connectable, Settings, require_url

ENDPOINT_VARIABLE: Final = "AZURE_OPENAI_ENDPOINT"
API_VERSION_VARIABLE: Final = "OPENAI_API_VERSION"
API_PATHS: Final = ("/openai/v1", "/openai", "/models")
"""Paths of Azure's APIs, which are removed from the end of an endpoint."""
REQUEST_PATH: Final = re.compile(
    r"/openai/(?:v1|deployments|responses)(?![^/?])|/models/(?:chat|embeddings)(?![^/?])|[?]"
)
"""Pattern for the start of a request path, which follows the endpoint. The endpoint itself may have a path."""
DEPLOYMENT_PATH: Final = re.compile(r"/openai/deployments/([^/?]+)")
VERSION_QUERY: Final = re.compile(r"[?&]api-version=([^&#]+)")
INFERENCE_VERSION: Final = "2024-05-01-preview"
"""The default API version of Azure's model catalog."""


class _Azure(Connectable):
    """Base class with the methods that every builder for Azure OpenAI has."""

    __slots__ = ()

    @without_frames
    def with_bearer_token(self, token: ApiKey) -> Self:
        """Authenticate with a Microsoft Entra ID token instead of an API key.

        Tokens expire after about an hour. To renew them, pass an async function, which is called for each request.
        """
        secret = require_key("with_bearer_token", token, "a token")
        return self._with(self._settings.with_credentials(AUTHORIZATION, secret))


@final
class AzureBuilder(_Azure):
    """A builder for Azure OpenAI models. Call `with_endpoint()` first.

    The default credentials are the Microsoft Entra token in `AZURE_OPENAI_AD_TOKEN`, or the key in
    `AZURE_OPENAI_API_KEY`.
    """

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings.for_vendor(AZURE))

    @without_frames
    def with_endpoint(self, url: str | None = None) -> AzureEndpointBuilder:
        """Set the endpoint, such as `https://NAME.openai.azure.com`. `None` reads `AZURE_OPENAI_ENDPOINT`.

        Raises:
            UsageError: the endpoint is missing, has no scheme, or is a request URL.
        """
        url = read_environment(ENDPOINT_VARIABLE) if url is None else url
        if url is None:
            msg = f"the endpoint is missing: with_endpoint('https://NAME.openai.azure.com'), or set {ENDPOINT_VARIABLE}"
            raise UsageError(msg)
        return AzureEndpointBuilder(self._settings.with_base_url(_endpoint_root(require_url("with_endpoint", url))))

    def _missing_method_hint(self, name: str) -> str | None:
        if name in {"build", "with_deployment", "with_model", "with_embeddings", "with_catalog_model"}:
            return f"{name}() needs an endpoint: call .with_endpoint('https://NAME.openai.azure.com') first"
        return super()._missing_method_hint(name)


@final
class AzureEndpointBuilder(_Azure):
    """A builder for Azure OpenAI models, after the endpoint has been set. Choose a deployment or a model next."""

    __slots__ = ()

    def with_model(self, deployment: str) -> ReadyAzureBuilder:
        """Use the deployment named `deployment` on the v1 API, which needs no API version."""
        return ReadyAzureBuilder(self._v1_settings("with_model", deployment))

    def with_deployment(self, name: str, *, api_version: str | None = None) -> ReadyAzureBuilder:
        """Use the deployment named `name` on the dated API.

        Args:
            name: the name of the deployment, which may differ from the name of its model.
            api_version: the API version, such as `2025-04-01-preview`. `None` reads `OPENAI_API_VERSION`.

        Raises:
            UsageError: `name` is empty, or the version is missing.
        """
        return ReadyAzureBuilder(self._dated_settings("with_deployment", name, api_version))

    def with_catalog_model(self, name: str, *, api_version: str = INFERENCE_VERSION) -> ReadyAzureCompletionsBuilder:
        """Use a model from Azure's model catalog, which supports only the Chat Completions API.

        Args:
            name: the name of the model.
            api_version: the version of the catalog's inference API.

        Raises:
            UsageError: `name` is empty.
        """
        _require_version(api_version)
        settings = self._settings.for_model(name, "with_catalog_model")
        settings = settings.with_base_url(f"{self._endpoint}/models?api-version={quote(api_version)}")
        # The catalog's API accepts only the older field name.
        dialect = replace(settings.completions, max_tokens_field="max_tokens")
        return ReadyAzureCompletionsBuilder(replace(settings, completions=dialect))

    def with_embeddings(
        self,
        *,
        model: str,
        dimensions: int | None = None,
        max_batch: int | None = None,
        api_version: str | None = None,
    ) -> OpenAIEmbeddingsBuilder:
        """Return a builder for an embedding model that is deployed on Azure.

        Args:
            model: the name of the deployment.
            dimensions: the length of the vectors, for models that support a choice. `None` uses the model's default.
            max_batch: the largest number of texts in one request. `None` uses the vendor's limit.
            api_version: the API version, a date such as `2024-10-21`. `None` uses the v1 API.

        Raises:
            UsageError: `model` is empty, or a number is less than 1.
        """
        if api_version is None:
            settings = self._v1_settings("with_embeddings", model)
        else:
            settings = self._dated_settings("with_embeddings", model, api_version)
        return OpenAIEmbeddingsBuilder(settings.for_embeddings(dimensions, max_batch))

    @property
    def _endpoint(self) -> str:
        return self._settings.base_urls[0][1]

    def _v1_settings(self, method: str, name: str) -> Settings:
        return self._settings.for_model(name, method, "a deployment").with_base_url(f"{self._endpoint}/openai/v1")

    def _dated_settings(self, method: str, name: str, api_version: str | None) -> Settings:
        settings = self._settings.for_model(name, method, "a deployment")
        if api_version:
            _require_version(api_version)
        version = api_version or read_environment(API_VERSION_VARIABLE)
        if version is None:
            msg = (
                f"{method}() needs an API version: {method}({name!r}, api_version='2025-04-01-preview'), or set "
                f"{API_VERSION_VARIABLE}; with_model({name!r}) uses the v1 API, which needs no version"
            )
            raise UsageError(msg)
        query = f"?api-version={quote(version)}"
        deployment = f"{self._endpoint}/openai/deployments/{quote(name, safe='')}{query}"
        # Requests of the Responses API name the deployment in their body, in both API generations.
        responses = f"{self._endpoint}/openai{query}"
        return replace(
            settings, base_urls=(("responses", responses), ("completions", deployment), ("embeddings", deployment))
        )

    def _missing_method_hint(self, name: str) -> str | None:
        if name == "build":
            return "build() needs a deployment: call .with_model('…') first"
        if name in {"with_completions", *RESPONSES_ONLY_HINTS}:
            return f"{name}() needs a deployment: call .with_model('…') first"
        return super()._missing_method_hint(name)


@final
class ReadyAzureBuilder(_Azure, OnResponses["ReadyAzureResponsesBuilder"]):
    """A builder for Azure OpenAI models, after the deployment has been set. The default is the Responses API."""

    __slots__ = ()

    def with_completions(self) -> ReadyAzureCompletionsBuilder:
        """Return a builder that uses the Chat Completions API."""
        return ReadyAzureCompletionsBuilder(self._settings)

    def build(self) -> OpenAIProvider:
        """Return a provider that uses the Responses API.

        Raises:
            UsageError: the endpoint is invalid, the API key is missing, or no transport is installed.
        """
        return OpenAIProvider(*build_responses(self._settings))

    def _builder_for_responses(self, settings: Settings) -> ReadyAzureResponsesBuilder:
        return ReadyAzureResponsesBuilder(settings)


@final
class ReadyAzureResponsesBuilder(_Azure, OnResponses["ReadyAzureResponsesBuilder"]):
    """A builder for a deployed Azure OpenAI model, with a setting that only the Responses API supports."""

    __slots__ = ()
    _unavailable = RESPONSES_CHOSEN_HINTS

    def build(self) -> OpenAIProvider:
        """Return a provider that uses the Responses API.

        Raises:
            UsageError: the endpoint is invalid, the API key is missing, or no transport is installed.
        """
        return OpenAIProvider(*build_responses(self._settings))

    def _builder_for_responses(self, settings: Settings) -> ReadyAzureResponsesBuilder:
        return ReadyAzureResponsesBuilder(settings)


@final
class ReadyAzureCompletionsBuilder(_Azure, OnCompletions):
    """A builder for a deployed Azure OpenAI model that uses the Chat Completions API."""

    __slots__ = ()

    def build(self) -> OpenAICompletionsProvider:
        """Return a provider that uses the Chat Completions API.

        Raises:
            UsageError: the endpoint is invalid, the API key is missing, or no transport is installed.
        """
        return OpenAICompletionsProvider(*build_completions(self._settings))


def _require_version(api_version: object) -> None:
    if not isinstance(api_version, str) or not api_version.isascii():
        raise argument_error("api_version", "a version such as '2024-10-21'", api_version)


def _endpoint_root(endpoint: str) -> str:
    """Return `endpoint` without the API path at its end.

    Raises:
        UsageError: `endpoint` is a request URL, such as the target URI that Azure's portal shows.
    """
    for path in API_PATHS:
        endpoint = endpoint.removesuffix(path)
    root = REQUEST_PATH.split(endpoint, maxsplit=1)[0]
    if root != endpoint:
        msg = f"with_endpoint() takes an endpoint such as {root.rpartition('@')[2]!r}, not the URL of a request"
        if (deployment := DEPLOYMENT_PATH.search(endpoint)) is not None:
            version = VERSION_QUERY.search(endpoint)
            version_argument = f", api_version={version[1]!r}" if version else ""
            msg += f"; select its deployment with .with_deployment({unquote(deployment[1])!r}{version_argument})"
        raise UsageError(msg)
    return endpoint


@without_frames
def azure(
    deployment: str, *, endpoint: str | None = None, api_key: str | None = None, api_version: str | None = None
) -> OpenAIProvider:
    """Return a provider for a model deployed on Azure OpenAI, using the Responses API.

    Args:
        deployment: the name of the deployment, which may differ from the name of its model.
        endpoint: the endpoint, such as `https://NAME.openai.azure.com`. `None` reads `AZURE_OPENAI_ENDPOINT`.
        api_key: the API key. `None` reads `AZURE_OPENAI_API_KEY`.
        api_version: the API version, a date such as `2024-10-21`. `None` uses the v1 API.

    Raises:
        UsageError: the endpoint or the API key is missing or invalid, or no transport is installed.
    """
    start = AzureBuilder().with_endpoint(endpoint)
    if api_version is None:
        builder = start.with_model(deployment)
    else:
        builder = start.with_deployment(deployment, api_version=api_version)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()
