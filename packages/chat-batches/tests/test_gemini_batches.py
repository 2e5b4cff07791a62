"""Batches of Gemini, inline and by file, with a server that behaves as documented."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from batch_helpers import City, batches_of, get_time, questions, read
from batch_servers import GeminiServer, Json
from chat_batches import Batches
from chat_core import (
    BatchCancelledError,
    BatchExpiredError,
    ChatBuilder,
    InvalidRequestError,
    InvalidResponseError,
    Messages,
    RateLimitedError,
    ToolCollection,
    UnsupportedOptionError,
    Usage,
)
from chat_gemini import GeminiBuilder, GeminiProvider

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["inline", "file"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set the form in which requests are submitted, inline or as a file, and return it."""
    if request.param == "file":
        monkeypatch.setattr("chat_gemini.batches.MAX_INLINE_BYTES", 0)
    return str(request.param)


async def test_a_batch_is_answered_inline_and_by_file(
    gemini: GeminiProvider, gemini_server: GeminiServer, form: str
) -> None:
    batches = batches_of(gemini)
    gemini_server.errors = {1}
    handle = await batches.submit(questions(3))
    await batches.wait(handle)
    found = await read(batches, handle)

    assert gemini_server.batches[0].extra["by_file"] == (form == "file")
    assert list(found) == (["chat 0", "chat 1", "chat 2"] if form == "inline" else ["chat 2", "chat 1", "chat 0"])
    assert isinstance(found["chat 1"].error, RateLimitedError)
    assert found["chat 2"].usage == Usage(7, 2)
    assert (await batches.answer(Messages.from_user("Question 0?"), found["chat 0"])).text == "Answer 0."


async def test_the_body_of_each_request_equals_the_body_of_the_chat(
    gemini: GeminiProvider, gemini_server: GeminiServer, form: str
) -> None:
    tools = ToolCollection()
    tools.tool(get_time)
    builder = ChatBuilder().with_model(gemini).with_instructions("Be brief.").with_tools(tools)
    chat = builder.with_structured_output(City).build()
    gemini_server.answer = lambda _id, _body: '{"name": "Paris"}'
    messages = Messages.from_user("Which city?")
    await Batches(chat, gemini).submit({"a": messages})

    assert (await chat.complete(messages)).value == City(name="Paris")
    assert list(gemini_server.batches[0].requests.values()) == gemini_server.used, form


async def test_inline_responses_without_a_key_are_in_the_order_of_the_requests(
    gemini: GeminiProvider, gemini_server: GeminiServer
) -> None:
    gemini_server.keys = False
    batches = batches_of(gemini)
    handle = await batches.submit(questions(2))
    await batches.wait(handle)
    found = await read(batches, handle)
    response = await batches.answer(Messages.from_user("Question 1?"), found["chat 1"])
    assert response.text == "Answer 1."


async def test_a_cancelled_batch_has_an_error_for_each_request(gemini: GeminiProvider) -> None:
    batches = batches_of(gemini)
    handle = await batches.submit(questions(2))
    await batches.cancel(handle)
    assert (await batches.wait(handle)).outcome == "cancelled"
    found = await read(batches, handle)
    assert [type(result.error) for result in found.values()] == [BatchCancelledError] * 2


async def test_an_expired_batch_has_an_error_for_each_request(
    gemini: GeminiProvider, gemini_server: GeminiServer
) -> None:
    gemini_server.state = "EXPIRED"
    batches = batches_of(gemini)
    handle = await batches.submit(questions(2))
    await batches.wait(handle)
    found = await read(batches, handle)
    assert [type(result.error) for result in found.values()] == [BatchExpiredError] * 2


async def test_a_failed_batch_is_an_error(gemini: GeminiProvider, gemini_server: GeminiServer) -> None:
    gemini_server.state = "FAILED"
    batches = batches_of(gemini)
    handle = await batches.submit(questions(1))
    await batches.wait(handle)
    with pytest.raises(InvalidRequestError, match="The file is invalid"):
        await read(batches, handle)


async def test_a_batch_is_found_by_its_name_on_any_page_of_the_list(
    gemini: GeminiProvider, gemini_server: GeminiServer
) -> None:
    for _ in range(150):
        gemini_server.add({}, name="other")
    handle = await batches_of(gemini).submit(questions(1))
    since = datetime(2026, 1, 1, tzinfo=UTC)
    assert await gemini.find_batch([], name=handle.batch.name, size=1, since=since) == handle.batch
    assert await gemini.find_batch([], name="unknown", size=1, since=since) is None


@pytest.mark.parametrize(
    ("host", "message"), [("elsewhere.example", "but is on another host"), ("[", "the upload URL is not a valid URL")]
)
async def test_a_file_is_not_uploaded_to_another_host(
    gemini: GeminiProvider, gemini_server: GeminiServer, monkeypatch: pytest.MonkeyPatch, host: str, message: str
) -> None:
    monkeypatch.setattr("chat_gemini.batches.MAX_INLINE_BYTES", 0)
    gemini_server.upload_host = host
    with pytest.raises(InvalidResponseError, match=message):
        await batches_of(gemini).submit(questions(1))
    assert not gemini_server.files


async def test_an_answer_with_a_tool_call_continues_as_an_ordinary_run(
    gemini: GeminiProvider, gemini_server: GeminiServer
) -> None:
    def answer(_id: str, body: Json) -> str | Json:
        parts = [
            part["functionResponse"]
            for item in body["contents"]
            for part in item["parts"]
            if len(part) == 1 and "functionResponse" in part
        ]
        return str(parts[0]["response"]) if parts else {"name": "get_time", "args": {"city": "Oslo"}}

    tools = ToolCollection()
    tools.tool(get_time)
    gemini_server.answer = answer
    batches = Batches(ChatBuilder().with_model(gemini).with_tools(tools).build(), gemini)
    messages = Messages.from_user("What time is it in Oslo?")
    handle = await batches.submit({"a": messages})
    await batches.wait(handle)
    response = await batches.answer(messages, (await read(batches, handle))["a"])
    assert "12:00 in Oslo" in response.text


async def test_vertex_ai_has_no_batches() -> None:
    model = GeminiBuilder().with_vertex("project").with_model("m").with_token("t").build()
    with pytest.raises(UnsupportedOptionError, match="Gemini API"):
        await batches_of(model).submit(questions(1))
