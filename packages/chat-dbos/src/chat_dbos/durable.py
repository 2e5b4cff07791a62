"""Durable conversations: a DBOS workflow that runs a chat, waits for a decision or a set time, and runs the chat again.

The store holds the conversation; DBOS holds the schedule. A workflow stores only the conversation's id. Each step is a
run of the chat, and the store's lease and log ensure that a repeated run repeats no effect. A workflow can therefore be
killed, recovered twice, or moved between workers.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias, TypedDict, final

from chat_core import AnyChat
from chat_core.arguments import require_optional_text, require_text, require_type
from chat_core.errors import UsageError
from chat_store import ConversationStore, UnknownConversationError
from dbos import DBOS, SetWorkflowID, WorkflowHandleAsync, WorkflowSerializationFormat

from chat_dbos._run_step import Busy, Failed, Halted, Outcome, run_conversation
from chat_dbos._shutdown import WORKFLOW_TASKS
from chat_dbos.errors import ConversationFailedError
from chat_dbos.launch import require_dbos, require_free_name
from chat_dbos.waking import LIVE, TOPIC, decided, prefix_of, workflows_of

_RESTARTS = 1_000
"""Maximum recovery attempts per workflow.

A workflow that waits through many deployments can exceed the default of 100.
"""
_SHORTEST_WAIT = 1.0


class Finished(TypedDict):
    """The result of a workflow whose conversation ended with an answer. The answer itself is in the store."""

    conversation: str
    runs: int


@final
@dataclass(frozen=True, slots=True)
class WorkflowTiming:
    """The retry and polling intervals of a workflow, in seconds.

    Attributes:
        attempts: number of consecutive retryable failures after which the workflow fails.
        first: delay after the first failure. It doubles with each failure, and is at least a provider's `retry_after`.
        longest: upper limit of that delay.
        busy: delay before the next attempt if another run holds the conversation.
        look_every: interval at which a paused conversation is run again even if no message arrives, because a message
            can be lost.
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
                msg = f"WorkflowTiming({name}=...) needs a number above 0, not {value!r}"
                raise UsageError(msg)

    def delay_after(self, outcome: Halted | Busy | Failed, failures: int, now: datetime) -> float:
        """Return the seconds to wait before the next run, unless a message arrives first.

        Args:
            outcome: outcome of the last run.
            failures: number of consecutive failures.
            now: current time.
        """
        if outcome["kind"] == "busy":
            return self.busy
        if outcome["kind"] == "failed":
            back_off = min(self.longest, self.first * 2.0 ** min(failures - 1, 60))
            return max(back_off, outcome["retry_after"] or 0.0)
        if outcome["until"] is None:
            return self.look_every
        # The time may have passed already, for example if the clock of the store is behind this clock.
        remaining = max(_SHORTEST_WAIT, (datetime.fromisoformat(outcome["until"]) - now).total_seconds())
        return min(remaining, self.look_every)


_Workflow: TypeAlias = Callable[[str, str], Coroutine[object, object, Finished]]


@final
class DurableChats:
    """A set of chats that run on stored conversations as DBOS workflows.

    Create the object before DBOS is launched, with the same arguments in every worker. A worker cannot recover
    workflows that it has not registered.

    Args:
        store: holds the conversations. Its database may be that of DBOS or another database.
        chats: chats by name. A name must mean the same chat on every worker.
        name: name of the workflow in DBOS. Needed if a program has several `DurableChats`.
        queue: name of a DBOS queue. If given, `start()` enqueues workflows and any worker runs them. Register the
            queue after the launch: `await DBOS.register_queue_async(name)`. Do not limit its concurrency, because a
            paused conversation occupies a slot.
        timing: retry and polling intervals.

    Raises:
        UsageError: `name` belongs to a workflow of another kind, or an argument is wrong.
    """

    def __init__(
        self,
        store: ConversationStore,
        chats: Mapping[str, AnyChat],
        *,
        name: str = "chat_dbos.conversation",
        queue: str | None = None,
        timing: WorkflowTiming | None = None,
    ) -> None:
        require_type("store", store, ConversationStore, "a store of conversations")
        if timing is not None:
            require_type("timing", timing, WorkflowTiming, "WorkflowTiming(...), or None")
        require_optional_text(queue=queue)
        self._store = store
        require_type("chats", chats, Mapping, "a mapping of names to chats")
        require_text(name=name)
        self._chats = dict(chats)
        self._name = name
        self._queue = queue
        self._timing = timing or WorkflowTiming()
        with require_free_name(name):
            self._workflow = self._register_workflow()

    async def start(self, conversation_id: str, *, chat: str) -> WorkflowHandleAsync[Finished]:
        """Start a workflow that runs `chat` on a conversation until the chat has answered, and return its handle.

        If the conversation is paused and a workflow is waiting for a decision, that workflow is woken and its handle is
        returned. A new workflow is started if a message was added since, or if the last workflow failed.

        Args:
            conversation_id: id of the conversation in the store.
            chat: name of the chat.

        Raises:
            UnknownConversationError: the store has no conversation with this id.
            UsageError: there is no chat with this name, or DBOS does not run in this process.
        """
        require_text(conversation_id=conversation_id, chat=chat)
        self._chat_named(chat)
        snapshot = await self._store.load(conversation_id)
        if snapshot.messages.pending():
            live = await workflows_of(conversation_id, live=True)
            if live:
                await decided(conversation_id)
                return await DBOS.retrieve_workflow_async(live[-1].workflow_id)
        return await self._start_workflow(conversation_id, chat, snapshot.revision)

    async def decided(self, conversation_id: str) -> int:
        """Wake the workflows of a conversation after a decision, and return how many there are.

        Raises:
            UsageError: DBOS does not run in this process. Call `chat_dbos.decided()` with a client there.
        """
        return await decided(conversation_id)

    async def wake_due(self) -> int:
        """Wake the workflow of every conversation that is due, and return how many were woken.

        Use it to handle decisions after which `decided()` was not called, because a program without DBOS made them or
        the process died before the call. Call this method when a worker starts, and periodically.
        """
        return sum([await decided(item.conversation) for item in await self._store.due()])

    async def take_over(self, executor_id: str) -> list[str]:
        """Resume the workflows of a worker that will not restart, and return the ids of their conversations.

        If that worker is still alive, no effect is repeated, because only one worker at a time can run a conversation.

        Raises:
            UsageError: DBOS does not run in this process.
        """
        require_text(executor_id=executor_id)
        with require_dbos():
            pending = await DBOS.list_workflows_async(name=self._name, status="PENDING", executor_id=executor_id)
        resumable = [status.workflow_id for status in pending if status.app_version == DBOS.application_version]
        if resumable:
            await DBOS.resume_workflows_async(resumable)
        conversations: list[str] = []
        for status in pending:
            conversation_id, chat = status.input["args"] if status.input else ("", "")
            conversations.append(conversation_id)
            if status.app_version == DBOS.application_version:
                # A decision may have been made while no worker could receive the message.
                await decided(conversation_id)
            else:
                # This version cannot replay its steps, so a new workflow continues from the store. A conversation that
                # was deleted is skipped.
                with suppress(UnknownConversationError):
                    snapshot = await self._store.load(conversation_id)
                    await self._start_workflow(conversation_id, chat, snapshot.revision, replacing=status.workflow_id)
                await DBOS.cancel_workflow_async(status.workflow_id)
        return conversations

    def _chat_named(self, chat: str) -> AnyChat:
        found = self._chats.get(chat)
        if found is None:
            msg = f"there is no chat {chat!r}; there are: {', '.join(map(repr, sorted(self._chats))) or 'none'}"
            raise UsageError(msg)
        return found

    async def _start_workflow(
        self, conversation_id: str, chat: str, revision: int, *, replacing: str | None = None
    ) -> WorkflowHandleAsync[Finished]:
        """Start a workflow for a conversation at the given revision, and return its handle.

        Concurrent calls with the same revision start only one workflow.

        Args:
            conversation_id: id of the conversation in the store.
            chat: name of the chat.
            revision: revision of the conversation.
            replacing: id of a workflow to replace. It is treated as ended even if DBOS still lists it as running.
        """
        base = f"{prefix_of(conversation_id)}{revision}."
        earlier = [item for item in await workflows_of(conversation_id) if item.workflow_id.startswith(base)]
        ended = [item for item in earlier if item.status not in LIVE or item.workflow_id == replacing]
        with SetWorkflowID(f"{base}{len(ended)}"):
            if self._queue is None:
                return await DBOS.start_workflow_async(self._workflow, conversation_id, chat)
            return await DBOS.enqueue_workflow_async(self._queue, self._workflow, conversation_id, chat)

    def _register_workflow(self) -> _Workflow:
        # JSON instead of the default, pickle: any process can read it, and reading it runs no code.
        @DBOS.workflow(
            name=self._name,
            max_recovery_attempts=_RESTARTS,
            serialization_type=WorkflowSerializationFormat.PORTABLE,
        )
        async def conversation(conversation_id: str, chat: str) -> Finished:
            with WORKFLOW_TASKS.workflow():
                return await self._run_until_answered(conversation_id, chat)

        return conversation

    async def _run_until_answered(self, conversation_id: str, chat: str) -> Finished:
        """Run the chat until it has answered, and return the result of the workflow.

        The control flow depends only on the recorded outcomes of the steps, so that DBOS can replay the workflow.
        """
        runs = failures = 0
        while True:
            step = DBOS.run_step_async({"name": "run"}, self._run_once, conversation_id, chat)
            outcome = await WORKFLOW_TASKS.run(step)
            runs += 1
            if outcome["kind"] == "answered":
                return Finished(conversation=conversation_id, runs=runs)
            if outcome["kind"] == "failed":
                failures += 1
                if not outcome["retryable"] or failures >= self._timing.attempts:
                    raise ConversationFailedError(conversation_id, outcome["error"], outcome["message"], failures)
            elif outcome["kind"] == "halted":
                failures = 0
            # The clock may be read here: on a replay, DBOS already knows how the wait ended.
            seconds = self._timing.delay_after(outcome, failures, datetime.now(UTC))
            if outcome["kind"] == "failed":
                await DBOS.sleep_async(seconds)
            else:
                await DBOS.recv_async(TOPIC, timeout_seconds=seconds)

    async def _run_once(self, conversation_id: str, chat: str) -> Outcome:
        try:
            found = self._chat_named(chat)
        except UsageError as error:
            return Failed(kind="failed", error="UsageError", message=str(error), retryable=False, retry_after=None)
        return await run_conversation(self._store, conversation_id, found.complete)
