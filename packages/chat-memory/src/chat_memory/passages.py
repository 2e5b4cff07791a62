"""Passages (texts other than facts, such as conversation turns), and conversion of their vectors."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import cast

from chat_core.arguments import argument_error, require_type, require_whole
from chat_core.clock import to_utc
from chat_core.errors import UsageError

from chat_memory.facts import require_name, require_text
from chat_memory.graph import Entity


@dataclass(frozen=True, slots=True)
class Passage:
    """A text with its place and speaker, to be stored with `MemoryScope.add_passages()`.

    Attributes:
        text: the spoken or written text.
        conversation: the conversation or document that contains it.
        position: position of the text in the conversation.
        kind: the kind of text, such as "turn", "summary" or "note". "fact" is reserved.
        speaker: the speaker or author.
        said_at: the time at which it was spoken or written.
    """

    text: str
    conversation: str
    position: int = 0
    kind: str = "turn"
    speaker: str | None = None
    said_at: datetime | None = None

    def __post_init__(self) -> None:
        require_text(self.text, "text")
        require_name(self.conversation, "conversation")
        require_name(self.kind, "kind")
        require_whole("position", self.position, 0)
        if self.speaker is not None:
            require_text(self.speaker, "speaker")
        if self.kind == "fact":
            msg = 'the kind "fact" is reserved for facts: store a Statement with add() instead'
            raise UsageError(msg)
        if self.said_at is not None:
            object.__setattr__(self, "said_at", to_utc(self.said_at, "said_at"))


@dataclass(frozen=True, slots=True)
class Document:
    """A text that recall can find: a passage, or a fact.

    Attributes:
        id: identifies the document in its database.
        kind: the kind of the passage, or "fact".
        text: the text that is searched.
        fact: the id of the fact, None for a passage.
        conversation: the conversation of a passage.
        position: the position of a passage in its conversation.
        speaker: the speaker or author.
        said_at: the time at which it was spoken or written.
    """

    id: int
    kind: str
    text: str
    fact: str | None = None
    conversation: str | None = None
    position: int | None = None
    speaker: str | None = None
    said_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """A filter for the documents that `Recall` may find. None accepts any value.

    Attributes:
        kinds: only documents of these kinds, such as "fact" or "turn".
        conversations: only passages of these conversations. Facts belong to no conversation.
        since: only documents that were spoken or written at this time or later.
        until: only documents that were spoken or written before this time.
    """

    kinds: Collection[str] | None = None
    conversations: Collection[str] | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        for field in ("kinds", "conversations"):
            _require_texts(field, getattr(self, field))
        for field in ("since", "until"):
            if (time := getattr(self, field)) is not None:
                object.__setattr__(self, field, to_utc(time, field))

    def accepts(self, document: Document) -> bool:
        """Return whether the filter accepts a document. A filter by time rejects documents without a time."""
        require_type("document", document, Document, "a Document")
        said = document.said_at
        return (
            (self.kinds is None or document.kind in self.kinds)
            and (self.conversations is None or document.conversation in self.conversations)
            and (self.since is None or (said is not None and said >= self.since))
            and (self.until is None or (said is not None and said < self.until))
        )


def _require_texts(field: str, texts: object) -> None:
    if texts is None:
        return
    if isinstance(texts, str):
        msg = f"{field} must be a collection of texts, not the text {texts!r}"
        raise UsageError(msg)
    if not _are_texts(texts):
        raise argument_error(field, "a collection of texts, or None", texts)


def _are_texts(value: object) -> bool:
    return isinstance(value, Collection) and all(isinstance(text, str) for text in cast("Collection[object]", value))


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A document that contains words of a query.

    Attributes:
        document: the id of the document.
        score: quality of the match. A greater number is better. The scale depends on the database.
    """

    document: int
    score: float


@dataclass(frozen=True, slots=True)
class ScopeChanges:
    """The searchable content of a scope that may have changed since an earlier revision.

    Attributes:
        revision: the revision of the scope.
        documents: the passages and current facts that may have changed, ordered by id.
        vectors: the ids of those documents that have a vector, and the vectors in the format of
            `MemoryScope.vectors()`.
        changed: the ids of all documents that may have been changed or deleted. None means that all documents are
            listed, because the scope has no such earlier revision.
        entities: all entities, or None if none was added or deleted.
    """

    revision: int
    documents: Sequence[Document]
    vectors: tuple[list[int], bytes]
    changed: Collection[int] | None = None
    entities: Sequence[Entity] | None = None


def vector_to_bytes(vector: Sequence[float]) -> bytes:
    """Convert a vector to little-endian 32-bit numbers.

    Raises:
        UsageError: the vector is empty, or a number does not fit into a 32-bit float.
    """
    try:
        numbers = array("f", vector)
    except (OverflowError, TypeError) as error:
        msg = f"a vector must contain numbers that fit into 32-bit floats: {error}"
        raise UsageError(msg) from error
    if not numbers:
        msg = "a vector must contain at least one number, but it is empty"
        raise UsageError(msg)
    if not all(map(isfinite, numbers)):
        index = next(index for index, number in enumerate(numbers) if not isfinite(number))
        msg = f"a vector must contain finite numbers, not {numbers[index]} at index {index}"
        raise UsageError(msg)
    if array("H", [1]).tobytes() != b"\1\0":
        numbers.byteswap()
    return numbers.tobytes()
