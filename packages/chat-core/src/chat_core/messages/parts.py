"""Immutable parts of a turn, such as texts and files.

`Tool`, the only mutable part, is in `tool.py`. `Part`, the union of all parts, is in `content.py`.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Self, TypeAlias, cast, final

from chat_core import model_texts
from chat_core.arguments import argument_error, require_optional_text, require_path, require_text, require_time
from chat_core.errors import UsageError
from chat_core.json import find_fault
from chat_core.messages.file_types import detect_mime

Extra: TypeAlias = Mapping[str, object] | None
"""Fields of a stored document that this version does not know, but keeps and writes back unchanged."""


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
    """Text part of a turn, for any role."""

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
    """JSON value that a provider returned instead of text. An answer sent as JSON text is stored as a `Text` part.

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
    """File part of a turn, specified by its bytes, its URL, or the provider's id for the file (in `opaque`).

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
        """Create a `File` from a file on disk, which is read synchronously.

        Args:
            path: path of the file. Its last component becomes the name.
            mime: MIME type; determined from the content, then from the name, if omitted.

        Raises:
            OSError: the file cannot be read.
            UsageError: neither the content nor the name shows the MIME type, or an argument has the wrong type.
        """
        require_path("path", path)
        path = Path(path)
        return cls.from_bytes(path.read_bytes(), mime, name=path.name)

    @classmethod
    def from_bytes(
        cls, data: bytes | bytearray | memoryview, mime: str | None = None, *, name: str | None = None
    ) -> Self:
        """Create a `File` from the content of a file.

        Args:
            data: content of the file. A `bytearray` or a `memoryview` is copied.
            mime: MIME type; determined from the content, then from the name, if omitted.
            name: file name.

        Raises:
            UsageError: neither the content nor the name shows the MIME type, or an argument has the wrong type.
        """
        if isinstance(data, (bytearray, memoryview)):
            data = bytes(data)
        elif not isinstance(data, bytes):
            raise argument_error("data", "bytes, such as text.encode() or path.read_bytes()", data)
        require_optional_text(mime=mime, name=name)
        found = mime or detect_mime(data, name)
        if found is None:
            msg = f"cannot determine the MIME type of {'the file' if name is None else repr(name)}: pass mime='…'"
            raise UsageError(msg)
        return cls(found, data=data, name=name)

    @classmethod
    def from_url(cls, url: str, mime: str | None = None) -> Self:
        """Create a `File` that refers to a URL, without fetching the URL.

        Args:
            url: URL that the provider can fetch.
            mime: MIME type; guessed from the path of the URL if omitted.

        Raises:
            UsageError: the MIME type cannot be guessed, or an argument is not a string.
        """
        require_text(url=url)
        require_optional_text(mime=mime)
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
    """Embedding vector as a part of a turn."""

    vector: tuple[float, ...]
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class ProviderPart:
    """Block in a provider's own format, such as redacted thinking, a server-side tool call or a refusal.

    The same provider sends `data` back unchanged in later requests. Other providers omit the block. Parts of unknown
    type in a stored document become blocks whose provider is `NOBODY`.

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
    """Summary that a model receives instead of the first turns of a conversation.

    The summary has this effect only in a user turn written by the engine. The summarized turns stay in the history. A
    summary is ignored if the last summarized turn has changed.

    Attributes:
        text: the summary.
        covers: number of summarized turns, counted from the beginning of the history.
        digest: digest of the last summarized turn, which shows whether that turn has changed.

    Raises:
        UsageError: `covers` is not a non-negative integer, or `text` or `digest` is not a string.
    """

    text: str
    covers: int
    digest: str
    extra: Extra = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_text(text=self.text, digest=self.digest)
        _require_index("Summary(covers)", self.covers)


@final
@dataclass(frozen=True, slots=True)
class Rewind:
    """Marker that returns to an earlier point of a conversation, so that models do not receive the turns in between.

    The marker has this effect only in a user turn written by the engine. The turns stay in the history.

    Attributes:
        to: index of the first turn that models do not receive.

    Raises:
        UsageError: `to` is not a non-negative integer.
    """

    to: int
    extra: Extra = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _require_index("Rewind(to)", self.to)


@final
@dataclass(frozen=True, slots=True)
class RecalledNote:
    """One note that a memory found, such as a fact or a message of an earlier conversation.

    Attributes:
        text: text of the note.
        source: origin of the note, such as the name of a speaker or of a conversation.
        said_at: time at which the content of the note was said or written, with a time zone.
        confidence: certainty of the note, from 0 to 1.
        id: identifies the note in its memory. Models do not receive it.

    Raises:
        UsageError: a text is not a string, `said_at` is not a time with a time zone, or `confidence` is not a number
            between 0 and 1.
    """

    text: str
    source: str | None = None
    said_at: datetime | None = None
    confidence: float | None = None
    id: str | None = None
    extra: Extra = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_text(text=self.text)
        require_optional_text(source=self.source, id=self.id)
        if self.said_at is not None:
            require_time("said_at", self.said_at)
        if self.confidence is None:
            return
        if type(self.confidence) not in {int, float} or not 0 <= self.confidence <= 1:
            msg = f"confidence must be between 0 and 1, not {self.confidence!r}"
            raise UsageError(msg)


@final
@dataclass(frozen=True, slots=True)
class Recalled:
    """Notes from a memory, which a model receives before a user message, as data.

    The part has this effect only in a user turn written by the engine. The turn follows the message in the history.
    See `ChatBuilder.with_memory()`.

    Attributes:
        notes: the notes, most relevant first.

    Raises:
        UsageError: `notes` is not a tuple of notes.
    """

    notes: tuple[RecalledNote, ...]
    extra: Extra = field(default=None, repr=False)

    def __post_init__(self) -> None:
        notes = cast("object", self.notes)
        if not isinstance(notes, tuple) or not all(map(_is_note, cast("tuple[object, ...]", notes))):
            raise argument_error("notes", "a tuple of RecalledNote objects", self.notes)

    @property
    def text(self) -> str:
        """The text that a model receives: a heading, and each note as a line of JSON.

        Control characters and invisible characters are removed. Characters that could end the quotation, or that mark
        roles, tool calls or code in other texts, are escaped.
        """
        return model_texts.recalled([_fields_for_model(note) for note in self.notes])


def _is_note(note: object) -> bool:
    return isinstance(note, RecalledNote)


def _fields_for_model(note: RecalledNote) -> dict[str, str | float]:
    fields: dict[str, str | float] = {"note": note.text}
    if note.source is not None:
        fields["source"] = note.source
    if note.said_at is not None:
        fields["date"] = note.said_at.date().isoformat()
    if note.confidence is not None:
        fields["confidence"] = round(note.confidence, 2)
    return fields


def _require_index(name: str, value: object) -> None:
    if type(value) is not int or value < 0:
        msg = f"{name} must be a whole number of at least 0, not {value!r}"
        raise UsageError(msg)


NOBODY = ""
"""Provider name of a `ProviderPart` that holds a part of unknown type. Such a part is written back unchanged."""
