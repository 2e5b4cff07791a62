"""Helpers for encoding the parts of a turn: opaque data, arguments of calls, and errors for unsupported parts."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from chat_core.errors import UnsupportedPartError
from chat_core.json import dumps
from chat_core.messages import Embedding, File, FunctionCall, Opaque, Part, Text, Turn


def sole_text(turn: Turn) -> str | None:
    """Return the text of a turn that consists of one text without opaque data, or `None` for any other turn.

    Most turns of a conversation are such texts, which encoders write without collecting content parts.
    """
    parts = turn.parts
    if len(parts) != 1 or type(part := parts[0]) is not Text or part.opaque is not None:
        return None
    return part.text


def own_data(opaque: Opaque | None, provider: str) -> Mapping[str, object]:
    """Return the data of `opaque` if it belongs to `provider`, otherwise an empty mapping."""
    return opaque.data if opaque is not None and opaque.provider == provider else {}


def arguments_text(call: FunctionCall) -> str:
    """Return the arguments of a call as the text of a JSON object, for APIs that send arguments as text.

    Several servers parse the arguments of every earlier call, and refuse requests with other text. Such text is wrapped
    in `INVALID_JSON`, as Anthropic documents for invalid JSON.
    """
    if call.problem is not None:
        return dumps({"INVALID_JSON": call.text})
    return call.text if call.text.lstrip().startswith("{") else dumps(call.arguments)


def file_url(file: File) -> str:
    """Return a `data:` URL with the bytes of a file, or the URL of a file without bytes.

    The result is empty for a file that is stored at a provider.
    """
    if file.data is None:
        return file.url or ""
    return f"data:{file.mime};base64,{base64.b64encode(file.data).decode()}"


def unsupported_part(part: Part, wire: str, why: str = "", *, show_url: bool = False) -> UnsupportedPartError:
    """Create the error for a part that a request cannot contain.

    Args:
        part: the unsupported part.
        wire: name of the API and the provider, such as `the Gemini API (provider 'google')`.
        why: the reason and a remedy.
        show_url: whether to mention that a file is given by its URL.
    """
    match part:
        case File():
            name = f"File(mime={part.mime!r}{', by URL' if show_url and part.url is not None else ''})"
        case Embedding():
            name = f"Embedding of {len(part.vector)} numbers"
        case _:
            name = type(part).__name__
    return UnsupportedPartError(
        f"{wire} does not accept {name} in this message: {why or 'remove the part, or send its content as text'}"
    )
