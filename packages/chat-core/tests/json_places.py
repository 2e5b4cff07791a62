"""The places in a JSON document, for tests that replace each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chat_core.wire.shapes import is_list, is_object


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a document. The path of the document itself is empty and comes first."""
    yield path
    entries: list[tuple[Any, Any]] = []
    if is_object(value):
        entries += value.items()
    elif is_list(value):
        entries += enumerate(value)
    for key, item in entries:
        yield from places(item, (*path, key))
