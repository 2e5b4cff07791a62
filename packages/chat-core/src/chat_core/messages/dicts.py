"""Reader for messages in the format of OpenAI's Chat Completions API, which many programs and files use."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from chat_core.arguments import argument_error
from chat_core.errors import UsageError
from chat_core.messages.content import Role, Turn
from chat_core.messages.function_call import FunctionCall
from chat_core.messages.parts import File, Reasoning, Text
from chat_core.messages.status import Completed, Pending
from chat_core.messages.tool import Tool

if TYPE_CHECKING:
    from chat_core.messages.content import Part

_ROLES: Final[Mapping[str, Role]] = {"system": "system", "developer": "system", "user": "user", "assistant": "model"}
_MESSAGE_FIELDS: Final = frozenset({"role", "content"})
_ASSISTANT_FIELDS: Final = _MESSAGE_FIELDS | {"tool_calls", "reasoning_content", "reasoning", "refusal"}
_RESULT_FIELDS: Final = _MESSAGE_FIELDS | {"tool_call_id", "name"}
_AUDIO_TYPES: Final[Mapping[str, str]] = {"mp3": "audio/mpeg", "wav": "audio/wav"}


def read_dicts(messages: Iterable[Mapping[str, object]], /) -> Iterator[tuple[Role, Turn]]:
    """Convert messages in the format of the Chat Completions API to turns, and yield each with its role.

    A tool message becomes the result of a call in the assistant's turn before it.

    Args:
        messages: the messages, as dicts.

    Raises:
        UsageError: a message is malformed, has a field that a turn cannot hold, or is a tool result without a call.
    """
    if not isinstance(messages, Iterable) or isinstance(messages, (str, bytes, Mapping)):
        expected = "a list of dicts, such as [{'role': 'user', 'content': '…'}]"
        raise argument_error("messages", expected, cast("object", messages))
    items: list[object] = list(messages)
    index = 0
    while index < len(items):
        where = f"messages[{index}]"
        message = _require_object(items[index], where)
        role = message.get("role")
        index += 1
        if role == "assistant":
            results: dict[str, str] = {}
            while index < len(items) and _require_object(items[index], f"messages[{index}]").get("role") == "tool":
                call_id, result = _read_result(items[index], f"messages[{index}]", results)
                results[call_id] = result
                index += 1
            yield "model", _read_assistant(message, where, results)
        elif isinstance(role, str) and role in _ROLES:
            _refuse_other_fields(message, _MESSAGE_FIELDS, where)
            yield _ROLES[role], Turn(_read_content(message.get("content"), f"{where}.content"))
        elif role == "tool":
            msg = f"{where} is the result of a tool, but no call precedes it: add the message with its tool_calls"
            raise UsageError(msg)
        else:
            msg = f"{where}.role must be 'system', 'developer', 'user', 'assistant' or 'tool', not {role!r}"
            raise UsageError(msg)


def _read_result(value: object, where: str, known: Mapping[str, str]) -> tuple[str, str]:
    message = _require_object(value, where)
    _refuse_other_fields(message, _RESULT_FIELDS, where)
    call_id = _require_text(message.get("tool_call_id"), f"{where}.tool_call_id")
    if call_id in known:
        msg = f"{where} is another result of the call {call_id!r}: keep one of them"
        raise UsageError(msg)
    parts = _read_content(message.get("content"), f"{where}.content")
    if not all(isinstance(part, Text) for part in parts):
        msg = f"{where}.content of a message with the role 'tool' must be text, without other parts"
        raise UsageError(msg)
    return call_id, "".join([part.text for part in parts if isinstance(part, Text)])


def _read_assistant(message: Mapping[str, object], where: str, results: Mapping[str, str]) -> Turn:
    _refuse_other_fields(message, _ASSISTANT_FIELDS, where)
    parts: list[Part] = []
    if reasoning := message.get("reasoning_content") or message.get("reasoning"):
        parts.append(Reasoning(_require_text(reasoning, f"{where}.reasoning")))
    content = message.get("content")
    parts += _read_content("" if content is None else content, f"{where}.content")
    if refusal := message.get("refusal"):
        parts.append(Text(_require_text(refusal, f"{where}.refusal")))
    calls = [
        _read_call(item, f"{where}.tool_calls[{index}]", results)
        for index, item in enumerate(_require_array(message.get("tool_calls") or [], f"{where}.tool_calls"))
    ]
    ids = [call.call_id for call in calls]
    if unknown := [call_id for call_id in results if call_id not in ids]:
        msg = f"{where} has no call {unknown[0]!r}, but a result of it follows: add the call to its tool_calls"
        raise UsageError(msg)
    if len(set(ids)) < len(ids):
        msg = f"{where}.tool_calls has two calls with the same id: give each call a different id"
        raise UsageError(msg)
    return Turn([*parts, *calls])


def _read_call(value: object, where: str, results: Mapping[str, str]) -> Tool:
    call = _require_object(value, where)
    if call.get("type", "function") != "function":
        msg = f"{where}.type must be 'function', not {call.get('type')!r}"
        raise UsageError(msg)
    function = _require_object(call.get("function"), f"{where}.function")
    name = _require_text(function.get("name"), f"{where}.function.name")
    arguments = _require_text(function.get("arguments"), f"{where}.function.arguments")
    call_id = _require_text(call.get("id"), f"{where}.id")
    status = Completed(results[call_id]) if call_id in results else Pending()
    return Tool(FunctionCall.parse(name, arguments), call_id=call_id, status=status)


# --- Content -------------------------------------------------------------------------------------------------


def _read_content(content: object, where: str) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [_read_part(part, f"{where}[{index}]") for index, part in enumerate(_require_array(content, where))]


def _read_part(value: object, where: str) -> Part:
    part = _require_object(value, where)
    kind = part.get("type")
    if kind in ("text", "refusal"):
        _refuse_other_fields(part, {"type", str(kind)}, where)
        return Text(_require_text(part.get(str(kind)), f"{where}.{kind}"))
    if kind in ("image_url", "video_url"):
        field = f"{where}.{kind}"
        _refuse_other_fields(part, {"type", str(kind)}, where)
        inner = part.get(str(kind))
        link = inner if isinstance(inner, str) else _require_object(inner, field).get("url")
        return _read_link(_require_text(link, f"{field}.url"), str(kind).removesuffix("_url"), f"{field}.url")
    if kind == "input_audio":
        audio = _require_object(part.get("input_audio"), f"{where}.input_audio")
        form = _require_text(audio.get("format"), f"{where}.input_audio.format")
        data = _decode_base64(
            _require_text(audio.get("data"), f"{where}.input_audio.data"), f"{where}.input_audio.data"
        )
        return File(_AUDIO_TYPES.get(form, f"audio/{form}"), data=data)
    if kind == "file":
        file = _require_object(part.get("file"), f"{where}.file")
        name = file.get("filename")
        link = _require_text(file.get("file_data"), f"{where}.file.file_data")
        return _read_link(link, "application", f"{where}.file.file_data", None if name is None else str(name))
    msg = f"{where}.type must be 'text', 'image_url', 'video_url', 'input_audio' or 'file', not {kind!r}"
    raise UsageError(msg)


def _read_link(link: str, kind: str, where: str, name: str | None = None) -> File:
    if not link.startswith("data:"):
        guessed = mimetypes.guess_type(link.partition("?")[0].partition("#")[0])[0]
        fitting = guessed is not None and (kind == "application" or guessed.startswith(kind))
        return File(guessed if guessed is not None and fitting else f"{kind}/*", url=link, name=name)
    head, comma, data = link.removeprefix("data:").partition(",")
    if not comma or not head.endswith(";base64"):
        msg = f"{where} must be a URL, or 'data:<type>;base64,<data>', not {link[:40]!r}"
        raise UsageError(msg)
    return File(head.removesuffix(";base64"), data=_decode_base64(data, where), name=name)


# --- Checked access -------------------------------------------------------------------------------------------


def _decode_base64(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        msg = f"{where} is not base64: {error}"
        raise UsageError(msg) from error


def _require_object(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        msg = f"{where} must be a dict, not {value!r}"
        raise UsageError(msg)
    return cast("Mapping[str, object]", value)


def _require_array(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, (list, tuple)):
        msg = f"{where} must be a list, not {value!r}"
        raise UsageError(msg)
    return cast("Sequence[object]", value)


def _require_text(value: object, where: str) -> str:
    if not isinstance(value, str):
        msg = f"{where} must be a string, not {value!r}"
        raise UsageError(msg)
    return value


def _refuse_other_fields(value: Mapping[str, object], known: frozenset[str] | set[str], where: str) -> None:
    """Raise `UsageError` if a field that is not in `known` has a value. Ignoring the field would lose the value."""
    for name, item in value.items():
        if name not in known and item not in (None, "", [], {}):
            msg = f"{where} has the field {name!r}, which messages cannot store: remove it"
            raise UsageError(msg)
