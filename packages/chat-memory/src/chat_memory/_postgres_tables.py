"""The migrations that create and upgrade the tables in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

MIGRATIONS: Sequence[Sequence[LiteralString]] = (
    (
        """
        CREATE TABLE chat_memory_scopes (
            key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            scope TEXT COLLATE "C" NOT NULL UNIQUE,
            revision BIGINT NOT NULL
        )
        """,
        'CREATE TABLE chat_memory_predicates (predicate TEXT COLLATE "C" PRIMARY KEY)',
        """
        INSERT INTO chat_memory_predicates VALUES ('likes'), ('dislikes'), ('uses'), ('knows'), ('speaks'), ('owns'),
            ('visited'), ('interested_in'), ('allergic_to')
        """,
        # `subject`, `predicate` and `object` are normalized here. Statements contain the original spelling.
        """
        CREATE TABLE chat_memory_facts (
            key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            scope BIGINT NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            id TEXT COLLATE "C" NOT NULL,
            subject TEXT COLLATE "C" NOT NULL,
            predicate TEXT COLLATE "C" NOT NULL,
            object TEXT COLLATE "C" NOT NULL,
            accessed BIGINT,
            accesses BIGINT NOT NULL DEFAULT 0,
            UNIQUE (scope, id)
        )
        """,
        "CREATE INDEX chat_memory_facts_place ON chat_memory_facts (scope, subject, predicate)",
        "CREATE INDEX chat_memory_facts_predicate ON chat_memory_facts (predicate)",
        """
        CREATE TABLE chat_memory_statements (
            key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            fact BIGINT NOT NULL REFERENCES chat_memory_facts (key) ON DELETE CASCADE,
            name TEXT COLLATE "C" NOT NULL,
            subject TEXT COLLATE "C" NOT NULL,
            predicate TEXT COLLATE "C" NOT NULL,
            object TEXT COLLATE "C" NOT NULL,
            text TEXT COLLATE "C" NOT NULL,
            source TEXT COLLATE "C" NOT NULL,
            rank BIGINT NOT NULL,
            confidence DOUBLE PRECISION NOT NULL,
            said BIGINT NOT NULL,
            valid_from BIGINT NOT NULL,
            valid_to BIGINT NOT NULL,
            recorded BIGINT NOT NULL,
            retired BIGINT,
            citation TEXT COLLATE "C",
            outcome TEXT COLLATE "C" NOT NULL,
            UNIQUE (fact, name)
        )
        """,
        # Computed from the statements by `timeline()`.
        """
        CREATE TABLE chat_memory_periods (
            scope BIGINT NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            kind TEXT COLLATE "C" NOT NULL,
            fact BIGINT NOT NULL REFERENCES chat_memory_facts (key) ON DELETE CASCADE,
            begins BIGINT NOT NULL,
            ends BIGINT NOT NULL,
            statement BIGINT NOT NULL REFERENCES chat_memory_statements (key) ON DELETE CASCADE,
            PRIMARY KEY (fact, kind, begins)
        )
        """,
        "CREATE INDEX chat_memory_periods_scope ON chat_memory_periods (scope, kind, ends)",
        "CREATE INDEX chat_memory_periods_statement ON chat_memory_periods (statement)",
        """
        CREATE TABLE chat_memory_entities (
            key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            scope BIGINT NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            id TEXT COLLATE "C" NOT NULL,
            name TEXT COLLATE "C" NOT NULL,
            type TEXT COLLATE "C" NOT NULL,
            properties TEXT COLLATE "C" NOT NULL,
            UNIQUE (scope, id)
        )
        """,
        """
        CREATE TABLE chat_memory_relations (
            key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            scope BIGINT NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            source BIGINT NOT NULL REFERENCES chat_memory_entities (key) ON DELETE CASCADE,
            target BIGINT NOT NULL REFERENCES chat_memory_entities (key) ON DELETE CASCADE,
            type TEXT COLLATE "C" NOT NULL,
            label TEXT COLLATE "C" NOT NULL,
            UNIQUE (source, target, type, label)
        )
        """,
        "CREATE INDEX chat_memory_relations_target ON chat_memory_relations (target)",
        "CREATE INDEX chat_memory_relations_scope ON chat_memory_relations (scope)",
        """
        CREATE TABLE chat_memory_mentions (
            relation BIGINT NOT NULL REFERENCES chat_memory_relations (key) ON DELETE CASCADE,
            name TEXT COLLATE "C" NOT NULL,
            PRIMARY KEY (relation, name)
        )
        """,
        # A link names an entity by its id, so that a fact may be stored before its entities.
        """
        CREATE TABLE chat_memory_links (
            scope BIGINT NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            fact BIGINT NOT NULL REFERENCES chat_memory_facts (key) ON DELETE CASCADE,
            entity TEXT COLLATE "C" NOT NULL,
            PRIMARY KEY (fact, entity)
        )
        """,
        "CREATE INDEX chat_memory_links_entity ON chat_memory_links (scope, entity)",
        """
        CREATE TABLE chat_memory_documents (
            key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            scope BIGINT NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            kind TEXT COLLATE "C" NOT NULL,
            fact BIGINT UNIQUE REFERENCES chat_memory_facts (key) ON DELETE CASCADE,
            conversation TEXT COLLATE "C",
            position BIGINT,
            speaker TEXT COLLATE "C",
            said BIGINT,
            text TEXT COLLATE "C" NOT NULL,
            words TSVECTOR GENERATED ALWAYS AS
                (to_tsvector('english', text) || array_to_tsvector(ARRAY['scope' || scope::text])) STORED,
            UNIQUE (scope, conversation, position, kind)
        )
        """,
        """
        CREATE TABLE chat_memory_vectors (
            document BIGINT NOT NULL REFERENCES chat_memory_documents (key) ON DELETE CASCADE,
            model TEXT COLLATE "C" NOT NULL,
            vector BYTEA NOT NULL,
            PRIMARY KEY (document, model)
        )
        """,
        "CREATE INDEX chat_memory_texts ON chat_memory_documents USING gin (words)",
        "CREATE INDEX chat_memory_documents_scope ON chat_memory_documents (scope)",
    ),
    (
        """
        CREATE TABLE chat_memory_records (
            scope BIGINT NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            conversation TEXT COLLATE "C" NOT NULL,
            name TEXT COLLATE "C" NOT NULL,
            document TEXT COLLATE "C" NOT NULL,
            PRIMARY KEY (scope, conversation, name)
        )
        """,
    ),
    (
        """
        CREATE TABLE chat_memory_blocks (
            scope BIGINT NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            name TEXT COLLATE "C" NOT NULL,
            text TEXT COLLATE "C" NOT NULL,
            PRIMARY KEY (scope, name)
        )
        """,
    ),
    (
        # The embedders for which the table of missing vectors is complete.
        """
        CREATE TABLE chat_memory_models (
            scope BIGINT NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            model TEXT COLLATE "C" NOT NULL,
            PRIMARY KEY (scope, model)
        )
        """,
        """
        CREATE TABLE chat_memory_missing_vectors (
            scope BIGINT NOT NULL,
            model TEXT COLLATE "C" NOT NULL,
            document BIGINT NOT NULL REFERENCES chat_memory_documents (key) ON DELETE CASCADE,
            PRIMARY KEY (scope, model, document),
            FOREIGN KEY (scope, model) REFERENCES chat_memory_models (scope, model) ON DELETE CASCADE
        )
        """,
        "CREATE INDEX chat_memory_missing_vectors_document ON chat_memory_missing_vectors (document)",
        # A writer with an earlier version of this library may be active.
        "LOCK TABLE chat_memory_documents, chat_memory_vectors IN SHARE ROW EXCLUSIVE MODE",
        """
        INSERT INTO chat_memory_models (scope, model) SELECT DISTINCT d.scope, v.model
            FROM chat_memory_vectors v JOIN chat_memory_documents d ON d.key = v.document
        """,
        """
        INSERT INTO chat_memory_missing_vectors (scope, model, document) SELECT m.scope, m.model, d.key
            FROM chat_memory_models m JOIN chat_memory_documents d ON d.scope = m.scope
            WHERE NOT EXISTS (SELECT 1 FROM chat_memory_vectors v WHERE v.document = d.key AND v.model = m.model)
        """,
        # The functions keep the search path, so that they find the tables when an administrator deletes rows.
        """
        CREATE FUNCTION chat_memory_new_document() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
        BEGIN
            INSERT INTO chat_memory_missing_vectors (scope, model, document)
                SELECT scope, model, NEW.key FROM chat_memory_models WHERE scope = NEW.scope;
            RETURN NULL;
        END $$
        """,
        """
        CREATE TRIGGER chat_memory_vectors_of_new_document AFTER INSERT ON chat_memory_documents
            FOR EACH ROW EXECUTE FUNCTION chat_memory_new_document()
        """,
        """
        CREATE FUNCTION chat_memory_new_vector() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
        BEGIN
            DELETE FROM chat_memory_missing_vectors WHERE document = NEW.document AND model = NEW.model;
            RETURN NULL;
        END $$
        """,
        """
        CREATE TRIGGER chat_memory_vectors_insert AFTER INSERT ON chat_memory_vectors
            FOR EACH ROW EXECUTE FUNCTION chat_memory_new_vector()
        """,
        # When a document is deleted, its vectors are deleted after it, and the query selects nothing.
        """
        CREATE FUNCTION chat_memory_old_vector() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
        BEGIN
            INSERT INTO chat_memory_missing_vectors (scope, model, document)
                SELECT m.scope, m.model, d.key FROM chat_memory_documents d JOIN chat_memory_models m
                ON m.scope = d.scope AND m.model = OLD.model WHERE d.key = OLD.document;
            RETURN NULL;
        END $$
        """,
        """
        CREATE TRIGGER chat_memory_vectors_delete AFTER DELETE ON chat_memory_vectors
            FOR EACH ROW EXECUTE FUNCTION chat_memory_old_vector()
        """,
    ),
    (
        # The last change of each document that a search may find, including deleted ones. Document 0 stands for the
        # entities. A transaction increments the revision before or after it changes documents, so `revision + 1` is at
        # least the revision of the scope after the transaction.
        """
        CREATE TABLE chat_memory_changes (
            scope BIGINT NOT NULL REFERENCES chat_memory_scopes (key) ON DELETE CASCADE,
            document BIGINT NOT NULL,
            revision BIGINT NOT NULL,
            PRIMARY KEY (scope, document)
        )
        """,
        "CREATE INDEX chat_memory_changes_revision ON chat_memory_changes (scope, revision)",
        """
        CREATE FUNCTION chat_memory_changed_document() RETURNS trigger
            LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
        BEGIN
            INSERT INTO chat_memory_changes (scope, document, revision)
                SELECT s.key, coalesce(NEW.key, OLD.key), s.revision + 1
                FROM chat_memory_scopes s WHERE s.key = coalesce(NEW.scope, OLD.scope)
                ON CONFLICT (scope, document) DO UPDATE SET revision = excluded.revision;
            RETURN NULL;
        END $$
        """,
        """
        CREATE TRIGGER chat_memory_changes_documents AFTER INSERT OR UPDATE OR DELETE ON chat_memory_documents
            FOR EACH ROW EXECUTE FUNCTION chat_memory_changed_document()
        """,
        """
        CREATE FUNCTION chat_memory_changed_vector() RETURNS trigger
            LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
        BEGIN
            INSERT INTO chat_memory_changes (scope, document, revision)
                SELECT s.key, d.key, s.revision + 1
                FROM chat_memory_documents d JOIN chat_memory_scopes s ON s.key = d.scope
                WHERE d.key = coalesce(NEW.document, OLD.document)
                ON CONFLICT (scope, document) DO UPDATE SET revision = excluded.revision;
            RETURN NULL;
        END $$
        """,
        """
        CREATE TRIGGER chat_memory_changes_vectors AFTER INSERT OR UPDATE OR DELETE ON chat_memory_vectors
            FOR EACH ROW EXECUTE FUNCTION chat_memory_changed_vector()
        """,
        """
        CREATE FUNCTION chat_memory_changed_period() RETURNS trigger
            LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
        BEGIN
            INSERT INTO chat_memory_changes (scope, document, revision)
                SELECT s.key, d.key, s.revision + 1
                FROM chat_memory_documents d JOIN chat_memory_scopes s ON s.key = d.scope
                WHERE d.fact = coalesce(NEW.fact, OLD.fact)
                ON CONFLICT (scope, document) DO UPDATE SET revision = excluded.revision;
            RETURN NULL;
        END $$
        """,
        """
        CREATE TRIGGER chat_memory_changes_periods AFTER INSERT OR DELETE ON chat_memory_periods
            FOR EACH ROW EXECUTE FUNCTION chat_memory_changed_period()
        """,
        """
        CREATE FUNCTION chat_memory_changed_entity() RETURNS trigger
            LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
        BEGIN
            INSERT INTO chat_memory_changes (scope, document, revision)
                SELECT s.key, 0, s.revision + 1
                FROM chat_memory_scopes s WHERE s.key = coalesce(NEW.scope, OLD.scope)
                ON CONFLICT (scope, document) DO UPDATE SET revision = excluded.revision;
            RETURN NULL;
        END $$
        """,
        """
        CREATE TRIGGER chat_memory_changes_entities AFTER INSERT OR DELETE ON chat_memory_entities
            FOR EACH ROW EXECUTE FUNCTION chat_memory_changed_entity()
        """,
    ),
)
"""The statements that upgrade version n to version n + 1. Times are microseconds since 1970-01-01 UTC."""
