"""What a tool returned, as JSON and files."""

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
def test_what_pydantic_can_write_is_json(value: object, expected: object) -> None:
    assert to_result(value) == (expected, ())


def test_a_file_is_taken_out_and_a_note_stands_in_its_place() -> None:
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
def test_bytes_are_refused_with_the_way_out(value: object) -> None:
    with pytest.raises(TypeError, match="return File"):
        to_result(value)


@pytest.mark.parametrize("value", [Report(CHART), [Report([CHART])], ReportModel(charts=[CHART])])
def test_a_file_inside_a_record_is_refused_rather_than_written_as_text(value: object) -> None:
    with pytest.raises(TypeError, match=r"File inside Report\w*\.chart"):
        to_result(value)


def test_what_is_no_json_is_named() -> None:
    with pytest.raises(TypeError, match="the tool returned object, which is not JSON"):
        to_result(object())


def test_what_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(TypeError, match="contains itself"):
        to_result(loop)


def test_half_a_surrogate_pair_is_kept() -> None:
    assert to_result({"a": "\ud83d"}) == ({"a": "\ud83d"}, ())


def test_an_output_has_one_or_several_pieces_of_data() -> None:
    data = Data("chart", 1)
    assert ToolOutput("x").data == ()
    assert ToolOutput("x", data=data) == ToolOutput("x", data=[data])


@pytest.mark.parametrize("value", [[ToolOutput("x")], {"a": Data("chart", 1)}, ToolOutput(ToolOutput("x")).content])
def test_an_output_inside_a_result_is_refused_so_that_no_model_receives_its_data(value: object) -> None:
    with pytest.raises(TypeError, match="must not be inside the result"):
        to_result(value)


def test_data_is_converted_like_a_result() -> None:
    converted = convert_data([Data("day", date(2026, 3, 1)), Data("chart", CHART, keep=True)], 0)
    assert converted == (Data("day", "2026-03-01"), Data("chart", CHART, keep=True))


def test_data_with_a_file_inside_is_refused() -> None:
    with pytest.raises(TypeError, match="pass the File itself as the payload"):
        convert_data([Data("charts", [CHART])], 0)


def test_data_of_another_class_is_refused() -> None:
    with pytest.raises(TypeError, match="must be Data"):
        convert_data(ToolOutput("x", data=["chart"]).data, 0)  # type: ignore[list-item] # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", ["", None])
def test_data_needs_a_type(kind: str) -> None:
    with pytest.raises(UsageError, match="type of Data"):
        Data(kind, 1)


def test_a_change_of_the_state_is_a_json_object() -> None:
    assert convert_state(None) is None
    assert convert_state({"day": date(2026, 3, 1)}) == {"day": "2026-03-01"}


@pytest.mark.parametrize("state", [[], "x", {"chart": CHART}])
def test_a_change_of_the_state_that_is_no_json_object_is_refused(state: Any) -> None:
    with pytest.raises(TypeError, match="must be a JSON object without files"):
        convert_state(state)
