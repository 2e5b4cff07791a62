"""`ClientRuns`, which stores the requests of front ends together with the runs that answer them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, final
from uuid import UUID

from chat_agents.limits import is_answered
from chat_core import ConflictError, Messages, Tool
from chat_core.approvals import Principal
from chat_core.messages import Role, Text, Turn
from chat_inbox.http_errors import HTTPError
from chat_store import (
    ConversationClosedError,
    ConversationExistsError,
    ConversationMeta,
    Job,
    MetaChanges,
    Snapshot,
    UnknownConversationError,
)
from chat_streams import AppliedInput, ClientInput, ClientInputError
from chat_streams.client_input import PostedMessage, conversation_id
from chat_streams.open_waits import all_waits, is_expired

from chat_service.context import ServiceContext
from chat_service.request_log import logged_trace
from chat_service.run_events import is_answered_by, message_run_name
from chat_service.run_records import Run, first_part, jobs_of, new_run_id
from chat_service.runs import Runs, turn_count
from chat_service.settings import ServiceSettings

ATTEMPTS: Final = 5
"""Number of times that a change is applied to a session that other requests change at the same time."""
_BUSY = "A run of this conversation is active: wait until it ends, or cancel it."
_CHANGED = "Another request changed the conversation at the same time: send the request again."


@final
@dataclass(frozen=True, slots=True)
class ClientRun:
    """A stored request of a front end.

    Attributes:
        run: the run that answers the request, or `None` if the conversation has no messages.
        snapshot: the conversation with the changes of the request, before the run continues.
        applied: changes that the request made to the conversation.
        ended: calls that the request resolved, for example by a rejection.
    """

    run: Run | None
    snapshot: Snapshot
    applied: AppliedInput
    ended: Sequence[Tool] = ()


@final
class ClientRuns:
    """A service that stores the messages of front ends together with the runs that answer them.

    These front ends choose the ids of their conversations.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
    """

    def __init__(self, context: ServiceContext, runs: Runs) -> None:
        self._store = context.store
        self._settings = context.settings
        self._flow = context.flow
        self._now = context.engine.chat(context.flow).tools.now
        self._runs = runs

    async def find(self, principal: Principal, session_id: str) -> Snapshot | None:
        """Return the conversation of a user, or `None` if it does not exist.

        Args:
            principal: the user.
            session_id: id of the session, from `client_session_id()`.

        Raises:
            HTTPError: 404 if the session was closed, or belongs to another user.
        """
        try:
            await self._store.meta(session_id)
        except UnknownConversationError:
            return None
        await self._runs.require_own_session(principal, session_id)
        return await self._store.load(session_id)

    async def submit(
        self, principal: Principal, session_id: str, apply: Callable[[Snapshot], AppliedInput]
    ) -> ClientRun:
        """Apply a request to its conversation, and store the changes with the run that continues in one transaction.

        A request without new input follows the last run. If this run has failed or was cancelled, it is retried.

        Args:
            principal: the user.
            session_id: id of the session, from `client_session_id()`. The session is created if it does not exist.
            apply: function that applies the request to a snapshot of the conversation.

        Raises:
            ClientInputError: the request is refused, or a run of the conversation is active.
            HTTPError: 404 if the session was closed.
        """
        for _ in range(ATTEMPTS):
            try:
                return await self._submit(principal, session_id, apply)
            except (ConflictError, ConversationExistsError):
                continue  # another request has changed the conversation
            except (ConversationClosedError, UnknownConversationError):
                raise HTTPError(404, "There is no such session: it was closed.") from None
        raise ClientInputError("conflict", _CHANGED)

    async def _submit(
        self, principal: Principal, session_id: str, apply: Callable[[Snapshot], AppliedInput]
    ) -> ClientRun:
        found = await self.find(principal, session_id)
        snapshot = found or Snapshot(session_id, Messages(), 0, owner=principal.name)
        runs = [] if found is None else await self._runs.of_session(session_id)
        waiting, known = snapshot.messages.pending(), len(list_turns(snapshot.messages))
        applied = apply(snapshot)
        turns = list_turns(snapshot.messages)[known:]
        last = runs[-1] if runs else None
        if turns and last is not None and last.is_active:
            raise ClientInputError("conflict", _BUSY)
        if turns or applied.decided:
            run_id = await self._store_changes(snapshot, turns, waiting, runs, is_stored=found is not None)
            ended = [tool for tool in waiting if tool.resolved]
            return ClientRun(await self._runs.find(run_id), snapshot, applied, ended)
        if last is not None and self._must_continue(last, snapshot):
            if not await self._runs.resume(runs):
                raise ConflictError(_CHANGED)
            last = await self._runs.find(last.id)
        return ClientRun(last, snapshot, applied)

    def _must_continue(self, run: Run, snapshot: Snapshot) -> bool:
        has_expired = any(is_expired(wait, self._now()) for wait in all_waits(snapshot))
        # A crash after a rewind was stored, and before the run was queued, leaves an answered run without its answer.
        is_rewound = run.state == "answered" and not is_answered(snapshot.messages)
        return run.state in {"failed", "cancelled"} or (run.state == "paused" and has_expired) or is_rewound

    async def _store_changes(
        self,
        snapshot: Snapshot,
        turns: Sequence[tuple[Role, Turn]],
        tools: Sequence[Tool],
        runs: Sequence[Run],
        *,
        is_stored: bool,
    ) -> str:
        """Store new turns and changed calls with the job of the run, and return the id of the run."""
        meta = await self._store.meta(snapshot.id) if is_stored else None
        run_id, job = self._next_job(snapshot.id, turns, runs[-1] if runs else None, meta)
        jobs = [] if job is None else [job]
        counts = turn_count(snapshot.messages)
        if meta is None:
            changes: MetaChanges = {"flow": self._flow.name, "data": counts}
            await self._store.create(snapshot.messages, id=snapshot.id, owner=snapshot.owner, meta=changes, jobs=jobs)
        elif any(turn.by == "engine" for _, turn in turns):  # `apply()` accepts no rewind
            await self._store.save(snapshot.id, snapshot.messages, revision=snapshot.revision)
            await self._store.apply(snapshot.id, jobs=jobs, known_jobs=jobs_of(runs))
        else:
            await self._store.apply(
                snapshot.id,
                snapshot.revision,
                turns=turns,
                tools=tools,
                meta={"data": counts},
                jobs=jobs,
                known_jobs=jobs_of(runs),
            )
        return run_id

    def _next_job(
        self, session_id: str, turns: Sequence[tuple[Role, Turn]], last: Run | None, meta: ConversationMeta | None
    ) -> tuple[str, Job | None]:
        asked = [turn.client_id for _, turn in turns if turn.client_id is not None]
        if asked:
            run_id = new_run_id(session_id, message_run_name(asked[-1]))
            after = None if meta is None else meta.position
            return run_id, first_part(run_id, datetime.now(UTC), "", after, self._settings, trace=logged_trace())
        if last is None:
            raise ClientInputError("conflict", "This conversation has no run to follow: send a message.")
        return last.id, None if last.is_active else last.next_part(self._settings)


def client_session_id(owner: str, kind: str, client_id: str) -> str:
    """Return the session id for an id that a front end chose. Owners who choose the same id get different sessions.

    Args:
        owner: name of the authenticated user.
        kind: the protocol, such as `"agui"`.
        client_id: id that the front end chose.
    """
    digest = hashlib.sha256(conversation_id(owner, kind, client_id).encode()).digest()
    return str(UUID(bytes=digest[:16], version=4))


def list_turns(messages: Messages) -> list[tuple[Role, Turn]]:
    """Return the turns of a conversation, each with its role.

    Args:
        messages: the conversation.
    """
    return [(content.role, turn) for content in messages for turn in content.turns]


def before_run(snapshot: Snapshot, run_id: str) -> Snapshot:
    """Return a copy of a conversation that ends before the first response of a run.

    Args:
        snapshot: the conversation.
        run_id: id of the run.
    """
    turns = list_turns(snapshot.messages)
    places = [index for index, (role, turn) in enumerate(turns) if role == "user" and is_answered_by(turn, run_id)]
    messages = Messages(state=snapshot.messages.initial_state)
    for role, turn in turns[: places[-1] + 1] if places else turns:
        messages.append(role, turn)
    return Snapshot(snapshot.id, messages, snapshot.revision, owner=snapshot.owner)


def check_messages(given: ClientInput, settings: ServiceSettings) -> None:
    """Check the sizes of the user messages that a front end posted.

    Args:
        given: input that the front end posted.
        settings: limits of the service.

    Raises:
        ClientInputError: a message is blank or too long, or cannot be stored.
    """
    for message in given.messages:
        if message.role == "user":
            check_turn(message, settings)


def check_turn(turn: PostedMessage | Turn, settings: ServiceSettings) -> None:
    """Check the size of a posted message of a user.

    Args:
        turn: the message.
        settings: limits of the service.

    Raises:
        ClientInputError: the message is blank or too long, or cannot be stored.
    """
    try:
        size = len(turn.text.encode())
    except UnicodeEncodeError:
        msg = "A message contains an unpaired surrogate, which UTF-8 cannot encode."
        raise ClientInputError("invalid_request", msg) from None
    if size > settings.max_message_bytes:
        msg = f"A message has {size} bytes; the limit is {settings.max_message_bytes}."
        raise ClientInputError("invalid_request", msg)
    if all(isinstance(part, Text) for part in turn.parts) and not turn.text.strip():
        raise ClientInputError("invalid_request", "A message of the user must not be blank.")


@contextmanager
def refusing() -> Generator[None]:
    """Return a context manager that converts a refused input of a front end to an `HTTPError`."""
    try:
        yield
    except ClientInputError as error:
        raise HTTPError(error.status, str(error)) from error
