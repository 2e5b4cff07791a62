"""Short descriptions of invalid arguments, for the model that wrote them."""

from __future__ import annotations

from collections.abc import Sequence

from chat_core import model_texts
from chat_core.json import dumps

SHOWN = 5
"""Maximum number of problems that the model receives."""

_LENGTH = 80


def truncated_json(value: object) -> str:
    """Return `value` as JSON text, or its `repr()` if it is not JSON, truncated to 80 characters."""
    try:
        text = dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}…"


def format_problems(problems: Sequence[str]) -> str:
    """Return an error text for the model. It contains the first `SHOWN` problems and the number of other problems."""
    shown = problems[:SHOWN]
    return model_texts.invalid_arguments(shown, len(problems) - len(shown))


def path_of(parts: Sequence[object]) -> str:
    """Return the path to a value in a JSON document as text, such as `items[2].price`."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or model_texts.WHOLE_ARGUMENTS
