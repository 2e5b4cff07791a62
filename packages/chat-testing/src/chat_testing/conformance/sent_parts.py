"""Conformance scenarios for the parts of a history and for the declarations that a request contains."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from chat_core.errors import UnsupportedPartError
from chat_core.json import dumps, loads
from chat_core.messages import Messages, Part, ProviderPart, Structured, Text, Turn
from chat_core.provider import ToolDeclaration, ToolDeclarations
from chat_core.usage import Metadata
from chat_core.wire.shapes import is_list, is_object

from chat_testing.conformance.answers import answer_tapes, input_for
from chat_testing.conformance.scenario import scenario
from chat_testing.conformance.subject import (
    QUESTION,
    ProviderInput,
    SentBody,
    Subject,
    call_provider,
    conversation_after,
    declare_tools,
    list_texts,
    reply_of,
    schema_of,
    tool_description,
)
from chat_testing.conformance.tapes import Reply
from chat_testing.errors import fail

ANOTHER: Final = "another-provider"
OWN_MARK: Final = "5b2c-data-of-its-own"
"""Text that only a provider part with the name of the provider contains."""
UNKNOWN_DATA: Final = (LookupError, TypeError, ValueError, AttributeError)
"""Exceptions of a provider that expects other data in its provider parts."""
VALUE: Final[dict[str, object]] = {"city-of-it": "Lyon", "rivers": ["Saône", "Rhône"], "capital": False, "mayor": None}


@scenario("text")
async def structured_parts(subject: Subject) -> None:
    """The provider sends a `Structured` part of any provider as JSON text, or in the form that its API has for it."""
    for method in subject.answer_methods:
        for owner in (subject.owner_name, ANOTHER):
            sent = await subject.capture_request(_history(owner, Structured(VALUE)), method=method)
            text = await subject.capture_request(_history(owner, Text(dumps(VALUE))), method=method)
            if not _has_json(text.value):
                continue  # other scenarios report this
            if not _has_json(sent.value) and not _contains(sent.value, VALUE):
                fail(f"{method}() does not send the structured part {dumps(VALUE)} of {owner!r} as JSON")
            if _is_raw(sent.value, text.value):
                fail(f"{method}() sends the value of a structured part of {owner!r} in a field that requires a text")


def _history(owner: str, *parts: Part) -> Messages:
    """Return a conversation in which the given provider returned `parts`."""
    messages = Messages.from_user(QUESTION)
    messages.append("model", Turn(parts, metadata=Metadata(owner)))
    return messages.user("Go on.")


def _has_json(body: object) -> bool:
    """Return whether a text of a request is the JSON of the value."""
    return any(_as_json(text) == VALUE for text in list_texts(body) if text.startswith("{"))


def _as_json(text: str) -> object:
    try:
        return loads(text)
    except ValueError:
        return None


def _contains(value: object, wanted: object) -> bool:
    """Return whether a JSON value is `wanted` or contains it."""
    items = list(value.values()) if is_object(value) else value if is_list(value) else []
    return value == wanted or any(_contains(item, wanted) for item in items)


def _is_raw(sent: object, text: object) -> bool:
    """Return whether a request contains the JSON value at a place where the request of the text contains a string.

    Args:
        sent: a request, or a part of it, for a history with the value as a `Structured` part.
        text: the same part of the request for a history with the value as text.
    """
    if is_object(sent) and is_object(text):
        return sent.keys() == text.keys() and any(_is_raw(sent[name], text[name]) for name in text)
    if is_list(sent) and is_list(text):
        return len(sent) == len(text) and any(map(_is_raw, sent, text))
    return sent == VALUE and isinstance(text, str)


@scenario("text")
async def own_parts(subject: Subject) -> None:
    """The provider sends each provider part with its own name back, or raises `UnsupportedPartError`.

    These are the provider parts in the turns of the tapes, or else `own_parts` of the tapes, or else a part of an
    unknown kind.
    """
    found = False
    for method, tape, reply in subject.replies_of(*answer_tapes(subject), subject.tapes.structured):
        turn = (await subject.run(method, reply, input_for(tape))).result
        parts = [part for part in turn.parts if isinstance(part, ProviderPart)]
        found = found or bool(parts)
        if parts:
            sent = await subject.capture_request(conversation_after(turn, "Go on."), declare_tools(tape), method)
            _require_sent(sent, parts, f"{method}()")
    for part in () if found and not subject.tapes.own_parts else own_parts_of(subject):
        for method in subject.answer_methods:
            provider, transport = subject.serve(reply_of(subject.text, method) or Reply())
            history = _history(subject.owner_name, part, Text("words behind it"))
            try:
                outcome = await call_provider(provider, method, ProviderInput(history))
            except UNKNOWN_DATA:
                if subject.tapes.own_parts:
                    raise
                continue  # the data of this kind has another form, which only the provider knows
            if transport.requests:
                _require_sent(SentBody(transport.last.body), [part], f"{method}()")
            elif not isinstance(outcome.error, UnsupportedPartError):
                fail(f"{method}() with {part!r} raised {outcome.error!r} instead of UnsupportedPartError")


def own_parts_of(subject: Subject) -> list[ProviderPart]:
    """Return the `own_parts` of the tapes with the name of the provider, or else a part of an unknown kind."""
    unknown = ProviderPart("", "x_conformance", {"type": "x_conformance", "id": OWN_MARK})
    return [replace(part, provider=subject.owner_name) for part in subject.tapes.own_parts or (unknown,)]


def _require_sent(sent: SentBody, parts: list[ProviderPart], what: str) -> None:
    for part in parts:
        texts = [value for value in list_texts(dict(part.data)) if value not in part.data]
        if texts and not sent.contains(max(texts, key=len)):
            fail(
                f"{what} does not send {part!r}, which has the name of the provider. Send it back, raise "
                "UnsupportedPartError, or list the parts that are sent back in `own_parts` of the tapes"
            )


@scenario("tools")
async def undeclared_tools(subject: Subject) -> None:
    """A tool with `declared=False` is not declared to the model."""
    declared, hidden = [
        ToolDeclaration(name, tool_description(name), schema_of({}), declared=name == "look_up")
        for name in ("look_up", "keep_to_yourself")
    ]
    for method in subject.answer_methods:
        alone, both, none = [
            await subject.capture_request(Messages.from_user(QUESTION), ToolDeclarations(tools), method)
            for tools in ([declared], [declared, hidden], [hidden])
        ]
        if both.contains(hidden.name) or none.contains(hidden.name):
            fail(f"{method}() declares the tool {hidden.name!r}, which has declared=False")
        if both.body != alone.body:
            fail(
                f"a tool with declared=False changes the request of {method}(): {both.body!r} instead of {alone.body!r}"
            )
