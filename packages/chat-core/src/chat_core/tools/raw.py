"""Tools that are declared by a JSON Schema.

The schema is Draft 2020-12 unless its `$schema` names another draft. The schema and its references are checked at
registration. References must resolve within the schema or to a meta-schema of a draft; nothing is fetched. As in the
drafts, `format` and `default` are annotations: `format` is not checked, and defaults are not filled in. Patterns are
matched in linear time.
"""

# ruff: noqa: ANN401 - jsonschema has no type annotations

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias, cast, final

from chat_core import model_texts
from chat_core.errors import UsageError
from chat_core.provider import ToolDeclaration
from chat_core.tools.context import ToolContext
from chat_core.tools.declare import CallableTool, ToolOptions, require_name
from chat_core.tools.definition import InvalidArgumentsError
from chat_core.tools.patterns import linear_validator, require_linear_patterns
from chat_core.tools.problems import format_problems, path_of
from chat_core.tools.signature import EMPTY, Signature, read_signature

_MAX_MESSAGE_LENGTH = 200
_MAX_PROBLEMS = 100

JsonSchema: TypeAlias = Mapping[str, object] | bool
"""JSON Schema: an object, or `True` or `False`."""


@final
class SchemaChecker:
    """Validator that checks JSON documents against one JSON Schema.

    Raises:
        UsageError: the schema is invalid, names an unknown draft, has a reference that cannot be resolved, or has a
            pattern that cannot be matched in linear time.
    """

    __slots__ = ("_validator",)

    def __init__(
        self,
        schema: JsonSchema,
        /,
        *,
        resources: Mapping[str, JsonSchema] | None = None,
    ) -> None:
        """Check the schema and build the validator.

        Args:
            schema: the JSON Schema of the arguments.
            resources: other schemas that references may name, by URL.
        """
        try:
            self._validator: Any = _create_validator(schema, resources or {})
        except UsageError:
            raise
        except Exception as error:
            msg = f"the schema cannot be used: {type(error).__name__}: {_truncate(str(error))}"
            raise UsageError(msg) from error

    def problems(self, document: object, /) -> list[str]:
        """Validate `document` and return up to 100 problems, each with its path. The list is empty if none is found."""
        from jsonschema import exceptions  # noqa: PLC0415 - most tools are functions

        untyped: Any = exceptions
        try:
            found: list[Any] = list(islice(self._validator.iter_errors(document), _MAX_PROBLEMS))
            best: list[Any] = [untyped.best_match([item]) for item in found]
        except RecursionError:
            return [model_texts.NESTED_TOO_DEEP]
        except Exception as error:  # noqa: BLE001 - jsonschema raises what the arithmetic of Python raises
            return [model_texts.not_checked(error)]
        return [f"{path_of(list(error.absolute_path))}: {_truncate(error.message)}" for error in best]


def _create_validator(schema: JsonSchema, resources: Mapping[str, JsonSchema]) -> Any:
    # Imported here: most programs declare all their tools by functions.
    import jsonschema  # noqa: PLC0415 - most tools are functions
    import referencing.jsonschema  # noqa: PLC0415 - most tools are functions

    kind = _validator_class(schema)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        path = path_of(list(error.absolute_path)) if error.absolute_path else "the root"
        msg = f"the schema is not valid at {path}: {_truncate(error.message)}"
        raise UsageError(msg) from error
    specification = referencing.jsonschema.specification_with(kind.META_SCHEMA["$schema"])
    registry: Any = _load_schema_dialects().with_resources(
        (url, referencing.Resource.from_contents(contents, default_specification=specification))
        for url, contents in resources.items()
    )
    root = specification.create_resource(cast("Any", schema))
    resolver = registry.with_resource("", root).resolver_with_root(root)
    require_linear_patterns(_reachable_schemas(root, resolver, specification, set()))
    return linear_validator(kind)(schema, registry=registry)


def _validator_class(schema: JsonSchema) -> Any:
    from jsonschema import validators  # noqa: PLC0415 - most tools are functions

    if isinstance(schema, bool) or "$schema" not in schema:
        return validators.Draft202012Validator
    untyped: Any = validators
    kind: Any = untyped.validator_for(schema, default=None) if isinstance(schema["$schema"], str) else None
    if kind is None:
        msg = f"the schema's $schema {schema['$schema']!r} is not known: use draft 3, 4, 6, 7, 2019-09 or 2020-12"
        raise UsageError(msg)
    return kind


def _load_schema_dialects() -> Any:
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # noqa: PLC0415 - most tools are functions

    # The registry has no `retrieve` function, so an unknown URL is an error and is never fetched.
    return REGISTRY


def _reachable_schemas(resource: Any, resolver: Any, specification: Any, seen: set[int]) -> Iterator[dict[str, Any]]:
    """Yield a schema, its subschemas and the schemas that they refer to, each once.

    Args:
        resource: the schema.
        resolver: resolver of its references.
        specification: draft of the referenced schemas.
        seen: ids of the yielded schemas.

    Raises:
        UsageError: a reference cannot be resolved.
    """
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - most tools are functions

    contents = resource.contents
    if not isinstance(contents, dict) or id(cast("object", contents)) in seen:
        return
    schema = cast("dict[str, Any]", contents)
    seen.add(id(schema))
    yield schema
    for keyword in ("$ref", "$dynamicRef"):
        reference = schema.get(keyword)
        if not isinstance(reference, str):
            continue
        try:
            found = resolver.lookup(reference)
        except Unresolvable as error:
            msg = f"the schema refers to {reference!r}, which it does not contain; nothing is fetched: add it to $defs"
            raise UsageError(msg) from error
        target = specification.create_resource(found.contents)
        yield from _reachable_schemas(target, found.resolver, specification, seen)
    for subresource in resource.subresources():
        yield from _reachable_schemas(subresource, resolver.in_subresource(subresource), specification, seen)


def _truncate(text: str) -> str:
    return (
        text
        if len(text) <= _MAX_MESSAGE_LENGTH
        else f"{text[: _MAX_MESSAGE_LENGTH // 2]} … {text[-_MAX_MESSAGE_LENGTH // 2 :]}"
    )


@final
@dataclass(frozen=True, slots=True)
class RawTool(CallableTool):
    """Tool definition made from a JSON Schema and a handler function, which takes the arguments as one mapping."""

    declaration: ToolDeclaration
    signature: Signature
    checker: SchemaChecker
    options: ToolOptions

    def validate(self, arguments: Mapping[str, object], /) -> Mapping[str, object]:
        """Return a copy of the arguments if they satisfy the schema.

        Raises:
            InvalidArgumentsError: the arguments do not satisfy the schema.
        """
        copied = _copy_json(arguments)
        problems = self.checker.problems(copied)
        if problems:
            raise InvalidArgumentsError(format_problems(problems))
        return copied

    def run(self, arguments: Mapping[str, object], context: ToolContext, /) -> Awaitable[object] | object:
        """Implement `ToolDefinition.run`: call the handler with a copy of the arguments."""
        return self.signature.call({self.signature.parameters[0].name: _copy_json(arguments)}, context)


def declare_raw(
    name: str, schema: Mapping[str, object], handler: Callable[..., object], options: ToolOptions, /
) -> RawTool:
    """Create a tool from a JSON Schema and a handler.

    Args:
        name: name of the tool.
        schema: JSON Schema of the arguments, an object.
        handler: function that receives the arguments as one mapping, and a `ToolContext` if it has such a parameter.
        options: options of the tool.

    Raises:
        UsageError: the name, the schema or the handler is invalid.
    """
    require_name(name)
    checked_schema = _require_object_schema(name, schema)
    checker = SchemaChecker(checked_schema)
    if not callable(handler):
        msg = f"the handler of {name!r} must be a function that takes the arguments of the call, not {handler!r}"
        raise UsageError(msg)
    signature = read_signature(handler, resolve=False)
    required = [item for item in signature.parameters[1:] if item.default is EMPTY]
    if not signature.parameters or required:
        msg = (
            f"the handler of {name!r} must take the arguments as one mapping (and optionally a ToolContext), not "
            f"{', '.join([item.name for item in signature.parameters]) or 'no arguments'}"
        )
        raise UsageError(msg)
    description = options.description
    if description is None:
        described = checked_schema.get("description")
        description = described if isinstance(described, str) else ""
    return RawTool(ToolDeclaration(name, description, checked_schema), signature, checker, options)


def _require_object_schema(name: str, schema: object) -> dict[str, object]:
    if not isinstance(schema, Mapping):
        msg = f"the schema of {name!r} must be a JSON Schema of an object, not {schema!r}"
        raise UsageError(msg)
    try:
        # Copy the schema, so that later changes by the caller affect neither the declaration nor the validation.
        copied: dict[str, object] = json.loads(json.dumps(dict(cast("Mapping[str, object]", schema)), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"the schema of {name!r} is not JSON: {error}"
        raise UsageError(msg) from error
    if copied.get("type") != "object":
        msg = f'the schema of {name!r} must have "type": "object", not {copied!r}'
        raise UsageError(msg)
    return copied


def _copy_json(arguments: Mapping[str, object]) -> dict[str, object]:
    try:
        copied: dict[str, object] = json.loads(json.dumps(dict(arguments), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentsError(model_texts.arguments_not_json(error)) from error
    return copied
