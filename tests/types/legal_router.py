"""Legal: a router has the methods that all of its models have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never, assert_type

from chat_claude import claude
from chat_completions import groq, mistral
from chat_gemini import GeminiBuilder
from chat_openai import OpenAIBuilder, openai
from chat_router import (
    Breaker,
    ByKeyword,
    ByMeaning,
    Candidate,
    ChatEmbeddingsRouter,
    ChatRouter,
    CompletionEmbeddingsRouter,
    CompletionRouter,
    EmbeddingsRouter,
    Router,
    RouteRequest,
    Sticky,
)

from chat_core import (
    Chat,
    ChatBuilder,
    ChatOptions,
    ChatProvider,
    ChatResponse,
    CompletionProvider,
    EmbeddingsChat,
    EmbeddingsProvider,
    EmbeddingsResponse,
    Messages,
    OutputSchema,
    ProviderMeta,
    StreamingChat,
    StructuredResponse,
    ToolDeclarations,
    Turn,
)

from fakes import FakeComplete, FakeEmbed, FakeFull

some = claude("m", api_key="k")
other = openai("m", api_key="k")
both = mistral("m", api_key="k")


class AnswersAndEmbeds:
    """Completes and embeds, and does not stream."""

    @property
    def metadata(self) -> ProviderMeta:
        return FakeComplete().metadata

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        return await FakeComplete().complete(messages, tools, options, structured_output)

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        return await FakeEmbed().embed(texts, options)


def mine(request: RouteRequest) -> Sequence[Candidate]:
    return request.candidates[::-1]


async def awaited(request: RouteRequest) -> Sequence[Candidate]:
    return request.candidates


def l90_models_that_stream_make_a_router_that_streams() -> None:
    router = Router([some, other, groq("m", api_key="k")])
    assert_type(router, ChatRouter)
    assert_type(ChatBuilder().with_model(router).build(), StreamingChat[ChatResponse, Never])
    structured = ChatBuilder().with_model(router).with_structured_output(int).build()
    assert_type(structured, StreamingChat[StructuredResponse[int], Never])


def l91_one_model_that_only_completes_makes_a_router_that_only_completes() -> None:
    assert_type(Router([FakeComplete()]), CompletionRouter)
    router = Router([FakeFull(), FakeComplete()])
    assert_type(router, CompletionRouter)
    assert_type(ChatBuilder().with_model(router).build(), Chat[ChatResponse, Never])


def l92_models_that_do_everything_make_a_router_that_does_everything() -> None:
    router = Router([both, both])
    assert_type(router, ChatEmbeddingsRouter)
    assert_type(ChatBuilder().with_model(router).build(), StreamingChat[ChatResponse, Never])
    assert_type(ChatBuilder().with_model(router).with_embeddings().build(), EmbeddingsChat)
    assert_type(Router([both, some]), ChatRouter)


def l93_servers_of_an_embedding_model_make_a_router_that_embeds() -> None:
    vectors = OpenAIBuilder().with_embeddings(model="m").with_api_key("k").build()
    google = GeminiBuilder().with_embedding_model("m").with_api_key("k").build()
    assert_type(Router([vectors]), EmbeddingsRouter)
    router = Router([vectors, google])
    assert_type(router, EmbeddingsRouter)
    assert_type(ChatBuilder().with_model(router).with_embeddings().build(), EmbeddingsChat)
    assert_type(Router([vectors, both]), EmbeddingsRouter)


def l94_models_that_complete_and_embed() -> None:
    router = Router([AnswersAndEmbeds(), FakeFull()])
    assert_type(router, CompletionEmbeddingsRouter)
    assert_type(ChatBuilder().with_model(router).build(), Chat[ChatResponse, Never])
    assert_type(ChatBuilder().with_model(router).with_embeddings().build(), EmbeddingsChat)


def l95_a_router_is_a_model_of_a_router() -> None:
    inner = Router([some, other])
    assert_type(Router([inner, groq("m", api_key="k")]), ChatRouter)
    assert_type(Router([inner, FakeComplete()]), CompletionRouter)


def l96_a_list_of_a_protocol_is_enough() -> None:
    chats: list[ChatProvider] = [some, other]
    answers: list[CompletionProvider] = [some, FakeComplete()]
    embedders: tuple[EmbeddingsProvider, ...] = (FakeFull(), FakeEmbed())
    assert_type(Router(chats), ChatRouter)
    assert_type(Router(answers), CompletionRouter)
    assert_type(Router(embedders), EmbeddingsRouter)


def l97_a_strategy_is_a_function_with_or_without_async() -> None:
    for choose in (mine, awaited, ByKeyword(), ByMeaning(FakeEmbed()), Sticky(mine), Sticky()):
        assert_type(Router([some, other], choose), ChatRouter)
    assert_type(Router([some, other], choose=mine, breaker=Breaker(failures=1)), ChatRouter)
