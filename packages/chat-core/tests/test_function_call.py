from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_core.messages import FunctionCall
from chat_core.messages.function_call import CallContext
from pydantic import BaseModel
from typing_extensions import TypedDict


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
def test_parse_reads_the_arguments_from_the_models_text(raw: str, arguments: object) -> None:
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
def test_parse_reports_text_that_is_not_a_json_object_as_a_problem(raw: str) -> None:
    parsed = FunctionCall.parse("f", raw)
    assert parsed.problem is not None
    assert parsed.problem.startswith("the arguments ")
    assert (parsed.arguments, parsed.raw) == ({}, raw)


def test_text_of_a_call_is_the_raw_text_of_the_model_if_there_is_one() -> None:
    assert FunctionCall.parse("transfer", '{"cents":  500}').text == '{"cents":  500}'
    assert FunctionCall("f", {"ж": 1}).text == '{"ж":1}'


def test_call_shown_to_a_policy_has_final_arguments_raw_text_tool_id_and_context() -> None:
    context = CallContext(())
    shown = FunctionCall.parse("transfer", '{"cents":"500"}').shown({"cents": 500}, "tool_1", context)
    assert (shown.arguments, shown.raw, shown.id) == ({"cents": 500}, '{"cents":"500"}', "tool_1")
    assert shown.context is context


class PayModel(BaseModel):
    cents: int
    at: date | None = None


@dataclass
class PayData:
    cents: int


class PayDict(TypedDict):
    cents: int


def test_arguments_as_converts_the_arguments_to_a_type() -> None:
    call = FunctionCall("pay", {"cents": 500, "at": "2030-01-02"})

    assert call.arguments_as(PayModel) == PayModel(cents=500, at=date(2030, 1, 2))
    assert call.arguments_as(PayData).cents == 500
    assert call.arguments_as(PayDict)["cents"] == 500
    assert call.arguments_as(dict[str, int | str])["cents"] == 500


def test_arguments_as_names_the_call_and_type_if_the_arguments_do_not_match() -> None:
    with pytest.raises(UsageError, match=r"the arguments of pay\(\) are not a valid PayData: cents: Field required"):
        FunctionCall("pay", {"amount": 5}).arguments_as(PayData)


def test_arguments_as_raises_if_its_argument_is_not_a_type() -> None:
    form: Any = object()
    with pytest.raises(UsageError, match=r"arguments_as\(\) needs a type that pydantic can read, not <object"):
        FunctionCall("pay").arguments_as(form)
