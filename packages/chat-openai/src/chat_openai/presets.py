"""Presets for OpenAI, Azure OpenAI and OpenRouter, with settings for both APIs and the sources of these settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Final, final

from chat_completions import (
    API_KEY_VARIABLE,
    BASE_URL_VARIABLE,
    DEFAULT_BASE_URL,
    Dialect,
    Preset,
    SizedEmbeddings,
    Source,
)
from chat_responses import ResponsesDialect

CHECKED: Final = date(2026, 11, 22)
"""The date on which the presets were last compared with the vendors' documentation."""
SDK_CHECKED: Final = date(2026, 11, 28)
"""The date on which the variable of Azure OpenAI was read in the source code of the SDK."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A preset for a vendor that offers both the Responses API and the Chat Completions API.

    Attributes:
        preset: the base URL and API key settings of both APIs, and the dialect of the Chat Completions API.
        responses: the dialect of the Responses API. Its provider name differs from the preset's, because opaque data
            from one API is meaningless to the other.
        token_variable: the environment variable of a bearer token, which takes precedence over the API key.
    """

    preset: Preset[SizedEmbeddings]
    responses: ResponsesDialect
    token_variable: str | None = None


OPENAI: Final = Vendor(
    preset=Preset(
        title="OpenAI",
        dialect=Dialect(model="", provider="openai", files=("image", "audio", "document")),
        base_url=DEFAULT_BASE_URL,
        base_url_variable=BASE_URL_VARIABLE,
        key_variables=(API_KEY_VARIABLE,),
        embeddings=SizedEmbeddings(),
        own_builder="OpenAIBuilder",
        sources=(
            Source(
                "Developer quickstart", "https://developers.openai.com/api/docs/quickstart", CHECKED, ("key_variables",)
            ),
            Source(
                "OpenAI Python API library",
                "https://github.com/openai/openai-python/blob/main/src/openai/_client.py",
                CHECKED,
                ("base_url_variable",),
            ),
        ),
    ),
    responses=ResponsesDialect(model="", provider="openai-responses"),
)

AZURE: Final = Vendor(
    preset=Preset(
        title="Azure OpenAI",
        dialect=Dialect(model="", provider="azure", files=("image", "audio", "document")),
        base_url=None,
        base_url_variable="AZURE_OPENAI_ENDPOINT",
        own_server=True,
        key_variables=("AZURE_OPENAI_API_KEY",),
        key_header="api-key",
        embeddings=SizedEmbeddings(),
        own_builder="AzureBuilder",
        notes=("the dated API needs a version in every URL and the deployment in the path; the v1 API needs neither",),
        sources=(
            Source(
                "Azure OpenAI Service REST API reference",
                "https://learn.microsoft.com/azure/cognitive-services/openai/reference",
                CHECKED,
                ("key_header",),
            ),
            Source(
                "Azure OpenAI API version lifecycle",
                "https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle",
                CHECKED,
                ("key_variables", "notes"),
            ),
            Source(
                "OpenAI Python SDK",
                "https://github.com/openai/openai-python/blob/e43b422412a9e96c9cc5192c61fffbe2d7e04836/src/openai/lib/azure.py",
                SDK_CHECKED,
                ("base_url_variable",),
            ),
        ),
    ),
    responses=ResponsesDialect(model="", provider="azure-responses"),
    token_variable="AZURE_OPENAI_AD_TOKEN",  # noqa: S106 - a name
)

OPENROUTER: Final = Vendor(
    preset=Preset(
        title="OpenRouter",
        dialect=Dialect(
            model="",
            provider="openrouter",
            max_tokens_field="max_tokens",
            reasoning_style="object",
            url_files=("image", "video", "document"),
        ),
        base_url="https://openrouter.ai/api/v1",
        key_variables=("OPENROUTER_API_KEY",),
        embeddings=SizedEmbeddings(),
        own_builder="OpenRouterBuilder",
        notes=("`.with_app(…)` sends headers that identify your application",),
        sources=(
            Source(
                "OpenAI SDK",
                "https://openrouter.ai/docs/community/openai-sdk",
                CHECKED,
                ("base_url", "key_variables", "notes"),
            ),
            Source(
                "Reasoning Tokens",
                "https://openrouter.ai/docs/use-cases/reasoning-tokens",
                CHECKED,
                ("reasoning_style",),
            ),
            Source("PDF Inputs", "https://openrouter.ai/docs/features/multimodal/pdfs", CHECKED, ("url_files",)),
        ),
    ),
    responses=ResponsesDialect(model="", provider="openrouter-responses", store=False, reasoning_budget=True),
)

VENDORS: Final[Mapping[str, Vendor]] = MappingProxyType(
    {vendor.preset.name: vendor for vendor in (AZURE, OPENAI, OPENROUTER)}
)
"""The vendors that this package supports, by the names of their presets."""
