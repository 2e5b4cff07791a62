"""Illegal: what a router cannot do because one of its models cannot.

Each line that ends in `# E: <regex>` must be rejected, and by a message that matches. A function that ends in
`# R: <regex>` must also fail at run time.
"""

from __future__ import annotations

from chat_claude import claude
from chat_openai import OpenAIBuilder
from chat_router import Breaker, Router, RouteRequest

from chat_core import ChatBuilder, Messages

from fakes import FakeComplete, FakeEmbed, FakeFull, FakeStream

model = claude("m", api_key="k")
vectors = OpenAIBuilder().with_embeddings(model="m").with_api_key("k").build()
answering = Router([FakeFull(), FakeComplete()])


def wrong(request: RouteRequest) -> str:
    return request.question


async def p90_a_router_streams_only_if_each_model_streams() -> None:  # R: AttributeError: .*stream
    chat = ChatBuilder().with_model(answering).build()
    async with chat.stream(Messages.from_user("hi")):  # E: attribute .?stream
        pass


def p91_a_router_embeds_only_if_each_model_embeds() -> None:  # R: UsageError: .* can embed
    ChatBuilder().with_model(Router([FakeFull(), model])).with_embeddings()  # E: EmbeddingsProvider


def p92_a_router_of_embedders_does_not_answer() -> None:  # R: UsageError: .* can complete
    ChatBuilder().with_model(Router([FakeEmbed(), FakeFull()])).build()  # E: .


def p93_a_chat_model_and_an_embedder_have_nothing_in_common() -> None:  # R: UsageError: .*all complete conversations
    Router([model, vectors])  # E: .


def p94_a_router_of_models_that_only_stream() -> None:  # R: UsageError: .*all complete conversations
    Router([FakeStream(), FakeStream()])  # E: .


def p95_a_model_is_no_list_of_models() -> None:  # R: UsageError: Router\(\) needs a list
    Router(model)  # E: .


def p96_a_strategy_returns_candidates() -> None:
    Router([model, model], wrong)  # E: .


def p97_a_breaker_is_no_number() -> None:
    Router([model], breaker=3)  # E: .


def p98_a_breaker_that_opens_after_no_failure() -> None:  # R: UsageError: failures must be at least 1
    Breaker(failures=0)


def p99_a_chat_is_no_model() -> None:  # R: UsageError: Router\(\) needs models
    Router([ChatBuilder().with_model(model).build()])  # E: .
