"""Errors that a server reports with status 200 contain no credentials of the request."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from chat_claude import ClaudeBuilder
from chat_completions import CompletionsBuilder
from chat_core.errors import ChatError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, CompletionProvider
from chat_core.testing import MockTransport
from chat_gemini import GeminiBuilder
from chat_responses import ResponsesBuilder

pytestmark = pytest.mark.anyio
SECRET = "in-no-message-7"
PROVIDERS: dict[str, Callable[[MockTransport], CompletionProvider]] = {
    "claude": lambda mock: ClaudeBuilder().with_model("m").with_api_key(SECRET).with_transport(mock).build(),
    "completions": lambda mock: CompletionsBuilder().with_model("m").with_api_key(SECRET).with_transport(mock).build(),
    "gemini": lambda mock: GeminiBuilder().with_model("m").with_api_key(SECRET).with_transport(mock).build(),
    "responses": lambda mock: ResponsesBuilder().with_model("m").with_api_key(SECRET).with_transport(mock).build(),
}


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize(
    "body",
    [{"type": "error", "error": {"type": "invalid_key", "code": 400, "message": f"wrong key {SECRET}"}}, {"a": SECRET}],
    ids=["error", "no-answer"],
)
async def test_an_error_with_status_200_does_not_show_credentials(name: str, body: dict[str, object]) -> None:
    transport = MockTransport()
    transport.answer(200, {"content-type": "application/json"}, body)
    with pytest.raises(ChatError) as caught:
        await PROVIDERS[name](transport).complete(Messages.from_user("hi"), NO_TOOLS, ChatOptions(), None)

    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in f"{error!r} {error} {vars(error)!r}"
        error = error.__cause__ or error.__context__
