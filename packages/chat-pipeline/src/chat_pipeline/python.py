"""The runtime `python`, which executes Python programs in the sandbox of `code_tool()`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, cast, final

from chat_core.arguments import require_type
from chat_core.concurrency import finish_in_thread
from chat_core.json import JsonValue

from chat_pipeline._program import CodeLimits, Ended, Program, require_interpreter
from chat_pipeline.errors import TaskError
from chat_pipeline.runtime import ConfigField, ConfigProblem, Runtime, TaskCall
from chat_pipeline.templates import has_expression


@final
class Python(Runtime):
    """The runtime `python`, which executes a program and returns the value of its last expression.

    The program finds the input of the run in the variable `input`, and the outputs of other tasks in the variable
    `tasks`: `tasks["fetch"]["output"]`. It has no files, no network and no third-party packages. Its clock and its
    random numbers are fixed, so that another attempt has the same result.

    Args:
        limits: limits of each program. `calls` has no effect.

    Raises:
        UsageError: the packages of the extra `code` are missing.
    """

    name = "python"
    fields: ClassVar[Mapping[str, ConfigField]] = {"program": ConfigField()}

    def __init__(self, limits: CodeLimits | None = None) -> None:
        require_interpreter("the runtime 'python'")
        self._limits = limits or CodeLimits()

    def check(self, config: Mapping[str, JsonValue]) -> Iterator[ConfigProblem]:
        """Yield a problem if the program contains a template, which would turn data into code, or is too long."""
        require_type("config", config, Mapping, "a mapping of keys to values")
        program = config.get("program")
        if has_expression(program):
            yield ("program",), "'program' must not contain {{ }}: use the variables input and tasks"
        elif isinstance(program, str) and len(program) > self._limits.program_chars:
            yield ("program",), f"'program' has {len(program)} characters; at most {self._limits.program_chars}"

    async def run(self, call: TaskCall) -> JsonValue:
        """Execute the program in its own process.

        Raises:
            TaskError: the program failed, exceeded a limit, or its result is not JSON.
        """
        inputs = dict(call.context)
        program = Program(call.text("program"), {}, self._limits, inputs)
        found: list[object] = []

        def work() -> None:
            try:
                found.append(program.advance([]))
            finally:
                program.close()

        await finish_in_thread(work)
        ended = cast("Ended", found[0])  # a program without tools makes no calls
        if ended.error is not None:
            raise TaskError(ended.error)
        return ended.result
