"""The builders for Azure OpenAI, where a model is a deployment at an endpoint of the customer's own.

    AzureBuilder ── with_endpoint() ──> AzureEndpointBuilder ── with_model(), with_deployment() ──> ReadyAzureBuilder

Azure has two APIs. The newer one, `/openai/v1`, needs no version and names the deployment in the request;
`with_model()` asks it. The dated one has a version in every URL, and on the Chat Completions wire the deployment too;
`with_deployment()` asks that. Once there is a deployment, wires are chosen as they are for OpenAI.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, Self, final
from urllib.parse import quote, unquote

from chat_core.errors import UsageError
from chat_core.wire.connection import AUTHORIZATION, read_environment, require_secret

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
"""The paths of Azure's APIs."""
REQUEST_PATH: Final = re.compile(
    r"/openai/(?:v1|deployments|responses)(?![^/?])|/models/(?:chat|embeddings)(?![^/?])|[?]"
)
"""The start of a request's path behind an endpoint. A gateway may have a path of its own."""
DEPLOYMENT_PATH: Final = re.compile(r"/openai/deployments/([^/?]+)")
VERSION_QUERY: Final = re.compile(r"[?&]api-version=([^&#]+)")
INFERENCE_VERSION: Final = "2024-05-01-preview"
"""The version of the API of Azure's model catalogue."""


class _Azure(Connectable):
    """What can be said to every builder for Azure."""

    __slots__ = ()

    def with_bearer_token(self, token: str) -> Self:
        """Send a token of Entra ID, and no key. It expires; a transport of your own can send a new one each time."""
        secret = require_secret("with_bearer_token", token, "a token")
        return self._with(self._settings.with_credentials(AUTHORIZATION, secret))


@final
class AzureBuilder(_Azure):
    """Builds models of Azure OpenAI. The key is in `AZURE_OPENAI_API_KEY`. It needs an endpoint first."""

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings.of(AZURE))

    def with_endpoint(self, url: str | None = None) -> AzureEndpointBuilder:
        """Ask at `url`, such as `https://NAME.openai.azure.com`; without it, at `AZURE_OPENAI_ENDPOINT`.

        Raises:
            UsageError: It is no URL, or the URL of a request, or there is none.
        """
        url = read_environment(ENDPOINT_VARIABLE) if url is None else url
        if url is None:
            msg = f"there is no endpoint: with_endpoint('https://NAME.openai.azure.com'), or set {ENDPOINT_VARIABLE}"
            raise UsageError(msg)
        return AzureEndpointBuilder(self._settings.with_base_url(_root(require_url("with_endpoint", url))))

    def _missing_method_hint(self, name: str) -> str | None:
        if name in {"build", "with_deployment", "with_model", "with_embeddings", "with_catalogue_model"}:
            return f"{name}() needs an endpoint: call .with_endpoint('https://NAME.openai.azure.com') first"
        return super()._missing_method_hint(name)


@final
class AzureEndpointBuilder(_Azure):
    """An `AzureBuilder` with an endpoint. It needs a deployment there."""

    __slots__ = ()

    def with_model(self, deployment: str) -> ReadyAzureBuilder:
        """Ask the deployment of this name by Azure's newer API, which names it in the request and needs no version."""
        return ReadyAzureBuilder(self._by_name("with_model", deployment))

    def with_deployment(self, name: str, *, api_version: str | None = None) -> ReadyAzureBuilder:
        """Ask the deployment of this name by the dated API.

        Args:
            name: of the deployment, which need not be the name of its model.
            api_version: without it, the one in `OPENAI_API_VERSION`.
        """
        return ReadyAzureBuilder(self._by_version("with_deployment", name, api_version))

    def with_catalogue_model(self, name: str, *, api_version: str = INFERENCE_VERSION) -> ReadyAzureCompletionsBuilder:
        """Ask a model of Azure's catalogue by the API that all of them share, which is Chat Completions alone."""
        settings = self._settings.for_model(name, "with_catalogue_model")
        settings = settings.with_base_url(f"{self._endpoint}/models?api-version={quote(api_version)}")
        # That API knows the older name alone.
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
        """Make vectors by a deployment, by the dated API where a version is given, and else by the newer one."""
        if api_version is None:
            settings = self._by_name("with_embeddings", model)
        else:
            settings = self._by_version("with_embeddings", model, api_version)
        return OpenAIEmbeddingsBuilder(settings.embedding(dimensions, max_batch))

    @property
    def _endpoint(self) -> str:
        return self._settings.bases[0][1]

    def _by_name(self, method: str, name: str) -> Settings:
        return self._settings.for_model(name, method, "a deployment").with_base_url(f"{self._endpoint}/openai/v1")

    def _by_version(self, method: str, name: str, api_version: str | None) -> Settings:
        settings = self._settings.for_model(name, method, "a deployment")
        version = api_version or read_environment(API_VERSION_VARIABLE)
        if version is None:
            msg = (
                f"{method}() needs a version of the API: {method}({name!r}, api_version='2025-04-01-preview'), or set "
                f"{API_VERSION_VARIABLE}; with_model({name!r}) asks the newer API, which has none"
            )
            raise UsageError(msg)
        query = f"?api-version={quote(version)}"
        deployment = f"{self._endpoint}/openai/deployments/{quote(name, safe='')}{query}"
        # On the Responses wire the deployment stands in the request, whatever the API.
        responses = f"{self._endpoint}/openai{query}"
        return replace(
            settings, bases=(("responses", responses), ("completions", deployment), ("embeddings", deployment))
        )

    def _missing_method_hint(self, name: str) -> str | None:
        if name == "build":
            return "build() needs a deployment: call .with_model('…') first"
        if name in {"with_completions", *RESPONSES_ONLY_HINTS}:
            return f"{name}() comes after the deployment: call .with_model('…') first"
        return super()._missing_method_hint(name)


@final
class ReadyAzureBuilder(_Azure, OnResponses["ReadyAzureResponsesBuilder"]):
    """An `AzureBuilder` with a deployment, on the Responses wire unless told otherwise."""

    __slots__ = ()

    def with_completions(self) -> ReadyAzureCompletionsBuilder:
        """Speak the Chat Completions wire."""
        return ReadyAzureCompletionsBuilder(self._settings)

    def build(self) -> OpenAIProvider:
        """The provider, on the Responses wire.

        Raises:
            UsageError: the endpoint is none, the key is missing, or there is no transport.
        """
        return OpenAIProvider(*build_responses(self._settings))

    def _choose_responses(self, settings: Settings) -> ReadyAzureResponsesBuilder:
        return ReadyAzureResponsesBuilder(settings)


@final
class ReadyAzureResponsesBuilder(_Azure, OnResponses["ReadyAzureResponsesBuilder"]):
    """A `ReadyAzureBuilder` that was told of what the Responses wire alone has."""

    __slots__ = ()

    def build(self) -> OpenAIProvider:
        """The provider, on the Responses wire.

        Raises:
            UsageError: the endpoint is none, the key is missing, or there is no transport.
        """
        return OpenAIProvider(*build_responses(self._settings))

    def _choose_responses(self, settings: Settings) -> ReadyAzureResponsesBuilder:
        return ReadyAzureResponsesBuilder(settings)

    def _missing_method_hint(self, name: str) -> str | None:
        return RESPONSES_CHOSEN_HINTS.get(name) or super()._missing_method_hint(name)


@final
class ReadyAzureCompletionsBuilder(_Azure, OnCompletions):
    """A `ReadyAzureBuilder` on the Chat Completions wire."""

    __slots__ = ()

    def build(self) -> OpenAICompletionsProvider:
        """The provider, on the Chat Completions wire.

        Raises:
            UsageError: the endpoint is none, the key is missing, or there is no transport.
        """
        return OpenAICompletionsProvider(*build_completions(self._settings))

    def _missing_method_hint(self, name: str) -> str | None:
        return RESPONSES_ONLY_HINTS.get(name) or super()._missing_method_hint(name)


def _root(endpoint: str) -> str:
    """Return the endpoint without the path of an API that was pasted with it.

    Raises:
        UsageError: It is the URL of a request, such as the target URI that Azure's portal shows for a deployment.
    """
    for path in API_PATHS:
        endpoint = endpoint.removesuffix(path)
    root = REQUEST_PATH.split(endpoint, maxsplit=1)[0]
    if root != endpoint:
        msg = f"with_endpoint() takes an endpoint such as {root.rpartition('@')[2]!r}, not the URL of a request"
        if (deployment := DEPLOYMENT_PATH.search(endpoint)) is not None:
            version = VERSION_QUERY.search(endpoint)
            dated = f", api_version={version[1]!r}" if version else ""
            msg += f"; call .with_deployment({unquote(deployment[1])!r}{dated}) for the rest of it"
        raise UsageError(msg)
    return endpoint


def azure(
    deployment: str, *, endpoint: str | None = None, api_key: str | None = None, api_version: str | None = None
) -> OpenAIProvider:
    """Return a deployment of Azure OpenAI, on the Responses wire.

    Args:
        deployment: Its name, which need not be the name of its model.
        endpoint: Such as `https://NAME.openai.azure.com`; without it, `AZURE_OPENAI_ENDPOINT`.
        api_key: Without it, `AZURE_OPENAI_API_KEY`.
        api_version: The version of the dated API; without it, the newer API is used, which has none.
    """
    start = AzureBuilder().with_endpoint(endpoint)
    if api_version is None:
        builder = start.with_model(deployment)
    else:
        builder = start.with_deployment(deployment, api_version=api_version)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()
