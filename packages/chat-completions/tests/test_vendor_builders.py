from __future__ import annotations

import json
from typing import Any, Final, cast

import pytest
from chat_completions import (
    CEREBRAS,
    DEEPSEEK,
    FIREWORKS,
    GROQ,
    HUGGINGFACE,
    LITELLM,
    LLAMACPP,
    MISTRAL,
    OLLAMA,
    PERPLEXITY,
    PRESETS,
    TOGETHER,
    VLLM,
    XAI,
    CompletionsChatProvider,
    CompletionsProvider,
    Dialect,
    FixedEmbeddings,
    HuggingFaceBuilder,
    NoEmbeddings,
    OllamaBuilder,
    Preset,
    SizedEmbeddings,
    vendor_builder,
)
from chat_completions.presets import AnyPreset
from chat_core import ChatBuilder
from chat_core.errors import NetworkError, UnsupportedOptionError, UnsupportedPartError, UsageError
from chat_core.messages import File, FunctionCall, Messages, Reasoning, Text, Tool, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, EmbeddingsProvider, OutputSchema, ToolDeclaration, ToolDeclarations
from chat_core.testing import MockTransport
from chat_testing import Exchange, LoopbackServer

pytestmark = pytest.mark.anyio

OWN_BUILDERS: Final[dict[str, Any]] = {"huggingface": HuggingFaceBuilder, "ollama": OllamaBuilder}
VENDORS: Final = tuple(PRESETS.values())
HOSTED: Final = [preset for preset in VENDORS if preset is not OLLAMA]
ANSWER: Final = {
    "id": "c", "model": "m", "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}  # fmt: skip
PIECE: Final = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
SCHEMA: Final = OutputSchema("city", {"type": "object", "properties": {"name": {"type": "string"}}})
TOOLS: Final = ToolDeclarations([ToolDeclaration("f", "", {"type": "object", "properties": {}})])


def named(preset: AnyPreset) -> str:
    return preset.name


def start(preset: AnyPreset) -> Any:
    """Return the first builder for a preset's vendor."""
    return OWN_BUILDERS[preset.name]() if preset.own_builder else vendor_builder(preset)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for preset in PRESETS.values():
        for name in (*preset.key_variables, preset.base_url_variable):
            if name is not None:
                monkeypatch.delenv(name, raising=False)


@pytest.fixture
def transport() -> MockTransport:
    mock = MockTransport()
    mock.answer(body=ANSWER)
    return mock


async def asked(
    builder: Any,
    transport: MockTransport,
    options: ChatOptions | None = None,
    *,
    messages: Messages | None = None,
    tools: ToolDeclarations = NO_TOOLS,
    output: OutputSchema | None = None,
) -> Any:
    provider = builder.with_transport(transport).build()
    await provider.complete(messages or Messages.from_user("Hi"), tools, options or ChatOptions(), output)
    return transport.last.json()


# --- Methods of every builder --------------------------------------------------------------------------


@pytest.mark.parametrize("preset", VENDORS, ids=named)
async def test_a_request_is_sent_to_the_url_of_the_vendor_with_its_key(
    preset: AnyPreset, transport: MockTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in preset.key_variables:
        monkeypatch.setenv(name, " secret\n")
    sent = await asked(start(preset).with_model("m"), transport, ChatOptions(max_tokens=5))
    assert transport.last.url == f"{preset.base_url}/chat/completions"
    assert transport.last.headers.get("authorization") == ("Bearer secret" if preset.key_variables else None)
    assert (sent["model"], sent[preset.dialect.max_tokens_field]) == ("m", 5)
    provider = start(preset).with_model("m").with_transport(transport).build()
    assert (provider.metadata.name, provider.metadata.model) == (preset.name, "m")


@pytest.mark.parametrize("preset", VENDORS, ids=named)
async def test_every_vendor_completes_and_streams_over_http(preset: AnyPreset) -> None:
    def serve(exchange: Exchange) -> None:
        if json.loads(exchange.body).get("stream"):
            exchange.events(f"data: {json.dumps(PIECE)}\n\n".encode(), b"data: [DONE]\n\n")
        else:
            exchange.answer(200, {"content-type": "application/json"}, json.dumps(ANSWER).encode())

    with LoopbackServer(serve) as server:
        base = f"http://{server.host}"
        builder = start(preset).with_model("m").with_api_key("k")
        builder = builder.with_host(base) if preset is OLLAMA else builder.with_base_url(f"{base}/v1")
        async with builder.build() as provider:
            whole = await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
            async with provider.stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None) as stream:
                async for _ in stream:
                    pass
                streamed = stream.close()
    assert (whole.text, streamed.text) == ("Hi", "Hi")
    assert [exchange.path for exchange in server.exchanges] == ["/v1/chat/completions"] * 2
    assert {exchange.headers["authorization"] for exchange in server.exchanges} == {"Bearer k"}


@pytest.mark.parametrize("preset", VENDORS, ids=named)
def test_a_missing_key_is_reported_with_its_variable(preset: AnyPreset) -> None:
    builder = start(preset).with_model("m")
    if preset.key_needed:
        with pytest.raises(UsageError, match=preset.key_variables[0]):
            builder.build()
    else:
        assert builder.build().metadata.model == "m"


@pytest.mark.parametrize("preset", HOSTED, ids=named)
async def test_the_key_from_the_environment_is_sent_only_to_its_vendor(
    preset: AnyPreset, transport: MockTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in preset.key_variables:
        monkeypatch.setenv(name, "secret")
    await asked(start(preset).with_model("m").with_base_url("https://elsewhere/v1"), transport)
    own = preset.own_server and bool(preset.key_variables)
    assert ("authorization" in transport.last.headers) is own


@pytest.mark.parametrize("preset", VENDORS, ids=named)
async def test_with_api_key_takes_precedence_over_the_environment(
    preset: AnyPreset, transport: MockTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in preset.key_variables:
        monkeypatch.setenv(name, "environment")
    builder = start(preset).with_api_key("mine").with_model("m").with_headers({"X-Team": "a"}).with_description("quick")
    await asked(builder, transport)
    assert transport.last.headers["authorization"] == "Bearer mine"
    assert transport.last.headers["x-team"] == "a"
    assert builder.with_transport(transport).build().metadata.description == "quick"
    assert "mine" not in repr(builder)
    assert repr(builder).startswith(type(builder).__name__)


@pytest.mark.parametrize("preset", VENDORS, ids=named)
def test_a_method_missing_in_the_builder_state_is_explained(preset: AnyPreset) -> None:
    with pytest.raises(AttributeError, match=r"build\(\) needs a model"):
        start(preset).build()
    with pytest.raises(AttributeError, match="the model is already set to 'm'"):
        start(preset).with_model("m").with_model("n")
    with pytest.raises(AttributeError, match="no attribute 'bulid'"):
        start(preset).bulid()
    with pytest.raises(AttributeError, match="no attribute '_x'"):
        _ = start(preset)._x
    with pytest.raises(UsageError, match="with_model"):
        start(preset).with_model("")


@pytest.mark.parametrize("preset", VENDORS, ids=named)
def test_builders_are_immutable(preset: AnyPreset) -> None:
    first = start(preset)
    assert first is not first.with_api_key("k")
    assert "hunter2" not in repr(first.with_api_key("hunter2"))
    ready = first.with_model("m")
    assert ready is not ready.with_strict(output=False)


def test_vendor_builder_rejects_presets_that_have_their_own_builder() -> None:
    assert {preset.name for preset in VENDORS if preset.own_builder} == set(OWN_BUILDERS)
    for preset in (HUGGINGFACE, OLLAMA):
        assert OWN_BUILDERS[preset.name].__name__ == preset.own_builder
        with pytest.raises(UsageError, match=rf"use {preset.own_builder}\(\)"):
            vendor_builder(preset)


async def test_vendor_builder_accepts_a_custom_preset(transport: MockTransport) -> None:
    mine = Preset(
        title="Mine",
        dialect=Dialect(model="", provider="mine", max_tokens_field="max_tokens"),
        base_url="https://mine.example/v1",
        key_variables=("MINE_API_KEY",),
        embeddings=FixedEmbeddings(),
    )
    sent = await asked(vendor_builder(mine).with_model("m"), transport, ChatOptions(max_tokens=5))
    assert (transport.last.url, sent["max_tokens"]) == ("https://mine.example/v1/chat/completions", 5)
    with pytest.raises(UsageError, match="set MINE_API_KEY"):
        vendor_builder(mine).with_model("m").build()


# --- Embeddings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", VENDORS, ids=named)
async def test_only_vendors_with_embeddings_can_embed(preset: AnyPreset) -> None:
    transport = MockTransport()
    provider = start(preset).with_model("m").with_api_key("k").with_transport(transport).build()
    embeds = preset.embeddings != NoEmbeddings()
    assert isinstance(provider, EmbeddingsProvider) is embeds
    assert isinstance(provider, CompletionsProvider if embeds else CompletionsChatProvider)
    if not embeds:
        with pytest.raises(AttributeError, match="has no embeddings"):
            start(preset).with_model("m").with_embeddings()
        with pytest.raises(UsageError, match="embed"):
            cast("Any", ChatBuilder().with_model(provider)).with_embeddings()
        return
    assert isinstance(provider, CompletionsProvider)
    transport.answer(body={"data": [{"embedding": [0.5]}]})
    assert (await provider.embed(["a"], ChatOptions())).vectors == ((0.5,),)
    assert transport.last.url == f"{preset.base_url}/embeddings"


@pytest.mark.parametrize("preset", [preset for preset in VENDORS if preset.embeddings == SizedEmbeddings()], ids=named)
async def test_embedding_dimensions_can_be_set_if_the_vendor_supports_it(preset: AnyPreset) -> None:
    transport = MockTransport()
    for builder in (
        start(preset).with_embeddings(dimensions=8, max_batch=16).with_model("m"),
        start(preset).with_model("m"),
    ):
        provider = builder.with_embeddings(dimensions=8, max_batch=16).with_transport(transport).build()
        transport.answer(body={"data": [{"embedding": [0.5] * 8}]})
        await provider.embed(["a"], ChatOptions())
        assert transport.last.json()[preset.dialect.dimensions_field] == 8
        assert provider.metadata.max_embedding_batch == 16
    with pytest.raises(UsageError, match="at least 1"):
        start(preset).with_embeddings(dimensions=0)


@pytest.mark.parametrize("preset", [TOGETHER, LLAMACPP], ids=named)
def test_embedding_dimensions_are_rejected_if_the_vendor_fixes_them(preset: AnyPreset) -> None:
    provider = start(preset).with_embeddings(max_batch=4).with_model("m").with_embeddings(max_batch=8)
    assert provider.with_transport(MockTransport()).build().metadata.max_embedding_batch == 8
    with pytest.raises(TypeError, match="dimensions"):
        start(preset).with_embeddings(dimensions=8)


# --- Dialects ------------------------------------------------------------------------------------------


async def test_deepseek_receives_the_output_schema_as_a_message(transport: MockTransport) -> None:
    messages = Messages.from_system("Be kind.").user("Hi")
    sent = await asked(vendor_builder(DEEPSEEK).with_model("m"), transport, messages=messages, output=SCHEMA)
    assert sent["response_format"] == {"type": "json_object"}
    assert [message["role"] for message in sent["messages"]] == ["system", "system", "user"]
    assert '{"type":"object","properties":{"name":{"type":"string"}}}' in sent["messages"][0]["content"]
    assert "JSON" in sent["messages"][0]["content"]


async def test_deepseek_receives_reasoning_with_every_message_with_calls(transport: MockTransport) -> None:
    tool = Tool(FunctionCall("f"), call_id="call_1")
    tool.reject()
    messages = Messages.from_user("Hi")
    messages.append("model", Turn([tool]))
    sent = await asked(vendor_builder(DEEPSEEK).with_model("m"), transport, messages=messages)
    assert sent["messages"][1]["reasoning_content"] == " "


@pytest.mark.parametrize(
    ("effort", "sent"),
    [("none", {"thinking": {"type": "disabled"}}), ("high", {"reasoning_effort": "high"})],
)
async def test_deepseek_reasoning_can_be_disabled_or_given_an_effort(
    effort: Any, sent: dict[str, object], transport: MockTransport
) -> None:
    body = await asked(vendor_builder(DEEPSEEK).with_model("m"), transport, ChatOptions(reasoning=effort))
    assert {name: body[name] for name in body.keys() & {"thinking", "reasoning_effort"}} == sent


async def test_with_reasoning_keeps_the_other_settings_of_a_preset(transport: MockTransport) -> None:
    messages = Messages.from_user("Hi")
    messages.append("model", Turn([Reasoning("Hm"), Text("Hello")]))
    messages.user("And?")
    builder = vendor_builder(DEEPSEEK).with_model("m").with_reasoning(replay="as-received")
    sent = await asked(builder, transport, messages=messages)
    assert sent["messages"][1]["reasoning_content"] == "Hm"


async def test_mistral_uses_random_seed_and_short_call_ids(transport: MockTransport) -> None:
    tool = Tool(FunctionCall("f"), call_id="call_0123456789")
    tool.reject()
    messages = Messages.from_user("Hi")
    messages.append("model", Turn([tool]))
    sent = await asked(vendor_builder(MISTRAL).with_model("m"), transport, ChatOptions(seed=7), messages=messages)
    assert (sent["random_seed"], "seed" in sent) == (7, False)
    assert len(sent["messages"][2]["tool_call_id"]) == 9


async def test_mistral_gets_an_assistant_message_between_tool_results_and_a_user_message(
    transport: MockTransport,
) -> None:
    tool = Tool(FunctionCall("f"), call_id="abcdef123")
    tool.start()
    tool.complete("ok", files=(File("image/png", data=b"x"),))
    messages = Messages.from_user("Hi")
    messages.append("model", Turn([tool]))
    sent = await asked(vendor_builder(MISTRAL).with_model("m"), transport, messages=messages)
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool", "assistant", "user"]


@pytest.mark.parametrize("preset", [MISTRAL, PERPLEXITY, GROQ], ids=named)
async def test_mistral_and_perplexity_get_system_messages_first(preset: Preset[Any], transport: MockTransport) -> None:
    messages = Messages.from_user("Hi")
    messages.append("model", Turn([Text("Hello.")]))
    messages.system("Be brief.").user("Who are you?")
    sent = await asked(vendor_builder(preset).with_model("m"), transport, messages=messages)
    in_place = ["user", "assistant", "system", "user"]
    expected = sorted(in_place, key="system".__ne__) if preset != GROQ else in_place
    assert [message["role"] for message in sent["messages"]] == expected


@pytest.mark.parametrize("preset", VENDORS, ids=named)
@pytest.mark.parametrize("tools", [NO_TOOLS, TOOLS], ids=["without tools", "with tools"])
async def test_groq_and_cerebras_get_the_output_schema_in_a_message_if_there_are_tools(
    preset: AnyPreset, tools: ToolDeclarations, transport: MockTransport
) -> None:
    if tools and not preset.dialect.tools:
        return
    sent = await asked(start(preset).with_model("m"), transport, tools=tools, output=SCHEMA)
    refused = bool(tools) and preset in {CEREBRAS, GROQ}
    described = json.dumps(SCHEMA.schema, separators=(",", ":")) in sent["messages"][0]["content"]
    assert ("response_format" in sent) is not refused
    assert described is (refused or preset is DEEPSEEK)


@pytest.mark.parametrize(("preset", "mixed"), [(CEREBRAS, [None, None]), (GROQ, [True, None])], ids=["all", "some"])
async def test_cerebras_gets_strict_tools_only_if_all_tools_can_be_strict(
    preset: AnyPreset, mixed: list[bool | None], transport: MockTransport
) -> None:
    closed = ToolDeclaration("f", "", {"type": "object", "properties": {}, "required": []})
    optional = ToolDeclaration("g", "", {"type": "object", "properties": {"x": {"type": "string"}}})
    builder = start(preset).with_model("m").with_strict(tools=True)
    for declared, strict in (([closed, optional], mixed), ([closed, closed], [True, True])):
        transport.answer(body=ANSWER)
        sent = await asked(builder, transport, tools=ToolDeclarations(declared))
        assert [tool["function"].get("strict") for tool in sent["tools"]] == strict


@pytest.mark.parametrize("preset", VENDORS, ids=named)
async def test_a_stream_requests_usage_if_the_vendor_supports_it(preset: AnyPreset) -> None:
    transport = MockTransport()
    transport.events(json.dumps(PIECE), "[DONE]")
    provider = start(preset).with_model("m").with_transport(transport).build()
    async with provider.stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None):
        pass
    assert ("stream_options" in transport.last.json()) is (preset not in {MISTRAL, PERPLEXITY})


async def test_perplexity_rejects_unsupported_tools_and_options() -> None:
    transport = MockTransport()
    builder = vendor_builder(PERPLEXITY).with_model("m")
    with pytest.raises(UnsupportedOptionError, match="perplexity does not support tools: remove f"):
        await asked(builder, transport, tools=TOOLS)
    with pytest.raises(UnsupportedOptionError, match="perplexity does not support the option seed=7"):
        await asked(builder, transport, ChatOptions(seed=7))


@pytest.mark.parametrize(
    ("preset", "file", "words"),
    [
        (DEEPSEEK, File("image/png", data=b"x"), "supports no files"),
        (GROQ, File("application/pdf", data=b"x"), "only files of these kinds: image;"),
        (MISTRAL, File("audio/wav", data=b"x"), "only files of these kinds: image;"),
        (XAI, File("video/mp4", data=b"x"), "only files of these kinds: image;"),
        (LLAMACPP, File("video/mp4", data=b"x"), "only files of these kinds: image, audio;"),
    ],
)
async def test_a_file_type_that_a_vendor_does_not_support_is_rejected_by_name(
    preset: AnyPreset, file: File, words: str
) -> None:
    messages = Messages.from_user(file)
    with pytest.raises(UnsupportedPartError, match=words) as error:
        await asked(start(preset).with_model("m"), MockTransport(), messages=messages)
    assert repr(file.mime) in str(error.value)


@pytest.mark.parametrize(
    ("preset", "strict"),
    [(FIREWORKS, True), (VLLM, False), (LLAMACPP, False), (XAI, False)],
    ids=["fireworks", "vllm", "llamacpp", "xai"],
)
async def test_the_output_schema_is_rewritten_only_for_vendors_that_require_it(
    preset: AnyPreset, strict: bool, transport: MockTransport
) -> None:
    sent = await asked(start(preset).with_model("m"), transport, output=SCHEMA)
    form = sent["response_format"]["json_schema"]
    assert form["strict"] is True
    assert ("required" in form["schema"]) is strict


async def test_the_builder_can_override_strict_output_and_reasoning_style(transport: MockTransport) -> None:
    builder = vendor_builder(GROQ).with_model("m").with_strict(output=False, rewrite=False)
    sent = await asked(builder, transport, output=SCHEMA)
    assert sent["response_format"]["json_schema"]["strict"] is False
    transport.answer(body=ANSWER)
    sent = await asked(
        vendor_builder(GROQ).with_model("m").with_reasoning(style="object"), transport, ChatOptions(reasoning=5)
    )
    assert sent["reasoning"] == {"max_tokens": 5}


# --- Hugging Face --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("builder", "model"),
    [
        (HuggingFaceBuilder().with_model("o/m:fastest"), "o/m:fastest"),
        (HuggingFaceBuilder().with_model("o/m").with_routing("cheapest"), "o/m:cheapest"),
        (HuggingFaceBuilder().with_routing("preferred").with_model("o/m"), "o/m:preferred"),
        (HuggingFaceBuilder().with_model("o/m").with_inference_provider("groq").with_routing("fastest"), "o/m:fastest"),
    ],
)
async def test_inference_provider_and_routing_are_appended_to_the_model_name(
    builder: Any, model: str, transport: MockTransport
) -> None:
    sent = await asked(builder, transport)
    assert sent["model"] == model
    assert builder.with_transport(transport).build().metadata.model == model


def test_a_second_inference_provider_for_a_model_is_rejected() -> None:
    with pytest.raises(UsageError, match="already names its provider"):
        HuggingFaceBuilder().with_model("o/m:fastest").with_routing("cheapest")
    with pytest.raises(UsageError, match="remove one of them"):
        HuggingFaceBuilder().with_routing("cheapest").with_model("o/m:fastest")
    for name in ("", "a:b"):
        with pytest.raises(UsageError, match="expected the name of an inference provider"):
            HuggingFaceBuilder().with_inference_provider(name)


# --- Servers of one's own ------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", [LITELLM, LLAMACPP, VLLM], ids=named)
async def test_an_unreachable_local_server_is_reported_with_the_command_to_start_it(preset: AnyPreset) -> None:
    async with start(preset).with_model("m").with_base_url("http://127.0.0.1:9/v1").build() as provider:
        with pytest.raises(NetworkError, match="start"):
            await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
        with pytest.raises(NetworkError, match="start"):
            async with provider.stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None):
                pass


async def test_base_url_and_key_of_a_proxy_are_read_from_the_environment(
    transport: MockTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITELLM_PROXY_API_BASE", "https://proxy.example.org")
    monkeypatch.setenv("LITELLM_PROXY_API_KEY", "secret")
    await asked(vendor_builder(LITELLM).with_model("m"), transport)
    assert transport.last.url == "https://proxy.example.org/chat/completions"
    assert transport.last.headers["authorization"] == "Bearer secret"
