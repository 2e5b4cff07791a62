"""Claude on Amazon Bedrock: the endpoint of a region, and requests signed with AWS credentials.

`botocore` reads the credentials and signs the requests. It is installed with the extra `chat-claude[bedrock]`, and only
imported if requests are signed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, Final, final

from chat_core.concurrency import finish_in_thread
from chat_core.errors import UsageError
from chat_core.transport.tracebacks import drop_frames
from chat_core.transport.values import Request
from chat_core.wire.connection import AUTHORIZATION, Authorizer, credentials_for, naming_variable, read_environment
from chat_core.wire.endpoint import Endpoint

REGION_VARIABLE: Final = "AWS_REGION"
DEFAULT_REGION_VARIABLE: Final = "AWS_DEFAULT_REGION"
TOKEN_VARIABLE: Final = "AWS_BEARER_TOKEN_BEDROCK"  # noqa: S105 - a name
"""Environment variable with an API key of Bedrock, which is sent as a bearer token. It takes precedence."""
BASE_URL_VARIABLE: Final = "ANTHROPIC_BEDROCK_BASE_URL"
"""Environment variable of the base URL, as in the Anthropic SDK."""
SERVICE: Final = "bedrock"


@final
@dataclass(frozen=True, slots=True)
class Bedrock:
    """Settings of a provider on Bedrock.

    Attributes:
        region: AWS region. `None`: from the environment or the profile.
        profile: name of the profile in the configuration of the AWS command line. `None`: the default profile.
        url: base URL. `None`: from the environment, or the endpoint of the region.
    """

    region: str | None = None
    profile: str | None = None
    url: str | None = None


@final
class RequestSigner:
    """An `Authorizer` that signs requests with AWS Signature Version 4.

    The credentials are read as by the AWS command line: from the environment, the configuration, or the role of the
    machine. Temporary credentials are renewed.

    Args:
        session: session of `botocore`.
        region: AWS region.
    """

    __slots__ = ("_region", "_session")

    def __init__(self, session: Any, region: str) -> None:  # noqa: ANN401 - botocore has no types
        self._session = session
        self._region = region

    def __eq__(self, other: object) -> bool:
        """Return whether `other` signs with the credentials of the same profile, so for the same account."""
        return isinstance(other, RequestSigner) and self._account == other._account

    def __hash__(self) -> int:
        """Return a hash of the profile and the region."""
        return hash(self._account)

    @property
    def _account(self) -> tuple[str | None, str]:
        return self._session.profile, self._region

    async def authorize(self, request: Request, /) -> Request:
        """Return a copy of the request with its signature. A worker thread reads the credentials.

        Raises:
            UsageError: the credentials are missing or cannot be read.
        """
        return await finish_in_thread(partial(self._sign, request))

    def reject(self, _request: Request, /) -> bool:
        """Return `False`, because `botocore` renews temporary credentials before they expire."""
        return False

    def _sign(self, request: Request) -> Request:
        auth, aws_request = _import_botocore("auth"), _import_botocore("awsrequest")
        try:
            credentials = self._session.get_credentials()
            frozen = None if credentials is None else credentials.get_frozen_credentials()
        except _import_botocore("exceptions").BotoCoreError as error:
            drop_frames(error)
            msg = f"the AWS credentials cannot be read: {error}"
            raise UsageError(msg) from error
        if frozen is None:
            msg = (
                "there are no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, choose a profile, or "
                f"set {TOKEN_VARIABLE}"
            )
            raise UsageError(msg)
        # Only headers that no transport changes are signed.
        headers = {name: value for name, value in request.headers if name == "content-type"}
        signed = aws_request.AWSRequest(request.method, request.url, headers, request.body)
        auth.SigV4Auth(frozen, SERVICE, self._region).add_auth(signed)
        added = [(name.lower(), str(value)) for name, value in signed.headers.items() if name.lower() not in headers]
        return replace(request, headers=(*request.headers, *added))


def bedrock_endpoint(settings: Bedrock, headers: dict[str, str], key: Authorizer | None) -> Endpoint:
    """Return the endpoint of a region.

    Args:
        settings: settings of the builder.
        headers: headers of every request.
        key: source of a bearer token, or `None`.

    Raises:
        UsageError: the region is missing, the base URL is invalid, or `botocore` is not installed.
    """
    url = settings.url
    token = None if url else read_environment(TOKEN_VARIABLE)
    if key is None and AUTHORIZATION not in headers and token is not None and settings.profile is None:
        headers = {AUTHORIZATION: credentials_for(AUTHORIZATION, token)} | headers
    region = settings.region or read_environment(REGION_VARIABLE, DEFAULT_REGION_VARIABLE)
    if key is None and AUTHORIZATION not in headers:
        session = _import_botocore("session").Session(profile=settings.profile)
        region = region or _region_of(session)
        key = RequestSigner(session, region)
    variable = None if url else read_environment(BASE_URL_VARIABLE)
    if variable is not None:
        with naming_variable(BASE_URL_VARIABLE):
            return Endpoint(variable, headers, key)
    if url is None and region is None:
        raise UsageError(_MISSING_REGION)
    return Endpoint(url or f"https://bedrock-runtime.{region}.amazonaws.com", headers, key)


_MISSING_REGION: Final = (
    f"the AWS region is missing: call .with_bedrock('us-east-1'), set {REGION_VARIABLE} or {DEFAULT_REGION_VARIABLE}, "
    "or choose a profile with a region"
)


def _region_of(session: Any) -> str:  # noqa: ANN401 - botocore has no types
    """Return the region that the environment or the profile configures."""
    try:
        region = session.get_config_variable("region")
    except _import_botocore("exceptions").BotoCoreError as error:
        msg = f"the AWS region cannot be read: {error}"
        raise UsageError(msg) from error
    if not isinstance(region, str):
        raise UsageError(_MISSING_REGION)
    return region


def _import_botocore(module: str) -> Any:  # noqa: ANN401 - botocore has no types
    try:
        return import_module(f"botocore.{module}")
    except ImportError as error:
        msg = "requests to Bedrock are signed with botocore: install chat-claude[bedrock], or use a bearer token"
        raise UsageError(msg) from error
