"""Legal: what providers are built of, and what a chat over them can do."""

from __future__ import annotations

from typing import Never, assert_type

from chat_claude import ClaudeBuilder, ClaudeProvider, WebSearch, claude
from chat_completions import (
    AzureBuilder,
    CompletionsChatProvider,
    CompletionsProvider,
    GroqBuilder,
    MistralBuilder,
    VLLMBuilder,
    groq,
    mistral,
)
from chat_gemini import GeminiBuilder, GeminiEmbeddings, GeminiProvider
from chat_openai import CodeInterpreter, OpenAIBuilder, OpenAIEmbeddings, OpenAIProvider, openai
from chat_openai import WebSearch as OpenAIWebSearch
from chat_responses import ResponsesBuilder, ResponsesProvider

from chat_core import ChatBuilder, ChatProvider, ChatResponse, EmbeddingsChat, EmbeddingsProvider, StreamingChat


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
    answers(GroqBuilder().with_model("m").with_api_key("k").build())


def l03_some_of_them_embed() -> None:
    vectors = OpenAIBuilder().with_embeddings(model="m", dimensions=3).with_api_key("k").build()
    assert_type(vectors, OpenAIEmbeddings)
    embeds(vectors)
    google = GeminiBuilder().with_embedding_model("m").with_api_key("k").build()
    assert_type(google, GeminiEmbeddings)
    embeds(google)
    embeds(MistralBuilder().with_model("m").with_api_key("k").build())


def l04_what_is_said_first_does_not_matter() -> None:
    VLLMBuilder().with_base_url("http://one.example/v1").with_model("m").build()
    VLLMBuilder().with_model("m").with_base_url("http://one.example/v1").build()
    azure = AzureBuilder().with_endpoint("https://one.example").with_api_key("k").with_deployment("d").build()
    assert_type(azure, CompletionsProvider)


def l05_native_tools_where_the_api_has_them() -> None:
    searching = ClaudeBuilder().with_model("m").with_api_key("k").with_native_tools(WebSearch()).build()
    assert_type(searching, ClaudeProvider)
    tools = (OpenAIWebSearch(), CodeInterpreter())
    assert_type(OpenAIBuilder().with_native_tools(*tools).with_model("m").with_api_key("k").build(), OpenAIProvider)
    google = GeminiBuilder().with_model("m").with_google_search().with_code_execution().with_api_key("k").build()
    assert_type(google, GeminiProvider)
