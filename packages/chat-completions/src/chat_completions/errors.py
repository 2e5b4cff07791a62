"""What servers of the Chat Completions wire say of errors where no status does: in an answer, or in its finish reason.

What they say with a status is read by `chat_core.wire.refusals`, as on every wire; the few words that mean something at
one vendor alone stand in its preset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from chat_core.errors import (
    ChatError,
    NetworkError,
    OverloadedError,
    ProviderError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from chat_core.json import loads
from chat_core.transport.provider_errors import refused, reset_after, retry_after
from chat_core.transport.values import Headers
from chat_core.wire import refusals
from chat_core.wire.refusals import MESSAGES, failure_in_body, name_of
from chat_core.wire.shapes import is_list, is_object, mapping

__all__ = [
    "FAILED_FINISH",
    "FINE",
    "Meanings",
    "failure_in_body",
    "failure_in_finish",
    "refusal",
    "told",
    "translate",
    "unmet",
]

Meanings: TypeAlias = Sequence[tuple[re.Pattern[str], type[ProviderError]]]
"""Words in the body of a refusal, and the class that they mean at one vendor."""


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, provider: str, meanings: Meanings = ()
) -> ProviderError:
    """The error for an answer whose status is not 2xx."""
    error = refusals.refusal(status, headers, body, provider)
    text = body[: refusals.LONGEST_SEARCH].decode(errors="replace")
    for words, kind in meanings:
        if words.search(text):
            error = refused(kind, str(error), status=status, headers=headers, body=body, code=error.code)
            break
    if isinstance(error, RateLimitedError) and error.retry_after is None:
        error.retry_after = _wait_in(body)
    return error


def _wait_in(body: bytes) -> float | None:
    """The wait that a gateway was told itself, and passes on in the body: OpenRouter does."""
    try:
        fields = mapping(mapping(loads(body)).get("error"))
    except ValueError:
        return None
    told = mapping(mapping(fields.get("metadata")).get("headers"))
    headers = Headers({name: value for name, value in told.items() if isinstance(value, str)})
    wait = retry_after(headers)
    return reset_after(headers) if wait is None else wait


def translate(error: TransportError, provider: str, meanings: Meanings = ()) -> ChatError:
    """The error of a run for what the transport met."""
    if error.kind == "status" and error.status is not None:
        return refusal(error.status, error.headers, error.body, provider, meanings)
    return refusals.translate(error, provider)


def unmet(error: TransportError, provider: str, hint: str = "", meanings: Meanings = ()) -> ChatError:
    """The error for a call that was not answered; where nobody listens, `hint` says how that is changed."""
    if error.kind == "connect" and hint:
        return NetworkError(f"{provider}: {error}; {hint}")
    return translate(error, provider, meanings)


def told(answer: object, *, kind: str = "message") -> object:
    """What an answer that came with status 200 says of an error; `None` where it is an answer.

    `kind` is the type of the event that it came in.
    """
    if is_list(answer):
        return told(answer[0], kind="error") if answer else None
    if not is_object(answer):
        return None
    if error := answer.get("error"):
        return error if is_object(error) else answer
    # MiniMax says it in a field of its own, with or without choices.
    if mapping(answer.get("base_resp")).get("status_code"):
        return answer
    if "choices" in answer:
        return None
    bare = kind == "error" or "error" in (answer.get("object"), answer.get("type")) or _bare(answer)
    return answer if bare else None


def _bare(answer: dict[str, Any]) -> bool:
    """Whether it is an error with nothing around it. What has words but neither code nor status may be anything."""
    named = any(name_of(answer.get(name)) not in FINE for name in ("code", "error_code", "status_code", "statusCode"))
    if named or answer.get("detail") or answer.get("errors"):
        return any(answer.get(name) for name in MESSAGES)
    return False


FINE: Final = frozenset({"", "0", "200"})
"""Codes that say that nothing is wrong."""

FAILED_FINISH: Final[Mapping[str, type[ProviderError]]] = {
    "error": ServerError,
    "network_error": ServerError,
    "abort": ServerError,
    "insufficient_system_resource": OverloadedError,
}
"""Finish reasons that say that the server, not the model, ended the answer."""


def failure_in_finish(finish: str | None, provider: str) -> ProviderError | None:
    """The error for a finish reason that says that the server failed; `None` for any other one."""
    kind = FAILED_FINISH.get((finish or "").lower())
    if kind is None:
        return None
    return kind(f"{provider} broke its answer off: its finish reason is {finish!r}", code=finish)
