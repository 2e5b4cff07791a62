"""Forms: building, parsing, validation errors, and round trips through HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

import pytest
from chat_inbox.argument_view import view_arguments
from chat_inbox.forms import (
    ABSENT,
    Field,
    attach_errors,
    build_form,
    format_json,
    format_path,
    invalid_fields,
    is_same_json,
    read_form,
)
from chat_inbox.render import get_environment
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inbox_helpers import Form, forms_of

Schema = dict[str, object]


def shown(field: Field) -> Form:
    """Render a form to HTML and parse it like a browser."""
    macros = get_environment().from_string(
        '{% import "form.html" as f %}<form action="x">{{ f.arguments(form, "x-") }}</form>'
    )
    (form,) = forms_of(macros.render(form=field))
    return form


def sent(form: Form, **changes: str) -> dict[str, str]:
    """Return the fields that a browser submits, with CRLF line endings."""
    fields = {**form.fields, **{form.names[label]: value for label, value in changes.items()}}
    return {name: value.replace("\n", "\r\n") for name, value in fields.items()}


def edited(schema: Schema, arguments: Mapping[str, object], **changes: str) -> tuple[dict[str, object], list[str]]:
    """Return the arguments and the errors after some fields were edited."""
    field = build_form(schema, arguments)
    value = read_form(field, sent(shown(field), **changes))
    return value, [f"{item.path}: {item.error}" for item in invalid_fields(field)]


def of(required: list[str] | None = None, **properties: object) -> Schema:
    names = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": names}


TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def test_field_kind_follows_schema_and_value() -> None:
    schema = of(
        a=TEXT,
        b=WHOLE,
        c=NUMBER,
        d={"type": "boolean"},
        e={"enum": ["x", "y"]},
        f=of(inner=TEXT),
        g={"type": "array", "items": WHOLE},
        h={"anyOf": [WHOLE, {"type": "object"}]},
        i=TEXT,
    )
    values = {"a": "", "b": 1, "c": 1.5, "d": True, "e": "x", "f": {"inner": ""}, "g": [1], "h": {}, "i": "a\nb"}
    form = build_form(schema, values)

    kinds = ["text", "integer", "number", "choice", "choice", "object", "array", "json", "long"]
    assert [child.kind for child in form.children] == kinds


def test_editing_one_field_changes_only_its_value() -> None:
    schema = of(to=TEXT, cents=WHOLE)

    assert edited(schema, {"to": "Maria", "cents": 4000}, cents="3500") == ({"to": "Maria", "cents": 3500}, [])


def test_integer_of_any_length_is_parsed() -> None:
    assert edited(of(n=WHOLE), {"n": 1}, n="123456789012345678901234567890")[0] == {"n": 123456789012345678901234567890}


@pytest.mark.parametrize("text", ["", "many", "1.5", "0x10", "1_000", "٣", "9" * 5000])
def test_invalid_integer_is_reported_at_its_field(text: str) -> None:
    value, errors = edited(of(n=WHOLE), {"n": 1}, n=text)

    assert value == {"n": 1}
    assert len(errors) == 1
    assert errors[0].startswith("n: ")


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("-1.5", -1.5), (".5", 0.5), ("2e3", 2000.0)])
def test_number_is_parsed(text: str, number: float) -> None:
    value, errors = edited(of(n=NUMBER), {"n": 7.25}, n=text)

    assert is_same_json(value, {"n": number})
    assert errors == []


@pytest.mark.parametrize("text", ["1e999", "NaN", "Infinity", "1,5"])
def test_number_outside_json_is_rejected(text: str) -> None:
    assert len(edited(of(n=NUMBER), {"n": 1.0}, n=text)[1]) == 1


def test_choice_field_returns_the_listed_value() -> None:
    field = build_form(of(v={"enum": [1, "1", None, True]}), {"v": 1})
    form = shown(field)
    name = form.names["v"]

    assert list(form.options[name]) == ["1", "null", "true"]  # the text and the number 1 are distinct options
    assert read_form(field, {name: "1"}) == {"v": "1"}
    assert read_form(field, {name: "3"}) == {"v": True}
    assert read_form(field, {name: "9"}) == {"v": 1}
    assert field.children[0].error == "choose one of the listed options"


def test_form_distinguishes_null_from_an_absent_value() -> None:
    schema = of([], a={"type": ["string", "null"]}, b={"anyOf": [WHOLE, {"type": "null"}], "default": None})
    field = build_form(schema, {"b": None})
    form = shown(field)
    a, b = form.names["a"], form.names["b"]

    assert read_form(field, sent(form)) == {"b": None}
    assert read_form(field, {**sent(form), f"{a}.state": "null", f"{b}.state": "absent"}) == {"a": None}
    assert read_form(field, {**sent(form), f"{a}.state": "value", f"{b}.state": "value", b: "5"}) == {"a": "", "b": 5}


def test_text_in_an_absent_field_sets_the_value() -> None:
    assert edited(of([], note=TEXT), {}, note="soon")[0] == {"note": "soon"}


def test_a_state_that_is_chosen_after_an_error_is_used() -> None:
    schema = of(["day"], day={"type": "string", "format": "date"}, seats=WHOLE)
    field = build_form(schema, {"day": "2030-01-31"})
    read_form(field, sent(shown(field), day="", seats="3"))
    assert [item.label for item in invalid_fields(field)] == ["day"]
    form = shown(field)
    seats = form.names["seats"]
    assert (form.fields[seats], form.fields[f"{seats}.state"]) == ("3", "value")

    again = build_form(schema, {"day": "2030-01-31"})
    posted = {**sent(form, day="2030-02-01"), f"{seats}.state": "absent"}
    assert read_form(again, posted) == {"day": "2030-02-01"}
    # A value that is left out is not shown any more, so that the next form does not contain it.
    assert shown(again).fields[seats] == ""


def test_a_state_that_the_script_marks_as_chosen_is_used() -> None:
    field = build_form(of([], note=TEXT), {})
    form = shown(field)
    note = form.names["note"]

    assert read_form(field, {**sent(form), note: "soon", f"{note}.was": ""}) == {}


def test_schema_version_depends_on_the_order_of_the_properties() -> None:
    first, same, other = [
        build_form(schema, {}) for schema in (of(a=TEXT, b=TEXT), of(a=TEXT, b=TEXT), of(b=TEXT, a=TEXT))
    ]

    assert first.schema_version == same.schema_version
    assert first.schema_version != other.schema_version


def test_an_empty_field_for_a_number_is_a_text_field_until_the_script_changes_it() -> None:
    field = build_form(of([], seats=WHOLE, cents=WHOLE), {"cents": 5})

    assert [(child.fallback_input_type, child.input_type) for child in field.children] == [
        ("text", "number"),
        ("number", "number"),
    ]


def test_objects_and_lists_keep_values_without_a_field() -> None:
    schema = of(order=of(["id"], id=WHOLE), lines={"type": "array", "items": of(name=TEXT)})
    arguments = {"order": {"id": 1, "extra": [1, {"deep": None}]}, "lines": [{"name": "a", "more": 1.0}]}

    assert edited(schema, arguments, name="b") == (
        {"order": {"id": 1, "extra": [1, {"deep": None}]}, "lines": [{"name": "b", "more": 1.0}]},
        [],
    )


def test_list_items_can_be_added_and_removed() -> None:
    field = build_form(of(tags={"type": "array", "items": TEXT}), {"tags": ["a", "b"]})
    form = shown(field)
    read_form(field, {**sent(form), **form.button("Add an item to tags")})
    again = shown(field)
    first, third = again.names["1"], again.names["3"]

    fresh = build_form(of(tags={"type": "array", "items": TEXT}), {"tags": ["a", "b"]})
    assert read_form(fresh, {**sent(again), f"{first}.state": "absent", third: "c"}) == {"tags": ["b", "c"]}
    assert invalid_fields(fresh) == []


@pytest.mark.parametrize("count", ["999999", "9" * 50, "9" * 5000, "-1", "x"])
def test_submitted_item_count_is_bounded(count: str) -> None:
    field = build_form(of(tags={"type": "array", "items": TEXT}), {"tags": ["a"]})

    assert read_form(field, {"f-0.count": count}) == {"tags": ["a"]}
    assert len(field.children[0].children) < 300


def test_long_list_is_edited_as_json() -> None:
    field = build_form(of(n={"type": "array", "items": WHOLE}), {"n": list(range(100))})

    assert field.children[0].kind == "json"


@pytest.mark.parametrize("text", ["", "{", "[1,]", "NaN", "1e999", "[" * 20000])
def test_invalid_json_is_reported_at_its_field(text: str) -> None:
    value, errors = edited(of(data={}), {"data": {"a": 1}}, data=text)

    assert value == {"data": {"a": 1}}
    assert len(errors) == 1


def test_edited_json_is_parsed() -> None:
    assert edited(of(data={}), {"data": 1}, data='[null, "ü", 1e3]')[0] == {"data": [None, "ü", 1000.0]}


def test_form_without_schema_is_one_json_field() -> None:
    field = build_form(None, {"a": 1})

    assert field.kind == "json"
    assert read_form(field, {"f": '{"a": 2}'}) == {"a": 2}


def test_further_properties_are_edited_as_a_json_object() -> None:
    schema = {**of(a=TEXT), "additionalProperties": WHOLE}

    assert edited(schema, {"a": "", "b": 1}, **{"further properties": '{"c": 2}'})[0] == {"a": "", "c": 2}
    assert edited(schema, {"a": "", "b": 1}, **{"further properties": "[1]"})[1] == [
        ": write the further properties as a JSON object: { … }"
    ]


def test_value_that_violates_its_schema_is_kept() -> None:
    assert edited(of(n=WHOLE, s=TEXT), {"n": "12", "s": 1}) == ({"n": "12", "s": 1}, [])


@pytest.mark.parametrize(
    "text", ["\r", "a\r\nb", "\n\na", " ", "\t", "\0", "\ud800", "\x0c", "é", "e\u0301", "🏳️‍🌈", "<b>&amp;"]
)
def test_text_is_unchanged_after_a_browser_round_trip(text: str) -> None:
    arguments = {"s": text, "j": {"deep": text}}

    assert edited(of(s=TEXT, j={}), arguments) == (arguments, [])


def test_tool_errors_are_attached_to_their_fields() -> None:
    field = build_form(of(lines={"type": "array", "items": of(name=TEXT)}), {"lines": [{"name": "a"}]})
    attach_errors(field, {"lines[0].name": "too short", "lines[0].other": "missing", "": "all wrong"})

    assert [(item.path, item.error) for item in invalid_fields(field)] == [
        ("", "all wrong"),
        ("lines[0]", "lines[0].other: missing"),
        ("lines[0].name", "too short"),
    ]


def test_invalid_field_is_marked_for_screen_readers() -> None:
    field = build_form(of(n=WHOLE), {"n": 1})
    read_form(field, {"f-0": "many"})

    assert shown(field).invalid == {"f-0"}


def test_form_of_a_recursive_schema_can_be_read() -> None:
    node = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}}
    schema: Schema = {**of(node={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}
    arguments = {"node": {"next": {"next": None}}}

    assert edited(schema, arguments) == (arguments, [])


def test_format_path_and_format_json_return_readable_text() -> None:
    assert format_path(("items", 2, "price")) == "items[2].price"
    assert format_json({"a": "ü"}) == '{\n  "a": "ü"\n}'
    assert format_json("\ud800") == '"\\ud800"'
    assert not is_same_json(1, True)
    assert ABSENT.value == "absent"


# --- Any schema, any arguments ---------------------------------------------------------------------------------------

LETTERS = st.characters(exclude_categories=())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(LETTERS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(LETTERS), inner, max_size=3),
    max_leaves=12,
)
SCHEMAS = st.recursive(
    st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"]).map(
        lambda kind: {"type": kind}
    )
    | st.lists(VALUES, min_size=1, max_size=3).map(lambda values: {"enum": values})
    | st.just(cast("Schema", {})),
    lambda inner: (
        st.dictionaries(st.text(LETTERS, max_size=5), inner, max_size=3).map(lambda properties: of([], **properties))
        | inner.map(lambda items: {"type": "array", "items": items})
        | st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches})
    ),
    max_leaves=8,
)


def value_of(schema: object) -> st.SearchStrategy[object]:  # noqa: PLR0911 - a table, one line for each type
    """Return values that mostly satisfy the schema."""
    told = cast("Schema", schema)
    if "enum" in told:
        return st.sampled_from(cast("list[object]", told["enum"])) | VALUES
    if "anyOf" in told:
        return st.one_of([value_of(branch) for branch in cast("list[object]", told["anyOf"])])
    properties = cast("dict[str, object]", told.get("properties", {}))
    match told.get("type"):
        case "object" if properties:
            known = st.fixed_dictionaries({}, optional={name: value_of(inner) for name, inner in properties.items()})
            return st.tuples(known, st.dictionaries(st.text(), VALUES, max_size=2)).map(
                lambda two: {**two[1], **two[0]}
            )
        case "array" if "items" in told:
            return st.lists(value_of(told["items"]), max_size=4)
        case "string":
            return st.text(LETTERS) | st.none()
        case "integer":
            return st.integers() | st.text()
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False) | st.integers()
        case "boolean":
            return st.booleans()
        case _:
            return VALUES


@st.composite
def calls(draw: st.DrawFn) -> tuple[Schema, dict[str, object]]:
    properties = draw(st.dictionaries(st.text(LETTERS, max_size=8), SCHEMAS, max_size=4))
    schema = of(draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else [], **properties)
    values = {name: draw(value_of(inner)) for name, inner in properties.items() if draw(st.booleans())}
    more = draw(st.dictionaries(st.text(LETTERS, max_size=8), VALUES, max_size=2))
    return schema, {**more, **values}


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], max_examples=200)
@given(calls())
def test_unedited_form_returns_the_original_arguments(call: tuple[Schema, dict[str, object]]) -> None:
    schema, arguments = call
    field = build_form(schema, arguments)
    value = read_form(field, sent(shown(field)))

    assert invalid_fields(field) == []
    assert json.dumps(value) == json.dumps(arguments)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(calls(), st.dictionaries(st.integers(0, 20), st.text(max_size=20)))
def test_submitted_form_yields_json_or_field_errors(
    call: tuple[Schema, dict[str, object]], wild: dict[int, str]
) -> None:
    schema, arguments = call
    field = build_form(schema, arguments)
    names = sorted(shown(field).fields)
    posted = {names[number % len(names)]: text for number, text in wild.items()} if names else {}
    value = read_form(field, posted)

    json.dumps(value, allow_nan=False)
    for item in invalid_fields(field):
        assert item.error


@pytest.mark.parametrize(
    "hidden",
    [
        "\u202e",
        "\u2066",
        "\u200b",
        "\u2060",
        "\ufeff",
        "\xad",
        "\U000e0041",
        "\u3164",
        "\u034f",
        "\ufe0f",
        "\U000e0100",
    ],
)
def test_invisible_characters_are_shown_as_escapes(hidden: str) -> None:
    text = f"Zoë {hidden}gro.elpmaxe"
    form = shown(build_form(of(to={"type": "string"}), {"to": text}))
    written = form.fields[form.names["to"]]

    assert hidden not in written
    assert written.startswith('"Zoë \\u')
    assert json.loads(written) == text
    assert edited(of(to={"type": "string"}), {"to": text}) == ({"to": text}, [])
    assert view_arguments({"to": text})[0].preview == written
