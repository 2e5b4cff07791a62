"""Parts of a turn, all immutable. `Tool`, the part with a life cycle, is in `tool.py`, their union in `content.py`."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeAlias, final

from chat_core.errors import UsageError
from chat_core.json import find_fault
from chat_core.messages.file_types import detect_mime

Extra: TypeAlias = Mapping[str, object] | None
"""Fields of a stored document that this version does not know. They are kept, and written back unchanged."""


@final
@dataclass(frozen=True, slots=True)
class Opaque:
    """Data that only one provider understands, such as a signature, an id or log probabilities.

    A provider sends only opaque data that carries its own name. All other opaque data stays in the history.

    Attributes:
        provider: name of the provider, as in `ProviderMeta.name`.
        data: JSON object in the provider's own format.
    """

    provider: str
    data: Mapping[str, object]
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Text:
    """Text, of any role."""

    text: str
    opaque: Opaque | None = None
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning that a model produced before its answer.

    Attributes:
        text: the reasoning, or the provider's summary of it.
        signature: token by which the provider recognizes its own reasoning, if the provider signs it.
    """

    text: str
    signature: str | None = None
    opaque: Opaque | None = None
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Structured:
    """JSON value that a provider returned as a value instead of text. Structured answers in the history are text.

    Raises:
        UsageError: `value` is not JSON: it has bytes, a number that is not finite, or a key that is not a string.
    """

    value: object
    extra: Extra = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if fault := find_fault(self.value):
            msg = f"Structured() needs JSON (str, finite numbers, bool, None, list, dict of str), and value{fault}"
            raise UsageError(msg)


@final
@dataclass(frozen=True, slots=True)
class File:
    """File, given by its bytes, its URL, or an id at its provider (in `opaque`).

    Attributes:
        mime: MIME type, such as `image/png`.
        data: content of the file.
        url: URL of the file; this library never fetches it.
        name: file name.
        opaque: reference to the file at its provider.

    Raises:
        UsageError: both `data` and `url` are given, or none of `data`, `url` and `opaque`.
    """

    mime: str
    data: bytes | None = field(default=None, repr=False)
    url: str | None = None
    name: str | None = None
    opaque: Opaque | None = None
    extra: Extra = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.data is not None and self.url is not None:
            msg = "File() got both data and url: pass only one of them"
            raise UsageError(msg)
        if self.data is None and self.url is None and self.opaque is None:
            msg = "File() got no content: pass data, url, or the opaque reference of a file at its provider"
            raise UsageError(msg)

    @classmethod
    def from_path(cls, path: str | Path, mime: str | None = None) -> Self:
        """Read a file from disk, synchronously.

        Args:
            path: path of the file. Its last component becomes the name.
            mime: MIME type; determined from the content, then from the name, if omitted.

        Raises:
            OSError: the file cannot be read.
            UsageError: neither the content nor the name shows the MIME type.
        """
        path = Path(path)
        return cls.from_bytes(path.read_bytes(), mime, name=path.name)

    @classmethod
    def from_bytes(cls, data: bytes, mime: str | None = None, *, name: str | None = None) -> Self:
        """Create a file from its content.

        Args:
            data: content of the file.
            mime: MIME type; determined from the content, then from the name, if omitted.
            name: file name.

        Raises:
            UsageError: neither the content nor the name shows the MIME type.
        """
        found = mime or detect_mime(data, name)
        if found is None:
            msg = f"cannot determine the MIME type of {'the file' if name is None else repr(name)}: pass mime='…'"
            raise UsageError(msg)
        return cls(found, data=data, name=name)

    @classmethod
    def from_url(cls, url: str, mime: str | None = None) -> Self:
        """Refer to a file by URL, without fetching it.

        Args:
            url: URL that the provider can fetch.
            mime: MIME type; guessed from the path of the URL if omitted.

        Raises:
            UsageError: the MIME type cannot be guessed.
        """
        return cls(mime or _guess_mime(url.partition("?")[0].partition("#")[0]), url=url)

    @property
    def kind(self) -> str:
        """Part of the MIME type before the slash, such as `image`, `audio`, `video`, `text` or `application`."""
        return self.mime.partition("/")[0]


def _guess_mime(name: str) -> str:
    mime = mimetypes.guess_type(name)[0]
    if mime is None:
        msg = f"cannot guess the MIME type of {name!r}: pass mime='…'"
        raise UsageError(msg)
    return mime


@final
@dataclass(frozen=True, slots=True)
class Embedding:
    """One embedding vector."""

    vector: tuple[float, ...]
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class ProviderPart:
    """Block that only its provider understands, kept whole: redacted thinking, a server-side tool, a refusal.

    The provider sends `data` back at the same place; other providers leave the block out. Parts of an unknown type in a
    stored document are read as blocks whose provider is `NOBODY`.

    Attributes:
        provider: name of the provider.
        kind: the provider's name for this type of block.
        data: JSON object in the provider's own format.
    """

    provider: str
    kind: str
    data: Mapping[str, object]
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Summary:
    """Summary that takes the place of the first turns of a conversation in what a model receives.

    Only a part of a user turn written by the engine has this effect. The summarized turns stay in the history. A
    summary is ignored if the last turn that it covers has changed: see `Messages.view()`.

    Attributes:
        text: the summary.
        covers: number of turns of the history that it summarizes, from the first one.
        digest: digest of the last of these turns.

    Raises:
        UsageError: `covers` is not a whole number from 0.
    """

    text: str
    covers: int
    digest: str
    extra: Extra = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _require_index("Summary(covers)", self.covers)


@final
@dataclass(frozen=True, slots=True)
class Rewind:
    """Return to an earlier point of a conversation: a model does not receive the turns from index `to` to this part.

    Only a part of a user turn written by the engine has this effect. The turns stay in the history.

    Attributes:
        to: index of the first turn that is left out.

    Raises:
        UsageError: `to` is not a whole number from 0.
    """

    to: int
    extra: Extra = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _require_index("Rewind(to)", self.to)


def _require_index(name: str, value: object) -> None:
    if type(value) is not int or value < 0:
        msg = f"{name} must be a whole number from 0, not {value!r}"
        raise UsageError(msg)


NOBODY = ""
"""Provider name of a `ProviderPart` that stands for a part of unknown type. It is written back as it was read."""
