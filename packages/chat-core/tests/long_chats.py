"""Long conversations, and models that do not report tokens, for tests of context policies."""

from __future__ import annotations

from chat_core import Messages, Text, Turn, Usage
from chat_core.testing import Answer, ScriptedProvider

WORDS = "text " * 60  # 100 tokens by estimate
NOT_COUNTED = Usage()


def uncounted(*texts: str) -> ScriptedProvider:
    """Return a model that does not report tokens, so that their number is estimated."""
    return ScriptedProvider(*[Answer([text], usage=NOT_COUNTED) for text in texts])


def long_conversation(exchanges: int) -> Messages:
    messages = Messages()
    for number in range(exchanges):
        messages.append("user", Turn([Text(f"question {number} {WORDS}")]))
        messages.append("model", Turn([Text(f"answer {number} {WORDS}")], finish_reason="stop"))
    return messages
