"""Legal: batches of chats whose model supports them."""

from __future__ import annotations

from typing import Never, assert_type

from chat_batches import Batches, BatchHandle, BatchJobs
from chat_claude import claude
from chat_gemini import GeminiBuilder
from chat_openai import OpenAIBuilder, openai
from chat_store import MemoryStore

from chat_core import BatchProvider, ChatBuilder, ChatResponse, Messages, StructuredResponse

anthropic = claude("m", api_key="k")
gemini = GeminiBuilder().with_model("m").with_api_key("k").build()
responses = openai("m", api_key="k")
completions = OpenAIBuilder().with_completions().with_model("m").with_api_key("k").build()
providers: list[BatchProvider] = [anthropic, gemini, responses, completions]

plain = Batches(ChatBuilder().with_model(anthropic).build(), anthropic)
structured = Batches(ChatBuilder().with_model(responses).with_structured_output(int).build(), responses)
assert_type(plain, Batches[ChatResponse, Never])
assert_type(structured, Batches[StructuredResponse[int], Never])
jobs = BatchJobs(MemoryStore(), structured)


async def p70_an_answer_of_a_batch_has_the_type_of_the_chat(handle: BatchHandle) -> None:
    async with plain.results(handle) as results:
        async for result in results:
            assert_type(await plain.answer(Messages.from_user("hi"), result), ChatResponse)
            assert_type((await structured.answer(Messages.from_user("hi"), result)).value, int)
