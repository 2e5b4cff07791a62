"""JSON Schemas for function parameters, and conversion of a model's arguments to Python values.

The parameters become one pydantic schema when the tool is declared. Arguments are validated in pydantic's lax mode for
JSON: `"5"` and `5.0` are accepted as 5, because models write them. Use `Field(strict=True)` to prevent this.
"""

# ruff: noqa: ANN401 - annotations and values may have any type

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import (
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticUndefined, to_json, to_jsonable_python
from typing_extensions import NotRequired, TypedDict  # noqa: UP035 - pydantic requires these before Python 3.12

from chat_core import model_texts
from chat_core.errors import UsageError
from chat_core.frozen import FrozenDict
from chat_core.json import FLAT_TYPES, dumps
from chat_core.tools.definition import InvalidArgumentsError
from chat_core.tools.problems import format_problems, path_of, truncated_json
from chat_core.tools.signature import EMPTY, Parameter

_PLAIN = frozenset({str, int, float, bool, type(None)})
_KEYS = frozenset({str})
_MISSING = object()
_UNUSABLE = (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError, TypeError, NameError)
_SECTIONS = re.compile(r"^\s*(?:Args|Arguments|Parameters|Params|Returns?|Yields|Raises|Examples?)\s*:", re.MULTILINE)
_ORDER = ("type", "description", "properties", "required", "additionalProperties", "$defs")
_ARRAYS: tuple[type[Any], ...] = (list, tuple, set, frozenset)
_OBJECTS: tuple[type[Any], ...] = (dict,)
_DUMP: dict[str, Any] = {
    "by_alias": True,
    "round_trip": True,
    "warnings": False,
    # A value that cannot be serialized becomes a string. `_find_changed_arguments()` then detects the change.
    "fallback": str,
}
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


# --- The schema -------------------------------------------------------------------------------------


class _Generator(GenerateJsonSchema):
    """Schema generator without titles that only repeat a name, and without warnings for cases that are handled here."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as declared by the base class

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the base class's signature
        return False

    def model_schema(self, schema: Any) -> Any:
        return _remove_default_title(super().model_schema(schema), schema)

    def dataclass_schema(self, schema: Any) -> Any:
        return _remove_default_title(super().dataclass_schema(schema), schema)

    def typed_dict_schema(self, schema: Any) -> Any:
        return _remove_default_title(super().typed_dict_schema(schema), schema)


def _remove_default_title(generated: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    if generated.get("title") == getattr(schema.get("cls"), "__name__", "Arguments"):
        del generated["title"]
    return generated


@final
class Plain(FrozenDict[str, object]):
    """Validated arguments that are passed to the function without conversion: strings, numbers, booleans and None.

    They contain no lists or dicts.

    Attributes:
        read_by: the `Arguments` object that validated these values. Other `Arguments` objects validate them again.
    """

    __slots__ = ("read_by",)

    read_by: Arguments


@final
class Arguments:
    """JSON Schema for the arguments of one function, with their validation and serialization."""

    __slots__ = ("_adapter", "_read", "_sets", "_wire_names", "schema")

    def __init__(
        self,
        parameters: Sequence[Parameter],
        descriptions: Mapping[str, str],
        names: Mapping[str, object],
        owner: str,
    ) -> None:
        """Build the schema and the validator.

        Args:
            parameters: parameters of the function that the model fills in.
            descriptions: descriptions by parameter name.
            names: local names that annotations of nested types may refer to.
            owner: description of the tool, for error messages.

        Raises:
            UsageError: a parameter's type cannot be described or checked.
        """
        self._wire_names: dict[str, str] = {}
        fields: dict[str, Any] = {}
        for parameter in parameters:
            fields[parameter.name] = self._annotate_parameter(parameter, descriptions.get(parameter.name), owner)
        self._adapter = _create_adapter(fields, names, owner)
        # Call the validator directly: the method of the adapter repeats lookups at every call.
        self._read: Callable[[bytes], dict[str, object]] = self._adapter.validator.validate_json
        try:
            schema = self._adapter.json_schema(schema_generator=_Generator)
        except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
            msg = f"{owner} has a parameter that JSON Schema cannot describe: {error}"
            raise UsageError(msg) from error
        schema.setdefault("properties", {})
        for name, definition in schema.get("$defs", {}).items():
            # The title of an enum is set after the generator has written the enum.
            if "title" in definition and f"__{name}".endswith(f"__{definition['title']}"):
                del definition["title"]
        self.schema: dict[str, object] = {key: schema[key] for key in sorted(schema, key=_key_order)}
        self._sets = '"uniqueItems":true' in dumps(self.schema)

    def _annotate_parameter(self, parameter: Parameter, description: str | None, owner: str) -> Any:
        # A default may be pydantic's own: `limit: int = Field(10, gt=0)`.
        extra = [parameter.default] if isinstance(parameter.default, FieldInfo) else []
        hint: Any = Annotated[parameter.hint, *extra] if extra else parameter.hint
        info = FieldInfo.from_annotation(hint)
        wire_name = parameter.name if info.validation_alias is None else info.validation_alias
        if not isinstance(wire_name, str):
            msg = f"{owner}: the alias of {parameter.name!r} must be one name, not {wire_name!r}"
            raise UsageError(msg)
        self._wire_names[parameter.name] = wire_name
        if description and info.description is None:
            extra = [Field(description=description), *extra]
        optional = parameter.default is not EMPTY and not isinstance(parameter.default, FieldInfo)
        if optional and _is_writable(parameter.default):
            extra = [*extra, Field(default=parameter.default)]
            optional = False
        hint = Annotated[parameter.hint, *extra] if extra else parameter.hint
        # The function itself applies a default that is not JSON.
        return NotRequired[hint] if optional and info.default is PydanticUndefined else hint

    # --- Values ----------------------------------------------------------------------------------------

    def values(self, arguments: Mapping[str, object], /) -> dict[str, object]:
        """Validate JSON arguments and return the Python values for the function, by parameter name.

        Raises:
            InvalidArgumentsError: `arguments` do not satisfy the schema.
        """
        if type(arguments) is Plain and arguments.read_by is self:
            return arguments
        return self._read_arguments(arguments)

    def _read_arguments(self, arguments: Mapping[str, object]) -> dict[str, object]:
        try:
            text = _encode_arguments(arguments)
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentsError(model_texts.arguments_not_json(error)) from error
        try:
            return self._read(text)
        except ValidationError as error:
            raise InvalidArgumentsError(describe(error, arguments, list(self._wire_names.values()))) from error
        except Exception as error:  # a validator of the application may raise anything
            raise InvalidArgumentsError(model_texts.arguments_not_checked(error)) from error

    def canonical(self, arguments: Mapping[str, object], /) -> dict[str, object]:
        """Validate arguments and return them as JSON, in the order of the parameters, with defaults filled in.

        Each validated value is serialized. If the serialized value cannot be parsed back to an equal value, such as a
        secret that is serialized as asterisks, the received argument is kept instead, and a default value is omitted.

        Raises:
            InvalidArgumentsError: `arguments` do not satisfy the schema.
        """
        value = self._read_arguments(arguments)
        types = [*map(type, value.values())]
        if _PLAIN.issuperset(types) and value == arguments and types == [type(arguments[name]) for name in value]:
            plain = Plain(value)
            plain.read_by = self
            return plain
        if _is_unchanged(value, arguments):
            # The received values, because nested values are read-only there.
            return {name: arguments[name] for name in value}
        written = self._dump_arguments(value)
        if written is None:
            written = dict(arguments)
        restored: set[str] = set()
        while changed := self._find_changed_arguments(written, value) - restored:
            restored |= changed
            written = {name: item for name, item in written.items() if name not in changed}
            written |= {name: arguments[name] for name in changed if name in arguments}
        return {name: written[name] for name in self._wire_names.values() if name in written}

    def _dump_arguments(self, value: dict[str, object]) -> dict[str, Any] | None:
        def dump(mode: Literal["json", "python"]) -> Any:
            return self._adapter.dump_python(value, mode=mode, **_DUMP)

        try:
            written: dict[str, Any] = dump("json")
            # Sets have no stable order, so their elements are sorted.
            return _sorted_sets(dump("python"), written) if self._sets else written
        except Exception:  # noqa: BLE001 - a serializer of the application may raise anything; the received arguments are kept
            return None

    def _find_changed_arguments(self, written: Mapping[str, object], value: Mapping[str, object]) -> set[str]:
        """Return the names of the arguments whose values change when they are serialized and parsed."""
        try:
            parsed = self._read(_encode(written).encode())
        except ValidationError as error:
            return {str(item["loc"][0]) for item in error.errors() if item["loc"]} or set(self._wire_names.values())
        except Exception:  # noqa: BLE001 - a validator of the application may raise anything
            return set(self._wire_names.values())
        return {
            wire_name
            for name, wire_name in self._wire_names.items()
            if not _is_equal(parsed.get(name, _MISSING), value.get(name, _MISSING))
        }


def _create_adapter(fields: dict[str, Any], names: Mapping[str, object], owner: str) -> TypeAdapter[dict[str, object]]:
    # A typed dict, because only its fields may have any name: `schema`, `_private`, `model_config`.
    make: Any = TypedDict
    record = make("Arguments", fields)
    record.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)
    try:
        adapter: TypeAdapter[dict[str, object]] = TypeAdapter(record, config=None)
        if names:
            adapter.rebuild(force=True, raise_errors=True, _types_namespace=dict(names))
        adapter.validator  # noqa: B018 - raises for a type that is not defined yet, before the first call
    except _UNUSABLE as error:
        msg = f"{owner} has a parameter whose type pydantic cannot check: {error}"
        raise UsageError(msg) from error
    return adapter


def _encode_arguments(arguments: Mapping[str, object]) -> bytes:
    if FLAT_TYPES.issuperset(map(type, arguments.values())) and _KEYS.issuperset(map(type, arguments)):
        try:
            return to_json(dict(arguments))  # three times as fast, and equal for these types
        except ValueError:
            pass  # a lone surrogate, which the standard library reports as before
    return _encode(dict(arguments)).encode()


def _key_order(key: str) -> tuple[int, str]:
    return (_ORDER.index(key) if key in _ORDER else len(_ORDER), key)


def _is_writable(default: object) -> bool:
    """Return whether a default value can be part of the schema, because it is JSON and not a secret."""
    if hasattr(default, "get_secret_value"):
        return False
    try:
        _encode(to_jsonable_python(default))
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - comparisons of arrays do not return one bool
        return False


def _is_unchanged(value: object, received: object) -> bool:
    """Return whether `value`, the validated form of `received`, has the same values and types and is plain JSON."""
    kind = type(value)
    if kind in _PLAIN:
        return kind is type(received) and value == received
    read: Any = value
    given: Any = received
    if kind is dict and isinstance(received, dict):
        return read.keys() == given.keys() and all(map(_is_unchanged, read.values(), [given[key] for key in read]))
    if kind is list and isinstance(received, list):
        return len(read) == len(given) and all(map(_is_unchanged, read, given))
    return False


def _sorted_sets(value: Any, written: Any) -> Any:
    """Return `written`, the JSON form of `value`, with the elements of sets sorted by their JSON text."""
    if isinstance(written, _OBJECTS) and isinstance(value, _OBJECTS):
        members = zip(written.items(), value.values(), strict=False)
        return {key: _sorted_sets(inner, item) for (key, item), inner in members}
    if isinstance(written, _ARRAYS) and isinstance(value, _ARRAYS):
        items = [_sorted_sets(inner, item) for inner, item in zip(value, written, strict=False)]
        return sorted(items, key=dumps) if isinstance(value, (set, frozenset)) else items
    return written


# --- Docstrings -----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Documentation:
    """Description of a tool and its arguments, from a Google-style docstring."""

    description: str
    arguments: Mapping[str, str]


def read_docstring(text: str | None) -> Documentation:
    """Parse a Google-style docstring and return its description and the descriptions of the arguments."""
    if not text or not text.strip():
        return Documentation("", {})
    if not _SECTIONS.search(text):
        return Documentation(_clean_description(text), {})
    import docstring_parser  # noqa: PLC0415 - slow import, needed only for docstrings with sections

    # Add a first line, because the parser does not recognize a section at the start of the docstring.
    with_summary = f"-\n\n{inspect.cleandoc(text)}"
    try:
        parsed = docstring_parser.parse(with_summary, style=docstring_parser.DocstringStyle.GOOGLE)
    except docstring_parser.ParseError:
        return Documentation(_clean_description(text), {})
    arguments = {item.arg_name: item.description.strip() for item in parsed.params if item.description}
    return Documentation((parsed.long_description or "").strip(), arguments)


def _clean_description(text: str) -> str:
    return inspect.cleandoc(text).strip()


# --- Problems ---------------------------------------------------------------------------------------


def describe(error: ValidationError, arguments: Mapping[str, object], names: Sequence[str]) -> str:
    """Return a text for the model that describes the problems in a pydantic validation error.

    Args:
        error: the validation error.
        arguments: arguments that the model wrote.
        names: names of the tool's parameters.
    """
    grouped: dict[str, list[str]] = {}
    for item in error.errors(include_url=False, include_context=False):
        kind, value = item["type"], item["input"]
        path = path_of(_existing_path(item["loc"], arguments, missing=kind == "missing"))
        if kind == "missing":
            problem = model_texts.MISSING_ARGUMENT
        elif kind in {"extra_forbidden", "unexpected_keyword_argument"}:
            problem = model_texts.unknown_argument(names if len(item["loc"]) == 1 else None)
        else:
            message = item["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            problem = model_texts.wrong_argument(message.removeprefix("Input "), truncated_json(value))
        problems = grouped.setdefault(path, [])
        if problem not in problems:
            problems.append(problem)
    return format_problems([f"{path}: {' or '.join(problems)}" for path, problems in grouped.items()])


def _existing_path(parts: Sequence[int | str], document: Mapping[str, object], *, missing: bool) -> list[int | str]:
    """Return the path `parts` without steps that are not in the document, such as the names of union members."""
    path: list[int | str] = []
    node: Any = document
    for index, part in enumerate(parts):
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            if not (missing and index == len(parts) - 1):
                continue
        path.append(part)
    return path
