"""JSON Schemas as llama.cpp can enforce them, token by token.

A grammar that cannot be built is not enforced at all, and llama.cpp does not say so. Hence a schema is rewritten to
what is known to be understood: what bounds a value beyond that (`not`, `uniqueItems`, a pattern that looks ahead …) is
left to the validation of the arguments and answers, which happens anyway; what says where a value's shape is to be
found, and cannot be followed, is refused. Objects that name their properties and do not say whether they may have
others are closed, since a small model does not know when to stop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn, final

from chat_core.wire.shapes import Json, is_list, is_mapping

_KEPT: Final = frozenset(
    {
        "const",
        "enum",
        "required",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "minProperties",
        "maxProperties",
        "type",
    }
)
"""What goes over as it is."""
_BOUNDS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_ONE: Final = frozenset({"items", "additionalProperties"})
_LISTS: Final = frozenset({"anyOf", "allOf", "prefixItems"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_ELSEWHERE: Final = ("$dynamicRef", "$recursiveRef")
# Look-around and whatever else a `(?` begins except a group, boundaries, references, quantifiers with a temper.
_UNSEEN: Final = re.compile(r"\(\?(?!:)|\\[bBAZzGkc1-9]|(?:(?<!\\)[*+?]|\d\})[+?]")
_CLASS: Final = re.compile(r"\\[pP]\{\w+\}")
_EXACT: Final = 2**53
_DEEPEST: Final = 64


class UnconstrainableError(ValueError):
    """The request cannot be put into a grammar; the message says why."""


def enforceable(schema: Mapping[str, Any], owner: str, place: str = "#") -> Json:
    """The schema, as far as a grammar can hold it.

    Args:
        schema: a JSON Schema.
        owner: whose it is, for the message.
        place: where it will stand in the schema of the whole answer, as a JSON pointer. References are told from there.

    Raises:
        UnconstrainableError: a keyword cannot be followed; the message names it.
    """
    rewriter = _Rewriter(schema, owner, place)
    rewritten = rewriter.rewrite(schema, 0)
    return {} if isinstance(rewritten, bool) else rewritten


def refers(schema: object) -> bool:
    """Whether there is a reference in a schema."""
    return any("$ref" in rules for rules in _rules(schema))


def resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a schema refers to, or the schema itself where it refers to nothing that is found in `root`."""
    for _ in range(_DEEPEST):
        found = _found(schema.get("$ref"), root)
        if found is None:
            return schema
        schema = found
    return schema


def _rules(schema: object) -> Iterator[Mapping[str, Any]]:
    """Every schema inside a schema, and whatever else is an object there."""
    if is_mapping(schema):
        yield schema
        for item in schema.values():
            yield from _rules(item)
    elif is_list(schema):
        for item in schema:
            yield from _rules(item)


def _found(reference: object, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a JSON pointer (RFC 6901) in a fragment leads to."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    here: Any = root
    for step in reference.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if is_list(here) and key.isdecimal() and int(key) < len(here):
            here = here[int(key)]
        elif is_mapping(here) and key in here:
            here = here[key]
        else:
            return None
    return here if is_mapping(here) else None


@final
class _Rewriter:
    __slots__ = ("_closing", "_owner", "_place", "_root")

    def __init__(self, root: Mapping[str, Any], owner: str, place: str) -> None:
        self._root = root
        self._owner = owner
        self._place = place
        # Where several schemas hold for one object, each has to leave room for the properties of the others.
        self._closing = not any(_together(rules) for rules in _rules(root))

    def rewrite(self, schema: object, depth: int) -> Json | bool:
        if isinstance(schema, bool):
            return schema
        if not is_mapping(schema):
            self._refuse(f"a schema is an object, not {schema!r}")
        if depth > _DEEPEST:
            self._refuse("it is nested too deeply")
        rewritten: Json = {}
        for keyword, value in schema.items():
            self._take(keyword, value, rewritten, depth)
        if is_list(schema.get("oneOf")) and "anyOf" not in schema:
            rewritten["anyOf"] = self._list("oneOf", schema["oneOf"], depth)
        self._close(rewritten)
        return rewritten

    def _take(self, keyword: str, value: object, rewritten: Json, depth: int) -> None:
        if keyword == "$ref":
            rewritten["$ref"] = self._reference(value)
        elif keyword in _ELSEWHERE:
            self._refuse(f"{keyword} cannot be followed")
        elif keyword in _ONE:
            rewritten[keyword] = self.rewrite(value, depth + 1)
        elif keyword in _LISTS:
            rewritten[keyword] = self._list(keyword, value, depth)
        elif keyword in _NAMED:
            rewritten[keyword] = self._named(keyword, value, depth)
        elif keyword in _KEPT:
            self._check(keyword, value)
            rewritten[keyword] = value
        elif _bound(keyword, value):
            rewritten[keyword] = value

    def _list(self, keyword: str, value: object, depth: int) -> list[Json | bool]:
        if not is_list(value) or not value:
            self._refuse(f"{keyword} is a list of schemas, not {value!r}")
        return [self.rewrite(item, depth + 1) for item in value]

    def _named(self, keyword: str, value: object, depth: int) -> Json:
        if not is_mapping(value):
            self._refuse(f"{keyword} is an object of schemas, not {value!r}")
        return {name: self.rewrite(item, depth + 1) for name, item in value.items()}

    def _check(self, keyword: str, value: object) -> None:
        if keyword == "enum" and not (is_list(value) and value):
            self._refuse(f"enum is a list of values, not {value!r}")
        if keyword == "type":
            for name in value if is_list(value) else [value]:
                if name not in _TYPES:
                    self._refuse(f"type {name!r} is none of JSON Schema's")

    def _reference(self, value: object) -> str:
        if _found(value, self._root) is None:
            self._refuse(f"$ref {value!r} leads nowhere in the schema itself, and nothing else is looked up")
        return f"{self._place}{str(value)[1:]}"

    def _close(self, rewritten: Json) -> None:
        properties = rewritten.get("properties")
        if not self._closing or not properties or "patternProperties" in rewritten:
            return
        if set(rewritten.get("required", ())) <= set(properties):
            rewritten.setdefault("additionalProperties", False)

    def _refuse(self, why: str) -> NoReturn:
        msg = f"the schema of {self._owner} cannot be enforced by llama.cpp: {why}"
        raise UnconstrainableError(msg)


def _together(rules: Mapping[str, Any]) -> bool:
    """Whether one value is to meet several schemas that may each name properties."""
    several = rules.get("allOf")
    if is_list(several) and (len(several) > 1 or "properties" in rules):
        return True
    return "properties" in rules and bool(rules.keys() & {"anyOf", "oneOf", "$ref"})


def _bound(keyword: str, value: object) -> bool:
    """Whether a grammar can hold a bound, which depends on what it says."""
    if keyword in _BOUNDS:
        return isinstance(value, int | float) and abs(value) <= _EXACT
    if keyword == "pattern":
        return isinstance(value, str) and _is_seen(value)
    return keyword == "format" and value in _FORMATS


def _is_seen(pattern: str) -> bool:
    """Whether a pattern is one that a grammar can hold: a regular expression, in the theory's sense of it."""
    try:
        re.compile(_CLASS.sub("x", pattern))
    except re.error:
        return False
    return _UNSEEN.search(pattern) is None
