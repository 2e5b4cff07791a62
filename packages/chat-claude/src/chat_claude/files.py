"""Parts with fields that only Claude supports: uploaded files, citable documents and cache points."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from chat_core.arguments import require_type
from chat_core.errors import UsageError
from chat_core.messages import File, Opaque, ProviderPart, Text
from chat_core.wire.shapes import Json

from chat_claude.options import DEFAULT_PROVIDER, CacheTtl
from chat_claude.parts import cache_point

PartT = TypeVar("PartT", Text, File)


def uploaded(file_id: str, mime: str, *, name: str | None = None, provider: str = DEFAULT_PROVIDER) -> File:
    """Return a `File` that refers to an upload in the Files API.

    Images, PDF and plain text are sent as image and document blocks. Files of other types are put into the container
    of the code execution tool.

    Args:
        file_id: the id of the upload.
        mime: mime type of the file.
        name: title of a document.
        provider: provider name of the model that receives the file, if it is not the default name.
    """
    return File(mime, name=name, opaque=Opaque(provider, {"file_id": file_id}))


def document(
    file: File,
    *,
    title: str | None = None,
    context: str | None = None,
    citations: bool = True,
    provider: str = DEFAULT_PROVIDER,
) -> File:
    """Return a copy of `file` as a document that the model may cite.

    Citations of the document are in `Text.opaque` of the response.

    Args:
        file: a PDF or text file.
        title: title of the document.
        context: information about the document that the model reads but cannot cite.
        citations: whether the model may cite the document.
        provider: provider name of the model that receives the file, if it is not the default name.
    """
    fields: Json = {"citations": {"enabled": citations}}
    if title is not None:
        fields["title"] = title
    if context is not None:
        fields["context"] = context
    return _with_fields(file, fields, provider)


def cached(part: PartT, ttl: CacheTtl = "5m", *, provider: str = DEFAULT_PROVIDER) -> PartT:
    """Return a copy of `part` with a cache point. The API caches the prompt up to and including this part.

    The API accepts at most four cache points per request, including cache points set with `Cache`.

    Args:
        part: a text or file.
        ttl: lifetime of the cache entry, `"5m"` or `"1h"`.
        provider: provider name of the model that receives the part, if it is not the default name.
    """
    return _with_fields(part, {"cache_control": cache_point(ttl)}, provider)


def search_result(
    title: str, source: str, *texts: str, citations: bool = True, provider: str = DEFAULT_PROVIDER
) -> ProviderPart:
    """Return a part with a search result from the application that the model may cite.

    Args:
        title: title of the result.
        source: URL or other name of the source.
        *texts: the text of the result, in pieces that are cited separately.
        citations: whether the model may cite the result.
        provider: provider name of the model that receives the result, if it is not the default name.

    Raises:
        UsageError: `texts` is empty.
    """
    if not texts:
        msg = f"the search result {title!r} has no text: call search_result(title, source, 'text of the result')"
        raise UsageError(msg)
    block: Json = {
        "type": "search_result",
        "source": source,
        "title": title,
        "content": [{"type": "text", "text": text} for text in texts],
        "citations": {"enabled": citations},
    }
    return ProviderPart(provider, "search_result", block)


def _with_fields(part: PartT, fields: Json, provider: str) -> PartT:
    require_type("part", part, (Text, File), "a Text or a File")
    opaque = part.opaque
    if opaque is not None and opaque.provider != provider:
        msg = (
            f"this {type(part).__name__} already has opaque data of {opaque.provider}, and {provider} cannot add "
            "fields to it: create a new part"
        )
        raise UsageError(msg)
    known: Json = dict(opaque.data) if opaque is not None else {}
    return replace(part, opaque=Opaque(provider, known | fields))
