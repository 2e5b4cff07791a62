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
        # The name of a call may be longer than what an index takes.
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
)
"""The statements that make version n + 1 out of version n.

Times are microseconds since 1970, in UTC. The column `change` has the number of the transaction that last changed the
conversation. Transactions do not end in the order in which they began, and a snapshot knows which ones it has seen.
"""
