"""The protocols of memories: `Memory`, a database of scopes, and `MemoryScope`, the memory of one owner.

    async with SqliteMemory("memory.db") as memory:
        ana = memory.scope("ana")
        await ana.add(Statement("user", "lives in", "Berlin"))

Every method that reads or writes the contents of a memory belongs to a scope. No method reads two scopes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, Self

from chat_core.arguments import argument_error

from chat_memory.citations import Citation
from chat_memory.facts import Fact, FactStatus, Outcome, Statement
from chat_memory.graph import Entity, Graph, MemoryStats, Neighbor, Relation
from chat_memory.passages import Document, Passage, ScopeChanges, TextMatch


class MemoryScope(Protocol):
    """The memory of one owner."""

    @property
    def name(self) -> str:
        """The name of the scope."""
        ...

    # --- Facts -------------------------------------------------------------------------------------------------------

    async def add(self, statement: Statement) -> Outcome:
        """Store a statement in one transaction, and return its outcome.

        A statement whose key was stored before for the same fact changes nothing. Its first outcome is returned.
        """
        ...

    async def get(self, id: str, *, valid: datetime | None = None) -> Fact | None:
        """Return a fact of any status, or None if this scope has no such fact.

        Args:
            id: the id of the fact.
            valid: the time at which the status of the fact is determined. Default: now.
        """
        ...

    async def facts(
        self,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        ids: Iterable[str] | None = None,
        status: FactStatus = "current",
    ) -> list[Fact]:
        """List facts by subject, predicate, object or id.

        Args:
            subject: only facts about this subject.
            predicate: only facts with this predicate.
            object: only facts with this object.
            ids: only facts with these ids.
            status: only facts that have this status now.
        """
        ...

    async def as_of(
        self,
        *,
        valid: datetime | None = None,
        recorded: datetime | None = None,
        subject: str | None = None,
        predicate: str | None = None,
    ) -> list[Fact]:
        """List the facts that were current at a time.

        Args:
            valid: time at which the facts were true. Default: now.
            recorded: return the facts as they were known at this time. Later statements and retractions are ignored.
                Default: now.
            subject: only facts about this subject.
            predicate: only facts with this predicate.
        """
        ...

    async def statements(self, id: str) -> list[Statement]:
        """List the statements of a fact that were not retracted, earliest first."""
        ...

    async def promote(self, id: str, citation: Citation) -> Outcome:
        """Make a candidate the current fact, as if a user had stated it with the same beginning.

        Args:
            id: the id of the candidate.
            citation: the citation of the decision.

        Raises:
            UnknownFactError: this scope has no such fact.
            UsageError: the fact is not a candidate.
        """
        ...

    async def retract(self, id: str) -> bool:
        """Mark all statements of a fact as wrong, but keep them visible in `as_of(recorded=…)`.

        Returns:
            Whether the fact had statements to retract.
        """
        ...

    async def forget(self, id: str) -> bool:
        """Delete a fact with its statements, text, vectors and links, and the texts that it comes from.

        For each `SessionCitation` of the statements, the passages of the turn, and the summary and the stored
        extractions of the conversation, are deleted. A record `forgotten_record(id, turn)`, which contains only the
        number of the turn, is stored under the conversation, so that an `Indexer` does not store the fact or the turn
        again.

        An `Indexer` records the source of relations and entities by chunk, which is the part of the conversation that
        was extracted with one request. From the chunk that contains the turn, all mentions of relations are deleted,
        and relations that no other text mentions. The property `context` of an entity is deleted if the extraction of
        the chunk contains this text. Then an entity of the chunk or the fact is deleted if it has no properties,
        relations and facts. Without a stored extraction, only mentions with the key `"CONVERSATION TURN"` are deleted,
        and the property `context` of the entities of these relations and of the fact, whatever its source.

        Returns:
            Whether this scope had such a fact.
        """
        ...

    def unless_forgotten(self, conversation: str, known: Iterable[str]) -> Self:
        """Return this scope for writes that are derived from the text of a conversation.

        If a fact from the conversation is forgotten after the caller has read it, every later write with the returned
        scope raises `ConflictError` and stores nothing. Otherwise, the caller could store the forgotten text again.

        Args:
            conversation: the id of the conversation.
            known: names of the conversation's records, which the caller has read before the conversation itself.
        """
        ...

    async def touch(self, ids: Iterable[str]) -> None:
        """Record the current time as the last time at which a model received these facts."""
        ...

    # --- Entities and relations --------------------------------------------------------------------------------------

    async def add_entity(self, entity: Entity) -> bool:
        """Store an entity, or merge its type and properties into the entity with the same id.

        Returns:
            Whether the entity is new.
        """
        ...

    async def relate(self, relation: Relation, *, key: str = "") -> bool:
        """Store a relation. Entities at its ends are created if they are missing.

        Args:
            relation: the relation to store.
            key: identifies the text that mentions the relation. Each text counts once in `Relation.mentions`.

        Returns:
            Whether the relation is new.
        """
        ...

    async def entities(self, *, fact: str | None = None) -> list[Entity]:
        """List all entities or, if `fact` is given, the entities that are linked to this fact.

        Args:
            fact: the id of a fact.
        """
        ...

    async def facts_about(self, entity: str) -> list[Fact]:
        """List the current facts that are linked to an entity.

        Args:
            entity: the name or id of the entity.
        """
        ...

    async def facts_near(self, entities: Iterable[str], *, depth: int = 2, limit: int = 100) -> dict[str, int]:
        """Return the ids of the current facts about these entities and their neighbors, with their distances.

        Args:
            entities: names or ids of entities.
            depth: maximum number of relations between one of these entities and the entity of a fact.
            limit: the maximum number of neighbors of each entity, nearest first.
        """
        ...

    async def neighbors(self, entity: str, *, depth: int = 1, limit: int = 100) -> list[Neighbor]:
        """List the entities that are connected to an entity by relations in any direction, nearest first.

        Args:
            entity: the name or id of the entity.
            depth: maximum number of relations between the two entities.
            limit: the maximum number of entities.
        """
        ...

    async def graph(self, entity: str | None = None, *, depth: int = 1, limit: int = 1000) -> Graph:
        """Return the neighborhood of an entity, or all entities, with relations and current facts.

        Args:
            entity: the name or id of the entity. Default: all entities.
            depth: the maximum number of relations from the entity.
            limit: the maximum number of entities.
        """
        ...

    async def delete_entity(self, entity: str) -> bool:
        """Delete an entity with its relations and its links to facts.

        Returns:
            Whether this scope had such an entity.
        """
        ...

    # --- Texts and vectors -------------------------------------------------------------------------------------------

    async def add_passages(self, passages: Sequence[Passage]) -> int:
        """Store passages in one transaction.

        A passage replaces an earlier passage of the same kind with the same place in the conversation.

        Returns:
            The number of passages that are new or changed.
        """
        ...

    async def documents(
        self,
        *,
        ids: Iterable[int] | None = None,
        conversation: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Document]:
        """List passages and current facts, ordered by id.

        Args:
            ids: only documents with these ids.
            conversation: only documents of this conversation.
            kind: only documents of this kind.
            since: only documents that were spoken or written at this time or later.
            until: only documents that were spoken or written before this time.
        """
        ...

    async def search_text(self, words: Sequence[str], *, limit: int = 50) -> list[TextMatch]:
        """Return the passages and current facts that contain at least one of the words, best match first.

        Args:
            words: words in the user's spelling. The database reduces them to their stems.
            limit: the maximum number of matches.
        """
        ...

    async def put_vectors(
        self, model: str, vectors: Mapping[int, Sequence[float]], *, texts: Mapping[int, str] | None = None
    ) -> None:
        """Store vectors of documents. Documents that do not exist are ignored.

        Args:
            model: identifies the embedder and everything that changes its vectors.
            vectors: the vector for the id of each document. All have the same length.
            texts: the texts from which the vectors were computed, by the id of the document. The vector of a document
                that has another text now is ignored.

        Raises:
            UsageError: the length of a vector differs from that of the stored vectors of this model.
        """
        ...

    async def vectors(self, model: str) -> tuple[list[int], bytes]:
        """Return the vectors of an embedder for all passages and current facts.

        Args:
            model: identifies the embedder.

        Returns:
            The ids of the documents, and their vectors as little-endian 32-bit numbers, one after the other.
        """
        ...

    async def without_vector(self, model: str, *, limit: int = 100) -> list[Document]:
        """List the documents that have no vector of an embedder.

        Args:
            model: identifies the embedder.
            limit: the maximum number of documents.
        """
        ...

    async def drop_vectors(self, *, keep: str) -> int:
        """Delete the vectors of all embedders except `keep`.

        Args:
            keep: identifies the embedder whose vectors are kept.

        Returns:
            The number of deleted vectors.
        """
        ...

    # --- Records -----------------------------------------------------------------------------------------------------

    async def put_record(
        self, conversation: str, name: str, document: Mapping[str, object], *, replace: bool = False
    ) -> Mapping[str, object]:
        """Store a JSON object about a conversation, such as the output of an extraction.

        Args:
            conversation: the id of the conversation.
            name: identifies the record among the records of the conversation.
            document: the JSON object.
            replace: whether to replace a stored record of this name. By default, the stored record is kept.

        Returns:
            The record that is stored after the call.
        """
        ...

    async def records(self, conversation: str) -> dict[str, Mapping[str, object]]:
        """Return the records about a conversation, by name.

        Args:
            conversation: the id of the conversation.
        """
        ...

    async def recorded_conversations(self) -> list[str]:
        """List the ids of the conversations that have records."""
        ...

    # --- Core blocks -------------------------------------------------------------------------------------------------

    async def blocks(self) -> dict[str, str]:
        """Return the texts of the core blocks by name. See `chat_memory.core_blocks`."""
        ...

    async def set_block(self, name: str, text: str, *, replaces: str | None = None) -> bool:
        """Store the text of a core block. An empty text deletes the block.

        Args:
            name: the name of the block.
            text: the new text of the block.
            replaces: the stored text that the caller has read, which is empty if there is no such block. If another
                text is stored, nothing changes. Default: replace any text.

        Returns:
            Whether the text was stored.
        """
        ...

    # --- Operations on the whole scope -------------------------------------------------------------------------------

    async def revision(self) -> int:
        """Return the revision of the scope. The number grows with each change, so that caches can detect changes.

        The revision is 0 if nothing is stored. It is never reused, even after `delete_all()`. `touch()` does not change
        it.
        """
        ...

    async def changes(self, *, since: int = 0, model: str | None = None) -> ScopeChanges:
        """Return the searchable content that may have changed since a revision, so that an index can be updated.

        The content is read in one transaction. A fact that becomes current or ends at its time does not count as a
        change.

        Args:
            since: an earlier revision of the scope. Everything is returned if it is 0, or older than a deletion of the
                scope.
            model: identifies the embedder whose vectors are returned. Default: no vectors.
        """
        ...

    async def stats(self) -> MemoryStats:
        """Return the number of rows, and the revision of the scope."""
        ...

    async def export(self) -> dict[str, object]:
        """Return the whole content of this scope as a JSON object, without vectors."""
        ...

    async def delete_all(self) -> None:
        """Delete the whole content of this scope in one transaction."""
        ...


class Memory(Protocol):
    """A database with a scope for each owner."""

    def scope(self, name: str) -> MemoryScope:
        """Return the scope with this name. A scope exists as long as something is stored in it.

        Raises:
            UsageError: the name is blank, or cannot be stored.
        """
        ...

    async def scopes(self, *, after: str = "", limit: int = 100) -> list[str]:
        """List the names of all scopes with content, for administration.

        Args:
            after: only names after this name.
            limit: the maximum number of names.
        """
        ...

    async def multi_valued(self) -> frozenset[str]:
        """Return the normalized predicates that may have several objects at the same time."""
        ...

    async def declare(self, *, multi: Iterable[str] = (), single: Iterable[str] = ()) -> None:
        """Declare for all scopes which predicates may have several objects at the same time.

        Stored facts are recomputed at once.

        Args:
            multi: predicates that may have several objects, such as "likes".
            single: predicates that have one object. This is the default for a predicate that was never declared.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections to the database."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...


def require_memory(memory: object) -> None:
    """Raise `UsageError` unless an argument is a memory.

    Args:
        memory: the value that was passed.
    """
    if isinstance(memory, type) or not callable(getattr(memory, "scope", None)):
        raise argument_error("memory", "a memory, such as SqliteMemory('memory.db')", memory)
