"""Structured output: the requested schema, and the decoding of valid and invalid responses."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, TypeVar, cast

import pytest
from chat_core import (
    ChatResponse,
    FinishReason,
    InvalidResponseError,
    Part,
    ProviderPart,
    Reasoning,
    RefusalError,
    Structured,
    StructuredOutput,
    Text,
    TextOutput,
    Turn,
    Usage,
    UsageError,
)
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator
from typing_extensions import TypedDict

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True)
class City:
    name: str
    people: Annotated[int, Field(gt=0)] = 1


class Node(BaseModel):
    label: str
    children: list[Node] = []


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str]


class Point(TypedDict):
    x: float
    y: float


class Names(RootModel[list[str]]):
    pass


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    day: date


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def answer(*parts: Part | str, finish_reason: FinishReason = "stop") -> ChatResponse:
    turn = Turn([Text(part) if isinstance(part, str) else part for part in parts], finish_reason=finish_reason)
    return ChatResponse(turn, Usage(3, 4))


def rejected(form: Any, *parts: Part | str, finish_reason: FinishReason = "stop") -> InvalidResponseError:
    with pytest.raises(InvalidResponseError) as caught:
        StructuredOutput(form).decode(answer(*parts, finish_reason=finish_reason))
    return caught.value


def schema_of(form: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", dict(StructuredOutput(form).schema.schema))


def test_text_output_returns_the_response_unchanged() -> None:
    said = answer("hello")
    assert TextOutput().decode(said) is said
    assert TextOutput().schema is None


@pytest.mark.parametrize(
    ("form", "raw", "value"),
    [
        (City, '{"name": "Utrecht", "people": 5}', City("Utrecht", 5)),
        (Node, '{"label": "a", "children": [{"label": "b"}]}', Node(label="a", children=[Node(label="b")])),
        (Point, '{"x": 1, "y": 2}', {"x": 1.0, "y": 2.0}),
        (Strict, '{"day": "2026-01-02"}', Strict(day=date(2026, 1, 2))),
        (dict[str, int], '{"a": 1}', {"a": 1}),
    ],
)
def test_object_type_is_requested_without_an_envelope(form: Any, raw: str, value: object) -> None:
    assert schema_of(form)["type"] == "object"
    found = StructuredOutput[object](form).decode(answer(raw))
    assert found.value == value
    assert type(found.value) is type(value)
    assert (found.raw, found.usage, found.turn.text) == (raw, Usage(3, 4), raw)


@pytest.mark.parametrize(
    ("form", "raw", "value"),
    [
        (list[City], '[{"name": "Utrecht"}]', [City("Utrecht")]),
        (list[City] | None, "null", None),
        (list[City] | None, "[]", []),
        (Cat | Dog, '{"kind": "dog", "tricks": ["roll"]}', Dog(tricks=["roll"])),
        (Annotated[Cat | Dog, Field(discriminator="kind")], '{"kind": "cat", "lives": 9}', Cat(lives=9)),
        (Annotated[int, Field(gt=0)], "5", 5),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (Literal["yes", "no"], '"yes"', "yes"),
        (Colour, '"red"', Colour.RED),
        (Names, '["a"]', Names(["a"])),
        (bool, "true", True),
        (str, '"text"', "text"),
        (None, "null", None),
        (object, '{"anything": 1}', {"anything": 1}),
    ],
)
def test_type_that_is_not_an_object_is_requested_in_an_envelope(form: Any, raw: str, value: object) -> None:
    schema = schema_of(form)
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["value"], False)
    text = f'{{"value": {raw}}}'
    found = StructuredOutput[object](form).decode(answer(text))
    assert found.value == value
    assert type(found.value) is type(value)
    assert found.raw == text


def test_answer_without_the_expected_envelope_raises() -> None:
    assert rejected(list[int], "[1]").raw == "[1]"
    assert "extra" in str(rejected(list[int], '{"value": [1], "extra": 2}'))


def test_schema_of_a_recursive_type_has_its_root_inlined() -> None:
    schema = schema_of(Node)
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert "$ref" not in schema
    assert "Node" in schema["$defs"]


@pytest.mark.parametrize(
    ("form", "name"),
    [(City, "City"), (list[City], "answer"), (City | None, "answer"), (Literal["a"], "answer"), (Names, "Names")],
)
def test_schema_name_is_accepted_by_providers(form: Any, name: str) -> None:
    assert StructuredOutput(form).schema.name == name


def test_long_or_generic_schema_name_is_shortened_and_cleaned() -> None:
    page = type("Page[" + "x" * 80 + "]", (BaseModel,), {})
    name = StructuredOutput[object](page).schema.name
    assert len(name) == 64
    assert name.startswith("Page_x")


@pytest.mark.parametrize("form", [42, Callable[[int], int], "Unheard"])
def test_structured_output_raises_if_pydantic_cannot_describe_the_type(form: Any) -> None:
    with pytest.raises(UsageError, match=r"with_structured_output\(\) needs a type that pydantic can describe as JSON"):
        StructuredOutput(form)


def test_white_space_around_the_json_of_an_answer_is_ignored() -> None:
    assert StructuredOutput(City).decode(answer('\n  {"name": "Utrecht"}\n')).value == City("Utrecht")


@pytest.mark.parametrize(
    "raw", ['```json\n{"name": "Utrecht"}\n```', 'Here: {"name": "Utrecht"}', '{"name": "Utrecht"} Done.', "Utrecht"]
)
def test_text_around_the_json_of_an_answer_raises(raw: str) -> None:
    error = rejected(City, raw)
    assert str(error).startswith("The answer is not valid JSON. ")
    assert error.raw == raw
    assert error.partial is not None
    assert error.partial.text == raw


def test_empty_answer_raises_an_error_that_mentions_it() -> None:
    assert str(rejected(City, "  ")) == "The answer is empty."


def test_truncated_answer_raises_an_error_that_mentions_the_truncation() -> None:
    error = rejected(City, '{"name": "Utr', finish_reason="length")
    assert str(error) == "The answer is not valid JSON. The answer was cut off at its limit of length."


def test_answer_that_violates_the_schema_raises_with_the_path_of_each_problem() -> None:
    error = rejected(list[City], '{"value": [{"name": "Utrecht", "people": 0}, {"people": "many"}]}')
    assert str(error) == (
        "The answer does not satisfy the schema:\n"
        "- value[0].people: Input should be greater than 0 (it is 0)\n"
        '- value[1].name: Field required (it is {"people":"many"})\n'
        "- value[1].people: Input should be a valid integer, unable to parse string as an integer "
        '(it is "many")'
    )
    assert error.path == "value[0].people"


def test_wrong_type_of_the_whole_answer_is_reported() -> None:
    assert "- the whole answer: " in str(rejected(City, "[]"))


def test_long_lists_of_problems_and_long_values_are_truncated() -> None:
    error = rejected(list[int], '{"value": [' + ", ".join(['"' + "x" * 200 + '"'] * 12) + "]}")
    lines = str(error).splitlines()
    assert len(lines) == 12
    assert lines[-1] == "- and 2 more"
    assert max(len(line) for line in lines) < 200


def test_reasoning_is_not_decoded_as_part_of_the_answer() -> None:
    assert StructuredOutput(City).decode(answer(Reasoning("hm"), '{"name":', ' "Utrecht"}')).value == City("Utrecht")


def test_structured_part_of_the_provider_is_decoded() -> None:
    found = StructuredOutput(City).decode(answer(Structured({"name": "Utrecht"})))
    assert (found.value, found.raw) == (City("Utrecht"), '{"name":"Utrecht"}')


def test_refusal_raises_refusal_error_with_the_text_of_the_model() -> None:
    with pytest.raises(RefusalError, match="refused to give a structured answer: I will not") as caught:
        StructuredOutput(City).decode(answer(ProviderPart("openai", "refusal", {"refusal": "I will not"})))
    assert caught.value.partial is not None
    with pytest.raises(RefusalError, match="answer: No, thanks"):
        StructuredOutput(City).decode(answer("No, thanks", finish_reason="refusal"))


class Even(BaseModel):
    number: Annotated[int, Field(lt=100)]

    @field_validator("number", mode="before")
    @classmethod
    def doubled(cls, number: Any) -> Any:
        return number * 2 if isinstance(number, int) else object()

    @field_validator("number")
    @classmethod
    def even(cls, number: int) -> int:
        if number > 10:
            msg = "it must be small"
            raise ValueError(msg)
        return number


def test_message_of_a_custom_validator_is_included_in_the_problem() -> None:
    assert "- number: Value error, it must be small (it is 12)" in str(rejected(Even, '{"number": 12}'))


def test_problem_shows_a_value_that_a_custom_validator_made_and_is_not_json() -> None:
    assert "(it is <object object at" in str(rejected(Even, '{"number": "many"}'))


def test_structured_output_raises_for_a_function() -> None:
    with pytest.raises(UsageError, match="needs a type, not the function <function answer"):
        StructuredOutput(cast("Any", answer))


def test_structured_output_raises_for_a_json_schema() -> None:
    schema: Any = {"type": "object", "properties": {"a": {"type": "integer"}}}
    with pytest.raises(UsageError, match=r"needs a type, not the JSON Schema \{.*: write the type, such as a pydantic"):
        StructuredOutput(schema)


def test_structured_output_raises_for_a_type_variable() -> None:
    """Pydantic itself would accept any response for a type variable."""
    variable: Any = AnswerT
    forms: list[Any] = [variable, list.__class_getitem__(variable), dict.__class_getitem__((str, variable | None))]
    for form in forms:
        with pytest.raises(UsageError, match=r"a type, not the type variable ~AnswerT: pass the type as an argument"):
            StructuredOutput(form)
