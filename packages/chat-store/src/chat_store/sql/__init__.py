"""What stores in SQL databases share, and what other packages that keep tables beside theirs may use.

- `notify` wakes tasks when a database changes.
- `sqlite_migrations` and `postgres_migrations` bring tables to a version.
- `pool` keeps connections to PostgreSQL. Like `postgres_migrations`, it needs the extra `chat-store[postgres]`.
- `values` converts times, names and waits to columns.
"""
