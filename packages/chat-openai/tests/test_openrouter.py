"""Builders for OpenRouter: routing fields in both APIs, and the methods of each state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import pytest
from chat_completions import CompletionsOptions
from chat_core import ChatOptions, Messages
from chat_core.errors import UsageError
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_core.wire.shapes import Json
from chat_openai import (
    ContextCompressionPlugin,
    FileParserPlugin,
    MaxPrice,
    OpenAIEmbeddingsBuilder,
    OpenRouterBuilder,
    OpenRouterCompletionsBuilder,
    OpenRouterProvider,
    ReadyOpenRouterBuilder,
    ReadyOpenRouterCompletionsBuilder,
    ResponseHealingPlugin,
    Routing,
    WebPlugin,
    openrouter,
)
from chat_responses import ResponsesOptions

pytestmark = pytest.mark.anyio

RESPONSE: Json = {
    "id": "gen-1",
    "status": "completed",
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Utrecht"}]}],
}
COMPLETION: Json = {
    "id": "gen-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Utrecht"}, "finish_reason": "stop"}],
}


@pytest.fixture(autouse=True)
def a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-environment")


async def asked(builder: Any, body: Json, options: ChatOptions | None = None) -> MockTransport:
    transport = MockTransport()
    transport.answer(200, {"content-type": "application/json"}, body)
    provider: OpenRouterProvider = builder.with_transport(transport).build()
    turn = await provider.complete(Messages.from_user("Where?"), NO_TOOLS, options or ChatOptions(), None)
    assert turn.text == "Utrecht"
    return transport


async def test_a_responses_request_disables_storage() -> None:
    transport = await asked(OpenRouterBuilder().with_model("anthropic/claude-sonnet-4.5"), RESPONSE)
    assert transport.last.url == "https://openrouter.ai/api/v1/responses"
    assert transport.last.headers["authorization"] == "Bearer sk-or-environment"
    assert transport.last.json() == {
        "model": "anthropic/claude-sonnet-4.5",
        "input": [{"role": "user", "content": "Where?"}],
        "store": False,
    }


@pytest.mark.parametrize("first", ["wire", "model"])
async def test_with_completions_may_precede_or_follow_with_model(first: str) -> None:
    builder = OpenRouterBuilder().with_app("My app", "https://app.example.org")
    ready = (
        builder.with_completions().with_model("openai/gpt-5-mini")
        if first == "wire"
        else builder.with_model("openai/gpt-5-mini").with_completions()
    )
    transport = await asked(ready, COMPLETION)
    assert transport.last.url == "https://openrouter.ai/api/v1/chat/completions"
    headers = transport.last.headers
    assert (headers["x-openrouter-title"], headers["http-referer"]) == ("My app", "https://app.example.org")


async def test_routing_is_sent_identically_to_both_apis() -> None:
    routing = Routing(
        order=("anthropic", "google-vertex"),
        allow_fallbacks=False,
        only=("anthropic",),
        ignore=("azure",),
        require_parameters=True,
        data_collection="deny",
        zdr=True,
        enforce_distillable_text=False,
        quantizations=("fp8",),
        sort="price",
        max_price=MaxPrice(prompt=1, completion=2.5),
        preferred_min_throughput=50,
        preferred_max_latency=2,
    )
    builder = (
        OpenRouterBuilder()
        .with_routing(routing)
        .with_fallback_models("openai/gpt-5-mini", "google/gemini-2.5-flash")
        .with_plugins(
            WebPlugin(engine="exa", max_results=3),
            WebPlugin(engine="parallel", include_domains=("knmi.nl",), exclude_domains=("*.example.org",), max_uses=2),
            FileParserPlugin(pdf_engine="native"),
            FileParserPlugin(),
            ResponseHealingPlugin(),
            ContextCompressionPlugin(),
        )
        .with_session("chat-1")
    )
    said = {
        "provider": {
            "order": ["anthropic", "google-vertex"],
            "allow_fallbacks": False,
            "only": ["anthropic"],
            "ignore": ["azure"],
            "require_parameters": True,
            "data_collection": "deny",
            "zdr": True,
            "enforce_distillable_text": False,
            "quantizations": ["fp8"],
            "sort": "price",
            "max_price": {"prompt": 1, "completion": 2.5},
            "preferred_min_throughput": 50,
            "preferred_max_latency": 2,
        },
        "models": ["openai/gpt-5-mini", "google/gemini-2.5-flash"],
        "plugins": [
            {"id": "web", "engine": "exa", "max_results": 3},
            {
                "id": "web",
                "engine": "parallel",
                "include_domains": ["knmi.nl"],
                "exclude_domains": ["*.example.org"],
                "max_uses": 2,
            },
            {"id": "file-parser", "pdf": {"engine": "native"}},
            {"id": "file-parser"},
            {"id": "response-healing"},
            {"id": "context-compression"},
        ],
        "session_id": "chat-1",
    }
    ready = builder.with_model("anthropic/claude-sonnet-4.5")
    for body in (
        (await asked(ready, RESPONSE)).last.json(),
        (await asked(ready.with_completions(), COMPLETION)).last.json(),
    ):
        assert {name: body[name] for name in said} == said


async def test_options_of_a_run_override_those_of_the_builder() -> None:
    ready = OpenRouterBuilder().with_routing(Routing(order=("anthropic",))).with_session("chat-1").with_model("m")
    extras = ResponsesOptions(extra_body={"session_id": "chat-2"}, verbosity="low")
    body = (await asked(ready, RESPONSE, ChatOptions(extras=(extras,)))).last.json()
    assert body["provider"] == {"order": ["anthropic"]}
    assert body["session_id"] == "chat-2"
    assert body["text"] == {"verbosity": "low"}


async def test_openrouter_tools_are_declared_unchanged_on_both_apis() -> None:
    search = {"type": "openrouter:web_search", "parameters": {"engine": "exa"}}
    ready = OpenRouterBuilder().with_model("m")
    body = (await asked(ready, RESPONSE, ChatOptions(extras=(ResponsesOptions(tools=(search,)),)))).last.json()
    assert body["tools"] == [search]
    options = ChatOptions(extras=(CompletionsOptions(tools=(search,)),))
    assert (await asked(ready.with_completions(), COMPLETION, options)).last.json()["tools"] == [search]


async def test_a_later_routing_replaces_an_earlier_one() -> None:
    ready = OpenRouterBuilder().with_routing(Routing(order=("a",))).with_routing(Routing(sort="price")).with_model("m")
    assert (await asked(ready, RESPONSE)).last.json()["provider"] == {"sort": "price"}


async def test_with_transforms_is_sent_to_chat_completions() -> None:
    ready = OpenRouterBuilder().with_completions().with_transforms("middle-out").with_model("m")
    assert (await asked(ready, COMPLETION)).last.json()["transforms"] == ["middle-out"]
    none = OpenRouterBuilder().with_model("m").with_completions().with_transforms()
    assert (await asked(none, COMPLETION)).last.json()["transforms"] == []


async def test_both_apis_accept_a_reasoning_budget() -> None:
    ready = OpenRouterBuilder().with_model("anthropic/claude-sonnet-4.5")
    body = (await asked(ready, RESPONSE, ChatOptions(reasoning=2000))).last.json()
    assert body["reasoning"] == {"max_tokens": 2000}
    body = (await asked(ready.with_completions(), COMPLETION, ChatOptions(reasoning=2000))).last.json()
    assert body["reasoning"] == {"max_tokens": 2000}


async def test_with_embeddings_sets_its_own_model() -> None:
    transport = MockTransport()
    transport.answer(body={"data": [{"index": 0, "embedding": [0.5]}]})
    builder = OpenRouterBuilder().with_transport(transport).with_embeddings(model="openai/text-embedding-3-small")
    assert_type(builder, OpenAIEmbeddingsBuilder)
    assert (await builder.build().embed(["a"], ChatOptions())).vectors == ((0.5,),)
    assert transport.last.url == "https://openrouter.ai/api/v1/embeddings"


async def test_the_shorthand_reads_its_key_from_the_environment() -> None:
    async with openrouter("openai/gpt-5-mini") as short, openrouter("openai/gpt-5-mini", api_key="sk-mine") as given:
        assert short.metadata == given.metadata
        assert short.metadata.name == "openrouter-responses"
        assert "sk-" not in repr(given)


def test_each_builder_method_returns_the_type_of_the_next_state() -> None:
    builder = OpenRouterBuilder()
    assert_type(builder.with_routing(Routing()), OpenRouterBuilder)
    assert_type(builder.with_model("m"), ReadyOpenRouterBuilder)
    assert_type(builder.with_completions(), OpenRouterCompletionsBuilder)
    assert_type(builder.with_completions().with_model("m"), ReadyOpenRouterCompletionsBuilder)
    assert_type(builder.with_model("m").with_completions(), ReadyOpenRouterCompletionsBuilder)
    assert_type(builder.with_model("m").with_transport(MockTransport()).build(), OpenRouterProvider)


MISSING: dict[str, tuple[Callable[[], object], str, str]] = {
    "no model": (OpenRouterBuilder, "build", "needs a model"),
    "no model on the other wire": (lambda: OpenRouterBuilder().with_completions(), "build", "needs a model"),
    "a second model": (lambda: OpenRouterBuilder().with_model("m"), "with_model", "the model is already set to 'm'"),
    "native tools": (lambda: OpenRouterBuilder().with_model("m"), "with_native_tools", "openrouter:web_search"),
    "previous responses": (OpenRouterBuilder, "with_previous_response", "does not store responses"),
    "transforms on the first wire": (OpenRouterBuilder, "with_transforms", "need the Chat Completions API"),
    "storage on the other wire": (
        lambda: OpenRouterBuilder().with_model("m").with_completions(),
        "with_store",
        "need the Responses API",
    ),
}


@pytest.mark.parametrize("case", MISSING)
def test_a_method_missing_in_the_builder_state_is_explained(case: str) -> None:
    make, name, words = MISSING[case]
    with pytest.raises(AttributeError, match=words):
        getattr(make(), name)


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "one provider for several": (
        lambda: Routing(order="anthropic"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        r"order=\('anthropic',\)",
    ),
    "a price below nothing": (lambda: MaxPrice(prompt=-1), "prompt must be at least 0"),
    "routing that is none": (
        lambda: OpenRouterBuilder().with_routing({"order": ["a"]}),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        "needs a Routing",
    ),
    "a plugin that is none": (
        lambda: OpenRouterBuilder().with_plugins({"id": "web"}),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        r"with_plugins\(\) takes plugins such as WebPlugin",
    ),
    "one domain for several": (
        lambda: WebPlugin(include_domains="knmi.nl"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        r"include_domains=\('knmi.nl',\)",
    ),
    "no search at all": (lambda: WebPlugin(max_results=0), "max_results must be at least 1"),
    "no model to fall back on": (
        lambda: OpenRouterBuilder().with_fallback_models(),
        "needs the name of at least one model",
    ),
    "a model without a name": (lambda: OpenRouterBuilder().with_fallback_models(""), "needs non-empty strings"),
    "a session without a name": (lambda: OpenRouterBuilder().with_session(""), "needs the id of a session"),
    "an application without a name": (lambda: OpenRouterBuilder().with_app(""), "the name of an application"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_an_invalid_setting_raises_an_error_that_explains_it(case: str) -> None:
    make, words = MISTAKES[case]
    with pytest.raises(UsageError, match=words):
        make()


def test_a_missing_key_is_reported_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY")
    with pytest.raises(UsageError, match="OPENROUTER_API_KEY"):
        openrouter("openai/gpt-5-mini")


@pytest.mark.parametrize(("reasoning", "sent"), [("low", {"effort": "low"}), (100, {"max_tokens": 100})])
async def test_chat_completions_accept_a_reasoning_effort_or_a_budget(reasoning: Any, sent: dict[str, object]) -> None:
    builder = OpenRouterBuilder().with_completions().with_model("m").with_reasoning(replay="as-received")
    transport = await asked(builder, COMPLETION, ChatOptions(reasoning=reasoning))
    assert transport.last.json()["reasoning"] == sent


@pytest.mark.parametrize("wire", ["responses", "chat/completions"])
async def test_a_gateway_receives_the_key_from_the_environment(wire: str) -> None:
    builder = OpenRouterBuilder().with_gateway("https://eu.openrouter.example/api/v1").with_model("m")
    ready: Any = builder if wire == "responses" else builder.with_completions()
    transport = await asked(ready, RESPONSE if wire == "responses" else COMPLETION)
    assert transport.last.url == f"https://eu.openrouter.example/api/v1/{wire}"
    assert transport.last.headers["authorization"] == "Bearer sk-or-environment"
