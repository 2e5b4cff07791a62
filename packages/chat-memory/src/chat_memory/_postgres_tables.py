"""The tables in PostgreSQL, as migrations from each version to the next."""

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
)
"""The statements that upgrade version n to version n + 1. Times are microseconds since 1970-01-01 UTC."""
