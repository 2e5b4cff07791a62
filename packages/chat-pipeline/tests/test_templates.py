"""Templates keep the types of values, and name the path that has no value."""

from __future__ import annotations

import pytest
from chat_core.json import JsonValue
from chat_pipeline import TaskError
from chat_pipeline.templates import Budget, TemplateSyntaxError, parse_expression, parse_template, render, texts_of

CONTEXT: dict[str, JsonValue] = {
    "input": {"name": "Ana", "n": 3, "odd key": True, "": 1},
    "tasks": {"fetch": {"output": {"items": [{"id": 1}, {"id": 2}], "none": None, "rate": 0.5}}},
}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ tasks.fetch.output.items }}", [{"id": 1}, {"id": 2}]),
        ("{{fetch.output.items[1].id}}", 2),
        ("{{ fetch.output.none }}", None),
        ("{{ fetch.output.rate }}", 0.5),
        ('{{ input["odd key"] }}', True),
        ('{{ input[""] }}', 1),
        ("{{ input }}", CONTEXT["input"]),
        ('{{ "{{" }}', "{{"),
    ],
)
def test_a_text_of_one_expression_keeps_the_type_of_its_value(template: str, value: JsonValue) -> None:
    assert render(template, CONTEXT) == value


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("Dear {{ input.name }},", "Dear Ana,"),
        (" {{ input.n }}", " 3"),
        ("{{ fetch.output.items }}!", '[{"id":1},{"id":2}]!'),
        ("{{ fetch.output.none }}{{ input.name }}", "nullAna"),
        ("no template", "no template"),
        ("", ""),
        ("}} stays", "}} stays"),
        ('{{ "{{" }}x', "{{x"),
    ],
)
def test_mixed_text_contains_texts_unchanged_and_other_values_as_json(template: str, text: str) -> None:
    assert render(template, CONTEXT) == text


def test_templates_are_replaced_in_nested_values_but_not_in_keys() -> None:
    value: JsonValue = {"{{ input.n }}": ["{{ input.n }}", {"a": "n={{ input.n }}"}, 7, None]}

    assert render(value, CONTEXT) == {"{{ input.n }}": [3, {"a": "n=3"}, 7, None]}


def test_inserted_text_is_not_a_template_again() -> None:
    context: dict[str, JsonValue] = {"input": "{{ tasks.secret.output }}", "tasks": {"secret": {"output": "s"}}}

    assert render("{{ input }}", context) == "{{ tasks.secret.output }}"
    assert render("<{{ input }}>", context) == "<{{ tasks.secret.output }}>"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ input.age }}", "{{ input.age }} has no value: input is an object without 'age'"),
        ("{{ fetch.output.items[2] }}", "tasks.fetch.output.items is a list of 2 without 2"),
        ("{{ fetch.output.items.id }}", "tasks.fetch.output.items is a list of 2 without 'id'"),
        ("{{ input.name.first }}", "input.name is \"Ana\" without 'first'"),
        ("{{ other.output }}", "tasks is an object without 'other'"),
    ],
)
def test_a_missing_value_is_an_error_with_its_path(template: str, message: str) -> None:
    with pytest.raises(TaskError) as caught:
        render(template, CONTEXT)
    assert message in str(caught.value)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "template",
    ["{{ input.name", "{{ }}", "{{ input. }}", "{{ input[-1] }}", "{{ input['a'] }}", "{{ a b }}", "{{ fetch }}",
     "{{ tasks }}", "{{ tasks.fetch }}", "{{ fetch.state }}", "{{ fetch.output | upper }}", '{{ "\\q" }}'],
)  # fmt: skip
def test_an_invalid_template_is_a_syntax_error(template: str) -> None:
    with pytest.raises(TemplateSyntaxError):
        parse_template(template)


def test_an_expression_without_braces_is_parsed_whole() -> None:
    assert parse_expression("fetch.output.items[0]").path == ("tasks", "fetch", "output", "items", 0)
    assert parse_expression("input.a").task is None
    with pytest.raises(TemplateSyntaxError, match="unexpected text"):
        parse_expression("input.a }}")


def test_the_length_of_inserted_text_is_limited() -> None:
    assert render("{{ input.name }}{{ input.name }}", CONTEXT, Budget(6)) == "AnaAna"
    with pytest.raises(TaskError, match="too much text"):
        render(["{{ input.name }}!", "{{ input.name }}!"], CONTEXT, Budget(5))


def test_all_texts_of_a_value_are_found_with_their_paths() -> None:
    assert list(texts_of({"a": ["x", {"b": "y"}], "c": 1})) == [(("a", 0), "x"), (("a", 1, "b"), "y")]
