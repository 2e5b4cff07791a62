"""llmock breaks streams after each chunk: a partial response is never accepted, and its tools do not run."""

from __future__ import annotations

import pytest
from chat_core import ChatBuilder, ChatOptions, Messages, Paused, Retry
from chat_core.errors import ChatError, InvalidResponseError, NetworkError, RequestTimeoutError, StreamTruncatedError
from chat_core.events import AttemptReset
from chat_core.messages import Completed, Failed, Part
from chat_transport_httpx import HttpxTransport

from .asking import AT_ONCE, WAYS, Till, Way, listen, run, text_of, tools_of
from .peers import Json, Llmock

pytestmark = pytest.mark.anyio

TEXT = "The Loire is long."
SAY: Json = {"type": "reply", "text": TEXT}
PAY: Json = {"type": "reply", "text": "I pay.", "tool_calls": [{"name": "pay", "arguments": {"cents": 123456}}]}
PAY_CHUNKS = 9
"""Of `PAY`: the role, two words, the name, two pieces of arguments, the finish reason, the usage and the end."""
FINISH = 6
"""The chunk with the finish reason: an answer of which no more than this came is whole."""

FAULTS: dict[str, type[ChatError]] = {
    "disconnect": NetworkError,
    "truncate": StreamTruncatedError,
    "malformed": InvalidResponseError,
}


def fault(kind: str, after: int, **more: object) -> Json:
    return {"type": "stream_fault", "kind": kind, "after_chunks": after, **more}


def history(messages: Messages) -> list[tuple[str, list[Part]]]:
    """Return what a provider would receive: everything but the usage of failed requests."""
    return [(content.role, content.parts) for content in messages]


@pytest.mark.parametrize("after", range(PAY_CHUNKS))
@pytest.mark.parametrize("kind", FAULTS)
async def test_a_stream_broken_at_any_chunk_raises_and_runs_no_tool(
    llmock: Llmock, transport: HttpxTransport, kind: str, after: int
) -> None:
    llmock.order(PAY, fault(kind, after))
    till = Till()
    messages = Messages.from_user("Pay.")
    before = history(messages)
    heard: list[object] = []

    if kind == "truncate" and after > FINISH:
        assert (await run(till.chat(llmock.model(transport).build()), messages)).text
        assert till.paid == [123456]
        return
    with pytest.raises(FAULTS[kind]) as caught:
        await listen(till.chat(llmock.model(transport).build()), messages, heard)

    error = caught.value
    assert type(error) is FAULTS[kind]
    assert error.retryable is (kind != "malformed")
    assert error.partial is not None
    assert error.partial.text == text_of(heard) == "I pay."[: (0, 0, 2, 6)[min(after, 3)]]
    assert till.paid == []
    assert history(messages) == before
    (request,) = llmock.requests()
    assert request["fault"] == f"stream:{kind}@{after}"


@pytest.mark.parametrize("kind", ["disconnect", "truncate"])
async def test_a_stream_broken_before_its_first_event_is_retried_without_a_reset(
    llmock: Llmock, transport: HttpxTransport, kind: str
) -> None:
    llmock.order({**SAY, "times": 3}, fault(kind, 0), fault(kind, 1))
    chat = ChatBuilder().with_model(llmock.model(transport).build()).with_retry(AT_ONCE).build()
    heard: list[object] = []

    response = await listen(chat, Messages.from_user("Speak."), heard)

    assert response.text == text_of(heard) == TEXT
    assert not any(isinstance(event, AttemptReset) for event in heard)
    assert [request["completed"] for request in llmock.requests()] == [False, False, True]


@pytest.mark.parametrize("kind", ["disconnect", "truncate"])
async def test_a_broken_stream_is_restarted_only_with_after_delivery(
    llmock: Llmock, transport: HttpxTransport, kind: str
) -> None:
    model = llmock.model(transport).build()
    again = Retry(after_delivery=True, jitter=lambda _low, _high: 0)
    llmock.order({**SAY, "times": 4}, fault(kind, 3, times=2))
    heard: list[object] = []

    with pytest.raises(FAULTS[kind]) as caught:
        await run(ChatBuilder().with_model(model).with_retry(AT_ONCE).build(), Messages.from_user("Speak."))
    response = await listen(
        ChatBuilder().with_model(model).with_retry(again).build(), Messages.from_user("Speak again."), heard
    )

    assert caught.value.attempts == 1
    assert response.text == text_of(heard) == TEXT
    (reset,) = [event for event in heard if isinstance(event, AttemptReset)]
    assert reset.attempt == 2
    assert reset.reason


@pytest.mark.parametrize("after", [0, 2, 5])
async def test_a_stalled_stream_raises_a_timeout(llmock: Llmock, transport: HttpxTransport, after: int) -> None:
    llmock.order(PAY, fault("stall", after, stall_seconds=60))
    till = Till()
    messages = Messages.from_user("Pay.")
    before = history(messages)

    with pytest.raises(RequestTimeoutError) as caught:
        await run(till.chat(llmock.model(transport).build()), messages, options=ChatOptions(timeout=0.2))

    assert caught.value.retryable
    assert caught.value.partial is not None
    assert till.paid == []
    assert history(messages) == before
    assert llmock.findings() == []


async def test_a_missing_first_token_raises_a_timeout_and_is_retried(llmock: Llmock, transport: HttpxTransport) -> None:
    llmock.order({**SAY, "times": 9}, {"type": "slow_first_token", "seconds": 60})
    chat = ChatBuilder().with_model(llmock.model(transport).build()).with_options(ChatOptions(timeout=0.2))
    often = Retry(times=8, jitter=lambda _low, _high: 0)  # on a busy machine, more responses than one may be late

    assert (await run(chat.with_retry(often).build(), Messages.from_user("Speak."))).text == TEXT
    first, *_, last = (request["completed"] for request in llmock.requests())
    assert (first, last) == (False, True)


async def test_closing_a_stream_early_closes_its_request(llmock: Llmock, transport: HttpxTransport) -> None:
    llmock.order({**SAY, "times": 2}, fault("stall", 3, stall_seconds=60))
    chat = ChatBuilder().with_model(llmock.model(transport).build()).build()
    messages = Messages.from_user("Speak.")

    async with chat.stream(messages) as stream:
        async for text in stream.text():
            assert text.strip()
            break
    response = await run(chat, messages)

    assert response.text == TEXT
    first, second = llmock.requests()
    assert not first["completed"], "the server has seen that nobody listens"
    assert second["completed"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kind", "words"), [("malformed_arguments", "JSON"), ("unknown_tool", "no tool")])
async def test_an_invalid_call_is_reported_to_the_model_and_the_run_continues(
    llmock: Llmock, transport: HttpxTransport, way: Way, kind: str, words: str
) -> None:
    llmock.order({"type": "tool_fault", "kind": kind})
    till = Till()
    messages = Messages.from_user("Pay.")

    response = await run(till.chat(llmock.model(transport).build()), messages, way)

    assert response.text
    assert till.paid == []
    (tool,) = tools_of(messages)
    assert isinstance(tool.status, Failed)
    assert words in tool.status.error
    told = llmock.requests()[-1]["body"]["messages"][-1]
    assert (told["role"], told["content"]) == ("tool", tool.status.error)


@pytest.mark.parametrize("way", WAYS)
async def test_the_policy_is_not_called_for_an_invalid_call(
    llmock: Llmock, transport: HttpxTransport, way: Way
) -> None:
    llmock.order({"type": "tool_fault", "kind": "malformed_arguments"})
    till = Till()

    response = await run(till.asking_chat(llmock.model(transport).build()), Messages.from_user("Pay."), way)

    assert not isinstance(response, Paused)
    assert response.text


@pytest.mark.parametrize("way", WAYS)
async def test_calls_of_an_answer_truncated_by_length_do_not_run(
    llmock: Llmock, transport: HttpxTransport, way: Way
) -> None:
    llmock.order({**PAY, "finish_reason": "length"}, SAY)
    till = Till()
    messages = Messages.from_user("Pay.")

    response = await run(till.chat(llmock.model(transport).build()), messages, way)

    assert response.text == TEXT
    assert till.paid == []
    (tool,) = tools_of(messages)
    assert isinstance(tool.status, Failed)


async def test_an_approved_call_runs_once_if_the_next_stream_breaks(llmock: Llmock, transport: HttpxTransport) -> None:
    till = Till()
    chat = till.asking_chat(llmock.model(transport).build())
    messages = Messages.from_user("Pay.")
    llmock.order(PAY)
    paused = await run(chat, messages)
    assert isinstance(paused, Paused)
    messages.tool(paused.waiting[0].tool_id).approve()
    llmock.order(fault("truncate", 2))

    with pytest.raises(StreamTruncatedError):
        await run(chat, messages)
    stored = Messages.from_json(messages.to_json())
    response = await run(chat, stored)

    assert not isinstance(response, Paused)
    assert response.text
    assert till.paid == [123456]
    assert [tool.status for tool in tools_of(stored)] == [Completed("paid 123456")]


@pytest.mark.parametrize("way", WAYS)
async def test_random_faults_never_run_a_call_twice(stormy_llmock: Llmock, transport: HttpxTransport, way: Way) -> None:
    model = stormy_llmock.model(transport).build()
    again = Retry(times=1, after_delivery=True, jitter=lambda _low, _high: 0, strategy=lambda _attempt: 0.0)
    ends: list[str] = []
    for conversations in range(1_000):
        # The server draws its faults at random: 25 conversations of whole responses meet none in one run of twenty.
        if conversations >= 25 and len(set(ends)) > 1:
            break
        till = Till()
        messages = Messages.from_user("Pay the bill.")
        for _ in range(20):
            try:
                response = await run(till.chat(model, again), messages, way)
            except ChatError as error:
                ends.append(type(error).__name__)
                messages = Messages.from_json(messages.to_json())
            else:
                ends.append("answer")
                assert response.text
                break
        calls = tools_of(messages)
        assert [type(tool.status) for tool in calls] == [Completed]
        assert len(till.paid) == 1
    assert ends.count("answer") >= 25
    assert len(set(ends)) > 1, "the server has sent no fault"
