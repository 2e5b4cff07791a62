"""The operations list, decide and resume, which the pages, the JSON API and the approval links share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, final

from chat_core import AnyChat, Wait
from chat_core.approvals import MayDecide, Principal, is_allowed
from chat_core.errors import ConflictError, IllegalTransitionError, InvalidDocumentError, UsageError
from chat_core.messages import Messages, Tool
from chat_core.tools import ToolDefinition
from chat_store import ConversationStore, Snapshot, UnknownConversationError, Waiting

from chat_inbox.background_runs import BackgroundRuns
from chat_inbox.http_errors import HTTPError
from chat_inbox.tool_calls import compute_version, format_conflict, possible_actions, waits_for
from chat_inbox.tool_definitions import find_argument_errors, find_definition, resolve_names

Action: TypeAlias = Literal["approve", "reject", "retry", "fail", "complete"]
Authorize: TypeAlias = Callable[[str, str | None], bool]
"""A function that returns whether a person may see a conversation and decide its calls.

The arguments are the name of the person and the name of the person in charge of the conversation, if any.
"""
MaySee: TypeAlias = Callable[[Principal, Snapshot], bool]
"""A function that returns whether a person may see a stored conversation."""


def see_all(_person: Principal, _snapshot: Snapshot, /) -> bool:
    """Return True, so that `Authorize` alone determines who may see a conversation."""
    return True


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """A decision that an approver submits for one call.

    Attributes:
        action: the decision, such as `approve`.
        arguments: arguments that replace those of the call, for `approve`.
        text: reason of `reject`, or error message of `fail`.
        note: note for the audit trail; the model does not see it.
        result: result of the call, for `complete`.
    """

    action: Action
    arguments: Mapping[str, object] | None = None
    text: str | None = None
    note: str | None = None
    result: object = None

    def apply(self, tool: Tool, by: str, at: datetime) -> None:
        """Apply the decision to a call in memory, without storing it.

        Args:
            tool: call to decide.
            by: name of the approver.
            at: time of the decision.

        Raises:
            IllegalTransitionError: the status of the call does not allow this action.
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
    """A service with which authenticated people read stored conversations and decide their tool calls.

    Args:
        store: store of the conversations.
        find_chat: function that returns the chat for a conversation id, or None if this process has no such chat.
        authorize: function that decides whether a person may access a conversation.
        may_decide: function that decides whether a person may decide a call.
        now: clock that returns aware datetimes.
        may_see: further condition for access to a conversation, in addition to `authorize`.
    """

    def __init__(
        self,
        store: ConversationStore,
        find_chat: Callable[[str], AnyChat | None],
        authorize: Authorize,
        may_decide: MayDecide,
        now: Callable[[], datetime],
        *,
        may_see: MaySee = see_all,
    ) -> None:
        self.store = store
        self.now = now
        self.runs: BackgroundRuns = BackgroundRuns(store, find_chat)
        self._find_chat = find_chat
        self._authorize = authorize
        self._may_decide = may_decide
        self._may_see = may_see

    # --- Reading --------------------------------------------------------------------------------------------------

    async def waiting(self, person: Principal, limit: int | None = None) -> list[Waiting]:
        """Return the waiting calls that a person may see and decide, earliest deadline first.

        Args:
            person: the person who asks for the list.
            limit: maximum number of calls; None returns all.
        """
        found = [
            item
            for item in await self.store.waiting()
            if self._authorize(person.name, item.person) and is_allowed(self._may_decide, person, item.wait)
        ]
        return found[:limit]

    async def snapshot(self, person: Principal, conversation: str) -> Snapshot:
        """Load a conversation that the person may see from the store.

        Args:
            person: the person who asks for the conversation.
            conversation: id of the conversation.

        Raises:
            HTTPError: the conversation does not exist, cannot be read, or is not visible to `person`.
        """
        try:
            snapshot = await self.store.load(conversation)
        except (UnknownConversationError, UsageError):
            snapshot = None
        except InvalidDocumentError as error:
            raise HTTPError(500, f"The conversation cannot be read: {error}.") from error
        if snapshot is None or not (self._authorize(person.name, snapshot.person) and self._may_see(person, snapshot)):
            raise HTTPError(404, "There is no such conversation: it was deleted, or you may not see it.")
        return snapshot

    def find_call(self, snapshot: Snapshot, path: tuple[str, ...]) -> Tool:
        """Return the call at a path in a conversation.

        Args:
            snapshot: conversation that contains the call.
            path: call ids, from the outermost call to this one.

        Raises:
            HTTPError: there is no such call.
        """
        try:
            return snapshot.messages.tool(*path)
        except (KeyError, TypeError):
            raise HTTPError(404, "There is no such call in this conversation: load the page again.") from None

    def may_decide(self, person: Principal, snapshot: Snapshot, path: tuple[str, ...], tool: Tool) -> bool:
        """Return whether a person may decide a call, under the application's rule and the chat's policy.

        Args:
            person: the person who wants to decide the call.
            snapshot: conversation that contains the call.
            path: call ids, from the outermost call to this one.
            tool: the call.
        """
        wait = Wait.from_tool(tool, path, conversation=snapshot.id, owner=snapshot.owner)
        return is_allowed(self._may_decide, person, wait)

    def require_allowed(self, person: Principal | None, snapshot: Snapshot, path: tuple[str, ...]) -> None:
        """Raise an error if a person may not decide a call.

        Args:
            person: the person, or None for the holder of an approval link without a name. The application has chosen
                the holder, who decides every call except those that `RequireApproval(of=...)` reserves.
            snapshot: conversation that contains the call.
            path: call ids, from the outermost call to this one.

        Raises:
            HTTPError: the rule of the application, or the policy of the chat, does not allow it.
        """
        tool = self.find_call(snapshot, path)
        wait = Wait.from_tool(tool, path, conversation=snapshot.id, owner=snapshot.owner)
        allowed = wait.of is None if person is None else is_allowed(self._may_decide, person, wait)
        if not allowed:
            raise HTTPError(403, f"You are not allowed to decide on the call to {tool.name}; nothing was changed.")

    def require_current(self, tool: Tool, version: str) -> None:
        """Raise an error if a call is no longer in the state that the person saw.

        Args:
            tool: the stored call.
            version: version of the call that the person's page showed.

        Raises:
            HTTPError: the versions differ. The message names the person who made the other decision, if any.
        """
        if compute_version(tool) != version:
            raise HTTPError(409, format_conflict(tool))

    def tool_definition(self, conversation: str, messages: Messages, path: tuple[str, ...]) -> ToolDefinition | None:
        """Return the definition of the tool that was called, or None if this process does not have the chat or tool.

        Args:
            conversation: id of the conversation.
            messages: history of the conversation.
            path: call ids, from the outermost call to this one.
        """
        return find_definition(self._find_chat(conversation), resolve_names(messages, path))

    async def is_due(self, snapshot: Snapshot) -> bool:
        """Return whether the conversation can be continued now and has no active run in any process."""
        if self.runs.channel(snapshot.id).running:
            return False
        return any(item.conversation == snapshot.id for item in await self.store.due(person=snapshot.person))

    # --- Deciding -------------------------------------------------------------------------------------------------

    async def decide(
        self,
        person: Principal,
        conversation: str,
        path: tuple[str, ...],
        version: str,
        choice: Choice,
        *,
        resume: bool = True,
    ) -> Snapshot:
        """Store a decision and resume the conversation.

        The decision is stored when this method returns. The run continues in the background.

        Args:
            person: the approver.
            conversation: id of the conversation.
            path: call ids, from the outermost call to this one.
            version: version of the call that the approver saw. If the call has changed since, nothing is stored.
            choice: the decision.
            resume: whether to start a run; otherwise a worker resumes the conversation.

        Returns:
            The conversation as it is stored after the decision.

        Raises:
            HTTPError: 403 if the person may not decide. 409 if the call has changed or its status does not allow the
                action. 422 if the tool rejects the edited arguments.
            UsageError: `resume` is true, but the inbox is not open. Nothing is stored.
        """
        snapshot = await self.snapshot(person, conversation)
        tool = self.find_call(snapshot, path)
        self.require_allowed(person, snapshot, path)
        self.require_current(tool, version)
        if choice.action not in possible_actions(tool):
            deferred = waits_for(tool) == "result"
            reason = "waits for its result" if deferred else "was not interrupted; approve or reject it"
            raise HTTPError(409, f"This cannot be done: {tool.name} {reason}.")
        if choice.arguments is not None:
            self._check_arguments(snapshot, path, choice.arguments)
        if resume:
            self.runs.require_open(conversation)
        try:
            choice.apply(tool, person.name, self.now())
            saved = await self.store.save(conversation, snapshot.messages, revision=snapshot.revision)
        except IllegalTransitionError as error:
            raise HTTPError(409, f"This cannot be done: {error}.") from error
        except ConflictError as error:
            tool = self.find_call(await self.snapshot(person, conversation), path)
            changed = compute_version(tool) != version
            raise HTTPError(409, format_conflict(tool) if changed else f"Nothing was changed: {error}.") from error
        except UsageError as error:
            raise HTTPError(422, f"{error}") from error
        self.runs.list_channel.publish("changed")
        self.runs.channel(conversation).publish("changed")
        if resume:
            self.runs.start(conversation)
        return saved

    def _check_arguments(self, snapshot: Snapshot, path: tuple[str, ...], arguments: Mapping[str, object]) -> None:
        """Raise an error if the tool rejects edited arguments. If the tool is unknown, accept all arguments."""
        definition = self.tool_definition(snapshot.id, snapshot.messages, path)
        if definition is not None and (errors := find_argument_errors(definition, arguments)):
            raise HTTPError(422, "The tool does not accept these arguments; nothing was decided.", errors=errors)

    async def resume(self, person: Principal, conversation: str) -> None:
        """Start a run that continues a conversation.

        Args:
            person: the person who asks for the run.
            conversation: id of the conversation.

        Raises:
            HTTPError: the conversation does not exist, is not visible to `person`, or has no chat in this process.
        """
        await self.snapshot(person, conversation)
        if not self.runs.start(conversation):
            raise HTTPError(409, "This inbox cannot continue the conversation: a worker of the application does that.")

    async def store_cursor(self) -> str:
        """Return the store's current change cursor. Data read after this call is at least as new as the cursor."""
        return (await self.store.changes()).cursor
