from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest
from batch_servers import ClaudeServer, GeminiServer, OpenAIServer
from chat_claude import ClaudeBuilder, ClaudeProvider
from chat_gemini import GeminiBuilder, GeminiProvider
from chat_openai import OpenAIBuilder, OpenAICompletionsProvider, OpenAIProvider
from chat_testing import LoopbackServer


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def claude_server() -> ClaudeServer:
    return ClaudeServer()


@pytest.fixture
def claude(claude_server: ClaudeServer) -> Iterator[ClaudeProvider]:
    with LoopbackServer(claude_server) as running:
        yield ClaudeBuilder().with_base_url(f"http://{running.host}").with_model("claude-x").with_api_key("k").build()


@pytest.fixture
def openai_server() -> OpenAIServer:
    return OpenAIServer()


@pytest.fixture
def openai(openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIProvider]:
    with LoopbackServer(openai_server) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://{running.host}/v1")
        yield OpenAIBuilder().with_model("gpt-x").with_api_key("k").build()


@pytest.fixture
def completions(openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAICompletionsProvider]:
    with LoopbackServer(openai_server) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://{running.host}/v1")
        yield OpenAIBuilder().with_completions().with_model("gpt-x").with_api_key("k").build()


@pytest.fixture
def gemini_server() -> GeminiServer:
    return GeminiServer()


@pytest.fixture
def gemini(gemini_server: GeminiServer) -> Iterator[GeminiProvider]:
    with LoopbackServer(gemini_server) as running:
        url = f"http://{running.host}/v1beta"
        yield GeminiBuilder().with_base_url(url).with_model("gemini-x").with_api_key("k").build()


@pytest.fixture(autouse=True)
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the delays between polls, which take no time in tests."""
    found: list[float] = []
    sleep = anyio.sleep

    async def note(delay: float) -> None:
        found.append(delay)
        await sleep(0)

    monkeypatch.setattr("chat_batches.batches.anyio.sleep", note)
    return found
