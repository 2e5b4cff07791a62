"""What can be done in an inbox, whoever asks for it: looking, deciding, and going on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, final

from chat_core import AnyChat
from chat_core.errors import ConflictError, IllegalTransitionError, InvalidDocumentError, UsageError
from chat_core.messages import Messages, Tool
from chat_core.tools import ToolDefinition
from chat_store import ConversationStore, Snapshot, UnknownConversationError, Waiting

from chat_inbox.background_runs import Runs
from chat_inbox.http_errors import ProblemError
from chat_inbox.tool_calls import decided_by, version_of, waits_for
from chat_inbox.tool_definitions import definition_of, names_of, problems_of

Action: TypeAlias = Literal["approve", "reject", "retry", "fail", "complete"]
Authorise: TypeAlias = Callable[[str, str | None], bool]
"""Whether a person may see, and decide in, a conversation that somebody is in charge of."""


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """What a person wants to be done with a call.

    Attributes:
        arguments: in place of those that would run, for `approve`.
        text: the reason of `reject`, and the error of `fail`.
        result: of `complete`.
    """

    action: Action
    arguments: Mapping[str, object] | None = None
    text: str | None = None
    note: str | None = None
    result: object = None

    def apply(self, tool: Tool, by: str, at: datetime) -> None:
        """Do it.

        Raises:
            IllegalTransitionError: the call is not where this can be done.
        """
        match self.action:
            case "approve":
                tool.approve(arguments=self.arguments, by=by, note=self.note, at=at)
            case "reject":
                tool.reject(self.text, by=by, note=self.note, at=at)
            case "retry":
                tool.retry(by=by, note=self.note, at=at)
            case "fail":
                tool.fail(self.text or "", by=by, note=self.note, at=at)
            case "complete":
                tool.complete(self.result, by=by, note=self.note, at=at)


@final
class ApprovalService:
    """A store, the chats that go on with what is in it, and who may look."""

    def __init__(
        self,
        store: ConversationStore,
        chat_of: Callable[[str], AnyChat | None],
        authorise: Authorise,
        now: Callable[[], datetime],
    ) -> None:
        self.store = store
        self.now = now
        self.runs = Runs(store, chat_of)
        self._chat_of = chat_of
        self._authorise = authorise

    # --- Looking --------------------------------------------------------------------------------------------------

    async def waiting(self, person: str, limit: int | None = None) -> list[Waiting]:
        """Every call that waits, and that this person may see."""
        found = [item for item in await self.store.waiting() if self._authorise(person, item.person)]
        return found[:limit]

    async def snapshot(self, person: str, conversation: str) -> Snapshot:
        """A conversation as it is stored.

        Raises:
            ProblemError: there is none, or none that this person may see.
        """
        try:
            found = await self.store.load(conversation)
        except (UnknownConversationError, UsageError):
            found = None
        except InvalidDocumentError as error:
            raise ProblemError(500, f"The conversation cannot be read: {error}.") from error
        if found is None or not self._authorise(person, found.person):
            raise ProblemError(404, "There is no such conversation: it was deleted, or it is not yours to see.")
        return found

    def find(self, snapshot: Snapshot, path: tuple[str, ...]) -> Tool:
        """A call of a conversation.

        Raises:
            ProblemError: there is none.
        """
        try:
            return snapshot.messages.tool(*path)
        except (KeyError, TypeError):
            raise ProblemError(404, "There is no such call in this conversation (any more).") from None

    def require_seen(self, tool: Tool, version: str) -> None:
        """Look whether a call is the one that somebody has seen.

        Raises:
            ProblemError: it is another one by now; it says who was faster.
        """
        if version_of(tool) != version:
            raise ProblemError(409, decided_by(tool))

    def definition(self, conversation: str, messages: Messages, path: tuple[str, ...]) -> ToolDefinition | None:
        """How the tool of a call is declared, `None` where its chat is not known here."""
        return definition_of(self._chat_of(conversation), names_of(messages, path))

    async def is_due(self, snapshot: Snapshot) -> bool:
        """Whether a run could go on with it, and none does."""
        if self.runs.channel(snapshot.id).running:
            return False
        return any(item.conversation == snapshot.id for item in await self.store.due(person=snapshot.person))

    # --- Deciding -------------------------------------------------------------------------------------------------

    async def decide(
        self,
        person: str,
        conversation: str,
        path: tuple[str, ...],
        version: str,
        choice: Choice,
        *,
        go_on: bool = True,
    ) -> Snapshot:
        """Record a decision, durably, and go on with the conversation.

        `version` is that of the call as the person saw it: somebody else's decision is never decided over.

        Raises:
            ProblemError: 409 where the call is another one by now; 422 where its tool would not take the arguments.
        """
        snapshot = await self.snapshot(person, conversation)
        tool = self.find(snapshot, path)
        self.require_seen(tool, version)
        if choice.action not in ("approve", "reject") and waits_for(tool) != "interrupted":
            raise ProblemError(409, f"This cannot be done: {tool.name} was not interrupted; approve or reject it.")
        if choice.arguments is not None:
            self._check(snapshot, path, choice.arguments)
        if go_on:
            self.runs.require_open(conversation)
        try:
            choice.apply(tool, person, self.now())
            saved = await self.store.save(conversation, snapshot.messages, revision=snapshot.revision)
        except IllegalTransitionError as error:
            raise ProblemError(409, f"This cannot be done: {error}.") from error
        except ConflictError as error:
            tool = self.find(await self.snapshot(person, conversation), path)
            moved = version_of(tool) != version
            raise ProblemError(409, decided_by(tool) if moved else f"Nothing was changed: {error}.") from error
        except UsageError as error:
            raise ProblemError(422, f"{error}") from error
        self.runs.front.tell("changed")
        self.runs.channel(conversation).tell("changed")
        if go_on:
            self.runs.start(conversation)
        return saved

    def _check(self, snapshot: Snapshot, path: tuple[str, ...], arguments: Mapping[str, object]) -> None:
        definition = self.definition(snapshot.id, snapshot.messages, path)
        if definition is not None and (errors := problems_of(definition, arguments)):
            raise ProblemError(422, "The tool does not take these arguments; nothing was decided.", errors=errors)

    async def resume(self, person: str, conversation: str) -> None:
        """Go on with a conversation.

        Raises:
            ProblemError: there is none, or no chat to go on with it.
        """
        await self.snapshot(person, conversation)
        if not self.runs.start(conversation):
            raise ProblemError(409, "This inbox has no chat to go on with: a worker of the application does that.")

    async def cursor(self) -> str:
        """Where the store is: what is read after this is at least so new."""
        return (await self.store.changes()).cursor
