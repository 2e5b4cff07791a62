"""Static types: each line marked as wrong must be an error for the type checkers.

The builder's own states are in `test_builder.py`, those of the others in `test_azure.py` and `test_openrouter.py`. What
is refused by the types is refused at run time too.
"""

from __future__ import annotations

from typing import Never, assert_type

import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    EmbeddingsChat,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    Reject,
    RequireApproval,
    StreamingChat,
)
from chat_core.errors import UsageError
from chat_core.testing import MockTransport
from chat_openai import (
    AzureBuilder,
    McpApprovals,
    McpRequest,
    OpenAIBuilder,
    OpenRouterBuilder,
    UserLocation,
    WebSearch,
)

URL = "https://name.openai.azure.com"


def asks(call: FunctionCall, request: McpRequest) -> Execute | RequireApproval:
    return Execute() if request.name == "roll" else RequireApproval()


def refuses(call: FunctionCall, request: McpRequest) -> Execute | Reject:
    return Execute() if request.name == "roll" else Reject("only dice are rolled")


def test_build_needs_a_model() -> None:
    with pytest.raises(AttributeError, match="needs a model"):
        OpenAIBuilder().build()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose
    with pytest.raises(AttributeError, match="needs a model"):
        OpenAIBuilder().with_completions().build()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose
    with pytest.raises(AttributeError, match="needs an endpoint"):
        AzureBuilder().with_model("m")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose
    with pytest.raises(AttributeError, match="needs a model"):
        OpenRouterBuilder().build()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose


def test_settings_of_one_api_are_not_available_on_the_other() -> None:
    completions = OpenAIBuilder().with_completions().with_model("m")
    with pytest.raises(AttributeError, match="native tools need the Responses API"):
        completions.with_native_tools(WebSearch())  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose
    with pytest.raises(AttributeError, match="continuing from a previous response"):
        completions.with_previous_response()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose
    with pytest.raises(AttributeError, match="stored responses need the Responses API"):
        completions.with_store()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose
    responses = OpenAIBuilder().with_model("m").with_native_tools(WebSearch())
    with pytest.raises(AttributeError, match=r"with_completions\(\) is unavailable"):
        responses.with_completions()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose
    with pytest.raises(AttributeError, match="with_gateway"):
        responses.with_base_url("http://localhost:8000/v1")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose
    elsewhere = OpenAIBuilder().with_model("m").with_base_url("http://localhost:8000/v1")
    with pytest.raises(AttributeError, match="with_native_tools"):
        elsewhere.with_native_tools(WebSearch())  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose
    azure = AzureBuilder().with_endpoint(URL).with_model("m").with_completions()
    with pytest.raises(AttributeError, match="native tools need the Responses API"):
        azure.with_native_tools(WebSearch())  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose
    openrouter = OpenRouterBuilder().with_model("m")
    with pytest.raises(AttributeError, match="cannot continue from one"):
        openrouter.with_previous_response()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose
    with pytest.raises(AttributeError, match="with_plugins"):
        openrouter.with_native_tools(WebSearch())  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose


def test_chat_and_embeddings_providers_have_different_types() -> None:
    builder = OpenAIBuilder().with_transport(MockTransport())
    chats = ChatBuilder().with_model(builder.with_model("m").build())
    assert_type(chats.build(), StreamingChat[ChatResponse, Never])
    with pytest.raises(UsageError, match="can embed"):
        chats.with_embeddings()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue] - wrong on purpose
    embeds = ChatBuilder().with_model(builder.with_embeddings(model="m").build())
    assert_type(embeds.with_embeddings().build(), EmbeddingsChat)
    with pytest.raises(UsageError, match="build"):
        embeds.build()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose


@pytest.mark.anyio
async def test_a_chat_with_approvals_may_return_paused_instead_of_a_response() -> None:
    transport = MockTransport()
    request = {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": "dice",
        "name": "throw",
        "arguments": "{}",
    }
    transport.answer(body={"id": "resp_1", "status": "completed", "output": [request]})
    model = OpenAIBuilder().with_model("m").with_transport(transport).build()
    never = ChatBuilder().with_model(model).with_scoped_tools(McpApprovals(refuses)).build()
    assert_type(never, StreamingChat[ChatResponse, Never])
    waits = ChatBuilder().with_model(model).with_scoped_tools(McpApprovals(asks)).build()
    assert_type(waits, StreamingChat[ChatResponse, Paused])
    answer = await waits.complete(Messages.from_user("Throw."))
    with pytest.raises(AttributeError, match="text"):
        answer.text  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018 - wrong on purpose
    assert isinstance(answer, Paused)


def test_settings_of_native_tools_are_typed() -> None:
    assert UserLocation(country="NL", city="Utrecht").city == "Utrecht"
    with pytest.raises(TypeError):
        WebSearch("low")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - wrong on purpose
    WebSearch(search_context_size="LOW")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
