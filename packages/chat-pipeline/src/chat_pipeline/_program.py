"""Programs that a model writes and a sandbox runs, and the provider that turns their function calls into tool calls.

The program has its own conversation, which records the execution: the first message is the program, each model turn
contains the calls that the program makes at the same time, and the last model turn contains the outcome. To resume, the
program is run again from the start and receives the recorded results. The clock and the random numbers are fixed, so
the program makes the same calls again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeAlias, cast, final

from chat_core import Completed, Failed, Messages, Rejected, Tool
from chat_core.concurrency import finish_in_thread
from chat_core.errors import UsageError
from chat_core.json import JsonValue, find_fault
from chat_core.messages import FunctionCall, Text, Turn
from chat_core.options import ChatOptions
from chat_core.provider import OutputSchema, ProviderMeta, ToolDeclaration, ToolDeclarations
from chat_core.usage import Metadata

from chat_pipeline.errors import ProgramError

if TYPE_CHECKING:
    from pydantic_monty import (
        CollectString,
        ExternalSettledResult,
        FunctionSnapshot,
        MontySession,
        ResourceLimits,
        SyncSnapshot,
    )


MAX_LEVELS: Final = 100
"""Maximum nesting of arguments and results."""
_MAX_ERROR: Final = 2_000
"""Maximum length of an error message for the model, in characters."""
_MAX_SHOWN: Final = 500
"""Maximum length of the calls in an error message, in characters."""
_CLOCK: Final = datetime(2000, 1, 1, tzinfo=UTC)
_FINISH_SECONDS: Final = 1.0
"""Seconds until the process of the sandbox is killed, after its program exceeded the time limit and did not stop."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """Limits of each program.

    Attributes:
        calls: maximum number of tool calls.
        seconds: maximum computing time, without the time of tool calls. The time starts again when a program is
            resumed.
        memory_bytes: maximum memory.
        argument_bytes: maximum size of the arguments of all calls together, as JSON.
        output_bytes: maximum size of the printed text, and of the result as JSON.
        program_chars: maximum length of the program, in characters.
    """

    calls: int = 50
    seconds: float = 5.0
    memory_bytes: int = 64 * 1024 * 1024
    argument_bytes: int = 1024 * 1024
    output_bytes: int = 64 * 1024
    program_chars: int = 32_000

    def __post_init__(self) -> None:
        for name in ("calls", "seconds", "memory_bytes", "argument_bytes", "output_bytes", "program_chars"):
            value: object = getattr(self, name)
            kinds = (int, float) if name == "seconds" else int
            if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < math.inf:
                kind = "number" if name == "seconds" else "integer"
                msg = f"CodeLimits({name}=...) needs a finite {kind} above 0, not {value!r}"
                raise UsageError(msg)


@final
@dataclass(frozen=True, slots=True)
class CalledFunction:
    """A call that the program makes.

    Attributes:
        name: name of the tool.
        arguments: the arguments, as JSON.
    """

    name: str
    arguments: Mapping[str, object]


@final
@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a program that has ended.

    Attributes:
        result: value of the last expression or of the `return` statement, as JSON.
        printed: printed text.
        error: message if the program failed, otherwise None.
    """

    result: JsonValue = None
    printed: str = ""
    error: str | None = None


Calls: TypeAlias = tuple[CalledFunction, ...]


@final
class Program:
    """A program that runs in its own sandbox process.

    Args:
        source: Python source code of the program.
        tools: declarations of the tools that the program may call, by function name.
        limits: limits of the program.
        inputs: JSON values of the program's variables, by name.
    """

    def __init__(
        self,
        source: str,
        tools: Mapping[str, ToolDeclaration],
        limits: CodeLimits,
        inputs: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self._inputs = dict(inputs or {})
        self._source = source
        self._tools = tools
        self._limits = limits
        self._stack = ExitStack()
        self._printed: CollectString | None = None
        self._snapshot: SyncSnapshot | None = None
        self._open: dict[int, CalledFunction] = {}
        self._made = 0
        self._argument_bytes = 0
        self._fed = 0
        self._ended: Ended | None = None

    def close(self) -> None:
        """End the process of the sandbox. Does nothing if the process has ended."""
        self._stack.close()
        self._snapshot = None

    def advance(self, steps: Sequence[Sequence[Tool]]) -> Calls | Ended:
        """Run the program until its next calls or its end. This blocks the thread while the program computes.

        Args:
            steps: the recorded calls of all steps, with their results. Steps that this object has not run yet are
                replayed: the program must make exactly the recorded calls. The replay ends at calls without a result.
        """
        try:
            return self._advance(steps)
        except ProgramError as error:
            self._ended = Ended(printed=self._printed_output(), error=str(error))
        except Exception as error:  # noqa: BLE001 - the interpreter raises errors of its own, and of the program
            self._ended = Ended(printed=self._printed_output(), error=_describe_error(error))
        self.close()
        return self._ended

    def _advance(self, steps: Sequence[Sequence[Tool]]) -> Calls | Ended:
        if self._ended is not None:
            return self._ended
        current = tuple(self._open.values()) if self._snapshot is not None else self._run_to_calls(self._start)
        for tools in steps[self._fed :]:
            _require_recorded_calls(current, tools)
            if any(not tool.resolved for tool in tools):
                return current
            current = self._run_to_calls(partial(self._resume, tools))
            self._fed += 1
        if isinstance(current, Ended):
            self._ended = current
            self.close()
        return current

    def _start(self) -> SyncSnapshot:
        import pydantic_monty  # noqa: PLC0415 - an optional dependency

        limits: ResourceLimits = {
            "max_feed_duration_secs": self._limits.seconds,
            "max_memory": self._limits.memory_bytes,
            "max_recursion_depth": 200,
            "max_suspensions": 10 * self._limits.calls + 1_000,
        }
        pool = self._stack.enter_context(
            pydantic_monty.Monty(max_processes=1, feed_duration_limit_grace=_FINISH_SECONDS)
        )
        session: MontySession = self._stack.enter_context(
            pool.checkout(
                limits=limits,
                os_policy={"datetime": _CLOCK, "sleep": "zero", "random_start": {"seed": 0}},
                # Print at the same points in every run.
                print_flush_interval=0,
            )
        )
        self._printed = pydantic_monty.CollectString(self._limits.output_bytes)
        return session.feed_start(self._source, inputs=self._inputs, print_callback=self._printed)

    def _resume(self, tools: Sequence[Tool]) -> SyncSnapshot:
        import pydantic_monty  # noqa: PLC0415 - an extra

        results = {number: _to_settled_result(tool) for number, tool in zip(self._open, tools, strict=True)}
        self._open = {}
        assert isinstance(self._snapshot, pydantic_monty.FutureSnapshot)  # noqa: S101 - `_run_to_calls` stops there
        return self._snapshot.resume(results)

    def _run_to_calls(self, step: Callable[[], SyncSnapshot]) -> Calls | Ended:
        """Resume the program until it awaits calls or ends, and return these calls or the result."""
        import pydantic_monty  # noqa: PLC0415 - an extra

        snapshot = step()
        while not isinstance(snapshot, pydantic_monty.MontyComplete):
            if isinstance(snapshot, pydantic_monty.FutureSnapshot):
                self._snapshot = snapshot
                return tuple(self._open.values())
            if isinstance(snapshot, pydantic_monty.NameLookupSnapshot):
                known = snapshot.object_id is None and snapshot.variable_name in self._tools
                snapshot = (
                    snapshot.resume(value=_tool_reference(snapshot.variable_name)) if known else snapshot.resume()
                )
            elif snapshot.is_os_function:
                snapshot = snapshot.resume_not_handled()
            else:
                snapshot = self._call(snapshot)
        if self._open:
            msg = f"the program ended without awaiting the calls {_join_names(tuple(self._open.values()))}: write await"
            raise ProgramError(msg)
        return Ended(self._checked(snapshot.output), self._printed_output())

    def _call(self, snapshot: FunctionSnapshot) -> SyncSnapshot:
        name = str(snapshot.function_name)
        declaration = self._tools.get(name)
        if declaration is None:
            known = ", ".join(self._tools) or "none"
            return snapshot.resume({"exception": NameError(f"there is no function {name!r}; there are: {known}")})
        try:
            arguments = _bind_arguments(declaration, snapshot.args, snapshot.kwargs, self._limits.argument_bytes)
        except TypeError as error:
            return snapshot.resume({"exception": error})
        self._argument_bytes += len(json.dumps(arguments))
        if self._argument_bytes > self._limits.argument_bytes:
            msg = f"the arguments of the calls have more than {self._limits.argument_bytes} bytes"
            raise ProgramError(msg)
        self._made += 1
        if self._made > self._limits.calls:
            msg = f"the program made more than {self._limits.calls} calls"
            raise ProgramError(msg)
        self._open[snapshot.call_id] = CalledFunction(declaration.name, arguments)
        return snapshot.resume({"future": ...})

    def _checked(self, output: object) -> JsonValue:
        return _to_json(output, "the result of the program", self._limits.output_bytes)

    def _printed_output(self) -> str:
        return "" if self._printed is None else self._printed.output


@final
class ProgramModel:
    """A provider that runs a program instead of a model. Its turns contain the calls that the program makes.

    Args:
        tools: declarations of the tools that the program may call, by function name.
        limits: limits of the program.
    """

    def __init__(self, tools: Mapping[str, ToolDeclaration], limits: CodeLimits) -> None:
        self._tools = tools
        self._limits = limits
        self._program: Program | None = None

    @property
    def metadata(self) -> ProviderMeta:
        """The name of the provider."""
        return ProviderMeta("program")

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Implement `CompletionProvider.complete`: run the program until it calls tools or ends."""
        del tools, options, structured_output
        steps = _calls_by_step(messages)
        reached = await self._advance(messages, steps)
        metadata = Metadata("program")
        if isinstance(reached, Ended):
            return Turn([Text(json.dumps(_ended_to_json(reached)))], finish_reason="stop", metadata=metadata)
        first = sum(map(len, steps)) + 1
        calls = [
            Tool(FunctionCall(call.name, call.arguments), call_id=f"call_{number}")
            for number, call in enumerate(reached, first)
        ]
        return Turn(calls, finish_reason="tool_calls", metadata=metadata)

    async def check_replay(self, messages: Messages) -> str | None:
        """Run the program to its waiting calls.

        Return None, or an error message if it does not make the recorded calls.

        Args:
            messages: the conversation of the program.
        """
        steps = _calls_by_step(messages)
        if not steps:
            return None
        reached = await self._advance(messages, steps)
        return reached.error if isinstance(reached, Ended) and any(not item.resolved for item in steps[-1]) else None

    async def _advance(self, messages: Messages, steps: Sequence[Sequence[Tool]]) -> Calls | Ended:
        if self._program is None:
            self._program = Program(messages.contents[0].turns[0].text, self._tools, self._limits)
        program = self._program
        found: list[Calls | Ended] = []

        def work() -> None:
            found.append(program.advance(steps))

        await finish_in_thread(work)
        return found[0]

    async def aclose(self) -> None:
        """End the process of the sandbox, if one was started."""
        if self._program is not None:
            await finish_in_thread(self._program.close)


def require_interpreter(user: str) -> None:
    """Raise if the packages of the extra `code` are missing.

    Args:
        user: name of the feature that needs the interpreter, for the error message.

    Raises:
        UsageError: the interpreter is not installed.
    """
    if find_spec("pydantic_monty") is None:
        msg = f"{user} needs the interpreter Monty: pip install 'chat-pipeline[code]'"
        raise UsageError(msg)


def _calls_by_step(messages: Messages) -> list[list[Tool]]:
    """Return the calls of each step of a program. The last turn of an ended program has no calls and is not a step."""
    return [turn.tools for role, turn in messages.turns if role == "model" and turn.tools]


def _require_recorded_calls(current: Calls | Ended, tools: Sequence[Tool]) -> None:
    """Raise if the program did not make the recorded calls.

    Raises:
        ProgramError: the program made other calls, or ended.
    """
    recorded = tuple(CalledFunction(tool.name, dict(tool.call.arguments)) for tool in tools)
    if isinstance(current, Ended) or _as_json(current) != _as_json(recorded):
        made = "ended" if isinstance(current, Ended) else f"made the calls {_format_calls(current)}"
        msg = f"the program could not be resumed: it {made}, but its record has the calls {_format_calls(recorded)}"
        raise ProgramError(msg)


def _ended_to_json(ended: Ended) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {"error": ended.error} if ended.error is not None else {"result": ended.result}
    return {**found, "printed": ended.printed} if ended.printed else found


def _bind_arguments(
    declaration: ToolDeclaration, args: Sequence[object], kwargs: Mapping[str, object], max_bytes: int
) -> dict[str, object]:
    """Return the arguments of a call by name. Positional arguments follow the order of the schema's properties.

    Raises:
        TypeError: an argument is not JSON, is too large, is passed twice, or has no name.
    """
    names = list(cast("Mapping[str, object]", declaration.parameters.get("properties", {})))
    if len(args) > len(names):
        msg = f"{declaration.name}() takes {len(names)} arguments but {len(args)} were given"
        raise TypeError(msg)
    positional = dict(zip(names, args, strict=False))
    if twice := positional.keys() & kwargs.keys():
        msg = f"{declaration.name}() got multiple values for argument {min(twice)!r}"
        raise TypeError(msg)
    try:
        plain = _to_json({**positional, **kwargs}, f"the arguments of {declaration.name}()", max_bytes)
    except ProgramError as error:
        raise TypeError(str(error)) from None
    return cast("dict[str, object]", plain)


def _to_json(value: object, what: str, max_bytes: int) -> JsonValue:
    """Convert a value of the program to JSON. Tuples become lists.

    A value can contain the same list many times, so its size is checked before it is copied.

    Raises:
        ProgramError: the value is not JSON, or has more than `max_bytes` bytes.
    """
    too_large = ProgramError(f"{what} has more than {max_bytes} bytes as JSON")
    left = max_bytes

    def convert(value: object) -> object:
        nonlocal left
        left -= _minimum_size(value)
        if left < 0:
            raise too_large
        if isinstance(value, (list, tuple)):
            return [convert(item) for item in cast("Sequence[object]", value)]
        if isinstance(value, dict):
            left -= sum(map(_minimum_size, cast("dict[object, object]", value)))
            return {key: convert(item) for key, item in cast("dict[object, object]", value).items()}
        return value

    try:
        converted = convert(value)
        fault = find_fault(converted, MAX_LEVELS)
    except RecursionError:
        converted, fault = None, " is nested too deeply"
    if fault:
        msg = f"{what} must be JSON (dict, list, str, int, float, bool or None): value{fault}"
        raise ProgramError(msg)
    if len(json.dumps(converted)) > max_bytes:
        raise too_large
    return cast("JsonValue", converted)


def _minimum_size(value: object) -> int:
    """Return the minimum length of a value's JSON in bytes, without the items of lists and dicts."""
    if isinstance(value, str):
        return len(value)
    return value.bit_length() // 4 if isinstance(value, int) else 1


def _to_settled_result(tool: Tool) -> ExternalSettledResult:
    """Convert the outcome of a tool call for the program: to a value, or to an exception that the program may catch."""
    status = tool.status
    if isinstance(status, Completed):
        return {"return_value": json.loads(json.dumps(status.result))}
    if isinstance(status, Rejected):
        return {"exception": PermissionError(f"the call of {tool.name}() was rejected: {status.reason}")}
    if isinstance(status, Failed):
        return {"exception": RuntimeError(f"{tool.name}() failed: {status.error}")}
    return {"exception": RuntimeError(f"the call of {tool.name}() ended with the status {type(status).__name__}")}


def _tool_reference(name: str) -> Callable[[], None]:
    """Return a function that represents a tool in the sandbox, so that a program can assign the tool to a variable."""

    def function() -> None: ...

    function.__name__ = name
    return function


def _describe_error(error: Exception) -> str:
    import pydantic_monty  # noqa: PLC0415 - an extra

    if isinstance(error, (pydantic_monty.MontySyntaxError, pydantic_monty.MontyRuntimeError)):
        text = error.display()
        if "coroutine" in text:
            text += "\nTools are async functions: write `await` before each call."
    elif isinstance(error, pydantic_monty.MontyCrashedError):
        text = "the process of the sandbox ended: the program exceeded a limit"
    else:
        text = f"the sandbox could not run the program: {type(error).__name__}: {error}"
    return text if len(text) <= _MAX_ERROR else f"{text[: _MAX_ERROR // 2]}\n…\n{text[-_MAX_ERROR // 2 :]}"


def _join_names(calls: Calls) -> str:
    return ", ".join(f"{call.name}()" for call in calls)


def _format_calls(calls: Calls) -> str:
    text = ", ".join(f"{call.name}({json.dumps(call.arguments, ensure_ascii=False)})" for call in calls)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _as_json(calls: Calls) -> list[str]:
    return [json.dumps([call.name, call.arguments], sort_keys=True) for call in calls]
