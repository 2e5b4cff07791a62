"""From the parts of a turn to the blocks of the wire.

What only Claude understands travels in `Opaque` data that carries the provider's name:

- on a `Text`, the further fields of its block (`citations`, `cache_control`);
- on a `File`, `file_id` names an uploaded file, `type` its block where that is not told by the mime type, and the rest
  are further fields of the block (`citations`, `context`, `title`, `cache_control`);
- on a `Reasoning`, the further fields of its block; that there is any says that the signature is Claude's;
- on a `FunctionCall`, the further fields of the call (`caller`);
- a `ProviderPart` is a whole block, whose type is its kind; one of kind `refusal` is for the caller alone.
"""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from typing import Final, NoReturn

from chat_core.errors import UnsupportedPartError
from chat_core.json import dumps
from chat_core.messages import (
    Completed,
    File,
    Part,
    ProviderPart,
    Reasoning,
    Structured,
    Text,
    Tool,
    Turn,
)
from chat_core.wire.parts import owned, unsupported_part
from chat_core.wire.shapes import Json, is_list, is_mapping, is_object

IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""What the API looks at. `image/jpg` and `image/*` are said of the same."""

PDF: Final = "application/pdf"
WORDS: Final = frozenset({"application/json", "application/xml", "application/yaml", "application/x-yaml"})
"""Mime types that are text, beside those that begin with `text/`."""

RESULTS: Final = frozenset({"tool_reference", "search_result"})
"""Blocks that a tool may return as they are, in a list: tools that it has found, and what may be cited."""

BESIDE_RESULTS: Final = RESULTS | {"text", "image", "document"}
"""Blocks that may stand in such a list beside them."""

REFUSAL: Final = "refusal"
"""The kind of a part that tells the caller why the model refused. It is no block, and is not sent."""

UNKNOWN: Final = "unknown"
"""The kind of a block that came without a type. It is kept, and cannot be sent."""

FALLBACK: Final = "fallback"
"""The kind of the part behind which another model goes on, where the first one refused to."""

DECLINED: Final = "tool_use"
"""The kind of the part that tells the caller what a model that refused to go on had begun to call. It is not sent."""

KEPT_HERE: Final = frozenset({REFUSAL, UNKNOWN, DECLINED})
"""Kinds of parts that are not sent."""

UNMARKED: Final = frozenset({"thinking", "redacted_thinking", FALLBACK, "mcp_tool_listing"})
"""Blocks that cannot be a cache point."""

THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
"""Blocks that cannot end a message."""

ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
LONGEST_NAME: Final = 128


# --- What a user or the instructions say ----------------------------------------------------------------


def said_blocks(turn: Turn, provider: str, place: str) -> list[Json]:
    """The blocks of a turn that no model said.

    Raises:
        UnsupportedPartError: the wire has no place for a part, or the turn holds nothing at all.
    """
    blocks: list[Json] = []
    empty = False
    for part in turn.parts:
        block = _said(part, provider, place)
        if block is not None:
            blocks.append(block)
        empty = empty or isinstance(part, Text)
    if not blocks and empty and place == "user":
        msg = (
            f"{provider} takes no message without words: a Text of the user's is empty; leave it out, or say something"
        )
        raise UnsupportedPartError(msg)
    return blocks


def _said(part: Part, provider: str, place: str) -> Json | None:
    match part:
        case Text():
            return text_block(part, provider)
        case File() if place == "user":
            return file_block(part, provider)
        case ProviderPart():
            return dict(part.data) if part.provider == provider else None
        case Structured():
            return {"type": "text", "text": dumps(part.value)}
        case _:
            return _refuse(part, provider, f"{place} messages have no place for it")


def text_block(part: Text, provider: str) -> Json | None:
    """A text; `None` for one without anything to see in it, which the API refuses."""
    if not part.text.strip():
        return None
    return _returned({"type": "text", "text": part.text, **owned(part.opaque, provider)})


def _returned(block: Json) -> Json:
    """A block as the API takes it back: without the files of its citations, which it tells and refuses to be told."""
    if is_list(notes := block.get("citations")):
        block["citations"] = [
            {key: value for key, value in note.items() if key != "file_id"} if is_mapping(note) else note
            for note in notes
        ]
    return block


# --- Files ------------------------------------------------------------------------------------------------


def file_block(file: File, provider: str) -> Json:
    """A file as the block that its mime type wants.

    Raises:
        UnsupportedPartError: the wire cannot carry it.
    """
    data = owned(file.opaque, provider)
    further = {key: value for key, value in data.items() if key not in {"file_id", "type"}}
    if "file_id" in data:
        return _uploaded(file, data["file_id"], str(data.get("type") or _kind_of(file.mime))) | further
    if file.data is None and file.url is None:
        _refuse(file, provider, "it is known to another provider alone; attach its bytes")
    mime = _plain(file.mime)
    if mime.startswith("image/"):
        return {"type": "image", "source": _image(file, mime, provider)} | further
    document: Json = {"type": "document", "source": _document(file, mime, provider)}
    if file.name:
        document["title"] = file.name
    return document | further


def _plain(mime: str) -> str:
    """A mime type without its parameters and its capitals, which say nothing here (RFC 2045, section 5.1)."""
    return mime.partition(";")[0].strip().lower()


def _kind_of(mime: str) -> str:
    """The block that an uploaded file of this mime type stands in; data of any other kind goes to the container."""
    mime = _plain(mime)
    if mime.startswith("image/"):
        return "image"
    return "document" if mime in {PDF, "text/plain"} else "container_upload"


def _uploaded(file: File, file_id: object, kind: str) -> Json:
    if kind == "container_upload":
        return {"type": kind, "file_id": file_id}
    block: Json = {"type": kind, "source": {"type": "file", "file_id": file_id}}
    if kind == "document" and file.name:
        block["title"] = file.name
    return block


def _image(file: File, mime: str, provider: str) -> Json:
    mime = "image/jpeg" if mime == "image/jpg" else mime
    if mime not in IMAGES and (file.data is not None or mime != "image/*"):
        _refuse(file, provider, "it looks at JPEG, PNG, GIF and WebP; convert it to one of these")
    return _source(file, mime)


def _document(file: File, mime: str, provider: str) -> Json:
    if mime == PDF:
        return _source(file, PDF)
    if not (mime.startswith("text/") or mime in WORDS):
        _refuse(
            file,
            provider,
            "it reads images, PDF and text; convert it, or upload it and send its id to the code execution tool",
        )
    if file.data is None:
        _refuse(file, provider, "of a URL it reads images and PDF alone; fetch the text and attach its bytes")
    try:
        text = file.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        _refuse(file, provider, "its bytes are no UTF-8; decode it and encode it as UTF-8")
    if not text.strip():
        _refuse(file, provider, "it is empty; leave it out")
    return {"type": "text", "media_type": "text/plain", "data": text}


def _source(file: File, mime: str) -> Json:
    if file.data is None:
        return {"type": "url", "url": file.url}
    if not file.data:
        msg = f"File(mime={file.mime!r}) holds no bytes: attach some, or leave it out"
        raise UnsupportedPartError(msg)
    return {"type": "base64", "media_type": mime, "data": base64.b64encode(file.data).decode()}


# --- What the model said ------------------------------------------------------------------------------------


def model_blocks(turn: Turn, provider: str) -> tuple[list[Json], list[Json]]:
    """The blocks of a model's turn, and those of the results of its tools, which the next message holds.

    Raises:
        UnsupportedPartError: the wire has no place for a part.
    """
    own = turn.metadata is None or turn.metadata.provider in {None, provider}
    ids = wire_ids(turn)
    blocks: list[Json] = []
    results: list[Json] = []
    declined = _declined(turn, provider)
    calls = iter(ids)
    for number, part in enumerate(turn.parts):
        if isinstance(part, Tool):
            call_id = next(calls)
            if number < declined:
                continue
            blocks.append(_call(part, call_id, provider))
            results.append(_result(part, call_id, provider))
        elif (block := _spoken(part, provider, own=own)) is not None:
            blocks.append(block)
    # A message cannot end in a thought: what was cut off behind one has led to nothing.
    while blocks and blocks[-1].get("type") in THOUGHTS:
        blocks.pop()
    return blocks, results


def _declined(turn: Turn, provider: str) -> int:
    """How many parts are of models that refused to go on: the API takes the calls in them no more."""
    falls = [
        number
        for number, part in enumerate(turn.parts)
        if isinstance(part, ProviderPart) and part.kind == FALLBACK and part.provider == provider
    ]
    return falls[-1] if falls else 0


def _spoken(part: Part, provider: str, *, own: bool) -> Json | None:
    match part:
        case Text():
            return text_block(part, provider)
        case Reasoning():
            return _thinking(part, provider, own=own)
        case ProviderPart():
            sent = part.provider == provider and part.kind not in KEPT_HERE
            return _returned(dict(part.data)) if sent else None
        case Structured():
            return {"type": "text", "text": dumps(part.value)}
        case _:
            return _refuse(part, provider, "a model's own message cannot hold it; give it to the user's")


def _thinking(part: Reasoning, provider: str, *, own: bool) -> Json | None:
    """A thought, if it has the signature without which the API takes none."""
    mine = own if part.opaque is None else part.opaque.provider == provider
    if not mine or not part.signature:
        return None
    further = owned(part.opaque, provider)
    return {"type": "thinking", "thinking": part.text, "signature": part.signature, **further}


def declined_call(tool: Tool, provider: str) -> ProviderPart:
    """What a model that refused to go on had begun to call, for the caller to see: it is not run."""
    block: Json = {"type": "tool_use", "id": tool.call_id, "name": tool.name, "input": _arguments(tool)}
    return ProviderPart(provider, DECLINED, block)


def _arguments(tool: Tool) -> Json:
    """The arguments of a call. What is no JSON goes back in the form that the API documents for it."""
    call = tool.call
    return {"INVALID_JSON": call.text} if call.problem is not None else dict(call.arguments)


def _call(tool: Tool, call_id: str, provider: str) -> Json:
    name = NAME.sub("_", tool.name)[:LONGEST_NAME] or "_"
    return {
        "type": "tool_use",
        "id": call_id,
        "name": name,
        "input": _arguments(tool),
        **owned(tool.call.opaque, provider),
    }


def _result(tool: Tool, call_id: str, provider: str) -> Json:
    if (blocks := _blocks_in(tool)) is not None:
        return {"type": "tool_result", "tool_use_id": call_id, "content": blocks}
    text = tool.result_text()
    files = [file_block(file, provider) for file in tool.result_files]
    result: Json = {"type": "tool_result", "tool_use_id": call_id}
    if files:
        result["content"] = [*([{"type": "text", "text": text}] if _says(tool, text) else []), *files]
    elif text.strip():
        result["content"] = text
    if tool.failed:
        result["is_error"] = True
        result.setdefault("content", "it failed")
    return result


def _blocks_in(tool: Tool) -> list[Json] | None:
    """The blocks that a result is made of, where it is a list of nothing else, and one of them is the API's alone."""
    status = tool.status
    if not isinstance(status, Completed) or status.files or tool.edited is not None or not is_list(status.result):
        return None
    blocks = [item for item in status.result if is_object(item) and item.get("type") in BESIDE_RESULTS]
    found = any(block["type"] in RESULTS for block in blocks)
    return blocks if found and len(blocks) == len(status.result) else None


def _says(tool: Tool, text: str) -> bool:
    """Whether a result that has files says anything beside them: a tool that returns files alone has null for it."""
    return bool(text.strip()) and text != "null" and not tool.failed


def wire_ids(turn: Turn) -> list[str]:
    """The ids of a turn's calls on the wire: ours, which is the provider's own but where it gave none or gave it twice.

    One that the API would refuse is replaced by one that is made from it, always the same.
    """
    return [
        tool.id if ID.fullmatch(tool.id) else f"toolu_{sha256(tool.id.encode(errors='surrogatepass')).hexdigest()[:32]}"
        for tool in turn.tools
    ]


# --- Cache points -----------------------------------------------------------------------------------------


def mark(blocks: list[Json], ttl: str) -> bool:
    """Put a cache point on the last block that can be one; whether there was any."""
    for block in reversed(blocks):
        if block.get("type") not in UNMARKED:
            block.setdefault("cache_control", cache_point(ttl))
            return True
    return False


def cache_point(ttl: str) -> Json:
    """A cache point as the API says it; five minutes are its default."""
    return {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}


def _refuse(part: Part, provider: str, why: str) -> NoReturn:
    raise unsupported_part(part, f"the Messages wire of {provider}", why, show_url=True)
