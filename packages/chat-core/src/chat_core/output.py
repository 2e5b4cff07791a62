"""What an answer becomes: text, or a value of the caller's type."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, final

from typing_extensions import TypeForm, TypeVar

from chat_core import model_texts
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
"""So many mistakes of one answer are told to the model; the rest usually goes away with the first ones."""

_ENVELOPE = "value"
_NAME_LENGTH = 64
_QUOTED = 80


class OutputSpec(Protocol[ValueT_co]):
    """How the model's answer becomes what `complete()` returns."""

    @property
    def schema(self) -> OutputSchema | None:
        """What a provider is told of the output; `None` for plain text."""
        ...

    def decode(self, answer: ChatResponse, /) -> ValueT_co:
        """Turn an answer into the output.

        Raises:
            InvalidResponseError: the answer does not fit; the message is written for the model, which may correct it.
            RefusalError: the model refused to answer.
        """
        ...


@final
class TextOutput:
    """The answer as it is."""

    __slots__ = ()

    @property
    def schema(self) -> None:
        """Nothing is asked of the provider."""
        return

    def decode(self, answer: ChatResponse, /) -> ChatResponse:
        """The answer."""
        return answer


@final
class StructuredOutput(Generic[ValueT]):
    """A value of any type that pydantic can describe, read from an answer that is its JSON and nothing else.

    Providers want a schema whose root is an object. A type whose JSON is none (a list, a union, a number) is therefore
    asked for as `{"value": …}` and taken out of it again here; callers see it in `StructuredResponse.raw` alone.
    """

    __slots__ = ("_adapter", "_enveloped", "_schema")

    def __init__(self, form: TypeForm[ValueT], /) -> None:
        """Build the validator and the schema, once.

        Raises:
            UsageError: pydantic cannot describe the type, or not as JSON.
        """
        self._adapter, schema, self._enveloped = _adapt(form)
        self._schema = OutputSchema(_name_of(form), schema)

    @property
    def schema(self) -> OutputSchema:
        """The JSON Schema of the answer, its root an object."""
        return self._schema

    def decode(self, answer: ChatResponse, /) -> StructuredResponse[ValueT]:
        """Validate an answer. White space around the JSON is all that is tolerated.

        Raises:
            InvalidResponseError: it is not JSON, or not of the type; the message tells the model what to correct.
            RefusalError: the model refused to answer.
        """
        from pydantic import ValidationError  # noqa: PLC0415 - a chat that answers in text never needs it

        turn = answer.turn
        if answer.refusal is not None or answer.finish_reason == "refusal":
            msg = f"the model refused to give a structured answer: {answer.refusal or answer.text}"
            raise RefusalError(msg, partial=turn)
        # A provider may emit the value as such; in the history it is text like any other.
        raw = "".join(
            [
                part.text if isinstance(part, Text) else dumps(part.value)
                for part in turn.parts
                if isinstance(part, (Text, Structured))
            ]
        )
        try:
            found = self._adapter.validate_json(raw)
        except ValidationError as error:
            where, msg = _complaint(raw, error, cut=answer.finish_reason == "length")
            raise InvalidResponseError(msg, path=where, raw=raw, partial=turn) from error
        value: ValueT = found.value if self._enveloped else found
        return StructuredResponse(value, raw, turn, answer.usage)


def _adapt(form: Any) -> tuple[TypeAdapter[Any], Mapping[str, object], bool]:  # noqa: ANN401 - a TypeForm of anything
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter, create_model  # noqa: PLC0415 - see decode()
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation  # noqa: PLC0415

    if inspect.isroutine(form):
        # pydantic would take a function for the description of a call, and make that call to read an answer.
        msg = f"with_structured_output() needs a type, not the function {form!r}"
        raise UsageError(msg)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(form)
        schema = _at_root(adapter.json_schema())
        if schema.get("type") == "object":
            return adapter, schema, False
        fields: dict[str, Any] = {_ENVELOPE: (form, ...)}
        adapter = TypeAdapter(create_model("Answer", __config__=ConfigDict(extra="forbid"), **fields))
        return adapter, adapter.json_schema(), True
    except (PydanticUserError, PydanticSchemaGenerationError, PydanticUndefinedAnnotation) as error:
        msg = f"with_structured_output() needs a type that pydantic can describe as JSON, not {form!r}: {error}"
        raise UsageError(msg) from error


def _at_root(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` with its root in place: a type that refers to itself is described as a reference."""
    definitions = schema.get("$defs", {})
    root = definitions.get(str(schema.get("$ref", "")).removeprefix("#/$defs/"))
    return schema if root is None else {**root, "$defs": definitions}


def _name_of(form: object) -> str:
    """A name that every provider accepts."""
    name = form.__name__ if isinstance(form, type) else ""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:_NAME_LENGTH] or "answer"


def _complaint(raw: str, error: ValidationError, *, cut: bool) -> tuple[str, str]:
    """Where the first mistake is, and what the model is told."""
    problems = error.errors(include_url=False)
    first = problems[0]
    if first["type"] == "json_invalid":
        if not raw.strip():
            return "", model_texts.EMPTY_ANSWER
        return "", model_texts.answer_not_json(model_texts.TRUNCATED_JSON if cut else first["msg"])
    lines = [
        model_texts.answer_problem(_path(item["loc"]), item["msg"], _quote(item["input"]))
        for item in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        lines.append(model_texts.more_problems(len(problems) - MAX_PROBLEMS))
    return _path(first["loc"]), model_texts.invalid_answer(lines)


def _path(location: Sequence[int | str]) -> str:
    path = "".join([f"[{step}]" if isinstance(step, int) else f".{step}" for step in location])
    return path.removeprefix(".") or model_texts.WHOLE_ANSWER


def _quote(value: object) -> str:
    try:
        text = dumps(value)
    except (TypeError, ValueError):
        # A validator of the caller's has made something else of it.
        text = repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
