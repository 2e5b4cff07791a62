"""A router as the provider of a chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from chat_core import (
    AuthenticationError,
    ChatBuilder,
    ChatError,
    ChatOptions,
    ContentFilteredError,
    ContextLengthError,
    EmbeddingsResponse,
    FunctionCall,
    InvalidRequestError,
    Messages,
    NetworkError,
    OverloadedError,
    ProviderMeta,
    QuotaExceededError,
    RateLimitedError,
    Retry,
    ServerError,
    ToolCollection,
    UsageError,
)
from chat_core.events import AttemptReset, Done, TextDelta
from chat_core.provider import Abilities
from chat_core.testing import Answer, ScriptedProvider
from chat_core.usage import Usage
from chat_router import (
    Breaker,
    Candidate,
    ChatEmbeddingsRouter,
    CompletionRouter,
    EmbeddingsRouter,
    NoModelAvailableError,
    Router,
    RouteRequest,
)
from router_helpers import Clock, asked, candidate, model

pytestmark = pytest.mark.anyio

NO_WAIT = Retry(base=0.0, after_delivery=True)


class Embedder:
    """A model that only embeds."""

    def __init__(self, name: str, model: str, dimensions: int | None = None) -> None:
        self.metadata = ProviderMeta(name, model, dimensions=dimensions, max_embedding_batch=5)

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        del options
        return EmbeddingsResponse(tuple([(1.0,) for _ in texts]), Usage(len(texts)), self.metadata.name)


class Completer:
    """A model that only completes."""

    def __init__(self, inner: ScriptedProvider) -> None:
        self.metadata = inner.metadata
        self.complete = inner.complete


def build(*models: Any, **settings: Any) -> Any:
    retry = settings.pop("retry", NO_WAIT)
    return ChatBuilder().with_model(Router(models, **settings)).with_retry(retry).build()


async def answer(chat: Any, text: str = "hi") -> str:
    return str((await chat.complete(Messages.from_user(text))).text)


async def events(chat: Any, messages: Messages | None = None) -> list[Any]:
    async with chat.stream(messages or Messages.from_user("hi")) as run:
        return [event async for event in run]


def text_since_reset(found: list[Any]) -> str:
    resets = [place for place, event in enumerate(found) if isinstance(event, AttemptReset)]
    return "".join([event.text for event in found[resets[-1] if resets else 0 :] if isinstance(event, TextDelta)])


async def test_the_first_model_answers_as_long_as_it_works() -> None:
    first, second = model("a", "one", "two"), model("b")
    chat = build(first, second)
    assert [await answer(chat), await answer(chat)] == ["one", "two"]
    assert asked(first, second) == [2, 0]


def test_a_router_has_the_methods_that_all_models_have() -> None:
    full = model("a")
    assert type(Router([full, full])) is ChatEmbeddingsRouter
    assert type(Router([full, Completer(full)])) is CompletionRouter
    assert type(Router([Embedder("a", "m"), full])) is EmbeddingsRouter
    assert not hasattr(Router([full, Completer(full)]), "stream")


@pytest.mark.parametrize("models", [[], "claude", [Embedder("a", "m"), Completer(model("b"))]])
def test_models_without_a_common_method_are_refused(models: Any) -> None:
    with pytest.raises(UsageError, match=r"Router\(\) needs"):
        Router(models)


def test_a_router_describes_its_models() -> None:
    one = model("a", model="x", abilities=Abilities(images=True, audio=False, context_window=10), max_embedding_batch=9)
    two = model("b", model="y", abilities=Abilities(images=False, audio=False, tools=None), description="for code")
    router = Router([one, two])
    assert (router.metadata.name, router.metadata.model, router.metadata.description) == ("router", "x, y", "for code")
    assert router.metadata.abilities == Abilities(images=True, audio=False, context_window=10)
    assert router.metadata.max_embedding_batch == 9
    assert repr(router) == "ChatEmbeddingsRouter(['a/x', 'b/y'])"


def test_models_with_equal_names_are_numbered() -> None:
    router = Router([model("a"), model("a"), model("a")])
    assert [item.name for item in router.candidates] == ["a/m", "a/m#2", "a/m#3"]


MENDABLE = [
    NetworkError("down"),
    RateLimitedError("slow down", retry_after=3600),
    OverloadedError("busy"),
    ServerError("oops"),
    QuotaExceededError("empty"),
    AuthenticationError("wrong key"),
    ContextLengthError("too long"),
]


@pytest.mark.parametrize("error", MENDABLE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("streamed", [False, True], ids=["complete", "stream"])
async def test_another_model_answers_after_an_error_that_it_may_not_have(error: ChatError, *, streamed: bool) -> None:
    first, second = model("a", error), model("b", "there")
    chat = build(first, second)
    found = text_since_reset(await events(chat)) if streamed else await answer(chat)
    assert found == "there"
    assert asked(first, second) == [1, 1]


@pytest.mark.parametrize("error", [InvalidRequestError("bad"), ContentFilteredError("no"), UsageError("wrong")])
async def test_no_other_model_is_asked_after_an_error_that_concerns_the_request(error: ChatError) -> None:
    first, second = model("a", error), model("b", "there")
    with pytest.raises(type(error)):
        await answer(build(first, second))
    assert asked(first, second) == [1, 0]
    assert not error.fallback


async def test_the_classes_of_errors_can_be_chosen() -> None:
    first, second = model("a", ContentFilteredError("no"), QuotaExceededError("empty")), model("b", "there")
    chat = build(first, second, fallback_errors=(ContentFilteredError,))
    assert await answer(chat) == "there"
    with pytest.raises(QuotaExceededError):
        await answer(chat)


async def test_a_model_that_breaks_in_mid_stream_is_replaced_after_a_reset() -> None:
    first = model("a", Answer(["one two three"], fail_after=2, error=NetworkError("cut")))
    second = model("b", "quite another text")
    messages = Messages.from_user("hi")
    found = await events(build(first, second), messages)
    assert [event.reason for event in found if isinstance(event, AttemptReset)] == ["cut"]
    assert text_since_reset(found) == "quite another text"
    assert messages.contents[-1].turns[-1].text == "quite another text"
    done: Any = found[-1]
    assert isinstance(done, Done)
    assert messages.usage == Usage(20, 10)


async def test_a_truncated_stream_counts_as_a_failure_of_its_model() -> None:
    first, second = model("a", Answer(["one two"], fail_after=1)), model("b", "there")
    router = Router([first, second], breaker=Breaker(failures=1))
    chat = ChatBuilder().with_model(router).with_retry(NO_WAIT).build()
    assert text_since_reset(await events(chat)) == "there"
    assert candidate(router, "a").health == "open"


async def test_a_stream_that_is_left_counts_neither_as_success_nor_as_failure() -> None:
    clock = Clock()
    first = model("a", NetworkError("down"), "one two three", "four")
    router = Router([first, model("b", "there")], breaker=Breaker(1, clock=clock))
    chat = ChatBuilder().with_model(router).with_retry(NO_WAIT).build()
    assert await answer(chat) == "there"
    clock.advance(30)
    async with chat.stream(Messages.from_user("hi")) as run:
        await anext(aiter(run))
    assert first.open_streams == 0
    assert candidate(router, "a").health == "half-open"
    assert await answer(chat) == "four"
    assert candidate(router, "a").health == "closed"


async def test_retries_and_fallbacks_share_one_budget() -> None:
    models = [model(name, NetworkError(name), NetworkError(name)) for name in "abcd"]
    with pytest.raises(NetworkError) as caught:
        await answer(build(*models, retry=Retry(times=2, base=0.0)))
    assert asked(*models) == [1, 1, 1, 0]
    assert caught.value.attempts == 3


async def test_an_error_lists_all_attempts() -> None:
    spent = Answer(["x"], error=NetworkError("cut"), fail_after=1, usage=Usage(7, 3))
    first, second = model("a", spent), model("b", AuthenticationError("wrong key"))
    with pytest.raises(AuthenticationError) as caught:
        await events(build(first, second, retry=Retry(times=1, after_delivery=True)))
    error = caught.value
    story = [*error.earlier, error]
    assert [(type(item), item.metadata and item.metadata.provider) for item in story] == [
        (NetworkError, "a"),
        (AuthenticationError, "b"),
    ]
    assert [item.usage for item in error.earlier] == [Usage(7, 3)]
    assert error.usage == Usage(7, 3)
    assert not error.retryable


async def test_a_model_with_a_lasting_error_is_not_asked_twice_in_a_call() -> None:
    first, second = model("a", NetworkError("down"), "back again"), model("b", AuthenticationError("wrong key"))
    assert await answer(build(first, second)) == "back again"
    assert asked(first, second) == [2, 1]


async def test_all_models_are_asked_before_one_is_asked_again() -> None:
    first, second = model("a", NetworkError("1"), "three"), model("b", NetworkError("2"))
    assert await answer(build(first, second)) == "three"
    assert asked(first, second) == [2, 1]


async def test_a_failing_model_is_asked_once_per_recovery_time() -> None:
    clock = Clock()
    dead = model("dead", *[NetworkError(str(number)) for number in range(9)])
    alive = model("alive", *["yes"] * 50)
    router = Router([dead, alive], breaker=Breaker(3, 30, clock=clock))
    chat = ChatBuilder().with_model(router).with_retry(NO_WAIT).build()
    counts: list[int] = []
    for _ in range(4):
        for _ in range(10):
            assert await answer(chat) == "yes"
        counts.append(len(dead.asked))
        clock.advance(30)
    assert counts == [3, 4, 5, 6]


async def test_one_test_request_passes_under_a_hundred_concurrent_calls() -> None:
    clock, release = Clock(), anyio.Event()
    sick = model("sick", NetworkError("down"), Answer(["well again"], before=release.wait), *["well again"] * 3)
    other = model("other", *["busy"] * 200)
    router = Router([sick, other], breaker=Breaker(1, 30, clock=clock))
    chat = ChatBuilder().with_model(router).with_retry(NO_WAIT).build()
    assert await answer(chat) == "busy"
    clock.advance(30)
    answers: list[str] = []

    async def ask() -> None:
        answers.append(await answer(chat))
        if len(answers) == 99:
            release.set()

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(ask)
    assert len(sick.asked) == 2
    assert sorted(answers) == ["busy"] * 99 + ["well again"]
    assert await answer(chat) == "well again"


async def test_a_request_waits_for_the_recovery_if_no_model_is_asked() -> None:
    clock = Clock()
    only = model("only", NetworkError("down"), "up")
    router = Router([only], breaker=Breaker(1, 30, clock=clock))
    direct = ChatBuilder().with_model(router).with_retry(0).build()
    with pytest.raises(NetworkError):
        await answer(direct)
    with pytest.raises(NoModelAvailableError, match=r"only/m \(open\)") as caught:
        await answer(direct)
    assert (caught.value.retryable, caught.value.retry_after) == (True, 30)
    waits: list[float] = []

    def strategy(attempt: Any) -> float:
        waits.append(attempt.delay)
        clock.advance(attempt.delay)
        return 0.0

    chat = ChatBuilder().with_model(router).with_retry(Retry(strategy=strategy)).build()
    assert await answer(chat) == "up"
    assert waits == [30]


async def test_no_call_uses_a_model_during_its_retry_delay() -> None:
    clock = Clock()
    limited = model("limited", RateLimitedError("slow down", retry_after=20), "back")
    other = model("other", "one", "two")
    chat = build(limited, other, breaker=Breaker(clock=clock))
    assert [await answer(chat), await answer(chat)] == ["one", "two"]
    clock.advance(20)
    assert await answer(chat) == "back"


async def test_the_results_of_tools_reach_the_model_that_takes_over() -> None:
    tools = ToolCollection()
    ran: list[int] = []

    @tools.tool
    def double(number: int) -> int:
        """Double a number."""
        ran.append(number)
        return 2 * number

    first = model("a", FunctionCall("double", {"number": 4}, id="call_1"), NetworkError("down"))
    second = model("b", "It is 8.")
    chat = ChatBuilder().with_model(Router([first, second])).with_tools(tools).with_retry(NO_WAIT).build()
    assert (await chat.complete(Messages.from_user("Double 4."))).text == "It is 8."
    assert ran == [4]
    assert second.asked[0].messages.contents[-1].turns[-1].tools[0].result_text() == "8"


async def test_the_second_model_returns_the_structured_output() -> None:
    first, second = model("a", OverloadedError("busy")), model("b", '{"value": [1, 2]}')
    router = Router([first, second])
    chat = ChatBuilder().with_model(router).with_structured_output(list[int]).with_retry(NO_WAIT).build()
    assert (await chat.complete(Messages.from_user("Count."))).value == [1, 2]
    assert second.asked[0].structured_output is not None


async def test_a_router_in_a_router_tries_its_own_models_first() -> None:
    one, two, three = model("a", NetworkError("1")), model("b", NetworkError("2")), model("c", "three")
    assert await answer(build(Router([one, two]), three)) == "three"
    assert asked(one, two, three) == [1, 1, 1]


async def test_embeddings_fall_back_to_another_server_of_the_model() -> None:
    def refuse(_text: str) -> Sequence[float]:
        raise NetworkError("down")

    def measure(text: str) -> Sequence[float]:
        return (float(len(text)), 1.0)

    first, second = model("eu", vectors=refuse), model("us", vectors=measure)
    chat = ChatBuilder().with_model(Router([first, second])).with_embeddings().with_retry(NO_WAIT).build()
    assert (await chat.embed(["abc"])).vectors == ((3.0, 1.0),)


def test_servers_of_different_embedding_models_are_refused() -> None:
    with pytest.raises(UsageError, match="equal models only"):
        Router([Embedder("a", "small"), Embedder("b", "large")])
    with pytest.raises(UsageError, match="equal models only"):
        Router([Embedder("a", "small", 256), Embedder("b", "small", 512)])


async def test_chat_models_that_differ_complete_and_do_not_embed() -> None:
    first = model("a", "yes", model="small")
    router = Router([first, model("b", model="large")])
    assert await answer(ChatBuilder().with_model(router).build()) == "yes"
    with pytest.raises(UsageError, match="equal models only"):
        await ChatBuilder().with_model(router).with_embeddings().build().embed(["abc"])


async def test_a_strategy_of_your_own_orders_the_models() -> None:
    seen: list[RouteRequest] = []

    def longest_last(request: RouteRequest) -> Sequence[Candidate]:
        seen.append(request)
        return request.candidates[::-1]

    first, second = model("a"), model("b", "there")
    assert await answer(build(first, second, choose=longest_last), "hi") == "there"
    assert seen[0].question == "hi"
    assert [item.name for item in seen[0].candidates] == ["a/m", "b/m"]


async def test_an_error_of_a_strategy_reaches_the_caller_and_nothing_is_sent() -> None:
    def broken(request: RouteRequest) -> Sequence[Candidate]:
        raise LookupError(request.question)

    only = model("a", "there")
    with pytest.raises(LookupError, match="hi"):
        await answer(build(only, choose=broken))
    assert asked(only) == [0]
