"""Who may change a stored conversation, and what follows: all that a store is, but for its database.

A conversation is a list of entries, as in the file of a `FileConversation`: a change that is durable as a whole or not
at all, each with what is new and nothing else. What they come to is read from them (`chat_store._entries`), and so is
how the changes of two processes are merged. The lease is in the row of the conversation, where renewing it adds no
entry. Two transactions on one conversation follow one another, and each begins with reading what the others wrote.

The fence counts the runs, and the times that one was given up. A run that finds a higher one has been overtaken:
whatever it would write becomes a `late` entry, which changes nothing.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast
from uuid import uuid4

from chat_core.errors import ConflictError, InvalidDocumentError, LeaseLostError, NewerVersionError, UsageError
from chat_core.json import dump_bytes, loads
from chat_core.messages import Messages, codec
from chat_core.response import Wait

from chat_store._backend import Backend, Changing, Head, Reading
from chat_store._entries import Batch, Document, Lease, Stored, TurnAdded
from chat_store._file_log import LogUpdate, StaleToolError
from chat_store._standing import WaitIndex, waits_of
from chat_store.errors import ConversationExistsError, UnknownConversationError

VERSION = 1
"""Of the entries; the tables have their own."""


class ConversationLog:
    """The entries of one conversation, and what they come to. Every method blocks its thread.

    Attributes:
        stored: what is durable, as far as it was read.
        news: what the messages have not been told yet, oldest first.
    """

    def __init__(
        self,
        backend: Backend,
        id: str,  # noqa: A002 - the field's own name
        person: str | None,
        lease: timedelta,
        now: Callable[[], datetime],
    ) -> None:
        self._backend = backend
        self._id = id
        self._person = person
        self._length = lease
        self._now = now
        self._pid = os.getpid()
        self._fence: int | None = None
        self._told = 0
        self._born: str = ""
        self._opened = False
        self.news: deque[LogUpdate] = deque()
        self._forget()

    def _forget(self) -> None:
        """Begin to read from the first entry on."""
        self.stored = Stored()
        self.stored.id = self._id
        self._standing = WaitIndex()
        self._head = Head(self._id, self._person)
        self._own: deque[LogUpdate] = deque()
        self._begun = Messages()
        self._written = False

    # --- Opening -------------------------------------------------------------------------------------------------

    def open(self) -> Messages:
        """The conversation as its first entry has it; the others are news. An empty one where nothing is stored."""
        with self._reading():
            self._opened = True
        return self._begun

    def open_stored(self, revision: int | None = None) -> Messages:
        """The same, up to a revision.

        Raises:
            UnknownConversationError: nothing is stored.
            UsageError: there is no such revision.
        """
        with self._reading(revision) as reading:
            self._stored_head(reading)
            self._opened = True
        if revision is not None and self.stored.revision != revision:
            msg = f"the conversation {self._id!r} has no revision {revision}; load() tells the one to follow"
            raise UsageError(msg)
        return self._begun

    def create(self, messages: Messages) -> None:
        """Store a conversation.

        Raises:
            ConversationExistsError: there is one.
        """
        with self._changing() as changing:
            if self._head.entries:
                msg = f"a conversation {self._id!r} is stored already; open() opens it"
                raise ConversationExistsError(msg)
            self._begin(changing, messages)

    # --- A run ---------------------------------------------------------------------------------------------------

    def claim(self, batch: Batch) -> None:
        """Begin a run, and make a batch durable.

        Raises:
            ConflictError, Moved: nothing was written.
        """
        with self._changing() as changing:
            self._require_no_live_run()
            self._require_unmoved(batch)
            # Where the run dies, whoever looks for what is due finds it when the lease has run out.
            fence = self._head.fence + 1
            head = self._leased(fence)
            lease = Lease(fence, head.holder, head.until)
            self._append(changing, {"lease": lease.entry}, batch, head)
        self._fence = fence

    def renew(self) -> None:
        """Prolong the lease.

        Raises:
            LeaseLostError: another run took over.
        """
        with self._changing() as changing:
            if not self._overtaken():
                changing.put(self._leased(self._head.fence))
        self._require_held()

    def write(self, batch: Batch) -> None:
        """Make a batch of the run durable, and prolong the lease.

        Raises:
            LeaseLostError: another run took over; the batch is stored as late.
            StaleToolError: somebody decided one of the calls; nothing was written.
        """
        with self._changing() as changing:
            if self._overtaken():
                self._append_late(changing, batch)
            else:
                self._require_unmoved(batch)
                if batch:
                    self._append(changing, {}, batch, self._leased(self._head.fence))
        self._require_held()

    def release(self) -> None:
        """End the run, even where that cannot be written. A lease that was lost is no error."""
        if self._fence is None:
            return
        seen, now = self._told, self._now()
        try:
            with suppress(UnknownConversationError), self._changing() as changing:
                if not self._overtaken():
                    # What was decided since the run last looked, it has not gone on with.
                    unseen = self._head.entries > seen
                    due = now if unseen else self._standing.due_at_rest(self.stored, now)
                    head = replace(self._head, until=None, due=due)
                    self._append(changing, {"lease": Lease(head.fence).entry}, Batch(0), head)
        finally:
            self._fence = None

    @property
    def person(self) -> str | None:
        """Who is in charge."""
        return self._head.person

    @property
    def holds_lease(self) -> bool:
        """Whether a run of this object has not ended."""
        return self._fence is not None and self._pid == os.getpid()

    # --- Besides a run -------------------------------------------------------------------------------------------

    def save(self, batch: Batch) -> None:
        """Make decisions durable, also while a run of somebody else is live; read what others wrote.

        Raises:
            ConflictError: a live run is at one of the calls, or somebody added turns. Nothing was written.
            StaleToolError: somebody decided one of the calls; nothing was written.
        """
        if not batch:
            with self._reading():
                return
        with self._changing() as changing:
            self._require_unmoved(batch)
            if self._fence is not None and self._fence == self._head.fence:
                self._append(changing, {}, batch, self._leased(self._fence))
                return
            now = self._now()
            head = replace(self._head, due=now)
            if batch.turns or not all(self.stored.waits(change, now) for change in batch.tools):
                self._require_no_live_run()
                if head.until is not None:
                    # Its lease has run out, and what is written here is as if it were dead: it must not come back.
                    head = replace(head, fence=head.fence + 1, until=None)
            self._append(changing, {}, batch, head)

    def assign(self, person: str | None) -> None:
        """Put a person in charge."""
        with self._backend.changing(self._id) as changing:
            changing.put(replace(self._stored_head(changing), person=person), changed=True)

    def delete(self) -> None:
        """Forget the conversation.

        Raises:
            ConflictError: a run on it is live.
        """
        with self._backend.changing(self._id) as changing:
            self._head = self._stored_head(changing)
            self._require_no_live_run()
            changing.remove()

    def everything(self) -> list[Document]:
        """All entries."""
        with self._backend.reading(self._id) as reading:
            return [_document(entry) for entry in reading.entries(0)]

    # --- Below: transactions -------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self, revision: int | None = None) -> Generator[Reading]:
        self._require_this_process()
        with self._backend.reading(self._id) as reading:
            self._refresh(reading, revision)
            yield reading

    @contextmanager
    def _changing(self) -> Generator[Changing]:
        """What is written is told to the messages when it is durable. Where it never is, all is read anew."""
        self._require_this_process()
        try:
            with self._backend.changing(self._id) as changing:
                self._refresh(changing)
                yield changing
        except BaseException:
            if self._written:
                self._forget()
            raise
        self._written = False
        self._told = max(self._told, self._head.entries)
        self.news.extend(self._own)
        self._own.clear()

    def _refresh(self, reading: Reading, revision: int | None = None) -> None:
        head = reading.head()
        if self._told and (head is None or head.born != self._born):
            raise self._unknown()
        if head is None:
            return
        self._born = head.born
        for number, entry in enumerate(reading.entries(self._head.entries), self._head.entries + 1):
            if revision is not None and self.stored.revision >= revision and number > 1:
                return
            self._take(number, _document(entry))
        if self._head.entries != head.entries:
            msg = f"the conversation {self._id!r} is damaged: it has {self._head.entries} of {head.entries} entries"
            raise InvalidDocumentError(msg)
        self._head = head
        self.stored.fence = head.fence

    def _take(self, number: int, document: Document) -> None:
        if document.get("n") != number:
            msg = f"entry {number} of the conversation {self._id!r} says that it is entry {document.get('n')!r}"
            raise InvalidDocumentError(msg)
        if number == 1:
            self._take_first(document)
        else:
            entry = self.stored.read(document)
            self.stored.take(entry)
            self._standing.take(entry, self.stored)
            if number > self._told:
                self.news.extend(entry.added)
                self.news.extend(entry.moved)
        self._head = replace(self._head, entries=number)
        self._told = max(self._told, number)

    def _take_first(self, document: Document) -> None:
        if cast("int", document["version"]) > VERSION:
            msg = f"the conversation {self._id!r} was written by a later version of this library: upgrade it"
            raise NewerVersionError(msg)
        self._begun = self.stored.begin(document)
        self._standing.begin(self._begun)
        if self._opened and not self._told:
            # It was opened when nothing was stored, and somebody else was faster.
            self.news.extend([TurnAdded(content.role, turn) for content in self._begun for turn in content.turns])

    def _begin(self, changing: Changing, messages: Messages) -> None:
        now = self._now()
        document: Document = {
            "n": 1,
            "version": VERSION,
            "id": self._id,
            "at": now.isoformat(),
            "messages": loads(messages.to_json()),
        }
        entry = dump_bytes(document)
        self._written = True
        self._begun = self.stored.begin(_document(entry))
        self._standing.begin(self._begun)
        self._born = self._born or uuid4().hex
        self._head = replace(self._head, born=self._born, entries=1, due=self._standing.due_at_rest(self.stored, now))
        changing.append(self._head, entry, self._waits(self._standing.open))

    def _append(self, changing: Changing, more: Document, batch: Batch, head: Head) -> None:
        """Add an entry: a batch, and `more`."""
        if not self._head.entries:
            self._begin(changing, Messages())
        number = self._head.entries + 1
        entry = dump_bytes({"n": number, "at": self._now().isoformat(), **more, **batch.entry})
        read = self.stored.read(_document(entry))
        self._written = True
        self.stored.take(read)
        touched = self._standing.take(read, self.stored)
        if batch:
            self._own.append(batch)
        self._head = replace(head, born=self._born, entries=number, revision=self.stored.revision)
        self.stored.fence = head.fence
        changing.append(self._head, entry, self._waits(touched))

    def _append_late(self, changing: Changing, batch: Batch) -> None:
        if batch:
            self._append(changing, {"late": {"fence": self._fence, **batch.entry}}, Batch(0), self._head)

    def _waits(self, tops: set[str]) -> dict[str, list[Wait]]:
        found = {top: self.stored.find((top,)) for top in sorted(tops)}
        return {top: list(waits_of(tool)) for top, tool in found.items() if tool is not None}

    # --- Below: who may ------------------------------------------------------------------------------------------

    def _leased(self, fence: int) -> Head:
        """The row under the lease of a run, from now on. When it has run out, the run is gone, and another is due."""
        now, holder = self._now(), f"{socket.gethostname()}/{os.getpid()}"
        return replace(self._head, fence=fence, holder=holder, until=now + self._length, due=now)

    def _overtaken(self) -> bool:
        if self._fence is None:
            msg = "a run claims the conversation before it writes: claim() comes first"
            raise UsageError(msg)
        return self._fence != self._head.fence

    def _require_held(self) -> None:
        if self._overtaken():
            msg = (
                f"run {self._fence} of the conversation {self._id!r} stood still for longer than its lease, and was "
                f"overtaken; what it did since is stored as late"
            )
            raise LeaseLostError(msg)

    def _require_unmoved(self, batch: Batch) -> None:
        if moved := self.stored.moved_since(batch):
            found = [(path, self.stored.find(path)) for path in moved]
            tops = [(path[:1], self.stored.find(path[:1])) for path, tool in found if tool is None]
            raise StaleToolError(
                [(path, codec.copy_tool(tool, Messages)) for path, tool in [*found, *tops] if tool is not None]
            )
        if batch.turns and batch.known != self.stored.turns:
            msg = f"somebody else has added to the conversation {self._id!r} meanwhile; open it again and look"
            raise ConflictError(msg)

    def _require_no_live_run(self) -> None:
        head = self._head
        if head.until is not None and self._now() < head.until:
            who = "this object has" if head.fence == self._fence else f"{head.holder} has"
            msg = f"{who} a live run on the conversation {self._id!r}, until {head.until.isoformat()} at the latest"
            raise ConflictError(msg)

    def _stored_head(self, reading: Reading) -> Head:
        head = reading.head()
        if head is None:
            raise self._unknown()
        return head

    def _unknown(self) -> UnknownConversationError:
        when = "any more: it was deleted" if self._told else "under this id"
        return UnknownConversationError(f"there is no conversation {self._id!r} {when}")

    def _require_this_process(self) -> None:
        if self._pid != os.getpid():
            msg = "the conversation was opened before this process was forked; open it again here"
            raise UsageError(msg)


def _document(entry: bytes) -> Document:
    return cast("Document", loads(entry))
