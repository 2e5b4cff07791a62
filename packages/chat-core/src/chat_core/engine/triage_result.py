"""The result of a triage: ready, resolved, waiting and blocked tool calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, final

from typing_extensions import TypeVar

from chat_core.errors import PolicyError, ToolMissingError
from chat_core.messages import Data, Interrupted, Messages, Pending, Tool
from chat_core.response import Paused, Wait
from chat_core.tools.definition import ToolDefinition

PauseT = TypeVar("PauseT", bound=Paused)


@final
class ReadyCall:
    """A tool call that may run, with its validated arguments.

    Attributes:
        revision: revision of the call at its triage. A call whose revision has changed is left to the next pass.
        raised: exception that the tool function raised, or a `TimeoutError` after a timeout. The model receives its
            message.
        began: whether the tool function may have been called.
        data: data that the tool function returned for the application.
    """

    __slots__ = ("arguments", "began", "data", "definition", "raised", "revision", "tool")

    def __init__(self, tool: Tool, definition: ToolDefinition, arguments: Mapping[str, object]) -> None:
        self.tool: Tool = tool
        self.definition: ToolDefinition = definition
        self.arguments: Mapping[str, object] = arguments
        self.revision: int = tool.revision
        self.raised: BaseException | None = None
        self.began: bool = False
        self.data: tuple[Data, ...] = ()


@final
@dataclass(slots=True)
class TriageResult(Generic[PauseT]):
    """The result of a triage: calls to run and resolved calls in order, and pauses for the waiting calls.

    If `error` is set, no call may run. The error is raised after the events of resolved calls are delivered. `blocked`
    maps the ID of each blocked call to the exception of its strategy or grant rule, or to a `ToolMissingError`. Blocked
    calls do not run, and the other calls run.
    """

    ready: list[ReadyCall] = field(default_factory=list[ReadyCall])
    resolved: list[Tool] = field(default_factory=list[Tool])
    resolved_inside: list[tuple[tuple[str, ...], Tool]] = field(default_factory=list[tuple[tuple[str, ...], Tool]])
    """Calls that were resolved inside inner chats that do not start, each with the path of its chat."""
    pauses: dict[str, PauseT] = field(default_factory=dict[str, PauseT])
    blocked: dict[str, BaseException] = field(default_factory=dict[str, BaseException])
    error: Exception | None = None
    _blocked_revisions: dict[str, int] = field(default_factory=dict[str, int], init=False)

    def block(self, tool: Tool, error: BaseException) -> None:
        """Block a call, which then does not run in this pass.

        Args:
            tool: the call.
            error: the exception of its strategy or of a grant rule, or a `ToolMissingError`.
        """
        self.blocked[tool.id] = error
        self._blocked_revisions[tool.id] = tool.revision

    def is_outdated(self, messages: Messages, pause: Paused | None) -> bool:
        """Return whether another process has decided a waiting or blocked call since the triage.

        Args:
            messages: the conversation.
            pause: the combined pause of all calls that waited, or `None` if no call waited.
        """
        waits = () if pause is None else pause.waiting
        return not all(still_waits(messages, wait) for wait in waits) or any(
            messages.tool(tool_id).revision != self._blocked_revisions[tool_id] for tool_id in self.blocked
        )

    def startable(self, tools: Sequence[Tool]) -> list[ReadyCall]:
        """Return the calls to run, up to the first sequential call that follows a waiting or blocked call.

        Args:
            tools: all triaged calls, in the order in which the model made them.
        """
        if not self.pauses and not self.blocked:
            return [*self.ready]
        order = {tool.id: index for index, tool in enumerate(tools)}
        first_wait = min([order[waiting] for waiting in (*self.pauses, *self.blocked)])
        found: list[ReadyCall] = []
        for ready in self.ready:
            if ready.definition.sequential and order[ready.tool.id] > first_wait:
                break
            found.append(ready)
        return found


def join_pauses(pauses: Mapping[str, PauseT], ids: Iterable[str]) -> PauseT | None:
    """Combine the pauses of waiting calls into one pause. Return `None` if no call waits.

    Args:
        pauses: pauses by call ID.
        ids: call IDs in the order of the waits in the result. Calls without a pause are skipped.
    """
    joined: PauseT | None = None
    for pause in [pauses[tool_id] for tool_id in ids if tool_id in pauses]:
        joined = pause if joined is None else joined.join(pause)
    return joined


def missing_tool(name: str) -> ToolMissingError:
    """Return the `ToolMissingError` that blocks calls of the unknown tool `name`."""
    return ToolMissingError(f"the chat has no tool {name!r}", (), [name])


def causes_inside(error: PolicyError | ToolMissingError, tool_id: str) -> dict[str, BaseException]:
    """Return the exceptions that block calls of an inner chat, by the paths of these calls in the outer chat.

    Args:
        error: error that ended the inner chat.
        tool_id: ID of the tool call that runs the inner chat.
    """
    ids = [f"{tool_id}/{item}" for item in error.tool_ids]
    if isinstance(error, ToolMissingError):
        return dict(zip(ids, map(missing_tool, error.tool_names), strict=True))
    return dict.fromkeys(ids, error.__cause__ or error)


def blocked_error(causes: Mapping[str, BaseException]) -> PolicyError | ToolMissingError:
    """Return the error that ends a run with blocked calls. Errors of policies take precedence.

    Args:
        causes: the exception of the policy or a `ToolMissingError` for each blocked call, by call ID.
    """
    unchanged = "they and their decisions are unchanged"
    missing = {tool_id: cause for tool_id, cause in causes.items() if isinstance(cause, ToolMissingError)}
    if raised := {tool_id: cause for tool_id, cause in causes.items() if tool_id not in missing}:
        first = next(iter(raised.values()))
        msg = (
            f"a policy or a grant rule raised {type(first).__name__} on {len(raised)} call(s) that wait or were "
            f"decided ({', '.join(raised)}); {unchanged}: correct the function and run again"
        )
        error = PolicyError(msg, [*raised])
        error.__cause__ = first
        return error
    names = [cause.tool_names[0] for cause in missing.values()]
    listed = ", ".join([repr(name) for name in dict.fromkeys(names)])
    msg = (
        f"the chat has no tool {listed} for {len(missing)} call(s) that wait or were decided ({', '.join(missing)}); "
        f"{unchanged}: add the tool and run again, or call messages.cancel_pending(reason)"
    )
    return ToolMissingError(msg, [*missing], names)


def still_waits(messages: Messages, wait: Wait) -> bool:
    """Return whether a call that was waiting during the triage still waits.

    Args:
        messages: the conversation.
        wait: the wait that the triage reported for the call.
    """
    try:
        return isinstance(messages.tool(*wait.path).status, (Pending, Interrupted))
    except KeyError:
        # The inner chat of the call was cancelled.
        return False
