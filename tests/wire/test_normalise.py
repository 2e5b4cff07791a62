"""Each change of a field of a recorded request changes the normalized form, except for the listed equivalences."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeGuard, cast

import pytest

from .exchanges import Exchange, accepted, require_wire
from .listed import read_rows
from .normalise import EQUIVALENCES, Json, Object, differences, fingerprint

require_wire()


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


# --- Each equivalence on its own ---------------------------------------------------------------------------------


def _said(**message: Json) -> Object:
    return {"model": "m", "messages": [message]}


def _user(*parts: Json) -> Object:
    return _said(role="user", content=list(parts))


def _calling(call: Object, **more: Json) -> Object:
    return {"model": "m", "messages": [{"role": "assistant", "tool_calls": [call], **more}]}


def _call(**more: Json) -> Object:
    return {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}, **more}


def _answered(**more: Json) -> Object:
    answer: Object = {"role": "tool", "tool_call_id": "c", "content": "3", **more}
    return {"model": "m", "messages": [{"role": "assistant", "tool_calls": [_call()]}, answer]}


def _tool(*, type_: Json = "function", **function: Json) -> Object:
    tool: Object = {"function": {"name": "f", **function}}
    if type_ is not None:
        tool["type"] = type_
    return {"model": "m", "tools": [tool]}


def _image(**more: Json) -> Object:
    return _user({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGg==", **more}})


def _wants(**more: Json) -> Object:
    return _tool(parameters={"type": "object", "properties": {"a": {}, "b": {}}, **more})


SAME: Final[tuple[tuple[str, Object, Object], ...]] = (
    ("key-order", {"model": "m", "seed": 1}, {"seed": 1, "model": "m"}),
    ("number", {"temperature": 1}, {"temperature": 1.0}),
    ("null", {"model": "m", "stop": None}, {"model": "m"}),
    ("null", _said(role="assistant", content="x", refusal=None), _said(role="assistant", content="x")),
    ("content-string", _said(role="user", content="x"), _user({"type": "text", "text": "x"})),
    ("silent-call", _calling(_call(), content=""), _calling(_call())),
    ("silent-call", _calling(_call(), content=[]), _calling(_call(), content=None)),
    ("arguments", _calling(_call()), _calling(_call(function={"name": "f", "arguments": '{"a":1.0}'}))),
    (
        "no-arguments",
        _calling(_call(function={"name": "f", "arguments": ""})),
        _calling(_call(function={"name": "f", "arguments": "{}"})),
    ),
    ("call-type", _tool(), _tool(type_=None)),
    ("call-index", _calling(_call(index=0)), _calling(_call())),
    ("result-name", _answered(name="f"), _answered()),
    ("no-annotations", _said(role="assistant", content="x", annotations=[]), _said(role="assistant", content="x")),
    ("no-prefix", _said(role="assistant", content="x", prefix=False), _said(role="assistant", content="x")),
    ("data-url", _image(), _image(url="data:image/png;base64,iVBORw0K\nGg")),
    ("detail", _image(detail="auto"), _image()),
    ("not-strict", _tool(strict=False), _tool()),
    ("no-parameters", _tool(parameters={"type": "object", "properties": {}}), _tool()),
    ("no-tools", {"model": "m", "tools": [], "tool_choice": "none"}, {"model": "m"}),
    ("no-calls", {"model": "m", "parallel_tool_calls": False}, {"model": "m"}),
    ("schema-dialect", _wants(**{"$schema": "https://json-schema.org/draft/2020-12/schema"}), _wants()),
    ("schema-dialect", _wants(**{"$schema": "http://json-schema.org/draft-07/schema#"}), _wants()),
    ("no-description", _tool(description=""), _tool()),
    ("required-set", _wants(required=["a", "b"]), _wants(required=["b", "a"])),
    ("required-set", _wants(required=[]), _wants()),
    ("default-choice", {**_tool(), "tool_choice": "auto"}, _tool()),
    ("default-choice", {"model": "m", "tool_choice": "none"}, {"model": "m"}),
    ("any-tool", {**_tool(), "tool_choice": "any"}, {**_tool(), "tool_choice": "required"}),
    ("no-stream", {"stream": False}, {}),
    ("one-answer", {"n": 1}, {}),
    ("text-format", {"response_format": {"type": "text"}}, {}),
    ("stop-string", {"stop": "x"}, {"stop": ["x"]}),
    ("input-string", {"input": "x"}, {"input": ["x"]}),
    ("float-vectors", {"input": "x", "encoding_format": "float"}, {"input": "x"}),
)

DIFFERENT: Final[tuple[tuple[str, Object, Object], ...]] = (
    ("another dialect of schemas", _wants(**{"$schema": "https://example.org/mine"}), _wants()),
    ("parallel calls beside tools", {**_tool(), "parallel_tool_calls": True}, _tool()),
    ("a null in a schema is a value", _wants(default=None), _wants()),
    (
        "a null among arguments is a value",
        _calling(_call()),
        _calling(_call(function={"name": "f", "arguments": "null"})),
    ),
    (
        "two texts are not one",
        _said(role="user", content="ab"),
        _user({"type": "text", "text": "a"}, {"type": "text", "text": "b"}),
    ),
    ("silence without calls is an answer", _said(role="assistant", content=""), _said(role="assistant")),
    ("a number is no string", {"seed": 1}, {"seed": "1"}),
    ("a truth is no number", {"logprobs": True}, {"logprobs": 1}),
    ("properties have an order", _wants(), _tool(parameters={"type": "object", "properties": {"b": {}, "a": {}}})),
    ("a result's name is its call's", _answered(name="g"), _answered()),
    ("a system is no developer", _said(role="system", content="x"), _said(role="developer", content="x")),
    ("auto is no choice without tools", {"tool_choice": "auto"}, {}),
    ("none is a choice beside tools", {**_tool(), "tool_choice": "none"}, _tool()),
    ("a mime type is part of the data", _image(), _image(url="data:image/gif;base64,iVBORw0KGg==")),
    ("max_tokens is not max_completion_tokens", {"max_tokens": 1}, {"max_completion_tokens": 1}),
    (
        "messages of one role are not merged",
        _said(role="user", content="a"),
        {"model": "m", "messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "a"}]},
    ),
)


@pytest.mark.parametrize(("name", "left", "right"), SAME)
def test_the_examples_of_equivalences_have_no_differences(name: str, left: Object, right: Object) -> None:
    assert differences(left, right) == [], name
    assert fingerprint(left) == fingerprint(right)


@pytest.mark.parametrize(("name", "left", "right"), DIFFERENT, ids=[name for name, _, _ in DIFFERENT])
def test_requests_that_only_look_equivalent_differ(name: str, left: Object, right: Object) -> None:
    assert differences(left, right), name
    assert differences(right, left), name
    assert fingerprint(left) != fingerprint(right)


def test_every_equivalence_has_a_name_an_example_and_a_reason() -> None:
    assert {name for name, _, _ in SAME} == {equivalence.name for equivalence in EQUIVALENCES}
    assert len({equivalence.name for equivalence in EQUIVALENCES}) == len(EQUIVALENCES)
    assert all(equivalence.same and equivalence.reason for equivalence in EQUIVALENCES)


def test_the_documentation_page_lists_every_equivalence() -> None:
    table = [[item.name, item.same, item.reason] for item in EQUIVALENCES]
    lines = "\n".join([f"| {' | '.join(row)} |" for row in table])
    assert read_rows("Equivalent requests") == table, f"the table is now:\n{lines}"


def test_a_difference_contains_its_path() -> None:
    [difference] = differences(_said(role="user", content="a"), _said(role="user", content="b"))
    assert str(difference) == 'messages[0].content[0].text: "a" ≠ "b"'
    [missing] = differences({"seed": 1}, {})
    assert str(missing) == "seed: 1 ≠ (absent)"


def test_fingerprint_does_not_change_the_body() -> None:
    body = _answered(name="f", refusal=None)
    before = copy.deepcopy(body)
    fingerprint(body)
    assert body == before


# --- Every field of every recorded request --------------------------------------------------------------------------

SCHEMA: Final = re.compile(r"\.(parameters|schema)(\.|$)")
Context: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Unnoticed:
    """Mutants that the normalizer must not notice: those of an equivalence, and no others."""

    equivalence: str
    path: re.Pattern[str]
    operations: frozenset[str]
    when: Callable[[Any, Context], bool]


def _entry(equivalence: str, path: str, operations: str, when: Callable[[Any, Context], bool]) -> Unnoticed:
    return Unnoticed(equivalence, re.compile(path), frozenset(operations.split()), when)


def _beside_calls(old: object, context: Context) -> bool:
    return context["parent"].get("role") == "assistant" and bool(context["parent"].get("tool_calls")) and not old


def _calls_name(old: object, context: Context) -> bool:
    return context["parent"].get("role") == "tool" and old in context["names"]


def _empty_object(old: object, _: Context) -> bool:
    return isinstance(old, dict) and {**old, "required": []} == {"type": "object", "properties": {}, "required": []}


UNNOTICED: Final = (
    _entry("null", r"^(?!.*\.(parameters|schema)\.)", "drop null", lambda old, _: old is None),
    _entry("no-stream", r"^stream$", "drop null", lambda old, _: old is False),
    _entry("one-answer", r"^n$", "drop null", lambda old, _: old == 1),
    _entry("float-vectors", r"^encoding_format$", "drop null", lambda old, _: old == "float"),
    _entry("text-format", r"^response_format$", "drop null", lambda old, _: old == {"type": "text"}),
    _entry(
        "default-choice",
        r"^tool_choice$",
        "drop null",
        lambda old, context: old == ("auto" if context["body"].get("tools") else "none"),
    ),
    _entry("silent-call", r"^messages\[\]\.content$", "drop null", _beside_calls),
    _entry(
        "silent-call",
        r"^messages\[\]\.content\[\]$",
        "drop",
        lambda old, context: (
            old == {"type": "text", "text": ""}
            and len(context["parent"]) == 1
            and context["grandparent"].get("role") == "assistant"
            and bool(context["grandparent"].get("tool_calls"))
        ),
    ),
    _entry("call-index", r"^messages\[\]\.tool_calls\[\]\.index$", "drop null", lambda old, _: old == 0),
    _entry(
        "call-type",
        r"^(messages\[\]\.tool_calls|tools)\[\]\.type$",
        "drop null",
        lambda old, context: old == "function" and "function" in context["parent"],
    ),
    _entry("result-name", r"^messages\[\]\.name$", "drop null", _calls_name),
    _entry("no-annotations", r"^messages\[\]\.annotations$", "drop null", lambda old, _: old == []),
    _entry("no-prefix", r"^messages\[\]\.prefix$", "drop null", lambda old, _: old is False),
    _entry("detail", r"\.image_url\.detail$", "drop null", lambda old, _: old == "auto"),
    _entry("not-strict", r"\.(function|json_schema)\.strict$", "drop null", lambda old, _: old is False),
    _entry("no-parameters", r"^tools\[\]\.function\.parameters$", "drop null", _empty_object),
    _entry("no-tools", r"^tools$", "drop null", lambda old, _: old == []),
    _entry(
        "no-calls",
        r"^parallel_tool_calls$",
        "drop null change retype",
        lambda _old, context: not context["body"].get("tools"),
    ),
    _entry(
        "schema-dialect", r"\.(parameters|schema)\.\$schema$", "drop", lambda old, _: "json-schema.org/" in str(old)
    ),
    _entry("no-description", r"^tools\[\]\.function\.description$", "drop null", lambda old, _: not old),
    _entry("required-set", r"\.(parameters|schema)(\..*)?\.required$", "drop", lambda old, _: old == []),
    _entry("required-set", r"\.(parameters|schema)(\..*)?\.required\[\]$", "swap", lambda _old, _: True),
)


def test_every_unnoticed_change_belongs_to_an_equivalence() -> None:
    assert {entry.equivalence for entry in UNNOTICED} <= {equivalence.name for equivalence in EQUIVALENCES}


@pytest.mark.parametrize("part", range(8))
def test_every_dropped_or_changed_field_of_a_request_is_noticed(part: int) -> None:
    wrong = list[str]()
    count = 0
    for exchange in accepted()[part::8]:
        for path, operation, expected, found in _judged(exchange):
            count += 1
            if expected is not found:
                wrong.append(f"{exchange.id}: {operation} {path}: {'noticed' if found else 'not noticed'}")
    assert not wrong, "\n".join(wrong[:40])
    assert count > 1000


@pytest.mark.parametrize("part", range(4))
def test_another_spelling_of_a_recorded_request_is_equivalent(part: int) -> None:
    for exchange in accepted()[part::4]:
        body = copy.deepcopy(exchange.body)
        assert differences(body, cast("Object", _respelled("", cast("Json", body)))) == [], exchange.id


def _judged(exchange: Exchange) -> Iterator[tuple[str, str, bool, bool]]:
    """Yield each mutant: place, operation, whether the normalizer should notice the change, and whether it does."""
    body = copy.deepcopy(exchange.body)
    base = fingerprint(body)
    messages = cast("list[Any]", body.get("messages", []))
    calls = [cast("list[Any]", message.get("tool_calls") or []) for message in messages]
    names = {call["function"]["name"] for call in itertools.chain(*calls) if "function" in call}
    for path, operation, old, parents, apply, undo in _mutants(body):
        context: Context = {"body": body, "parent": parents[-1], "grandparent": parents[-2], "names": names}
        expected = not any(
            operation in entry.operations and entry.path.search(path) and entry.when(old, context)
            for entry in UNNOTICED
        )
        apply()
        found = fingerprint(body) != base
        undo()
        yield path, operation, expected, found
    assert fingerprint(body) == base


Mutant: TypeAlias = tuple[str, str, Any, tuple[Any, Any], Callable[[], None], Callable[[], None]]


def _mutants(body: Object) -> Iterator[Mutant]:
    """Yield each mutant with one change. The change is made in place and reverted afterward."""
    for path, parent, key, above in _places(cast("Any", body), "", {}):
        old = parent[key]
        parents = (above, parent)
        for operation, new in _changes(path, old):
            yield path, operation, old, parents, _setter(parent, key, new), _setter(parent, key, old)
        if _is_object(parent):
            members = list(parent.items())
            rest = [(name, value) for name, value in members if name != key]
            yield path, "drop", old, parents, _refill(parent, rest), _refill(parent, members)
            added = [*members, ("added", 1)]
            yield path, "add", old, parents, _refill(parent, added), _refill(parent, members)
        else:
            items = list(parent)
            rest = items[:key] + items[key + 1 :]
            yield path, "drop", old, parents, _replace(parent, rest), _replace(parent, items)
            twice = [*items[: key + 1], *items[key:]]
            yield path, "repeat", old, parents, _replace(parent, twice), _replace(parent, items)
            if key and items[key - 1] != old:
                swapped = [*items[: key - 1], old, items[key - 1], *items[key + 1 :]]
                yield path, "swap", old, parents, _replace(parent, swapped), _replace(parent, items)


def _changes(path: str, old: Any) -> Iterator[tuple[str, Any]]:
    if old is not None:
        yield "null", None
    if isinstance(old, bool):
        yield "change", not old
        yield "retype", int(old)
    elif isinstance(old, (int, float)):
        yield "change", old + 1
        yield "retype", str(old)
    elif isinstance(old, str):
        yield "change", f"~{old}"
        yield "change", f"{old}~"
        if path.endswith(".arguments"):
            yield from _changed_arguments(old)
    elif _is_object(old) and path.endswith(".properties") and len(old) > 1:
        yield "reorder", dict(reversed(list(old.items())))


def _changed_arguments(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text of arguments with an added member, and with each member removed or changed."""
    try:
        given = json.loads(text)
    except ValueError:
        return
    if _is_object(given):
        yield "change", json.dumps({**given, "added": 1})
        for name, value in given.items():
            yield "change", json.dumps({key: item for key, item in given.items() if key != name})
            yield "change", json.dumps({**given, name: [value]})


def _places(node: Any, path: str, above: Any) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield every member of each object and list: its path, container, key, and the container of that."""
    if _is_object(node):
        for key in list(node):
            where = f"{path}.{key}" if path else key
            yield where, node, key, above
            yield from _places(node[key], where, node)
    elif _is_list(node):
        for index in range(len(node)):
            yield f"{path}[]", node, index, above
            yield from _places(node[index], f"{path}[]", node)


def _setter(parent: Any, key: Any, value: Any) -> Callable[[], None]:
    def apply() -> None:
        parent[key] = value

    return apply


def _refill(parent: dict[Any, Any], members: list[tuple[Any, Any]]) -> Callable[[], None]:
    def apply() -> None:
        parent.clear()
        parent.update(members)

    return apply


def _replace(parent: list[Any], items: list[Any]) -> Callable[[], None]:
    def apply() -> None:
        parent[:] = items

    return apply


def _respelled(path: str, value: Json) -> Json:
    """Return an equivalent body with another order of keys, and other nulls, short forms, numbers and white space."""
    if isinstance(value, list):
        return [_respelled(f"{path}[]", item) for item in value]
    if not isinstance(value, dict):
        return _respelled_leaf(path, value)
    items = list(value.items())
    if not path.endswith((".properties", ".$defs", ".definitions")):
        items.reverse()
    form = {key: _respelled(f"{path}.{key}", item) for key, item in items}
    if not SCHEMA.search(path):
        form.setdefault("nothing", None)
    return form


def _respelled_leaf(path: str, value: Json) -> Json:
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and path.endswith("[].content"):
        return [{"text": value, "type": "text"}]
    if isinstance(value, str) and path.endswith(".arguments"):
        try:
            return json.dumps(json.loads(value), indent=1)
        except ValueError:
            return value
    return value
