"""Parts with what only Claude knows of them: uploaded files, documents that can be cited, and cache points."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from chat_core.errors import UsageError
from chat_core.messages import File, Opaque, ProviderPart, Text
from chat_core.wire.shapes import Json

from chat_claude.options import DEFAULT_PROVIDER, CacheTtl
from chat_claude.parts import cache_point

PartT = TypeVar("PartT", Text, File)


def uploaded(file_id: str, mime: str, *, name: str | None = None, provider: str = DEFAULT_PROVIDER) -> File:
    """A file that was uploaded, by its id. Images, PDF and text are read; any other one goes to the container."""
    return File(mime, name=name, opaque=Opaque(provider, {"file_id": file_id}))


def document(
    file: File,
    *,
    title: str | None = None,
    context: str | None = None,
    citations: bool = True,
    provider: str = DEFAULT_PROVIDER,
) -> File:
    """A document that the answer may cite: the citations are in the opaque data of its texts.

    Args:
        file: a PDF or a text.
        title: what the document is called.
        context: what the model is told of it, and cannot cite.
        citations: whether it may be cited.
        provider: the name of the provider, where it is not the default one.
    """
    fields: Json = {"citations": {"enabled": citations}}
    if title is not None:
        fields["title"] = title
    if context is not None:
        fields["context"] = context
    return _with(file, fields, provider)


def cached(part: PartT, ttl: CacheTtl = "5m", *, provider: str = DEFAULT_PROVIDER) -> PartT:
    """A part behind which the prompt is cached. The API takes four such points in a request, counting every kind."""
    return _with(part, {"cache_control": cache_point(ttl)}, provider)


def search_result(
    title: str, source: str, *texts: str, citations: bool = True, provider: str = DEFAULT_PROVIDER
) -> ProviderPart:
    """A search result of the application's own that the answer may cite.

    Raises:
        UsageError: it has no text.
    """
    if not texts:
        msg = f"the search result {title!r} needs a text at least: search_result(title, source, 'what was found')"
        raise UsageError(msg)
    block: Json = {
        "type": "search_result",
        "source": source,
        "title": title,
        "content": [{"type": "text", "text": text} for text in texts],
        "citations": {"enabled": citations},
    }
    return ProviderPart(provider, "search_result", block)


def _with(part: PartT, fields: Json, provider: str) -> PartT:
    opaque = part.opaque
    if opaque is not None and opaque.provider != provider:
        msg = (
            f"this {type(part).__name__} belongs to {opaque.provider}, and {provider} cannot add to it: make a new one"
        )
        raise UsageError(msg)
    known: Json = dict(opaque.data) if opaque is not None else {}
    return replace(part, opaque=Opaque(provider, known | fields))
