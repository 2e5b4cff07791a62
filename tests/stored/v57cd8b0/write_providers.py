"""Write `providers/*.json`: conversations with what belongs to a provider in them. Runs against commit 57cd8b0 alone.

As `write.py`. Each file has a conversation that pauses after an answer with reasoning and a call, and the conversation
as that provider sent it back once the call was approved. The answers are invented; their texts and ids mean nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import chat_completions as completions
import chat_openai as openai
from chat_claude import ClaudeBuilder
from chat_core import ChatBuilder, Content, Messages, RequireApproval, ScopedCollection, Text, ToolCollection, Turn
from chat_core.testing import MockTransport
from chat_gemini import GeminiBuilder
from chat_responses import ResponsesBuilder

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
BASE = "https://model.example/v1"
SEALED = "c2VhbGVkLXJlYXNvbmluZy1vZi10aGUtbW9kZWw="


def messages_wire(*blocks: dict[str, Any], stop: str) -> dict[str, Any]:
    usage = {"input_tokens": 20, "output_tokens": 9, "cache_read_input_tokens": 3}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1"}
    return {**head, "content": [*blocks], "stop_reason": stop, "usage": usage}


CLAUDE = (
    messages_wire(
        {"type": "thinking", "thinking": "I must pay.", "signature": SEALED},
        {"type": "redacted_thinking", "data": SEALED},
        {"type": "text", "text": "I pay."},
        {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {"cents": 700}},
        stop="tool_use",
    ),
    messages_wire({"type": "text", "text": "Paid."}, stop="end_turn"),
)


def generate_wire(*parts: dict[str, Any]) -> dict[str, Any]:
    candidate = {"content": {"parts": [*parts], "role": "model"}, "index": 0, "finishReason": "STOP"}
    counts = {"promptTokenCount": 20, "candidatesTokenCount": 9, "thoughtsTokenCount": 4, "totalTokenCount": 33}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "m-1", "responseId": "resp-1"}


GEMINI = (
    generate_wire(
        {"text": "I must pay.", "thought": True},
        {"text": "I pay.", "thoughtSignature": SEALED},
        {"functionCall": {"id": "call1", "name": "pay", "args": {"cents": 700}}, "thoughtSignature": SEALED},
        {"executableCode": {"language": "PYTHON", "code": "print(7)"}},
    ),
    generate_wire({"text": "Paid."}),
)


def responses_wire(*items: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 20, "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 4}}
    head = {"id": "resp_1", "object": "response", "status": "completed", "model": "m-1", "created_at": 1764000000}
    return {**head, "output": [*items], "usage": usage}


def said(text: str, id: str) -> dict[str, Any]:  # noqa: A002
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": id, "type": "message", "role": "assistant", "status": "completed", "content": [part]}


SUMMARY = {"type": "summary_text", "text": "I must pay."}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "pay", "arguments": '{"cents": 700}'}
RESPONSES = (
    responses_wire(
        {"id": "rs_1", "type": "reasoning", "summary": [SUMMARY], "encrypted_content": SEALED},
        said("I pay.", "msg_1"),
        {**CALL, "status": "completed"},
        {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "rent"}},
    ),
    responses_wire(said("Paid.", "msg_2")),
)


def completions_wire(finish: str, **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1764000000, "model": "m-1"}
    return {**head, "choices": [choice], "usage": usage}


NATIVE = {"extra_content": {"google": {"thought_signature": SEALED}}}
PAY = {"id": "callPay01", "type": "function", "function": {"name": "pay", "arguments": '{"cents": 700}'}}
THOUGHTS = [{"type": "reasoning.encrypted", "data": SEALED, "id": "rs_1", "format": "openai-responses-v1", "index": 0}]


def completed(**reasoning: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    first = completions_wire("tool_calls", content="I pay.", tool_calls=[{**PAY, **NATIVE}], **reasoning)
    return first, completions_wire("stop", content="Paid.")


THINKING = completed(reasoning_content="I must pay.")
DETAILED = completed(reasoning="I must pay.", reasoning_details=THOUGHTS)


def preset(builder: Any) -> Callable[[MockTransport], Any]:
    return lambda transport: builder().with_model("m").with_api_key("k").with_transport(transport).build()


def of_endpoint(builder: Any) -> Any:
    return builder().with_endpoint("https://us.azure.example").with_model("m").with_api_key("k")


PROVIDERS: dict[str, tuple[Callable[[MockTransport], Any], tuple[dict[str, Any], dict[str, Any]]]] = {
    "claude": (preset(ClaudeBuilder), CLAUDE),
    "gemini": (preset(GeminiBuilder), GEMINI),
    "responses": (
        lambda transport: ResponsesBuilder().with_model("m").with_base_url(BASE).with_transport(transport).build(),
        RESPONSES,
    ),
    "openai": (preset(openai.OpenAIBuilder), RESPONSES),
    "openai_completions": (preset(lambda: openai.OpenAIBuilder().with_completions()), THINKING),
    "azure": (lambda transport: of_endpoint(openai.AzureBuilder).with_transport(transport).build(), RESPONSES),
    "azure_completions": (
        lambda transport: of_endpoint(openai.AzureBuilder).with_completions().with_transport(transport).build(),
        THINKING,
    ),
    "openrouter": (preset(openai.OpenRouterBuilder), RESPONSES),
    "openrouter_completions": (preset(lambda: openai.OpenRouterBuilder().with_completions()), DETAILED),
    "completions": (
        lambda transport: (
            completions.CompletionsBuilder().with_model("m").with_base_url(BASE).with_transport(transport).build()
        ),
        THINKING,
    ),
    # The same vendors, as the package of the wire had them.
    "completions_openai": (preset(completions.OpenAIBuilder), THINKING),
    "completions_azure": (
        lambda transport: of_endpoint(completions.AzureBuilder).with_transport(transport).build(),
        THINKING,
    ),
    "completions_openrouter": (preset(completions.OpenRouterBuilder), DETAILED),
    "cerebras": (preset(completions.CerebrasBuilder), THINKING),
    "deepseek": (preset(completions.DeepSeekBuilder), THINKING),
    "fireworks": (preset(completions.FireworksBuilder), THINKING),
    "groq": (preset(completions.GroqBuilder), completed(reasoning="I must pay.")),
    "huggingface": (preset(completions.HuggingFaceBuilder), THINKING),
    "mistral": (preset(completions.MistralBuilder), THINKING),
    "ollama": (
        lambda transport: completions.OllamaBuilder().with_model("m").with_transport(transport).build(),
        completed(reasoning="I must pay."),
    ),
    "together": (preset(completions.TogetherBuilder), completed(reasoning="I must pay.")),
    "xai": (preset(completions.XAIBuilder), THINKING),
}


async def paused(make: Callable[[MockTransport], Any], answers: tuple[dict[str, Any], ...]) -> dict[str, object]:
    tools = ToolCollection()

    @tools.tool
    async def pay(cents: int, to: str = "landlord") -> str:
        return f"paid {cents} to {to}"

    transport = MockTransport()
    for answer in answers:
        transport.answer(200, {"content-type": "application/json"}, answer)
    scope = ScopedCollection(tools, lambda _, __: RequireApproval())
    chat = ChatBuilder().with_model(make(transport)).with_scoped_tools(scope).build()
    messages = Messages([Content("user", [Turn([Text("Pay the rent.")], created_at=NOON)])])
    await chat.complete(messages)
    document = messages.to_json()
    (tool,) = messages.pending()
    tool.approve(by="ana", at=NOON)
    await chat.complete(messages)
    body = transport.last.json()
    (key,) = {"messages", "input", "contents"} & set(body)
    return {"document": json.loads(document), "call": tool.id, "key": key, "sent": body[key]}


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, (make, answers) in PROVIDERS.items():
        found = json.dumps(anyio.run(paused, make, answers), separators=(",", ":"))
        (folder / f"{name}.json").write_text(found + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() / "providers")
