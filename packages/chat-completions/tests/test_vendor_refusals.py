"""Documented errors of each vendor, raised through its provider: error class and retryability."""

from __future__ import annotations

import json
import time
from typing import Any, Final, cast

import pytest
from chat_completions import PRESETS, CompletionsBuilder, HuggingFaceBuilder, OllamaBuilder, vendor_builder
from chat_core.errors import (
    AuthenticationError,
    ContentFilteredError,
    ContextLengthError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
)
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport

pytestmark = pytest.mark.anyio

ELSEWHERE: Final = ("azure", "openai", "openrouter")
"""Vendors whose presets are in another package. Their errors are parsed like those of any server."""

READY: Final[dict[str, Any]] = {
    **{name: vendor_builder(preset).with_model("m") for name, preset in PRESETS.items() if not preset.own_builder},
    **{name: CompletionsBuilder().with_provider_name(name).with_model("m") for name in ELSEWHERE},
    "huggingface": HuggingFaceBuilder().with_model("m"),
    "ollama": OllamaBuilder().with_model("m"),
}


def error(message: str, kind: str | None = None, code: object = None, **more: object) -> object:
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **more}}


def flat(**fields: object) -> object:
    return fields


def litellm(name: str, code: str, kind: str | None = None) -> object:
    return error(f"litellm.{name}: upstream said no", kind, code)


ROWS: Final[tuple[tuple[str, int, object, type[ProviderError]], ...]] = (
    ("openai", 401, error("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
     AuthenticationError),
    ("openai", 429, error("You exceeded your quota.", "insufficient_quota", "insufficient_quota"), QuotaExceededError),
    ("openai", 429, error("Rate limit reached.", "tokens", "rate_limit_exceeded"), RateLimitedError),
    ("openai", 400, error("Too long.", "invalid_request_error", "context_length_exceeded"), ContextLengthError),
    ("openai", 403, error("Country not supported.", "request_forbidden", "unsupported_country_region_territory"),
     PermissionDeniedError),
    ("openai", 503, error("The engine is currently overloaded.", "server_error"), OverloadedError),
    ("azure", 401, error("Access denied due to invalid subscription key.", code="401"), AuthenticationError),
    ("azure", 401, flat(statusCode=401, message="Unauthorized. Access token is missing."), AuthenticationError),
    ("azure", 404, error("The API deployment for this resource does not exist.", code="DeploymentNotFound"),
     NotFoundError),
    ("azure", 404, error("Resource not found", code="404"), NotFoundError),
    ("azure", 429, error("Requests have exceeded the call rate limit of your tier.", code="429"), RateLimitedError),
    ("azure", 400, error("The response was filtered.", code="content_filter",
     innererror={"code": "ResponsibleAIPolicyViolation"}), ContentFilteredError),
    ("cerebras", 401, flat(message="Wrong API Key", type="invalid_request_error", param="api_key",
     code="wrong_api_key"), AuthenticationError),
    ("cerebras", 404, flat(message="Model x does not exist.", type="not_found_error", param="model",
     code="model_not_found"), NotFoundError),
    ("cerebras", 429, flat(message="Requests per minute limit exceeded", type="too_many_requests_error",
     param="quota", code="request_quota_exceeded"), RateLimitedError),
    ("cerebras", 429, flat(message="We're experiencing high traffic right now!", type="too_many_requests_error",
     param="queue", code="queue_exceeded"), RateLimitedError),
    ("cerebras", 400, flat(message="Please reduce the length of the messages or completion.",
     type="invalid_request_error", param="messages", code="context_length_exceeded"), ContextLengthError),
    ("cerebras", 422, flat(message="'x' is not supported", type="invalid_request_error", code="wrong_api_format"),
     InvalidRequestError),
    ("deepseek", 402, error("Insufficient Balance", "unknown_error", "invalid_request_error"), QuotaExceededError),
    ("deepseek", 401, error("Authentication Fails", "authentication_error", "invalid_request_error"),
     AuthenticationError),
    ("deepseek", 400, error("The `reasoning_content` in the thinking mode must be passed back to the API.",
     "invalid_request_error", "invalid_request_error"), InvalidRequestError),
    ("deepseek", 400, error("This model's maximum context length is 131072 tokens.", "invalid_request_error",
     "invalid_request_error"), ContextLengthError),
    ("deepseek", 429, error("Rate Limit Reached", "rate_limit_error"), RateLimitedError),
    ("deepseek", 503, error("Service is too busy.", "service_unavailable_error"), OverloadedError),
    ("fireworks", 401, error("The API key you provided is invalid.", code="UNAUTHORIZED"), AuthenticationError),
    ("fireworks", 404, error("Model not found, inaccessible, and/or not deployed", code="NOT_FOUND"), NotFoundError),
    ("fireworks", 412, error("Account suspended, possibly due to reaching the monthly spending limit",
     code="PRECONDITION_FAILED"), QuotaExceededError),
    ("fireworks", 400, error("The prompt is too long: 9000, model maximum context length: 8191",
     "invalid_request_error"), ContextLengthError),
    ("fireworks", 429, error("rate limit exceeded, please try again later", code="rate_limit_exceeded"),
     RateLimitedError),
    ("groq", 401, error("Invalid API Key", "invalid_request_error", "invalid_api_key"), AuthenticationError),
    ("groq", 413, error("Request too large for model, tokens per minute (TPM): Limit 6000, Requested 9000", "tokens",
     "rate_limit_exceeded"), InvalidRequestError),
    ("groq", 429, error("Rate limit reached for model", "requests", "rate_limit_exceeded"), RateLimitedError),
    ("groq", 400, error("Failed to call a function.", "invalid_request_error", "tool_use_failed"), InvalidRequestError),
    ("groq", 498, error("Flex tier capacity exceeded", "capacity", "capacity_exceeded"), OverloadedError),
    ("groq", 400, error("Please reduce the length of the messages or completion.", "invalid_request_error",
     "context_length_exceeded"), ContextLengthError),
    ("huggingface", 401, flat(error="Invalid username or password."), AuthenticationError),
    ("huggingface", 402, flat(error="You have depleted your monthly included credits."), QuotaExceededError),
    ("huggingface", 400, error("The requested model 'x' does not exist", "invalid_request_error", "model_not_found"),
     NotFoundError),
    ("huggingface", 429, flat(error="Rate limit reached."), RateLimitedError),
    ("huggingface", 503, flat(error="Model x is currently loading", estimated_time=20.0), OverloadedError),
    ("litellm", 401, error("Authentication Error, Invalid proxy server token passed.", "token_not_found_in_db", "401"),
     AuthenticationError),
    ("litellm", 400, error("Budget has been exceeded! Current cost: 10.0, Max budget: 5.0", "budget_exceeded", "400"),
     QuotaExceededError),
    ("litellm", 429, error("Budget has been exceeded! Current cost: 10.0, Max budget: 5.0", "budget_exceeded", "429"),
     QuotaExceededError),
    ("litellm", 429, litellm("RateLimitError", "429", "throttling_error"), RateLimitedError),
    ("litellm", 400, litellm("ContextWindowExceededError", "400"), ContextLengthError),
    ("litellm", 400, litellm("ContentPolicyViolationError", "400"), ContentFilteredError),
    ("litellm", 400, error("/chat/completions: Invalid model name passed in model=x.", "invalid_request_error", "400"),
     InvalidRequestError),
    ("litellm", 503, litellm("ServiceUnavailableError", "503"), OverloadedError),
    ("litellm", 500, litellm("InternalServerError", "500"), ServerError),
    ("llamacpp", 503, error("Loading model", "unavailable_error", 503), OverloadedError),
    ("llamacpp", 401, error("Invalid API Key", "authentication_error", 401), AuthenticationError),
    ("llamacpp", 400, error("the request exceeds the available context size", "exceed_context_size_error", 400,
     n_ctx=512), ContextLengthError),
    ("llamacpp", 501, error("This server does not support embeddings.", "not_supported_error", 501), ServerError),
    ("mistral", 401, flat(detail="Invalid API Key"), AuthenticationError),
    ("mistral", 401, flat(message="Unauthorized", request_id="r"), AuthenticationError),
    ("mistral", 422, flat(object="error", message={"detail": [{"type": "extra_forbidden", "loc": ["body", "x"],
     "msg": "Extra inputs are not permitted"}]}, type="invalid_request_error", param=None, code=None),
      InvalidRequestError),
    ("mistral", 429, flat(object="error", message="Service tier capacity exceeded for this model.",
     type="service_tier_capacity_exceeded", param=None, code="3505"), OverloadedError),
    ("mistral", 429, flat(message="Requests rate limit exceeded"), RateLimitedError),
    ("mistral", 400, flat(object="error", message="Prompt contains 99999 tokens and 0 draft tokens, too large for "
     "model with 32768 maximum context length", type="invalid_request_error", code="3051"), ContextLengthError),
    ("mistral", 503, flat(object="error", message="Service unavailable.", type="internal_server_error"),
     OverloadedError),
    ("ollama", 404, error('model "x" not found, try pulling it first', "api_error"), NotFoundError),
    ("ollama", 404, error("model 'x' not found", "not_found_error"), NotFoundError),
    ("ollama", 400, error("x does not support tools", "api_error"), InvalidRequestError),
    ("ollama", 500, error("model requires more system memory (5.6 GiB) than is available (3.0 GiB)", "api_error"),
     ServerError),
    ("ollama", 503, error("server busy, try again. maximum pending requests exceeded", "api_error"), OverloadedError),
    ("ollama-cloud", 401, flat(error="unauthorized"), AuthenticationError),
    ("ollama-cloud", 429, flat(error="you've reached your hourly usage limit, please upgrade"), RateLimitedError),
    ("openrouter", 401, error("No auth credentials found", code=401), AuthenticationError),
    ("openrouter", 402, error("Insufficient credits. Add more using the settings page.", code=402), QuotaExceededError),
    ("openrouter", 403, error('x requires moderation. Your input was flagged for "violence".', code=403,
     metadata={"reasons": ["violence"], "flagged_input": "…", "provider_name": "OpenAI"}), ContentFilteredError),
    ("openrouter", 404, error("No endpoints found for x.", code=404), NotFoundError),
    ("openrouter", 429, error("Rate limit exceeded: free-models-per-min.", code=429), RateLimitedError),
    ("openrouter", 502, error("Provider returned error", code=502, metadata={"provider_name": "X", "raw": "oops"}),
     ServerError),
    ("openrouter", 503, error("There is no available model provider.", code=503), OverloadedError),
    ("perplexity", 401, "<html>\r\n<head><title>401 Authorization Required</title></head></html>", AuthenticationError),
    ("perplexity", 401, error("You exceeded your current quota, please check your plan.", "insufficient_quota", 401),
     QuotaExceededError),
    ("perplexity", 400, error("Invalid model 'x'.", "invalid_model", 400), InvalidRequestError),
    ("perplexity", 400, error("Last message must have role `user`.", "invalid_message", 400), InvalidRequestError),
    ("perplexity", 429, error("Request rate limit exceeded, please try again later.", "request_rate_limit_exceeded",
     429), RateLimitedError),
    ("together", 401, error("Invalid API key provided.", "invalid_request_error", "invalid_api_key"),
     AuthenticationError),
    ("together", 404, {"id": "r", **cast("dict[str, object]", error("Unable to access model x.",
     "invalid_request_error", "model_not_available"))}, NotFoundError),
    ("together", 422, error("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193.",
     "invalid_request_error"), ContextLengthError),
    ("together", 402, error("Credit limit exceeded, please add credits.", "credit_limit"), QuotaExceededError),
    ("together", 429, error("You have reached the rate limit specific to this model.", "rate_limit",
     "rate_limit_exceeded"), RateLimitedError),
    ("together", 503, error("The server is overloaded or not ready yet.", "service_unavailable"), OverloadedError),
    ("vllm", 404, flat(object="error", message="The model `x` does not exist.", type="NotFoundError", param=None,
     code=404), NotFoundError),
    ("vllm", 400, error("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
     "BadRequestError", 400), ContextLengthError),
    ("vllm", 400, flat(object="error", message="Unknown chat template", type="BadRequestError", code=400),
     InvalidRequestError),
    ("vllm", 401, flat(error="Unauthorized"), AuthenticationError),
    ("vllm", 500, error("EngineCore encountered an issue.", "InternalServerError", 500), ServerError),
    ("xai", 400, flat(code="Client specified an invalid argument", error="Incorrect API key provided: x."),
     AuthenticationError),
    ("xai", 404, flat(code="Some requested entity was not found", error="The model x does not exist."), NotFoundError),
    ("xai", 403, flat(code="The caller does not have permission to execute the specified operation",
     error="Content violates usage guidelines."), ContentFilteredError),
    ("xai", 429, flat(code="Some resource has been exhausted", error="Your team has used all available credits or "
     "reached its monthly spending limit."), QuotaExceededError),
    ("xai", 429, flat(code="Some resource has been exhausted", error="Too many requests for team."), RateLimitedError),
    ("xai", 400, flat(code="Client specified an invalid argument", error="This model's maximum prompt length is 131072 "
     "but the request contains 200000 tokens."), ContextLengthError),
)  # fmt: skip
"""Vendor, status, body and error class. The bodies follow the references of the vendors."""

RETRYABLE: Final = (RateLimitedError, OverloadedError, ServerError)


async def met(name: str, status: int, body: object, *, streamed: bool, headers: dict[str, str] | None = None) -> Any:
    transport = MockTransport()
    transport.answer(status, headers or {}, body.encode() if isinstance(body, str) else json.dumps(body).encode())
    provider = READY[name].with_api_key("k").with_transport(transport).build()
    ask = (Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    with pytest.raises(ProviderError) as caught:
        if streamed:
            async with provider.stream(*ask):
                pass
        else:
            await provider.complete(*ask)
    return caught.value


@pytest.mark.parametrize(("name", "status", "body", "kind"), ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS])
async def test_an_error_response_of_a_vendor_raises_its_error_class(
    name: str, status: int, body: object, kind: type[ProviderError]
) -> None:
    for streamed in (False, True):
        found = await met(name, status, body, streamed=streamed)
        assert type(found) is kind, str(found)
        assert (found.status, found.retryable) == (status, kind in RETRYABLE or found.code == "tool_use_failed")
        assert str(found).startswith(f"{name} refused the request with status {status}")


def test_the_error_table_contains_every_vendor() -> None:
    assert {row[0] for row in ROWS} == set(READY) == {*PRESETS, *ELSEWHERE}


async def test_retry_after_is_read_from_headers_in_the_error_body() -> None:
    """OpenRouter forwards headers of its own or the upstream limit."""
    reset = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int((time.time() + 30) * 1000))}
    body = error("Rate limit exceeded: free-models-per-min.", code=429, metadata={"headers": reset})
    found = await met("openrouter", 429, body, streamed=False)
    assert 20 < found.retry_after <= 30
    found = await met("openrouter", 429, body, streamed=True, headers={"retry-after": "2"})
    assert found.retry_after == 2
    later = error("Slow down.", code=429, metadata={"headers": {"Retry-After": "7"}})
    assert (await met("openrouter", 429, later, streamed=False)).retry_after == 7
    for odd in ({"headers": "x"}, {"headers": {"X-RateLimit-Reset": 1, "Retry-After": None}}, "x"):
        found = await met("openrouter", 429, error("Slow down.", code=429, metadata=odd), streamed=False)
        assert found.retry_after is None
