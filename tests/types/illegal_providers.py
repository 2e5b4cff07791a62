"""Illegal: what a provider cannot have.

Each line that ends in `# E: <regex>` must be rejected, and by a message that matches. A function that ends in
`# R: <regex>` must also fail at run time.
"""

from __future__ import annotations

from chat_claude import ClaudeBuilder, ClaudeOptions, WebSearch
from chat_completions import (
    GROQ,
    PERPLEXITY,
    TOGETHER,
    CompletionsBuilder,
    HuggingFaceBuilder,
    OllamaBuilder,
    vendor_builder,
)
from chat_gemini import GeminiBuilder
from chat_openai import AzureBuilder, OpenAIBuilder
from chat_openai import WebSearch as OpenAIWebSearch
from chat_responses import ResponsesBuilder

from chat_core import ChatBuilder, ChatOptions, Messages

claude = ClaudeBuilder().with_model("m").with_api_key("k").build()
gemini = GeminiBuilder().with_model("m").with_api_key("k").build()
groq = vendor_builder(GROQ).with_model("m").with_api_key("k").build()
vectors = OpenAIBuilder().with_embeddings(model="m").with_api_key("k").build()
gateway = ClaudeBuilder().with_base_url("https://one.example").with_model("m")


def p01_claude_without_a_model() -> None:  # R: AttributeError: build\(\) needs a model
    ClaudeBuilder().with_api_key("k").build()  # E: attribute .?build


def p02_gemini_without_a_model() -> None:  # R: AttributeError: build\(\) needs a model
    GeminiBuilder().with_api_key("k").build()  # E: attribute .?build


def p03_responses_without_a_model() -> None:  # R: AttributeError: build\(\) needs a model
    ResponsesBuilder().with_api_key("k").build()  # E: attribute .?build


def p04_openai_without_a_model() -> None:  # R: AttributeError: build\(\) needs a model
    OpenAIBuilder().with_api_key("k").build()  # E: attribute .?build


def p05_completions_without_a_model() -> None:  # R: AttributeError: build\(\) needs a model
    CompletionsBuilder().build()  # E: attribute .?build


def p06_a_vendor_without_a_model() -> None:  # R: AttributeError: build\(\) needs a model
    vendor_builder(GROQ).with_api_key("k").build()  # E: attribute .?build


def p07_azure_without_an_endpoint() -> None:  # R: AttributeError: .*with_endpoint
    AzureBuilder().with_model("m")  # E: attribute .?with_model


def p08_azure_without_a_deployment() -> None:  # R: AttributeError: build\(\) needs
    AzureBuilder().with_endpoint("https://one.example").build()  # E: attribute .?build


def p09_embeddings_of_claude() -> None:  # R: UsageError: .* can embed; ClaudeProvider cannot
    ChatBuilder().with_model(claude).with_embeddings()  # E: EmbeddingsProvider


def p10_embeddings_of_a_model_that_answers() -> None:  # R: UsageError: .* can embed; GeminiProvider cannot
    ChatBuilder().with_model(gemini).with_embeddings()  # E: EmbeddingsProvider


def p11_embeddings_of_a_vendor_that_has_none() -> None:  # R: UsageError: .* can embed; CompletionsChatProvider cannot
    ChatBuilder().with_model(groq).with_embeddings()  # E: EmbeddingsProvider


def p12_the_size_of_vectors_that_there_are_not() -> None:  # R: AttributeError: Perplexity has no embeddings
    vendor_builder(PERPLEXITY).with_embeddings(dimensions=3)  # E: attribute .?with_embeddings


def p13_native_tools_on_the_wire_that_has_none() -> None:  # R: AttributeError: native tools need the Responses API
    OpenAIBuilder().with_completions().with_native_tools(OpenAIWebSearch())  # E: attribute .?with_native_tools


def p14_the_other_wire_after_native_tools() -> None:  # R: AttributeError: .* with_completions\(\) is unavailable
    OpenAIBuilder().with_native_tools(OpenAIWebSearch()).with_completions()  # E: attribute .?with_completions


def p15_a_tool_of_another_vendor() -> None:  # R: UsageError: with_native_tools\(\)
    OpenAIBuilder().with_model("m").with_native_tools(WebSearch())  # E: WebSearch


def p16_native_tools_behind_a_gateway() -> None:  # R: AttributeError: .*with_native_tools
    gateway.with_native_tools(WebSearch())  # E: attribute .?with_native_tools


def p17_vectors_do_not_answer() -> None:  # R: UsageError: build\(\) needs a model that can complete
    ChatBuilder().with_model(vectors).build()  # E: .


def p18_a_second_model() -> None:  # R: AttributeError: the model is already set
    vendor_builder(GROQ).with_model("m").with_model("n")  # E: attribute .?with_model


async def p19_vectors_of_a_vendor_that_has_none() -> None:  # R: AttributeError: .*embed
    await groq.embed(["hi"])  # E: attribute .?embed


def p20_vectors_of_a_length_that_cannot_be_chosen() -> None:  # R: TypeError: .*dimensions
    vendor_builder(TOGETHER).with_embeddings(dimensions=8)  # E: dimensions


def p21_a_deployment_before_its_endpoint() -> None:  # R: AttributeError: with_deployment\(\) needs an endpoint
    AzureBuilder().with_deployment("d")  # E: attribute .?with_deployment


def p22_the_address_of_a_daemon_by_another_name() -> None:  # R: AttributeError: .*with_base_url
    OllamaBuilder().with_base_url("http://one.example")  # E: attribute .?with_base_url


def p23_a_routing_that_is_none() -> None:
    HuggingFaceBuilder().with_routing("quickest")  # E: quickest


def p24_a_setting_of_the_other_wire() -> None:  # R: AttributeError: .*call with_completions\(\) first
    OpenAIBuilder().with_strict(output=False)  # E: attribute .?with_strict


def p25_a_builder_of_what_is_no_preset() -> None:
    vendor_builder("groq")  # E: vendor_builder


def p26_vertex_without_a_token() -> None:  # R: MissingKeyError: the token is missing
    GeminiBuilder().with_model("m").with_vertex("my-project").build()


def p27_file_search_on_vertex() -> None:  # R: UsageError: Vertex AI does not support file search
    GeminiBuilder().with_model("m").with_vertex("my-project").with_token("t").with_file_search(
        "fileSearchStores/a"
    ).build()


def p28_previous_responses_that_are_not_stored() -> None:  # R: UsageError: with_previous_response\(\) needs stored
    ResponsesBuilder().with_model("m").with_api_key("k").with_store(store=False).with_previous_response().build()


async def p29_options_of_another_vendor() -> None:  # R: UnsupportedOptionError: .* not support ClaudeOptions
    model = OpenAIBuilder().with_model("m").with_api_key("k").build()
    chat = ChatBuilder().with_model(model).with_options(ChatOptions(extras=(ClaudeOptions(),))).build()
    await chat.complete(Messages.from_user("hi"))


def p30_tools_of_the_anthropic_api_on_bedrock() -> None:  # R: AttributeError: with_native_tools\(\) is only available
    ClaudeBuilder().with_bedrock("eu-west-1").with_model("m").with_native_tools(WebSearch())  # E: with_native_tools
