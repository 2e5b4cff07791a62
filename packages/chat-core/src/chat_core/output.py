"""Output types of a chat, which convert model responses to text or to values of the caller's type."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, final, get_args

from typing_extensions import TypeForm, TypeVar

from chat_core import model_texts
from chat_core.arguments import require_type
from chat_core.errors import InvalidResponseError, RefusalError, UsageError
from chat_core.json import dumps
from chat_core.messages import Structured, Text
from chat_core.provider import OutputSchema
from chat_core.response import ChatResponse, StructuredResponse

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

ValueT = TypeVar("ValueT")
ValueT_co = TypeVar("ValueT_co", covariant=True)

MAX_PROBLEMS = 10
"""Maximum number of validation errors that the model receives for one response."""

_ENVELOPE = "value"
_NAME_LENGTH = 64
_QUOTED = 80


class OutputSpec(Protocol[ValueT_co]):
    """Protocol for the output of a chat, which converts model responses to the return value of `complete()`."""

    @property
    def schema(self) -> OutputSchema | None:
        """Schema that the provider enforces, or `None` for plain text."""
        ...

    def decode(self, answer: ChatResponse, /) -> ValueT_co:
        """Convert a response to the output of the chat.

        Raises:
            InvalidResponseError: the response is invalid. The message is written for the model, which may correct it.
            RefusalError: the model refused to answer.
        """
        ...


@final
class TextOutput:
    """The text output of a chat, which is the unchanged response."""

    __slots__ = ()

    @property
    def schema(self) -> None:
        """Schema of the output: always `None`, because text has no schema."""
        return

    def decode(self, answer: ChatResponse, /) -> ChatResponse:
        """Return the response unchanged."""
        return answer


@final
class StructuredOutput(Generic[ValueT]):
    """The structured output of a chat, a value of any type for which pydantic can create a JSON schema.

    The value is decoded from a JSON response. Providers require an object at the root of a schema. Other types (lists,
    unions, numbers) are requested as `{"value": …}` and unwrapped by `decode()`. The wrapper is visible only in
    `StructuredResponse.raw`.
    """

    __slots__ = ("_adapter", "_enveloped", "_schema")

    def __init__(self, form: TypeForm[ValueT], /) -> None:
        """Create the validator and the JSON Schema of a type.

        Raises:
            UsageError: pydantic cannot create a JSON schema for the type.
        """
        self._adapter, schema, self._enveloped = _build_adapter(form)
        self._schema = OutputSchema(_schema_name(form), schema)

    @property
    def schema(self) -> OutputSchema:
        """JSON Schema of the response, with an object at its root."""
        return self._schema

    def decode(self, answer: ChatResponse, /) -> StructuredResponse[ValueT]:
        """Validate a JSON response, and return its value with the response.

        Raises:
            InvalidResponseError: the response is not JSON or has the wrong type. The message is written for the model.
            RefusalError: the model refused to answer.
        """
        require_type("answer", answer, ChatResponse, "a ChatResponse")
        from pydantic import ValidationError  # noqa: PLC0415 - a chat that answers in text never needs it

        turn = answer.turn
        if answer.refusal is not None or answer.finish_reason == "refusal":
            msg = f"the model refused to give a structured answer: {answer.refusal or answer.text}"
            raise RefusalError(msg, partial=turn)
        # A provider may return the value itself instead of text.
        raw = "".join(
            [
                part.text if isinstance(part, Text) else dumps(part.value)
                for part in turn.parts
                if isinstance(part, (Text, Structured))
            ]
        )
        try:
            validated = self._adapter.validate_json(raw)
        except ValidationError as error:
            path, msg = _describe_errors(raw, error, truncated=answer.finish_reason == "length")
            raise InvalidResponseError(msg, path=path, raw=raw, partial=turn) from error
        value: ValueT = validated.value if self._enveloped else validated
        return StructuredResponse(value, raw, turn, answer.usage)


def _build_adapter(form: Any) -> tuple[TypeAdapter[Any], Mapping[str, object], bool]:  # noqa: ANN401 - a TypeForm of anything
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter, create_model  # noqa: PLC0415 - see decode()
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation  # noqa: PLC0415 - as above
    from pydantic_core import SchemaError  # noqa: PLC0415 - as above

    if isinstance(form, Mapping):
        msg = (
            f"with_structured_output() needs a type, not the JSON Schema {form!r}: write the type, "
            "such as a pydantic model or a TypedDict"
        )
        raise UsageError(msg)
    if inspect.isroutine(form):
        # Pydantic would treat a function as a schema of its arguments, and call it to validate an answer.
        msg = f"with_structured_output() needs a type, not the function {form!r}"
        raise UsageError(msg)
    if (variable := _type_variable(form)) is not None:
        # Pydantic would accept any value in its place.
        msg = f"with_structured_output() needs a type, not the type variable {variable}: pass the type as an argument"
        raise UsageError(msg)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(form)
        schema = _inline_root(adapter.json_schema())
        if schema.get("type") == "object":
            return adapter, schema, False
        fields: dict[str, Any] = {_ENVELOPE: (form, ...)}
        adapter = TypeAdapter(create_model("Answer", __config__=ConfigDict(extra="forbid"), **fields))
        return adapter, adapter.json_schema(), True
    except (
        PydanticUserError,
        PydanticSchemaGenerationError,
        PydanticUndefinedAnnotation,
        SchemaError,
        IndexError,
        SyntaxError,
        TypeError,
        UnicodeError,
    ) as error:  # the last four are raised for a string that is no type
        msg = f"with_structured_output() needs a type that pydantic can describe as JSON, not {form!r}: {error}"
        raise UsageError(msg) from error


def _type_variable(form: object) -> TypeVar | None:
    """Return the first type variable in a type, such as the `T` of `list[T]`, or None."""
    if isinstance(form, TypeVar):
        return form
    found = (_type_variable(argument) for argument in get_args(form))
    return next((variable for variable in found if variable is not None), None)


def _inline_root(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` with a `$ref` at its root replaced by the definition.

    Pydantic generates such a root for types that refer to themselves.
    """
    definitions = schema.get("$defs", {})
    root = definitions.get(str(schema.get("$ref", "")).removeprefix("#/$defs/"))
    return schema if root is None else {**root, "$defs": definitions}


def _schema_name(form: object) -> str:
    """Return a schema name for the type that every provider accepts."""
    name = form.__name__ if isinstance(form, type) else ""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:_NAME_LENGTH] or "answer"


def _describe_errors(raw: str, error: ValidationError, *, truncated: bool) -> tuple[str, str]:
    """Return the path of the first validation error, and an error message for the model."""
    problems = error.errors(include_url=False)
    first = problems[0]
    if first["type"] == "json_invalid":
        if not raw.strip():
            return "", model_texts.EMPTY_ANSWER
        return "", model_texts.answer_not_json(model_texts.TRUNCATED_JSON if truncated else first["msg"])
    lines = [
        model_texts.answer_problem(_format_path(item["loc"]), item["msg"], _quote_value(item["input"]))
        for item in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        lines.append(model_texts.more_problems(len(problems) - MAX_PROBLEMS))
    return _format_path(first["loc"]), model_texts.invalid_answer(lines)


def _format_path(location: Sequence[int | str]) -> str:
    path = "".join([f"[{step}]" if isinstance(step, int) else f".{step}" for step in location])
    return path.removeprefix(".") or model_texts.WHOLE_ANSWER


def _quote_value(value: object) -> str:
    try:
        text = dumps(value)
    except (TypeError, ValueError):
        # A validator of the application may have replaced the input by a value that is not JSON.
        text = repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
