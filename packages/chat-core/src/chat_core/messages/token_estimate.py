"""Estimates of the number of tokens in a turn, for turns that no provider has counted.

The estimate is usually too high. It counts three letters or spaces, one other ASCII character, or two bytes of any
other character as one token. English prose has about four letters per token, so its estimate is about a third too high.
For models whose small vocabulary was made for English, the estimates of other languages are too low: German by about a
tenth, Chinese by about a fifth.
"""

from __future__ import annotations

from typing import Final

from chat_core.json import dumps
from chat_core.messages.content import Part, Turn
from chat_core.messages.parts import File, Opaque, ProviderPart, Reasoning, Structured, Text
from chat_core.messages.tool import Tool

TURN_TOKENS: Final = 8
"""Number of tokens that each turn and each part adds, apart from its content."""
FILE_TOKENS: Final = 2_000
"""Tokens counted for a file that is not text, about the maximum that providers count for an image."""
PAGE_BYTES: Final = 50_000
"""Number of bytes of a document or recording that are counted as another `FILE_TOKENS` tokens."""

_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ \n"
_ASCII: Final = bytes(range(128))


def estimate_text(text: str) -> int:
    """Return the estimated number of tokens in a text."""
    data = text.encode(errors="surrogatepass")
    without_letters = len(data.translate(None, _LETTERS))
    others = len(data.translate(None, _ASCII))
    return -(-(len(data) - without_letters) // 3) + (without_letters - others) + -(-others // 2)


def estimate_turn(turn: Turn) -> int:
    """Return the estimated number of tokens in a turn, including the results of its tool calls."""
    return TURN_TOKENS + sum([estimate_part(part) for part in turn.parts])


def estimate_part(part: Part) -> int:
    """Return the estimated number of tokens in a part. A tool call includes its result."""
    if isinstance(part, Tool):
        return _tool_tokens(part)
    if isinstance(part, File):
        return _file_tokens(part)
    match part:
        case Text() | Reasoning():
            return TURN_TOKENS + estimate_text(part.text) + _opaque_tokens(part.opaque)
        case Structured():
            return TURN_TOKENS + estimate_text(dumps(part.value))
        case ProviderPart():
            return TURN_TOKENS + estimate_text(dumps(dict(part.data)))
        case _:
            # Embeddings are never sent. Parts that change a view are sent in another form.
            return 0


def _tool_tokens(tool: Tool) -> int:
    call = tool.call
    tokens = 2 * TURN_TOKENS + estimate_text(call.name) + estimate_text(call.text) + _opaque_tokens(call.opaque)
    if tool.resolved:
        tokens += estimate_text(tool.result_text()) + sum([_file_tokens(file) for file in tool.result_files])
    return tokens


def _file_tokens(file: File) -> int:
    if file.data is None:
        return FILE_TOKENS
    if file.kind == "text":
        return TURN_TOKENS + estimate_text(file.data.decode(errors="replace"))
    pages = 1 if file.kind == "image" else 1 + len(file.data) // PAGE_BYTES
    return pages * FILE_TOKENS


def _opaque_tokens(opaque: Opaque | None) -> int:
    return 0 if opaque is None else estimate_text(dumps(dict(opaque.data)))
