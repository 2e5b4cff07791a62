"""Paused conversations of chat-core as durable workflows of DBOS: woken by a decision or by a time, on any worker."""

__all__: list[str] = []
