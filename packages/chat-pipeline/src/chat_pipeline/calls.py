"""The runtimes `tool`, `chat` and `agent`, which use the chats of the application and may wait for a decision.

Each task has its own conversation in the store, with the id `pipeline/RUN/TASK`. The store ensures that no tool runs
twice. The inbox shows the waiting calls of these conversations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import ClassVar, TypeAlias, cast, final

from chat_core import AnyChat, Completed, Conversation, Failed, Messages, Rejected, Tool
from chat_core.arguments import argument_error, require_number, require_type
from chat_core.errors import ConflictError
from chat_core.json import JsonValue
from chat_dbos import run_conversation
from chat_store import ConversationExistsError, ConversationStore, UnknownConversationError

from chat_pipeline.errors import TaskError
from chat_pipeline.runtime import TABLE, ConfigField, Runtime, TaskCall, Waiting
from chat_pipeline.waking import conversation_of

_Work: TypeAlias = Callable[[Conversation], Awaitable[object]]


class _ChatRuntime(Runtime):
    """Base class of the runtimes that use a chat."""

    _kind: ClassVar[str] = "chat"
    """Key of the configuration that names the chat."""
    _prompt: ClassVar[str] = "prompt"
    """Key of the configuration that contains the message to the chat."""

    def __init__(
        self,
        store: ConversationStore,
        chats: Mapping[str, AnyChat],
        *,
        owner: str | None = None,
        busy_seconds: float = 5.0,
    ) -> None:
        require_number("busy_seconds", busy_seconds)
        require_type("chats", chats, Mapping, "a mapping of names to chats")
        try:
            self._busy = timedelta(seconds=busy_seconds)
        except (ValueError, OverflowError):
            raise argument_error("busy_seconds", "a finite number of seconds", busy_seconds) from None
        self._store = store
        self._chats = dict(chats)
        self._owner = owner

    async def end_waiting(self, run_id: str, task_id: str) -> None:
        """Close the conversation of a task, so that nobody is asked for decisions that have no effect."""
        # Either the task uses no chat, or its call was approved and is being executed, so it does not wait.
        with suppress(UnknownConversationError, ConflictError):
            await self._store.close(conversation_of(run_id, task_id))

    def _find_chat(self, call: TaskCall) -> AnyChat:
        name = call.text(self._kind)
        found = self._chats.get(name)
        if found is None:
            known = ", ".join(map(repr, sorted(self._chats))) or "none"
            msg = f"there is no {self._kind} {name!r}; there are: {known}"
            raise TaskError(msg)
        return found

    async def _ask(self, call: TaskCall, chat: AnyChat) -> JsonValue | Waiting:
        """Send the prompt of a task to a chat, and return the text of the last turn."""

        async def work(conversation: Conversation) -> object:
            return await chat.complete(conversation)

        conversation_id = await self._open(call, Messages.from_user(call.text(self._prompt)))
        waiting = await self._run_chat(conversation_id, work)
        if waiting is not None:
            return waiting
        snapshot = await self._store.load(conversation_id)
        return snapshot.messages.contents[-1].turns[-1].text

    async def _open(self, call: TaskCall, first: Messages) -> str:
        """Return the id of the task's conversation. Create the conversation if it does not exist yet."""
        conversation_id = conversation_of(call.run_id, call.task_id)
        try:
            await self._store.load(conversation_id)
        except UnknownConversationError:
            with suppress(ConversationExistsError):  # another worker executes the same run
                await self._store.create(first, id=conversation_id, owner=self._owner or call.owner)
        return conversation_id

    async def _run_chat(self, conversation_id: str, work: _Work) -> Waiting | None:
        """Run a chat on a stored conversation. Return `Waiting`, or None if the run has ended."""
        outcome = await run_conversation(self._store, conversation_id, work)
        if outcome["kind"] == "answered":
            return None
        if outcome["kind"] == "halted":
            return Waiting(datetime.fromisoformat(outcome["until"]) if outcome["until"] else None)
        if outcome["kind"] == "busy":
            # For example, the lease of a worker that was killed has not expired yet.
            return Waiting(datetime.now(UTC) + self._busy)
        msg = f"{outcome['error']}: {outcome['message']}"
        raise TaskError(msg, retryable=outcome["retryable"])


@final
class ToolRuntime(_ChatRuntime):
    """The runtime `tool`, which calls a tool of a chat under the policy of the chat.

    Args:
        store: holds the conversations of the tasks.
        chats: the chats that tasks may use, by name.
        owner: the owner of the conversations. Default: the owner of the run.
        busy_seconds: delay before the next attempt if another worker holds the lease of the conversation.
    """

    name = "tool"
    fields: ClassVar[Mapping[str, ConfigField]] = {
        "chat": ConfigField(),
        "tool": ConfigField(),
        "arguments": ConfigField(TABLE, required=False),
    }

    async def run(self, call: TaskCall) -> JsonValue | Waiting:
        """Call the tool, and return its result."""
        chat = self._find_chat(call)
        arguments = cast("Mapping[str, object]", call.config.get("arguments", {}))
        ended: list[object] = []

        async def work(conversation: Conversation) -> object:
            ended.append(await chat.call(call.text("tool"), arguments, conversation, id=call.task_id))
            return ended[-1]

        conversation_id = await self._open(call, Messages())
        waiting = await self._run_chat(conversation_id, work)
        return waiting or _result_of(cast("Tool", ended[-1]))


@final
class ChatRuntime(_ChatRuntime):
    """The runtime `chat`, which sends a prompt to a chat and returns the answer.

    The output is the text of the last turn. With structured output, this text is JSON.

    Args:
        store: holds the conversations of the tasks.
        chats: the chats that tasks may use, by name.
        owner: the owner of the conversations. Default: the owner of the run.
        busy_seconds: delay before the next attempt if another worker holds the lease of the conversation.
    """

    name = "chat"
    fields: ClassVar[Mapping[str, ConfigField]] = {"chat": ConfigField(), "prompt": ConfigField()}

    async def run(self, call: TaskCall) -> JsonValue | Waiting:
        """Ask the chat, and return its answer."""
        return await self._ask(call, self._find_chat(call))


@final
class AgentRuntime(_ChatRuntime):
    """The runtime `agent`, which gives a task to an agent and returns the agent's answer.

    An agent is a chat with instructions and tools, such as `AgentEngine.chat(flow)` of chat-agents. The policy of the
    agent applies to its calls, so the task may wait for decisions. The output is the text of the last turn.

    Args:
        store: holds the conversations of the tasks.
        chats: the agents that tasks may use, by name.
        owner: the owner of the conversations. Default: the owner of the run.
        busy_seconds: delay before the next attempt if another worker holds the lease of the conversation.
    """

    name = "agent"
    fields: ClassVar[Mapping[str, ConfigField]] = {"agent": ConfigField(), "task": ConfigField()}
    _kind = "agent"
    _prompt = "task"

    async def run(self, call: TaskCall) -> JsonValue | Waiting:
        """Give the task to the agent, and return its answer."""
        return await self._ask(call, self._find_chat(call))


def _result_of(tool: Tool) -> JsonValue:
    status = tool.status
    if isinstance(status, Completed):
        return cast("JsonValue", status.result)
    if isinstance(status, Failed):
        raise TaskError(status.error)
    if isinstance(status, Rejected):
        msg = f"the call was rejected: {status.reason}"
        raise TaskError(msg)
    msg = f"the call ended with the status {type(status).__name__}"
    raise TaskError(msg)
