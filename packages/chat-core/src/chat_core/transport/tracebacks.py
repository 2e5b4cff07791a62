"""Removal of stack frames from errors, because their local variables may hold credentials."""

from __future__ import annotations

from typing import cast


def drop_frames(error: BaseException) -> None:
    """Remove the tracebacks of an error and of its causes, contexts and group members.

    Error trackers record the local variables of each frame. In an HTTP library, these variables hold the headers and
    the URL of the request, with its credentials. The exceptions themselves, with their messages, are kept.
    """
    waiting = [error]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        current.__traceback__ = None
        waiting += [linked for linked in (current.__cause__, current.__context__) if linked is not None]
        if isinstance(current, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", current).exceptions
