"""The tables of a `PostgresStore`, as migrations from each version to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

MIGRATIONS: Sequence[Sequence[LiteralString]] = (
    (
        """
        CREATE TABLE chat_conversations (
            key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id TEXT COLLATE "C" NOT NULL UNIQUE,
            person TEXT COLLATE "C",
            born TEXT NOT NULL,
            entries BIGINT NOT NULL,
            revision BIGINT NOT NULL,
            fence BIGINT NOT NULL,
            holder TEXT NOT NULL,
            until BIGINT,
            due BIGINT,
            change XID8 NOT NULL
        )
        """,
        "CREATE INDEX chat_conversations_person ON chat_conversations (person)",
        "CREATE INDEX chat_conversations_due ON chat_conversations (due) WHERE due IS NOT NULL",
        "CREATE INDEX chat_conversations_moment ON chat_conversations (greatest(due, until)) WHERE due IS NOT NULL",
        "CREATE INDEX chat_conversations_change ON chat_conversations (change)",
        """
        CREATE TABLE chat_entries (
            conversation BIGINT NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            number BIGINT NOT NULL,
            entry BYTEA NOT NULL,
            PRIMARY KEY (conversation, number)
        )
        """,
        # A surrogate key, because the id of a call may be too long for an index.
        """
        CREATE TABLE chat_waits (
            key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            conversation BIGINT NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            tool TEXT COLLATE "C" NOT NULL,
            place BIGINT NOT NULL,
            kind TEXT NOT NULL,
            moment BIGINT,
            wait BYTEA NOT NULL
        )
        """,
        "CREATE INDEX chat_waits_conversation ON chat_waits (conversation)",
        "CREATE INDEX chat_waits_moment ON chat_waits (moment)",
    ),
    (
        # Checksums. They are NULL in rows of earlier versions.
        "ALTER TABLE chat_conversations ADD COLUMN crc BIGINT",
        "ALTER TABLE chat_entries ADD COLUMN crc BIGINT",
        "ALTER TABLE chat_waits ADD COLUMN crc BIGINT",
    ),
    (
        # Descriptions of conversations. They are NULL in rows of earlier versions.
        'ALTER TABLE chat_conversations ADD COLUMN owner TEXT COLLATE "C"',
        "ALTER TABLE chat_conversations ADD COLUMN title TEXT",
        "ALTER TABLE chat_conversations ADD COLUMN flow TEXT",
        "ALTER TABLE chat_conversations ADD COLUMN data BYTEA",
        "ALTER TABLE chat_conversations ADD COLUMN created BIGINT",
        "ALTER TABLE chat_conversations ADD COLUMN active BIGINT",
        "ALTER TABLE chat_conversations ADD COLUMN closed BIGINT",
        "ALTER TABLE chat_conversations ADD COLUMN meta_crc BIGINT",
        "CREATE INDEX chat_conversations_owner ON chat_conversations (owner, coalesce(active, 0))",
        """
        CREATE TABLE chat_jobs (
            key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            conversation BIGINT NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            kind TEXT COLLATE "C" NOT NULL,
            name TEXT COLLATE "C" NOT NULL,
            state TEXT NOT NULL,
            moment BIGINT NOT NULL,
            until BIGINT,
            job BYTEA NOT NULL,
            crc BIGINT NOT NULL,
            UNIQUE (kind, name)
        )
        """,
        "CREATE INDEX chat_jobs_moment ON chat_jobs (greatest(moment, until)) WHERE state = 'queued'",
        "CREATE INDEX chat_jobs_conversation ON chat_jobs (conversation)",
    ),
    (
        # A process of a version without checksums changes rows but not their checksums, which would then be wrong.
        """
        CREATE FUNCTION chat_remove_crc() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            NEW.crc := NULL;
            RETURN NEW;
        END $$
        """,
        """
        CREATE TRIGGER chat_conversations_crc BEFORE UPDATE ON chat_conversations FOR EACH ROW
        WHEN (NEW.crc IS NOT DISTINCT FROM OLD.crc AND
            (NEW.person, NEW.born, NEW.entries, NEW.revision, NEW.fence, NEW.holder, NEW.until, NEW.due)
            IS DISTINCT FROM
            (OLD.person, OLD.born, OLD.entries, OLD.revision, OLD.fence, OLD.holder, OLD.until, OLD.due))
        EXECUTE FUNCTION chat_remove_crc()
        """,
    ),
    (
        # Whether the entry has a snapshot: true or NULL.
        "ALTER TABLE chat_entries ADD COLUMN snapshot BOOLEAN",
        "CREATE INDEX chat_entries_snapshot ON chat_entries (conversation, number) WHERE snapshot IS NOT NULL",
    ),
    (
        # Not written to the write-ahead log: deltas are of no use after a crash of the server.
        """
        CREATE UNLOGGED TABLE chat_deltas (
            key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            conversation BIGINT NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            kind TEXT COLLATE "C" NOT NULL,
            name TEXT COLLATE "C" NOT NULL,
            fence BIGINT NOT NULL,
            step BIGINT NOT NULL,
            start BIGINT NOT NULL,
            pieces BYTEA NOT NULL
        )
        """,
        "CREATE INDEX chat_deltas_conversation ON chat_deltas (conversation)",
    ),
    (
        # Stores that read the deltas of a conversation.
        """
        CREATE UNLOGGED TABLE chat_delta_readers (
            conversation BIGINT NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            reader TEXT COLLATE "C" NOT NULL,
            until BIGINT NOT NULL,
            PRIMARY KEY (conversation, reader)
        )
        """,
    ),
)
"""The statements that upgrade version n to version n + 1.

Times are microseconds since 1970-01-01 UTC. The column `change` is the id of the transaction that last changed the
conversation. Transactions may commit out of order, so ids are compared with snapshots of the committed transactions.
"""
