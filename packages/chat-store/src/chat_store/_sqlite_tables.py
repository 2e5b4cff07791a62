"""The tables of a `SqliteStore`, as migrations from each version to the next."""

from __future__ import annotations

from collections.abc import Sequence

MIGRATIONS: Sequence[Sequence[str]] = (
    (
        """
        CREATE TABLE chat_conversations (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            person TEXT,
            born TEXT NOT NULL,
            entries INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            fence INTEGER NOT NULL,
            holder TEXT NOT NULL,
            until INTEGER,
            due INTEGER
        )
        """,
        "CREATE INDEX chat_conversations_person ON chat_conversations (person)",
        "CREATE INDEX chat_conversations_due ON chat_conversations (due) WHERE due IS NOT NULL",
        """
        CREATE TABLE chat_entries (
            conversation INTEGER NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            entry BLOB NOT NULL,
            PRIMARY KEY (conversation, number)
        )
        """,
        """
        CREATE TABLE chat_waits (
            conversation INTEGER NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            tool TEXT NOT NULL,
            place INTEGER NOT NULL,
            kind TEXT NOT NULL,
            moment INTEGER,
            wait BLOB NOT NULL,
            PRIMARY KEY (conversation, tool, place)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX chat_waits_moment ON chat_waits (moment)",
    ),
    (
        # The last change number of all conversations is stored separately, because deleting a row removes its number.
        "CREATE TABLE chat_changes (last INTEGER NOT NULL)",
        "INSERT INTO chat_changes VALUES (0)",
        "ALTER TABLE chat_conversations ADD COLUMN change INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX chat_conversations_change ON chat_conversations (change)",
        """
        CREATE INDEX chat_conversations_moment ON chat_conversations (max(due, ifnull(until, due)))
        WHERE due IS NOT NULL
        """,
    ),
    (
        # Checksums. They are NULL in rows of earlier versions.
        "ALTER TABLE chat_conversations ADD COLUMN crc INTEGER",
        "ALTER TABLE chat_entries ADD COLUMN crc INTEGER",
        "ALTER TABLE chat_waits ADD COLUMN crc INTEGER",
    ),
    (
        # Descriptions of conversations. They are NULL in rows of earlier versions.
        "ALTER TABLE chat_conversations ADD COLUMN owner TEXT",
        "ALTER TABLE chat_conversations ADD COLUMN title TEXT",
        "ALTER TABLE chat_conversations ADD COLUMN flow TEXT",
        "ALTER TABLE chat_conversations ADD COLUMN data BLOB",
        "ALTER TABLE chat_conversations ADD COLUMN created INTEGER",
        "ALTER TABLE chat_conversations ADD COLUMN active INTEGER",
        "ALTER TABLE chat_conversations ADD COLUMN closed INTEGER",
        "ALTER TABLE chat_conversations ADD COLUMN meta_crc INTEGER",
        "CREATE INDEX chat_conversations_owner ON chat_conversations (owner, ifnull(active, 0))",
        """
        CREATE TABLE chat_jobs (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation INTEGER NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            state TEXT NOT NULL,
            moment INTEGER NOT NULL,
            until INTEGER,
            job BLOB NOT NULL,
            crc INTEGER NOT NULL,
            UNIQUE (kind, name)
        )
        """,
        "CREATE INDEX chat_jobs_moment ON chat_jobs (max(moment, ifnull(until, moment))) WHERE state = 'queued'",
        "CREATE INDEX chat_jobs_conversation ON chat_jobs (conversation)",
    ),
    (
        # A process of a version without checksums changes rows but not their checksums, which would then be wrong.
        """
        CREATE TRIGGER chat_conversations_crc
        AFTER UPDATE OF person, born, entries, revision, fence, holder, until, due ON chat_conversations
        WHEN NEW.crc IS OLD.crc AND
            (NEW.person, NEW.born, NEW.entries, NEW.revision, NEW.fence, NEW.holder, NEW.until, NEW.due) IS NOT
            (OLD.person, OLD.born, OLD.entries, OLD.revision, OLD.fence, OLD.holder, OLD.until, OLD.due)
        BEGIN
            UPDATE chat_conversations SET crc = NULL WHERE key = NEW.key;
        END
        """,
    ),
    (
        # Whether the entry has a snapshot: 1 or NULL.
        "ALTER TABLE chat_entries ADD COLUMN snapshot INTEGER",
        "CREATE INDEX chat_entries_snapshot ON chat_entries (conversation, number) WHERE snapshot IS NOT NULL",
    ),
    (
        """
        CREATE TABLE chat_deltas (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation INTEGER NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            fence INTEGER NOT NULL,
            step INTEGER NOT NULL,
            start INTEGER NOT NULL,
            pieces BLOB NOT NULL
        )
        """,
        "CREATE INDEX chat_deltas_conversation ON chat_deltas (conversation)",
    ),
    (
        # Stores that read the deltas of a conversation.
        """
        CREATE TABLE chat_delta_readers (
            conversation INTEGER NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            reader TEXT NOT NULL,
            until INTEGER NOT NULL,
            PRIMARY KEY (conversation, reader)
        )
        """,
    ),
)
"""The statements that upgrade version n to version n + 1. Times are microseconds since 1970-01-01 UTC."""
