"""A PostgreSQL schema for one test, and a separate connection to it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
from chat_store.postgres import PostgresBackend, PostgresStore
from chat_store.testing.postgres_server import PostgresServer
from psycopg import sql

BOUND = 120


class Database:
    """A schema for one test, and a separate connection to it."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.dsn = server.dsn
        self.schema = f"Of a test; {uuid4().hex[:8]}"

    def store(self, *, schema: str = "", busy_seconds: float = 10.0, connections: int = 10) -> PostgresStore:
        return PostgresStore(self.dsn, schema=schema or self.schema, busy_seconds=busy_seconds, connections=connections)

    def backend(self, *, busy_seconds: float = 10.0, connections: int = 10) -> PostgresBackend:
        return PostgresBackend(self.dsn, self.schema, busy_seconds, connections)

    def execute(self, query: str, *values: object) -> list[tuple[object, ...]]:
        with psycopg.connect(self.dsn, options="-c search_path=") as connection:
            connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self.schema)))
            cursor = connection.execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def holding(self, query: str) -> Generator[int]:
        """Return a context in which another transaction is open. It provides the process id of its connection."""
        with psycopg.connect(self.dsn) as connection:
            connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self.schema)))
            connection.execute(query.encode())
            yield connection.info.backend_pid
            connection.rollback()

    def end_connections(self, last: str = "%") -> int:
        """Close the connections of the stores, as a server does that restarts."""
        query = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'chat-store' AND query LIKE %s"
        )
        return len(self.execute(query, last))
