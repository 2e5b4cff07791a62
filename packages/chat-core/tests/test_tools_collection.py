"""Tool collections: the decorator, metadata, raw schemas, names and order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, assert_type

import pytest
from chat_core.errors import UsageError
from chat_core.tools import ToolCollection, ToolContext

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@dataclass(frozen=True)
class Risk:
    cents: int = 0


def pay(cents: int, *, to: str = "nobody") -> str:
    return f"{cents} to {to}"


def test_tool_decorator_returns_the_function() -> None:
    plain = ToolCollection()
    risky = ToolCollection(Risk)
    assert plain.tool(pay) is pay
    assert risky.tool(Risk(5))(pay) is pay
    assert plain.tool(name="other", timeout=5)(pay) is pay
    assert_type(plain, ToolCollection[None])
    assert_type(risky, ToolCollection[Risk])
    assert_type(risky.tool(Risk(5), name="third")(pay)(5, to="bo"), str)
    assert plain.names() == ("pay", "other")


def test_options_of_tool_and_register_are_set_on_the_definition() -> None:
    tools = ToolCollection(Risk)
    tools.tool(Risk(), name="send", description="Sends.", timeout=30, idempotent=True, sequential=True)(pay)
    tools.register(
        "raw", SCHEMA, lambda _: None, Risk(), description="Raw.", timeout=3, idempotent=True, sequential=True
    )
    sent, raw = [definition for definition, _ in tools.snapshot().values()]
    assert (sent.declaration.name, sent.declaration.description, sent.timeout) == ("send", "Sends.", 30)
    assert (sent.idempotent, sent.sequential) == (True, True)
    assert (raw.declaration.name, raw.declaration.description, raw.timeout) == ("raw", "Raw.", 3)
    assert (raw.idempotent, raw.sequential) == (True, True)


def test_tools_keep_the_order_of_registration_and_their_metadata() -> None:
    tools = ToolCollection(Risk)
    for index in range(20):
        tools.register(f"tool_{19 - index}", SCHEMA, lambda _: None, Risk(index))
    assert tools.names() == tuple([f"tool_{19 - index}" for index in range(20)])
    assert tools.meta("tool_3") == Risk(16)
    assert repr(ToolCollection(Risk)) == "ToolCollection[Risk]()"


def test_raw_tool_receives_the_arguments_and_the_context() -> None:
    tools = ToolCollection()

    def handler(arguments: dict[str, Any], ctx: ToolContext) -> tuple[Any, str]:
        return arguments["a"], ctx.tool_id

    tools.register("raw", SCHEMA, handler)
    definition, meta = tools.snapshot()["raw"]
    assert meta is None
    assert definition.run(definition.validate({"a": 5}), ToolContext("call_1")) == (5, "call_1")


def test_a_snapshot_does_not_change_with_the_collection() -> None:
    tools = ToolCollection()
    before = tools.snapshot()
    tools.tool(pay)
    assert (list(before), list(tools.snapshot())) == ([], ["pay"])


def test_registering_a_tool_name_twice_raises() -> None:
    tools = ToolCollection()
    tools.tool(pay)
    with pytest.raises(UsageError, match=r"ToolCollection\[NoneType\]\(pay\) already has a tool named 'pay'"):
        tools.tool(pay)
    with pytest.raises(UsageError, match="already has a tool named 'pay'"):
        tools.register("pay", SCHEMA, lambda _: None)
    assert tools.names() == ("pay",)


def test_failed_registration_does_not_change_the_collection() -> None:
    tools = ToolCollection()
    with pytest.raises(UsageError, match="pass name="):
        tools.tool(name="a b")(pay)
    with pytest.raises(UsageError, match="pass name="):
        tools.register("a b", SCHEMA, lambda _: None)
    assert tools.names() == ()


def test_metadata_of_another_type_than_the_collections_raises() -> None:
    risky: Any = ToolCollection(Risk)
    plain: Any = ToolCollection()
    with pytest.raises(UsageError, match=r"tool\(\) needs a Risk, not 'high'"):
        risky.tool("high")
    with pytest.raises(UsageError, match=r"tool\(\) needs a Risk, not <function pay"):
        risky.tool(pay)
    with pytest.raises(UsageError, match=r"tool\(\) needs a Risk, not None"):
        risky.tool(timeout=5)
    with pytest.raises(UsageError, match=r"tool\(\) needs a NoneType, not Risk"):
        plain.tool(Risk())
    with pytest.raises(UsageError, match=r"register\(\) needs a Risk, not None"):
        risky.register("raw", SCHEMA, pay)
    with pytest.raises(UsageError, match=r"register\(\) needs a NoneType, not Risk"):
        plain.register("raw", SCHEMA, pay, Risk())


def test_metadata_can_be_of_any_class() -> None:
    by_team = ToolCollection(str)
    by_team.tool("finance")(pay)
    assert_type(by_team.meta("pay"), str)
    assert by_team.meta("pay") == "finance"


def test_meta_of_an_unknown_tool_raises_and_lists_the_known_tools() -> None:
    tools = ToolCollection()
    tools.tool(pay)
    with pytest.raises(UsageError, match=r"no tool is named 'buy' in ToolCollection\[NoneType\]\(pay\)"):
        tools.meta("buy")


class Shape(Protocol):
    side: int


@pytest.mark.parametrize("wrong", ["risk", Risk(), list[int], Shape])
def test_collection_raises_if_its_metadata_type_is_not_a_checkable_class(wrong: Any) -> None:
    make: Any = ToolCollection
    with pytest.raises(UsageError, match=r"ToolCollection\(\) needs"):
        make(wrong)


def test_annotation_with_a_local_type_is_resolved_by_the_decorator() -> None:
    tools = ToolCollection(Risk)

    @dataclass
    class Place:
        city: str

    @tools.tool(Risk())
    def go(to: Place) -> str:
        return to.city

    definition, _ = tools.snapshot()["go"]
    assert definition.run({"to": {"city": "Lyon"}}, ToolContext("call_1")) == "Lyon"
    assert go(Place("Bern")) == "Bern"
