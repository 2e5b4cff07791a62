"""The input of front ends, and its application to a stored conversation.

The stored conversation is authoritative. Only new user messages, results of waiting calls, and decisions are accepted
from a client. A request is refused if a posted message differs from the stored message. Messages of models, systems and
tools are never accepted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, final

from chat_core import AnyChat, Chat
from chat_core.arguments import require_text, require_type
from chat_core.errors import UsageError
from chat_core.json import dumps
from chat_core.messages import Completed, Content, Failed, File, Messages, Part, Text, Tool, Turn
from chat_core.response import Wait, WaitKind
from chat_core.tools import InvalidArgumentsError

from chat_streams.client_texts import outcome_text
from chat_streams.errors import ClientInputError
from chat_streams.open_waits import Decider, StoredMessages, all_waits, is_expired, messages_of, tool_of_key, wait_key
from chat_streams.shown_messages import ID_PREFIX, ShownMessage, ShownRole, shown_messages

DecisionAction: TypeAlias = Literal["approve", "reject", "cancel", "retry", "complete", "fail"]

_ALLOWED: dict[WaitKind, frozenset[DecisionAction]] = {
    "approval": frozenset({"approve", "reject", "cancel"}),
    "schedule": frozenset({"approve", "reject", "cancel"}),
    "result": frozenset({"complete", "fail", "reject", "cancel"}),
    "interrupted": frozenset({"retry", "complete", "fail", "cancel"}),
}
_INTERRUPTED: dict[DecisionAction, DecisionAction] = {"approve": "retry", "reject": "cancel"}


@final
@dataclass(frozen=True, slots=True)
class PostedCall:
    """Tool call in a model message that the client posted.

    Attributes:
        id: id of the call.
        name: name of the tool.
        arguments: the arguments, as JSON text or as an object.
    """

    id: str
    name: str
    arguments: str | Mapping[str, object]


@final
@dataclass(frozen=True, slots=True)
class PostedMessage:
    """Message from a user or a model in a posted history.

    Attributes:
        id: id of the message.
        role: `"user"` or `"model"`. Messages of other roles are left out.
        parts: parts of a user message, which are stored if the message is new, or the text of a model message.
        calls: the tool calls in a model message.
    """

    id: str
    role: ShownRole
    parts: tuple[Part, ...] = ()
    calls: tuple[PostedCall, ...] = ()

    @property
    def text(self) -> str:
        """Concatenated text of the message."""
        return _join_texts(self.parts)


@final
@dataclass(frozen=True, slots=True)
class PostedResult:
    """Result of a tool call in a posted history. The client executed the call, or received the result earlier.

    Attributes:
        tool_id: id of the call.
        result: the result, as JSON.
        error: description of the failure, if the call failed.
    """

    tool_id: str
    result: object
    error: str | None = None


@final
@dataclass(frozen=True, slots=True)
class PostedDecision:
    """The client's decision about one waiting call.

    Attributes:
        key: key of the call, from `wait_key()`.
        action: name of the decision.
        arguments: arguments that replace those of the model, for `"approve"`.
        text: reason of `"reject"` and `"cancel"`, or the error of `"fail"`.
        result: result of the call, for `"complete"`.
        shown: the arguments that the client showed. If the call has other arguments, the decision is refused.
    """

    key: str
    action: DecisionAction
    arguments: Mapping[str, object] | None = None
    text: str | None = None
    result: object = None
    shown: Mapping[str, object] | None = None


@final
@dataclass(frozen=True, slots=True)
class ClientInput:
    """The parts of a front end's request that can change a conversation.

    Attributes:
        messages: the posted history, oldest first, without messages of systems and tools.
        results: the posted results of tool calls.
        decisions: the posted decisions.
        client_tools: tools that the client runs, see `ClientTools`. They are stored with the new user message.
        state: change of the conversation's state. It is stored with the new user message if the client has all
            messages. Otherwise, it could undo a change that the client has not seen.
    """

    messages: Sequence[PostedMessage] = ()
    results: Sequence[PostedResult] = ()
    decisions: Sequence[PostedDecision] = ()
    client_tools: Sequence[Mapping[str, object]] = ()
    state: Mapping[str, object] | None = None


@final
@dataclass(frozen=True, slots=True)
class AppliedInput:
    """The changes that a request made to a conversation.

    Attributes:
        new_messages: number of user messages that were appended.
        decided: number of calls that were decided or received their result.
        up_to_date: whether the posted history has every message and every result that the conversation had before the
            request. Otherwise, the client needs the stored messages.
    """

    new_messages: int
    decided: int
    up_to_date: bool


def require_input(target: Messages | StoredMessages, /) -> None:
    """Raise an error if a conversation is still empty after a request was applied.

    Args:
        target: the conversation.

    Raises:
        ClientInputError: the conversation has no messages.
    """
    if not messages_of(target).contents:
        raise ClientInputError("invalid_request", "This conversation has no messages yet: send a user message.")


def conversation_id(owner: str, kind: str, client_id: str, /) -> str:
    """Return the id of the stored conversation for an id that a client chose.

    Two owners who use the same client id get different conversations, so an id gives no access to the conversation of
    another owner.

    Args:
        owner: name of the authenticated user.
        kind: the protocol, such as `"agui"`.
        client_id: id that the client chose, such as an AG-UI thread id.
    """
    require_text(owner=owner, kind=kind, client_id=client_id)
    digest = hashlib.sha256(dumps([owner, kind, client_id]).encode(errors="surrogatepass")).hexdigest()
    return f"{kind}-{digest[:40]}"


def apply_input(
    given: ClientInput,
    target: Messages | StoredMessages,
    /,
    *,
    chat: AnyChat,
    decider: Decider,
    join_model_turns: bool = False,
) -> AppliedInput:
    """Apply a front end's request to a conversation. Either the whole request is applied, or nothing.

    Args:
        given: the request.
        target: the conversation, which the caller stores or passes to a run of `chat`.
        chat: the chat that continues the conversation. It validates edited arguments and client tools.
        decider: the authenticated person who sends the request.
        join_model_turns: whether the protocol shows consecutive model turns as one message.

    Raises:
        ClientInputError: the request is malformed, contradicts the stored conversation, or decides a call that the
            person may not decide. Nothing was changed.
    """
    messages = messages_of(target)
    require_type("given", given, ClientInput, "a ClientInput")
    if messages.busy:
        raise ClientInputError("conflict", "A run of this conversation is active. Wait until it has ended.")
    shown = shown_messages(messages, join_model_turns=join_model_turns)
    # A client keeps a blank message that was refused, and sends it again with all later ones.
    new = _check_history([item for item in given.messages if item is given.messages[-1] or not _is_blank(item)], shown)
    up_to_date = _has_all_stored_parts(given, shown)
    decisions = _Decisions(target, chat, decider)
    for posted in given.results:
        decisions.add_result(posted)
    for decision in given.decisions:
        decisions.add_decision(decision)
    turns = _create_turns(new, given, given.state if up_to_date else None)
    if turns:
        _require_nothing_waits(messages, decisions)
        _check_client_tools(chat, turns)
    decisions.apply()
    if turns:
        messages.push(Content("user", turns))
    return AppliedInput(len(turns), len(decisions.checked), up_to_date)


def fit_interrupted_calls(
    decisions: Sequence[PostedDecision], target: Messages | StoredMessages, /
) -> list[PostedDecision]:
    """Convert decisions about interrupted calls: an approval repeats the call, and a rejection cancels it.

    Args:
        decisions: decisions of a protocol that has only `"approve"` and `"reject"`.
        target: the conversation.
    """
    messages = messages_of(target)
    kinds = {wait_key(messages, wait): wait.kind for wait in all_waits(target)}
    fitting: list[PostedDecision] = []
    for decision in decisions:
        tool = tool_of_key(messages, decision.key)
        last = tool.decisions[-1].action if tool is not None and tool.decisions else None
        kind = kinds.get(decision.key)
        # If the call does not wait, it was decided already, and the client may have repeated its decision.
        is_interrupted = last in {"retry", "cancel"} if kind is None else kind == "interrupted"
        action = _INTERRUPTED.get(decision.action) if is_interrupted else None
        fitting.append(decision if action is None else replace(decision, action=action))
    return fitting


# --- The posted history ---------------------------------------------------------------------------------------------


def _check_history(posted: Sequence[PostedMessage], shown: Sequence[ShownMessage]) -> list[PostedMessage]:
    """Return the new user messages. Raise an error if the posted history differs from the stored history."""
    ids = [message.id for message in posted]
    if not all(ids) or len({*ids}) < len(ids):
        raise ClientInputError("invalid_request", "Each message needs a nonempty, unique id.")
    places = {message.id: index for index, message in enumerate(shown)}
    known = [index for index, id in enumerate(ids) if id in places]
    stored = [places[ids[index]] for index in known]
    if stored != sorted(stored):
        raise ClientInputError("conflict", "The messages are not in their stored order. Load the conversation again.")
    for index, place in zip(known, stored, strict=True):
        if not _is_same(posted[index], shown[place]):
            raise ClientInputError("conflict", f"Message {ids[index]!r} was changed. Load the conversation again.")
    first_new = known[-1] + 1 if known else 0
    for index, message in enumerate(posted):
        # After a broken connection, a client has the beginning of an answer that was never stored.
        is_unfinished = bool(known) and index >= first_new and message.role == "model"
        if message.id not in places and (index < first_new or (message.role == "model" and not is_unfinished)):
            msg = f"Message {message.id!r} is not part of this conversation. Load the conversation again."
            raise ClientInputError("conflict", msg)
    return [message for message in posted[first_new:] if message.role == "user"]


def _is_blank(posted: PostedMessage) -> bool:
    return posted.role == "user" and all(isinstance(part, Text) and not part.text.strip() for part in posted.parts)


def _is_same(posted: PostedMessage, shown: ShownMessage) -> bool:
    """Return whether a posted message equals the stored message, or equals the beginning of a stored model message."""
    if posted.role != shown.role:
        return False
    if shown.role == "user":
        return posted.text == shown.text and _list_files(posted.parts) == _list_files(shown.parts)
    stored = {tool.id: tool for tool in shown.tools}
    return shown.text.startswith(posted.text) and all(
        call.id in stored and call.name == stored[call.id].name and _has_arguments(stored[call.id], call.arguments)
        for call in posted.calls
    )


def _has_all_stored_parts(given: ClientInput, shown: Sequence[ShownMessage]) -> bool:
    """Return whether the posted history contains every stored message completely, and no unknown model message."""
    posted = {message.id: message for message in given.messages}
    stored_ids = {message.id for message in shown}
    if any(message.role == "model" and message.id not in stored_ids for message in given.messages):
        return False
    results = {result.tool_id for result in given.results}
    return all(
        message.id in posted
        and posted[message.id].text == message.text
        and len(posted[message.id].calls) == len(message.tools)
        and all(tool.id in results for tool in message.tools if tool.resolved)
        for message in shown
    )


def _has_arguments(tool: Tool, arguments: str | Mapping[str, object]) -> bool:
    if isinstance(arguments, str):
        return tool.call.text.startswith(arguments)
    return arguments in (tool.call.arguments, tool.effective_arguments)


def _join_texts(parts: Sequence[Part]) -> str:
    return "".join([part.text for part in parts if isinstance(part, Text)])


def _list_files(parts: Sequence[Part]) -> list[tuple[str, bytes | None, str | None]]:
    return [(part.mime, part.data, part.url) for part in parts if isinstance(part, File)]


# --- New messages ---------------------------------------------------------------------------------------------------


def _create_turns(new: Sequence[PostedMessage], given: ClientInput, state: Mapping[str, object] | None) -> list[Turn]:
    turns: list[Turn] = []
    for index, message in enumerate(new):
        if message.id.startswith(ID_PREFIX):
            raise ClientInputError("invalid_request", f"The id of a new message must not begin with {ID_PREFIX!r}.")
        is_last = index == len(new) - 1
        if _is_blank(message):
            raise ClientInputError("invalid_request", f"Message {message.id!r} is empty.")
        try:
            turn = Turn(
                message.parts,
                client_id=message.id,
                state=state if is_last else None,
                client_tools=given.client_tools if is_last else (),
            )
        except UsageError as error:
            raise ClientInputError("invalid_request", f"The request cannot be stored: {error}") from error
        turns.append(turn)
    return turns


def _require_nothing_waits(messages: Messages, decisions: _Decisions) -> None:
    ended = {id(tool) for tool in decisions.ended}
    if any(id(tool) not in ended for tool in messages.pending()):
        msg = (
            "Tool calls are waiting or unfinished. Continue the conversation without a new message, decide the calls, "
            "and send the message when the run has ended."
        )
        raise ClientInputError("conflict", msg)


def _check_client_tools(chat: AnyChat, turns: Sequence[Turn]) -> None:
    try:
        chat.tools.for_messages(Messages([Content("user", turns[-1:])]))
    except UsageError as error:
        raise ClientInputError("invalid_request", f"The tools of the client cannot be used: {error}") from error


# --- Decisions and results --------------------------------------------------------------------------------------------


def _is_result_of(tool: Tool, posted: PostedResult) -> bool:
    text = outcome_text(tool)
    if isinstance(tool.status, Completed):
        return posted.error is None and posted.result in (text, tool.status.result)
    errors = (None, text, tool.status.error) if isinstance(tool.status, Failed) else (None, text)
    return posted.error in errors and (posted.result in (None, text) or posted.error is not None)


@final
class _Decisions:
    """The decisions of one request. All decisions are checked before the first one is applied.

    Attributes:
        checked: the calls to decide, each with its decision.
    """

    def __init__(self, target: Messages | StoredMessages, chat: AnyChat, decider: Decider) -> None:
        self._messages = messages_of(target)
        require_type("chat", chat, Chat, "a chat")
        require_type("decider", decider, Decider, "a Decider")
        self._chat = chat
        self._decider = decider
        self._now = decider.now()
        self._waits = {wait_key(self._messages, wait): wait for wait in all_waits(target)}
        self.checked: list[tuple[Tool, PostedDecision]] = []

    @property
    def ended(self) -> list[Tool]:
        """The calls that the decisions resolved without an execution."""
        return [tool for tool, decision in self.checked if decision.action not in {"approve", "retry"}]

    def add_result(self, posted: PostedResult) -> None:
        """Check a posted result. The result of a resolved call must equal the stored result."""
        try:
            tool = self._messages.tool(posted.tool_id)
        except KeyError:
            msg = f"This conversation has no call {posted.tool_id!r}. Load the conversation again."
            raise ClientInputError("conflict", msg) from None
        if tool.resolved:
            if not _is_result_of(tool, posted):
                msg = f"The result of {tool.name!r} differs from the stored result. Load the conversation again."
                raise ClientInputError("conflict", msg)
            return
        waits = [wait for wait in self._waits.values() if wait.path == (tool.id,) and wait.kind == "result"]
        if not waits:
            msg = f"{tool.name!r} is not waiting for a result from the client. Load the conversation again."
            raise ClientInputError("conflict", msg)
        action: DecisionAction = "complete" if posted.error is None else "fail"
        self._add_decision(tool, waits[0], PostedDecision("", action, text=posted.error, result=posted.result))

    def add_decision(self, decision: PostedDecision) -> None:
        """Check a decision. A decision that equals the recorded decision is ignored."""
        tool = tool_of_key(self._messages, decision.key)
        if tool is None:
            raise ClientInputError(
                "conflict", f"This conversation has no waiting call {decision.key!r}. Load the conversation again."
            )
        wait = self._waits.get(decision.key)
        if wait is not None:
            self._add_decision(tool, wait, decision)
        elif not self._is_recorded(tool, decision):
            msg = f"{tool.name!r} was decided already or has changed. Load the conversation again."
            raise ClientInputError("conflict", msg)

    def _add_decision(self, tool: Tool, wait: Wait, decision: PostedDecision) -> None:
        if not self._decider.may(wait):
            raise ClientInputError("forbidden", f"You are not allowed to decide on the call to {tool.name!r}.")
        if decision.shown is not None and decision.shown != wait.arguments:
            msg = (
                f"The arguments of {tool.name!r} differ from those shown. Load the conversation again. Send an edit in "
                "its own field, such as edited_arguments."
            )
            raise ClientInputError("conflict", msg)
        if any(tool is other for other, _ in self.checked):
            raise ClientInputError(
                "invalid_request", f"The request contains two decisions for the same call to {tool.name!r}."
            )
        if is_expired(wait, self._now) and decision.action not in {"cancel", "reject"}:
            msg = (
                f"The deadline for a decision on the call to {tool.name!r} has passed. The call can still be cancelled."
            )
            raise ClientInputError("conflict", msg)
        if decision.action not in _ALLOWED[wait.kind]:
            msg = f"{tool.name!r} waits for {wait.kind!r}, so the action {decision.action!r} is not allowed."
            raise ClientInputError("conflict", msg)
        if decision.arguments is not None:
            if decision.action != "approve":
                raise ClientInputError("invalid_request", "Only an approval can replace the arguments of a call.")
            self._check_arguments(wait, decision.arguments)
        self.checked.append((tool, decision))

    def _check_arguments(self, wait: Wait, arguments: Mapping[str, object]) -> None:
        names = [self._messages.tool(*wait.path[:end]).name for end in range(1, len(wait.path) + 1)]
        definition = self._chat.tools.definition(*names)
        if definition is None:
            return
        try:
            definition.validate(arguments)
        except InvalidArgumentsError as error:
            msg = f"{wait.name!r} does not accept these arguments: {error}"
            raise ClientInputError("invalid_request", msg) from error

    def _is_recorded(self, tool: Tool, decision: PostedDecision) -> bool:
        if not tool.decisions or tool.decisions[-1].by != self._decider.principal.name:
            return False
        last = tool.decisions[-1]
        return (
            last.action == decision.action
            and last.arguments == decision.arguments
            and (
                decision.action != "complete"
                or (isinstance(tool.status, Completed) and tool.status.result == decision.result)
            )
        )

    def apply(self) -> None:
        """Record all decisions under the name of the authenticated person."""
        by = self._decider.principal.name
        for tool, decision in self.checked:
            match decision.action:
                case "approve":
                    tool.approve(arguments=decision.arguments, by=by, at=self._now)
                case "reject":
                    tool.reject(decision.text, by=by, at=self._now)
                case "cancel":
                    tool.cancel(decision.text, by=by, at=self._now)
                case "retry":
                    tool.retry(by=by, at=self._now)
                case "complete":
                    tool.complete(decision.result, by=by, at=self._now)
                case "fail":
                    tool.fail(decision.text or "The client reported a failure.", by=by, at=self._now)
