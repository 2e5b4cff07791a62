from __future__ import annotations

import pytest
from chat_core.messages import FunctionCall
from chat_core.messages.function_call import CallContext


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("  ", {}),
        ("null", {}),
        ("{}", {}),
        ('{"half": "\\ud83d"}', {"half": "\ud83d"}),
    ],
)
def test_arguments_are_read_from_the_models_text(raw: str, arguments: object) -> None:
    parsed = FunctionCall.parse("f", raw)
    assert (parsed.arguments, parsed.problem) == (arguments, None)


@pytest.mark.parametrize(
    "raw",
    [
        '{"a": 1',
        "[1]",
        "1",
        '"{}"',
        "{'a': 1}",
        '{"a": NaN}',
        '{"a": 1e999}',
        f'{{"a": [{{"b": {"9" * 400}.0}}]}}',
        "[" * 100_000,
        "{} {}",
    ],
)
def test_text_that_is_no_object_is_told_in_the_problem_and_never_raised(raw: str) -> None:
    parsed = FunctionCall.parse("f", raw)
    assert parsed.problem is not None
    assert parsed.problem.startswith("the arguments ")
    assert (parsed.arguments, parsed.raw) == ({}, raw)


def test_the_text_of_a_call_is_what_the_model_wrote() -> None:
    assert FunctionCall.parse("transfer", '{"cents":  500}').text == '{"cents":  500}'
    assert FunctionCall("f", {"ж": 1}).text == '{"ж":1}'


def test_a_strategy_is_shown_what_will_run_with_our_id_and_the_text_beside() -> None:
    context = CallContext(())
    shown = FunctionCall.parse("transfer", '{"cents":"500"}').shown({"cents": 500}, "tool_1", context)
    assert (shown.arguments, shown.raw, shown.id) == ({"cents": 500}, '{"cents":"500"}', "tool_1")
    assert shown.context is context
