"""What a server leaves unsaid is the worst, as the protocol has it."""

from __future__ import annotations

import pytest
from chat_mcp_tools.annotations import McpAnnotations, annotations_of
from mcp.types import Tool, ToolAnnotations


def told(**hints: bool) -> McpAnnotations:
    tool = Tool(name="t", input_schema={}, annotations=ToolAnnotations.model_validate(hints) if hints else None)
    return annotations_of("s", tool)


def test_without_annotations_a_tool_is_destructive_and_not_to_be_repeated() -> None:
    assert told() == McpAnnotations(
        "s", "t", None, read_only=False, destructive=True, idempotent=False, open_world=True
    )


@pytest.mark.parametrize(
    ("hint", "value", "field"),
    [
        ("destructiveHint", False, "destructive"),
        ("idempotentHint", True, "idempotent"),
        ("openWorldHint", False, "open_world"),
        ("readOnlyHint", True, "read_only"),
    ],
)
def test_each_hint_is_read(hint: str, value: bool, field: str) -> None:
    assert getattr(told(**{hint: value}), field) is value
    assert getattr(told(), field) is not value


def test_what_is_read_only_destroys_nothing_whatever_else_is_said() -> None:
    meta = told(readOnlyHint=True, destructiveHint=True, idempotentHint=False)
    assert (meta.destructive, meta.idempotent) == (False, True)


def test_a_title_is_found_in_either_place() -> None:
    hints = ToolAnnotations(title="inner")
    assert annotations_of("s", Tool(name="t", input_schema={}, annotations=hints)).title == "inner"
    assert annotations_of("s", Tool(name="t", title="outer", input_schema={}, annotations=hints)).title == "outer"
