"""`Statement`, `Fact`, and the outcomes of storing a statement.

A statement assigns an object to a subject and a predicate, with a source and a time. A fact is a subject, a predicate
and an object. Any number of statements may support one fact. The current facts are computed from all statements, so
they do not depend on the order in which the statements arrive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final, Literal, TypeAlias, TypeVar
from unicodedata import normalize as normalize_unicode

from chat_core.arguments import argument_error, require_items, require_number, require_type
from chat_core.clock import to_utc
from chat_core.errors import UsageError

from chat_memory.citations import Citation

T = TypeVar("T")

Source: TypeAlias = Literal["stated", "system", "observed", "inferred"]
"""The kind of source: an explicit statement of a user, the application, a tool or document, or a model's inference."""

SOURCE_CONFIDENCE: Final[dict[Source, float]] = {"stated": 1.0, "system": 0.9, "observed": 0.7, "inferred": 0.5}
"""The confidence in a statement by its source. The strongest source is first."""

FactStatus: TypeAlias = Literal["current", "candidate", "historical", "retracted"]
"""The status of a fact at one time.

- `current`: the fact is true at that time.
- `candidate`: the fact contradicts the current fact, has a weaker source, and was not confirmed.
- `historical`: the fact is no longer true, or not true yet.
- `retracted`: all statements of the fact were retracted.
"""

_SEPARATORS = re.compile(r"[\s_]+")
FORGOTTEN_PREFIX: Final = "forgotten "
"""Prefix of each name that `forgotten_record()` returns."""
UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
"""Characters that a database cannot store: null, and unpaired surrogates."""
MAX_NAME_BYTES: Final = 1000
"""The maximum length of a name in UTF-8. PostgreSQL cannot index names that are much longer."""


def normalize(name: str) -> str:
    """Return the normalized form of a subject, predicate, object or entity name, by which names are compared.

    Unicode is composed (NFC), case is folded, and runs of white space and underscores become one underscore.
    """
    if not isinstance(name, str):
        what = "a name"
        raise argument_error(what, "a string", name)
    return normalize_unicode("NFC", _SEPARATORS.sub("_", normalize_unicode("NFC", name).strip()).casefold())


def require_name(name: str, what: str) -> str:
    """Return `name` if it is a valid subject, predicate, object or entity name.

    Args:
        name: the value to check.
        what: description of the value for the error message, such as "subject".

    Raises:
        UsageError: the name is not a string, is blank, or cannot be stored.
    """
    if not isinstance(name, str):
        raise argument_error(what, "a string", name)
    if not normalize(name).strip("_"):
        msg = f"{what} must not be blank, but is {name!r}"
        raise UsageError(msg)
    return require_text(name, what)


def require_text(text: str, what: str) -> str:
    """Return `text` if every database can store it.

    Args:
        text: the value to check.
        what: description of the value for the error message, such as "text".

    Raises:
        UsageError: the text has a null character or an unpaired surrogate, which a database cannot store.
    """
    if not isinstance(text, str):
        raise argument_error(what, "a string", text)
    if UNSTORABLE.search(text):
        msg = f"{what} cannot be stored: remove null characters and unpaired surrogates from {text!r}"
        raise UsageError(msg)
    return text


def require_short(name: str, what: str) -> str:
    """Return `name` if it is short enough to be stored.

    Args:
        name: the value to check.
        what: description of the value for the error message, such as "subject".

    Raises:
        UsageError: the name is longer than `MAX_NAME_BYTES`.
    """
    if (size := len(name.encode())) > MAX_NAME_BYTES:
        msg = f"{what} must have at most {MAX_NAME_BYTES:,} bytes in UTF-8, not {size:,}: {name[:60]!r}…"
        raise UsageError(msg)
    return name


def require_all(name: str, values: Iterable[T], kind: type, expected: str) -> tuple[T, ...]:
    """Return `values` as a tuple if all are instances of a class.

    Args:
        name: name of the argument.
        values: the values to check.
        kind: class of the values.
        expected: description of the values for the error message, such as "ids of facts".

    Raises:
        UsageError: `values` cannot be iterated over, or one of them has another class.
    """
    require_type(name, values, Iterable, expected)
    found = tuple(values)
    require_items(name, found, kind, expected)
    return found


@dataclass(frozen=True, slots=True)
class Statement:
    """A subject, a predicate and an object with a source and a time, to be stored with `MemoryScope.add()`.

    Attributes:
        subject: what the statement is about, such as "user" or "parcel 17".
        predicate: the property, such as "lives in".
        object: the value of the property, such as "Berlin".
        text: the statement as a sentence. Default: subject, predicate and object.
        source: how the statement became known, such as "stated" or "inferred".
        confidence: how certain the statement is, from 0 to 1. Default: the confidence of its `source`.
        said_at: when the statement was made. Default: the time at which it is stored.
        valid_from: the time from which it is true. Default: `said_at`.
        valid_to: the time until which it is true. None if it is still true.
        citation: source of the statement, such as a turn of a conversation.
        key: identifies the statement among the statements of the same fact, so that storing it again changes nothing.
            Default: the conversation and turn of a `SessionCitation`, or a new key for other citations.
        entities: names of other entities that the statement is about, in addition to subject and object.
    """

    subject: str
    predicate: str
    object: str
    text: str | None = None
    source: Source = "stated"
    confidence: float | None = None
    said_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    citation: Citation | None = None
    key: str | None = None
    entities: Sequence[str] = ()

    def __post_init__(self) -> None:
        require_name(self.subject, "subject")
        require_name(self.predicate, "predicate")
        require_name(self.object, "object")
        for field in ("text", "key"):
            if (text := getattr(self, field)) is not None:
                require_text(text, field)
        require_items("entities", self.entities, str, "a sequence of names")
        for name in self.entities:
            require_name(name, "the name of an entity")
        require_text(self.source, "source")
        if self.source not in SOURCE_CONFIDENCE:
            msg = f"source must be one of {', '.join(SOURCE_CONFIDENCE)}, not {self.source!r}"
            raise UsageError(msg)
        if self.confidence is not None:
            require_number("confidence", self.confidence)
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            msg = f"confidence must be between 0 and 1, not {self.confidence!r}"
            raise UsageError(msg)
        for field in ("said_at", "valid_from", "valid_to"):
            if (time := getattr(self, field)) is not None:
                object.__setattr__(self, field, to_utc(time, field))
        begins = self.valid_from or self.said_at
        if self.valid_to is not None and begins is not None and self.valid_to <= begins:
            msg = f"valid_to must be after valid_from, but {self.valid_to} is not after {begins}"
            raise UsageError(msg)


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact, described by the strongest and latest of its statements.

    Attributes:
        id: identifies the fact in its scope. The same subject, predicate and object always have the same id.
        subject: what the fact is about, such as "user" or "parcel 17".
        predicate: the property, such as "lives in".
        object: the value of the property, such as "Berlin".
        text: the fact as a sentence.
        status: the status at the requested time.
        source: how the statement became known, such as "stated" or "inferred".
        confidence: how certain the statement is, from 0 to 1.
        said_at: when the statement was made.
        valid_from: beginning of the uninterrupted period in which the fact has this status.
        valid_to: the end of that period. None if no end is known.
        recorded_at: the time at which the statement was stored.
        retired_at: the time at which the statement was retracted.
        citation: source of the statement, such as a turn of a conversation.
        reinforcements: the number of other statements that support the fact.
        accessed_at: last time at which a model received the fact.
    """

    id: str
    subject: str
    predicate: str
    object: str
    text: str
    status: FactStatus
    source: Source
    confidence: float
    said_at: datetime
    valid_from: datetime
    valid_to: datetime | None
    recorded_at: datetime
    retired_at: datetime | None
    citation: Citation | None
    reinforcements: int
    accessed_at: datetime | None = None


def fact_id(scope: str, subject: str, predicate: str, object: str) -> str:
    """Return the id of a fact, which is derived from its scope and its normalized fields.

    Args:
        scope: the name of the scope.
        subject: what the fact is about.
        predicate: the property.
        object: the value of the property.
    """
    names = "\0".join([scope, normalize(subject), normalize(predicate), normalize(object)])
    return sha256(names.encode()).hexdigest()[:32]


def forgotten_record(id: str, turn: int | None) -> str:
    """Return the name of the record which states that a fact was forgotten.

    While this record is stored, an `Indexer` does not store the fact again from the same turn.

    Args:
        id: the id of the fact.
        turn: the index of the turn that a statement of the fact cites.
    """
    return f"{FORGOTTEN_PREFIX}{id} {'' if turn is None else turn}"


def is_forgotten_record(name: str) -> bool:
    """Return whether `forgotten_record()` returned a name.

    Args:
        name: the name of a record.
    """
    return name.startswith(FORGOTTEN_PREFIX)


@dataclass(frozen=True, slots=True)
class Inserted:
    """Outcome of a statement whose fact is new and current, without contradicting another fact."""

    fact: Fact


@dataclass(frozen=True, slots=True)
class Reinforced:
    """Outcome of a statement whose fact was already current. The statement is added to the fact."""

    fact: Fact


@dataclass(frozen=True, slots=True)
class Superseded:
    """Outcome of a statement whose fact is now current, and has replaced other facts.

    Attributes:
        fact: the fact that is current now.
        replaced: the ids of the facts that were current before.
    """

    fact: Fact
    replaced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Outcome of a statement that contradicts a current fact of a stronger source.

    The fact is stored as a candidate, until a stronger statement or `MemoryScope.promote()` confirms it.

    Attributes:
        fact: the candidate.
        current: the id of the fact that stays current.
    """

    fact: Fact
    current: str


@dataclass(frozen=True, slots=True)
class Historical:
    """Outcome of a statement that is not in force now.

    A later statement that is at least as strong replaced it, or its period has ended.
    """

    fact: Fact


Outcome: TypeAlias = Inserted | Reinforced | Superseded | Candidate | Historical
"""The result of storing a statement."""
