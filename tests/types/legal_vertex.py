"""Legal: models on Google Cloud, with every kind of credentials."""

from __future__ import annotations

from typing import Never, assert_type

from chat_claude import ClaudeProvider
from chat_gemini import GeminiEmbeddings, GeminiProvider, ReadyGeminiBuilder
from chat_vertex import MetadataServer, TokenSource, VertexBuilder, VertexKeyBuilder

from chat_core import ChatBuilder, ChatResponse, StreamingChat


async def renewed() -> str:
    return "token"


def l80_a_project_has_models_of_both_families() -> None:
    vertex = VertexBuilder().with_project("my-project", "europe-west4").with_metadata_server()
    assert_type(vertex, VertexBuilder)
    assert_type(vertex.with_gemini_model("m"), ReadyGeminiBuilder)
    assert_type(vertex.with_gemini_model("m").with_google_search().build(), GeminiProvider)
    assert_type(vertex.with_embedding_model("m", dimensions=8).build(), GeminiEmbeddings)
    assert_type(vertex.with_claude_model("m").with_max_tokens(5).build(), ClaudeProvider)


def l81_a_key_is_for_gemini() -> None:
    with_key = VertexBuilder().with_api_key("k")
    assert_type(with_key, VertexKeyBuilder)
    assert_type(with_key.with_base_url("http://localhost:1").with_gemini_model("m").build(), GeminiProvider)
    assert_type(with_key.with_embedding_model("m").build(), GeminiEmbeddings)


def l82_a_token_is_text_or_a_function_or_a_source() -> None:
    project = VertexBuilder().with_project("my-project")
    for token in ("t", renewed, TokenSource(MetadataServer())):
        assert_type(project.with_token(token).with_claude_model("m").build(), ClaudeProvider)


def l83_a_chat_on_google_cloud_cannot_pause() -> None:
    model = VertexBuilder().with_project("my-project").with_token("t").with_claude_model("m").build()
    assert_type(ChatBuilder().with_model(model).build(), StreamingChat[ChatResponse, Never])
