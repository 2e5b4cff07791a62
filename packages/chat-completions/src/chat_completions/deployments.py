"""The builder for Azure OpenAI, where a model is a deployment at an endpoint of the customer's own.

Three states: without an endpoint, with one, and with a deployment at it. Only the last one builds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Self, final
from urllib.parse import quote

from chat_core.errors import UsageError

from chat_completions._settings import Settings, checked_url, environment, parts_of
from chat_completions.client import CompletionsProvider
from chat_completions.presets import AZURE
from chat_completions.vendor_builders import Sized, VendorBuilder

API_VERSION: Final = "2024-10-21"
"""The version of the API where neither the caller nor `OPENAI_API_VERSION` says another one."""

DEPLOYMENT_PATH: Final = "/openai/deployments/{deployment}"
V1_PATH: Final = "/openai/v1"
"""Where Azure's newer API is, which needs no version."""


class _Azure(Sized):
    """What can be said in every state."""

    __slots__ = ()

    def with_bearer_token(self, token: str) -> Self:
        """Send a token of Entra ID, and no key. It expires; a transport of your own can send a new one each time."""
        if not token.strip():
            msg = "with_bearer_token() needs a token, and it got nothing"
            raise UsageError(msg)
        without_key = self._with(replace(self._settings, api_key=None))
        return without_key.with_headers({"authorization": f"Bearer {token.strip()}"})


@final
class AzureBuilder(VendorBuilder, _Azure):
    """Builds models of Azure OpenAI. The key is in `AZURE_OPENAI_API_KEY`. It needs an endpoint first."""

    __slots__ = ()
    preset = AZURE

    def with_endpoint(self, url: str | None = None) -> AzureEndpointBuilder:
        """Ask at `url`, such as `https://NAME.openai.azure.com`; without it, at `AZURE_OPENAI_ENDPOINT`.

        Raises:
            UsageError: it is no URL, or there is none.
        """
        variable = AZURE.base_url_variable or ""
        url = environment(variable) if url is None else url
        if url is None:
            msg = f"there is no endpoint: call .with_endpoint('https://NAME.openai.azure.com'), or set {variable}"
            raise UsageError(msg)
        # The part of it that is the API is not the endpoint, though Azure shows it so.
        checked = checked_url("with_endpoint", url).rstrip("/").removesuffix(V1_PATH).removesuffix("/openai")
        return AzureEndpointBuilder(replace(self._settings, base_url=checked.rstrip("/")))

    def _why_not(self, name: str) -> str | None:
        if name in {"build", "with_deployment", "with_model"}:
            return f"{name}() needs an endpoint: call .with_endpoint('https://NAME.openai.azure.com') first"
        return super()._why_not(name)


@final
class AzureEndpointBuilder(_Azure):
    """An `AzureBuilder` with an endpoint. It needs a deployment there."""

    __slots__ = ()

    def with_deployment(self, name: str, *, api_version: str | None = None) -> ReadyAzureBuilder:
        """Ask the deployment of this name, by a version of the API.

        Args:
            name: of the deployment, which need not be the name of its model.
            api_version: without it, the one in `OPENAI_API_VERSION`, or else `API_VERSION`.
        """
        settings = self._named("with_deployment", name)
        path = DEPLOYMENT_PATH.format(deployment=quote(name, safe=""))
        version = api_version or environment("OPENAI_API_VERSION") or API_VERSION
        return ReadyAzureBuilder(replace(settings, base_url=f"{settings.base_url}{path}?api-version={version}"))

    def with_model(self, name: str) -> ReadyAzureBuilder:
        """Ask the deployment of this name by Azure's newer API, which names it in the request and needs no version."""
        settings = self._named("with_model", name)
        return ReadyAzureBuilder(replace(settings, base_url=f"{settings.base_url}{V1_PATH}"))

    def _named(self, method: str, name: str) -> Settings:
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"{method}() needs the name of a deployment, not {name!r}"
            raise UsageError(msg)
        return self._settings.for_model(name)

    def _why_not(self, name: str) -> str | None:
        if name == "build":
            return "build() needs a deployment: call .with_deployment('…') first"
        return super()._why_not(name)


@final
class ReadyAzureBuilder(_Azure):
    """An `AzureBuilder` with an endpoint and a deployment."""

    __slots__ = ()

    def build(self) -> CompletionsProvider:
        """The provider.

        Raises:
            UsageError: the endpoint is none, the key is missing, or there is no transport.
        """
        return CompletionsProvider(**parts_of(self._settings))
