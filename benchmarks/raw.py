"""Baseline clients: handwritten code for exactly one purpose."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, cast

from work import (
    CALLS,
    CROWDS,
    DELTAS,
    DOCUMENTS,
    EVENTS,
    HISTORY,
    SENTENCE,
    STORED,
    TOOL,
    Slot,
    Works,
    raw_history,
    require,
    weather,
)

Body = dict[str, Any]
QUESTION: Final = [{"role": "user", "content": SENTENCE}]

PATHS: Final = {
    "completions": "chat/completions",
    "claude": "v1/messages",
    "gemini": "models/bench:generateContent",
    "responses": "responses",
}
STREAM_PATHS: Final = {**PATHS, "gemini": "models/bench:streamGenerateContent?alt=sse"}

BODIES: Final[dict[str, Body]] = {
    "completions": {"model": "bench", "messages": QUESTION},
    "claude": {"model": "bench", "messages": QUESTION, "max_tokens": 1024},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": SENTENCE}]}]},
    "responses": {"model": "bench", "input": QUESTION},
}

TEXTS: Final[dict[str, Callable[[Body], str | None]]] = {
    "completions": lambda event: event["choices"][0]["delta"].get("content"),
    "claude": lambda event: event.get("delta", {}).get("text"),
    "gemini": lambda event: event["candidates"][0]["content"]["parts"][0]["text"],
    "responses": lambda event: event.get("delta"),
}
"""Functions that extract the text of a stream event, by wire format."""

WHOLES: Final[dict[str, Callable[[Body], str]]] = {
    "completions": lambda answer: answer["choices"][0]["message"]["content"],
    "claude": lambda answer: answer["content"][0]["text"],
    "gemini": lambda answer: answer["candidates"][0]["content"]["parts"][0]["text"],
    "responses": lambda answer: answer["output"][0]["content"][0]["text"],
}
"""Functions that extract the text of a complete response, by wire format."""


class Raw:
    """Client that uses httpx or httpx2, dicts and `json`."""

    def __init__(self, library: Any, base: str, work: str, wire: str) -> None:  # noqa: ANN401 - either of the two
        limits = library.Limits(max_connections=1_000, max_keepalive_connections=1_000)
        self._client = library.AsyncClient(timeout=60, limits=limits)
        self._base = base
        self._work = work
        self._wire = wire

    def works(self) -> Works:
        """Return the supported work by name."""
        plain = {"call": self._call, "stream": self._one_stream}
        if self._work in CROWDS:
            plain |= {self._work: self._crowd, "one": self._one_of_it}
        loops = dict.fromkeys(HISTORY, self._loop)
        deltas = dict.fromkeys(DELTAS, self._deltas)
        return plain | loops | deltas | {"read": self._read, "write": self._write, "resume": self._resume}

    async def _post(self, path: str, body: Body) -> Body:
        answer = await self._client.post(f"{self._base}/{path}", json=body)
        return cast("Body", json.loads(answer.content))

    def _call(self) -> Slot:
        path, body, text = PATHS[self._wire], BODIES[self._wire], WHOLES[self._wire]

        async def slot() -> None:
            for _ in range(CALLS):
                require(text(await self._post(path, body)))

        return slot

    async def _texts(self, count: int) -> None:
        body = BODIES[self._wire] | ({} if self._wire == "gemini" else {"stream": True})
        pieces: list[str | None] = []
        text = TEXTS[self._wire]
        url = f"{self._base}/{STREAM_PATHS[self._wire]}"
        async with self._client.stream("POST", url, json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    pieces.append(text(json.loads(line[6:])))  # noqa: PERF401 - an application would append too
        require(len(pieces) >= count)

    def _one_stream(self) -> Slot:
        async def slot() -> None:
            await self._texts(EVENTS)

        return slot

    def _crowd(self) -> Slot:
        async def slot() -> None:
            streams, events = CROWDS[self._work]
            await asyncio.gather(*[self._texts(events) for _ in range(streams)])

        return slot

    def _one_of_it(self) -> Slot:
        async def slot() -> None:
            await self._texts(CROWDS[self._work][1])

        return slot

    def _deltas(self) -> Slot:
        async def slot() -> None:
            pieces: list[str] = []
            url = f"{self._base}/{PATHS['completions']}"
            async with self._client.stream("POST", url, json=BODIES["completions"] | {"stream": True}) as answer:
                async for line in answer.aiter_lines():
                    if line.startswith("data: ") and line != "data: [DONE]":
                        for call in json.loads(line[6:])["choices"][0]["delta"].get("tool_calls", ()):
                            pieces.append(call["function"]["arguments"])  # noqa: PERF401 - as above
            require(json.loads("".join(pieces))["city"])

        return slot

    def _read(self) -> Slot:
        document = json.dumps(raw_history(STORED))

        async def slot() -> None:
            for _ in range(DOCUMENTS):
                require(json.loads(document))

        return slot

    def _write(self) -> Slot:
        messages = raw_history(STORED)

        async def slot() -> None:
            for _ in range(DOCUMENTS):
                require(json.dumps(messages))

        return slot

    def _resume(self) -> Slot:
        document = json.dumps(raw_history(STORED))

        async def slot() -> None:
            for _ in range(DOCUMENTS):
                answer = await self._post(PATHS["completions"], {"model": "bench", "messages": json.loads(document)})
                require(WHOLES["completions"](answer))

        return slot

    def _loop(self) -> Slot:
        messages = raw_history(HISTORY[self._work])

        async def slot() -> None:
            while True:
                body = {"model": "bench", "messages": messages, "tools": [TOOL]}
                message = (await self._post(PATHS["completions"], body))["choices"][0]["message"]
                messages.append(message)
                if not message.get("tool_calls"):
                    return
                for made in message["tool_calls"]:
                    city = json.loads(made["function"]["arguments"])["city"]
                    messages.append({"role": "tool", "tool_call_id": made["id"], "content": weather(city)})

        return slot


class Counting:
    """Client that counts the bytes of a stream without parsing them."""

    def __init__(self, library: Any, base: str) -> None:  # noqa: ANN401 - as above
        self._client = library.AsyncClient(timeout=60)
        self._base = base

    def works(self) -> Works:
        """Return the supported work by name."""
        return {"stream": self._stream}

    def _stream(self) -> Slot:
        async def slot() -> None:
            count = 0
            url = f"{self._base}/{PATHS['completions']}"
            async with self._client.stream("POST", url, json=BODIES["completions"]) as answer:
                async for chunk in answer.aiter_bytes():
                    count += len(chunk)
            require(count)

        return slot


class Sockets:
    """Minimal HTTP client over asyncio streams, as the lower bound of the cost."""

    def __init__(self, port: int, path: str) -> None:
        self._port = port
        self._path = path

    def works(self) -> Works:
        """Return the supported work by name."""
        return {"call": self._call, "stream": self._stream}

    def _request(self) -> bytes:
        body = json.dumps(BODIES["completions"]).encode()
        head = f"POST {self._path}/{PATHS['completions']} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body

    def _call(self) -> Slot:
        async def slot() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            for _ in range(CALLS):
                writer.write(self._request())
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                require(json.loads(await reader.readexactly(length))["choices"][0]["message"]["content"])
            writer.close()
            await writer.wait_closed()

        return slot

    def _stream(self) -> Slot:
        async def slot() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
            writer.write(self._request())
            await reader.readuntil(b"\r\n\r\n")
            pieces: list[str | None] = []
            while size := int(await reader.readuntil(b"\r\n"), 16):
                data = await reader.readexactly(size + 2)
                if not data.startswith(b"data: [DONE]"):
                    pieces.append(TEXTS["completions"](json.loads(data[6:])))
            await reader.readexactly(2)
            require(len(pieces) >= EVENTS)
            writer.close()
            await writer.wait_closed()

        return slot
