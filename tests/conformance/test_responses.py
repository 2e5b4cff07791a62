"""The Responses provider passes every scenario whose capability it claims."""

from __future__ import annotations

from chat_core import CompletionProvider
from chat_core.transport import Transport
from chat_responses import ResponsesBuilder
from chat_testing import Capabilities, ProviderConformance

from .responses_tapes import tapes

CLAIMS = Capabilities(
    stream=True,
    tools=True,
    parallel_tools=True,
    call_ids=True,
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


class TestResponses(ProviderConformance):
    capabilities = CLAIMS
    tapes = tapes()

    def make_provider(self, transport: Transport, /) -> CompletionProvider:
        builder = ResponsesBuilder().with_model("a-model").with_api_key("sk-conformance")
        return builder.with_transport(transport).build()


class TestResponsesOfAnotherServer(TestResponses):
    backends = ("asyncio",)

    def make_provider(self, transport: Transport, /) -> CompletionProvider:
        builder = ResponsesBuilder().with_base_url("http://localhost:8000/v1").with_model("a-model")
        return builder.with_api_key("sk-conformance").with_transport(transport).build()
