"""Removal of the content of a turn or a tool call from a conversation, and from its jobs and description."""

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
    Interrupted,
    Messages,
    Part,
    Recalled,
    Rejected,
    Rewind,
    Summary,
    Suspended,
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
"""The text that replaces removed content."""
SMALLEST_TEXT: Final = 8
"""The minimum length of a removed text that is also searched for inside longer texts."""

_TAGS: Final = frozenset({"type", "mime", "created_at", "at"})
"""Fields of a stored turn whose texts are not content."""


@final
class Redaction:
    """A redaction, which removes the content of one turn or tool call from the log of a conversation.

    Args:
        entries: the entries of the log.
        state: the state after these entries.
        target: the index of a turn, the id of an outermost tool call, or the key of a posted turn.

    Attributes:
        messages: the messages without the removed content.
        changed: whether there was content to remove.

    Raises:
        ConflictError: a call to redact has not ended.
        UsageError: the turn, the call or the post does not exist, or the target is both the id of a call and the key of
            a post.
    """

    def __init__(self, entries: Sequence[Document], state: LogState, target: int | str) -> None:
        self._entries = entries
        self._snapshot = state.to_snapshot()
        start = max(index for index, entry in enumerate(entries) if index == 0 or "snapshot" in entry)
        document = loads(replay(entries[start:], state).to_json())
        posts = cast("list[Document]", self._snapshot.get("posts", []))
        self._texts = _redact_document(cast("Document", document), posts, state.post_turns, target)
        self.messages: Messages = Messages.from_json(dump_bytes(document))
        self.changed: bool = bool(self._texts)

    def entries(self, now: datetime, target: int | str, by: str, reason: str) -> tuple[Document, Document]:
        """Return the only two entries of the new log: the conversation, and the records of all redactions.

        Args:
            now: the current time.
            target: the index of the turn, the id of the call, or the key of the post.
            by: name of the user who redacted it.
            reason: reason for the redaction.
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
        """Return a copy of a JSON value in which `REDACTED` replaces each text with removed content."""
        if isinstance(value, str):
            return REDACTED if self._is_removed(value) else value
        if isinstance(value, Mapping):
            return {key: self.clean(item) for key, item in cast("Mapping[str, object]", value).items()}
        if isinstance(value, (list, tuple)):
            return [self.clean(item) for item in cast("Sequence[object]", value)]
        return value

    def clean_job(self, job: StoredJob) -> StoredJob:
        """Return a copy of a job in which removed texts in the payload and the error are replaced."""
        payload = cast("dict[str, object]", self.clean(job.payload))
        return replace(job, payload=payload, error=cast("str | None", self.clean(job.error)))

    def clean_meta(self, meta: StoredMeta) -> StoredMeta:
        """Return a copy of a description in which removed texts in the title and the data are replaced."""
        return replace(
            meta, title=cast("str | None", self.clean(meta.title)), data=dump_bytes(self.clean(loads(meta.data)))
        )

    def _is_removed(self, text: str) -> bool:
        return text in self._texts or any(len(item) >= SMALLEST_TEXT and item in text for item in self._texts)


def _redact_document(
    document: Document, posts: Sequence[Document], post_turns: Mapping[str, int | None], target: int | str
) -> set[str]:
    """Redact a turn or a call in the document of a conversation, or a post, in place, and return the removed texts."""
    contents = cast("list[dict[str, list[Document]]]", document["contents"])
    turns = [(content["turns"], place) for content in contents for place in range(len(content["turns"]))]
    keys = [post["post"] for post in posts]
    index = _find_turn_index(turns, target, keys, post_turns)
    if index is None:
        return _redact_post(posts[keys.index(target)])
    if target in post_turns:
        target = index
    before: set[str] = set()
    after: set[str] = set()
    for number, (siblings, place) in enumerate(turns):
        turn = codec.turn_from_dict(siblings[place], Messages)
        if number == index:
            new = _remove_content(turn, target if isinstance(target, str) else None)
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
    turns: Sequence[tuple[list[Document], int]],
    target: int | str,
    keys: Sequence[object],
    post_turns: Mapping[str, int | None],
) -> int | None:
    """Return the index of the target turn, or of the turn with the target call. Return None if the target is a post.

    Args:
        turns: the turns, each as a list and its position in the list.
        target: the target of the redaction.
        keys: the keys of the posted turns that no run has appended yet.
        post_turns: for each posted key, the index of its turn, if known.
    """
    if isinstance(target, int):
        if target < len(turns):
            return target
        msg = f"redact() needs the index of a turn, which is less than {len(turns)} in this conversation, not {target}"
        raise UsageError(msg)
    has_call = (
        any(tool.id == target for tool in codec.turn_from_dict(siblings[place], Messages).tools)
        for siblings, place in turns
    )
    call = next((number for number, found in enumerate(has_call) if found), None)
    posted = post_turns.get(target)
    if call is not None and (posted is not None or target in keys):
        msg = (
            f"{target!r} is the id of a call and the key of a posted turn: pass the index of the turn to redact. A "
            "posted turn has an index after a run has appended it"
        )
        raise UsageError(msg)
    if call is not None:
        return call
    if posted is not None or target in keys:
        return posted
    msg = (
        f"{target!r} is neither the id of an outermost tool call nor the key of a posted turn. Pass one of these, or "
        "the index of a turn"
    )
    raise UsageError(msg)


def _redact_post(post: Document) -> set[str]:
    before = set(_iterate_texts(post["turn"]))
    turn = codec.turn_from_dict(cast("Document", post["turn"]), Messages)
    post["turn"] = codec.turn_to_dict(_remove_content(turn))
    return before - set(_iterate_texts(post["turn"])) - {""}


def _remove_content(turn: Turn, call_id: str | None = None) -> Turn:
    """Return a copy of a turn without its texts and data, or without those of one call.

    Args:
        turn: the turn.
        call_id: the id of the only call to redact, or `None` to redact the whole turn.
    """
    if call_id is not None:
        parts = [_redact_tool(part) if isinstance(part, Tool) and part.id == call_id else part for part in turn.parts]
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
        case Rejected(source=source, started=started):
            status = Rejected(REDACTED, source, started=_redact_start(started))
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
        inner_usage=tool.usage,
    )


def _redact_start(started: Interrupted | Suspended | None) -> Interrupted | None:
    """Return a status without content for a cancelled call that may have taken effect, otherwise None."""
    if started is None:
        return None
    inner = [tool for content in started.inner or () for tool in content.tools]
    if isinstance(started, Suspended) and not any(tool.attempts for tool in inner):
        return None
    return Interrupted(started.attempt_id, started.attempt, REDACTED)


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
