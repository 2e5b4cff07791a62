"""Regular expressions in JSON Schemas, matched in linear time.

A schema may come from a server and arguments come from a model. Python's `re` needs exponential time for some patterns,
holds the interpreter lock while it matches, and so cannot be limited by a timeout. The regex engine of pydantic needs
linear time, but supports neither look-around nor back-references.
"""

# ruff: noqa: ANN401 - jsonschema has no type annotations

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, cast, final

from pydantic_core import SchemaError, SchemaValidator, core_schema

from chat_core.errors import UsageError

_OPERATORS = re.compile(r"[*+?{|]")


@final
class Pattern:
    """Compiled regular expression that is matched in linear time.

    Raises:
        UsageError: the pattern is not a regular expression, or the engine cannot match it.
    """

    __slots__ = ("_matcher",)

    def __init__(self, pattern: str, /) -> None:
        """Compile `pattern`. If Unicode character classes make it too large, use ASCII character classes instead."""
        try:
            self._matcher = _compile_matcher(pattern)
        except SchemaError as error:
            try:
                self._matcher = _compile_matcher(f"(?-u){pattern}")
            except SchemaError:
                reason = str(error).strip().splitlines()[-1].strip().removeprefix("error: ").rstrip(".")
                msg = (
                    f"the pattern {pattern!r} is invalid or cannot be matched in linear time ({reason}): use valid "
                    "syntax without look-around, back-references or large counts"
                )
                raise UsageError(msg) from error

    def search(self, text: str, /) -> bool:
        """Return whether the pattern matches anywhere in `text`."""
        if self._matcher.isinstance_python(text):
            return True
        try:
            text.encode()
        except UnicodeEncodeError:
            # The engine reads UTF-8, which cannot encode a lone surrogate.
            return self._matcher.isinstance_python(text.encode(errors="replace").decode())
        return False


def _compile_matcher(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


compile_pattern: Callable[[str], Pattern] = lru_cache(maxsize=256)(Pattern)
"""Return the `Pattern` for a regular expression. The 256 most recently used patterns are cached."""


def require_linear_patterns(schemas: Iterable[Mapping[str, Any]], /) -> None:
    """Check that the regular expressions in a schema can be matched in linear time.

    Args:
        schemas: the schema, its subschemas and the schemas that they refer to.

    Raises:
        UsageError: a regular expression cannot be matched in linear time.
    """
    names: list[str] = []
    unevaluated = False
    for schema in schemas:
        if isinstance(pattern := schema.get("pattern"), str):
            compile_pattern(pattern)
        if isinstance(properties := schema.get("patternProperties"), dict):
            names.extend(cast("dict[str, Any]", properties))
        unevaluated = unevaluated or "unevaluatedProperties" in schema
    for pattern in names:
        compile_pattern(pattern)
        if unevaluated and len(_OPERATORS.findall(pattern)) > 1:
            # For this keyword alone, jsonschema matches the names of properties itself, with `re`.
            msg = (
                f"the pattern {pattern!r} of patternProperties has more than one of * + ? {{ |, which a schema with "
                "unevaluatedProperties cannot have: use additionalProperties"
            )
            raise UsageError(msg)


@cache
def linear_validator(kind: Any, /) -> Any:
    """Return a variant of the jsonschema validator class `kind` that matches patterns in linear time."""
    from jsonschema import validators  # noqa: PLC0415 - slow import, which most programs do not need

    untyped: Any = validators
    ours = {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
    }
    return untyped.extend(kind, {name: check for name, check in ours.items() if name in kind.VALIDATORS})


def _check_pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:  # noqa: ARG001 - a keyword
    if validator.is_type(instance, "string") and not compile_pattern(pattern).search(instance):
        yield _validation_error(f"{instance!r} does not match {pattern!r}")


def _check_pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:  # noqa: ARG001 - a keyword
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        compiled = compile_pattern(pattern)
        for name, value in instance.items():
            if compiled.search(name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _check_additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    patterns = [compile_pattern(pattern) for pattern in schema.get("patternProperties", {})]
    declared = schema.get("properties", {})
    extras = [name for name in instance if name not in declared and not any(item.search(name) for item in patterns)]
    if validator.is_type(allowed, "object"):
        for name in extras:
            yield from validator.descend(instance[name], allowed, path=name)
    elif not allowed and extras:
        yield _validation_error(_describe_extras(extras, schema))


def _describe_extras(extras: Sequence[str], schema: Any) -> str:
    """Return the message of jsonschema about properties that are not allowed."""
    names = ", ".join(map(repr, sorted(extras)))
    is_one = len(extras) == 1
    if "patternProperties" not in schema:
        return f"Additional properties are not allowed ({names} {'was' if is_one else 'were'} unexpected)"
    known = ", ".join(map(repr, sorted(schema["patternProperties"])))
    return f"{names} {'does' if is_one else 'do'} not match any of the regexes: {known}"


def _validation_error(message: str) -> Any:
    from jsonschema import ValidationError  # noqa: PLC0415 - most tools are functions

    return ValidationError(message)
