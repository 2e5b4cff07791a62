"""Citations of the sources of facts, and a function that detects sources that may have changed.

A citation is stored as JSON with its kind. No source is opened or requested. Only `staleness()` reads the modification
time of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias, cast, get_args

from chat_core.arguments import require_type
from chat_core.clock import to_utc
from chat_core.errors import InvalidDocumentError

Staleness: TypeAlias = Literal["fresh", "file_modified", "file_not_found", "age_exceeded", "unknown"]
"""Whether a source may have changed: `fresh`, `unknown`, or the reason why it may have."""

_MAX_WEB_AGE = timedelta(days=7)
_MAX_CLOCK_DIFFERENCE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class SessionCitation:
    """Citation of a turn in a stored conversation.

    Attributes:
        conversation: the id of the conversation.
        turn: the index of the turn.
        time: the time of the turn.
    """

    kind: ClassVar[str] = "session"
    conversation: str
    turn: int | None = None
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class FileCitation:
    """Citation of lines in a file.

    Attributes:
        path: the file.
        line_start: the first line.
        line_end: the last line.
        commit_hash: the commit in which the file was read.
        content_hash: the hash of the content that was read.
        modified: the modification time of the file when it was read.
    """

    kind: ClassVar[str] = "file"
    path: str
    line_start: int | None = None
    line_end: int | None = None
    commit_hash: str | None = None
    content_hash: str | None = None
    modified: datetime | None = None


@dataclass(frozen=True, slots=True)
class WebCitation:
    """Citation of a web page.

    Attributes:
        url: the address.
        fetched_at: when the page was requested.
        title: title of the page.
        content_hash: hash of the page's content.
        etag: the entity tag of the response.
    """

    kind: ClassVar[str] = "web"
    url: str
    fetched_at: datetime
    title: str | None = None
    content_hash: str | None = None
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class UserCitation:
    """Citation of a user who stated or decided a fact outside of a conversation.

    Attributes:
        by: the user.
        stated_at: the time of the statement or decision.
    """

    kind: ClassVar[str] = "user"
    by: str
    stated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SystemCitation:
    """Citation of a program that derived a fact.

    Attributes:
        method: the name of the program or method.
        derived_at: the time at which the fact was derived.
    """

    kind: ClassVar[str] = "system"
    method: str
    derived_at: datetime | None = None


Citation: TypeAlias = SessionCitation | FileCitation | WebCitation | UserCitation | SystemCitation
"""The source of a statement."""

_KINDS: Mapping[str, type[Citation]] = {
    "session": SessionCitation,
    "file": FileCitation,
    "web": WebCitation,
    "user": UserCitation,
    "system": SystemCitation,
}
_TIMES = {"time", "modified", "fetched_at", "stated_at", "derived_at"}


def staleness(citation: Citation | None, now: datetime) -> Staleness:
    """Return whether the source of a fact may have changed since it was read.

    A file is stale if it is missing or its modification time differs by more than a second. A web page is stale after 7
    days. Statements of users and derived facts never become stale.

    Args:
        citation: the source.
        now: the current time.
    """
    match citation:
        case FileCitation(modified=modified):
            return _file_staleness(Path(citation.path), modified)
        case WebCitation(fetched_at=fetched_at):
            return "age_exceeded" if now - fetched_at > _MAX_WEB_AGE else "fresh"
        case None:
            return "unknown"
        case _:
            return "fresh"


def _file_staleness(path: Path, modified: datetime | None) -> Staleness:
    try:
        seconds = path.stat().st_mtime
    except OSError:
        return "file_not_found"
    if modified is None:
        return "unknown"
    difference = abs(timedelta(seconds=seconds - modified.timestamp()))
    return "file_modified" if difference > _MAX_CLOCK_DIFFERENCE else "fresh"


def citation_to_dict(citation: Citation) -> dict[str, object]:
    """Convert a citation to a JSON object with its kind and the fields that are not None."""
    require_type("citation", citation, get_args(Citation), "a citation, such as UserCitation()")
    values = {field.name: getattr(citation, field.name) for field in fields(citation)}
    shown = {name: value for name, value in values.items() if value is not None}
    for name in _TIMES & set(shown):
        shown[name] = to_utc(cast("datetime", shown[name]), name).isoformat()
    return {"kind": citation.kind, **shown}


def citation_from_dict(document: Mapping[str, object]) -> Citation:
    """Parse the JSON object of a citation.

    Raises:
        InvalidDocumentError: the object was not written by `citation_to_dict()`.
    """
    values = dict(document)
    try:
        for name in _TIMES & set(values):
            values[name] = datetime.fromisoformat(cast("str", values[name]))
        kind = _KINDS[cast("str", values.pop("kind"))]
        return kind(**cast("dict[str, str]", values))  # type: ignore[arg-type]  # the kind determines the fields
    except (LookupError, TypeError, ValueError) as error:
        msg = f"the JSON object is not a citation of a known kind: {dict(document)!r}"
        raise InvalidDocumentError(msg) from error
