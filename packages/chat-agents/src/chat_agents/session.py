"""`AgentSession`, a conversation of a user with an agent, stored or in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Final, cast, final
from uuid import uuid4

from chat_core import ChatError, ConversationBusyError, InvalidDocumentError, Messages, NewerVersionError, UsageError
from chat_core.arguments import argument_error, require_name, require_type
from chat_core.json import dump_bytes, dumps, loads
from chat_store import (
    ConversationClosedError,
    ConversationExistsError,
    ConversationMeta,
    ConversationStore,
    MetaChanges,
    OpenConversation,
    UnknownConversationError,
)

from chat_agents.handoff import flow_after_handoffs
from chat_agents.usage import Imported, SessionUsage

VERSION: Final = 1
_IMPORTED: Final = "imported"
_COPIED: Final = "chat_agents"
"""Key in a stored session's application data. Its value contains the fields that the session had before `copy_to()`."""
_FIELDS: Final = frozenset({"version", "id", "flow", "owner", "created_at", "last_active", _IMPORTED, "messages"})


@final
class AgentSession:
    """A conversation of a user with an agent.

    `AgentSession(flow=…)` is in memory: the application stores `to_json()`, which is valid at any time, even during a
    run. `await AgentSession.open(store, …)` is stored: each step of a run is durable before the next step begins.
    Titles, lists, closing and deletion of stored sessions are methods of the store.

    Attributes:
        id: id of the session. For a stored session, also the id of its conversation.
        flow: name of the flow with which the session was opened.
        owner: the user who owns the session, if known.
        created_at: when the session was created.
        last_active: when the last run ended or, in a store, when something was last stored.
        extra: fields of the session document that this version does not know.
    """

    def __init__(
        self,
        id: str | None = None,
        *,
        flow: str,
        owner: str | None = None,
        state: Mapping[str, object] | None = None,
        messages: Messages | None = None,
    ) -> None:
        """Create a session in memory.

        Args:
            id: id of the session. Default: a random id.
            flow: name of the flow that runs the session.
            owner: the user who owns the session.
            state: initial state of the conversation, a JSON object. Tools change it, and models do not receive it.
            messages: the conversation so far. It is not copied.

        Raises:
            UsageError: the id, the owner or the name of the flow is empty or not a text, `messages` is not a
                `Messages`, or both `state` and `messages` are given.
        """
        if not isinstance(flow, str) or not flow.strip():
            msg = f"a session needs the name of its flow, such as flow='support', not {flow!r}"
            raise UsageError(msg)
        if id is not None:
            require_name("id", id)
        if owner is not None:
            require_name("owner", owner)
        if messages is not None:
            require_type("messages", messages, Messages, "a Messages, such as Messages.from_user('Hello')")
        if state is not None and messages is not None:
            msg = "AgentSession() takes a state or messages, which contain their state, not both"
            raise UsageError(msg)
        self.id: str = uuid4().hex if id is None else id
        self.flow: str = flow
        self.owner: str | None = owner
        self.created_at: datetime = datetime.now(UTC)
        self.last_active: datetime = self.created_at
        self.extra: Mapping[str, object] = {}
        self._messages = Messages(state=state) if messages is None else messages
        self._imported = Imported()
        self._store: ConversationStore | None = None
        self._is_reserved = False

    def __repr__(self) -> str:
        return f"AgentSession({self.id!r}, flow={self.flow!r})"

    @property
    def messages(self) -> Messages:
        """The conversation. For a stored session, this is the state after the last run or `edit()` block.

        To decide waiting calls, use `edit()`.
        """
        return self._messages

    @property
    def current_flow(self) -> str:
        """Name of the flow that answers the next message: `flow`, or the flow of the last `Handoff`."""
        return flow_after_handoffs(self._messages) or self.flow

    @property
    def state(self) -> Mapping[str, object]:
        """State of the conversation, a read-only JSON object that tools change by `ToolOutput(state=…)`."""
        return self._messages.state

    @property
    def usage(self) -> SessionUsage:
        """Tokens that the session has used, by model, including failed requests and summaries."""
        return self._imported.usage + SessionUsage.of(self._messages, self._imported.turns)

    def set_imported_usage(self, usage: SessionUsage) -> None:
        """Set the token usage that another library recorded for the existing turns. Importers call this method.

        Args:
            usage: the recorded usage.
        """
        self._imported = Imported(usage, sum([len(content.turns) for content in self._messages]))

    # --- Stored sessions --------------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        store: ConversationStore,
        id: str | None = None,
        *,
        flow: str,
        owner: str | None = None,
        state: Mapping[str, object] | None = None,
    ) -> AgentSession:
        """Return a stored session, and create it if no conversation with this id is stored.

        Args:
            store: store of the session. The caller closes it.
            id: id of the session. Default: a new session with a random id.
            flow: name of the flow with which the session was opened, or to which it was handed over.
            owner: the user who owns the session.
            state: initial state of a new session.

        Raises:
            UsageError: the stored session belongs to another flow or another owner, or an argument is not valid.
            InvalidDocumentError: the stored session cannot be read.
        """
        _require_store(store)
        session = cls(id, flow=flow, owner=owner, state=state)
        session._store = store
        try:
            meta = await store.meta(session.id)
        except UnknownConversationError:
            meta = await session._create_conversation(store)
        if owner is not None and meta.owner != owner:
            msg = f"the session {session.id!r} belongs to another owner than {owner!r}"
            raise UsageError(msg)
        session._read_meta(meta)
        session._messages = (await store.load(session.id)).messages
        if flow not in {meta.flow, session.current_flow}:
            msg = f"the session {session.id!r} belongs to the flow {session.current_flow!r}, not to {flow!r}"
            raise UsageError(msg)
        return session

    async def _create_conversation(self, store: ConversationStore) -> ConversationMeta:
        with suppress(ConversationExistsError):  # another process may have created it in the meantime
            await store.create(self._messages, id=self.id, owner=self.owner, meta={"flow": self.flow})
        return await store.meta(self.id)

    async def copy_to(self, store: ConversationStore) -> AgentSession:
        """Store a copy of this session as a new conversation with the same id, and return the stored session.

        The copy keeps `created_at` and `extra`. Its `last_active` is the time of the copy.

        Args:
            store: the store that receives the copy.

        Raises:
            ConversationExistsError: a conversation with this id is stored already.
        """
        _require_store(store)
        copied: dict[str, object] = {"created_at": self.created_at.isoformat(), "extra": dict(self.extra)}
        data: dict[str, object] = {_COPIED: copied}
        if self._imported.turns:
            data[_IMPORTED] = self._imported.to_dict()
        meta: MetaChanges = {"flow": self.flow, "data": data}
        await store.create(self._messages, id=self.id, owner=self.owner, meta=meta)
        return await AgentSession.open(store, self.id, flow=self.flow)

    def _read_meta(self, meta: ConversationMeta) -> None:
        self.flow = meta.flow or self.flow
        self.owner = meta.owner
        self.created_at = meta.created_at or self.created_at
        self.last_active = meta.last_active or self.last_active
        if _IMPORTED in meta.data:
            self._imported = Imported.from_dict(meta.data[_IMPORTED])
        copied = meta.data.get(_COPIED)
        if isinstance(copied, Mapping):
            fields = cast("Mapping[str, object]", copied)
            self.created_at = read_time(fields, "created_at")
            self.extra = cast("Mapping[str, object]", fields.get("extra", {}))

    @asynccontextmanager
    async def edit(self) -> AsyncGenerator[Messages]:
        """Open the conversation to decide its waiting calls. If the block succeeds, the changes are stored.

        If the block raises, the changes to a stored session are discarded. A session in memory keeps them.

        Raises:
            ConversationBusyError: a run of this object is active.
            ConversationClosedError: the session is closed.
            ConflictError: another process has decided a call or added turns. Nothing was stored.
            UnknownConversationError: the session was deleted.
        """
        with self.reserve("edit()"):
            async with self.conversation() as target:
                yield target if isinstance(target, Messages) else target.messages

    # --- For runs ----------------------------------------------------------------------------------------------

    @contextmanager
    def reserve(self, operation: str = "a second run") -> Generator[None]:
        """Mark the session as in use until the block exits, so that no other operation changes it.

        The engine calls this.

        Args:
            operation: what the block does, for the error message.

        Raises:
            ConversationBusyError: a run or an `edit()` block uses the session.
        """
        if self._is_reserved:
            msg = f"{operation} is not possible while the session {self.id!r} is in use: wait for its run to end"
            raise ConversationBusyError(msg)
        self._is_reserved = True
        try:
            yield
        finally:
            self._is_reserved = False

    @asynccontextmanager
    async def conversation(self) -> AsyncGenerator[Messages | OpenConversation]:
        """Open the conversation for a run.

        The changes to a stored conversation are saved if the block succeeds. The engine calls this.

        Raises:
            ConversationClosedError: the session is closed.
            UnknownConversationError: the session was deleted.
        """
        store = self._store
        if store is None:
            yield self._messages
            return
        meta = await store.meta(self.id)
        self._read_meta(meta)
        if meta.state == "closed":
            msg = f"the session {self.id!r} is closed: call reopen() of the store first"
            raise ConversationClosedError(msg)
        before = self._messages
        async with store.open(self.id) as conversation:
            self._messages, revision = conversation.messages, conversation.revision
            try:
                yield conversation
            except BaseException as error:
                if conversation.revision == revision:  # nothing of the block is stored
                    self._messages = before
                elif isinstance(error, Exception):  # the last changes may not be stored
                    with suppress(ChatError, OSError):
                        self._messages = (await store.load(self.id)).messages
                raise

    def touch(self) -> None:
        """Set `last_active` to the current time. The engine calls this method."""
        self.last_active = datetime.now(UTC)

    # --- Documents -----------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the session and its conversation as a JSON document of version 1.

        May be called at any time, even during a run.
        """
        messages = cast("dict[str, object]", loads(self._messages.to_json()))
        fields: dict[str, object] = {
            **self.extra,
            "version": VERSION,
            "id": self.id,
            "flow": self.flow,
            "owner": self.owner,
            "created_at": self.created_at.isoformat(),
            "last_active": self.last_active.isoformat(),
            _IMPORTED: self._imported.to_dict() if self._imported.turns else None,
            "messages": messages,
        }
        return dumps({name: value for name, value in fields.items() if value is not None or name in self.extra})

    @classmethod
    def from_json(cls, document: str | bytes) -> AgentSession:
        """Read a session in memory from a document written by `to_json()`.

        Raises:
            InvalidDocumentError: the document is malformed.
            NewerVersionError: a later version of this library wrote the document.
        """
        fields = read_object(document)
        _require_version(fields)
        session = cls(
            read_text(fields, "id"),
            flow=read_text(fields, "flow"),
            owner=read_text(fields, "owner") if "owner" in fields else None,
            messages=Messages.from_json(dump_bytes(fields.get("messages"))),
        )
        session.created_at = read_time(fields, "created_at")
        session.last_active = read_time(fields, "last_active")
        session.extra = {name: value for name, value in fields.items() if name not in _FIELDS}
        if _IMPORTED in fields:
            session._imported = Imported.from_dict(fields[_IMPORTED])
        return session


def _require_store(store: object) -> None:
    if not isinstance(store, ConversationStore):
        raise argument_error("store", "a store of conversations, such as SqliteStore('chats.db')", store)


def read_object(document: str | bytes) -> dict[str, object]:
    """Parse a document that must be a JSON object.

    Raises:
        InvalidDocumentError: the document is not a JSON object.
        UsageError: the document is not a text or bytes.
    """
    require_type("document", document, (str, bytes), "JSON as a string or bytes")
    try:
        value = loads(document)
    except ValueError as error:
        msg = f"a session must be a JSON object: {error}"
        raise InvalidDocumentError(msg) from error
    if not isinstance(value, dict):
        msg = f"a session must be a JSON object, not {type(value).__name__}"
        raise InvalidDocumentError(msg)
    return cast("dict[str, object]", value)


def _require_version(fields: Mapping[str, object]) -> None:
    version = fields.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        msg = f"the version of a session must be a positive whole number, not {version!r}"
        raise InvalidDocumentError(msg, path="version")
    if version > VERSION:
        msg = f"the session has version {version}, but this chat-agents reads only up to {VERSION}: upgrade it"
        raise NewerVersionError(msg, path="version")


def read_text(fields: Mapping[str, object], name: str, path: str = "", *, empty: bool = False) -> str:
    """Return the text in a field of a session document.

    Args:
        fields: JSON object with the text.
        name: name of the field.
        path: place of the object in the document.
        empty: whether the text may be empty or blank.

    Raises:
        InvalidDocumentError: the field is missing or not a text, or is blank although `empty` is false.
    """
    value = fields.get(name)
    if not isinstance(value, str) or not (value.strip() or empty):
        msg = f"{name} must be a string, not {value!r}"
        raise InvalidDocumentError(msg, path=f"{path}.{name}" if path else name)
    return value


def read_time(fields: Mapping[str, object], name: str) -> datetime:
    """Return the time in a field of a session document, in UTC.

    Args:
        fields: JSON object with the time in the format of ISO 8601.
        name: name of the field.

    Raises:
        InvalidDocumentError: the field is missing, or has no time with a time zone.
    """
    value = fields.get(name)
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None or time.utcoffset() is None:
        msg = f"{name} must be a time with a time zone, not {value!r}"
        raise InvalidDocumentError(msg, path=name)
    return time.astimezone(UTC)
