"""One client in a process of its own: does a slot of work when it is told to, and says what CPU time that took.

Usage: client.py {raw,chat} WORK PORT, then a line on standard input for each slot.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol, cast

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable

    from chat_core import Messages
    from chat_core.provider import ChatProvider

HISTORY = 1_000
CALLS = 20
EVENTS = 2_000
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": SCHEMA}}]
SENTENCE = "Tell me about the weather in Paris, and whether I need an umbrella today or not. "
ARGUMENTS = '{"city": "Paris"}'


class Client(Protocol):
    """What a client can be told to do. `prepare()` comes before each slot and is not counted."""

    def prepare(self) -> None:
        """Have ready what a program has when its question comes."""
        ...

    async def call(self) -> None:
        """Ask `CALLS` times, not streamed."""
        ...

    async def stream(self) -> None:
        """Read one stream of `EVENTS` texts."""
        ...

    async def loop(self) -> None:
        """Run a tool loop at the end of a history of `HISTORY` messages."""
        ...


def weather(city: str) -> str:
    """What both clients' tool does."""
    return f"sunny in {city}"


def require(said: object) -> None:
    """A client that did not do the work is not measured."""
    if not said:
        msg = "the work was not done"
        raise SystemExit(msg)


class Raw:
    """A hand-written client: httpx, dicts, json."""

    def __init__(self, work: str, base: str) -> None:
        self._client = httpx.AsyncClient(timeout=30)
        self._work = work
        self._base = base
        self._history = raw_history()
        self._messages: list[dict[str, Any]] = []

    def prepare(self) -> None:
        """A copy of the history."""
        self._messages = list(self._history)

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self._client.post(f"{self._base}/{path}/chat/completions", json=body)
        return cast("dict[str, Any]", json.loads(answer.content)["choices"][0]["message"])

    async def call(self) -> None:
        """Post, and read the one text."""
        for _ in range(CALLS):
            body = {"model": "bench", "messages": [{"role": "user", "content": SENTENCE}]}
            require((await self._post("call", body))["content"])

    async def stream(self) -> None:
        """Read lines, and parse each."""
        body = {"model": "bench", "stream": True, "messages": [{"role": "user", "content": SENTENCE}]}
        pieces: list[str | None] = []
        text = TEXTS[self._work]
        async with self._client.stream("POST", f"{self._base}/{self._work}/bench", json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    pieces.append(text(json.loads(line[6:])))  # noqa: PERF401 - as an application does
        require(len(pieces) >= EVENTS)

    async def loop(self) -> None:
        """Send everything again at each step."""
        messages = self._messages
        while True:
            message = await self._post("loop", {"model": "bench", "messages": messages, "tools": TOOLS})
            messages.append(message)
            if not message.get("tool_calls"):
                return
            for made in message["tool_calls"]:
                city = json.loads(made["function"]["arguments"])["city"]
                messages.append({"role": "tool", "tool_call_id": made["id"], "content": weather(city)})


TEXTS: dict[str, Callable[[dict[str, Any]], str | None]] = {
    "stream": lambda event: event["choices"][0]["delta"].get("content"),
    "claude": lambda event: event.get("delta", {}).get("text"),
    "gemini": lambda event: event["candidates"][0]["content"]["parts"][0]["text"],
    "responses": lambda event: event.get("delta"),
}
"""Where each wire has its text."""


def raw_history() -> list[dict[str, Any]]:
    """User, call, result, answer; over and over."""
    messages: list[dict[str, Any]] = []
    for n in range(HISTORY // 4):
        function = {"name": "get_weather", "arguments": ARGUMENTS}
        messages += [
            {"role": "user", "content": SENTENCE},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"old_{n}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"old_{n}", "content": "sunny"},
            {"role": "assistant", "content": SENTENCE},
        ]
    return [*messages, {"role": "user", "content": SENTENCE}]


def chat_history() -> Messages:
    """The same history, as this library keeps it."""
    from chat_core import FunctionCall, Messages, Text, Tool, Turn  # noqa: PLC0415 - as below

    history = Messages()
    for n in range(HISTORY // 4):
        history.user(SENTENCE)
        tool = Tool(FunctionCall.parse("get_weather", ARGUMENTS), call_id=f"old_{n}")
        tool.start()
        tool.complete("sunny")
        history.append("model", Turn([tool], finish_reason="tool_calls"))
        history.append("model", Turn([Text(SENTENCE)], finish_reason="stop"))
    return history.user(SENTENCE)


def provider(work: str, base: str) -> ChatProvider:
    """The provider whose wire the row is about."""
    # Only the one that is measured is imported.
    if work == "claude":
        from chat_claude import ClaudeBuilder  # noqa: PLC0415

        return ClaudeBuilder().with_model("bench").with_base_url(base).with_api_key("k").build()
    if work == "gemini":
        from chat_gemini import GeminiBuilder  # noqa: PLC0415

        return GeminiBuilder().with_model("bench").with_base_url(base).with_api_key("k").build()
    if work == "responses":
        from chat_responses import ResponsesBuilder  # noqa: PLC0415

        return ResponsesBuilder().with_model("bench").with_base_url(base).build()
    from chat_completions import CompletionsBuilder  # noqa: PLC0415

    return CompletionsBuilder().with_model("bench").with_base_url(base).build()


def chat_client(work: str, base: str) -> Client:
    """The same work, by this library."""
    # The other client must not pay for these.
    from chat_core import ChatBuilder, Messages, TextDelta, ToolCollection  # noqa: PLC0415

    tools = ToolCollection()

    @tools.tool
    async def get_weather(city: str) -> str:
        """The weather."""
        return weather(city)

    history = chat_history()
    builder = ChatBuilder().with_model(provider(work, f"{base}/{work}"))

    class Chat:
        def __init__(self) -> None:
            self._plain = builder.build()
            self._looping = builder.with_tools(tools).build()
            self._messages = history

        def prepare(self) -> None:
            self._messages = Messages(history.contents)

        async def call(self) -> None:
            for _ in range(CALLS):
                require((await self._plain.complete(Messages.from_user(SENTENCE))).text)

        async def stream(self) -> None:
            pieces: list[str] = []
            async with self._plain.stream(Messages.from_user(SENTENCE)) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        pieces.append(event.text)  # noqa: PERF401 - as an application does
            require(len(pieces) >= EVENTS)

        async def loop(self) -> None:
            require((await self._looping.complete(self._messages)).text)

    return Chat()


async def main(who: str, work: str, port: str) -> None:
    """Do a slot for each line, after two to warm up."""
    base = f"http://127.0.0.1:{port}"
    client: Client = Raw(work, base) if who == "raw" else chat_client(work, base)
    slot = {"call": client.call, "loop": client.loop}.get(work, client.stream)
    for _ in range(2):
        client.prepare()
        await slot()
    print("ready", flush=True)
    read = asyncio.get_running_loop().run_in_executor
    while await read(None, sys.stdin.readline):
        client.prepare()
        begun = time.process_time()
        await slot()
        print(time.process_time() - begun, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
