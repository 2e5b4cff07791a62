"""Shortening of texts to a number of characters, at the ends of words."""

from __future__ import annotations

from typing import Final

TRUNCATED: Final = "...(truncated)"
_LONGEST_WORD: Final = 100
"""Maximum number of characters by which a cut is moved to reach the end of a word."""
_HEAD_PERCENT: Final = 65


def truncate(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, followed by `TRUNCATED` if it was longer.

    Args:
        text: the text to truncate.
        limit: maximum number of characters.
    """
    return text if len(text) <= limit else text[: _word_end(text, limit)].rstrip() + TRUNCATED


def shorten(text: str, limit: int) -> tuple[str, int]:
    """Shorten a text to its beginning and its end. Return the shortened text and the length of the beginning.

    A notice between the two parts states the number of omitted characters. A text within the limit is returned
    unchanged.

    Args:
        text: the text to shorten.
        limit: maximum number of characters, including the notice.
    """
    if len(text) <= limit:
        return text, len(text)
    room = limit - len(_omission_notice(len(text)))
    head = room * _HEAD_PERCENT // 100
    end = _word_end(text, head)
    start = _word_start(text, len(text) - (room - head))
    return f"{text[:end]}{_omission_notice(start - end)}{text[start:]}", end


def _omission_notice(count: int) -> str:
    return f"\n\n[...{count} characters omitted...]\n\n"


def _word_end(text: str, index: int) -> int:
    """Return the end of the last word that ends at or before `index`, or `index` if that word is too far away."""
    for end in range(index, max(0, index - _LONGEST_WORD), -1):
        if text[end].isspace():
            return end
    return index


def _word_start(text: str, index: int) -> int:
    """Return the start of the first word that starts at or after `index`, or `index` if that word is too far away."""
    for start in range(index, min(len(text), index + _LONGEST_WORD)):
        if text[start - 1].isspace():
            return start
    return index
