"""Functions that check names, descriptions, jobs and posts before a store writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chat_core.errors import UsageError
from chat_core.json import MAX_DEPTH, dump_bytes, is_deeper, is_finite, loads
from chat_core.messages import Turn

from chat_store.jobs import Job
from chat_store.meta import MetaChanges


def require_storable(*names: str | None) -> None:
    """Raise an error unless every database can store these names.

    Raises:
        UsageError: a name has a null character or an unpaired surrogate.
    """
    for name in names:
        if name is not None and not _is_storable(name):
            msg = f"{name!r} cannot be stored: remove null characters and unpaired surrogates"
            raise UsageError(msg)


def require_changes(meta: MetaChanges | None, jobs: Sequence[Job]) -> None:
    """Raise an error unless every database can store these description changes and jobs.

    Raises:
        UsageError: a name, the data or a payload cannot be stored, or the kind or the key of a job is empty.
    """
    if meta is not None:
        require_storable(meta.get("title"), meta.get("flow"))
        _require_json("data", meta.get("data", {}))
    for job in jobs:
        require_storable(job.kind, job.key)
        if not job.kind or not job.key:
            msg = f"a job needs a kind and a key that are not empty, not {job.kind!r} and {job.key!r}"
            raise UsageError(msg)
        _require_json("payload", job.payload)


def require_post(turn: Turn, key: str) -> None:
    """Raise an error unless this turn can be posted with this key.

    Raises:
        UsageError: the turn has tool calls, or the key is empty or cannot be stored.
    """
    require_storable(key)
    if not key or turn.tools:
        msg = f"post() needs a turn without tool calls and a key that is not empty, not {turn!r} and {key!r}"
        raise UsageError(msg)


def _require_json(name: str, value: Mapping[str, object]) -> None:
    """Raise an error unless a value is a JSON object with finite numbers and at most `MAX_DEPTH` levels."""
    try:
        parsed = loads(dump_bytes(dict(value)))
    except (TypeError, ValueError, RecursionError):
        parsed = None
    if parsed is None or not is_finite(parsed) or is_deeper(parsed, MAX_DEPTH):
        msg = f"{name} must be a JSON object without infinite numbers, at most {MAX_DEPTH} levels deep"
        raise UsageError(msg)


def _is_storable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name
