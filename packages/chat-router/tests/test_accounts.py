"""Two accounts of one vendor need two provider names."""

from __future__ import annotations

import pytest
from chat_claude import ClaudeBuilder, ClaudeProvider
from chat_core import CompletionProvider, UsageError
from chat_core.testing import MockTransport
from chat_gemini import GeminiBuilder, GeminiProvider
from chat_openai import AzureBuilder, OpenAIBuilder, OpenAIProvider
from chat_router import Router
from router_helpers import model


def claude(name: str, key: str = "sk-1", url: str = "https://api.example") -> ClaudeProvider:
    builder = ClaudeBuilder().with_base_url(url).with_model(name).with_api_key(key)
    return builder.with_transport(MockTransport()).build()


def openai(key: str) -> OpenAIProvider:
    return OpenAIBuilder().with_model("gpt").with_api_key(key).with_transport(MockTransport()).build()


@pytest.mark.parametrize(
    "other",
    [claude("b", "sk-2"), claude("b", url="https://eu.example"), claude("b", url="https://api.example/account-2")],
    ids=["key", "server", "path"],
)
def test_models_of_two_accounts_with_one_name_are_refused(other: ClaudeProvider) -> None:
    with pytest.raises(
        UsageError, match=r"claude/a and claude/b have the same provider name.*with_provider_name"
    ) as caught:
        Router([claude("a"), other])
    assert "sk-" not in str(caught.value)
    names = [item.meta.name for item in Router([claude("a"), other.with_provider_name("claude-2")]).candidates]
    assert names == ["claude", "claude-2"]


def test_two_projects_of_vertex_are_two_accounts() -> None:
    def vertex(project: str, model: str) -> GeminiProvider:
        builder = GeminiBuilder().with_vertex(project, "us-central1").with_token("token-1")
        return builder.with_model(model).with_transport(MockTransport()).build()

    assert len(Router([vertex("project-a", "pro"), vertex("project-a", "flash")]).candidates) == 2
    with pytest.raises(UsageError, match="same provider name"):
        Router([vertex("project-a", "pro"), vertex("project-b", "pro")])


def test_two_models_of_one_account_may_have_one_name() -> None:
    assert len(Router([claude("a"), claude("b")]).candidates) == 2


def test_deployments_of_one_azure_resource_are_one_account() -> None:
    start = AzureBuilder().with_api_key("sk-1").with_transport(MockTransport()).with_endpoint("https://x.example")
    builders = [start.with_deployment(name, api_version="2025-01-01") for name in ("big", "small")]
    models: list[CompletionProvider] = [builder.with_completions().build() for builder in builders]
    models.append(builders[0].build())
    assert len(Router(models).candidates) == 3


def test_accounts_are_compared_in_inner_routers_and_in_wrapped_providers() -> None:
    with pytest.raises(UsageError, match="same provider name"):
        Router([Router([claude("a"), model("other")]), claude("b", "sk-2")])
    with pytest.raises(UsageError, match="same provider name"):
        Router([openai("sk-1"), openai("sk-2")])
