"""Illegal: a chat that can pause behind an API that cannot say so."""

from __future__ import annotations

from chat_streams.openai import CompletionsEncoder, CompletionsRequest

from chat_core import ChatBuilder, ClientTools, ScopedCollection

from world import ask_if_high, hi, pays, risky

request = CompletionsRequest("m", hi())


async def x70_approvals_behind_chat_completions() -> None:
    waits = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    CompletionsEncoder(waits, request)  # E: Paused


async def x71_functions_of_the_client_behind_chat_completions() -> None:  # R: ClientInputError: This model may wait
    waits = ChatBuilder().with_model(pays).with_scoped_tools(ClientTools()).build()
    CompletionsEncoder(waits, request)  # E: Paused
