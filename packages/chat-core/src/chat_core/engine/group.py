"""The task group of a run, which tells the consumer's errors as they are."""

from __future__ import annotations

from types import TracebackType
from typing import final

import anyio
from anyio.abc import TaskGroup


@final
class Group:
    """A task group whose block raises what was raised in it, not a group of it.

    Its tasks are cancelled when the block is left. They never raise, so there is nothing to be grouped.
    """

    __slots__ = ("_group",)

    async def __aenter__(self) -> TaskGroup:
        self._group = anyio.create_task_group()
        return await self._group.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        self._group.cancel_scope.cancel()
        cancelled = anyio.get_cancelled_exc_class()
        if error is None or isinstance(error, cancelled):
            return await self._group.__aexit__(kind, error, trace)
        if isinstance(error, BaseExceptionGroup):
            return await self._leave_with(kind, error, trace)  # pyright: ignore[reportUnknownArgumentType] - of any errors
        await self._group.__aexit__(None, None, None)
        return None

    async def _leave_with(
        self, kind: type[BaseException] | None, error: BaseException, trace: TracebackType | None
    ) -> bool | None:
        """Leave with a group that was made in the block, by a nursery there: cancellations in it may be of this one."""
        try:
            return await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            rest = group.exceptions[0]
        raise rest
