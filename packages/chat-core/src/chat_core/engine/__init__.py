"""The engine that executes the runs of a chat, both for `complete()` and for `stream()`."""
