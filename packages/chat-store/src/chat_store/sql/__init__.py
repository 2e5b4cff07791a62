"""Tools for stores in SQL databases, and for packages that keep other tables in the same database.

- `notify` wakes tasks when a database changes.
- `sqlite_migrations` and `postgres_migrations` create and upgrade tables.
- `sqlite_pool` provides connections to a SQLite file.
- `pool` provides connections to PostgreSQL. Like `postgres_migrations`, it requires the extra `chat-store[postgres]`.
- `values` converts times, names and waits to column values.
"""
