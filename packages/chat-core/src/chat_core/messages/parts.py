"""The parts of a message. All are immutable; a tool, which has a life, is in `tool.py`."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias, final

from chat_core.errors import UsageError

if TYPE_CHECKING:
    from chat_core.messages.tool import Tool

Extra: TypeAlias = Mapping[str, object] | None
"""Fields of a stored document that this version does not know. They are kept and written back."""


@final
@dataclass(frozen=True, slots=True)
class Opaque:
    """Data that belongs to one provider and means nothing to the others: a signature, an id, log probabilities.

    `data` is JSON. A provider sends only what carries its own name and leaves the rest in the history.
    """

    provider: str
    data: Mapping[str, object]
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Text:
    """Words."""

    text: str
    opaque: Opaque | None = None
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Reasoning:
    """What a model thought before it spoke, with the signature that proves it to the provider."""

    text: str
    signature: str | None = None
    opaque: Opaque | None = None
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Structured:
    """A JSON value that a provider emitted as such. The history keeps structured answers as text."""

    value: object
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class File:
    """A file: its bytes, a URL that leads to it, or an id by which its provider knows it (in `opaque`).

    Raises:
        UsageError: it has neither, or both bytes and a URL.
    """

    mime: str
    data: bytes | None = field(default=None, repr=False)
    url: str | None = None
    name: str | None = None
    opaque: Opaque | None = None
    extra: Extra = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.data is not None and self.url is not None:
            msg = "a File has bytes or a URL, not both: drop one of them"
            raise UsageError(msg)
        if self.data is None and self.url is None and self.opaque is None:
            msg = "a File needs its bytes, a URL, or the opaque data by which its provider knows it; it has none"
            raise UsageError(msg)

    @classmethod
    def from_path(cls, path: str | Path, mime: str | None = None) -> Self:
        """Read a file now. Its mime type is guessed from its name where `mime` does not say it.

        Raises:
            OSError: it cannot be read.
            UsageError: its name tells no mime type; pass `mime`.
        """
        path = Path(path)
        return cls(mime or _guess(path.name), data=path.read_bytes(), name=path.name)

    @classmethod
    def from_url(cls, url: str, mime: str | None = None) -> Self:
        """Refer to a file by URL; nothing is fetched. The mime type is guessed from its path where `mime` is not given.

        Raises:
            UsageError: the URL tells no mime type; pass `mime`.
        """
        return cls(mime or _guess(url.partition("?")[0].partition("#")[0]), url=url)

    @property
    def kind(self) -> str:
        """The part of the mime type before the slash: `image`, `audio`, `video`, `text`, `application` and so on."""
        return self.mime.partition("/")[0]


def _guess(name: str) -> str:
    mime = mimetypes.guess_type(name)[0]
    if mime is None:
        msg = f"the mime type of {name!r} cannot be told from its name; pass mime='…'"
        raise UsageError(msg)
    return mime


@final
@dataclass(frozen=True, slots=True)
class Embedding:
    """One vector."""

    vector: tuple[float, ...]
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class ProviderPart:
    """A block that only its provider understands (redacted thinking, a server tool's use, a refusal), kept whole.

    `kind` is the provider's name for it. The provider sends `data` back where it stood; others leave it out. A part of
    a type that this version does not know, read from a stored document, is one that belongs to `NOBODY`.
    """

    provider: str
    kind: str
    data: Mapping[str, object]
    extra: Extra = field(default=None, repr=False)


NOBODY = ""
"""The owner of a `ProviderPart` that was a part of an unknown type in a stored document; it is written back as it was.
"""

Part: TypeAlias = "Text | Reasoning | Tool | Structured | File | Embedding | ProviderPart"
