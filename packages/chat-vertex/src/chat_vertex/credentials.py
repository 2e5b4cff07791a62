"""Credentials for Google Cloud: service accounts, authorized users and the metadata server.

Each class creates the request that returns an access token, without I/O. `TokenSource` sends it. No `repr` contains a
secret.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol, TypeAlias, final
from urllib.parse import urlencode

from chat_core.arguments import require_path, require_time
from chat_core.errors import UsageError
from chat_core.transport.values import Request, Timeouts
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.shapes import is_object

from chat_vertex.signing import Signer, signer_for

SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
"""The scope of every token: all services of Google Cloud that the account may use."""

TOKEN_URI: Final = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_SECONDS: Final = 3600
METADATA_HOST: Final = "metadata.google.internal"
METADATA_HOST_VARIABLE: Final = "GCE_METADATA_HOST"
METADATA_PATH: Final = "/computeMetadata/v1/instance/service-accounts/default/token"

AccountJson: TypeAlias = str | bytes | Mapping[str, object]
"""The content of a credentials file, as text or as parsed JSON."""


class Credentials(Protocol):
    """The identity of a program on Google Cloud."""

    @property
    def project(self) -> str | None:
        """The project that the credentials belong to, if they name a project."""
        ...

    @property
    def quota_project(self) -> str | None:
        """The project that is charged for requests, if it is not the project of the resource."""
        ...

    def token_request(self, now: datetime) -> Request:
        """Return the request for a new access token.

        Args:
            now: the current time in UTC.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A service account with its private key, which signs a request for each token (RFC 7523).

    Attributes:
        email: email address of the account.
        key_id: id of the private key, if the file names it.
        project: project of the account, if the file names it.
        token_uri: URL of the token server.
        quota_project: always `None`: the project of the resource is charged.
    """

    email: str
    signer: Signer = field(repr=False)
    key_id: str | None = None
    project: str | None = None
    token_uri: str = TOKEN_URI
    quota_project: None = None

    @classmethod
    def from_json(cls, account: AccountJson) -> ServiceAccount:
        """Create a service account from the content of its key file.

        Raises:
            UsageError: the content is not the key of a service account.
        """
        credentials = credentials_from_json(account)
        if not isinstance(credentials, ServiceAccount):
            msg = f"expected the key of a service account, but these are credentials of type {_account_type(account)!r}"
            raise UsageError(msg)
        return credentials

    def token_request(self, now: datetime) -> Request:
        """Implement `Credentials.token_request`: exchange a signed JWT for an access token."""
        require_time("now", now)
        issued_at = int(now.timestamp())
        claims = {
            "iss": self.email,
            "aud": self.token_uri,
            "scope": SCOPE,
            "iat": issued_at,
            "exp": issued_at + ASSERTION_SECONDS,
        }
        assertion = self.signer.sign_jwt(claims, key_id=self.key_id)
        return _form_request(self.token_uri, {"grant_type": JWT_BEARER, "assertion": assertion})


@final
@dataclass(frozen=True, slots=True)
class AuthorizedUser:
    """A person's credentials, as `gcloud auth application-default login` stores them.

    Attributes:
        client_id: id of the OAuth client.
        client_secret, refresh_token: secrets that are exchanged for an access token. Not part of `repr()`.
        quota_project: project that is charged for requests.
        token_uri: URL of the token server.
        project: always `None`, because a user account belongs to no project.
    """

    client_id: str
    client_secret: str = field(repr=False)
    refresh_token: str = field(repr=False)
    quota_project: str | None = None
    token_uri: str = TOKEN_URI
    project: None = None

    def token_request(self, now: datetime) -> Request:  # noqa: ARG002 - the protocol's
        """Implement `Credentials.token_request`: exchange the refresh token for an access token."""
        form = {
            "grant_type": "refresh_token",
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "refresh_token": self.refresh_token,
        }
        return _form_request(self.token_uri, form)


@final
@dataclass(frozen=True, slots=True)
class MetadataServer:
    """The account of the machine or service that the program runs on, such as Compute Engine or Cloud Run.

    Attributes:
        host: host of the metadata server. Default: the environment variable `GCE_METADATA_HOST`, or Google's host.
        project, quota_project: always `None`.
    """

    host: str = field(default_factory=lambda: os.environ.get(METADATA_HOST_VARIABLE, "").strip() or METADATA_HOST)
    project: None = None
    quota_project: None = None

    def token_request(self, now: datetime) -> Request:  # noqa: ARG002 - the protocol's
        """Implement `Credentials.token_request`: ask the metadata server for the token of this machine."""
        path = f"{METADATA_PATH}?{urlencode({'scopes': SCOPE})}"
        headers = (("metadata-flavor", "Google"), ("accept", "application/json"))
        return Request("GET", "http", self.host, path, headers, timeouts=Timeouts(connect=3.0, idle=10.0))


def credentials_from_file(path: str | Path) -> ServiceAccount | AuthorizedUser:
    """Read a credentials file: the key of a service account, or the file of an authorized user.

    Raises:
        UsageError: the file cannot be read, or contains other credentials. The message omits the content.
    """
    require_path("path", path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        msg = f"the credentials file {str(path)!r} cannot be read: {error.strerror or type(error).__name__}"
        raise UsageError(msg) from None
    try:
        return credentials_from_json(content)
    except UsageError as error:
        msg = f"{str(path)!r}: {error}"
        raise UsageError(msg) from None


def credentials_from_json(content: AccountJson) -> ServiceAccount | AuthorizedUser:
    """Return the credentials that the content of a file describes.

    Raises:
        UsageError: the content is invalid or has an unsupported type. The message omits the content.
    """
    fields = _parse_account(content)
    kind = fields.get("type")
    if kind == "service_account":
        private_key = _require_text(fields, "private_key")
        return ServiceAccount(
            _require_text(fields, "client_email"),
            signer_for(private_key),
            _optional_text(fields, "private_key_id"),
            _optional_text(fields, "project_id"),
            _token_uri(fields),
        )
    if kind == "authorized_user":
        return AuthorizedUser(
            _require_text(fields, "client_id"),
            _require_text(fields, "client_secret"),
            _require_text(fields, "refresh_token"),
            _optional_text(fields, "quota_project_id"),
            _token_uri(fields),
        )
    msg = (
        f"credentials of type {kind!r} are not supported, only 'service_account' and 'authorized_user': for others, "
        "pass an async function that returns a token to with_token()"
    )
    raise UsageError(msg)


def _parse_account(content: AccountJson) -> Mapping[str, object]:
    fields: object = content
    if isinstance(content, (str, bytes)):
        try:
            fields = json.loads(content)
        except ValueError:
            fields = None
    if not is_object(fields):
        msg = "the credentials must be a JSON object: pass the content of a credentials file"
        raise UsageError(msg)
    return fields


def _account_type(content: AccountJson) -> object:
    return _parse_account(content).get("type")


def _require_text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        msg = f"the credentials lack the field {name!r}: pass the whole content of a credentials file"
        raise UsageError(msg)
    return value


def _optional_text(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) and value else None


def _token_uri(fields: Mapping[str, object]) -> str:
    uri = _optional_text(fields, "token_uri") or TOKEN_URI
    Endpoint(uri, {})  # raises for an invalid URL now instead of at the first request
    return uri


def _form_request(url: str, form: Mapping[str, str]) -> Request:
    server = Endpoint(url, {})
    headers = (("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json"))
    path = f"{server.path or '/'}{server.query}"
    return Request("POST", server.scheme, server.host, path, headers, urlencode(form).encode())
