"""`code_tool()`: a tool with which a model calls other tools from one program, in a sandbox."""

from __future__ import annotations

import builtins
import json
import keyword
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, cast, final

from chat_core import (
    ChatBuilder,
    ChatResponse,
    InnerChat,
    InnerFailure,
    Messages,
    Paused,
    ReadyChatBuilder,
    ToolContext,
    ToolScope,
    UsageError,
    Withhold,
)
from chat_core.arguments import require_items, require_name, require_type
from chat_core.provider import ToolDeclaration
from chat_core.tools import ChatTools, FixedScope, InvalidArgumentsError

from chat_pipeline._program import CodeLimits, ProgramModel, require_interpreter
from chat_pipeline.errors import ProgramError

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True)

_PYTHON_TYPES: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}
_DESCRIPTION: Final = """\
Run one Python program that calls the functions below, and return the value of its last expression. Use it for several \
calls, loops and computations on results instead of separate tool calls.
- The functions are async: write `await f(...)`, or `await asyncio.gather(...)` for calls at the same time.
- A failed call raises RuntimeError, a rejected call raises PermissionError.
- The result must be JSON. There are no files, no network, no third-party packages; the clock does not advance.
Functions:
"""


def code_tool(
    *scopes: ToolScope[PauseT_co],
    name: str = "run_code",
    limits: CodeLimits | None = None,
    interrupted: Withhold[PauseT_co] | None = None,
) -> CodeTool[PauseT_co]:
    """Return a tool with which the model runs a program that calls other tools as functions.

    Each call of the program is decided by the strategy of its scope, as if the model had made the call directly. If a
    call must wait, the program and the chat pause. The waiting call is nested in the call of this tool, whose argument
    `program` contains the program. After the decision, in any process, the program is run again from its start: it
    receives the recorded results of its earlier calls, and no tool runs twice. If it does not make the recorded calls
    again, it fails and no further call runs.

    Args:
        scopes: the tools that the program may call.
        name: name of the tool.
        limits: limits of each program.
        interrupted: action for a call of a program that was running when its process died, and that may have had its
            effect, as in `with_interrupted()` of a chat. Default: the run raises `InterruptedToolsError` until the call
            is decided.

    Raises:
        UsageError: an argument has a wrong type, there is no tool, two tools have the same function name, or a tool has
            the name of a Python builtin. Or the packages of the extra `code` are missing.
    """
    require_interpreter("code_tool()")
    return CodeTool(scopes, name, limits if limits is not None else CodeLimits(), interrupted)


@final
class CodeTool(FixedScope[PauseT_co], Generic[PauseT_co]):
    """The scope that `code_tool()` returns, for `with_scoped_tools()`.

    A call of the tool needs no decision: a program has no effects of its own, and each of its calls is decided.

    Args:
        scopes: the tools that the program may call.
        name: name of the tool.
        limits: limits of each program.
        interrupted: action for interrupted calls, or None.
    """

    __slots__ = ()

    def __init__(
        self,
        scopes: Sequence[ToolScope[PauseT_co]],
        name: str,
        limits: CodeLimits,
        interrupted: Withhold[PauseT_co] | None = None,
    ) -> None:
        super().__init__((_CodeDefinition(scopes, name, limits, interrupted),))


@final
class _CodeDefinition(InnerChat, Generic[PauseT_co]):
    """Definition of the tool. Each call is a chat whose model is the program."""

    __slots__ = ("_chat", "_declaration", "_functions", "_limits")

    def __init__(
        self,
        scopes: Sequence[ToolScope[PauseT_co]],
        name: str,
        limits: CodeLimits,
        interrupted: Withhold[PauseT_co] | None,
    ) -> None:
        require_items("scopes", scopes, ToolScope, "a sequence of scopes of tools")
        require_name("name", name)
        require_type("limits", limits, CodeLimits, "CodeLimits")
        declarations = [item.declaration for scope in scopes for item in scope.definitions()]
        self._functions = _functions(declarations)
        self._limits = limits
        builder: ReadyChatBuilder[ProgramModel, ChatResponse, PauseT_co]
        builder = ChatBuilder().with_model(ProgramModel({}, limits)).with_max_steps(limits.calls + 1)
        if interrupted is not None:
            builder = builder.with_interrupted(interrupted)
        for scope in scopes:
            builder = builder.with_scoped_tools(scope)
        self._chat = builder.with_max_calls(limits.calls).build()
        text = _DESCRIPTION + "\n".join(_format_signature(*item) for item in self._functions.items())
        schema = {
            "type": "object",
            "properties": {"program": {"type": "string", "description": "The Python program."}},
            "required": ["program"],
            "additionalProperties": False,
        }
        self._declaration = ToolDeclaration(name, text, schema)

    @property
    def declaration(self) -> ToolDeclaration:
        return self._declaration

    @property
    def tools(self) -> ChatTools[Paused]:
        return self._chat.tools

    def validate(self, arguments: Mapping[str, object], /) -> Mapping[str, object]:
        """Check that `program`, a string within the limit, is the only argument, and return the arguments."""
        program = arguments.get("program")
        if not isinstance(program, str) or len(arguments) != 1:
            msg = f"the only argument must be 'program', a string with Python code, not {sorted(arguments)}"
            raise InvalidArgumentsError(msg)
        if len(program) > self._limits.program_chars:
            msg = f"the program has {len(program)} characters; at most {self._limits.program_chars} are allowed"
            raise InvalidArgumentsError(msg)
        return arguments

    def begin(self, arguments: Mapping[str, object], /) -> Messages:
        """Return a conversation with the program as its user message."""
        return Messages.from_user(str(arguments["program"]))

    def run(self, _arguments: Mapping[str, object], _context: ToolContext, /) -> object:
        msg = f"{self._declaration.name} runs only inside a run of a chat"
        raise UsageError(msg)

    async def run_inside(self, context: ToolContext, checkpoint: Any, /) -> object:  # noqa: ANN401 - opaque here
        """Run or resume the program, and return its result, pause or failure."""
        model = ProgramModel(self._functions, self._limits)
        tool = self._chat.with_model(model).as_tool(name=self._declaration.name, description="")
        try:
            # Before anything runs: an approved call must still be a call of this program.
            if fault := await model.check_replay(checkpoint.messages):
                return InnerFailure(fault, ProgramError(fault))
            value = await cast("InnerChat", tool.definitions()[0]).run_inside(context, checkpoint)
        finally:
            await model.aclose()
        if not isinstance(value, str):
            return value  # a pause
        outcome = cast("dict[str, object]", json.loads(value))
        if "error" in outcome:
            printed = f"\nPrinted before:\n{outcome['printed']}" if "printed" in outcome else ""
            text = f"{outcome['error']}{printed}"
            return InnerFailure(text, ProgramError(text))
        return outcome


def _functions(declarations: Sequence[ToolDeclaration]) -> dict[str, ToolDeclaration]:
    """Return the declarations of the tools, by the name of the function in the program."""
    found: dict[str, ToolDeclaration] = {}
    for declaration in declarations:
        name = declaration.name.replace("-", "_").replace(".", "_")
        if not name.isidentifier() or keyword.iskeyword(name) or hasattr(builtins, name):
            msg = f"a program cannot call the tool {declaration.name!r}: Python uses this name; rename the tool"
            raise UsageError(msg)
        if name in found:
            msg = f"the tools {found[name].name!r} and {declaration.name!r} have the same function name {name!r}"
            raise UsageError(msg)
        found[name] = declaration
    if not found:
        msg = "code_tool() needs at least one tool that programs may call"
        raise UsageError(msg)
    return found


def _format_signature(name: str, declaration: ToolDeclaration) -> str:
    """Return the declaration of a tool as a Python function signature, with its description as a comment."""
    properties = cast("Mapping[str, Mapping[str, object]]", declaration.parameters.get("properties", {}))
    required = cast("Sequence[str]", declaration.parameters.get("required", ()))
    ordered = sorted(properties, key=lambda item: item not in required)
    words = [
        f"{item}: {_PYTHON_TYPES.get(str(properties[item].get('type')), 'Any')}"
        + ("" if item in required else " = ...")
        for item in ordered
    ]
    lines = [f"async def {name}({', '.join(words)}) -> Any: ..."]
    lines += [f"    # {line}" for line in declaration.description.splitlines()]
    for item in ordered:
        details = {key: value for key, value in properties[item].items() if key not in {"type", "title", "default"}}
        if details:
            lines.append(f"    # {item}: {json.dumps(details, ensure_ascii=False)}")
    return "\n".join(lines)
