"""The canonical form ignores the listed differences and no others."""

from __future__ import annotations

from typing import Final

import pytest

from ..normalise import Json, Object
from .canonical import EQUIVALENCES, canonical, differences, fingerprint


def said(*items: Object, **fields: Json) -> Object:
    given: list[Json] = [*items]
    return {"input": given, **fields}


def tool(**fields: Json) -> Object:
    declared: Object = {"type": "function", "name": "f", **fields}
    return {"tools": [declared]}


def call(arguments: str) -> Object:
    return said({"type": "function_call", "call_id": "a", "arguments": arguments})


def message(text: Json, **fields: Json) -> Object:
    return {"role": "user", "content": text, **fields}


def image(url: str, **fields: Json) -> Object:
    part: Object = {"type": "input_image", "image_url": url, **fields}
    return said(message([part]))


TEXT: Final[Object] = {"type": "input_text", "text": "a"}
SAID: Final[Object] = {"type": "output_text", "text": "a"}
THOUGHT: Final[Object] = {"type": "reasoning", "id": "rs_1"}
OUTPUT: Final[Object] = {"type": "function_call_output", "call_id": "a"}
SCHEMA: Final[Object] = {"type": "object", "properties": {}}

SAME: Final[dict[str, tuple[Object, Object]]] = {
    "key-order": ({"model": "m", "input": []}, {"input": [], "model": "m"}),
    "number": ({"top_p": 1}, {"top_p": 1.0}),
    "null": ({"model": "m", "user": None}, {"model": "m"}),
    "input-string": ({"input": "a"}, said(message("a"))),
    "content-string": (said(message("a")), said(message([TEXT]))),
    "output-string": (said({**OUTPUT, "output": "a"}), said({**OUTPUT, "output": [TEXT]})),
    "message-type": (said(message("a", type="message")), said(message("a"))),
    "completed": (said({**THOUGHT, "status": "completed"}), said(THOUGHT)),
    "echoes": (
        said({"role": "assistant", "content": [{**SAID, "annotations": [], "logprobs": [1]}]}),
        said({"role": "assistant", "content": "a"}),
    ),
    "no-thoughts": (said({**THOUGHT, "content": [], "summary": []}), said(THOUGHT)),
    "nothing-stored": (said(THOUGHT, store=False), said({"type": "reasoning"}, store=False)),
    "arguments": (call('{"a": 1}'), call('{"a":1}')),
    "data-url": (image("data:image/png;base64,eA=="), image("data:image/png;base64,e A=\n=")),
    "detail": (image("https://h", detail="auto"), image("https://h")),
    "not-strict": (tool(strict=False), tool()),
    "no-description": (tool(description=""), tool()),
    "required-set": (tool(parameters={**SCHEMA, "required": []}), tool(parameters=SCHEMA)),
    "schema-dialect": (tool(parameters={**SCHEMA, "$schema": "x"}), tool(parameters=SCHEMA)),
    "default-choice": ({**tool(), "tool_choice": "auto"}, tool()),
    "include-set": ({"include": ["b", "a"]}, {"include": ["a", "b"]}),
    "defaults": ({"stream": False, "truncation": "disabled", "store": True, "text": {"format": {"type": "text"}}}, {}),
    "no-tools": ({"tools": []}, {}),
}

OTHER: Final[tuple[tuple[Object, Object], ...]] = (
    ({"model": "m"}, {"model": "n"}),
    (said(message("a"), message("b")), said(message("b"), message("a"))),
    (said(message("a")), said(message([TEXT, TEXT]))),
    (said(message("a")), said(message("a", role="system"))),
    (said(THOUGHT), said({"type": "reasoning"})),
    (said({**THOUGHT, "encrypted_content": "x"}), said(THOUGHT)),
    (said({**THOUGHT, "status": "incomplete"}), said(THOUGHT)),
    (call('{"a": 1}'), call('{"a": 2}')),
    (call("{"), call("{}")),
    (image("data:image/png;base64,eA=="), image("data:image/jpeg;base64,eA==")),
    (image("https://h", detail="low"), image("https://h")),
    (tool(strict=True), tool()),
    (tool(parameters={**SCHEMA, "additionalProperties": False}), tool(parameters=SCHEMA)),
    ({"store": False}, {}),
    ({"include": ["a"]}, {}),
    ({"text": {"format": {"type": "json_object"}}}, {}),
    ({"previous_response_id": "resp_1"}, {}),
)


@pytest.mark.parametrize("equivalence", EQUIVALENCES, ids=lambda equivalence: equivalence.name)
def test_the_example_of_each_equivalence_has_no_differences(equivalence: object) -> None:
    name = getattr(equivalence, "name")  # noqa: B009 - an object to the parametrisation
    one, other = SAME[name]
    assert differences(one, other) == []
    assert differences(other, one) == []


def test_every_equivalence_has_an_example_and_a_reason() -> None:
    assert [item.name for item in EQUIVALENCES] == list(SAME)
    assert all(item.reason and item.same for item in EQUIVALENCES)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_requests_that_are_not_equivalent_differ(one: Object, other: Object) -> None:
    assert differences(one, other)
    assert differences(one, one) == []


def test_canonical_does_not_change_the_body() -> None:
    body = said(message("a", type="message"), tools=[], include=["b", "a"])
    before = repr(body)
    canonical(body)
    assert repr(body) == before


def test_equivalent_items_have_the_same_fingerprint() -> None:
    assert fingerprint([message("a")]) == fingerprint([message([TEXT])])
    assert fingerprint([message("a")]) != fingerprint([message("b")])
