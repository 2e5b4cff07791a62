"""Legal: the protocols of providers, and the methods of a chat with each of them."""

from __future__ import annotations

from typing import Never, assert_type

from chat_claude import ClaudeBuilder, ClaudeOptions, ClaudeProvider, WebSearch, claude
from chat_completions import (
    GROQ,
    HUGGINGFACE,
    MISTRAL,
    PRESETS,
    TOGETHER,
    VLLM,
    ChatVendorBuilder,
    CompletionsChatProvider,
    CompletionsProvider,
    Dialect,
    FixedEmbeddings,
    FixedVendorBuilder,
    NoEmbeddings,
    Preset,
    SizedEmbeddings,
    SizedVendorBuilder,
    groq,
    mistral,
    vendor_builder,
)
from chat_gemini import GeminiBuilder, GeminiEmbeddings, GeminiProvider
from chat_openai import (
    AzureBuilder,
    CodeInterpreter,
    OpenAIBuilder,
    OpenAICompletionsProvider,
    OpenAIEmbeddings,
    OpenAIProvider,
    OpenRouterBuilder,
    OpenRouterProvider,
    azure,
    openai,
)
from chat_openai import WebSearch as OpenAIWebSearch
from chat_responses import ResponsesBuilder, ResponsesProvider

from chat_core import (
    ChatBuilder,
    ChatOptions,
    ChatProvider,
    ChatResponse,
    EmbeddingsChat,
    EmbeddingsProvider,
    StreamingChat,
)


def answers(model: ChatProvider) -> StreamingChat[ChatResponse, Never]:
    return ChatBuilder().with_model(model).build()


def embeds(model: EmbeddingsProvider) -> EmbeddingsChat:
    return ChatBuilder().with_model(model).with_embeddings().build()


def l01_each_builder_makes_its_provider() -> None:
    assert_type(claude("m", api_key="k"), ClaudeProvider)
    assert_type(ClaudeBuilder().with_model("m").with_api_key("k").build(), ClaudeProvider)
    assert_type(GeminiBuilder().with_model("m").with_api_key("k").build(), GeminiProvider)
    assert_type(ResponsesBuilder().with_model("m").with_api_key("k").build(), ResponsesProvider)
    assert_type(openai("m", api_key="k"), OpenAIProvider)
    assert_type(groq("m", api_key="k"), CompletionsChatProvider)
    assert_type(mistral("m", api_key="k"), CompletionsProvider)


def l02_all_of_them_answer_and_stream() -> None:
    answers(claude("m", api_key="k"))
    answers(GeminiBuilder().with_model("m").with_api_key("k").build())
    answers(ResponsesBuilder().with_model("m").with_api_key("k").build())
    answers(OpenAIBuilder().with_model("m").with_api_key("k").build())
    answers(OpenAIBuilder().with_completions().with_model("m").with_api_key("k").build())
    answers(vendor_builder(GROQ).with_model("m").with_api_key("k").build())


def l03_some_of_them_embed() -> None:
    vectors = OpenAIBuilder().with_embeddings(model="m", dimensions=3).with_api_key("k").build()
    assert_type(vectors, OpenAIEmbeddings)
    embeds(vectors)
    google = GeminiBuilder().with_embedding_model("m").with_api_key("k").build()
    assert_type(google, GeminiEmbeddings)
    embeds(google)
    embeds(vendor_builder(MISTRAL).with_model("m").with_api_key("k").build())


def l04_what_is_said_first_does_not_matter() -> None:
    vendor_builder(VLLM).with_base_url("http://one.example/v1").with_model("m").build()
    vendor_builder(VLLM).with_model("m").with_base_url("http://one.example/v1").build()
    dated = AzureBuilder().with_endpoint("https://one.example").with_api_key("k")
    assert_type(dated.with_deployment("d", api_version="v").with_completions().build(), OpenAICompletionsProvider)
    assert_type(azure("d", endpoint="https://one.example", api_key="k"), OpenAIProvider)
    router = OpenRouterBuilder().with_completions().with_strict(output=False).with_model("m").with_api_key("k")
    assert_type(router.build(), OpenRouterProvider)


def l05_native_tools_where_the_api_has_them() -> None:
    searching = ClaudeBuilder().with_model("m").with_api_key("k").with_native_tools(WebSearch()).build()
    assert_type(searching, ClaudeProvider)
    bedrock = ClaudeBuilder().with_bedrock("eu-west-1", profile="p").with_model("m").with_bearer_token("t").build()
    assert_type(bedrock, ClaudeProvider)
    tools = (OpenAIWebSearch(), CodeInterpreter())
    assert_type(OpenAIBuilder().with_native_tools(*tools).with_model("m").with_api_key("k").build(), OpenAIProvider)
    google = GeminiBuilder().with_model("m").with_google_search().with_code_execution().with_api_key("k").build()
    assert_type(google, GeminiProvider)


def l06_a_preset_carries_the_abilities_of_its_vendor() -> None:
    assert_type(GROQ, Preset[NoEmbeddings])
    assert_type(HUGGINGFACE, Preset[NoEmbeddings])
    assert_type(TOGETHER, Preset[FixedEmbeddings])
    assert_type(MISTRAL, Preset[SizedEmbeddings])
    assert_type(vendor_builder(GROQ), ChatVendorBuilder)
    assert_type(vendor_builder(TOGETHER), FixedVendorBuilder)
    assert_type(vendor_builder(MISTRAL), SizedVendorBuilder)
    assert_type(vendor_builder(MISTRAL).with_embeddings(dimensions=8), SizedVendorBuilder)
    assert_type(vendor_builder(PRESETS["groq"]), ChatVendorBuilder | FixedVendorBuilder | SizedVendorBuilder)


def l07_a_preset_of_one_s_own_is_like_the_others() -> None:
    mine = Preset(title="Mine", dialect=Dialect(model=""), base_url="https://one.example", embeddings=NoEmbeddings())
    assert_type(vendor_builder(mine).with_model("m").with_api_key("k").build(), CompletionsChatProvider)


def l08_what_contradicts_elsewhere_agrees_here() -> None:
    vertex = GeminiBuilder().with_model("m").with_vertex("my-project").with_token("t").with_google_search().build()
    assert_type(vertex, GeminiProvider)
    stored = ResponsesBuilder().with_model("m").with_api_key("k").with_store(store=True).with_previous_response()
    assert_type(stored.build(), ResponsesProvider)
    options = ChatOptions(extras=(ClaudeOptions(),))
    model = claude("m", api_key="k")
    assert_type(ChatBuilder().with_model(model).with_options(options).build(), StreamingChat[ChatResponse, Never])
