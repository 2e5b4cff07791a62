"""Declarations of tools that OpenAI defines and your chat runs: shells, patches, a computer, and a search for tools.

The chat needs a tool with the name that is stated in the docstring of the class, in any tool scope. The calls run under
the policy of that scope. The model receives only the declaration from this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from chat_core.errors import UsageError

from chat_openai.native import NativeTool, without_none


@final
@dataclass(frozen=True, slots=True)
class Shell(NativeTool):
    """A native tool for shell commands. The chat's tool `shell` runs them.

    The tool has the parameters `commands` (a list of strings), `timeout_ms` and `max_output_length` (integers or
    `None`). It returns a `chat_responses.ShellResult` for each command, or a text.
    """

    def declaration(self) -> dict[str, object]:
        """Return the tool's entry in the request field `tools`."""
        return {"type": "shell", "environment": {"type": "local"}}


@final
@dataclass(frozen=True, slots=True)
class LocalShell(NativeTool):
    """A native tool for shell commands of the model `codex-mini-latest`. The chat's tool `local_shell` runs them.

    The tool has the parameters `command` (a list of strings), `env` (a dictionary), `timeout_ms`, `user` and
    `working_directory`, where the last three may be missing. It returns a text.
    """

    def declaration(self) -> dict[str, object]:
        """Return the tool's entry in the request field `tools`."""
        return {"type": "local_shell"}


@final
@dataclass(frozen=True, slots=True)
class ApplyPatch(NativeTool):
    """A native tool for changes of files. The chat's tool `apply_patch` makes them.

    The tool has the parameters `type` (`"create_file"`, `"update_file"` or `"delete_file"`), `path`, and `diff`, which
    is missing if a file is deleted. Each call changes one file. It returns a text.
    """

    def declaration(self) -> dict[str, object]:
        """Return the tool's entry in the request field `tools`."""
        return {"type": "apply_patch"}


@final
@dataclass(frozen=True, slots=True)
class Computer(NativeTool):
    """A native tool for mouse and keyboard actions. The chat's tool `computer` carries them out.

    The tool has the parameters `actions` (a list of dictionaries, each with a `type` such as `"click"`) and
    `pending_safety_checks` (a list of dictionaries, often missing). It returns a `File` with a screenshot. A call that
    completes acknowledges its safety checks, so let the policy ask an approver if there are any.
    """

    def declaration(self) -> dict[str, object]:
        """Return the tool's entry in the request field `tools`."""
        return {"type": "computer"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientToolSearch(NativeTool):
    """A native tool that searches for tools. The chat's tool `tool_search` runs the search.

    The tool receives the arguments that `parameters` describes. It returns a list of declarations, such as `{"type":
    "function", "name": …, "parameters": …}`. The chat needs the tools that the search returns.

    Attributes:
        parameters: the JSON Schema of the arguments.
        description: the description for the model.

    Raises:
        UsageError: `parameters` is empty.
    """

    parameters: Mapping[str, object] = field(hash=False)
    description: str | None = None

    def __post_init__(self) -> None:
        if not self.parameters:
            msg = "ClientToolSearch(parameters=…) needs a JSON Schema, such as {'type': 'object', 'properties': {…}}"
            raise UsageError(msg)

    def declaration(self) -> dict[str, object]:
        """Return the tool's entry in the request field `tools`."""
        settings = {"description": self.description, "parameters": dict(self.parameters)}
        return {"type": "tool_search", "execution": "client", **without_none(settings)}
