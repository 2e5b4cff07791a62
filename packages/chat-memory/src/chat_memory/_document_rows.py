"""Database-independent queries that store passages and vectors, and search texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import cast, final

from chat_core.errors import UsageError
from chat_core.json import dumps
from chat_store.sql.values import from_microseconds, to_microseconds

from chat_memory._database import Session, Value, is_storable
from chat_memory.facts import UNSTORABLE, require_short
from chat_memory.passages import Document, Passage, TextMatch, vector_to_bytes

_COLUMNS = "d.key, d.kind, d.text, f.id, d.conversation, d.position, d.speaker, d.said"
_VISIBLE = (
    "d.scope = :scope AND (d.fact IS NULL OR EXISTS (SELECT 1 FROM chat_memory_periods p WHERE p.fact = d.fact "
    "AND p.kind = 'current' AND p.begins <= :now AND p.ends > :now))"
)
_WANTED = {
    "conversation": " AND d.conversation = :conversation",
    "kind": " AND d.kind = :kind",
    "since": " AND d.said >= :since",
    "until": " AND d.said < :until",
}
_FROM = f"FROM chat_memory_documents d LEFT JOIN chat_memory_facts f ON f.key = d.fact WHERE {_VISIBLE}"


@final
class DocumentRows:
    """The passages, texts and vectors of one scope, in one transaction.

    Args:
        session: the database session of an open transaction.
        scope: the key of the scope's row.
        now: the time of the transaction.
    """

    def __init__(self, session: Session, scope: int, now: datetime) -> None:
        self._session = session
        self._scope = scope
        self._values: dict[str, Value] = {"scope": scope, "now": to_microseconds(now)}

    def add(self, passages: Iterable[Passage]) -> int:
        """Store passages, and return how many are new or changed."""
        return sum(self._add_passage(passage) for passage in passages)

    def find(self, ids: Iterable[int] | None = None, wanted: Mapping[str, Value] | None = None) -> list[Document]:
        """Return the passages and current facts that match all conditions, ordered by id.

        Args:
            ids: ids of passages and facts; None accepts any id.
            wanted: values of `conversation`, `kind`, `since` and `until`; None accepts any value.
        """
        query, values = f"SELECT {_COLUMNS} {_FROM}", dict(self._values)
        if ids is not None:
            query += " AND d.key IN (@numbers(ids))"
            values["ids"] = dumps([number for number in ids if is_storable(number)])
        for name, value in (wanted or {}).items():
            if value is not None:
                query += _WANTED[name]
                values[name] = value
        return [_document_from_row(row) for row in self._session.execute(f"{query} ORDER BY d.key", values)]

    def delete_turn(self, conversation: str, turn: int | None) -> None:
        """Delete the passages of a turn, and the summary of its conversation, which may contain the same text."""
        self._session.execute(
            "DELETE FROM chat_memory_documents WHERE scope = :scope AND conversation = :conversation "
            "AND (kind = 'summary' OR position = :turn)",
            {"scope": self._scope, "conversation": conversation, "turn": turn},
        )

    def search(self, words: Sequence[str], limit: int) -> list[TextMatch]:
        """Return the documents that contain at least one of the words, best match first."""
        storable = [UNSTORABLE.sub(" ", word) for word in words]
        matching, values = self._session.match(storable, self._scope)
        rows = self._session.execute(
            f"SELECT d.key, m.score FROM ({matching}) m JOIN chat_memory_documents d ON d.key = m.document "  # noqa: S608 - our own names
            f"WHERE {_VISIBLE} ORDER BY m.score DESC, d.key LIMIT :limit",
            {**values, **self._values, "limit": limit},
        )
        return [TextMatch(cast("int", key), cast("float", score)) for key, score in rows]

    def put_vectors(self, model: str, vectors: Mapping[int, Sequence[float]], texts: Mapping[int, str]) -> None:
        """Store the vectors of documents by document id. Documents that are missing or have changed are ignored."""
        require_short(model, "model")
        encoded = {document: vector_to_bytes(vector) for document, vector in vectors.items()}
        self._list_missing_vectors(model)
        stored = self._session.execute(
            "SELECT length(v.vector) FROM chat_memory_vectors v JOIN chat_memory_documents d ON d.key = v.document "
            "WHERE v.model = :model AND d.scope = :scope LIMIT 1",
            {"model": model, "scope": self._scope},
        )
        lengths = {len(vector) for vector in encoded.values()} | {cast("int", row[0]) for row in stored}
        if len(lengths) > 1:
            sizes = " and ".join(str(length // 4) for length in sorted(lengths))
            msg = f"the vectors of {model!r} have different lengths, {sizes}: use another name for another embedder"
            raise UsageError(msg)
        self._session.execute_many(
            "INSERT INTO chat_memory_vectors (document, model, vector) SELECT d.key, :model, :vector "
            "FROM chat_memory_documents d WHERE d.key = :document AND d.scope = :scope "
            "AND d.text = coalesce(:text, d.text) "
            "ON CONFLICT (document, model) DO UPDATE SET vector = excluded.vector",
            [
                {
                    "model": model,
                    "document": document,
                    "vector": vector,
                    "scope": self._scope,
                    "text": texts.get(document),
                }
                for document, vector in encoded.items()
                if is_storable(document)
            ],
        )

    def vectors(self, model: str, ids: Iterable[int] | None = None) -> tuple[list[int], bytes]:
        """Return the ids of the documents with a vector, and the concatenated bytes of these vectors.

        Args:
            model: identifies the embedder.
            ids: ids of passages and facts; None accepts any id.
        """
        values, among = {**self._values, "model": model}, ""
        if ids is not None:
            values["ids"], among = dumps(list(ids)), "AND d.key IN (@numbers(ids)) "
        rows = self._session.execute(
            f"SELECT d.key, v.vector FROM chat_memory_documents d JOIN chat_memory_vectors v ON v.document = d.key {among}"  # noqa: E501, S608 - our own names
            f"WHERE {_VISIBLE} AND v.model = :model ORDER BY d.key",
            values,
        )
        return [cast("int", row[0]) for row in rows], b"".join(cast("bytes", row[1]) for row in rows)

    def without_vector(self, model: str, limit: int) -> list[Document]:
        """List the documents that have no vector of an embedder, ordered by id. Facts of any status are included."""
        values: dict[str, Value] = {"scope": self._scope, "model": model, "limit": limit}
        known = self._session.execute(
            "SELECT 1 FROM chat_memory_models WHERE scope = :scope AND model = :model", values
        )
        missing = "chat_memory_missing_vectors m JOIN chat_memory_documents d ON d.key = m.document"
        source, condition = (
            (missing, "m.scope = :scope AND m.model = :model ORDER BY m.document")
            if known  # else this scope has no vector of the embedder
            else ("chat_memory_documents d", "d.scope = :scope ORDER BY d.key")
        )
        rows = self._session.execute(
            f"SELECT {_COLUMNS} FROM {source} LEFT JOIN chat_memory_facts f ON f.key = d.fact "  # noqa: S608 - our own names
            f"WHERE {condition} LIMIT :limit",
            values,
        )
        return [_document_from_row(row) for row in rows]

    def _list_missing_vectors(self, model: str) -> None:
        """List all documents as missing a vector of a new embedder. Triggers keep the list up to date."""
        values: dict[str, Value] = {"scope": self._scope, "model": model}
        new = self._session.execute(
            "INSERT INTO chat_memory_models (scope, model) VALUES (:scope, :model) "
            "ON CONFLICT (scope, model) DO NOTHING RETURNING model",
            values,
        )
        if new:
            self._session.execute(
                "INSERT INTO chat_memory_missing_vectors (scope, model, document) "
                "SELECT d.scope, :model, d.key FROM chat_memory_documents d WHERE d.scope = :scope "
                "AND NOT EXISTS (SELECT 1 FROM chat_memory_vectors v WHERE v.document = d.key AND v.model = :model)",
                values,
            )

    def drop_vectors(self, keep: str) -> int:
        """Delete the vectors of all embedders except `keep`, and return the number of deleted vectors."""
        values: dict[str, Value] = {"scope": self._scope, "keep": keep}
        # First, so that the vectors are not listed as missing.
        self._session.execute("DELETE FROM chat_memory_models WHERE scope = :scope AND model <> :keep", values)
        rows = self._session.execute(
            "DELETE FROM chat_memory_vectors WHERE model <> :keep AND document IN "
            "(SELECT key FROM chat_memory_documents WHERE scope = :scope) RETURNING document",
            values,
        )
        return len(rows)

    def _add_passage(self, passage: Passage) -> bool:
        values: dict[str, Value] = {
            "scope": self._scope,
            "kind": require_short(passage.kind, "kind"),
            "conversation": require_short(passage.conversation, "conversation"),
            "position": passage.position,
            "speaker": passage.speaker,
            "said": to_microseconds(passage.said_at),
            "text": passage.text,
        }
        rows = self._session.execute(
            "SELECT key, text, speaker, said FROM chat_memory_documents WHERE scope = :scope "
            "AND conversation = :conversation AND position = :position AND kind = :kind",
            values,
        )
        if not rows:
            self._session.execute(
                "INSERT INTO chat_memory_documents (scope, kind, conversation, position, speaker, said, text) "
                "VALUES (:scope, :kind, :conversation, :position, :speaker, :said, :text)",
                values,
            )
            return True
        key, *stored = rows[0]
        if stored == [passage.text, passage.speaker, values["said"]]:
            return False
        values["key"] = cast("int", key)
        self._session.execute(
            "UPDATE chat_memory_documents SET text = :text, speaker = :speaker, said = :said WHERE key = :key", values
        )
        self._session.execute("DELETE FROM chat_memory_vectors WHERE document = :key", values)
        return True


def _document_from_row(row: Sequence[object]) -> Document:
    key, kind, text, fact, conversation, position, speaker, said = row
    return Document(
        cast("int", key),
        str(kind),
        str(text),
        cast("str | None", fact),
        cast("str | None", conversation),
        cast("int | None", position),
        cast("str | None", speaker),
        from_microseconds(cast("int | None", said)),
    )
