from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
from chat_core.options import ProviderOptions
from chat_responses import BackgroundResponse, ResponsesDialect, ResponsesOptions


def test_responses_options_belong_to_one_provider_and_are_hashable() -> None:
    assert isinstance(ResponsesOptions(), ProviderOptions)
    assert ResponsesOptions(provider="openai").provider == "openai"
    assert hash(ResponsesOptions(tools=({"type": "web_search"},), metadata={"a": "b"})) is not None


def test_the_repr_of_options_does_not_show_secrets() -> None:
    tool = {"type": "mcp", "server_label": "s", "authorization": "hunter2"}
    assert "hunter2" not in repr(ResponsesOptions(tools=(tool,), extra_body={"key": "hunter2"}))


def test_the_path_of_a_background_response_names_the_last_event() -> None:
    assert BackgroundResponse("resp/1").path(stream=False) == "/responses/resp%2F1"
    assert BackgroundResponse("resp_1").path(stream=True) == "/responses/resp_1?stream=true"
    assert BackgroundResponse("resp_1", 7).path(stream=True) == "/responses/resp_1?stream=true&starting_after=7"


def test_options_and_dialects_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        ResponsesOptions().store = True  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue] - wrong on purpose
    with pytest.raises(FrozenInstanceError):
        ResponsesDialect(model="m").store = True  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue] - wrong on purpose


@pytest.mark.parametrize(
    ("store", "ids", "stores", "sends"),
    [
        (None, True, True, True),
        (True, True, True, True),
        (False, True, False, False),
        (None, False, True, False),
    ],
)
def test_item_ids_are_sent_only_if_responses_are_stored(
    store: bool | None, ids: bool, stores: bool, sends: bool
) -> None:
    dialect = ResponsesDialect(model="m", store=store, item_ids=ids)
    assert (dialect.stores, dialect.sends_ids) == (stores, sends)


def test_dialect_fields_that_change_turn_encoding_change_the_turn_key() -> None:
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


def test_dialect_fields_that_change_tool_encoding_change_the_tools_key() -> None:
    dialect = ResponsesDialect(model="m")
    names = ("strict_tools", "strict_rewrite", "say_strict")
    assert len({replace(dialect, **{name: False}).tools_key for name in names} | {dialect.tools_key}) == 4  # type: ignore[arg-type]  # each of the fields
    assert replace(dialect, store=False).tools_key == dialect.tools_key
