"""The loop: one engine for `complete()` and `stream()`."""
