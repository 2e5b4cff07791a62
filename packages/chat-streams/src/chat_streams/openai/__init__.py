"""OpenAI-compatible servers for a chat: Responses with stored conversations, and stateless Chat Completions."""

from chat_streams.openai.completions import CompletionsEncoder, CompletionsRequest, read_completions_request
from chat_streams.openai.errors import error_body, error_status
from chat_streams.openai.responses import HEADERS, ResponsesEncoder
from chat_streams.openai.responses_request import ResponsesRequest, apply_responses_request, read_responses_request

__all__ = [
    "HEADERS",
    "CompletionsEncoder",
    "CompletionsRequest",
    "ResponsesEncoder",
    "ResponsesRequest",
    "apply_responses_request",
    "error_body",
    "error_status",
    "read_completions_request",
    "read_responses_request",
]
