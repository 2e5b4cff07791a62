"""The migrations that create and upgrade the tables in SQLite."""

from __future__ import annotations

from collections.abc import Sequence


def _record_changes(table: str, query: str, *events: str) -> list[str]:
    """Return triggers that record each change of a table in `chat_memory_changes`.

    Args:
        table: the name of the table, without its prefix.
        query: selects the scope, the document and the new revision of a changed row, which is called `ROW` in it.
        events: the SQL names of the changes, such as `"INSERT"`.
    """
    return [
        f"""
        CREATE TRIGGER chat_memory_changes_{table}_{event.lower()} AFTER {event} ON chat_memory_{table}
        BEGIN
            INSERT INTO chat_memory_changes (scope, document, revision)
                {query.replace("ROW", "OLD" if event == "DELETE" else "NEW")}
                ON CONFLICT (scope, document) DO UPDATE SET revision = excluded.revision;
        END
        """
        for event in events
    ]


_CHANGED_DOCUMENT = """SELECT key, ROW.key, revision + 1
                FROM chat_memory_scopes WHERE key = ROW.scope"""
_CHANGED_ENTITIES = """SELECT key, 0, revision + 1
                FROM chat_memory_scopes WHERE key = ROW.scope"""
_DOCUMENTS = """SELECT s.key, d.key, s.revision + 1
                FROM chat_memory_documents d JOIN chat_memory_scopes s ON s.key = d.scope WHERE """

MIGRATIONS: Sequence[Sequence[str]] = (
    (
        """
        CREATE TABLE chat_memory_scopes (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            scope TEXT NOT NULL UNIQUE,
            revision INTEGER NOT NULL
        )
        """,
        "CREATE TABLE chat_memory_predicates (predicate TEXT PRIMARY KEY)",
        """
        INSERT INTO chat_memory_predicates VALUES ('likes'), ('dislikes'), ('uses'), ('knows'), ('speaks'), ('owns'),
            ('visited'), ('interested_in'), ('allergic_to')
        """,
        # `subject`, `predicate` and `object` are normalized here. Statements contain the original spelling.
        """
        CREATE TABLE chat_memory_facts (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            scope INTEGER NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            id TEXT NOT NULL,
            subject TEXT NOT NULL,
            predicate TEXT NOT NULL,
            object TEXT NOT NULL,
            accessed INTEGER,
            accesses INTEGER NOT NULL DEFAULT 0,
            UNIQUE (scope, id)
        )
        """,
        "CREATE INDEX chat_memory_facts_place ON chat_memory_facts (scope, subject, predicate)",
        "CREATE INDEX chat_memory_facts_predicate ON chat_memory_facts (predicate)",
        """
        CREATE TABLE chat_memory_statements (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            fact INTEGER NOT NULL REFERENCES chat_memory_facts (key) ON DELETE CASCADE,
            name TEXT NOT NULL,
            subject TEXT NOT NULL,
            predicate TEXT NOT NULL,
            object TEXT NOT NULL,
            text TEXT NOT NULL,
            source TEXT NOT NULL,
            rank INTEGER NOT NULL,
            confidence REAL NOT NULL,
            said INTEGER NOT NULL,
            valid_from INTEGER NOT NULL,
            valid_to INTEGER NOT NULL,
            recorded INTEGER NOT NULL,
            retired INTEGER,
            citation TEXT,
            outcome TEXT NOT NULL,
            UNIQUE (fact, name)
        )
        """,
        # Computed from the statements by `timeline()`.
        """
        CREATE TABLE chat_memory_periods (
            scope INTEGER NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            kind TEXT NOT NULL,
            fact INTEGER NOT NULL REFERENCES chat_memory_facts (key) ON DELETE CASCADE,
            begins INTEGER NOT NULL,
            ends INTEGER NOT NULL,
            statement INTEGER NOT NULL REFERENCES chat_memory_statements (key) ON DELETE CASCADE,
            PRIMARY KEY (fact, kind, begins)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX chat_memory_periods_scope ON chat_memory_periods (scope, kind, ends)",
        "CREATE INDEX chat_memory_periods_statement ON chat_memory_periods (statement)",
        """
        CREATE TABLE chat_memory_entities (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            scope INTEGER NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            id TEXT NOT NULL,
            name TEXT NOT NULL,
            type TEXT NOT NULL,
            properties TEXT NOT NULL,
            UNIQUE (scope, id)
        )
        """,
        """
        CREATE TABLE chat_memory_relations (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            scope INTEGER NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            source INTEGER NOT NULL REFERENCES chat_memory_entities (key) ON DELETE CASCADE,
            target INTEGER NOT NULL REFERENCES chat_memory_entities (key) ON DELETE CASCADE,
            type TEXT NOT NULL,
            label TEXT NOT NULL,
            UNIQUE (source, target, type, label)
        )
        """,
        "CREATE INDEX chat_memory_relations_target ON chat_memory_relations (target)",
        "CREATE INDEX chat_memory_relations_scope ON chat_memory_relations (scope)",
        """
        CREATE TABLE chat_memory_mentions (
            relation INTEGER NOT NULL REFERENCES chat_memory_relations (key) ON DELETE CASCADE,
            name TEXT NOT NULL,
            PRIMARY KEY (relation, name)
        ) WITHOUT ROWID
        """,
        # A link names an entity by its id, so that a fact may be stored before its entities.
        """
        CREATE TABLE chat_memory_links (
            scope INTEGER NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            fact INTEGER NOT NULL REFERENCES chat_memory_facts (key) ON DELETE CASCADE,
            entity TEXT NOT NULL,
            PRIMARY KEY (fact, entity)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX chat_memory_links_entity ON chat_memory_links (scope, entity)",
        """
        CREATE TABLE chat_memory_documents (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            scope INTEGER NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            kind TEXT NOT NULL,
            fact INTEGER UNIQUE REFERENCES chat_memory_facts (key) ON DELETE CASCADE,
            conversation TEXT,
            position INTEGER,
            speaker TEXT,
            said INTEGER,
            text TEXT NOT NULL,
            UNIQUE (scope, conversation, position, kind)
        )
        """,
        """
        CREATE TABLE chat_memory_vectors (
            document INTEGER NOT NULL REFERENCES chat_memory_documents (key) ON DELETE CASCADE,
            model TEXT NOT NULL,
            vector BLOB NOT NULL,
            PRIMARY KEY (document, model)
        ) WITHOUT ROWID
        """,
        # The scope is a word of each text, so that the index reads only the texts of one scope.
        """
        CREATE VIRTUAL TABLE chat_memory_texts USING fts5 (
            scope, text, content = 'chat_memory_documents', content_rowid = 'key',
            tokenize = 'porter unicode61 remove_diacritics 2'
        )
        """,
        """
        CREATE TRIGGER chat_memory_texts_insert AFTER INSERT ON chat_memory_documents
        BEGIN
            INSERT INTO chat_memory_texts (rowid, scope, text) VALUES (NEW.key, NEW.scope, NEW.text);
        END
        """,
        """
        CREATE TRIGGER chat_memory_texts_delete AFTER DELETE ON chat_memory_documents
        BEGIN
            INSERT INTO chat_memory_texts (chat_memory_texts, rowid, scope, text)
                VALUES ('delete', OLD.key, OLD.scope, OLD.text);
        END
        """,
        """
        CREATE TRIGGER chat_memory_texts_update AFTER UPDATE OF text ON chat_memory_documents
        BEGIN
            INSERT INTO chat_memory_texts (chat_memory_texts, rowid, scope, text)
                VALUES ('delete', OLD.key, OLD.scope, OLD.text);
            INSERT INTO chat_memory_texts (rowid, scope, text) VALUES (NEW.key, NEW.scope, NEW.text);
        END
        """,
    ),
    (
        """
        CREATE TABLE chat_memory_records (
            scope INTEGER NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            conversation TEXT NOT NULL,
            name TEXT NOT NULL,
            document TEXT NOT NULL,
            PRIMARY KEY (scope, conversation, name)
        ) WITHOUT ROWID
        """,
    ),
    (
        """
        CREATE TABLE chat_memory_blocks (
            scope INTEGER NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            name TEXT NOT NULL,
            text TEXT NOT NULL,
            PRIMARY KEY (scope, name)
        ) WITHOUT ROWID
        """,
    ),
    (
        # The embedders for which the table of missing vectors is complete.
        """
        CREATE TABLE chat_memory_models (
            scope INTEGER NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            model TEXT NOT NULL,
            PRIMARY KEY (scope, model)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE chat_memory_missing_vectors (
            scope INTEGER NOT NULL,
            model TEXT NOT NULL,
            document INTEGER NOT NULL REFERENCES chat_memory_documents (key) ON DELETE CASCADE,
            PRIMARY KEY (scope, model, document),
            FOREIGN KEY (scope, model) REFERENCES chat_memory_models (scope, model) ON DELETE CASCADE
        ) WITHOUT ROWID
        """,
        "CREATE INDEX chat_memory_missing_vectors_document ON chat_memory_missing_vectors (document)",
        """
        INSERT INTO chat_memory_models (scope, model) SELECT DISTINCT d.scope, v.model
            FROM chat_memory_vectors v JOIN chat_memory_documents d ON d.key = v.document
        """,
        """
        INSERT INTO chat_memory_missing_vectors (scope, model, document) SELECT m.scope, m.model, d.key
            FROM chat_memory_models m JOIN chat_memory_documents d ON d.scope = m.scope
            WHERE NOT EXISTS (SELECT 1 FROM chat_memory_vectors v WHERE v.document = d.key AND v.model = m.model)
        """,
        """
        CREATE TRIGGER chat_memory_vectors_of_new_document AFTER INSERT ON chat_memory_documents
        BEGIN
            INSERT INTO chat_memory_missing_vectors (scope, model, document)
                SELECT scope, model, NEW.key FROM chat_memory_models WHERE scope = NEW.scope;
        END
        """,
        """
        CREATE TRIGGER chat_memory_vectors_insert AFTER INSERT ON chat_memory_vectors
        BEGIN
            DELETE FROM chat_memory_missing_vectors WHERE document = NEW.document AND model = NEW.model;
        END
        """,
        # When a document is deleted, its vectors are deleted after it, and the query selects nothing.
        """
        CREATE TRIGGER chat_memory_vectors_delete AFTER DELETE ON chat_memory_vectors
        BEGIN
            INSERT INTO chat_memory_missing_vectors (scope, model, document)
                SELECT m.scope, m.model, d.key FROM chat_memory_documents d JOIN chat_memory_models m
                ON m.scope = d.scope AND m.model = OLD.model WHERE d.key = OLD.document;
        END
        """,
    ),
    (
        # The last change of each document that a search may find, including deleted ones. Document 0 stands for the
        # entities. A transaction increments the revision before or after it changes documents, so `revision + 1` is at
        # least the revision of the scope after the transaction.
        """
        CREATE TABLE chat_memory_changes (
            scope INTEGER NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            document INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            PRIMARY KEY (scope, document)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX chat_memory_changes_revision ON chat_memory_changes (scope, revision)",
        *_record_changes("documents", _CHANGED_DOCUMENT, "INSERT", "UPDATE", "DELETE"),
        *_record_changes("vectors", f"{_DOCUMENTS}d.key = ROW.document", "INSERT", "UPDATE", "DELETE"),
        *_record_changes("periods", f"{_DOCUMENTS}d.fact = ROW.fact", "INSERT", "DELETE"),
        *_record_changes("entities", _CHANGED_ENTITIES, "INSERT", "DELETE"),
    ),
)
"""The statements that upgrade version n to version n + 1. Times are microseconds since 1970-01-01 UTC."""
