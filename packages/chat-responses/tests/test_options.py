from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
from chat_core.errors import UnsupportedOptionError
from chat_core.options import ProviderOptions
from chat_responses import ResponsesDialect, ResponsesOptions


def test_options_are_those_of_one_provider() -> None:
    assert isinstance(ResponsesOptions(), ProviderOptions)
    assert ResponsesOptions(provider="openai").provider == "openai"
    assert hash(ResponsesOptions(tools=({"type": "web_search"},), metadata={"a": "b"})) is not None


def test_what_may_hold_a_secret_is_not_shown() -> None:
    tool = {"type": "mcp", "server_label": "s", "authorization": "hunter2"}
    assert "hunter2" not in repr(ResponsesOptions(tools=(tool,), extra_body={"key": "hunter2"}))


def test_background_responses_are_refused() -> None:
    with pytest.raises(UnsupportedOptionError, match=r"background=True is not supported.*stream\(\)"):
        ResponsesOptions(background=True)
    assert ResponsesOptions(background=False).background is False


def test_options_and_dialects_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        ResponsesOptions().store = True  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(FrozenInstanceError):
        ResponsesDialect(model="m").store = True  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("store", "ids", "stores", "sends"),
    [
        (None, True, True, True),
        (True, True, True, True),
        (False, True, False, False),
        (None, False, True, False),
    ],
)
def test_ids_are_sent_where_the_server_keeps_what_they_name(
    store: bool | None, ids: bool, stores: bool, sends: bool
) -> None:
    dialect = ResponsesDialect(model="m", store=store, item_ids=ids)
    assert (dialect.stores, dialect.sends_ids) == (stores, sends)


def test_what_a_turn_is_on_the_wire_is_kept_under_a_key_of_all_that_it_depends_on() -> None:
    dialect = ResponsesDialect(model="m")
    others = [
        replace(dialect, provider="q"),
        replace(dialect, system_role="developer"),
        replace(dialect, reasoning_replay="never"),
        replace(dialect, store=False),
        replace(dialect, item_ids=False),
    ]
    assert len({item.turn_key for item in (dialect, *others)}) == 6
    assert replace(dialect, model="n", store=True).turn_key == dialect.turn_key


def test_what_a_tool_is_on_the_wire_is_kept_in_the_same_way() -> None:
    dialect = ResponsesDialect(model="m")
    names = ("strict_tools", "strict_rewrite", "say_strict")
    assert len({replace(dialect, **{name: False}).tools_key for name in names} | {dialect.tools_key}) == 4  # type: ignore[arg-type]
    assert replace(dialect, store=False).tools_key == dialect.tools_key
