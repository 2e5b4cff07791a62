"""Missing annotations of a server have the default of the protocol, which assumes the worst."""

from __future__ import annotations

import pytest
from chat_mcp_tools.annotations import McpAnnotations, annotations_of
from mcp.types import Tool, ToolAnnotations


def told(**hints: bool) -> McpAnnotations:
    tool = Tool(name="t", input_schema={}, annotations=ToolAnnotations.model_validate(hints) if hints else None)
    return annotations_of("s", tool)


def test_a_tool_without_annotations_is_destructive_and_not_idempotent() -> None:
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
def test_each_annotation_hint_is_read(hint: str, value: bool, field: str) -> None:
    assert getattr(told(**{hint: value}), field) is value
    assert getattr(told(), field) is not value


def test_a_read_only_tool_is_never_destructive() -> None:
    meta = told(readOnlyHint=True, destructiveHint=True, idempotentHint=False)
    assert (meta.destructive, meta.idempotent) == (False, True)


def test_a_title_is_read_from_the_tool_or_its_annotations() -> None:
    hints = ToolAnnotations(title="inner")
    assert annotations_of("s", Tool(name="t", input_schema={}, annotations=hints)).title == "inner"
    assert annotations_of("s", Tool(name="t", title="outer", input_schema={}, annotations=hints)).title == "outer"
