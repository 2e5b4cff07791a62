"""Turns that consist of one text have an encoder of their own, which writes what the general encoder writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import chat_claude
import chat_claude.encode
import chat_completions.encode
import chat_completions.options
import chat_gemini.encode
import chat_gemini.options
import chat_responses.encode
import chat_responses.options
import pytest
from chat_core.errors import UnsupportedPartError
from chat_core.messages import Content, Messages, Opaque, Role, Text, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS

COMPLETIONS = chat_completions.options.Dialect(model="m", provider="p", system_role="developer")
CLAUDE = replace(chat_claude.Dialect.of("claude-opus-4-6", provider="p"), system_in_place=True)
GEMINI = chat_gemini.options.Dialect(model="m", provider="p")
RESPONSES = chat_responses.options.ResponsesDialect(model="m", provider="p", system_role="developer")

Encode = Callable[[Messages], bytes]


def completions(messages: Messages) -> bytes:
    encode = chat_completions.encode.encode
    return encode(messages, NO_TOOLS, ChatOptions(), None, dialect=COMPLETIONS, stream=False)


def claude(messages: Messages) -> bytes:
    return chat_claude.encode.encode(messages, NO_TOOLS, ChatOptions(), None, dialect=CLAUDE, stream=False).body


def gemini(messages: Messages) -> bytes:
    return chat_gemini.encode.encode(messages, NO_TOOLS, ChatOptions(), None, dialect=GEMINI)


def responses(messages: Messages) -> bytes:
    return chat_responses.encode.encode(messages, NO_TOOLS, ChatOptions(), None, dialect=RESPONSES, stream=False)


TEXTS = [
    Text(""),
    Text(" \n"),
    Text('Grüße, "you"'),
    Text("half \ud83d"),
    Text("a", Opaque("p", {"part": {"further": 1}, "cache_control": {"type": "ephemeral"}})),
    Text("a", Opaque("p", {})),
    Text("a", Opaque("q", {"part": {"further": 1}})),
]


def outcome(encode: Encode, role: Role, text: Text) -> object:
    """Return the request with `text` as the only part of a turn, or the error."""
    contents = [Content.of("user", "hello"), Content(role, [Turn([text])]), Content.of("user", "and", "now?")]
    try:
        return encode(Messages(contents))
    except UnsupportedPartError as error:
        return str(error)


@pytest.mark.parametrize("text", TEXTS, ids=repr)
@pytest.mark.parametrize("role", ["system", "user", "model"])
@pytest.mark.parametrize(
    ("module", "encode"),
    [
        (chat_completions.encode, completions),
        (chat_claude.encode, claude),
        (chat_gemini.encode, gemini),
        (chat_responses.encode, responses),
    ],
    ids=["completions", "claude", "gemini", "responses"],
)
def test_a_turn_of_one_text_is_encoded_like_any_other_turn(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, encode: Encode, role: Role, text: Text
) -> None:
    found = outcome(encode, role, text)
    monkeypatch.setattr(module, "sole_text", no_text)
    assert found == outcome(encode, role, text)


def no_text(_: Turn) -> None:
    """Replacement for `sole_text()` that sends every turn to the general encoder."""
