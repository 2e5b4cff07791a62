"""Tests with the bundled weights. All tests share one loaded model."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Generator

import anyio
import pytest
from chat_completions import CompletionsProvider
from chat_core import (
    ChatBuilder,
    ChatOptions,
    Messages,
    NamedTool,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
)
from chat_core.errors import ContextLengthError, InvalidRequestError
from chat_core.events import Done, TextDelta, ToolCallDelta
from chat_core.messages import Completed, Failed
from chat_llamacpp import LlamaCppBuilder
from pydantic import BaseModel

pytestmark = pytest.mark.anyio

EXACT = ChatOptions(temperature=0, max_tokens=48)
on_both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


class Person(BaseModel):
    name: str
    age: int


class Address(BaseModel):
    street: str
    city: str


class Guest(BaseModel):
    name: str
    address: Address
    friends: list[Guest] = []


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def model() -> Generator[CompletionsProvider]:
    model = LlamaCppBuilder().with_bundled_model().with_context(1024).build()
    yield model
    anyio.run(model.aclose)


def payments() -> ToolCollection[None]:
    tools = ToolCollection()

    @tools.tool
    async def pay(to: str, cents: int) -> str:
        """Pay somebody money."""
        return f"paid {cents} cents to {to}"

    return tools


async def who(model: CompletionsProvider, text: str) -> Person:
    chat = ChatBuilder().with_model(model).with_options(EXACT).with_structured_output(Person).build()
    return (await chat.complete(Messages.from_user(text))).value


async def test_complete_and_stream_give_the_same_response(model: CompletionsProvider) -> None:
    chat = ChatBuilder().with_model(model).with_options(EXACT).build()
    whole = await chat.complete(Messages.from_user("What is the capital of France?"))
    async with chat.stream(Messages.from_user("What is the capital of France?")) as stream:
        events = [event async for event in stream]

    assert whole.text == "".join([event.text for event in events if isinstance(event, TextDelta)])
    assert isinstance(events[-1], Done)
    assert stream.response.usage.output_tokens == whole.usage.output_tokens > 0


async def test_top_k_limits_the_tokens_to_sample_from(model: CompletionsProvider) -> None:
    chat = ChatBuilder().with_model(model).build()
    question = Messages.from_user("Name a river in France.")
    greedy, limited = [
        await chat.complete(question.fork(), options=options)
        for options in (
            ChatOptions(temperature=0, max_tokens=8),
            ChatOptions(temperature=50, top_k=1, max_tokens=8),
        )
    ]

    assert limited.text == greedy.text


ENGLISH = (
    "Please tell me about the weather in Paris tomorrow, and whether I should take an umbrella or a coat with me. "
)
GERMAN = "Bitte überprüfen Sie die Rechnung für das Grundstück in Köln, bevor Sie die Überweisung veranlassen. "
CHINESE = "请告诉我明天北京的天气预报以及我是否需要带雨伞。"
CODE = """def count(items: list[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for item in items:
        found[item] = found.get(item, 0) + 1
    return found
"""
JSON = (
    '{"id": 7, "email": "u7@example.com", "balance": 93.59, "active": true, "created_at": "2026-03-01T12:00:00+00:00"}'
)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [(ENGLISH, 1.2, 2), (CODE, 1, 1.6), (JSON, 1, 1.6), (GERMAN, 0.8, 1.5), (CHINESE, 0.7, 1.3)],
    ids=["English", "code", "JSON", "German", "Chinese"],
)
async def test_token_estimates_are_close_to_the_count_of_a_small_vocabulary(
    text: str, least: float, most: float, model: CompletionsProvider
) -> None:
    chat = ChatBuilder().with_model(model).with_options(ChatOptions(temperature=0, max_tokens=1)).build()

    async def measure(text: str) -> tuple[int, int]:
        messages = Messages.from_user(text)
        estimate = (await chat.count_tokens(messages)).tokens
        return estimate, (await chat.complete(messages)).usage.input_tokens

    (short, short_counted), (long, counted) = await measure(text), await measure(text * 2)

    assert least <= (long - short) / (counted - short_counted) <= most


async def test_with_an_automatic_choice_the_model_calls_a_fitting_tool(model: CompletionsProvider) -> None:
    chat = ChatBuilder().with_model(model).with_options(EXACT).with_tools(payments()).build()
    messages = Messages.from_user("Pay 500 cents to Bo.")
    response = await chat.complete(messages)

    (tool,) = messages[1].tools
    assert (tool.name, dict(tool.call.arguments)) == ("pay", {"to": "Bo", "cents": 500})
    assert tool.status == Completed("paid 500 cents to Bo")
    assert "500" in response.text


async def test_with_an_automatic_choice_the_model_answers_without_a_tool(model: CompletionsProvider) -> None:
    chat = ChatBuilder().with_model(model).with_options(EXACT).with_tools(payments()).build()
    messages = Messages.from_user("What is the capital of France?")
    response = await chat.complete(messages)

    assert messages[1].tools == []
    assert "Paris" in response.text
    assert "{" not in response.text


@pytest.mark.parametrize("choice", ["required", NamedTool("invite")], ids=["required", "named"])
async def test_a_required_or_named_call_has_valid_arguments(model: CompletionsProvider, choice: object) -> None:
    invited: list[Guest] = []
    tools = ToolCollection()

    @tools.tool
    async def invite(guest: Guest) -> str:
        """Invite a guest."""
        invited.append(guest)
        return "invited"

    options = ChatOptions(temperature=0, max_tokens=120, tool_choice=choice)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - any of the choices
    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    chat = ChatBuilder().with_model(model).with_options(options).with_scoped_tools(scope).build()
    messages = Messages.from_user("Hello, who are you?")
    assert isinstance(await chat.complete(messages), Paused)

    (tool,) = messages[1].tools
    assert Guest.model_validate(tool.call.arguments["guest"]).address.city
    assert invited == []


async def test_structured_output_is_valid(model: CompletionsProvider) -> None:
    assert await who(model, "Anna is 31 years old.") == Person(name="Anna", age=31)


async def test_a_truncated_call_is_never_run(model: CompletionsProvider) -> None:
    options = ChatOptions(temperature=0, max_tokens=10, tool_choice="required")
    chat = ChatBuilder().with_model(model).with_options(options).with_tools(payments()).with_max_steps(1).build()
    messages = Messages.from_user("Pay 500 cents to Bo.")
    with pytest.raises(Exception, match="after 1 model call"):
        await chat.complete(messages)

    (tool,) = messages[1].tools
    assert isinstance(tool.status, Failed)
    assert messages[1].turns[0].finish_reason == "length"


async def test_a_conversation_that_is_too_long_raises_context_length_error(model: CompletionsProvider) -> None:
    chat = ChatBuilder().with_model(model).with_options(EXACT).build()

    with pytest.raises(ContextLengthError, match=r"exceeds the available context size \(1024 tokens\)"):
        await chat.complete(Messages.from_user("word " * 1100))


async def test_a_schema_that_cannot_be_enforced_is_reported_with_its_tool(model: CompletionsProvider) -> None:
    tools = ToolCollection()
    odd = {"type": "object", "properties": {"a": {"$ref": "#a"}}, "$defs": {"A": {"$anchor": "a", "type": "string"}}}
    tools.register("odd", odd, lambda _arguments: "")
    chat = ChatBuilder().with_model(model).with_options(EXACT).with_tools(tools).build()

    with pytest.raises(InvalidRequestError, match=r"the tool 'odd' .* \$ref '#a' does not resolve"):
        await chat.complete(Messages.from_user("Hi."))


@on_both_loops
async def test_leaving_a_stream_stops_decoding_and_the_next_request_succeeds(model: CompletionsProvider) -> None:
    chat = ChatBuilder().with_model(model).with_options(ChatOptions(max_tokens=800)).build()
    async with chat.stream(Messages.from_user("Write a very long story about a dog.")) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break

    for thread in threading.enumerate():
        if thread.name == "llama.cpp":
            thread.join(10)
    assert "llama.cpp" not in [thread.name for thread in threading.enumerate()]
    assert await who(model, "Anna is 31 years old.") == Person(name="Anna", age=31)


@on_both_loops
async def test_the_event_loop_is_not_blocked_while_the_model_decodes(model: CompletionsProvider) -> None:
    chat = ChatBuilder().with_model(model).with_options(EXACT).build()
    between: list[int] = []
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.001)
            ticks += 1

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        async with chat.stream(Messages.from_user("Name three rivers in France.")) as stream:
            async for _ in stream:
                between.append(ticks)
        group.cancel_scope.cancel()

    assert len(set(between)) > 3


@on_both_loops
async def test_concurrent_requests_do_not_mix(model: CompletionsProvider) -> None:
    answers: dict[str, Person] = {}

    async def ask(question: str) -> None:
        answers[question] = await who(model, question)

    async with anyio.create_task_group() as group:
        group.start_soon(ask, "Anna is 31 years old.")
        group.start_soon(ask, "Mia is 24 years old.")

    assert answers == {
        "Anna is 31 years old.": Person(name="Anna", age=31),
        "Mia is 24 years old.": Person(name="Mia", age=24),
    }


async def test_a_paused_run_resumes_from_json_with_the_approved_arguments(model: CompletionsProvider) -> None:
    scope = ScopedCollection(payments(), lambda _call, _meta: RequireApproval())
    chat = ChatBuilder().with_model(model).with_options(EXACT).with_scoped_tools(scope).build()
    messages = Messages.from_user("Pay 500 cents to Bo.")
    async with chat.stream(messages) as stream:
        events = [event async for event in stream]
    paused = events[-1]
    assert isinstance(paused, Paused)
    arguments = [event.arguments for event in events if isinstance(event, ToolCallDelta)]
    assert "".join(arguments) == '{"to": "Bo", "cents": 500}'
    assert len(arguments) > 2

    restored = Messages.from_json(messages.to_json())
    restored.tool(paused.waiting[0].tool_id).approve(by="ana", arguments={"to": "Bo", "cents": 300})
    response = await chat.complete(restored)

    assert not isinstance(response, Paused)
    assert restored.tool(paused.waiting[0].tool_id).status == Completed("paid 300 cents to Bo")
    assert "300" in response.text


async def test_embed_returns_vectors_in_the_order_of_the_texts(model: CompletionsProvider) -> None:
    chat = ChatBuilder().with_model(model).with_embeddings().build()
    vectors = (await chat.embed(["A river.", "Money.", "A river."])).vectors

    assert [len(vector) for vector in vectors] == [576, 576, 576]
    assert vectors[0] == vectors[2] != vectors[1]


def test_llama_cpp_prints_nothing_and_a_program_can_exit_while_decoding(tmp_path: object) -> None:
    program = textwrap.dedent("""
        import anyio, pathlib, sys
        from chat_core import ChatBuilder, Messages
        from chat_core.errors import ChatError
        from chat_llamacpp import LlamaCppBuilder

        async def main():
            weights = pathlib.Path(sys.argv[1], "broken.gguf")
            weights.write_bytes(b"no weights")
            broken = ChatBuilder().with_model(LlamaCppBuilder().with_model_path(weights).build()).build()
            try:
                await broken.complete(Messages.from_user("Hi."))
            except ChatError as error:
                print("refused" if "complete GGUF file" in str(error) else error)
            model = LlamaCppBuilder().with_bundled_model().build()
            chat = ChatBuilder().with_model(model).build()
            run = chat.stream(Messages.from_user("Write a very long story about a dog."))
            stream = await run.__aenter__()
            async for event in stream:
                print("said")
                sys.stdout.flush()
                loop.stop()  # the program ends without leaving anything in order

        import asyncio
        loop = asyncio.new_event_loop()
        loop.create_task(main())
        loop.run_forever()
    """)
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stdout.split()) == (0, ["refused", "said"])
    assert "llama" not in done.stderr
