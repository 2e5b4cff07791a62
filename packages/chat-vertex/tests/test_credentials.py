"""Credentials: token requests, refused content, and hidden secrets."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import jwt
import pytest
from chat_core.errors import UsageError
from chat_vertex import AuthorizedUser, MetadataServer, ServiceAccount, credentials_from_file, credentials_from_json
from vertex_world import EMAIL, account_json, key_pair, user_json

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def test_a_service_account_signs_the_documented_claims() -> None:
    account = ServiceAccount.from_json(account_json())
    request = account.token_request(NOW)

    assert (request.method, request.url) == ("POST", "https://oauth2.googleapis.com/token")
    assert dict(request.headers)["content-type"] == "application/x-www-form-urlencoded"
    form = dict(parse_qsl(request.body.decode()))
    assert form.keys() == {"grant_type", "assertion"}
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    claims = jwt.decode(
        form["assertion"],
        key_pair()[1],
        algorithms=["RS256"],
        audience="https://oauth2.googleapis.com/token",
        options={"verify_exp": False, "verify_iat": False},
    )
    assert claims == {
        "iss": EMAIL,
        "scope": "https://www.googleapis.com/auth/cloud-platform",
        "aud": "https://oauth2.googleapis.com/token",
        "iat": int(NOW.timestamp()),
        "exp": int(NOW.timestamp()) + 3600,
    }
    assert jwt.get_unverified_header(form["assertion"])["kid"] == "key-id-1"
    assert account.project == "file-project"


def test_an_authorized_user_exchanges_the_refresh_token() -> None:
    user = credentials_from_json(json.dumps(user_json("https://one.example/t?a=1")))
    request = user.token_request(NOW)

    assert isinstance(user, AuthorizedUser)
    assert request.url == "https://one.example/t?a=1"
    assert dict(parse_qsl(request.body.decode())) == {
        "grant_type": "refresh_token",
        "client_id": "client-1.apps.googleusercontent.com",
        "client_secret": "client-secret-1",
        "refresh_token": "refresh-secret-1",
    }
    assert user.quota_project == "billed-project"


def test_the_metadata_server_request_matches_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    request = MetadataServer().token_request(NOW)

    assert request.method == "GET"
    assert request.url == (
        "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
        "?scopes=https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fcloud-platform"
    )
    assert dict(request.headers)["metadata-flavor"] == "Google"
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:8080")
    assert MetadataServer().host == "127.0.0.1:8080"


def test_credentials_are_read_from_a_file_whose_path_appears_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(account_json()))
    assert isinstance(credentials_from_file(path), ServiceAccount)
    assert isinstance(credentials_from_file(str(path)), ServiceAccount)

    path.write_text('{"type": "service_account", "private_key": "secret"}')
    with pytest.raises(UsageError, match=r"key\.json.*lack the field 'client_email'") as caught:
        credentials_from_file(path)
    assert "secret" not in str(caught.value)
    with pytest.raises(UsageError, match=r"none\.json' cannot be read: No such file"):
        credentials_from_file(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("secret", "must be a JSON object"),
        (b"\xff\xfe secret", "must be a JSON object"),
        ("[]", "credentials must be a JSON object"),
        ({"type": "external_account"}, r"type 'external_account' are not supported.*with_token\(\)"),
        ({}, "type None are not supported"),
        (account_json() | {"client_email": 5}, "lack the field 'client_email'"),
        (account_json() | {"private_key": "secret"}, "not an RSA key"),
        (account_json() | {"token_uri": "ftp://secret"}, "the base URL must be"),
        (user_json() | {"refresh_token": ""}, "lack the field 'refresh_token'"),
    ],
)
def test_invalid_credentials_content_is_rejected(content: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        credentials_from_json(content)


def test_user_credentials_are_rejected_as_a_service_account() -> None:
    with pytest.raises(UsageError, match="these are credentials of type 'authorized_user'"):
        ServiceAccount.from_json(user_json())


def test_no_repr_shows_a_secret() -> None:
    shown = f"{credentials_from_json(account_json())!r} {credentials_from_json(user_json())!r} {MetadataServer()!r}"

    assert EMAIL in shown
    assert "secret" not in shown
    assert "PRIVATE" not in shown
