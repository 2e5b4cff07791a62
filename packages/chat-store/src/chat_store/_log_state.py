"""The durable state of a conversation, computed from the entries of its log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import cast, final

from chat_core.clock import isoformat
from chat_core.json import dump_bytes
from chat_core.messages import Approved, Grants, Interrupted, Messages, Pending, Rewind, Suspended, Tool, Turn, codec
from chat_core.messages.view import is_view_turn

from chat_store._entries import (
    Batch,
    Document,
    Entry,
    Lease,
    NewTurn,
    ToolChange,
    ToolPath,
    ToolRevision,
    TurnAdded,
    copy_tool,
    outermost_tools,
    own_document,
    parse_entry,
    parse_lease,
    parse_turn,
    parsing,
)


@final
class LogState:
    """The durable state of a conversation: its turn count, the state of each tool, and the lease.

    Attributes:
        id: the id of the conversation.
        owner: the user who owns the conversation, if the first entry names an owner.
        revision: the number of durable changes, that is, added turns and tool states.
        turns: the number of turns.
        delivered: whether the hooks of `messages.last_turn` have run, so that no run is needed; None if it has no
            hooks.
        last_turn_at: time at which the last turn was stored, if it is known.
        posts: the posted turns that no run has appended yet, by key, oldest first.
        post_turns: for each key that was ever posted, the index of its turn, or None if no run has appended the turn.
        created_at: time at which the conversation was stored.
        meta: for a conversation in a file, the description fields that its entries contain.
        jobs: for a conversation in a file, the jobs that its entries contain, by kind and key.
        fence: the number of the last run.
        lease: the lease of that run, None after it was released.
        grants: the grants of the conversation.
    """

    def __init__(self, id: str = "") -> None:
        self.id: str = id
        self.owner: str | None = None
        self.revision: int = 0
        self.turns: int = 0
        self.delivered: bool | None = None
        self.last_turn_at: datetime | None = None
        self.posts: dict[str, TurnAdded] = {}
        self.post_turns: dict[str, int | None] = {}
        self.created_at: datetime | None = None
        self.meta: Document = {}
        self.jobs: dict[tuple[object, object], Document] = {}
        self.fence: int = 0
        self.lease: Lease | None = None
        self.grants: Grants = Grants()
        self._last_turn = -1
        self._tools: dict[str, Tool] = {}

    def begin(self, document: Mapping[str, object]) -> Messages:
        """Set the state from the first entry or from an entry with a snapshot, and return the messages in the entry."""
        with parsing(document, self.id):
            source = cast("Mapping[str, object]", document.get("snapshot", document))
            self.id = cast("str", source["id"])
            self.owner = cast("str | None", source.get("owner"))
            self.revision = cast("int", source.get("revision", 0))
            messages = Messages.from_json(dump_bytes(source["messages"]))
            self._restore(source)
            at = source.get("at")
            self.created_at = _parse_time(source.get("created_at", at))
            self.last_turn_at = _parse_time(source.get("last_turn_at", at))
            lease = parse_lease(document)
        self._set_lease(lease)
        self.turns = sum(len(content.turns) for content in messages)
        self.delivered = None if messages.last_turn is None else messages.last_turn[1].delivered
        self._last_turn = -1 if messages.last_turn_index is None else messages.last_turn_index
        self._tools = {tool.id: copy_tool(tool) for tool in outermost_tools(messages)}
        self.grants.reset(messages.grants)
        return messages

    def parse(self, document: Mapping[str, object]) -> Entry:
        """Parse an entry other than the first entry, without applying it.

        Raises:
            InvalidDocumentError: the entry is malformed, or refers to a tool that is not in the conversation.
        """
        with parsing(document, self.id):
            entry = parse_entry(document)
            new = {tool.id for item in entry.turns for tool in item.turn.tools}
            for item in entry.tools:
                if item.path[0] not in new and self.find(item.path) is None:
                    msg = f"the conversation has no tool {'/'.join(item.path)!r}"
                    raise ValueError(msg)
            for added in entry.inner:
                if added.path[0] not in new and self.find_inner(added.path) is None:
                    msg = f"the tool {'/'.join(added.path)!r} has no inner conversation"
                    raise ValueError(msg)
            turns = self.turns + len(entry.turns)
            for marked in entry.marked:
                if marked.turn is not None and marked.turn >= turns:
                    msg = f"the conversation has no turn {marked.turn}"
                    raise ValueError(msg)
        return entry

    def apply(self, entry: Entry) -> None:
        """Update the state with an entry that `parse()` returned."""
        self._tools.update({tool.id: copy_tool(tool) for item in entry.turns for tool in item.turn.tools})
        for item in entry.tools:
            stored = self.find(item.path)
            if stored is not None:
                stored.adopt(item.merged_into(stored) if item.keeps_inner else copy_tool(item.tool))
        for added in entry.inner:
            inner = self.find_inner(added.path)
            if inner is not None:
                inner.append(added.role, codec.turn_from_dict(codec.turn_to_dict(added.turn), Messages), checked=True)
        for turn in entry.turns:
            self._add_turn(turn.turn, turn.post)
        self._apply_grants(entry)
        self.revision += len(entry.turns) + len(entry.tools) + len(entry.inner) + len(entry.marked)
        if entry.turns:
            self.last_turn_at = entry.at
        for turn in entry.turns:
            self.posts.pop(turn.post or "", None)
        for post in entry.posts:
            self.posts[post.post or ""] = post
            self.post_turns[post.post or ""] = None
        self.meta |= entry.meta
        self.jobs |= {(job["kind"], job["key"]): job for job in entry.jobs}
        for marked in entry.marked:
            self.delivered = cast("bool | None", marked.marks.get("delivered", self.delivered))
        self._set_lease(entry.lease)

    def _apply_grants(self, entry: Entry) -> None:
        for grant in entry.grants:
            if not self.is_revoked(grant.id):
                self.grants.merge(grant)
        self.revision += len(entry.grants)

    def _add_turn(self, turn: Turn, post: str | None) -> None:
        if post is not None:
            self.post_turns[post] = self.turns
        if not is_view_turn(turn):
            self.delivered, self._last_turn = turn.delivered, self.turns
        elif any(isinstance(part, Rewind) and part.to <= self._last_turn for part in turn.parts):
            # The answer was removed, so that a run may be needed again.
            self.delivered = None
        self.turns += 1

    def _set_lease(self, lease: Lease | None) -> None:
        if lease is not None:
            self.fence = lease.fence
            self.lease = lease if lease.until is not None else None

    def to_snapshot(self) -> Document:
        """Return the fields of a snapshot of this state, without the messages. `begin()` restores the state."""
        fields: Document = {
            "id": self.id,
            "owner": self.owner,
            "revision": self.revision,
            "posts": [NewTurn.from_turn(post.role, post.turn, key).to_dict() for key, post in self.posts.items()],
            "post_keys": list(self.post_turns),
            "post_turns": {key: turn for key, turn in self.post_turns.items() if turn is not None},
            "meta": self.meta,
            "jobs": list(self.jobs.values()),
            "created_at": isoformat(self.created_at),
            "last_turn_at": isoformat(self.last_turn_at),
        }
        return {name: value for name, value in fields.items() if value or name == "id"}

    def _restore(self, source: Mapping[str, object]) -> None:
        """Restore the posts, the description and the jobs from a first entry or a snapshot."""
        posts = [parse_turn(item) for item in cast("list[Document]", source.get("posts", []))]
        self.posts = {post.post or "": post for post in posts}
        # Snapshots of earlier versions do not contain the turns.
        turns = cast("dict[str, int]", source.get("post_turns", {}))
        self.post_turns = {key: turns.get(key) for key in cast("list[str]", source.get("post_keys", []))}
        self.meta = dict(cast("Document", source.get("meta", {})))
        self.jobs = {(job["kind"], job["key"]): job for job in cast("list[Document]", source.get("jobs", []))}

    def was_posted(self, key: str) -> bool:
        """Return whether a turn was ever posted with this key, even if a run has appended the turn since."""
        return key in self.post_turns

    def post_batch(self) -> Batch:
        """Return a batch that appends all posted turns to the conversation."""
        turns = [NewTurn.from_turn(post.role, post.turn, key) for key, post in self.posts.items()]
        return Batch(self.turns, tuple(turns))

    def find(self, path: ToolPath) -> Tool | None:
        """Return the durable state of the tool at a path, or None if the path does not exist."""
        tool = self._tools.get(path[0])
        for step in path[1:]:
            inner = None if tool is None else tool.inner
            try:
                tool = None if inner is None else inner.tool(step)
            except KeyError:
                return None
        return tool

    def find_inner(self, path: ToolPath) -> Messages | None:
        """Return the durable inner conversation of the tool at a path, or None if it has no such conversation."""
        tool = self.find(path)
        return None if tool is None else tool.inner

    def is_revoked(self, grant: object) -> bool:
        """Return whether the conversation has a grant with this id that was revoked."""
        return isinstance(grant, str) and grant in self.grants and self.grants[grant].revoked_at is not None

    def stale_paths(self, batch: Batch) -> list[ToolPath]:
        """Return the paths of the calls in a batch that the log has changed since the batch was created."""
        stale = [change.path for change in batch.tools if self._is_stale(change)]
        return stale + [item.path for item in batch.inner if self.find_inner(item.path) is None]

    def _is_stale(self, change: ToolChange) -> bool:
        tool = self.find(change.path)
        if tool is None or self._uses_revoked_grant(change.document):
            return True
        if change.keeps_inner and tool.inner is not None:
            # Changes inside do not concern the status of the tool itself.
            return tool.revision != change.base.revision and own_document(tool) != change.document
        return ToolRevision.from_tool(tool) != change.base and codec.tool_to_dict(tool) != change.document

    def _uses_revoked_grant(self, document: Document) -> bool:
        """Return whether a change would approve or start a call under a grant that has been revoked since."""
        status = cast("Document", document["status"])
        decisions = cast("list[Document]", document.get("decisions", []))
        may_start = status["type"] in {"approved", "running"}
        return may_start and bool(decisions) and self.is_revoked(decisions[-1].get("grant"))

    def follows(self, batch: Batch) -> bool:
        """Return whether no turn was added to the log since a batch was collected."""
        if (batch.turns or batch.marks) and batch.known_turns != self.turns:
            return False
        return all(self._count_inner(item.path) == item.known_turns for item in batch.inner)

    def _count_inner(self, path: ToolPath) -> int:
        return sum(len(content.turns) for content in self.find_inner(path) or ())

    def is_waiting(self, path: ToolPath, now: datetime) -> bool:
        """Return whether a tool waits and no outer tool has ended, so that it may be decided while a run is active.

        An outer tool may be running. The run receives the decision with its next write.

        Args:
            path: the path of the tool.
            now: the current time.
        """
        around = [self.find(path[:length]) for length in range(1, len(path))]
        return all(tool is not None and not tool.resolved for tool in around) and _is_waiting(self.find(path), now)


def _parse_time(text: object) -> datetime | None:
    return None if text is None else datetime.fromisoformat(cast("str", text))


def _is_waiting(tool: Tool | None, now: datetime) -> bool:
    status = None if tool is None else tool.status
    if isinstance(status, Pending):
        # Without a kind, the run has not triaged the call yet. From the scheduled time on, the run may start the call.
        return status.kind is not None and (status.at is None or now < status.at)
    if isinstance(status, Interrupted):
        # From the deadline on, the run may fail the call.
        return all(now < deadline for deadline in (status.expires_at, status.at) if deadline is not None)
    return isinstance(status, (Approved, Suspended))
