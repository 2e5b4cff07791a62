"""Client actions: tools that the API defines and the client runs, such as a shell or a computer.

An item that requests an action becomes a call to the tool with the name in `ACTIONS`. The chat runs the call under the
policy of its scope, like the call of any tool, and the result is sent back in the item type that the API defines for
the action.

Sources: https://platform.openai.com/docs/guides/tools-shell, tools-local-shell, tools-apply-patch, tools-computer-use
and tools-tool-search; the types in `openai.types.responses` of the OpenAI SDK (2026-08-21).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, final

from chat_core.messages import Completed, Tool
from chat_core.wire.shapes import Json, is_list, is_mapping, mapping, require_list, require_object

ACTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "apply_patch_call": "apply_patch",
        "computer_call": "computer",
        "local_shell_call": "local_shell",
        "shell_call": "shell",
        "tool_search_call": "tool_search",
    }
)
"""Name of the tool that runs an action, by item type. The name is also the type in the declaration of the tool."""

ACTION_TYPES: Final = tuple(ACTIONS)
"""Types of items that may request an action. Not a set, because a received type may be unhashable."""

CALL_TYPES: Final = ("function_call", "custom_tool_call", "mcp_approval_request", *ACTION_TYPES)
"""Types of items that the client must answer, unless the response contains their output."""

BLANK_PNG: Final = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg=="
)
"""Screenshot sent for a computer call that did not run, because the API accepts only an image as its output."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShellResult:
    """Result of one command, which a tool for the `shell` action returns. Return a list for several commands.

    Attributes:
        stdout: standard output.
        stderr: standard error.
        exit_code: exit code, or `None` if the command exceeded its time limit.
    """

    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = 0


def is_action(item: Mapping[str, object]) -> bool:
    """Return whether the client must run the action that an item requests.

    The server runs shell commands in its own container, and most searches for tools.
    """
    kind = item.get("type")
    if kind == "shell_call":
        return _environment_type(item) in (None, "local")
    return kind in ACTION_TYPES and (kind != "tool_search_call" or item.get("execution") == "client")


def may_have_run_on_server(item: Mapping[str, object]) -> bool:
    """Return whether an action may have run on the server, which then sends the output in the same response."""
    return item.get("type") == "shell_call" and _environment_type(item) is None


def _environment_type(item: Mapping[str, object]) -> object:
    return mapping(item.get("environment")).get("type")


def declared_action(tool: Mapping[str, object]) -> str | None:
    """Return the name of the tool that runs the actions of a raw tool declaration, or `None`.

    Args:
        tool: entry of the request field `tools`.
    """
    kind = tool.get("type")
    if kind == "shell":
        return "shell" if _environment_type(tool) in (None, "local") else None
    if kind == "tool_search":
        return "tool_search" if tool.get("execution") == "client" else None
    if kind in ("computer", "computer_use_preview"):
        return "computer"
    return str(kind) if kind in ("apply_patch", "local_shell") else None


def answered_calls(items: Iterable[Mapping[str, object]]) -> frozenset[str]:
    """Return the ids of the calls and approval requests that the same response answers, because the server ran them.

    The output of a local shell names its call in `id`, every other output in `call_id`.

    Args:
        items: all items of the response.
    """
    found: set[str] = set()
    for item in items:
        kind = str(item.get("type"))
        if kind == "mcp_approval_response":
            reference = item.get("approval_request_id")
        elif kind.endswith("_output"):
            reference = item.get("call_id") or item.get("id")
        else:
            continue
        if isinstance(reference, str):
            found.add(reference)
    return frozenset(found)


def is_answered(item: Mapping[str, object], answered: frozenset[str]) -> bool:
    """Return whether an item is a call or an approval request that the same response answers.

    Args:
        item: the item.
        answered: the result of `answered_calls()` for the response.
    """
    return item.get("type") in CALL_TYPES and any(
        isinstance(id_, str) and id_ in answered for id_ in (item.get("call_id"), item.get("id"))
    )


def action_arguments(item: Json, path: str) -> Json:
    """Return the arguments of the call for an item that requests an action.

    Args:
        item: the response item with the action.
        path: path of the item in the response, for errors.

    Raises:
        WrongShapeError: a field of the item has the wrong type.
    """
    match item["type"]:
        case "computer_call":
            # Older models request one action, newer models a list.
            listed = require_list(item.get("actions") or [item.get("action")], f"{path}.actions")
            actions = [require_object(action, f"{path}.actions[{place}]") for place, action in enumerate(listed)]
            checks = item.get("pending_safety_checks")
            return {"actions": actions} | ({"pending_safety_checks": checks} if checks else {})
        case "apply_patch_call":
            return _without_null(require_object(item.get("operation"), f"{path}.operation"))
        case "tool_search_call":
            return _without_null(require_object(item.get("arguments") or {}, f"{path}.arguments"))
        case _:
            action = _without_null(require_object(item.get("action"), f"{path}.action"))
            action.pop("type", None)  # always `exec`
            return action


def _without_null(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def action_outputs(tool: Tool, item: Mapping[str, object], call_id: str) -> list[Json]:
    """Return the request items with the result of an action.

    Args:
        tool: the call, which is resolved.
        item: fields of the item that requested the action.
        call_id: id of the call.
    """
    kind = str(item["type"])
    output: Json = {"type": f"{kind}_output", "call_id": call_id}
    if is_mapping(item.get("caller")):
        output["caller"] = item["caller"]
    return OUTPUTS[kind](tool, item, output)


def _computer_output(tool: Tool, item: Mapping[str, object], output: Json) -> list[Json]:
    """Return the screenshot, and a message if the call failed or has another result besides the screenshot."""
    image = next((file for file in tool.result_files if file.kind == "image"), None)
    url = BLANK_PNG
    if image is not None:
        data = image.data
        url = str(image.url) if data is None else f"data:{image.mime};base64,{base64.b64encode(data).decode()}"
    output["output"] = {"type": "computer_screenshot", "image_url": url}
    if isinstance(tool.status, Completed) and item.get("pending_safety_checks"):
        # The policy or an approver allowed the call with these checks in its arguments.
        output["acknowledged_safety_checks"] = item["pending_safety_checks"]
    only_image = image is not None and isinstance(tool.status, Completed) and isinstance(tool.status.result, str)
    if only_image and tool.edited is None:
        return [output]
    return [output, {"role": "user", "content": tool.result_text()}]


def _shell_output(tool: Tool, item: Mapping[str, object], output: Json) -> list[Json]:
    limit = mapping(item.get("action")).get("max_output_length")
    if limit is not None:
        output["max_output_length"] = limit
    result = tool.status.result if isinstance(tool.status, Completed) else None
    results = result if is_list(result) else [result]
    # The text of an edited call mentions the edit.
    if tool.edited is None and results and all(is_mapping(found) and "stdout" in found for found in results):
        output["output"] = [_command_output(mapping(found)) for found in results]
    elif isinstance(tool.status, Completed):
        output["output"] = [_command_output({"stdout": tool.result_text()})]
    else:
        output["output"] = [_command_output({"stderr": tool.result_text(), "exit_code": 1})]
    return [output]


def _command_output(result: Mapping[str, object]) -> Json:
    exit_code = result.get("exit_code", 0)
    outcome: Json = {"type": "timeout"} if exit_code is None else {"type": "exit", "exit_code": exit_code}
    return {"stdout": result.get("stdout", ""), "stderr": result.get("stderr", ""), "outcome": outcome}


def _local_shell_output(tool: Tool, _item: Mapping[str, object], output: Json) -> list[Json]:
    return [output | {"output": tool.result_text()}]


def _patch_output(tool: Tool, _item: Mapping[str, object], output: Json) -> list[Json]:
    status = "completed" if isinstance(tool.status, Completed) else "failed"
    return [output | {"status": status, "output": tool.result_text()}]


def _search_output(tool: Tool, _item: Mapping[str, object], output: Json) -> list[Json]:
    """Return the declarations that the search found, or an empty list if the search failed."""
    result = tool.status.result if isinstance(tool.status, Completed) else None
    found: Sequence[object] = result if is_list(result) else []
    tools = [declaration for declaration in found if is_mapping(declaration)]
    return [output | {"type": "tool_search_output", "execution": "client", "status": "completed", "tools": tools}]


OUTPUTS: Final[Mapping[str, Callable[[Tool, Mapping[str, object], Json], list[Json]]]] = MappingProxyType(
    {
        "apply_patch_call": _patch_output,
        "computer_call": _computer_output,
        "local_shell_call": _local_shell_output,
        "shell_call": _shell_output,
        "tool_search_call": _search_output,
    }
)
