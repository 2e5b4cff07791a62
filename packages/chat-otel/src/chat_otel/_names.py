"""Attribute names of the OpenTelemetry semantic conventions for generative AI.

Source: https://github.com/open-telemetry/semantic-conventions-genai, version 1.42 (in development). Names that begin
with `chat.` are not part of the conventions.
"""

from __future__ import annotations

from typing import Final

from chat_core.provider import ProviderMeta

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT: Final = "gen_ai.agent.name"
OUTPUT_TYPE: Final = "gen_ai.output.type"
ERROR: Final = "error.type"

REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_TOP_K: Final = "gen_ai.request.top_k"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_SEED: Final = "gen_ai.request.seed"

RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"

INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - the kind of a token of text

TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"

INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

RUN_OUTCOME: Final = "chat.run.outcome"
RUN_STEPS: Final = "chat.run.steps"
RUN_GOES_ON: Final = "chat.run.goes_on"
RUN_PAUSE: Final = "chat.run.pause.reason"
RUN_WAITING: Final = "chat.run.pause.tool_call_ids"
CALL_ATTEMPTS: Final = "chat.call.attempts"
CALL_FAILURES: Final = "chat.call.failures"
CALL_ANSWERED_BY: Final = "chat.call.answered_by"
TOOL_ATTEMPT: Final = "chat.tool.attempt"
TOOL_STATUS: Final = "chat.tool.status"
WAIT_KIND: Final = "chat.wait.kind"
WAIT_OUTCOME: Final = "chat.wait.outcome"
WAIT_EDITED: Final = "chat.wait.edited"
WAIT_BY: Final = "chat.wait.decided_by"

_PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "azure-responses": "azure.ai.openai",
    "claude": "anthropic",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "openai-responses": "openai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Map from provider names of this library to those of the conventions, where they differ."""

_RESPONSES: Final = "-responses"


def provider_name(meta: ProviderMeta) -> str:
    """Return the name that the OpenTelemetry conventions define for a provider."""
    return _PROVIDERS.get(meta.name) or meta.name.removesuffix(_RESPONSES)
