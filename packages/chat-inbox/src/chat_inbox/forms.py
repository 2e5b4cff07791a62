"""A form for the arguments of a call, made from its JSON Schema, and what a person wrote into it.

A field that nobody touched keeps the very value that it had: what came back is compared with what was shown. So a
number of any length, text with the line ends of another system, and what a browser would change on its way survive.
What a form cannot express is shown as JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, Literal, TypeAlias, cast, final

from chat_inbox.form_schemas import Shape, shape_of

Kind: TypeAlias = Literal["text", "long", "integer", "number", "choice", "object", "array", "json"]
State: TypeAlias = Literal["value", "null", "absent"]
Place: TypeAlias = tuple[str | int, ...]


class Absent(Enum):
    """A value that is not there."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
LONG: Final = 60
MANY: Final = 50
"""More items than these are shown as JSON."""
_ADDED: Final = 200
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|[+-]?\.[0-9]+([eE][+-]?[0-9]+)?")
# What HTML or a browser does not carry unchanged: control characters, and half of a character. And what nobody sees, or
# what makes text look like another one: a person approves what stands there.
_FRAGILE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\U000e0000-\U000e007f]"
)


@final
@dataclass(slots=True)
class Field:
    """One field, or a group of them.

    Attributes:
        name: in the form that is sent.
        label: for people: the property's name, or the item's number.
        place: where in the arguments the value stands.
        original: the value when the page was made, `ABSENT` where there was none.
        states: what it may be: given, null, or left out.
        text: what the control holds; of a choice, the key of the one that is chosen.
        shown, stood: text and state when the page was made.
        choices: key and label of each, with its value.
        rest: whether it holds the properties of its group that have no field of their own.
        error: what is wrong with it.
    """

    kind: Kind
    name: str
    label: str
    place: Place
    original: object
    shape: Shape
    states: tuple[State, ...] = ("value",)
    state: State = "value"
    text: str = ""
    shown: str = ""
    stood: State = "value"
    choices: tuple[tuple[str, str, object], ...] = ()
    children: list[Field] = field(default_factory=list["Field"])
    rest: bool = False
    error: str = ""

    @property
    def help(self) -> str:
        """What the schema says of it."""
        return self.shape.help

    @property
    def path(self) -> str:
        """Its place in words: `items[2].price`."""
        return path_of(self.place)

    def walk(self) -> Iterator[Field]:
        """The field, and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def path_of(place: Place) -> str:
    """A place in words: `items[2].price`."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@final
@dataclass(frozen=True, slots=True)
class _Spot:
    """Where a field goes, and what it is called."""

    name: str
    label: str
    place: Place
    states: tuple[State, ...] = ("value",)


# --- Making it ------------------------------------------------------------------------------------------------------


def build(schema: Mapping[str, object] | None, arguments: Mapping[str, object]) -> Field:
    """The form for these arguments. Without a schema it is one field of JSON."""
    shape = shape_of(schema or {}, schema or {})
    value, spot = dict(arguments), _Spot("f", "arguments", ())
    if schema is None or not shape.properties:
        return _json_field(spot, value, shape)
    return _group(spot, value, shape)


def _make(spot: _Spot, value: object, shape: Shape, *, optional: bool) -> Field:
    states: list[State] = ["value"]
    if shape.nullable or value is None:
        states.append("null")
    if optional or value is ABSENT:
        states.append("absent")
    spot = replace(spot, states=tuple(states))
    shape = shape.for_value(value)
    empty = value is None or value is ABSENT
    kept = value
    if shape.options is not None and (empty or _place_of(shape.options, value) is not None):
        return _choice(spot, value, shape, shape.options)
    if shape.kind == "object" and isinstance(value, dict) and shape.properties:
        return _group(spot, cast("dict[str, object]", value), shape)
    if shape.kind == "array" and shape.items is not None and isinstance(value, list):
        items = cast("list[object]", value)
        if len(items) <= MANY:
            return _list(spot, items, shape)
    if shape.kind in ("string", "integer", "number") and (empty or _is_simple(shape.kind, kept)):
        return _line(spot, kept, shape)
    return _json_field(spot, kept, shape)


def _begun(kind: Kind, spot: _Spot, value: object, shape: Shape, text: str) -> Field:
    state: State = "absent" if value is ABSENT else "null" if value is None else "value"
    return Field(
        kind,
        spot.name,
        spot.label,
        spot.place,
        value,
        shape,
        spot.states,
        state=state,
        text=text,
        shown=text,
        stood=state,
    )


def _line(spot: _Spot, value: object, shape: Shape) -> Field:
    text = "" if value is None or value is ABSENT else value if isinstance(value, str) else json.dumps(value)
    if shape.kind != "string":
        return _begun("integer" if shape.kind == "integer" else "number", spot, value, shape, text)
    return _begun("long" if len(text) > LONG or "\n" in text or "\r" in text else "text", spot, value, shape, text)


def _choice(spot: _Spot, value: object, shape: Shape, options: tuple[object, ...]) -> Field:
    choices = [(str(number), _option_label(shape, option), option) for number, option in enumerate(options)]
    if "null" in spot.states and _place_of(options, None) is None:
        choices.append(("null", "null", None))
    if "absent" in spot.states:
        choices.append(("absent", "(not given)", ABSENT))
    text = "absent"
    if value is not ABSENT:
        text = choices[_place_of([choice[2] for choice in choices], value) or 0][0]
    made = _begun("choice", spot, value, shape, text)
    made.choices = tuple(choices)
    return made


def _group(spot: _Spot, value: dict[str, object], shape: Shape) -> Field:
    made = _begun("object", spot, value, shape, "")
    for number, (key, inner) in enumerate(shape.properties.items()):
        child = _Spot(f"{spot.name}-{number}", key, (*spot.place, key))
        made.children.append(_make(child, value.get(key, ABSENT), inner, optional=key not in shape.required))
    rest = {key: item for key, item in value.items() if key not in shape.properties}
    if rest or shape.open:
        spot = _Spot(f"{spot.name}-r", "further properties", spot.place)
        made.children.append(_json_field(spot, rest, shape_of({}, {})))
        made.children[-1].rest = True
    return made


def _list(spot: _Spot, value: list[object], shape: Shape) -> Field:
    made = _begun("array", spot, value, shape, str(len(value)))
    for number, item in enumerate(value):
        made.children.append(_item(made, number, item))
    return made


def _item(made: Field, number: int, value: object) -> Field:
    assert made.shape.items is not None  # noqa: S101 - a list is made of a shape with items
    spot = _Spot(f"{made.name}-{number}", f"{number + 1}", (*made.place, number))
    return _make(spot, value, made.shape.items, optional=True)


def _json_field(spot: _Spot, value: object, shape: Shape) -> Field:
    return _begun("json", spot, value, shape, "" if value is ABSENT else json_text(value))


def json_text(value: object) -> str:
    """JSON for people. What a page would not carry unchanged, and what nobody would see, is written as its escape."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return _FRAGILE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def line_text(value: object) -> str:
    """A value as a line of a list: text as it is, where all of it can be seen; else JSON."""
    plain = isinstance(value, str) and not _FRAGILE.search(value.replace("\r", "\n"))
    return " ".join((str(value) if plain else json_text(value)).split())


def _is_simple(kind: str, value: object) -> bool:
    if isinstance(value, str):
        return kind == "string" and not _FRAGILE.search(value.replace("\r", "\n"))
    if isinstance(value, bool):
        return False
    return isinstance(value, int if kind == "integer" else (int, float))


def same(one: object, other: object) -> bool:
    """Whether two values are the same JSON. Python's 1, 1.0 and True are equal, and JSON's are not."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _place_of(options: Sequence[object], value: object) -> int | None:
    for number, option in enumerate(options):
        if option is not ABSENT and same(option, value):
            return number
    return None


def _option_label(shape: Shape, option: object) -> str:
    if shape.kind == "boolean":
        return "yes" if option else "no"
    return option if isinstance(option, str) and option.strip() else json.dumps(option, ensure_ascii=True)


# --- Reading it -----------------------------------------------------------------------------------------------------


def read(form: Field, posted: Mapping[str, str]) -> dict[str, object]:
    """The arguments, as they were sent. The form then holds what was sent, and what is wrong with it."""
    value = _read(form, posted)
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def errors_of(form: Field) -> list[Field]:
    """The fields that something is wrong with, in the order of the page."""
    return [item for item in form.walk() if item.error]


def blame(form: Field, problems: Mapping[str, str]) -> None:
    """Put what is wrong to the field that it is about, or to the group around it."""
    for path, told in problems.items():
        best = form
        for item in form.walk():
            if not item.rest and _is_above(item.path, path) and len(item.path) >= len(best.path):
                best = item
        text = told if best.path == path or not path else f"{path}: {told}"
        best.error = f"{best.error}; {text}" if best.error else text


def _is_above(path: str, other: str) -> bool:
    return other == path or (other.startswith(path) and other[len(path)] in ".[") or not path


def _read(form: Field, posted: Mapping[str, str]) -> object:
    if form.kind == "choice":
        return _read_choice(form, posted)
    state = posted.get(f"{form.name}.state", form.stood)
    form.state = state if state in form.states else form.stood
    if form.kind in ("object", "array"):
        if form.state != "value":
            return _without(form)
        return _read_object(form, posted) if form.kind == "object" else _read_list(form, posted)
    form.text = posted.get(form.name, form.shown).replace("\r\n", "\n")
    touched = form.text != form.shown.replace("\r\n", "\n").replace("\r", "\n")
    if not touched and form.state == form.stood:
        form.text = form.shown
        return form.original
    if touched and form.state == form.stood:
        # Somebody wrote into a field that was empty, and left it at "not given".
        form.state = "value"
    return _without(form) if form.state != "value" else _parse(form)


def _without(form: Field) -> object:
    return None if form.state == "null" else ABSENT


def _read_choice(form: Field, posted: Mapping[str, str]) -> object:
    key = posted.get(form.name, form.shown)
    for known, _, value in form.choices:
        if known == key:
            form.text = key
            return form.original if key == form.shown else value
    form.error = "choose one of those that are listed"
    return form.original


def _read_object(form: Field, posted: Mapping[str, str]) -> object:
    values: dict[str, object] = {}
    for child in form.children:
        value = _read(child, posted)
        if not child.rest:
            if value is not ABSENT:
                values[cast("str", child.place[-1])] = value
        elif not isinstance(value, dict):
            child.error = child.error or "further properties are a JSON object: { … }"
        else:
            values.update(cast("dict[str, object]", value))
    before = cast("dict[str, object]", form.original)  # a group is made for an object
    keys = [*[key for key in before if key in values], *values]
    return {key: values[key] for key in keys}


def _read_list(form: Field, posted: Mapping[str, str]) -> object:
    sent = posted.get(f"{form.name}.count", "")
    first = len(form.children)
    count = min(int(sent), first + _ADDED) if _INTEGER.fullmatch(sent) and len(sent) < LONG else first
    if posted.get("add") == form.name:
        count += 1
    for number in range(len(form.children), count):
        form.children.append(_item(form, number, ABSENT))
    form.text = str(len(form.children))
    values = [_read(child, posted) for child in form.children]
    return [value for value in values if value is not ABSENT]


def _parse(form: Field) -> object:
    text = form.text.strip()
    match form.kind:
        case "integer" | "number":
            return _parse_number(form, text)
        case "json":
            return _parse_json(form, text)
        case _:
            return form.text


def _parse_number(form: Field, text: str) -> object:
    try:
        if _INTEGER.fullmatch(text):
            return int(text)
        if form.kind == "number" and _NUMBER.fullmatch(text) and math.isfinite(number := float(text)):
            return number
    except ValueError:  # more digits than Python reads
        form.error = "a number of so many digits cannot be read"
        return form.original
    what = "a whole number, such as 12" if form.kind == "integer" else "a number, such as 12 or 0.5"
    form.error = f"write {what}" if not text else f"{text[:LONG]!r} is not {what}"
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
