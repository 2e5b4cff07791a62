"""Conversion of the sources that a model turn cites to parts of UI messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from chat_core import Part, ProviderPart, Text

Json: TypeAlias = dict[str, object]


def find_sources(parts: Sequence[Part]) -> list[Json]:
    """Return one `source-url` or `source-document` part for each cited page or document, without duplicates.

    Citations of Chat Completions, Responses and Claude are recognized.

    Args:
        parts: parts of a model's turn.
    """
    found: dict[str, Json] = {}
    for citation in _iterate_citations(parts):
        url, title = citation.get("url"), citation.get("title") or citation.get("document_title")
        named = {"title": title} if isinstance(title, str) else {}
        if isinstance(url, str):
            found.setdefault(url, {"type": "source-url", "sourceId": url, "url": url, **named})
        elif isinstance(title, str):
            found.setdefault(
                title, {"type": "source-document", "sourceId": title, "mediaType": "text/plain", "title": title}
            )
    return [*found.values()]


def _iterate_citations(parts: Sequence[Part]) -> Iterator[Mapping[str, object]]:
    for part in parts:
        if isinstance(part, Text) and part.opaque is not None:
            data = part.opaque.data
            inner = data.get("part")
            yield from _read_citations(data)
            if isinstance(inner, Mapping):
                yield from _read_citations(cast("Mapping[str, object]", inner))
        elif isinstance(part, ProviderPart) and part.kind == "annotations":
            yield from _read_citations(part.data)


def _read_citations(data: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for name in ("annotations", "citations"):
        items = data.get(name)
        for item in cast("list[object]", items) if isinstance(items, list) else ():
            if isinstance(item, Mapping):
                citation = cast("Mapping[str, object]", item)
                nested = citation.get("url_citation")
                yield cast("Mapping[str, object]", nested) if isinstance(nested, Mapping) else citation
