"""Benchmark clients of other libraries. Each library is used as its own documentation shows.

The libraries are installed in separate environments. They are imported by name, so their types are unknown here.
"""

# ruff: noqa: ANN401 - the types of the libraries are unknown here

from __future__ import annotations

import asyncio
import importlib
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from work import (
    ARGUMENTS,
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
    parsed_chunks,
    raw_history,
    require,
    weather,
)

QUESTION: Final[list[dict[str, Any]]] = [{"role": "user", "content": SENTENCE}]


class Peer:
    """Base class of the clients. Subclasses implement `ask`, `texts` and `loop`; the work is the same for all."""

    def works(self) -> Works:
        """Return the supported work by name."""
        return {
            "call": self._calls,
            "stream": lambda: self._texts(EVENTS),
            "one": lambda: self._texts(CROWDS["crowd"][1]),
            "crowd": self._crowd,
            **{name: self._looping(count) for name, count in HISTORY.items()},
        }

    async def ask(self) -> Any:
        """Send one request and return a truthy value if there was a response."""
        raise NotImplementedError

    def texts(self) -> AsyncIterator[Any]:
        """Stream one response and yield at least one item per text event."""
        raise NotImplementedError

    async def loop(self, messages: Any) -> Any:
        """Run a tool loop to its end and return a truthy value if there was a response."""
        raise NotImplementedError

    def history(self, count: int) -> Any:
        """Return a history of `count` messages in the format of this client."""
        return raw_history(count)

    def _calls(self) -> Slot:
        async def slot() -> None:
            for _ in range(CALLS):
                require(await self.ask())

        return slot

    async def _count(self, least: int) -> None:
        pieces: list[Any] = [item async for item in self.texts()]
        require(len(pieces) >= least - 1)

    def _texts(self, least: int) -> Slot:
        async def slot() -> None:
            await self._count(least)

        return slot

    def _crowd(self) -> Slot:
        async def slot() -> None:
            streams, events = CROWDS["crowd"]
            await asyncio.gather(*[self._count(events) for _ in range(streams)])

        return slot

    def _looping(self, count: int) -> Callable[[], Slot]:
        def prepare() -> Slot:
            messages = self.history(count)

            async def slot() -> None:
                require(await self.loop(messages))

            return slot

        return prepare


class OpenAI(Peer):
    """Official OpenAI SDK on Chat Completions, with a handwritten tool loop."""

    def __init__(self, base: str) -> None:
        openai = importlib.import_module("openai")
        self.client = openai.AsyncOpenAI(base_url=base, api_key="k", timeout=60)

    async def ask(self) -> Any:
        """Call `chat.completions.create`."""
        answer = await self.client.chat.completions.create(model="bench", messages=QUESTION)
        return answer.choices[0].message.content

    async def texts(self) -> AsyncIterator[Any]:
        """Stream `chat.completions.create`."""
        stream = await self.client.chat.completions.create(model="bench", messages=QUESTION, stream=True)
        async for chunk in stream:
            yield chunk.choices[0].delta.content

    async def loop(self, messages: Any) -> Any:
        """Call `chat.completions.create` until the response has no tool calls."""
        while True:
            answer = await self.client.chat.completions.create(model="bench", messages=messages, tools=[TOOL])
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content
            for call in message.tool_calls:
                result = weather(json.loads(call.function.arguments)["city"])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    def works(self) -> Works:
        """Return the supported work by name."""
        return {**super().works(), "parser": self._parser, **dict.fromkeys(DELTAS, self._deltas)}

    def _deltas(self) -> Slot:
        # Merge the deltas as the function calling guide does.
        async def slot() -> None:
            calls: dict[int, Any] = {}
            create = self.client.chat.completions.create
            async for chunk in await create(model="bench", messages=QUESTION, tools=[TOOL], stream=True):
                made: list[Any] = chunk.choices[0].delta.tool_calls or []
                for call in made:
                    if call.index not in calls:
                        calls[call.index] = call
                    else:
                        calls[call.index].function.arguments += call.function.arguments
            require(json.loads(calls[0].function.arguments)["city"])

        return slot

    def _parser(self) -> Slot:
        chunks = parsed_chunks()
        decoder = importlib.import_module("openai._streaming").SSEDecoder

        async def slot() -> None:
            require(sum(1 for _ in decoder().iter_bytes(iter(chunks))))

        return slot


class OpenAIResponses(OpenAI):
    """Official OpenAI SDK on the Responses API."""

    async def ask(self) -> Any:
        """Call `responses.create`."""
        return (await self.client.responses.create(model="bench", input=QUESTION)).output_text

    async def texts(self) -> AsyncIterator[Any]:
        """Stream `responses.create`."""
        async for event in await self.client.responses.create(model="bench", input=QUESTION, stream=True):
            if event.type == "response.output_text.delta":
                yield event.delta


class Anthropic(Peer):
    """Official Anthropic SDK."""

    def __init__(self, base: str) -> None:
        anthropic = importlib.import_module("anthropic")
        self._client = anthropic.AsyncAnthropic(base_url=base, api_key="k", timeout=60)

    async def ask(self) -> Any:
        """Call `messages.create`."""
        answer = await self._client.messages.create(model="bench", max_tokens=1024, messages=QUESTION)
        return answer.content[0].text

    async def texts(self) -> AsyncIterator[Any]:
        """Stream `messages.create`."""
        create = self._client.messages.create
        async for event in await create(model="bench", max_tokens=1024, messages=QUESTION, stream=True):
            if event.type == "content_block_delta":
                yield event.delta.text


class Google(Peer):
    """Official Google Gen AI SDK."""

    def __init__(self, base: str) -> None:
        genai = importlib.import_module("google.genai")
        options = importlib.import_module("google.genai.types").HttpOptions(base_url=base, api_version="")
        self._client = genai.Client(api_key="k", http_options=options)

    async def ask(self) -> Any:
        """Call `generate_content`."""
        return (await self._client.aio.models.generate_content(model="bench", contents=SENTENCE)).text

    async def texts(self) -> AsyncIterator[Any]:
        """Stream `generate_content_stream`."""
        async for chunk in await self._client.aio.models.generate_content_stream(model="bench", contents=SENTENCE):
            yield chunk.text


class PydanticAI(Peer):
    """Agent of pydantic-ai."""

    def __init__(self, base: str) -> None:
        self._pydantic_ai = importlib.import_module("pydantic_ai")
        self._messages = importlib.import_module("pydantic_ai.messages")
        provider = importlib.import_module("pydantic_ai.providers.openai").OpenAIProvider(base_url=base, api_key="k")
        self.model = importlib.import_module("pydantic_ai.models.openai").OpenAIChatModel("bench", provider=provider)
        self._plain = self._pydantic_ai.Agent(self.model)
        self._agent = self._pydantic_ai.Agent(self.model)

        async def get_weather(city: str) -> str:
            """The weather."""
            return weather(city)

        self._agent.tool_plain(get_weather)

    async def ask(self) -> Any:
        """Call `Agent.run`."""
        return (await self._plain.run(SENTENCE)).output

    async def texts(self) -> AsyncIterator[Any]:
        """Stream `Agent.run_stream` text by text."""
        async with self._plain.run_stream(SENTENCE) as result:
            async for text in result.stream_text(delta=True, debounce_by=None):
                yield text

    def works(self) -> Works:
        """Return the supported work by name."""
        return {**super().works(), "read": self._read, "write": self._write}

    def _read(self) -> Slot:
        adapter = self._messages.ModelMessagesTypeAdapter
        document = adapter.dump_json(self.history(STORED))

        async def slot() -> None:
            for _ in range(DOCUMENTS):
                require(adapter.validate_json(document))

        return slot

    def _write(self) -> Slot:
        adapter, messages = self._messages.ModelMessagesTypeAdapter, self.history(STORED)

        async def slot() -> None:
            for _ in range(DOCUMENTS):
                require(adapter.dump_json(messages))

        return slot

    def history(self, count: int) -> Any:
        """Return the history as messages of this library."""
        kinds = self._messages
        messages: list[Any] = []
        for n in range(count // 4):
            call = kinds.ToolCallPart("get_weather", ARGUMENTS, f"old_{n}")
            back = kinds.ToolReturnPart("get_weather", "sunny", f"old_{n}")
            messages += [
                kinds.ModelRequest(parts=[kinds.UserPromptPart(SENTENCE)]),
                kinds.ModelResponse(parts=[call]),
                kinds.ModelRequest(parts=[back]),
                kinds.ModelResponse(parts=[kinds.TextPart(SENTENCE)]),
            ]
        return messages

    async def loop(self, messages: Any) -> Any:
        """Call `Agent.run` with a tool."""
        limits = self._pydantic_ai.UsageLimits(request_limit=None)
        return (await self._agent.run(SENTENCE, message_history=messages, usage_limits=limits)).output


class PydanticAIDirect(PydanticAI):
    """Direct model requests of pydantic-ai, without an agent."""

    async def ask(self) -> Any:
        """Call `direct.model_request`."""
        request = importlib.import_module("pydantic_ai.direct").model_request
        return (await request(self.model, [self._messages.ModelRequest.user_text_prompt(SENTENCE)])).parts[0].content

    async def texts(self) -> AsyncIterator[Any]:
        """Stream `direct.model_request_stream`."""
        request = importlib.import_module("pydantic_ai.direct").model_request_stream
        async with request(self.model, [self._messages.ModelRequest.user_text_prompt(SENTENCE)]) as stream:
            async for event in stream:
                yield event


class OpenAIAgents(Peer):
    """OpenAI Agents SDK on Chat Completions, with tracing disabled."""

    def __init__(self, base: str) -> None:
        self._agents = agents = importlib.import_module("agents")
        agents.set_tracing_disabled(disabled=True)
        openai = importlib.import_module("openai")
        client = openai.AsyncOpenAI(base_url=base, api_key="k", timeout=60)
        model = agents.OpenAIChatCompletionsModel(model="bench", openai_client=client)

        async def get_weather(city: str) -> str:
            """The weather."""
            return weather(city)

        self._plain = agents.Agent(name="bench", model=model)
        self._agent = agents.Agent(name="bench", model=model, tools=[agents.function_tool(get_weather)])

    async def ask(self) -> Any:
        """Call `Runner.run`."""
        return (await self._agents.Runner.run(self._plain, SENTENCE)).final_output

    async def texts(self) -> AsyncIterator[Any]:
        """Stream `Runner.run_streamed`."""
        async for event in self._agents.Runner.run_streamed(self._plain, SENTENCE).stream_events():
            if event.type == "raw_response_event":
                yield event

    def history(self, count: int) -> Any:
        """Return the history as Responses API items, the format of this SDK."""
        items: list[dict[str, Any]] = []
        for n in range(count // 4):
            call = {"type": "function_call", "call_id": f"old_{n}", "name": "get_weather", "arguments": ARGUMENTS}
            items += [
                {"role": "user", "content": SENTENCE},
                call,
                {"type": "function_call_output", "call_id": f"old_{n}", "output": "sunny"},
                {"role": "assistant", "content": SENTENCE},
            ]
        return [*items, {"role": "user", "content": SENTENCE}]

    async def loop(self, messages: Any) -> Any:
        """Call `Runner.run` with a tool."""
        return (await self._agents.Runner.run(self._agent, messages, max_turns=60)).final_output


class LangChain(Peer):
    """LangChain's `ChatOpenAI`, with a handwritten tool loop."""

    def __init__(self, base: str) -> None:
        make = importlib.import_module("langchain_openai").ChatOpenAI
        self._messages = importlib.import_module("langchain_core.messages")
        self._model = make(model="bench", base_url=base, api_key="k", timeout=60, max_retries=2)
        self._bound = self._model.bind_tools([TOOL])

    async def ask(self) -> Any:
        """Call `ainvoke`."""
        return (await self._model.ainvoke(SENTENCE)).content

    async def texts(self) -> AsyncIterator[Any]:
        """Stream `astream`."""
        async for chunk in self._model.astream(SENTENCE):
            yield chunk.content

    def history(self, count: int) -> Any:
        """Return the history as messages of this library."""
        kinds = self._messages
        messages: list[Any] = []
        for n in range(count // 4):
            call = {"name": "get_weather", "args": json.loads(ARGUMENTS), "id": f"old_{n}"}
            messages += [
                kinds.HumanMessage(SENTENCE),
                kinds.AIMessage("", tool_calls=[call]),
                kinds.ToolMessage("sunny", tool_call_id=f"old_{n}"),
                kinds.AIMessage(SENTENCE),
            ]
        return [*messages, kinds.HumanMessage(SENTENCE)]

    def works(self) -> Works:
        """Return the supported work by name."""
        return {**super().works(), **dict.fromkeys(DELTAS, self._deltas)}

    def _deltas(self) -> Slot:
        # Merge the chunks as the tool calling guide does.
        async def slot() -> None:
            gathered: Any = None
            async for chunk in self._bound.astream(SENTENCE):
                gathered = chunk if gathered is None else gathered + chunk
            require(gathered.tool_calls[0]["args"]["city"])

        return slot

    async def loop(self, messages: Any) -> Any:
        """Call `ainvoke` on the model with bound tools until the response has no tool calls."""
        while True:
            answer = await self._bound.ainvoke(messages)
            messages.append(answer)
            if not answer.tool_calls:
                return answer.content
            for call in answer.tool_calls:
                messages.append(self._messages.ToolMessage(weather(call["args"]["city"]), tool_call_id=call["id"]))


class LiteLLM(Peer):
    """LiteLLM's `acompletion`, with a handwritten tool loop."""

    def __init__(self, base: str) -> None:
        # Without this variable, litellm downloads a price list on import.
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        self._litellm: Any = importlib.import_module("litellm")
        vars(self._litellm)["suppress_debug_info"] = True
        self._settings = {"model": "openai/bench", "api_base": base, "api_key": "k"}

    async def ask(self) -> Any:
        """Call `acompletion`."""
        return (await self._litellm.acompletion(messages=QUESTION, **self._settings)).choices[0].message.content

    async def texts(self) -> AsyncIterator[Any]:
        """Stream `acompletion`."""
        async for chunk in await self._litellm.acompletion(messages=QUESTION, stream=True, **self._settings):
            yield chunk.choices[0].delta.content

    async def loop(self, messages: Any) -> Any:
        """Call `acompletion` until the response has no tool calls."""
        while True:
            answer = await self._litellm.acompletion(messages=messages, tools=[TOOL], **self._settings)
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content
            for call in message.tool_calls:
                result = weather(json.loads(call.function.arguments)["city"])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


PEERS: Final[Mapping[str, type[Any]]] = {
    "anthropic": Anthropic,
    "openai": OpenAI,
    "openai-responses": OpenAIResponses,
    "google-genai": Google,
    "pydantic-ai-direct": PydanticAIDirect,
    "pydantic-ai": PydanticAI,
    "openai-agents": OpenAIAgents,
    "langchain-openai": LangChain,
    "litellm": LiteLLM,
}
"""Client classes by the name used in the rows."""


def peer(who: str, base: str) -> Works:
    """Create the client called `who` and return its supported work by name."""
    made: Peer = PEERS[who](base)
    return made.works()
