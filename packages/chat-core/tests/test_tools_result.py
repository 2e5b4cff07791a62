"""Conversion of return values of tools to JSON and files."""

from __future__ import annotations

import enum
import math
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from chat_core.errors import UsageError
from chat_core.messages import Data, File, Text
from chat_core.tools.result import ToolOutput, convert_data, convert_state, to_result
from pydantic import BaseModel, Field

CHART = File("image/png", data=b"\x89PNG", name="chart.png")
PAGE = File("text/html", url="https://example.org/a")


class Colour(enum.Enum):
    RED = "red"


class Shade(enum.StrEnum):
    DARK = "dark"


class City(BaseModel):
    name: str
    people: int = Field(alias="inhabitants")


@dataclass
class Trip:
    to: str
    on: date


class Point(NamedTuple):
    x: int
    y: int


class Blob(BaseModel):
    data: list[bytes]


@dataclass
class Report:
    chart: object


class ReportModel(BaseModel):
    model_config = {"arbitrary_types_allowed": True}
    charts: list[Any]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("as it is", "as it is"),
        ("", ""),
        (True, True),
        (5, 5),
        (1.5, 1.5),
        ([1, "a", None], [1, "a", None]),
        ({"a": {1: (2, 3)}}, {"a": {"1": [2, 3]}}),
        (Decimal("1.50"), "1.50"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("a.txt"), "a.txt"),
        (Colour.RED, "red"),
        (Shade.DARK, "dark"),
        (City(name="Lyon", inhabitants=5), {"name": "Lyon", "inhabitants": 5}),
        ([Trip("Lyon", date(2026, 1, 2))], [{"to": "Lyon", "on": "2026-01-02"}]),
        (Point(1, 2), [1, 2]),
        (Text("words"), "words"),
        (math.inf, "Infinity"),
        ({"a": [math.nan]}, {"a": ["NaN"]}),
        ((n for n in range(2)), [0, 1]),
        (Blob(data=[b"a"]), {"data": ["a"]}),
    ],
)
def test_to_result_converts_values_that_pydantic_can_serialize(value: object, expected: object) -> None:
    assert to_result(value) == (expected, ())


def test_to_result_replaces_files_with_a_note_and_returns_them() -> None:
    assert to_result(CHART) == ("[file chart.png, image/png]", (CHART,))
    assert to_result([Text("see"), CHART, PAGE]) == (
        ["see", "[file chart.png, image/png]", "[file, text/html]"],
        (CHART, PAGE),
    )
    assert to_result({"chart": CHART, "rows": [{"page": PAGE}]}) == (
        {"chart": "[file chart.png, image/png]", "rows": [{"page": "[file, text/html]"}]},
        (CHART, PAGE),
    )


@pytest.mark.parametrize("value", [b"abc", bytearray(b"abc"), memoryview(b"abc"), [b"abc"], {"a": (b"abc",)}])
def test_to_result_raises_for_bytes_and_suggests_a_file(value: object) -> None:
    with pytest.raises(TypeError, match="return File"):
        to_result(value)


@pytest.mark.parametrize("value", [Report(CHART), [Report([CHART])], ReportModel(charts=[CHART])])
def test_to_result_raises_for_a_file_inside_a_record(value: object) -> None:
    with pytest.raises(TypeError, match=r"File inside Report\w*\.chart"):
        to_result(value)


def test_to_result_names_the_type_of_a_value_that_is_not_json() -> None:
    with pytest.raises(TypeError, match="the tool returned object, which is not JSON"):
        to_result(object())


def test_to_result_raises_for_a_circular_value() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(TypeError, match="contains itself"):
        to_result(loop)


def test_to_result_keeps_a_lone_surrogate() -> None:
    assert to_result({"a": "\ud83d"}) == ({"a": "\ud83d"}, ())


def test_tool_output_accepts_one_or_several_data() -> None:
    data = Data("chart", 1)
    assert ToolOutput("x").data == ()
    assert ToolOutput("x", data=data) == ToolOutput("x", data=[data])


@pytest.mark.parametrize("value", [[ToolOutput("x")], {"a": Data("chart", 1)}, ToolOutput(ToolOutput("x")).content])
def test_to_result_raises_for_a_tool_output_or_data_inside_a_result(value: object) -> None:
    with pytest.raises(TypeError, match="must not be inside the result"):
        to_result(value)


def test_convert_data_converts_payloads_like_results() -> None:
    converted = convert_data([Data("day", date(2026, 3, 1)), Data("chart", CHART, keep=True)], 0)
    assert converted == (Data("day", "2026-03-01"), Data("chart", CHART, keep=True))


def test_convert_data_raises_for_a_file_inside_a_payload() -> None:
    with pytest.raises(TypeError, match="pass the File itself as the payload"):
        convert_data([Data("charts", [CHART])], 0)


def test_convert_data_raises_for_a_value_that_is_not_data() -> None:
    with pytest.raises(TypeError, match="must be Data"):
        convert_data(ToolOutput("x", data=["chart"]).data, 0)  # type: ignore[list-item] # pyright: ignore[reportArgumentType] - wrong on purpose


@pytest.mark.parametrize("kind", ["", None])
def test_data_without_a_type_raises(kind: str) -> None:
    with pytest.raises(UsageError, match="type of Data"):
        Data(kind, 1)


def test_convert_state_returns_a_json_object() -> None:
    assert convert_state(None) is None
    assert convert_state({"day": date(2026, 3, 1)}) == {"day": "2026-03-01"}


@pytest.mark.parametrize("state", [[], "x", {"chart": CHART}])
def test_convert_state_raises_for_a_value_that_is_not_a_json_object(state: Any) -> None:
    with pytest.raises(TypeError, match="must be a JSON object without files"):
        convert_state(state)
