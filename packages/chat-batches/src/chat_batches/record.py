"""The record of a durable batch, which is stored in the description of a conversation without messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Self, TypeAlias, cast, final

from chat_core.arguments import require_type
from chat_core.batches import BatchOutcome
from chat_store import ConversationMeta

from chat_batches.handle import BatchHandle, BatchMember, members_from_json

ReportState: TypeAlias = Literal["queued", "submitting", "running", "ended"]
"""The state of a durable batch. While it is `submitting`, the provider may already have received the batch."""


@final
@dataclass(frozen=True, slots=True)
class BatchRecord:
    """The stored state of a durable batch.

    Attributes:
        conversations: ids of the stored conversations.
        name: unique name of the batch at the provider.
        submitted_at: time at which the first attempt to submit the batch began, or `None`.
        attempted_at: time at which the last attempt to submit the batch began, or `None`.
        members: conversations of the last attempt to submit the batch.
        handle: handle of the submitted batch, or `None`.
        decision: decision of an operator about a batch in doubt. It is the id of the batch at the provider, an empty
            string if the provider does not have the batch, or `None` if no decision was made.
        cancelled: whether `BatchJobs.cancel()` was called.
        failures: error messages by conversation id.
        retry: ids of conversations whose answers the next attempt must append, or `None` for all conversations.
        outcome: outcome of the batch, or `None` before its end.
    """

    conversations: tuple[str, ...]
    name: str
    submitted_at: datetime | None = None
    attempted_at: datetime | None = None
    members: tuple[BatchMember, ...] = ()
    handle: BatchHandle | None = None
    decision: str | None = None
    cancelled: bool = False
    failures: Mapping[str, str] = field(default_factory=dict[str, str])
    retry: tuple[str, ...] | None = None
    outcome: BatchOutcome | None = None

    @classmethod
    def of(cls, meta: ConversationMeta) -> Self:
        """Read the record from the description of a stored conversation."""
        data = meta.data
        handle = _text_or_none(data.get("handle"))
        failures = cast("Mapping[str, str]", data.get("failures") or {})
        retry = cast("Sequence[str] | None", data.get("retry"))
        return cls(
            tuple(cast("Sequence[str]", data.get("conversations") or ())),
            str(data.get("name")),
            _time_or_none(data.get("submitted_at")),
            _time_or_none(data.get("attempted_at")),
            members_from_json(data.get("members") or []),
            None if handle is None else BatchHandle.from_json(handle),
            _text_or_none(data.get("decision")),
            data.get("cancelled") is True,
            dict(failures),
            None if retry is None else tuple(retry),
            cast("BatchOutcome | None", data.get("outcome")),
        )


@final
@dataclass(frozen=True, slots=True)
class BatchReport:
    """The state of a durable batch.

    Attributes:
        state: `queued`, `submitting`, `running` or `ended`.
        handle: handle of the submitted batch, or `None`.
        failures: error messages by conversation id. While the batch is `running`, these conversations may still be
            answered. After the batch has ended, a conversation without an error is answered or has waiting tool calls.
        outcome: outcome of the batch, or `None` before its end.
    """

    state: ReportState
    handle: BatchHandle | None
    failures: Mapping[str, str]
    outcome: BatchOutcome | None

    @classmethod
    def of(cls, record: BatchRecord) -> Self:
        """Create the report from a record."""
        require_type("record", record, BatchRecord, "a BatchRecord")
        state: ReportState = "queued"
        if record.outcome is not None:
            state = "ended"
        elif record.handle is not None:
            state = "running"
        elif record.submitted_at is not None:
            state = "submitting"
        return cls(state, record.handle, record.failures, record.outcome)


def _time_or_none(value: object) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else None


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
