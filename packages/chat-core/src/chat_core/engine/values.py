"""Values for the injected parameters of tools: passed to the run, or created by the chat's factories.

One task creates all values in the order of their factories, keeps them open, and closes them in the reverse order. A
context manager is therefore entered and exited in the same task, as libraries with task groups and cancel scopes
require. The task is shielded from cancellation while it closes the values.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast, final

import anyio
from anyio import CancelScope

from chat_core.concurrency import is_cancelled
from chat_core.errors import UsageError
from chat_core.run_context import RunContext, Values, type_name

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from chat_core.tools.chat_tools import ChatTools

_LOG = logging.getLogger("chat_core")


@final
class RunValues:
    """The values of a run by type. `open()` creates the values, and `aclose()` closes them."""

    def __init__(self, tools: ChatTools[Any], injected: Mapping[Any, object], outer: Values | None = None) -> None:
        """Prepare the values without calling any factory.

        Args:
            tools: tools and factories of the chat.
            injected: values passed to the outermost run. They replace the factories of their types.
            outer: values of the outer run, for a chat inside another chat. The factories of the chat take precedence.
        """
        self._injected = injected
        self._factories = {kind: make for kind, make in tools.factories.items() if kind not in injected}
        self._items: dict[Any, object] = {**({} if outer is None else outer.items()), **injected}
        self._inner: dict[str, tuple[RunContext, RunValues]] = {}
        self._group: TaskGroup | None = None
        self._opened = anyio.Event()
        self._closing = anyio.Event()
        self._ended = anyio.Event()
        self._opening = CancelScope()
        self._started = False
        self._error: BaseException | None = None
        self._reason: BaseException | None = None

    async def open(self, context: RunContext, group: TaskGroup | None) -> RunContext:
        """Call the factories, and return a copy of `context` that contains the values.

        Args:
            context: context of the run, passed to the factories.
            group: task group of the run. It may be None if there are no factories.

        Raises:
            BaseException: a factory raised this exception. The values created before it are closed.
        """
        context = replace(context, values=Values(self._items))
        self._group = group
        if self._factories:
            assert group is not None  # noqa: S101 - a run with factories has one
            self._started = True
            group.start_soon(self._keep_values_open, context)
            await self._opened.wait()
            if self._error is not None:
                raise self._error
        return context

    async def inner(self, tool_id: str, tools: ChatTools[Any], context: RunContext) -> RunContext:
        """Return the run context of an inner chat. Its values are created only on the first call.

        Call `close_inner()` to close these values.

        Args:
            tool_id: ID of the tool call that runs the inner chat.
            tools: tools and factories of the inner chat.
            context: context of this run.
        """
        if not tools.uses_values:
            return context
        found = self._inner.get(tool_id)
        if found is None:
            values = RunValues(tools, self._injected, context.values)
            try:
                found = await values.open(context, self._group), values
            except BaseException:
                await values.aclose(None)
                raise
            self._inner[tool_id] = found
        return found[0]

    def inner_values(self, tool_id: str) -> RunValues:
        """Return the values of an inner chat, or the values of this run if the inner chat has created none."""
        found = self._inner.get(tool_id)
        return self if found is None else found[1]

    async def close_inner(self, tool_id: str, error: BaseException | None) -> None:
        """Close the separate values of an inner chat, if it has created any.

        Args:
            tool_id: ID of the tool call that ran the inner chat.
            error: exception that ended the inner chat, or `None`.
        """
        found = self._inner.pop(tool_id, None)
        if found is not None:
            await found[1].aclose(error)

    async def aclose(self, error: BaseException | None) -> None:
        """Close the values of inner chats and of this run. Context managers receive `error` on exit.

        If the run has failed, an exception raised by a context manager is only logged, because the run raises `error`.

        Args:
            error: exception that ended the run, or `None`.
        """
        failed = self._error is not None
        with CancelScope(shield=True):
            for tool_id in [*self._inner]:
                await self.close_inner(tool_id, error)
            if not self._started:
                return
            self._started = False
            self._reason = error
            if not self._opened.is_set():
                # The run was cancelled while a factory was running.
                self._opening.cancel()
            self._closing.set()
            await self._ended.wait()
        if self._error is None or failed:
            return
        if error is None:
            raise self._error
        _LOG.warning("failed to close the values of a run that had failed", exc_info=self._error)

    async def _keep_values_open(self, context: RunContext) -> None:
        try:
            with self._opening, CancelScope() as shield:
                await self._open_and_close_values(context, shield)
        finally:
            self._opened.set()
            self._ended.set()

    async def _open_and_close_values(self, context: RunContext, shield: CancelScope) -> None:
        stack = AsyncExitStack()
        await stack.__aenter__()
        reason: BaseException | None = None
        try:
            for kind, factory in self._factories.items():
                self._items[kind] = await _open_value(kind, factory(context), stack)
        except anyio.get_cancelled_exc_class() as error:
            reason = self._error = error
            if not is_cancelled():
                self._error = UsageError(
                    "a factory of with_values() was cancelled, but not by the run: cancel only tasks that it started"
                )
        except BaseException as error:  # noqa: BLE001 - `open()` raises it
            reason = self._error = error
        # From here on, `aclose()` closes the values, even if the run is cancelled.
        shield.shield = True
        if reason is None:
            self._opened.set()
            await self._closing.wait()
            reason = self._reason
        try:
            if reason is None:
                await stack.__aexit__(None, None, None)
            else:
                await stack.__aexit__(type(reason), reason, reason.__traceback__)
        except BaseException as error:  # noqa: BLE001 - `aclose()` raises it
            if error is not reason:
                self._error = self._error or error


async def _open_value(kind: Any, made: object, stack: AsyncExitStack) -> object:  # noqa: ANN401 - any type
    """Return the value of a factory after awaiting it or entering it as a context manager, if necessary.

    Args:
        kind: type of the value.
        made: the value, an awaitable or an async context manager, as returned by the factory.
        stack: exit stack that enters the context manager.
    """
    value = made
    if not _is_instance(made, kind, default=False):
        if isinstance(made, AbstractAsyncContextManager):
            value = await stack.enter_async_context(cast("AbstractAsyncContextManager[object]", made))
        elif inspect.isawaitable(made):
            value = await made
    _require_value(kind, value, f"the factory of {type_name(kind)}")
    return value


def require_values(required: Sequence[tuple[str, Any]], injected: Mapping[Any, object]) -> None:
    """Check that a run has a value for each injected parameter, and that each value has the right type.

    Args:
        required: pairs of a tool name and a type that the tool needs, except types that factories create.
        injected: values passed to the run, by type.

    Raises:
        UsageError: a value is missing, or has another type.
    """
    for tool, kind in required:
        if kind not in injected:
            name = type_name(kind)
            msg = (
                f"the tool {tool!r} needs a value of the type {name}: call with_values({name}, factory) on the "
                f"builder, or pass inject={{{name}: ...}} to the run"
            )
            raise UsageError(msg)
    for kind, value in injected.items():
        _require_value(kind, value, f"inject[{type_name(kind)}]")


def _require_value(kind: Any, value: object, source: str) -> None:  # noqa: ANN401 - any type
    """Raise `UsageError` if a value has the wrong type. Types that `isinstance()` cannot check are accepted.

    Args:
        kind: the expected type.
        value: the value to check. The error message shows only its class.
        source: origin of the value, for the error message.

    Raises:
        UsageError: the value has another type.
    """
    if not _is_instance(value, kind, default=True):
        msg = f"{source} must provide a value of the type {type_name(kind)}, not {type(value).__name__}"
        raise UsageError(msg)


def _is_instance(value: object, kind: Any, *, default: bool) -> bool:  # noqa: ANN401 - any type
    """Return whether a value has the type `kind`, or `default` if `isinstance()` does not support the type."""
    try:
        return isinstance(value, kind)
    except TypeError:
        return default
