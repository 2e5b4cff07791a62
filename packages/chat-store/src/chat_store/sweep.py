"""The function `sweep()`, which rejects calls that were not approved in time.

The next run of a conversation rejects such calls. Call `sweep()` to reject them earlier, for example to remove them
from a page or to notify the approvers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, cast, final

from chat_core.approvals import expire
from chat_core.clock import add, to_utc
from chat_core.errors import ConflictError
from chat_core.response import Wait, iter_waits

from chat_store.errors import UnknownConversationError
from chat_store.results import Snapshot
from chat_store.store import ConversationStore

if TYPE_CHECKING:
    from chat_core.messages import Rejected

_MAX_ATTEMPTS: Final = 8
_MICROSECOND: Final = timedelta(microseconds=1)


@final
@dataclass(frozen=True, slots=True)
class Swept:
    """The calls that `sweep()` rejected in one conversation. The conversation is now due.

    Attributes:
        conversation: the id of the conversation.
        person: the user in charge of the conversation, if any.
        waits: the waits of the rejected calls.
    """

    conversation: str
    person: str | None
    waits: tuple[Wait, ...]


async def sweep(
    store: ConversationStore, *, now: datetime | None = None, person: str | None = None, limit: int | None = None
) -> list[Swept]:
    """Reject the calls whose approval has expired, and store the rejections.

    Any number of processes may sweep at once, while other processes decide calls and run chats. Each rejected call is
    returned by exactly one sweep. If one conversation raises an error, the other conversations are still swept. The
    error is raised only if no call was rejected, because no later sweep would return the calls that this sweep
    rejected.

    Args:
        store: the store to sweep.
        now: the current time. Default: the time of this machine.
        person: only conversations that this user is in charge of.
        limit: the maximum number of expired calls to search for. Other expired calls of the conversations found are
            rejected, too.

    Returns:
        The rejected calls of each conversation, earliest expiry first.

    Raises:
        UsageError: `now` has no time zone.
    """
    moment = to_utc(datetime.now(UTC) if now is None else now, "now")
    # `before` excludes approvals that expire at exactly this time, which a run rejects.
    late = await store.waiting(person=person, kind="approval", before=add(moment, _MICROSECOND), limit=limit)
    swept: list[Swept | None] = []
    failures: list[Exception] = []
    for conversation in dict.fromkeys([waiting.conversation for waiting in late]):
        try:
            swept.append(await _reject_expired(store, conversation, moment))
        except Exception as error:  # noqa: BLE001 - the calls rejected before must be returned
            failures.append(error)
    rejected = [item for item in swept if item is not None]
    if failures and not rejected:
        raise failures[0]
    return rejected


async def _reject_expired(store: ConversationStore, conversation: str, moment: datetime) -> Swept | None:
    for _ in range(_MAX_ATTEMPTS):
        try:
            found = await store.load(conversation)
            if not (waits := _expire_waits(found, moment)):
                return None
            await store.save(conversation, found.messages, revision=found.revision)
        except ConflictError:
            continue  # another process decided a call: load the conversation again, and reject the other calls
        except UnknownConversationError:
            return None
        return Swept(conversation, found.person, waits)
    return None


def _expire_waits(snapshot: Snapshot, moment: datetime) -> tuple[Wait, ...]:
    messages = snapshot.messages
    pending = [iter_waits(tool, conversation=snapshot.id, owner=snapshot.owner) for tool in messages.pending()]
    waits = {wait.path: wait for found in pending for wait in found}
    paths = expire(messages, now=moment)
    for path in paths:
        tool = messages.tool(*path)
        # A random value, because the store merges equal rejections: two sweeps would both return the call.
        status = replace(cast("Rejected", tool.status), extra={"sweep": token_urlsafe(6)})
        tool.adopt(tool.with_status(status))
    return tuple([waits[path] for path in paths])
