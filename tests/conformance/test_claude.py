"""The Claude provider passes every scenario whose capability it claims."""

from __future__ import annotations

from chat_claude import ClaudeBuilder
from chat_core import CompletionProvider
from chat_core.transport import Transport
from chat_testing import Capabilities, ProviderConformance

from .claude_tapes import TAPES


class TestClaude(ProviderConformance):
    capabilities = Capabilities(
        stream=True,
        tools=True,
        parallel_tools=True,
        call_ids=True,
        failure_marks=True,
        argument_text=True,
        structured=True,
        reasoning=True,
        reasoning_replay=True,
        files=True,
        usage=True,
        waits=True,
        request_ids=True,
        stream_errors=True,
    )
    tapes = TAPES

    def make_provider(self, transport: Transport, /) -> CompletionProvider:
        builder = ClaudeBuilder().with_model("claude-sonnet-4-5").with_api_key("sk-conformance")
        return builder.with_transport(transport).build()


class TestClaudeBehindAGateway(TestClaude):
    backends = ("asyncio",)

    def make_provider(self, transport: Transport, /) -> CompletionProvider:
        builder = ClaudeBuilder().with_base_url("https://gateway.example").with_model("claude-sonnet-4-5")
        return builder.with_bearer_token("token-conformance").with_transport(transport).build()
