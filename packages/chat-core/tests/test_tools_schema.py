"""JSON Schemas of function parameters, conversion of arguments, and their canonical form."""

from __future__ import annotations

import enum
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import pytest
from chat_core.errors import UsageError
from chat_core.tools import InvalidArgumentsError, ToolContext
from chat_core.tools.schema import Arguments, read_docstring
from chat_core.tools.signature import read_signature
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, Json, SecretStr, field_serializer
from pydantic_core import core_schema
from typing_extensions import TypedDict


def arguments_of(function: Callable[..., object], **descriptions: str) -> Arguments:
    signature = read_signature(function)
    return Arguments(signature.parameters, descriptions, signature.names, "the tool")


def properties_of(function: Callable[..., object]) -> dict[str, Any]:
    return cast("dict[str, Any]", arguments_of(function).schema["properties"])


def problems_of(function: Callable[..., object], arguments: Mapping[str, object]) -> list[str]:
    with pytest.raises(InvalidArgumentsError) as caught:
        arguments_of(function).values(arguments)
    head, *problems = str(caught.value).splitlines()
    assert head == "The arguments are not valid:"
    return [problem.removeprefix("- ") for problem in problems]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    """Somewhere."""

    city: str = Field(description="Its name.")
    title: str | None = None


class Node(BaseModel):
    value: int
    children: list[Node] = []


@dataclass
class Stay:
    place: Place
    nights: int = 1
    tags: list[str] = field(default_factory=list[str])


class Extra(TypedDict, total=False):
    breakfast: bool


# --- The schema ---------------------------------------------------------------------------------------


def test_parameters_become_properties_of_an_object_schema() -> None:
    def pay(cents: Annotated[int, Field(gt=0)], to: str = "nobody", *, fast: bool = False) -> None: ...

    assert arguments_of(pay, cents="How much.").schema == {
        "type": "object",
        "properties": {
            "cents": {"description": "How much.", "exclusiveMinimum": 0, "type": "integer"},
            "to": {"default": "nobody", "type": "string"},
            "fast": {"default": False, "type": "boolean"},
        },
        "required": ["cents"],
        "additionalProperties": False,
    }


def test_function_without_parameters_has_an_empty_object_schema() -> None:
    def now() -> None: ...

    arguments = arguments_of(now)
    assert arguments.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert arguments.canonical({}) == {}


def test_description_of_a_field_overrides_the_description_in_the_docstring() -> None:
    def pay(cents: Annotated[int, Field(description="Own.")], to: str) -> None: ...

    told = cast("dict[str, Any]", arguments_of(pay, cents="Doc.", to="Doc.").schema["properties"])
    assert (told["cents"]["description"], told["to"]["description"]) == ("Own.", "Doc.")


def test_schema_describes_every_type_that_pydantic_supports() -> None:
    def book(  # noqa: PLR0917 - parameters of all kinds
        stay: Stay,
        extra: Extra,
        colour: Colour,
        kind: Literal["a", "b"],
        day: date,
        price: Decimal | None,
        either: int | list[str],
        by_name: dict[str, Place],
        pair: tuple[int, str],
        anything: Any,
    ) -> None: ...

    schema = arguments_of(book).schema
    told = cast("dict[str, Any]", schema["properties"])
    definitions = cast("dict[str, Any]", schema["$defs"])
    assert told["stay"] == {"$ref": "#/$defs/Stay"}
    assert definitions["Stay"]["properties"]["place"] == {"$ref": "#/$defs/Place"}
    assert definitions["Place"]["description"] == "Somewhere."
    assert definitions["Colour"] == {"enum": ["red", "blue"], "type": "string"}
    assert told["kind"] == {"enum": ["a", "b"], "type": "string"}
    assert told["day"] == {"format": "date", "type": "string"}
    assert told["either"] == {"anyOf": [{"type": "integer"}, {"items": {"type": "string"}, "type": "array"}]}
    assert told["by_name"]["additionalProperties"] == {"$ref": "#/$defs/Place"}
    assert told["anything"] == {}
    assert [key for key in told if key not in cast("list[str]", schema["required"])] == []


def test_recursive_model_is_described_and_validated() -> None:
    def walk(root: Node) -> None: ...

    assert arguments_of(walk).canonical({"root": {"value": 1, "children": [{"value": "2"}]}}) == {
        "root": {"value": 1, "children": [{"value": 2, "children": []}]}
    }


def titles_in(schema: object) -> list[str]:
    if isinstance(schema, dict):
        members = cast("dict[str, object]", schema)
        own = [title] if isinstance(title := members.get("title"), str) else []
        return [*own, *(found for value in members.values() for found in titles_in(value))]
    if isinstance(schema, list):
        return [found for value in cast("list[object]", schema) for found in titles_in(value)]
    return []


def test_schema_has_no_generated_titles() -> None:
    def book(stay: Stay, extra: Extra, colour: Colour, node: Node) -> None: ...

    assert titles_in(arguments_of(book).schema) == []


def test_schema_keeps_explicit_titles() -> None:
    class Named(BaseModel):
        model_config = ConfigDict(title="A bill")

    def pay(cents: Annotated[int, Field(title="Amount in cents")], bill: Named) -> None: ...

    assert sorted(titles_in(arguments_of(pay).schema)) == ["A bill", "Amount in cents"]


def test_parameters_with_the_names_of_schema_keywords_work() -> None:
    def odd(
        title: str,
        type: int,  # noqa: A002 - a keyword of JSON Schema
        properties: list[str],
        schema: int,
        *,
        model_config: int,
        _private: int = 1,
    ) -> None: ...

    arguments = arguments_of(odd)
    names = ["title", "type", "properties", "schema", "model_config", "_private"]
    assert list(cast("dict[str, Any]", arguments.schema["properties"])) == names
    given_ = {"title": "t", "type": 1, "properties": ["p"], "schema": 2, "model_config": 3, "_private": 4}
    assert arguments.values(given_) == given_


def test_alias_of_a_parameter_is_used_in_schema_and_arguments() -> None:
    def find(
        limit: Annotated[int, Field(alias="max-results")], defs: Annotated[int, Field(alias="$defs")] = 2
    ) -> None: ...

    arguments = arguments_of(find)
    assert list(cast("dict[str, Any]", arguments.schema["properties"])) == ["max-results", "$defs"]
    assert arguments.values({"max-results": "5"}) == {"limit": 5, "defs": 2}
    assert arguments.canonical({"max-results": "5"}) == {"max-results": 5, "$defs": 2}


def test_default_of_a_pydantic_field_is_used() -> None:
    def find(
        limit: int = Field(10, gt=0, description="At most."),
        where: str = Field(description="Where."),
    ) -> None: ...

    def plain(tags: Annotated[list[str], Field(default_factory=lambda: ["new"])]) -> None: ...

    arguments = arguments_of(find)
    assert properties_of(find)["limit"] == {
        "default": 10,
        "description": "At most.",
        "exclusiveMinimum": 0,
        "type": "integer",
    }
    assert "where" in cast("list[str]", arguments.schema["required"])
    assert arguments_of(plain).canonical({}) == {"tags": ["new"]}


def test_default_that_is_not_json_or_is_secret_is_not_sent_to_the_model() -> None:
    sentinel = object()

    def find(what: str, limit: int = cast("int", sentinel), key: SecretStr = SecretStr("hush")) -> object:  # noqa: B008 - immutable
        return what, limit, key

    arguments = arguments_of(find)
    assert "hush" not in json.dumps(arguments.schema)
    assert arguments.canonical({"what": "a"}) == {"what": "a"}
    result = read_signature(find).call(arguments.values({"what": "a"}), ToolContext("call_1"))
    assert result == ("a", sentinel, SecretStr("hush"))


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        (ToolContext, "cannot check|cannot describe"),
        (Callable[[], int], "cannot describe"),
        (
            Annotated[int, Field(validation_alias=AliasChoices("a", "b"))],
            "one name",
        ),
    ],
)
def test_type_that_cannot_be_described_or_validated_raises(hint: Any, reason: str) -> None:
    def tool(value: Any) -> None: ...

    class Opaque:
        pass

    tool.__annotations__["value"] = Opaque if hint is ToolContext else hint
    with pytest.raises(UsageError, match=reason):
        arguments_of(tool)


def test_local_models_that_refer_to_each_other_are_resolved() -> None:
    @dataclass
    class Inner:
        x: int

    @dataclass
    class Outer:
        inner: list[Inner]

    def tool(outer: Outer) -> None: ...

    assert arguments_of(tool).canonical({"outer": {"inner": [{"x": "5"}]}}) == {"outer": {"inner": [{"x": 5}]}}


_PRINT = """
import enum, json
from typing import Literal
from chat_core.tools import ToolCollection
tools = ToolCollection()
class Colour(enum.Enum):
    RED = "red"; BLUE = "blue"
@tools.tool
def paint(colour: Colour, tags: set[str], kind: Literal["a", "b"], extra: dict[str, int] | None = None): ...
@tools.tool
def clear(tags: frozenset[str] = frozenset({"a", "b", "c"})): ...
paint_, clear_ = [definition for definition, _ in tools.snapshot().values()]
print(json.dumps([paint_.declaration.parameters, clear_.declaration.parameters["properties"]["tags"]["type"]]))
print(json.dumps([paint_.validate({"colour": "red", "tags": ["x", "y", "z"], "kind": "a"}), clear_.validate({})]))
"""


def test_declarations_and_canonical_arguments_are_identical_in_every_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PRINT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
            capture_output=True,
            cwd=Path(__file__).parent,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


# --- Arguments ----------------------------------------------------------------------------------------


def test_convertible_arguments_are_converted_to_the_annotated_types() -> None:
    def tool(n: int, f: float, b: bool, d: date, *, s: set[int], c: Colour) -> None: ...

    assert arguments_of(tool).values(
        {"n": "5", "f": "1.5", "b": "true", "d": "2026-01-02", "s": [1, 1.0], "c": "red"}
    ) == {"n": 5, "f": 1.5, "b": True, "d": date(2026, 1, 2), "s": {1}, "c": Colour.RED}


def test_strict_types_are_validated_by_the_json_rules() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        day: date
        n: int

    def tool(a: Strict, b: Annotated[int, Field(strict=True)]) -> None: ...

    assert arguments_of(tool).values({"a": {"day": "2026-01-02", "n": 1}, "b": 2})["b"] == 2
    problems = problems_of(tool, {"a": {"day": "2026-01-02", "n": "1"}, "b": "2"})
    assert problems == ['a.n: should be a valid integer, not "1"', 'b: should be a valid integer, not "2"']


def test_problem_gives_path_expectation_and_value() -> None:
    def tool(stay: Stay, cents: Annotated[int, Field(gt=0)], kind: Literal["a", "b"] = "a") -> None: ...

    assert problems_of(
        tool, {"stay": {"place": {"city": 5}, "nights": "many", "tags": ["a", 7]}, "cents": -5, "kind": "c"}
    ) == [
        "stay.place.city: should be a valid string, not 5",
        'stay.nights: should be a valid integer, unable to parse string as an integer, not "many"',
        "stay.tags[1]: should be a valid string, not 7",
        "cents: should be greater than 0, not -5",
        "kind: should be 'a' or 'b', not \"c\"",
    ]


def test_missing_and_unknown_arguments_are_reported() -> None:
    def tool(stay: Stay, cents: int) -> None: ...

    assert problems_of(tool, {"stay": {"place": {}}, "amount": 5}) == [
        "stay.place.city: required, but missing",
        "cents: required, but missing",
        "amount: there is no such argument; the tool takes stay, cents",
    ]


def test_problems_of_union_members_are_joined_into_one() -> None:
    def tool(value: int | list[str]) -> None: ...

    assert problems_of(tool, {"value": {"a": 1}}) == [
        'value: should be a valid integer, not {"a":1} or should be a valid array, not {"a":1}'
    ]


def test_many_or_long_problems_are_truncated() -> None:
    def tool(values: list[int]) -> None: ...

    problems = problems_of(tool, {"values": ["x" * 1000] * 50})
    assert len(problems) == 6
    assert problems[-1] == "and 45 more"
    assert all(len(problem) < 200 for problem in problems)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}, "\ud83d", date(2026, 1, 2), b"bytes"])
def test_argument_that_is_not_json_raises(value: object) -> None:
    def tool(value: Any) -> None: ...

    with pytest.raises(InvalidArgumentsError, match=r"not JSON|not valid"):
        arguments_of(tool).values({"value": value})


@pytest.mark.parametrize("name", [("value",), b"value"])
def test_argument_with_a_name_that_is_not_text_raises(name: object) -> None:
    def tool(value: Any) -> None: ...

    arguments: Any = {name: 1}
    with pytest.raises(InvalidArgumentsError, match="not JSON"):
        arguments_of(tool).values(arguments)


def test_infinite_number_is_reported_as_a_problem() -> None:
    def tool(f: float) -> None: ...

    assert problems_of(tool, {"f": "inf"}) == ['f: should be a finite number, not "inf"']


def test_exception_in_a_validator_is_reported_as_invalid_arguments() -> None:
    class Fussy(BaseModel):
        n: int

        def model_post_init(self, context: Any, /) -> None:
            msg = "no such row"
            raise LookupError(msg)

    def tool(fussy: Fussy) -> None: ...

    with pytest.raises(InvalidArgumentsError, match="LookupError: no such row"):
        arguments_of(tool).canonical({"fussy": {"n": 1}})


# --- The canonical form ---------------------------------------------------------------------------------


def test_canonical_arguments_contain_defaults_in_the_order_of_the_parameters() -> None:
    def tool(a: int, b: list[int] = [1], *, c: date | None = None, d: str = "x") -> None: ...  # noqa: B006 - mutable on purpose

    canonical = arguments_of(tool).canonical({"d": "y", "a": "5"})
    assert json.dumps(canonical) == '{"a": 5, "b": [1], "c": null, "d": "y"}'


def test_a_mutable_default_is_not_shared_between_calls() -> None:
    def tool(b: list[int] = [1]) -> None: ...  # noqa: B006 - mutable on purpose

    arguments = arguments_of(tool)
    cast("list[int]", arguments.values({})["b"]).append(2)
    assert arguments.values({}) == {"b": [1]}


def test_sets_are_sorted_in_canonical_arguments() -> None:
    def tool(tags: set[str], deep: dict[str, list[frozenset[int]]]) -> None: ...

    assert arguments_of(tool).canonical({"tags": ["b", "a", "c"], "deep": {"k": [[3, 1, 2]]}}) == {
        "tags": ["a", "b", "c"],
        "deep": {"k": [[1, 2, 3]]},
    }


class Identity:
    """A value that equals only itself."""

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())


def test_canonical_keeps_arguments_that_change_when_serialized_as_submitted() -> None:
    def tool(key: SecretStr, who: Identity, data: Json[list[int]], lazy: Iterable[int], n: int = 3) -> None: ...

    arguments = arguments_of(tool)
    given_ = {"key": "hush", "who": "me", "data": "[1, 2]", "lazy": [1, 2]}
    canonical = arguments.canonical(given_)
    assert canonical["key"] == "hush"
    assert canonical["who"] == "me"
    assert json.loads(cast("str", canonical["data"])) == [1, 2]
    assert canonical["lazy"] == [1, 2]
    assert canonical["n"] == 3
    assert arguments.canonical(canonical) == canonical
    assert cast("SecretStr", arguments.values(canonical)["key"]).get_secret_value() == "hush"


def test_canonical_keeps_the_order_of_arguments_kept_as_submitted() -> None:
    def tool(a: int, key: SecretStr, b: int = 2) -> None: ...

    assert json.dumps(arguments_of(tool).canonical({"key": "hush", "a": 1})) == '{"a": 1, "key": "hush", "b": 2}'


class Reading(BaseModel):
    value: float


class Breaking(BaseModel):
    n: int

    @field_serializer("n")
    def write(self, n: int) -> int:
        raise LookupError(n)


class Wordy(BaseModel):
    n: int

    @field_serializer("n")
    def write(self, n: int) -> str:
        return f"{n} apples"


def test_canonical_keeps_an_argument_whose_serialized_form_cannot_be_read() -> None:
    def tool(thing: Wordy, n: int = 3) -> None: ...

    assert arguments_of(tool).canonical({"thing": {"n": 1}}) == {"thing": {"n": 1}, "n": 3}


class Matrix:
    """Value whose comparison does not return a single bool, like an array."""

    def __eq__(self, other: object) -> bool:
        raise ValueError(other)

    __hash__ = object.__hash__

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return core_schema.no_info_after_validator_function(
            lambda _: cls(),
            core_schema.int_schema(),
            serialization=core_schema.plain_serializer_function_ser_schema(id),
        )


def test_canonical_keeps_arguments_that_cannot_be_serialized_or_compared() -> None:
    def infinite(reading: Reading) -> None: ...

    def breaking(thing: Breaking, n: int = 3) -> None: ...

    def matrix(m: Matrix) -> None: ...

    cases: list[tuple[Callable[..., object], dict[str, object]]] = [
        (infinite, {"reading": {"value": "inf"}}),
        (breaking, {"thing": {"n": 1}, "n": 3}),
        (matrix, {"m": 5}),
    ]
    for function, given_ in cases:
        arguments = arguments_of(function)
        assert arguments.canonical(given_) == given_
        assert arguments.canonical(arguments.canonical(given_)) == given_


def everything(  # noqa: PLR0917 - parameters of all kinds
    a: int,
    b: float | None,
    c: str | int,
    d: date | datetime,
    e: Colour,
    f: set[str],
    g: dict[str, Decimal],
    h: Node,
    i: Stay,
    j: timedelta,
    k: Any,
    l: uuid.UUID | None = None,  # noqa: E741 - one letter for each kind
    m: list[int | str] = [1, "2"],  # noqa: B006 - mutable on purpose
    n: Literal["x", 1] = "x",
) -> None: ...


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text('ab"\\é'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
    max_leaves=6,
)
NODES = st.recursive(
    st.fixed_dictionaries({"value": st.integers()}),
    lambda inner: st.fixed_dictionaries({"value": st.integers(), "children": st.lists(inner, max_size=2)}),
    max_leaves=4,
)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3)
CALLS = st.fixed_dictionaries(
    {
        "a": st.integers() | st.integers().map(str) | st.integers(-(2**50), 2**50).map(float),
        "b": st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60),
        "c": st.text() | st.integers(),
        "d": st.dates().map(str) | st.datetimes().map(str) | st.integers(0, 10**10),
        "e": st.sampled_from(["red", "blue"]),
        "f": st.lists(st.text(max_size=3), max_size=20),
        "g": st.dictionaries(st.text(), DECIMALS.map(str) | st.integers(), max_size=3),
        "h": NODES,
        "i": st.fixed_dictionaries(
            {"place": st.fixed_dictionaries({"city": st.text()})}, optional={"nights": st.integers()}
        ),
        "j": st.integers(0, 10**6) | st.sampled_from(["P1DT2H", "01:30:00", "PT0.5S"]),
        "k": JSON,
    },
    optional={
        "l": st.none() | st.uuids().map(str),
        "m": st.lists(st.integers() | st.text(), max_size=3),
        "n": st.sampled_from(["x", 1]),
    },
)
EVERYTHING = arguments_of(everything)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CALLS)
def test_canonical_arguments_are_idempotent_and_validate_to_the_same_values(call: dict[str, object]) -> None:
    canonical = EVERYTHING.canonical(call)
    again = EVERYTHING.canonical(json.loads(json.dumps(canonical)))
    assert json.dumps(again) == json.dumps(canonical)
    assert EVERYTHING.values(canonical) == EVERYTHING.values(call)


# --- Docstrings ---------------------------------------------------------------------------------------


def test_google_style_docstring_gives_description_and_arguments() -> None:
    told = read_docstring(
        """Pay somebody.

        Nothing is paid twice: the key is kept.

        Args:
            to: IBAN of the receiver,
                with or without spaces.
            cents (int, optional): How much.

        Returns:
            The reference.

        Raises:
            LookupError: no such account.
        """
    )
    assert told.description == "Pay somebody.\n\nNothing is paid twice: the key is kept."
    assert told.arguments["cents"] == "How much."
    assert told.arguments["to"].split() == ["IBAN", "of", "the", "receiver,", "with", "or", "without", "spaces."]


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (None, ""),
        ("   ", ""),
        ("Short.", "Short."),
        ("Short.\n\nArgs:\nnot indented", "Short.\n\nArgs:\nnot indented"),
        ("Short.\n\n    More: a colon is no section.\n    ", "Short.\n\nMore: a colon is no section."),
        ("\n    Args:\n        a: one\n    ", ""),
    ],
)
def test_docstring_without_sections_becomes_the_whole_description(text: str | None, description: str) -> None:
    assert read_docstring(text).description == description


def test_docstrings_without_sections_do_not_import_the_parser() -> None:
    code = (
        "import sys; from chat_core.tools import ToolCollection; tools = ToolCollection()\n"
        "def f(a: int) -> int:\n    'Plain.'\n    return a\n"
        "tools.tool(f); sys.exit('docstring_parser' in sys.modules or 'jsonschema' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False, cwd=Path(__file__).parent).returncode == 0
