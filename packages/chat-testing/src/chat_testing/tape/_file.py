"""Tape files: a header, followed by the exchanges in the order in which they started.

The whole file is rewritten after each exchange. If a later exchange crashes, the file contains all earlier exchanges.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final
from uuid import uuid4

from chat_core.errors import InvalidDocumentError, NewerVersionError
from chat_core.wire.shapes import Json, is_object

from chat_testing.tape._entry import Entry

VERSION: Final = 1
_ENCODING_ERRORS: Final = "surrogatepass"  # a server may split a surrogate pair between two events


def make_header(transport: str, note: str, now: str) -> Json:
    """Return the header of a tape: format version, time, transport name, chat-core version and note."""
    return {"tape": VERSION, "recorded": now, "transport": transport, "chat-core": _installed_version(), "note": note}


def _installed_version() -> str:
    try:
        return version("chat-core")
    except PackageNotFoundError:  # run from its source
        return "unknown"


def write(path: Path, head: Json, entries: Sequence[Entry]) -> None:
    """Write a tape to `path`, atomically: a concurrent reader gets either the old or the new tape."""
    document = {**head, "exchanges": [entry.to_json() for entry in entries]}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with temporary.open("w", encoding="utf-8", errors=_ENCODING_ERRORS) as file:
            json.dump(document, file, ensure_ascii=False, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path) -> list[Entry]:
    """Read a tape file and return its exchanges.

    Raises:
        FileNotFoundError: the file does not exist.
        InvalidDocumentError: the file is not a tape.
        NewerVersionError: the tape was written by a later version of this library.
    """
    try:
        document: object = json.loads(path.read_text(encoding="utf-8", errors=_ENCODING_ERRORS))
    except ValueError as error:
        msg = f"the file is not valid JSON: {error}"
        raise InvalidDocumentError(msg, path=str(path)) from error
    number = document.get("tape") if is_object(document) else None
    if not is_object(document) or not isinstance(number, int):
        msg = 'this is not a tape: expected a JSON object with "tape": 1'
        raise InvalidDocumentError(msg, path=str(path))
    if number > VERSION:
        msg = (
            f"the tape has version {number}, but this release reads version "
            f"{VERSION}: upgrade chat-testing, or record the tape again"
        )
        raise NewerVersionError(msg, path=str(path))
    try:
        return [Entry.from_json(value) for value in document["exchanges"]]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        msg = f"the tape is damaged ({type(error).__name__}: {error})"
        raise InvalidDocumentError(msg, path=str(path)) from error
