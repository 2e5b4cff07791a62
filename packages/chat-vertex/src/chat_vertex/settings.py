"""Settings of the Vertex AI builders, and the values that the environment adds to them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, final

from chat_core.arguments import require_text
from chat_core.errors import NetworkError, UsageError
from chat_core.transport.protocol import Transport
from chat_core.wire.connection import ApiKey, naming_variable, read_environment, without_frames
from chat_core.wire.endpoint import Endpoint
from chat_gemini.builder import LOCATION, PROJECT
from chat_gemini.settings import vertex_server

from chat_vertex.credentials import Credentials, MetadataServer, credentials_from_file
from chat_vertex.tokens import TokenSource

API_KEY_VARIABLES: Final = ("VERTEX_API_KEY", "GEMINI_API_KEY")
"""Environment variables of the API key, in order of precedence."""
PROJECT_VARIABLE: Final = "VERTEX_PROJECT_ID"
REGION_VARIABLE: Final = "VERTEX_REGION"
SDK_VARIABLES: Final = {
    "google": ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_VERTEX_BASE_URL"),
    "anthropic": ("ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_BASE_URL"),
}
"""Environment variables of the project, the region and the base URL in the SDK of each publisher."""
CREDENTIALS_VARIABLE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
DEFAULT_REGION: Final = "asia-south1"
GEMINI_API: Final = "https://generativelanguage.googleapis.com"
"""Server of the Gemini API, which accepts API keys. Vertex AI accepts tokens."""
_GCLOUD_FILE: Final = "application_default_credentials.json"
_NOTHING_USABLE: Final = (
    f"no credentials for Google Cloud: set {' or '.join(API_KEY_VARIABLES)} (Gemini only), or {PROJECT_VARIABLE} (or "
    f"{' or '.join([project for project, *_ in SDK_VARIABLES.values()])}) with {CREDENTIALS_VARIABLE} (and "
    f"{REGION_VARIABLE}, default {DEFAULT_REGION}), or call with_api_key(), or "
    "with_project() with with_service_account_file(), with_service_account_json(), with_default_credentials(), "
    "with_metadata_server() or with_token()"
)


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that a builder collects. `None` selects the environment or a default.

    Attributes:
        project: id of the Google Cloud project.
        region: region of the project, or `global`.
        credentials: identity whose tokens are sent.
        token: token, or function that returns the current token. It takes precedence over `credentials`.
        use_default: whether application default credentials are used, regardless of API keys in the environment.
        base_url: URL of another server, without the path of the API.
        transport: transport of requests and of token requests.
    """

    project: str | None = None
    region: str | None = None
    credentials: Credentials | None = None
    token: ApiKey | None = field(default=None, repr=False)
    use_default: bool = False
    base_url: str | None = field(default=None, repr=False)
    transport: Transport | None = None

    @property
    def is_empty(self) -> bool:
        """Whether neither a project nor credentials nor a server is set, so that the environment may provide a key."""
        return (
            self.project is None
            and self.credentials is None
            and self.token is None
            and not self.use_default
            and self.base_url is None
        )


@final
@dataclass(frozen=True, slots=True)
class Account:
    """A project on Vertex AI and the credentials for it.

    Attributes:
        project: id of the Google Cloud project.
        region: region of the project, or `global`.
        server: URL of the API, with its version.
        token: token, or function that returns the current token.
        quota_project: project that is charged for requests, if it differs from `project`.
    """

    project: str
    region: str
    server: str = field(repr=False)
    token: ApiKey = field(repr=False)
    quota_project: str | None = None

    def url(self, publisher: str) -> str:
        """Return the URL of a publisher's models, such as those of `google` or `anthropic`."""
        return f"{self.server}/projects/{self.project}/locations/{self.region}/publishers/{publisher}"


def key_from_environment(settings: Settings) -> str | None:
    """Return the API key in the environment, or None if a project, credentials or a server are set."""
    return read_environment(*API_KEY_VARIABLES) if settings.is_empty else None


def account_for(settings: Settings, publisher: Literal["google", "anthropic"]) -> Account:
    """Return the account that the settings and the environment describe.

    Args:
        settings: settings of the builder.
        publisher: publisher of the model, whose SDK determines the names of variables.

    Raises:
        UsageError: the project or the credentials are missing or malformed, or the base URL is invalid.
    """
    project_variable, region_variable, _ = SDK_VARIABLES[publisher]
    credentials = settings.credentials
    if credentials is None and settings.token is None:
        credentials = _credentials_from_environment(settings)
    own = None if credentials is None else credentials.project
    project = settings.project or read_environment(PROJECT_VARIABLE, project_variable) or own
    if not project:
        raise UsageError(_NOTHING_USABLE if settings.is_empty else _missing_project(project_variable))
    region = settings.region or read_environment(REGION_VARIABLE, region_variable) or DEFAULT_REGION
    require_place(project, region)
    token = settings.token
    if token is None:
        if credentials is None:
            token = MachineTokens(TokenSource(MetadataServer(), settings.transport))
        else:
            token = TokenSource(credentials, settings.transport)
    server = _server_url(region, publisher) if settings.base_url is None else f"{settings.base_url}/v1"
    return Account(project, region, server, token, None if credentials is None else credentials.quota_project)


@final
class MachineTokens:
    """Tokens from the metadata server, used if no credentials are configured.

    The server exists only on Google Cloud. If it cannot be reached before the first token, the error lists the ways to
    provide credentials.

    Args:
        source: source of the tokens.
    """

    __slots__ = ("_has_worked", "_source")

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        self._has_worked = False

    async def __call__(self) -> str:
        """Return the current token.

        Raises:
            UsageError: no metadata server was reached so far. The message lists the ways to provide credentials.
            ChatError: the metadata server failed.
        """
        try:
            token = await self._source()
        except NetworkError as error:
            if self._has_worked:
                raise
            msg = f"{_NOTHING_USABLE}; no metadata server was reached"
            raise UsageError(msg) from error
        self._has_worked = True
        return token

    def reject(self, key: str, /) -> None:
        """Implement `RenewableKey.reject`."""
        self._source.reject(key)


def require_place(project: str, region: str) -> None:
    """Check the id of a project and the name of a region, which are parts of URLs.

    Args:
        project: id of the Google Cloud project.
        region: name of the region, or `global`.

    Raises:
        UsageError: one of them is malformed.
    """
    require_text(project=project, region=region)
    if PROJECT.fullmatch(project) is None or LOCATION.fullmatch(region) is None:
        msg = f"project {project!r} or region {region!r} is invalid: use ids like 'my-project' and 'europe-west4'"
        raise UsageError(msg)


@without_frames
def _server_url(region: str, publisher: str) -> str:
    *_, variable = SDK_VARIABLES[publisher]
    if (url := read_environment(variable)) is not None:
        with naming_variable(variable):
            endpoint = Endpoint(url, {})
        if endpoint.query:
            msg = f"{variable}: the base URL must not contain a query"
            raise UsageError(msg)
        address = f"{endpoint.scheme}://{endpoint.host}{endpoint.path}"
        # The Anthropic SDK expects the version in the variable, the Google Gen AI SDK adds it.
        return address if publisher == "anthropic" else f"{address.removesuffix('/v1')}/v1"
    return f"{vertex_server(region)}/v1"


def _missing_project(variable: str) -> str:
    return f"the project is missing: call with_project('…'), or set {PROJECT_VARIABLE} or {variable}"


def _credentials_from_environment(settings: Settings) -> Credentials | None:
    """Return the application default credentials, or `None` to use the metadata server."""
    if settings.base_url is not None and not settings.use_default:
        msg = (
            "credentials of the environment are only sent to Google's servers: for another server, choose them with "
            "with_default_credentials() or another method"
        )
        raise UsageError(msg)
    if (path := read_environment(CREDENTIALS_VARIABLE)) is not None:
        with naming_variable(CREDENTIALS_VARIABLE):
            return credentials_from_file(path)
    file = _gcloud_file()
    return credentials_from_file(file) if file.is_file() else None


def _gcloud_file() -> Path:
    """Return the path at which `gcloud auth application-default login` stores credentials."""
    if (folder := read_environment("CLOUDSDK_CONFIG")) is not None:
        return Path(folder) / _GCLOUD_FILE
    if os.name == "nt":
        return Path(os.environ.get("APPDATA", "C:/")) / "gcloud" / _GCLOUD_FILE
    return Path.home() / ".config" / "gcloud" / _GCLOUD_FILE
