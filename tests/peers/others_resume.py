"""Results of other libraries for a pause that is decided twice or in part, and the size of their stored data.

It needs an environment with these libraries:

    pip install pydantic-ai-slim openai-agents langchain
    python tests/peers/others_resume.py

It prints the rows of `docs/comparison.md`. The responses of the model are scripted, so
it sends no request.
"""

# ruff: noqa: PLC0415, BLE001
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

from calls import ANSWER, COUNTS, PROMPT, TOOL, calls, executions, row

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

RAN: list[str] = []
ASKED: list[int] = []


async def transfer(to: str, cents: int) -> str:
    """Send money to a person."""
    RAN.append(to)
    await asyncio.sleep(0.05)  # long enough for another one to come in, where nothing keeps it out
    return f"sent {cents} to {to}"


async def outcome(work: Awaitable[object]) -> str:
    """Return the name of the error that a resumed run raises, or an empty text."""
    try:
        await work
    except Exception as error:
        return type(error).__name__
    return ""


async def twice(resume: Callable[[], Awaitable[object]], *, at_once: bool) -> tuple[str, str]:
    """Resume twice. Return how often the call has run, and the result of the run that did not execute it."""
    RAN.clear()
    if at_once:
        ends = await asyncio.gather(outcome(resume()), outcome(resume()))
    else:
        ends = [await outcome(resume()), await outcome(resume())]
    return executions(len(RAN)), next((end for end in ends if end), "")


def told(sequence: tuple[str, str], at_once: tuple[str, str]) -> tuple[str, str, str]:
    """Return the cells of a row."""
    got = dict.fromkeys([end for end in (sequence[1], at_once[1]) if end])
    return sequence[0], at_once[0], ", ".join([f"`{end}`" for end in got]) or "nothing"


# --- pydantic-ai -----------------------------------------------------------------------------------------------------


class Pydantic:
    """An agent whose tool needs approval."""

    package = "pydantic-ai-slim"

    def __init__(self, count: int) -> None:
        from pydantic_ai import Agent, DeferredToolRequests, Tool
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel

        def model(messages: Any, info: Any) -> Any:
            ASKED.append(1)
            if any(part.part_kind == "tool-return" for message in messages for part in message.parts):
                return ModelResponse(parts=[TextPart(ANSWER)])
            return ModelResponse(parts=[ToolCallPart(TOOL, made, tool_call_id=name) for name, made in calls(count)])

        tool = Tool(transfer, requires_approval=True)
        self.agent = Agent(FunctionModel(model), tools=[tool], output_type=[str, DeferredToolRequests])

    async def pause(self) -> Any:
        return await self.agent.run(PROMPT)

    async def resume(self, history: Any, answers: dict[str, bool]) -> Any:
        from pydantic_ai import DeferredToolResults

        results = DeferredToolResults(approvals=dict(answers))
        return await self.agent.run(message_history=history, deferred_tool_results=results)


async def pydantic_twice() -> None:
    from pydantic_ai import DeferredToolResults
    from pydantic_ai.conversation_store import InMemoryConversationStore

    it = Pydantic(1)
    history = (await it.pause()).all_messages()

    async def resume() -> None:
        await it.resume(history, {"call_1": True})

    cells = [await twice(resume, at_once=at_once) for at_once in (False, True)]
    print(row(f"pydantic-ai-slim {version(it.package)}", "a history that the caller keeps", *told(*cells)))

    cells = []
    for at_once in (False, True):
        store = InMemoryConversationStore()
        paused = (await it.pause()).conversation
        await store.save(paused)

        async def resume_stored(store: Any = store, id: str = paused.conversation_id) -> None:
            found = await store.load(id)
            if found.deferred_tool_requests is None:
                msg = "nothing waits"
                raise LookupError(msg)
            results = DeferredToolResults(approvals={"call_1": True})
            await store.save((await it.agent.run(conversation=found, deferred_tool_results=results)).conversation)

        cells.append(await twice(resume_stored, at_once=at_once))
    # For the second of two runs in sequence, `load()` reports that nothing waits, which is not an error.
    cells[0] = cells[0][0], ""
    print(row(f"pydantic-ai-slim {version(it.package)}", "its `ConversationStore`", *told(*cells)))


async def pydantic_partly() -> None:
    it = Pydantic(3)
    history = (await it.pause()).all_messages()
    RAN.clear()
    ASKED.clear()
    end = await outcome(it.resume(history, {"call_1": True, "call_2": False}))
    print(row(f"pydantic-ai-slim {version(it.package)}", f"`{end}`" if end else "paused", len(RAN), len(ASKED)))


async def pydantic_size() -> None:
    from pydantic_ai.conversation import ConversationTypeAdapter

    sizes = []
    for count in COUNTS:
        paused = (await Pydantic(count).pause()).conversation
        sizes.append(len(ConversationTypeAdapter.dump_json(paused)) - len(PROMPT))
    print(row(f"pydantic-ai-slim {version('pydantic-ai-slim')}", "`Conversation`", *[f"{size:,}" for size in sizes]))


# --- openai-agents ---------------------------------------------------------------------------------------------------


class OpenAI:
    """An agent whose tool needs approval."""

    package = "openai-agents"

    def __init__(self, count: int) -> None:
        import json

        from agents import Agent, Model, ModelResponse, Usage, function_tool
        from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

        class Scripted(Model):
            async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> Any:  # noqa: A002 - the name in the SDK
                ASKED.append(1)
                asked = input
                done = not isinstance(asked, str) and any(i.get("type") == "function_call_output" for i in asked)
                if done:
                    text = ResponseOutputText(type="output_text", text=ANSWER, annotations=[])
                    said = ResponseOutputMessage(
                        id="msg_1", type="message", role="assistant", status="completed", content=[text]
                    )
                    return ModelResponse([said], Usage(), None)
                made = [
                    ResponseFunctionToolCall(
                        type="function_call", call_id=call, name=TOOL, arguments=json.dumps(arguments), id=f"fc_{call}"
                    )
                    for call, arguments in calls(count)
                ]
                return ModelResponse(made, Usage(), None)

            def stream_response(self, *rest: Any, **more: Any) -> Any:
                raise NotImplementedError

        tool = function_tool(transfer, needs_approval=True)
        self.agent = Agent("a", model=Scripted(), tools=[tool])

    async def pause(self) -> Any:
        from agents import Runner

        return (await Runner.run(self.agent, PROMPT)).to_state()

    async def resume(self, stored: str, answers: dict[str, bool]) -> Any:
        from agents import Runner, RunState

        state = await RunState.from_string(self.agent, stored)
        self.decide(state, answers)
        return await Runner.run(self.agent, state)

    def decide(self, state: Any, answers: dict[str, bool]) -> None:
        for item in state.get_interruptions():
            match answers.get(item.raw_item.call_id):
                case True:
                    state.approve(item)
                case False:
                    state.reject(item)
                case None:
                    pass


async def openai_twice() -> None:
    from agents import Runner

    it = OpenAI(1)
    stored = (await it.pause()).to_string()

    async def resume() -> None:
        await it.resume(stored, {"call_1": True})

    cells = [await twice(resume, at_once=at_once) for at_once in (False, True)]
    print(row(f"openai-agents {version(it.package)}", "`RunState` as JSON, loaded by each", *told(*cells)))

    cells = []
    for at_once in (False, True):
        state = await it.pause()
        it.decide(state, {"call_1": True})

        async def resume_same(state: Any = state) -> None:
            await Runner.run(it.agent, state)

        cells.append(await twice(resume_same, at_once=at_once))
    print(row(f"openai-agents {version(it.package)}", "one `RunState` object", *told(*cells)))


async def openai_partly() -> None:
    it = OpenAI(3)
    stored = (await it.pause()).to_string()
    RAN.clear()
    ASKED.clear()
    left: list[str] = []

    async def resume() -> None:
        result = await it.resume(stored, {"call_1": True, "call_2": False})
        left.extend(item.raw_item.call_id for item in result.interruptions)

    end = await outcome(resume())
    said = f"`{end}`" if end else f"pauses again: {', '.join(left)}"
    print(row(f"openai-agents {version(it.package)}", said, len(RAN), len(ASKED)))


async def openai_size() -> None:
    sizes = [len((await OpenAI(count).pause()).to_string().encode()) - len(PROMPT) for count in COUNTS]
    print(row(f"openai-agents {version('openai-agents')}", "`RunState`", *[f"{size:,}" for size in sizes]))


# --- LangChain -------------------------------------------------------------------------------------------------------


class LangChain:
    """An agent with the middleware that asks for approval."""

    package = "langchain"

    def __init__(self, count: int, mode: str) -> None:
        from langchain.agents import create_agent
        from langchain.agents.middleware import HumanInTheLoopMiddleware
        from langchain_core.language_models import BaseChatModel
        from langchain_core.messages import AIMessage, ToolMessage
        from langchain_core.outputs import ChatGeneration, ChatResult
        from langgraph.checkpoint.memory import InMemorySaver

        class Scripted(BaseChatModel):
            @property
            def _llm_type(self) -> str:
                return "scripted"

            def bind_tools(self, tools: Any, **more: Any) -> Any:
                return self

            def _generate(self, messages: Any, *rest: Any, **more: Any) -> Any:
                ASKED.append(1)
                if any(isinstance(message, ToolMessage) for message in messages):
                    said = AIMessage(ANSWER)
                else:
                    made = [{"name": TOOL, "args": arguments, "id": name} for name, arguments in calls(count)]
                    said = AIMessage("", tool_calls=made)
                return ChatResult(generations=[ChatGeneration(message=said)])

        self.saver = InMemorySaver()
        asking = HumanInTheLoopMiddleware(interrupt_on={TOOL: True}, interrupt_mode=mode)
        self.agent = create_agent(Scripted(), tools=[transfer], middleware=[asking], checkpointer=self.saver)
        self.config = {"configurable": {"thread_id": "1"}}

    async def pause(self) -> Any:
        return await self.agent.ainvoke({"messages": [("user", PROMPT)]}, self.config)

    async def resume(self, answer: Any) -> Any:
        from langgraph.types import Command

        return await self.agent.ainvoke(Command(resume=answer), self.config)


async def langchain_twice() -> None:
    cells = []
    for at_once in (False, True):
        it = LangChain(1, "batched")
        await it.pause()

        async def resume(it: Any = it) -> None:
            await it.resume({"decisions": [{"type": "approve"}]})

        cells.append(await twice(resume, at_once=at_once))
    print(row(f"langchain {version('langchain')}", "a checkpoint of `InMemorySaver`", *told(*cells)))


async def langchain_partly() -> None:
    for mode in ("batched", "per_call"):
        it = LangChain(3, mode)
        paused = await it.pause()
        RAN.clear()
        ASKED.clear()
        some = [{"type": "approve"}, {"type": "reject", "message": "no"}]
        answer: Any = {"decisions": some}
        if mode == "per_call":
            answer = {waits.id: one for waits, one in zip(paused["__interrupt__"], some, strict=False)}
        left: list[str] = []

        async def resume(it: Any = it, answer: Any = answer, left: list[str] = left) -> None:
            result = await it.resume(answer)
            left.extend(["one call"] * len(result.get("__interrupt__", [])))

        end = await outcome(resume())
        said = f"`{end}`" if end else f"pauses again: {', '.join(left)}"
        print(row(f"langchain {version('langchain')}, `{mode}`", said, len(RAN), len(ASKED)))


async def langchain_size() -> None:
    sizes = []
    for count in COUNTS:
        it = LangChain(count, "batched")
        await it.pause()
        sizes.append(stored_bytes([it.saver.storage, it.saver.blobs, it.saver.writes]) - len(PROMPT))
    # The last two digits differ from run to run.
    rounded = [f"about {round(size, -2):,}" for size in sizes]
    print(row(f"langchain {version('langchain')}", "what `InMemorySaver` keeps", *rounded))


def stored_bytes(value: Any) -> int:
    """Return the number of bytes in nested containers."""
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(map(stored_bytes, value.values()))
    return sum(map(stored_bytes, value)) if isinstance(value, (list, tuple)) else 0


async def main() -> None:
    """Print the rows of each table."""
    tables = {
        "answered twice": (pydantic_twice, openai_twice, langchain_twice),
        "answered in part": (pydantic_partly, openai_partly, langchain_partly),
        "stored": (pydantic_size, openai_size, langchain_size),
    }
    for name, rows in tables.items():
        print(f"\n{name}", flush=True)
        for work in rows:
            try:
                await work()
            except ImportError as error:
                print(f"{work.__name__}: not installed ({error})", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main())
