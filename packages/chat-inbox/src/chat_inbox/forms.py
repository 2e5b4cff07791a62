"""Forms for the arguments of a tool call, which are built from a JSON Schema and parsed when they are submitted.

A field that the user did not edit keeps its exact original value, because the submitted text is compared with the
text that was rendered. This preserves integers of any length, foreign line endings, and characters that a browser
would change. Values that the form controls cannot represent are edited as JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, Literal, TypeAlias, cast, final

from chat_core.approvals import escape_invisible, has_invisible

from chat_inbox.form_inputs import INPUT_TYPES, describe_zone, is_exact_number, read_date, write_date
from chat_inbox.form_schemas import FieldSchema, parse_schema

Kind: TypeAlias = Literal[
    "text", "long", "integer", "number", "choice", "object", "array", "json", "date", "time", "datetime"
]
State: TypeAlias = Literal["value", "null", "absent"]
Location: TypeAlias = tuple[str | int, ...]


class Absent(Enum):
    """The type of `ABSENT`, the marker for a missing value."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
LONG_TEXT: Final = 60
"""Texts with more characters than this get a multi-line control."""
MAX_ITEM_FIELDS: Final = 50
"""Maximum number of items for which a list has separate fields. A longer list is edited as JSON."""
_MAX_ADDED_ITEMS: Final = 200
"""Maximum number of items that one submitted form can add to a list."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|[+-]?\.[0-9]+([eE][+-]?[0-9]+)?")


@final
@dataclass(slots=True)
class Field:
    """A form field, or a group of fields.

    Attributes:
        kind: kind of control.
        name: name of the control in the submitted form.
        label: property name, or item number counted from 1.
        location: keys and indexes of the value in the arguments.
        original: value when the form was built; `ABSENT` if there was none.
        schema: schema of the value.
        states: states that the user can choose: a value, null, or absent.
        state: selected state.
        text: content of the control; for a choice, the key of the selected option.
        initial_text, initial_state: text and state when the form was built.
        choices: key, label and value of each option.
        children: fields of a group.
        zone: time zone of a date and time, such as `Z`.
        holds_rest: whether this field contains all properties of its group that have no separate field.
        error: validation message; empty if the field is valid.
    """

    kind: Kind
    name: str
    label: str
    location: Location
    original: object
    schema: FieldSchema
    states: tuple[State, ...] = ("value",)
    state: State = "value"
    text: str = ""
    initial_text: str = ""
    initial_state: State = "value"
    choices: tuple[tuple[str, str, object], ...] = ()
    children: list[Field] = field(default_factory=list["Field"])
    zone: str = ""
    holds_rest: bool = False
    error: str = ""

    @property
    def help(self) -> str:
        """The help text from the schema."""
        zone = describe_zone(self.kind, self.zone)
        return " · ".join([text for text in (self.schema.help, zone) if text])

    @property
    def input_type(self) -> str:
        """The type of the HTML `input` element. It is `text` if any other type would change or hide the content."""
        if self.kind in INPUT_TYPES:
            return "text" if self.error else INPUT_TYPES[self.kind]
        return "number" if self.kind in ("integer", "number") and is_exact_number(self.text) else "text"

    @property
    def fallback_input_type(self) -> str:
        """The type of the HTML `input` element without a script.

        A browser submits nothing for half a date or number. In an empty field, that looks as if nobody had typed it,
        and only the script can tell the difference.
        """
        return self.input_type if self.initial_text else "text"

    @property
    def input_attributes(self) -> dict[str, object]:
        """The attributes of the HTML `input` element that depend on the kind and the bounds of the value."""
        if self.kind in ("time", "datetime"):
            return {"step": 1}
        if self.kind not in ("integer", "number"):
            return {}
        bounds = {"min": self.schema.raw.get("minimum"), "max": self.schema.raw.get("maximum")}
        step = 1 if self.kind == "integer" else "any"
        return {"inputmode": "numeric" if step == 1 else "decimal", "step": step, **bounds}

    @property
    def schema_version(self) -> str:
        """Identifier of the schema with the order of its properties, from which the names of the fields are made."""
        return hashlib.sha256(json.dumps(dict(self.schema.raw)).encode()).hexdigest()[:16]

    @property
    def path(self) -> str:
        """The location of the value as text, such as `items[2].price`."""
        return format_path(self.location)

    @property
    def is_edited(self) -> bool:
        """Whether the content or the state of this field, or of a field below it, differs from the original."""
        return any(item.text != item.initial_text or item.state != item.initial_state for item in self.walk())

    def walk(self) -> Iterator[Field]:
        """Yield the field and all fields below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def format_path(location: Location) -> str:
    """Return a location as text, such as `items[2].price`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@final
@dataclass(frozen=True, slots=True)
class _Position:
    """The name, label, location and states of a field that is being built."""

    name: str
    label: str
    location: Location
    states: tuple[State, ...] = ("value",)


# --- Building -------------------------------------------------------------------------------------------------------


def build_form(schema: Mapping[str, object] | None, arguments: Mapping[str, object]) -> Field:
    """Build a form to edit the arguments of a call.

    Args:
        schema: JSON Schema of the arguments. Without a schema, the form is a single JSON field.
        arguments: current values.
    """
    parsed = parse_schema(schema or {}, schema or {})
    value, position = dict(arguments), _Position("f", "arguments", ())
    if schema is None or not parsed.properties:
        return _build_json_field(position, value, parsed)
    return _build_group(position, value, parsed)


def _build_field(position: _Position, value: object, schema: FieldSchema, *, optional: bool) -> Field:
    """Build the form field for a value. If no control is suitable for its schema, the value is edited as JSON."""
    states: list[State] = ["value"]
    if schema.nullable or value is None:
        states.append("null")
    if optional or value is ABSENT:
        states.append("absent")
    position = replace(position, states=tuple(states))
    schema = schema.for_value(value)
    empty = value is None or value is ABSENT
    original = value  # keeps the type `object`, which the checks below would narrow to partially unknown types
    if schema.options is not None and (empty or _option_index(schema.options, value) is not None):
        return _build_choice(position, value, schema, schema.options)
    if schema.kind == "object" and isinstance(value, dict) and schema.properties:
        return _build_group(position, cast("dict[str, object]", value), schema)
    if schema.kind == "array" and schema.items is not None and isinstance(value, list):
        items = cast("list[object]", value)
        if len(items) <= MAX_ITEM_FIELDS:
            return _build_list(position, items, schema)
    if schema.kind in ("string", "integer", "number") and (empty or _fits_input(schema.kind, original)):
        return _build_line(position, original, schema)
    return _build_json_field(position, original, schema)


def _new_field(kind: Kind, position: _Position, value: object, schema: FieldSchema, text: str) -> Field:
    state: State = "absent" if value is ABSENT else "null" if value is None else "value"
    return Field(
        kind,
        position.name,
        position.label,
        position.location,
        value,
        schema,
        position.states,
        state=state,
        text=text,
        initial_text=text,
        initial_state=state,
    )


def _build_line(position: _Position, value: object, schema: FieldSchema) -> Field:
    text = "" if value is None or value is ABSENT else value if isinstance(value, str) else json.dumps(value)
    if schema.kind != "string":
        return _new_field("integer" if schema.kind == "integer" else "number", position, value, schema, text)
    if (control := read_date(schema.raw.get("format"), text)) is not None:
        kind, text, zone = control
        new = _new_field(kind, position, value, schema, text)
        new.zone = zone
        return new
    return _new_field(
        "long" if len(text) > LONG_TEXT or "\n" in text or "\r" in text else "text", position, value, schema, text
    )


def _build_choice(position: _Position, value: object, schema: FieldSchema, options: tuple[object, ...]) -> Field:
    choices = [(str(number), _option_label(schema, option), option) for number, option in enumerate(options)]
    if "null" in position.states and _option_index(options, None) is None:
        choices.append(("null", "no value (null)", None))
    if "absent" in position.states:
        choices.append(("absent", "leave out", ABSENT))
    text = "absent"
    if value is not ABSENT:
        text = choices[_option_index([choice[2] for choice in choices], value) or 0][0]
    new = _new_field("choice", position, value, schema, text)
    new.choices = tuple(choices)
    return new


def _build_group(position: _Position, value: dict[str, object], schema: FieldSchema) -> Field:
    new = _new_field("object", position, value, schema, "")
    for number, (key, inner) in enumerate(schema.properties.items()):
        child = _Position(f"{position.name}-{number}", key, (*position.location, key))
        new.children.append(_build_field(child, value.get(key, ABSENT), inner, optional=key not in schema.required))
    remaining = {key: item for key, item in value.items() if key not in schema.properties}
    if remaining or schema.allows_additional:
        position = _Position(f"{position.name}-r", "further properties", position.location)
        new.children.append(_build_json_field(position, remaining, parse_schema({}, {})))
        new.children[-1].holds_rest = True
    return new


def _build_list(position: _Position, value: list[object], schema: FieldSchema) -> Field:
    new = _new_field("array", position, value, schema, str(len(value)))
    for number, item in enumerate(value):
        new.children.append(_build_item(new, number, item))
    return new


def _build_item(array: Field, number: int, value: object) -> Field:
    assert array.schema.items is not None  # noqa: S101 - `_build_field` builds lists only from schemas with items
    position = _Position(f"{array.name}-{number}", f"{number + 1}", (*array.location, number))
    return _build_field(position, value, array.schema.items, optional=True)


def _build_json_field(position: _Position, value: object, schema: FieldSchema) -> Field:
    return _new_field("json", position, value, schema, "" if value is ABSENT else format_json(value))


def format_json(value: object) -> str:
    """Return a value as indented JSON. Characters that are invisible or not allowed in HTML are escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return escape_invisible(text)


def _fits_input(kind: str, value: object) -> bool:
    """Return whether a plain text or number control can represent the value exactly."""
    if isinstance(value, str):
        return kind == "string" and not has_invisible(value.replace("\r", "\n"))
    if isinstance(value, bool):
        return False
    return isinstance(value, int if kind == "integer" else (int, float))


def is_same_json(first: object, second: object) -> bool:
    """Return whether two values are the same JSON. Unlike with `==`, the values 1, 1.0 and True differ.

    Args:
        first: JSON value.
        second: JSON value.
    """
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


def _option_index(options: Sequence[object], value: object) -> int | None:
    """Return the index of the option that is the same JSON as `value`, or None if no option is."""
    for index, option in enumerate(options):
        if option is not ABSENT and is_same_json(option, value):
            return index
    return None


def _option_label(schema: FieldSchema, option: object) -> str:
    if schema.kind == "boolean":
        return "yes" if option else "no"
    return option if isinstance(option, str) and option.strip() else json.dumps(option, ensure_ascii=True)


# --- Parsing --------------------------------------------------------------------------------------------------------


def read_form(form: Field, posted: Mapping[str, str]) -> dict[str, object]:
    """Parse a submitted form, and store the submitted texts and the errors in its fields.

    Args:
        form: form built from the arguments as they were when the page was rendered.
        posted: submitted fields by name.

    Returns:
        The edited arguments. They are meaningful only if `invalid_fields` returns nothing.
    """
    value = _read_field(form, posted)
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def invalid_fields(form: Field) -> list[Field]:
    """Return the fields of a form that have an error, in page order."""
    return [item for item in form.walk() if item.error]


def attach_errors(form: Field, errors: Mapping[str, str]) -> None:
    """Attach validation errors to the fields that they concern, or to the closest group around them.

    Args:
        form: form to modify.
        errors: messages by path, such as `items[2].price`.
    """
    for path, message in errors.items():
        best = form
        for item in form.walk():
            if not item.holds_rest and _contains_path(item.path, path) and len(item.path) >= len(best.path):
                best = item
        text = message if best.path == path or not path else f"{path}: {message}"
        best.error = f"{best.error}; {text}" if best.error else text


def format_edits(form: Field) -> list[str]:
    """Return the edited fields of a submitted form as lines of text, such as `items[2].price: 3`.

    Args:
        form: form that was read with `read_form()`.
    """
    words = {"null": "no value (null)", "absent": "left out"}
    lines: list[str] = []
    for item in form.walk():
        if (item.text, item.state) != (item.initial_text, item.initial_state) and item.kind not in ("object", "array"):
            labels = {key: label for key, label, _ in item.choices} or {item.text: words.get(item.state, item.text)}
            lines.append(f"{item.path or item.label}: {labels[item.text]}")
    return lines


def _contains_path(outer: str, path: str) -> bool:
    """Return whether `path` is `outer`, or the path of a value inside it."""
    return path == outer or (path.startswith(outer) and path[len(outer)] in ".[") or not outer


def _read_field(form: Field, posted: Mapping[str, str]) -> object:
    """Return the submitted value of a field. If the input is invalid, set the error and return the original value."""
    if form.kind == "choice":
        return _read_choice(form, posted)
    state = posted.get(f"{form.name}.state", form.initial_state)
    form.state = state if state in form.states else form.initial_state
    if form.kind in ("object", "array"):
        if form.state != "value":
            return _empty_value(form)
        return _read_object(form, posted) if form.kind == "object" else _read_list(form, posted)
    form.text = posted.get(form.name, form.initial_text).replace("\r\n", "\n")
    changed = form.text != form.initial_text.replace("\r\n", "\n").replace("\r", "\n")
    if not changed and form.state == form.initial_state:
        form.text = form.initial_text
        return form.original
    if changed and form.state == posted.get(f"{form.name}.was", form.initial_state):
        # The user typed a value but left the state as the page showed it, at null or "leave out".
        form.state = "value"
    if form.state != "value":
        form.text = form.initial_text
        return _empty_value(form)
    return _parse_text(form)


def _empty_value(form: Field) -> object:
    """Return the value of a field whose state is null or absent."""
    return None if form.state == "null" else ABSENT


def _read_choice(form: Field, posted: Mapping[str, str]) -> object:
    key = posted.get(form.name, form.initial_text)
    for known, _, value in form.choices:
        if known == key:
            form.text = key
            return form.original if key == form.initial_text else value
    form.error = "choose one of the listed options"
    return form.original


def _read_object(form: Field, posted: Mapping[str, str]) -> object:
    values: dict[str, object] = {}
    for child in form.children:
        value = _read_field(child, posted)
        if not child.holds_rest:
            if value is not ABSENT:
                values[cast("str", child.location[-1])] = value
        elif not isinstance(value, dict):
            child.error = child.error or "write the further properties as a JSON object: { … }"
        else:
            values.update(cast("dict[str, object]", value))
    before = cast("dict[str, object]", form.original)  # groups are built from objects only
    keys = [*[key for key in before if key in values], *values]
    return {key: values[key] for key in keys}


def _read_list(form: Field, posted: Mapping[str, str]) -> object:
    count_text = posted.get(f"{form.name}.count", "")
    first = len(form.children)
    count = (
        min(int(count_text), first + _MAX_ADDED_ITEMS)
        if _INTEGER.fullmatch(count_text) and len(count_text) < LONG_TEXT
        else first
    )
    if posted.get("add") == form.name:
        count += 1
    for number in range(len(form.children), count):
        form.children.append(_build_item(form, number, ABSENT))
    form.text = str(len(form.children))
    values = [_read_field(child, posted) for child in form.children]
    return [value for value in values if value is not ABSENT]


def _parse_text(form: Field) -> object:
    text = form.text.strip()
    match form.kind:
        case "integer" | "number":
            return _parse_number(form, text)
        case "json":
            return _parse_json(form, text)
        case "date" | "time" | "datetime":
            try:
                return write_date(form.kind, text, form.zone)
            except ValueError as error:
                form.error = f"{error}"
                return form.original
        case _:
            return form.text


def _parse_number(form: Field, text: str) -> object:
    try:
        if _INTEGER.fullmatch(text):
            return int(text)
        if form.kind == "number" and _NUMBER.fullmatch(text) and math.isfinite(number := float(text)):
            return number
    except ValueError:  # more digits than `int()` accepts
        form.error = "the number has too many digits"
        return form.original
    expected = "a whole number, such as 12" if form.kind == "integer" else "a number, such as 12 or 0.5"
    form.error = f"missing or incomplete: write {expected}" if not text else f"{text[:LONG_TEXT]!r} is not {expected}"
    return form.original


def _parse_json(form: Field, text: str) -> object:
    try:
        value: object = json.loads(text)
        json.dumps(value, allow_nan=False)
    except RecursionError:
        form.error = "this JSON is nested too deeply"
    except json.JSONDecodeError as error:
        form.error = f"this is not JSON: {error.msg}, line {error.lineno}, column {error.colno}"
    except ValueError as error:
        form.error = f"this is not JSON: {error}"
    else:
        return value
    return form.original
