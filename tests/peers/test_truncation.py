"""Results of streams that end too early, and the page that compares them with other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from chat_claude import ClaudeBuilder
from chat_completions import CompletionsBuilder
from chat_core import ChatBuilder, Messages, ToolCollection
from chat_core.errors import ChatError, StreamTruncatedError
from chat_core.provider import ChatProvider
from chat_core.transport import Transport
from chat_gemini import GeminiBuilder
from chat_responses import ResponsesBuilder
from chat_transport_httpx import HttpxTransport

from .bodies import CASES, RESULT, WIRES, serving

pytestmark = pytest.mark.anyio

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "comparison.md"


@pytest.fixture(scope="module")
def transport() -> Transport:
    """Return a transport for all tests, because each client creates a TLS context, which is slow."""
    return HttpxTransport(verify=False)


def provider(wire: str, base: str, transport: Transport) -> ChatProvider:
    if wire == "messages":
        return ClaudeBuilder().with_model("m").with_base_url(base).with_api_key("k").with_transport(transport).build()
    if wire == "generate-content":
        return GeminiBuilder().with_model("m").with_base_url(base).with_api_key("k").with_transport(transport).build()
    if wire == "responses":
        return ResponsesBuilder().with_model("m").with_base_url(base).with_transport(transport).build()
    return CompletionsBuilder().with_model("m").with_base_url(base).with_transport(transport).build()


async def verdict(wire: str, base: str, transport: Transport) -> tuple[str, ChatError | None]:
    """Return the result of one stream in the words of the page, and the error."""
    tools = ToolCollection()
    ran: list[str] = []

    @tools.tool
    async def delete(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return RESULT

    chat = ChatBuilder().with_model(provider(wire, base, transport)).with_tools(tools).with_retry(0).build()
    error: ChatError | None = None
    try:
        async with chat.stream(Messages.from_user("go")) as events:
            async for _ in events:
                pass
    except ChatError as caught:
        error = caught
    if ran:
        return ("**run**" if ran == ["/tmp/a"] else f"**run** with `{ran[0]}`"), error  # noqa: S108 - a word
    return (type(error).__name__ if error else "success"), error


@pytest.mark.parametrize("wire", WIRES)
async def test_a_stream_that_ends_too_early_is_no_answer_and_runs_nothing(wire: str, transport: Transport) -> None:
    with serving() as base:
        for index, case in enumerate(CASES):
            said, error = await verdict(wire, f"{base}/{wire}/{index}", transport)
            if case == "control":
                assert said == "**run**"
            elif case.startswith("cut") or (wire == "generate-content" and case == "length, cut call"):
                assert isinstance(error, StreamTruncatedError), f"{case}: {said}"
                assert error.retryable
                assert error.partial is not None
            else:
                assert not said.startswith("**run**"), case


@pytest.mark.parametrize("wire", WIRES)
async def test_the_comparison_page_shows_what_happens(wire: str, transport: Transport) -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| this library | {wire} |")]
    with serving() as base:
        cells = [(await verdict(wire, f"{base}/{wire}/{index}", transport))[0] for index in range(len(CASES))]

    assert rows == [f"| this library | {wire} | {' | '.join(cells)} |"]
