"""Functions that remove the content of a turn or a tool call from a conversation, and from its jobs and description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, cast, final

from chat_core.errors import ConflictError, UsageError
from chat_core.json import dump_bytes, loads
from chat_core.messages import (
    Completed,
    Decision,
    Failed,
    FunctionCall,
    Messages,
    Part,
    Recalled,
    Rejected,
    Rewind,
    Summary,
    Text,
    Tool,
    Turn,
    codec,
)
from chat_core.usage import Metadata

from chat_store._compaction import replay
from chat_store._entries import Document
from chat_store._log_state import LogState
from chat_store.jobs import StoredJob
from chat_store.meta import StoredMeta

REDACTED: Final = "[redacted]"
"""The text that takes the place of removed content."""
SMALLEST_TEXT: Final = 8
"""The number of characters from which a removed text is also removed where it is part of a longer text."""

_TAGS: Final = frozenset({"type", "mime", "created_at", "at"})
"""Fields of a stored turn whose texts are not content."""


@final
class Redaction:
    """A redaction, which removes the content of one turn or tool call from the log of a conversation.

    Args:
        entries: the entries of the log.
        state: the state after these entries.
        target: the index of a turn, the id of an outermost tool call, or the key of a posted turn that no run has
            appended yet.

    Attributes:
        messages: the messages without the removed content.
        changed: whether there was content to remove.

    Raises:
        ConflictError: a call to redact has not ended.
        UsageError: the turn, the call or the post does not exist.
    """

    def __init__(self, entries: Sequence[Document], state: LogState, target: int | str) -> None:
        self._entries = entries
        self._snapshot = state.to_snapshot()
        start = max(index for index, entry in enumerate(entries) if index == 0 or "snapshot" in entry)
        document = loads(replay(entries[start:], state).to_json())
        posts = cast("list[Document]", self._snapshot.get("posts", []))
        self._texts = _redact_document(cast("Document", document), posts, target)
        self.messages: Messages = Messages.from_json(dump_bytes(document))
        self.changed: bool = bool(self._texts)

    def entries(self, now: datetime, target: int | str, by: str, reason: str) -> tuple[Document, Document]:
        """Return the only two entries of the new log: the conversation, and the records of all redactions.

        Args:
            now: the current time.
            target: the index of the turn, the id of the call, or the key of the post.
            by: who redacted it.
            reason: why it was redacted.
        """
        records = [item for entry in self._entries for item in cast("list[object]", entry.get("redacted", []))]
        if self.changed:
            records.append({"at": now.isoformat(), "target": target, "by": by, "reason": reason})
        snapshot = self._snapshot
        kept: dict[str, object] = {name: self.clean(snapshot[name]) for name in ("meta", "jobs") if name in snapshot}
        first: dict[str, object] = {
            **snapshot,
            **kept,
            "n": 1,
            "at": snapshot.get("created_at", self._entries[0]["at"]),
            "messages": loads(self.messages.to_json()),
        }
        return first, {"n": 2, "at": now.isoformat(), "redacted": records}

    def clean(self, value: object) -> object:
        """Return a copy of a JSON value in which `REDACTED` takes the place of each text with removed content."""
        if isinstance(value, str):
            return REDACTED if self._is_removed(value) else value
        if isinstance(value, Mapping):
            return {key: self.clean(item) for key, item in cast("Mapping[str, object]", value).items()}
        if isinstance(value, (list, tuple)):
            return [self.clean(item) for item in cast("Sequence[object]", value)]
        return value

    def clean_job(self, job: StoredJob) -> StoredJob:
        """Return a job whose payload and error have no removed text."""
        payload = cast("dict[str, object]", self.clean(job.payload))
        return replace(job, payload=payload, error=cast("str | None", self.clean(job.error)))

    def clean_meta(self, meta: StoredMeta) -> StoredMeta:
        """Return a description whose title and data have no removed text."""
        return replace(
            meta, title=cast("str | None", self.clean(meta.title)), data=dump_bytes(self.clean(loads(meta.data)))
        )

    def _is_removed(self, text: str) -> bool:
        return text in self._texts or any(len(item) >= SMALLEST_TEXT and item in text for item in self._texts)


def _redact_document(document: Document, posts: Sequence[Document], target: int | str) -> set[str]:
    """Redact a turn or a call in the document of a conversation, or a post, in place, and return the removed texts."""
    contents = cast("list[dict[str, list[Document]]]", document["contents"])
    turns = [(content["turns"], place) for content in contents for place in range(len(content["turns"]))]
    keys = [post["post"] for post in posts]
    index = _find_turn_index(turns, target, keys)
    if index is None:
        return _redact_post(posts[keys.index(target)])
    before: set[str] = set()
    after: set[str] = set()
    for number, (siblings, place) in enumerate(turns):
        turn = codec.turn_from_dict(siblings[place], Messages)
        if number == index:
            new = _redact_turn(turn, target)
        elif any(isinstance(part, Summary) and part.covers > index for part in turn.parts):
            # A summary may repeat what it covers. Without its digest, it has no effect any more.
            new = _with_parts(turn, [_redact_part(part) for part in turn.parts])
        else:
            continue
        before.update(_iterate_texts(siblings[place]))
        siblings[place] = codec.turn_to_dict(new)
        after.update(_iterate_texts(siblings[place]))
    return before - after - {""}


def _find_turn_index(
    turns: Sequence[tuple[list[Document], int]], target: int | str, keys: Sequence[object]
) -> int | None:
    """Return the index of the turn that is or has the target, or None if the target is one of the keys of posts."""
    if isinstance(target, int):
        if target < len(turns):
            return target
        msg = f"redact() got the turn {target}, but the conversation has {len(turns)} turns, counted from 0"
        raise UsageError(msg)
    for number, (siblings, place) in enumerate(turns):
        if any(tool.id == target for tool in codec.turn_from_dict(siblings[place], Messages).tools):
            return number
    if target in keys:
        return None
    msg = (
        f"the conversation has no outermost tool call and no posted turn {target!r}: pass the id of a call, the key of "
        "a posted turn that no run has appended yet, or the index of a turn"
    )
    raise UsageError(msg)


def _redact_post(post: Document) -> set[str]:
    before = set(_iterate_texts(post["turn"]))
    turn = codec.turn_from_dict(cast("Document", post["turn"]), Messages)
    post["turn"] = codec.turn_to_dict(_redact_turn(turn, 0))
    return before - set(_iterate_texts(post["turn"])) - {""}


def _redact_turn(turn: Turn, target: int | str) -> Turn:
    if isinstance(target, str):
        parts = [_redact_tool(part) if isinstance(part, Tool) and part.id == target else part for part in turn.parts]
        return _with_parts(turn, parts)
    found = [_redact_part(part) for part in turn.parts]
    texts = [part for part in found if isinstance(part, Text)]
    redacted = _with_parts(turn, [part for part in found if not isinstance(part, Text) or part is texts[0]])
    redacted.state = None
    redacted.extra = None
    if turn.metadata is not None:
        meta = turn.metadata
        redacted.metadata = Metadata(meta.provider, meta.model, None, meta.finish_reason, meta.usage)
    return redacted


def _with_parts(turn: Turn, parts: Sequence[Part]) -> Turn:
    """Return a copy of a turn with other parts."""
    copy = codec.turn_from_dict(codec.turn_to_dict(turn), Messages)
    copy.parts = tuple(parts)
    return copy


def _redact_part(part: Part) -> Part:
    match part:
        case Tool():
            return _redact_tool(part)
        case Summary():
            return Summary(REDACTED, part.covers, "")
        case Rewind():
            return part
        case Recalled():
            return Recalled(())
        case _:
            return Text(REDACTED)


def _redact_tool(tool: Tool) -> Tool:
    status: Completed | Failed | Rejected
    match tool.status:
        case Completed():
            status = Completed(REDACTED)
        case Failed():
            status = Failed(REDACTED)
        case Rejected(source=source):
            status = Rejected(REDACTED, source)
        case _:
            msg = f"the call {tool.id!r} has not ended, so it cannot be redacted: reject or fail it first, then redact"
            raise ConflictError(msg)
    return Tool(
        FunctionCall(tool.call.name, {}, id=tool.call.id),
        id=tool.id,
        call_id=tool.call_id,
        status=status,
        decisions=tuple([Decision(item.action, item.by, item.at) for item in tool.decisions]),
        idempotency_key=tool.idempotency_key,
        attempts=tool.attempts,
        revision=tool.revision,
        inner_usage=tool.inner_usage,
    )


def _iterate_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in cast("dict[str, object]", value).items():
            if name not in _TAGS:
                yield from _iterate_texts(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _iterate_texts(item)
