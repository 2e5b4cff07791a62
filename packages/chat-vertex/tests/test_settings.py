"""Environment variables and their precedence, and the hosts and paths of a project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_core.errors import NetworkError, TransportError, UsageError
from chat_core.testing import MockTransport
from chat_vertex import AuthorizedUser, MetadataServer, ServiceAccount, TokenSource, VertexBuilder
from chat_vertex.settings import Account, MachineTokens, Settings, account_for, key_from_environment
from vertex_world import account_json, user_json

pytestmark = pytest.mark.anyio

TOKEN = "secret-token"


@pytest.mark.parametrize(
    ("region", "server"),
    [
        ("global", "https://aiplatform.googleapis.com"),
        ("europe-west4", "https://europe-west4-aiplatform.googleapis.com"),
        ("us", "https://aiplatform.us.rep.googleapis.com"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com"),
    ],
)
def test_the_url_of_an_account_contains_project_and_region(region: str, server: str) -> None:
    account = account_for(Settings(project="my-project", region=region, token=TOKEN), "google")

    assert account.url("google") == f"{server}/v1/projects/my-project/locations/{region}/publishers/google"
    assert account.url("anthropic").endswith("/publishers/anthropic")


def test_project_region_and_credentials_are_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(account_json()))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    account = account_for(Settings(), "google")
    assert (account.project, account.region) == ("file-project", "asia-south1")
    assert "robot@my-project" in repr(account.token)

    monkeypatch.setenv("VERTEX_PROJECT_ID", "env-project")
    monkeypatch.setenv("VERTEX_REGION", "us-east5")
    account = account_for(Settings(), "google")
    assert (account.project, account.region) == ("env-project", "us-east5")
    assert account.server == "https://us-east5-aiplatform.googleapis.com/v1"


def test_explicit_settings_take_precedence_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(account_json()))
    for name, value in {
        "VERTEX_PROJECT_ID": "env-project",
        "VERTEX_REGION": "us-east5",
        "GOOGLE_APPLICATION_CREDENTIALS": str(path),
        "VERTEX_API_KEY": "env-key",
    }.items():
        monkeypatch.setenv(name, value)

    account = account_for(Settings(project="mine", region="global", token=TOKEN), "google")
    assert (account.project, account.region, account.token) == ("mine", "global", TOKEN)
    for settings in (
        Settings(project="mine"),
        Settings(token=TOKEN),
        Settings(credentials=MetadataServer()),
        Settings(use_default=True),
        Settings(base_url="https://one.example"),
    ):
        assert key_from_environment(settings) is None
    assert key_from_environment(Settings()) == "env-key"


def test_the_first_key_variable_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "gemini-key")
    assert key_from_environment(Settings()) == "gemini-key"
    monkeypatch.setenv("VERTEX_API_KEY", "vertex-key")
    assert key_from_environment(Settings()) == "vertex-key"


def test_missing_credentials_are_reported_with_all_alternatives() -> None:
    with pytest.raises(UsageError) as caught:
        account_for(Settings(), "google")

    for name in (
        "VERTEX_API_KEY", "GEMINI_API_KEY", "VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT",
        "ANTHROPIC_VERTEX_PROJECT_ID", "VERTEX_REGION", "asia-south1",
        "GOOGLE_APPLICATION_CREDENTIALS", "with_api_key()", "with_project()", "with_service_account_file()",
        "with_service_account_json()", "with_default_credentials()", "with_metadata_server()", "with_token()",
    ):  # fmt: skip
        assert name in str(caught.value)
        assert name.removesuffix("()") in dir(VertexBuilder) or not name.endswith("()")


def test_a_missing_project_is_reported_with_its_setting() -> None:
    missing = r"the project is missing: call with_project\('…'\), or set VERTEX_PROJECT_ID or "
    with pytest.raises(UsageError, match=f"{missing}GOOGLE_CLOUD_PROJECT"):
        account_for(Settings(token=TOKEN), "google")
    with pytest.raises(UsageError, match=f"{missing}ANTHROPIC_VERTEX_PROJECT_ID"):
        account_for(Settings(token=TOKEN), "anthropic")


def test_the_credentials_file_of_gcloud_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "gcloud"
    folder.mkdir()
    (folder / "application_default_credentials.json").write_text(json.dumps(user_json()))
    account = account_for(Settings(project="p"), "google")
    assert account.quota_project == "billed-project"
    assert AuthorizedUser.__name__ in repr(account.token)

    monkeypatch.delenv("CLOUDSDK_CONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    folder.rename(tmp_path / "moved")
    (tmp_path / ".config").mkdir()
    (tmp_path / "moved").rename(tmp_path / ".config" / "gcloud")
    assert account_for(Settings(project="p"), "google").quota_project == "billed-project"


def test_an_error_in_the_credentials_file_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/none/key.json")

    with pytest.raises(UsageError, match=r"GOOGLE_APPLICATION_CREDENTIALS: the credentials file '/none/key\.json'"):
        account_for(Settings(project="p"), "google")


def test_credentials_from_the_environment_are_not_sent_to_other_servers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(account_json()))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    settings = Settings(project="p", base_url="https://one.example")

    with pytest.raises(UsageError, match="only sent to Google's servers"):
        account_for(settings, "google")
    account = account_for(Settings(project="p", base_url="https://one.example", use_default=True), "google")
    assert account.server == "https://one.example/v1"


@pytest.mark.parametrize(("project", "region"), [("a/../b", "global"), ("p", "evil.example/"), ("p?", "global")])
def test_a_malformed_project_or_region_is_rejected(monkeypatch: pytest.MonkeyPatch, project: str, region: str) -> None:
    monkeypatch.setenv("VERTEX_PROJECT_ID", project)
    monkeypatch.setenv("VERTEX_REGION", region)

    with pytest.raises(UsageError, match="is invalid: use ids like"):
        account_for(Settings(token=TOKEN), "google")


def test_no_repr_shows_a_secret() -> None:
    settings: list[Any] = [Settings(token=TOKEN), Account("p", "r", "https://h", TOKEN)]

    assert "secret" not in repr(settings)
    assert "PRIVATE" not in repr(Settings(credentials=ServiceAccount.from_json(account_json())))


async def test_an_unreachable_metadata_server_is_reported_with_all_alternatives() -> None:
    transport = MockTransport()
    for _ in range(2):
        transport.fail(TransportError("connect", "no such host"))
    tokens: Any = account_for(Settings(project="p", transport=transport), "google").token

    with pytest.raises(UsageError, match=r"VERTEX_API_KEY.*; no metadata server was reached"):
        await tokens()


async def test_a_metadata_server_that_responded_before_raises_network_error() -> None:
    transport = MockTransport()
    transport.answer(200, body={"access_token": "t", "expires_in": 600})
    for _ in range(2):
        transport.fail(TransportError("connect", "no route"))
    tokens = MachineTokens(TokenSource(MetadataServer(), transport, pause=0))

    assert await tokens() == "t"
    tokens.reject("t")
    with pytest.raises(NetworkError, match="no route"):
        await tokens()


@pytest.mark.parametrize(("publisher", "url"), [("google", "https://gateway/v1"), ("anthropic", "https://gateway")])
def test_the_variables_of_the_vendor_sdk_follow_the_arguments_and_our_variables(
    publisher: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, region, base_url = {
        "google": ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_VERTEX_BASE_URL"),
        "anthropic": ("ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_BASE_URL"),
    }[publisher]
    monkeypatch.setenv(project, "sdk-project")
    monkeypatch.setenv(region, "europe-west4")
    account = account_for(Settings(token=TOKEN), publisher)
    assert account.url("x") == (
        "https://europe-west4-aiplatform.googleapis.com/v1/projects/sdk-project/locations/europe-west4/publishers/x"
    )
    monkeypatch.setenv(base_url, "https://gateway/")
    assert account_for(Settings(token=TOKEN), publisher).server == url
    monkeypatch.setenv("VERTEX_PROJECT_ID", "own-project")
    monkeypatch.setenv("VERTEX_REGION", "global")
    account = account_for(Settings(token=TOKEN), publisher)
    assert (account.project, account.region) == ("own-project", "global")
    account = account_for(Settings("given", "us-east5", token=TOKEN, base_url="https://mine"), publisher)
    assert (account.project, account.region, account.server) == ("given", "us-east5", "https://mine/v1")
    monkeypatch.setenv(base_url, "no address")
    with pytest.raises(UsageError, match=f"^{base_url}: "):
        account_for(Settings(token=TOKEN), publisher)
