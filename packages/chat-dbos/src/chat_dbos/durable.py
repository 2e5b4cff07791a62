"""Conversations that go on by themselves: each is a workflow that runs a chat, waits, and runs it again.

The store is the truth, and DBOS is the clock and the bell. A workflow keeps nothing of a conversation but its id; its
steps are runs, which the store keeps apart and which do nothing twice, whoever repeats them. So it matters to nobody
whether a workflow ran on one worker or on five, was killed, was resumed twice, or got a message too many.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias, TypedDict, final

from chat_core import AnyChat
from chat_core.errors import UsageError
from chat_store import ConversationStore, UnknownConversationError
from dbos import DBOS, SetWorkflowID, WorkflowHandleAsync, WorkflowSerializationFormat

from chat_dbos._leaving import TASKS
from chat_dbos._running import Busy, End, Failed, Halted, run
from chat_dbos.errors import ConversationFailedError
from chat_dbos.waking import LIVE, TOPIC, decided, prefix_of, workflows_of

_RESTARTS = 1_000
"""How many workers may die under one workflow. The 100 of DBOS are soon used up by what waits through deployments."""
_SHORTEST_WAIT = 1.0


class Finished(TypedDict):
    """What a workflow returns when its conversation ends in an answer. The answer is in the store."""

    conversation: str
    runs: int


@final
@dataclass(frozen=True, slots=True)
class WorkflowTiming:
    """How long a workflow waits, in seconds.

    Attributes:
        attempts: so many runs in a row may fail, in a way that may pass, before the workflow fails.
        first: the wait behind the first failure; each is twice as long as the one before. A provider that says how long
            to wait is waited for at least so long.
        longest: the longest of these waits.
        busy: how long a conversation is left alone that another run is at.
        look_every: a conversation that waits is looked at this often though nobody said anything, in case the message
            of a decision was lost.
    """

    attempts: int = 8
    first: float = 2.0
    longest: float = 600.0
    busy: float = 5.0
    look_every: float = 3_600.0

    def __post_init__(self) -> None:
        for name in ("attempts", "first", "longest", "busy", "look_every"):
            value: object = getattr(self, name)
            if not isinstance(value, (int, float)) or value <= 0:
                msg = f"Patience({name}=...) needs a number above 0, not {value!r}"
                raise UsageError(msg)

    def after(self, end: Halted | Busy | Failed, failures: int, now: datetime) -> float:
        """How long to wait behind such an end, if nobody wakes the workflow before."""
        if end["kind"] == "busy":
            return self.busy
        if end["kind"] == "failed":
            back_off = min(self.longest, self.first * 2.0 ** min(failures - 1, 60))
            return max(back_off, end["retry_after"] or 0.0)
        if end["until"] is None:
            return self.look_every
        # A clock that is behind the store's would ask again at once.
        remaining = max(_SHORTEST_WAIT, (datetime.fromisoformat(end["until"]) - now).total_seconds())
        return min(remaining, self.look_every)


_Workflow: TypeAlias = Callable[[str, str], Coroutine[object, object, Finished]]


@final
class DurableChats:
    """Runs chats on the conversations of a store, as workflows of the DBOS of this process.

    Make it before DBOS is launched, in every worker alike: what a worker has not heard of, it cannot resume.

    Args:
        store: where the conversations are. Its database may be that of DBOS, or another one.
        chats: by the names that `start()` is given; a name means the same chat on every worker.
        name: of the workflow in DBOS, where a program has several of these.
        queue: where given, `start()` puts workflows into this queue of DBOS, and any worker takes them; the queue is
            registered after the launch: `await DBOS.register_queue_async(name)`. A conversation that waits occupies its
            place in the queue, so do not limit its concurrency.
        patience: how long is waited for what.
    """

    def __init__(
        self,
        store: ConversationStore,
        chats: Mapping[str, AnyChat],
        *,
        name: str = "chat_dbos.conversation",
        queue: str | None = None,
        patience: WorkflowTiming | None = None,
    ) -> None:
        self._store = store
        self._chats = dict(chats)
        self._name = name
        self._queue = queue
        self._patience = patience or WorkflowTiming()
        self._workflow = self._register()

    async def start(self, conversation_id: str, *, chat: str) -> WorkflowHandleAsync[Finished]:
        """Have the chat answer the conversation, however long that takes, and return the handle of the workflow.

        Where one waits with this conversation already, it is told to look again, and its handle is returned. A message
        that was pushed since gets a workflow of its own, and so does a conversation whose last one failed.

        Raises:
            UnknownConversationError: the store has none of this id.
            UsageError: there is no chat of this name.
        """
        self._require(chat)
        snapshot = await self._store.load(conversation_id)
        if snapshot.messages.pending():
            live = await workflows_of(conversation_id, live=True)
            if live:
                await decided(conversation_id)
                return await DBOS.retrieve_workflow_async(live[-1].workflow_id)
        return await self._begin(conversation_id, chat, snapshot.revision)

    async def decided(self, conversation_id: str) -> int:
        """Have a conversation looked at now, since somebody decided about it. Returns how many workflows were told."""
        return await decided(conversation_id)

    async def wake_due(self) -> int:
        """Wake the workflow of every conversation that could go on now. Returns how many workflows were told.

        For decisions that nobody told of: made by a program that knows no DBOS, or by a process that died before it
        could tell. Call it when a worker starts, and by a cron as often as you like.
        """
        return sum([await decided(item.conversation) for item in await self._store.due()])

    async def take_over(self, executor_id: str) -> list[str]:
        """Go on with what another worker was at, which is gone and does not come back. Returns the conversations.

        Where it lives after all, nothing is lost and nothing is done twice: one of the two goes on.
        """
        left = await DBOS.list_workflows_async(name=self._name, status="PENDING", executor_id=executor_id)
        ours = [status.workflow_id for status in left if status.app_version == DBOS.application_version]
        if ours:
            await DBOS.resume_workflows_async(ours)
        taken: list[str] = []
        for status in left:
            conversation_id, chat = status.input["args"] if status.input else ("", "")
            taken.append(conversation_id)
            if status.app_version == DBOS.application_version:
                # Somebody may have decided while nobody was there to be told.
                await decided(conversation_id)
            else:
                # No worker of this version may take its steps again. It need not: a new one finds all in the store.
                # Where the conversation was deleted, there is nothing to go on with; the others are gone on with.
                with suppress(UnknownConversationError):
                    snapshot = await self._store.load(conversation_id)
                    await self._begin(conversation_id, chat, snapshot.revision, beside=status.workflow_id)
                await DBOS.cancel_workflow_async(status.workflow_id)
        return taken

    def _require(self, chat: str) -> AnyChat:
        found = self._chats.get(chat)
        if found is None:
            msg = f"there is no chat {chat!r} here; there are: {', '.join(map(repr, sorted(self._chats))) or 'none'}"
            raise UsageError(msg)
        return found

    async def _begin(
        self, conversation_id: str, chat: str, revision: int, *, beside: str | None = None
    ) -> WorkflowHandleAsync[Finished]:
        """Start a workflow for what is stored at this revision; of several who do so at once, one starts it."""
        base = f"{prefix_of(conversation_id)}{revision}."
        earlier = [item for item in await workflows_of(conversation_id) if item.workflow_id.startswith(base)]
        over = [item for item in earlier if item.status not in LIVE or item.workflow_id == beside]
        with SetWorkflowID(f"{base}{len(over)}"):
            if self._queue is None:
                return await DBOS.start_workflow_async(self._workflow, conversation_id, chat)
            return await DBOS.enqueue_workflow_async(self._queue, self._workflow, conversation_id, chat)

    def _register(self) -> _Workflow:
        # Plain JSON in the database, where the default would be pickle: any process reads it, and none runs it.
        @DBOS.workflow(
            name=self._name,
            max_recovery_attempts=_RESTARTS,
            serialization_type=WorkflowSerializationFormat.PORTABLE,
        )
        async def conversation(conversation_id: str, chat: str) -> Finished:
            with TASKS.workflow():
                return await self._converse(conversation_id, chat)

        return conversation

    async def _converse(self, conversation_id: str, chat: str) -> Finished:
        """The workflow. It decides by the ends of its steps alone, which DBOS keeps, and by no clock and no store."""
        runs = failures = 0
        while True:
            end = await TASKS.run(DBOS.run_step_async({"name": "run"}, self._run, conversation_id, chat))
            runs += 1
            if end["kind"] == "answered":
                return Finished(conversation=conversation_id, runs=runs)
            if end["kind"] == "failed":
                failures += 1
                if not end["retryable"] or failures >= self._patience.attempts:
                    raise ConversationFailedError(conversation_id, end["error"], end["message"], failures)
            elif end["kind"] == "halted":
                failures = 0
            # How long is of no consequence for the steps that follow: on a replay, the end of the wait is known.
            seconds = self._patience.after(end, failures, datetime.now(UTC))
            if end["kind"] == "failed":
                await DBOS.sleep_async(seconds)
            else:
                await DBOS.recv_async(TOPIC, timeout_seconds=seconds)

    async def _run(self, conversation_id: str, chat: str) -> End:
        try:
            found = self._require(chat)
        except UsageError as error:
            return Failed(kind="failed", error="UsageError", message=str(error), retryable=False, retry_after=None)
        return await run(self._store, found, conversation_id)
