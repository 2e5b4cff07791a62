"""Expiry, enforced when it is due: a call that nobody approved in time is rejected without a run that comes to it.

A store says that such a conversation is due, and the next run rejects the call by itself. Sweeping is for those who
want it rejected at once, and known: so that no page shows it any more, and somebody is told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, cast, final

from chat_core.approvals import expire
from chat_core.errors import ConflictError, UsageError
from chat_core.messages import Messages
from chat_core.response import Wait

from chat_store._waits import waits_of
from chat_store.errors import UnknownConversationError
from chat_store.store import ConversationStore

if TYPE_CHECKING:
    from chat_core.messages import Rejected

_TRIES: Final = 8
_MOMENT: Final = timedelta(microseconds=1)


@final
@dataclass(frozen=True, slots=True)
class Swept:
    """What was rejected in a conversation. A run can go on with it now: it is due.

    Attributes:
        person: who is in charge of it.
        waits: each of the calls as it waited.
    """

    conversation: str
    person: str | None
    waits: tuple[Wait, ...]


async def sweep(
    store: ConversationStore, *, now: datetime | None = None, person: str | None = None, limit: int | None = None
) -> list[Swept]:
    """Reject, durably, what nobody approved in time, and tell what that was; what expired first comes first.

    Any number of processes may sweep at once, while others decide and run. Of what happens to a call in one moment the
    first holds, and who rejected a call is the only one to tell of it. So what fails in one conversation stops no
    other, and is raised where there is nothing to tell.

    Args:
        store: where to look.
        now: the time; this machine's unless given.
        person: only in conversations that this person is in charge of.
        limit: how many late calls to look for. With each goes whatever else is late in its conversation.

    Raises:
        UsageError: `now` has no zone.
    """
    moment = datetime.now(UTC) if now is None else now
    if moment.utcoffset() is None:
        msg = f"a time needs its zone: {moment!r} has none"
        raise UsageError(msg)
    # `before` leaves out what expires at this very moment, and a run does not.
    late = await store.waiting(person=person, kind="approval", before=moment + _MOMENT, limit=limit)
    swept: list[Swept | None] = []
    failures: list[Exception] = []
    for conversation in dict.fromkeys([waiting.conversation for waiting in late]):
        try:
            swept.append(await _reject(store, conversation, moment))
        except Exception as error:  # noqa: BLE001 - what was rejected before it would never be told
            failures.append(error)
    rejected = [item for item in swept if item is not None]
    if failures and not rejected:
        raise failures[0]
    return rejected


async def _reject(store: ConversationStore, conversation: str, moment: datetime) -> Swept | None:
    for _ in range(_TRIES):
        try:
            found = await store.load(conversation)
            if not (waits := _expire(found.messages, moment)):
                return None
            await store.save(conversation, found.messages, revision=found.revision)
        except ConflictError:
            continue  # somebody has decided one of them meanwhile; the others are as late as they were
        except UnknownConversationError:
            return None
        return Swept(conversation, found.person, waits)
    return None


def _expire(messages: Messages, moment: datetime) -> tuple[Wait, ...]:
    waits = {wait.path: wait for tool in messages.pending() for wait in waits_of(tool)}
    paths = expire(messages, now=moment)
    for path in paths:
        tool = messages.tool(*path)
        # Unlike any other rejection of the call: a store takes what is the same twice, and two would tell of it.
        tool.status = replace(cast("Rejected", tool.status), extra={"sweep": token_urlsafe(6)})
    return tuple([waits[path] for path in paths])
