"""Results of other libraries for streams that end too early. It needs an environment with these libraries:

    pip install "pydantic-ai-slim[openai,anthropic,google]" openai-agents
    pip install langchain langchain-openai langchain-anthropic langchain-google-genai
    python tests/peers/others.py

It prints the rows of `docs/comparison.md`, and uses only the loopback interface.
"""

# ruff: noqa: PLC0415, BLE001, S108
# pyright: basic, reportMissingImports=false
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from bodies import CASES, RESULT, WHOLE, serving

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

RAN: list[str] = []


def delete(path: str) -> str:
    """Delete a file."""
    RAN.append(path)
    return RESULT


def pydantic_ai(wire: str) -> Callable[[str], Awaitable[object]]:
    from pydantic_ai import Agent

    def model(base: str) -> Any:
        if wire == "messages":
            from anthropic import AsyncAnthropic
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            client = AsyncAnthropic(api_key="k", base_url=base, max_retries=0)
            return AnthropicModel("m", provider=AnthropicProvider(anthropic_client=client))
        if wire == "generate-content":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel("m", provider=GoogleProvider(api_key="k", base_url=base))
        from openai import AsyncOpenAI
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
        from pydantic_ai.providers.openai import OpenAIProvider

        kind = OpenAIChatModel if wire == "chat-completions" else OpenAIResponsesModel
        client = AsyncOpenAI(api_key="k", base_url=base, max_retries=0)
        return kind("m", provider=OpenAIProvider(openai_client=client))

    async def run(base: str) -> object:
        async def listen(_: object, events: Any) -> None:
            async for _event in events:
                pass

        agent = Agent(model(base), tools=[delete], retries=0)
        return (await agent.run("go", event_stream_handler=listen)).output

    return run


def openai_agents(wire: str) -> Callable[[str], Awaitable[object]]:
    from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
    from openai import AsyncOpenAI

    kind = OpenAIChatCompletionsModel if wire == "chat-completions" else OpenAIResponsesModel

    async def run(base: str) -> object:
        model = kind("m", openai_client=AsyncOpenAI(api_key="k", base_url=base, max_retries=0))
        result = Runner.run_streamed(Agent("a", model=model, tools=[function_tool(delete)]), "go")
        async for _ in result.stream_events():
            pass
        return result.final_output

    return run


def langchain(wire: str) -> Callable[[str], Awaitable[object]]:
    from langchain.agents import create_agent

    def model(base: str) -> Any:
        if wire == "messages":
            from langchain_anthropic import ChatAnthropic

            return ChatAnthropic(model="m", api_key="k", base_url=base, max_retries=0, streaming=True)
        if wire == "generate-content":
            from langchain_google_genai import ChatGoogleGenerativeAI

            return ChatGoogleGenerativeAI(model="m", api_key="k", base_url=base, max_retries=1)
        from langchain_openai import ChatOpenAI

        responses = wire == "responses"
        return ChatOpenAI(
            model="m", api_key="k", base_url=base, max_retries=0, streaming=True, use_responses_api=responses
        )

    async def run(base: str) -> object:
        said: list[Any] = []
        agent = create_agent(model(base), tools=[delete])
        async for message, _ in agent.astream({"messages": [("user", "go")]}, stream_mode="messages"):
            said.append(message)
        return "".join(str(message.content) for message in said)

    return run


STACKS: list[tuple[str, str, Callable[[str], Callable[[str], Awaitable[object]]]]] = [
    ("pydantic-ai-slim", "chat-completions", pydantic_ai),
    ("pydantic-ai-slim", "responses", pydantic_ai),
    ("pydantic-ai-slim", "messages", pydantic_ai),
    ("pydantic-ai-slim", "generate-content", pydantic_ai),
    ("openai-agents", "chat-completions", openai_agents),
    ("openai-agents", "responses", openai_agents),
    ("langchain", "chat-completions", langchain),
    ("langchain", "responses", langchain),
    ("langchain", "messages", langchain),
    ("langchain", "generate-content", langchain),
]


async def verdict(run: Callable[[str], Awaitable[object]], base: str) -> str:
    """Return the result of one stream."""
    RAN.clear()
    failure = ""
    try:
        await asyncio.wait_for(run(base), 30)
    except Exception as error:
        failure = type(error).__name__
    if RAN:
        return "**run**" if RAN[0] in WHOLE and RAN[0] == "/tmp/a" else f"**run** with `{RAN[0]}`"
    return failure or "success"


async def main() -> None:
    """Print a row for each stack and wire."""
    with serving() as base:
        for package, wire, make in STACKS:
            try:
                run = make(wire)
            except ImportError as error:
                print(f"{package}: not installed ({error})", file=sys.stderr)
                continue
            cells = [await verdict(run, f"{base}/{wire}/{index}") for index in range(len(CASES))]
            print(f"| {package} {version(package)} | {wire} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
