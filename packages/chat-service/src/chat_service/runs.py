"""`Runs`, which starts, finds, cancels and retries the runs of a service."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import final
from uuid import UUID, uuid4

import anyio
from chat_core import ConflictError, Messages, PendingToolsError, Tool, UsageError
from chat_core.approvals import Principal
from chat_core.json import dumps
from chat_core.messages import Interrupted, Running, Turn
from chat_inbox.http_errors import HTTPError
from chat_store import (
    ConversationClosedError,
    ConversationExistsError,
    ConversationMeta,
    HistoryPosition,
    Job,
    Snapshot,
    StoredJob,
    UnknownConversationError,
)

from chat_service.context import ServiceContext
from chat_service.request_log import logged_trace
from chat_service.run_events import mark_turn
from chat_service.run_records import (
    END_JOB,
    Run,
    RunEnd,
    end_job,
    first_part,
    jobs_of,
    new_run_id,
    read_runs,
    session_of,
)

_CANCELLED = "The run was cancelled."
_CLOSED = "There is no such session: it was closed."


@final
@dataclass(frozen=True, slots=True)
class MessageRequest:
    """A request to answer a message.

    Attributes:
        principal: the authenticated user.
        session_id: id of the session, or `None` for a new session.
        message: text of the message.
        body_hash: hash of the body of the request.
        key: the idempotency key with the route of the request, or `None`.
        waits: whether the request waits for the end of an active run of the session. Otherwise, it is refused.
    """

    principal: Principal
    session_id: str | None
    message: str
    body_hash: str
    key: str | None = None
    waits: bool = True


@final
@dataclass(frozen=True, slots=True)
class _Known:
    """The result of the search for the run of a request.

    Attributes:
        run_id: id of the run of the request.
        run: the run, or `None` if this is the first such request.
        is_busy: whether a run of the session is active.
        jobs: the jobs of the runs of the session.
    """

    run_id: str
    run: Run | None
    is_busy: bool
    jobs: Sequence[StoredJob]


@final
class Runs:
    """The runs of a service. They are jobs in the store, so every process sees the same runs.

    Args:
        context: objects shared by the parts of the service.
    """

    def __init__(self, context: ServiceContext) -> None:
        self._engine = context.engine
        self._flow = context.flow
        self._store = context.store
        self._signals = context.signals
        self._settings = context.settings
        self._queues: dict[str, anyio.Lock] = {}

    # --- Reading --------------------------------------------------------------------------------------------------

    async def of_session(self, session_id: str) -> list[Run]:
        """Return the runs of a session, oldest first.

        Args:
            session_id: id of the session.
        """
        return read_runs(await self._store.jobs(conversation=session_id))

    async def find(self, run_id: str) -> Run | None:
        """Return a run, or `None` if no run has this id.

        Args:
            run_id: id of the run.
        """
        jobs = await self._store.jobs(conversation=session_of(run_id), key_prefix=f"{run_id}@")
        return next(iter(read_runs(jobs)), None)

    async def require_own_session(
        self, principal: Principal, session_id: str, *, closed: bool = False
    ) -> ConversationMeta:
        """Return the metadata of a session that belongs to a user.

        Args:
            principal: the user.
            session_id: id of the session.
            closed: whether the session may be closed.

        Raises:
            HTTPError: 400 if the id is malformed, 404 if the user has no such session.
        """
        if not is_session_id(session_id):
            raise HTTPError(400, "The session id must be a UUID, as the service returned it.")
        try:
            meta = await self._store.meta(session_id)
        except UnknownConversationError:
            meta = None
        if meta is None or meta.owner != principal.name or (meta.state == "closed" and not closed):
            raise HTTPError(404, "There is no such session: it was closed, or it is not yours.")
        return meta

    async def require_own_run(self, principal: Principal, run_id: str) -> Run:
        """Return a run that belongs to an open session of a user.

        Args:
            principal: the user.
            run_id: id of the run.

        Raises:
            HTTPError: 404 if the user has no such run.
        """
        session_id = session_of(run_id)
        if is_session_id(session_id) and run_id.isprintable():
            await self.require_own_session(principal, session_id)
            if run := await self.find(run_id):
                return run
        raise HTTPError(404, "There is no such run, or it is not yours.")

    # --- Starting -------------------------------------------------------------------------------------------------

    async def start(self, request: MessageRequest) -> Run:
        """Store a message together with the run that answers it, and return the run.

        Args:
            request: the request.

        Raises:
            HTTPError: 409 if calls of the session wait for decisions, or if a run is active and the request does not
                wait. 422 if the idempotency key was used with another body.
        """
        if request.session_id is None:
            return await self._start_session(request)
        meta = await self.require_own_session(request.principal, request.session_id)
        queue = self._queues.setdefault(request.session_id, anyio.Lock())
        if queue.locked() and (known := await self._look_up(request, request.session_id)).run is not None:
            return known.run
        try:
            async with queue:
                return await self._start_in_turn(request, meta)
        finally:
            if not queue.statistics().tasks_waiting and not queue.locked():
                self._queues.pop(request.session_id, None)

    async def _start_session(self, request: MessageRequest) -> Run:
        """Create a session with the message and its run in one transaction, or return the run of a repeated request."""
        salt = ""
        while True:
            digest = self._idempotency_digest(request, salt)
            session_id = str(uuid4()) if digest is None else str(UUID(bytes=digest[:16], version=4))
            run_id = new_run_id(session_id, "1")
            if digest is not None and (known := await self.find(run_id)):
                if self.is_repeated(known.created_at, known.body_hash, request.body_hash):
                    return known
                salt = run_id  # the key has expired
                continue
            messages = Messages()
            self._add_message(messages, request.message, run_id)
            try:
                await self._store.create(
                    messages,
                    id=session_id,
                    owner=request.principal.name,
                    meta={"flow": self._flow.name, "data": turn_count(messages)},
                    jobs=[self._first_part(run_id, request)],
                )
            except ConversationExistsError:
                if await self.find(run_id) is None:
                    raise HTTPError(409, "The run of this Idempotency-Key no longer exists: use another key.") from None
                continue  # the same request arrived twice at the same time
            return await self._require_run(run_id)

    async def _start_in_turn(self, request: MessageRequest, meta: ConversationMeta) -> Run:
        """Append the message and its run in one transaction, as soon as no other run of the session is active."""
        session_id = meta.id
        signal = self._signals.session(session_id)
        conflicts = 0
        while True:
            seen = signal.number
            known = await self._look_up(request, session_id)
            if known.run is not None:
                return known.run
            if not known.is_busy:
                # If another process queues a run or a part of a run after the runs were read, the store refuses this
                # run. If it adds a message after the snapshot was loaded, the store refuses the message.
                if await self._append(request, meta, await self._load(session_id), known):
                    return await self._require_run(known.run_id)
                conflicts += 1
            if conflicts > 1 and not request.waits:
                raise HTTPError(409, "Another request changed the session at the same time: send the request again.")
            await self._wait(seen, session_id)

    async def _look_up(self, request: MessageRequest, session_id: str) -> _Known:
        """Return the run of an earlier identical request, if there is one, and whether the session is busy.

        Raises:
            HTTPError: 409 if a run is active and the request does not wait.
        """
        runs = await self.of_session(session_id)
        run_id = self._new_run_id(request, session_id, runs)
        run = next((run for run in runs if run.id == run_id), None)
        is_busy = any(run.is_active for run in runs)
        if run is None and is_busy and not request.waits:
            raise HTTPError(409, "A run of this session is active: wait until it ends, or cancel it.")
        return _Known(run_id, run, is_busy, jobs_of(runs))

    async def _load(self, session_id: str) -> Snapshot:
        try:
            return await self._store.load(session_id)
        except UnknownConversationError:
            raise HTTPError(404, _CLOSED) from None

    async def _append(self, request: MessageRequest, meta: ConversationMeta, snapshot: Snapshot, known: _Known) -> bool:
        """Append the message with its run. Return False if the session has changed since the snapshot."""
        turn, cancelled = self._add_message(snapshot.messages, request.message, known.run_id)
        try:
            await self._store.apply(
                meta.id,
                snapshot.revision,
                turns=[("user", turn)],
                tools=cancelled,
                meta={"data": turn_count(snapshot.messages)},
                jobs=[self._first_part(known.run_id, request, meta.position)],
                known_jobs=known.jobs,
            )
        except ConflictError:
            return False
        except (ConversationClosedError, UnknownConversationError):
            raise HTTPError(404, _CLOSED) from None
        return True

    def _add_message(self, messages: Messages, message: str, run_id: str) -> tuple[Turn, Sequence[Tool]]:
        try:
            turn, cancelled = self._engine.add_message(self._flow, messages, message)
        except PendingToolsError:
            text = "Calls of this session wait for decisions: decide them before the next message."
            raise HTTPError(409, text) from None
        except UsageError as error:
            raise HTTPError(400, f"The message cannot be stored: {error}.") from error
        mark_turn(turn, run_id)
        return turn, cancelled

    def _new_run_id(self, request: MessageRequest, session_id: str, runs: Sequence[Run]) -> str:
        """Return a new run id, or the id of the run that an identical earlier request started."""
        known = {run.id: run for run in runs}
        salt = ""
        while True:
            digest = self._idempotency_digest(request, salt)
            run_id = new_run_id(session_id, uuid4().hex[:16] if digest is None else digest.hex()[:32])
            run = known.get(run_id)
            if run is None or self.is_repeated(run.created_at, run.body_hash, request.body_hash):
                return run_id
            salt = run_id  # the key has expired

    def _idempotency_digest(self, request: MessageRequest, salt: str) -> bytes | None:
        """Return a hash of a request's idempotency key, user and session, or `None` if the request has no key."""
        if request.key is None:
            return None
        return idempotency_digest(request.principal.name, request.session_id, request.key, salt)

    def is_repeated(self, created_at: datetime, known_hash: object, body_hash: str) -> bool:
        """Return whether a request repeats an earlier request with the same idempotency key, which has not expired.

        Args:
            created_at: time of the earlier request.
            known_hash: hash of the body of the earlier request.
            body_hash: hash of the body of the request.

        Raises:
            HTTPError: 422 if the key was used with another body.
        """
        age = datetime.now(UTC) - created_at
        if age > timedelta(seconds=self._settings.idempotency_seconds):
            return False
        if known_hash != body_hash:
            raise HTTPError(422, "This Idempotency-Key was used with another request body: use another key.")
        return True

    def _first_part(self, run_id: str, request: MessageRequest, after: HistoryPosition | None = None) -> Job:
        return first_part(run_id, datetime.now(UTC), request.body_hash, after, self._settings, trace=logged_trace())

    # --- Continuing and ending ------------------------------------------------------------------------------------

    async def resume(self, runs: Sequence[Run]) -> bool:
        """Queue the next part of the last run of a session. The last part of the run has ended.

        Args:
            runs: all runs of the session, oldest first.

        Returns:
            False if a new run or part was queued since the runs were read. Nothing was queued then.
        """
        last = runs[-1]
        try:
            await self._store.apply(last.session_id, jobs=[last.next_part(self._settings)], known_jobs=jobs_of(runs))
        except ConflictError:
            return False
        return True

    async def resume_due(self, session_id: str) -> bool:
        """Queue the next part of the last run of a session, if this run is paused.

        Args:
            session_id: id of a session that is due.

        Returns:
            Whether the session can be ignored until it changes.
        """
        runs = await self.of_session(session_id)
        if runs and runs[-1].state == "paused":
            await self.resume(runs)
        return not runs or runs[-1].state in {"failed", "cancelled"}

    async def end(self, run: Run, end: RunEnd) -> None:
        """Record the end of the last part of a run, unless an end is already recorded.

        Args:
            run: the run.
            end: the end.
        """
        await self._store.apply(run.session_id, jobs=[end_job(run.parts[-1].job, end)])

    async def cancel(self, run: Run) -> Run:
        """Cancel a run in any process, and return the run with its new state.

        The worker of an active run stops the model and the tools. Calls that wait or were decided are cancelled, too.

        Args:
            run: the run.
        """
        entry, log = await self.last_entry(run.session_id)
        end = RunEnd("cancelled", entry, log=log)
        if run.is_active:
            part = run.parts[-1].job
            await self._cancel_calls(run)  # before the end, which lets a message that waits continue
            await self.end(run, end)
            await self._store.cancel_job(part.kind, part.key)
            await self._cancel_calls(run)  # that the worker has added meanwhile
        elif run.state == "paused":
            await self._cancel_waiting(run, end)
        return await self._require_run(run.id)

    async def last_entry(self, session_id: str) -> tuple[int, str]:
        """Return the number of a session's last history entry, and the name of the history.

        Args:
            session_id: id of the session.
        """
        position = (await self._store.meta(session_id)).position
        return (0, "") if position is None else (position.number, position.log)

    async def _cancel_calls(self, run: Run) -> None:
        """Cancel the calls of a cancelled run that no worker has started. Otherwise, they would block messages."""
        snapshot = await self._store.load(run.session_id)
        last = (await self.of_session(run.session_id))[-1]
        if last.id != run.id or len(last.parts) != len(run.parts):  # the calls belong to a later run or part
            return
        for tool in snapshot.messages.pending():
            if not isinstance(tool.status, (Running, Interrupted)):
                tool.cancel(_CANCELLED)
                with suppress(ConflictError):  # a worker has started the call, and stops it
                    await self._store.apply(run.session_id, snapshot.revision, tools=[tool])

    async def _cancel_waiting(self, run: Run, end: RunEnd) -> None:
        snapshot = await self._store.load(run.session_id)
        waiting = snapshot.messages.pending()
        for tool in waiting:
            tool.cancel(_CANCELLED)
        part = run.next_part(self._settings)
        ended = Job(END_JOB, part.key, end.to_payload())
        try:
            await self._store.apply(run.session_id, snapshot.revision, tools=waiting, jobs=[ended, part])
        except ConflictError:
            raise HTTPError(
                409, "The run was not cancelled, because a call changed at the same time: try again."
            ) from None
        await self._store.cancel_job(part.kind, part.key)

    async def _wait(self, seen: int, session_id: str) -> None:
        """Wait for a change to a session, for at most `poll_seconds`."""
        with anyio.move_on_after(self._settings.poll_seconds):
            await self._signals.session(session_id).wait(seen)

    async def _require_run(self, run_id: str) -> Run:
        run = await self.find(run_id)
        assert run is not None  # noqa: S101 - it was stored before
        return run


def is_session_id(text: str) -> bool:
    """Return whether a text has the form of a session id, which is a UUID.

    Args:
        text: the text.
    """
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def idempotency_digest(*scope: str | None) -> bytes:
    """Return a hash of an idempotency key and of the texts that limit its scope, such as the name of the user.

    Args:
        *scope: the texts and the key.
    """
    return hashlib.sha256(dumps([*scope]).encode(errors="surrogatepass")).digest()


def turn_count(messages: Messages) -> dict[str, object]:
    """Return a metadata field that contains the number of user messages in a session.

    Args:
        messages: the conversation.
    """
    users = [turn for content in messages if content.role == "user" for turn in content.turns if turn.by is None]
    return {"turn_count": len(users)}
