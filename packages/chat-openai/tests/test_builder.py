"""Builders for OpenAI: created providers, refused settings, and the methods of each state."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, Never, assert_type

import pytest
from chat_completions import CompletionsBuilder, ReadyCompletionsBuilder
from chat_core import ChatBuilder, ChatOptions, ChatProvider, EmbeddingsProvider, Messages, NamedTool, StreamingChat
from chat_core.errors import UnsupportedOptionError, UsageError
from chat_core.provider import NO_TOOLS, OutputSchema
from chat_core.response import ChatResponse
from chat_core.testing import MockTransport
from chat_core.wire.shapes import Json
from chat_openai import (
    AzureBuilder,
    CodeInterpreter,
    OpenAIBuilder,
    OpenAICompletionsBuilder,
    OpenAICompletionsProvider,
    OpenAIEmbeddings,
    OpenAIEmbeddingsBuilder,
    OpenAIProvider,
    OpenAIResponsesBuilder,
    OpenRouterBuilder,
    ReadyOpenAIBuilder,
    ReadyOpenAICompletionsBuilder,
    ReadyOpenAIResponsesBuilder,
    RemoteMcp,
    WebSearch,
    openai,
)
from chat_responses import ReadyResponsesBuilder, ResponsesBuilder, ResponsesOptions

pytestmark = pytest.mark.anyio

RESPONSE: Json = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "gpt-5-mini",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Utrecht", "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4},
}
COMPLETION: Json = {
    "id": "chatcmpl-1",
    "model": "gpt-5-mini",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Utrecht"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}
VECTORS: Json = {
    "model": "text-embedding-3-small",
    "data": [{"index": 0, "embedding": [0.5, 1.0]}],
    "usage": {"prompt_tokens": 1, "total_tokens": 1},
}


@pytest.fixture(autouse=True)
def a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")


def answering(body: Json) -> MockTransport:
    transport = MockTransport()
    transport.answer(200, {"content-type": "application/json"}, body)
    return transport


async def ask(provider: ChatProvider, options: ChatOptions | None = None) -> str:
    turn = await provider.complete(Messages.from_user("Where?"), NO_TOOLS, options or ChatOptions(), None)
    return turn.text


async def asked(builder: ReadyOpenAIBuilder | ReadyOpenAIResponsesBuilder, options: ChatOptions | None = None) -> Any:
    """Return the request body that the builder's provider sends."""
    transport = answering(RESPONSE)
    assert await ask(builder.with_transport(transport).build(), options) == "Utrecht"
    return transport.last.json()


# --- The two wires -------------------------------------------------------------------------------------


async def test_the_default_is_the_responses_api_with_the_key_from_the_environment() -> None:
    transport = answering(RESPONSE)
    provider = OpenAIBuilder().with_model("gpt-5-mini").with_transport(transport).build()
    assert await ask(provider) == "Utrecht"
    assert transport.last.url == "https://api.openai.com/v1/responses"
    assert transport.last.headers["authorization"] == "Bearer sk-environment"
    assert transport.last.json() == {"model": "gpt-5-mini", "input": [{"role": "user", "content": "Where?"}]}
    assert provider.metadata.name == "openai-responses"
    assert provider.metadata.model == "gpt-5-mini"


@pytest.mark.parametrize("first", ["wire", "model"])
async def test_with_completions_may_precede_or_follow_with_model(first: str) -> None:
    transport = answering(COMPLETION)
    builder = OpenAIBuilder().with_transport(transport).with_api_key("sk-mine")
    ready = (
        builder.with_completions().with_model("gpt-5-mini")
        if first == "wire"
        else builder.with_model("gpt-5-mini").with_completions()
    )
    provider = ready.build()
    assert await ask(provider) == "Utrecht"
    assert transport.last.url == "https://api.openai.com/v1/chat/completions"
    assert transport.last.headers["authorization"] == "Bearer sk-mine"
    assert transport.last.json()["messages"] == [{"role": "user", "content": "Where?"}]
    assert provider.metadata.name == "openai"


async def test_the_shorthand_equals_the_builder() -> None:
    async with openai("gpt-5-mini") as short, OpenAIBuilder().with_model("gpt-5-mini").build() as long:
        assert repr(short) == repr(long)
        assert short.metadata == long.metadata
    async with openai("gpt-5-mini", api_key="sk-mine") as given:
        assert "sk-" not in repr(given)


async def test_both_apis_can_stream() -> None:
    for wire in ("responses", "completions"):
        transport = MockTransport()
        ready = OpenAIBuilder().with_model("gpt-5-mini").with_transport(transport)
        if wire == "responses":
            events: list[Json] = [
                {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}},
                {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Utrecht"},
                {"type": "response.completed", "response": RESPONSE},
            ]
            transport.events(*[json.dumps(event) for event in events])
            chat = ChatBuilder().with_model(ready.build()).build()
        else:
            choice: Json = {"index": 0, "delta": {"content": "Utrecht"}, "finish_reason": None}
            ended: Json = {"index": 0, "delta": {}, "finish_reason": "stop"}
            transport.events(*[json.dumps({"id": "chatcmpl-1", "choices": [one]}) for one in (choice, ended)], "[DONE]")
            chat = ChatBuilder().with_model(ready.with_completions().build()).build()
        async with chat.stream(Messages.from_user("Where?")) as stream:
            assert "".join([text async for text in stream.text()]) == "Utrecht"


# --- Settings ------------------------------------------------------------------------------------------


async def test_native_tools_of_the_builder_and_of_a_run_are_combined() -> None:
    builder = OpenAIBuilder().with_native_tools(WebSearch(with_sources=True)).with_model("gpt-5-mini")
    builder = builder.with_native_tools(CodeInterpreter(container="cntr_1"))
    search, code = {"type": "web_search"}, {"type": "code_interpreter", "container": "cntr_1"}
    body = await asked(builder)
    assert body["tools"] == [search, code]
    assert body["include"] == ["web_search_call.action.sources"]
    further = ResponsesOptions(tools=({"type": "tool_search"}, search), include=("x",), verbosity="low")
    body = await asked(builder, ChatOptions(extras=(further,)))
    assert body["tools"] == [search, code, {"type": "tool_search"}]
    assert body["include"] == ["web_search_call.action.sources", "x"]
    assert body["text"] == {"verbosity": "low"}


async def test_a_tool_choice_can_name_a_native_tool() -> None:
    dice = RemoteMcp(server_label="dice", server_url="https://dice.example.org/mcp")
    builder = OpenAIBuilder().with_model("gpt-5-mini").with_native_tools(WebSearch(), dice)
    body = await asked(builder, ChatOptions(tool_choice=NamedTool("web_search")))
    assert body["tool_choice"] == {"type": "web_search"}
    body = await asked(builder, ChatOptions(tool_choice=NamedTool("dice")))
    assert body["tool_choice"] == {"type": "mcp", "server_label": "dice"}


async def test_store_and_reasoning_summary_are_sent_to_the_responses_api() -> None:
    ready = OpenAIBuilder().with_model("gpt-5-mini")
    assert "store" not in await asked(ready)
    kept = await asked(ready.with_store())
    assert kept["store"] is True
    body = await asked(OpenAIBuilder().with_store(store=False).with_reasoning_summary("detailed").with_model("gpt-5"))
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["reasoning"] == {"summary": "detailed"}


async def test_with_encrypted_reasoning_requests_encrypted_reasoning() -> None:
    body = await asked(OpenAIBuilder().with_encrypted_reasoning().with_model("gpt-5-mini"))
    assert body["include"] == ["reasoning.encrypted_content"]
    assert "store" not in body


async def test_options_of_a_run_override_those_of_the_builder() -> None:
    ready = OpenAIBuilder().with_model("gpt-5-mini").with_reasoning_summary()
    body = await asked(ready, ChatOptions(extras=(ResponsesOptions(reasoning_summary="concise"),)))
    assert body["reasoning"] == {"summary": "concise"}


async def test_with_previous_response_continues_from_the_stored_response() -> None:
    transport = answering(RESPONSE)
    transport.answer(200, {"content-type": "application/json"}, {**RESPONSE, "id": "resp_2"})
    model = OpenAIBuilder().with_model("gpt-5-mini").with_previous_response().with_transport(transport).build()
    chat = ChatBuilder().with_model(model).build()
    messages = Messages.from_user("Where?")
    await chat.complete(messages)
    messages.user("And when?")
    await chat.complete(messages)
    body = transport.last.json()
    assert body["previous_response_id"] == "resp_1"
    assert body["input"] == [{"role": "user", "content": "And when?"}]


async def test_organization_project_and_custom_headers_are_sent() -> None:
    transport = answering(RESPONSE)
    builder = OpenAIBuilder().with_organization("org-1").with_project("proj_1").with_headers({"X-Trace": "7"})
    await ask(builder.with_model("gpt-5-mini").with_description("the fast one").with_transport(transport).build())
    headers = transport.last.headers
    assert (headers["openai-organization"], headers["openai-project"], headers["x-trace"]) == ("org-1", "proj_1", "7")


async def test_a_gateway_receives_the_key_from_the_environment() -> None:
    transport = answering(RESPONSE)
    builder = OpenAIBuilder().with_gateway("https://gateway.example.org/openai/v1/").with_native_tools(WebSearch())
    await ask(builder.with_model("gpt-5-mini").with_transport(transport).build())
    assert transport.last.url == "https://gateway.example.org/openai/v1/responses"
    assert transport.last.headers["authorization"] == "Bearer sk-environment"


async def test_another_server_does_not_receive_the_key_from_the_environment() -> None:
    transport = answering(RESPONSE)
    builder = OpenAIBuilder().with_headers({"X-Trace": "7"}).with_transport(transport)
    elsewhere = builder.with_model("llama").with_base_url("http://localhost:8000/v1")
    assert_type(elsewhere, ReadyResponsesBuilder)
    assert_type(builder.with_base_url("http://localhost:8000/v1"), ResponsesBuilder)
    turn = await elsewhere.build().complete(Messages.from_user("Where?"), NO_TOOLS, ChatOptions(), None)
    assert turn.text == "Utrecht"
    assert transport.last.url == "http://localhost:8000/v1/responses"
    assert "authorization" not in transport.last.headers
    assert transport.last.headers["x-trace"] == "7"


async def test_another_server_does_not_receive_the_organization_header() -> None:
    builder = (
        OpenAIBuilder().with_organization("org-1").with_project("proj_1").with_description("the one in the cellar")
    )
    for begun, body in ((builder, RESPONSE), (builder.with_completions(), COMPLETION)):
        transport = answering(body)
        other = begun.with_transport(transport).with_model("llama").with_base_url("http://localhost:8000/v1").build()
        await other.complete(Messages.from_user("Where?"), NO_TOOLS, ChatOptions(), None)
        assert not [name for name in transport.last.headers if name.startswith("openai-")]
        assert other.metadata.description == "the one in the cellar"


async def test_with_api_key_replaces_an_earlier_authorization_header() -> None:
    transport = answering(RESPONSE)
    builder = OpenAIBuilder().with_headers({"Authorization": "Bearer sk-old"}).with_api_key("sk-new")
    await ask(builder.with_model("gpt-5-mini").with_transport(transport).build())
    assert transport.last.headers["authorization"] == "Bearer sk-new"


def test_the_two_apis_of_a_vendor_have_different_provider_names() -> None:
    url, transport = "https://name.openai.azure.com", MockTransport()
    ready = (
        OpenAIBuilder().with_transport(transport).with_model("m"),
        OpenRouterBuilder().with_transport(transport).with_model("m"),
        AzureBuilder().with_transport(transport).with_endpoint(url).with_model("m"),
    )
    names = [(each.build().metadata.name, each.with_completions().build().metadata.name) for each in ready]
    expected = ("openai", "openrouter", "azure")
    assert names == [(f"{name}-responses", name) for name in expected]


async def test_completions_settings_may_precede_or_follow_with_model() -> None:
    for builder in (
        OpenAIBuilder().with_completions().with_strict(output=False).with_model("gpt-5-mini"),
        OpenAIBuilder().with_model("gpt-5-mini").with_completions().with_strict(output=False),
    ):
        transport = answering(COMPLETION)
        output = OutputSchema("city", {"type": "object", "properties": {"name": {"type": "string"}}})
        provider = builder.with_transport(transport).build()
        await provider.complete(Messages.from_user("Where?"), NO_TOOLS, ChatOptions(), output)
        assert transport.last.json()["response_format"]["json_schema"]["strict"] is False


async def test_with_reasoning_sets_the_style_of_the_reasoning_field() -> None:
    transport = answering(COMPLETION)
    builder = OpenAIBuilder().with_completions().with_model("gpt-5-mini").with_reasoning(style="object")
    provider = builder.with_transport(transport).build()
    await provider.complete(Messages.from_user("Where?"), NO_TOOLS, ChatOptions(reasoning=100), None)
    assert transport.last.json()["reasoning"] == {"max_tokens": 100}


def test_credentials_in_an_invalid_url_are_not_shown_in_the_error() -> None:
    with pytest.raises(UsageError, match=r"needs a URL like .*, not 'localhost'") as caught:
        OpenAIBuilder().with_gateway("me:hush@localhost")
    assert "hush" not in str(caught.value)


def test_an_invalid_key_is_not_shown_in_the_error() -> None:
    with pytest.raises(UsageError, match="not a value of type bytes") as caught:
        OpenAIBuilder().with_api_key(b"sk-mine")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
    assert "sk-mine" not in str(caught.value)


async def test_another_completions_server_receives_an_explicit_key() -> None:
    transport = answering(COMPLETION)
    builder = OpenAIBuilder().with_completions().with_api_key("sk-theirs").with_transport(transport)
    elsewhere = builder.with_base_url("http://localhost:8000/v1")
    assert_type(elsewhere, CompletionsBuilder)
    assert_type(builder.with_model("llama").with_base_url("http://localhost:8000/v1"), ReadyCompletionsBuilder)
    provider = elsewhere.with_model("llama").build()
    await provider.complete(Messages.from_user("Where?"), NO_TOOLS, ChatOptions(), None)
    assert transport.last.url == "http://localhost:8000/v1/chat/completions"
    assert transport.last.headers["authorization"] == "Bearer sk-theirs"


# --- Embeddings ----------------------------------------------------------------------------------------


async def test_with_embeddings_sets_model_dimensions_and_batch_size() -> None:
    transport = answering(VECTORS)
    builder = OpenAIBuilder().with_transport(transport)
    embedder = builder.with_embeddings(model="text-embedding-3-small", dimensions=2, max_batch=16).build()
    assert isinstance(embedder, EmbeddingsProvider)
    chat = ChatBuilder().with_model(embedder).with_embeddings().build()
    answer = await chat.embed(["a"])
    assert answer.vectors == ((0.5, 1.0),)
    assert answer.usage.input_tokens == 1
    assert transport.last.url == "https://api.openai.com/v1/embeddings"
    assert transport.last.json() == {"model": "text-embedding-3-small", "input": ["a"], "dimensions": 2}
    assert embedder.metadata.max_embedding_batch == 16
    assert embedder.metadata.dimensions == 2


async def test_chat_providers_cannot_embed_and_embeddings_providers_cannot_chat() -> None:
    chats = OpenAIBuilder().with_model("gpt-5-mini").with_completions().with_transport(MockTransport()).build()
    assert not isinstance(chats, EmbeddingsProvider)
    embeds = OpenAIBuilder().with_transport(MockTransport()).with_embeddings(model="text-embedding-3-small").build()
    ready: Any = ChatBuilder().with_model(chats)
    with pytest.raises(UsageError, match="with_embeddings"):
        ready.with_embeddings()
    vectors: Any = ChatBuilder().with_model(embeds)
    with pytest.raises(UsageError, match="build"):
        vectors.build()


# --- States --------------------------------------------------------------------------------------------


def test_each_builder_method_returns_the_type_of_the_next_state() -> None:
    builder = OpenAIBuilder()
    ready = builder.with_model("gpt-5-mini")
    assert_type(ready, ReadyOpenAIBuilder)
    assert_type(builder.with_completions(), OpenAICompletionsBuilder)
    assert_type(ready.with_completions(), ReadyOpenAICompletionsBuilder)
    assert_type(builder.with_completions().with_model("gpt-5-mini"), ReadyOpenAICompletionsBuilder)
    assert_type(builder.with_native_tools(WebSearch()), OpenAIResponsesBuilder)
    assert_type(builder.with_store().with_model("gpt-5-mini"), ReadyOpenAIResponsesBuilder)
    assert_type(ready.with_previous_response(), ReadyOpenAIResponsesBuilder)
    assert_type(ready.with_store().with_native_tools(WebSearch()), ReadyOpenAIResponsesBuilder)
    assert_type(builder.with_api_key("sk-mine").with_organization("org-1"), OpenAIBuilder)
    embeds = builder.with_embeddings(model="text-embedding-3-small")
    assert_type(embeds, OpenAIEmbeddingsBuilder)
    assert_type(embeds.with_transport(MockTransport()).build(), OpenAIEmbeddings)
    model = ready.with_transport(MockTransport()).build()
    assert_type(model, OpenAIProvider)
    completions = ready.with_completions().with_transport(MockTransport()).build()
    assert_type(completions, OpenAICompletionsProvider)
    assert_type(ChatBuilder().with_model(model).build(), StreamingChat[ChatResponse, Never])


def test_builders_are_immutable() -> None:
    builder = OpenAIBuilder().with_model("gpt-5-mini")
    builder.with_api_key("sk-mine")
    builder.with_native_tools(WebSearch())
    assert repr(builder) == "ReadyOpenAIBuilder(OpenAI, model='gpt-5-mini')"
    assert repr(builder.with_api_key("sk-mine")) == repr(builder)


MISSING: dict[str, tuple[Callable[[], object], str, str]] = {
    "no model": (OpenAIBuilder, "build", "needs a model"),
    "no model on the other wire": (lambda: OpenAIBuilder().with_completions(), "build", "needs a model"),
    "a second model": (lambda: OpenAIBuilder().with_model("a"), "with_model", "the model is already set to 'a'"),
    "native tools on the other wire": (
        lambda: OpenAIBuilder().with_completions(),
        "with_native_tools",
        "remove with_completions",
    ),
    "storage on the other wire": (
        lambda: OpenAIBuilder().with_completions().with_model("a"),
        "with_store",
        "remove with_completions",
    ),
    "previous responses on the other wire": (
        lambda: OpenAIBuilder().with_model("a").with_completions(),
        "with_previous_response",
        "continuing from a previous response",
    ),
    "the other wire with native tools": (
        lambda: OpenAIBuilder().with_native_tools(WebSearch()),
        "with_completions",
        r"with_completions\(\) is unavailable",
    ),
    "another server with native tools": (
        lambda: OpenAIBuilder().with_model("a").with_native_tools(WebSearch()),
        "with_base_url",
        "with_gateway",
    ),
    "a model for vectors that chats": (
        lambda: OpenAIBuilder().with_embeddings(model="a"),
        "with_model",
        "the model is already set to 'a'",
    ),
    "nonsense": (OpenAIBuilder, "with_nonsense", "has no attribute 'with_nonsense'"),
    "what is private": (OpenAIBuilder, "_nonsense", "has no attribute '_nonsense'"),
}


@pytest.mark.parametrize("case", MISSING)
def test_a_method_missing_in_the_builder_state_is_explained(case: str) -> None:
    make, name, words = MISSING[case]
    with pytest.raises(AttributeError, match=words):
        getattr(make(), name)


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "a model without a name": (lambda: OpenAIBuilder().with_model(""), r"with_model\(\) needs the name of a model"),
    "an empty key": (lambda: OpenAIBuilder().with_api_key(" "), "check that the environment variable is set"),
    "a gateway that is no URL": (lambda: OpenAIBuilder().with_gateway("localhost"), "needs a URL like"),
    "a server that is no URL": (lambda: OpenAIBuilder().with_base_url("localhost"), "needs a URL like"),
    "a transport that is none": (
        lambda: OpenAIBuilder().with_transport("httpx"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        "needs a Transport",
    ),
    "a tool that is none": (
        lambda: OpenAIBuilder().with_native_tools("web_search"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        r"such as WebSearch\(…\)",
    ),
    "two servers of one label": (
        lambda: (
            OpenAIBuilder()
            .with_native_tools(RemoteMcp(server_label="a", server_url="https://a.example.org"))
            .with_native_tools(RemoteMcp(server_label="a", server_url="https://b.example.org"))
        ),
        "needs a different server_label",
    ),
    "a chain without storage": (
        lambda: OpenAIBuilder().with_store(store=False).with_previous_response(),
        "needs stored responses",
    ),
    "storage off under a chain": (
        lambda: OpenAIBuilder().with_previous_response().with_store(store=False),
        "conflicts with with_previous_response",
    ),
    "vectors of no length": (lambda: OpenAIBuilder().with_embeddings(model="a", dimensions=0), "dimensions must be"),
    "batches of nothing": (lambda: OpenAIBuilder().with_embeddings(model="a", max_batch=0), "max_batch must be"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_an_invalid_setting_raises_an_error_that_explains_it(case: str) -> None:
    make, words = MISTAKES[case]
    with pytest.raises(UsageError, match=words):
        make()


def test_a_missing_key_is_an_error_unless_a_transport_or_header_replaces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        openai("gpt-5-mini")
    assert OpenAIBuilder().with_model("gpt-5-mini").with_transport(MockTransport()).build()
    assert OpenAIBuilder().with_model("gpt-5-mini").with_headers({"Authorization": "Bearer x"}).build()


def test_a_missing_default_transport_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chat_transport_httpx", None)
    with pytest.raises(UsageError, match="install chat-transport-httpx"):
        openai("gpt-5-mini")


async def test_options_of_the_other_api_are_rejected() -> None:
    provider = OpenAIBuilder().with_completions().with_model("gpt-5-mini").with_transport(MockTransport()).build()
    with pytest.raises(UnsupportedOptionError, match="ResponsesOptions"):
        await ask(provider, ChatOptions(extras=(ResponsesOptions(verbosity="low"),)))


@pytest.mark.anyio
@pytest.mark.parametrize("vendor", ["openai", "openrouter", "azure"])
async def test_completions_builders_join_messages_and_map_finish_reasons(vendor: str) -> None:
    builder: Any = {
        "openai": OpenAIBuilder().with_completions().with_model("m").with_api_key("k"),
        "openrouter": OpenRouterBuilder().with_completions().with_model("m").with_api_key("k"),
        "azure": AzureBuilder().with_endpoint("https://e.example").with_api_key("k").with_model("m").with_completions(),
    }[vendor]
    transport = MockTransport()
    choice = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "max_time"}
    transport.answer(body={"id": "c", "choices": [choice]})
    ready = builder.with_joined_messages().with_finish_reasons({"max_time": "length"}).with_transport(transport)
    messages = Messages.from_user("One.")
    messages.user("Two.")

    turn = await ready.build().complete(messages, NO_TOOLS, ChatOptions(), None)

    assert [message["content"] for message in transport.last.json()["messages"]] == ["One.\n\nTwo."]
    assert turn.finish_reason == "length"
