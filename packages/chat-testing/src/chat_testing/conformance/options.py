"""Conformance scenarios for options: a provider must send each option or raise an error that names the option."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from chat_core.errors import UnsupportedOptionError
from chat_core.messages import Messages
from chat_core.options import ChatOptions, Instructions, NamedTool
from chat_core.provider import NO_TOOLS, ToolDeclarations
from chat_core.testing.mock_transport import RecordedRequest

from chat_testing.conformance.scenario import scenario
from chat_testing.conformance.subject import (
    Method,
    ProviderInput,
    SentBody,
    Subject,
    call_provider,
    declare_tools,
    reply_of,
)
from chat_testing.conformance.tapes import Reply
from chat_testing.errors import fail

ANOTHER: Final = "another-provider"

VALUES: Final = (
    (ChatOptions(temperature=0.375), "0.375"),
    (ChatOptions(top_p=0.625), "0.625"),
    (ChatOptions(top_k=3217), "3217"),
    (ChatOptions(max_tokens=4321), "4321"),
    (ChatOptions(stop=("END-OF-IT", "NO-MORE")), "END-OF-IT"),
    (ChatOptions(stop=("END-OF-IT", "NO-MORE")), "NO-MORE"),
    (ChatOptions(seed=76543), "76543"),
)
"""Options whose value has the same encoding in every API, mapped to the encoded text."""

ZEROS: Final = (ChatOptions(temperature=0.0), ChatOptions(top_p=0.0), ChatOptions(seed=0))
"""Options with falsy values, which a provider may omit by mistake."""

CHOICES: Final = (ChatOptions(reasoning="low"), ChatOptions(reasoning=2345))
"""Options whose encoding differs between APIs."""


async def _capture_request(
    subject: Subject, method: Method, options: ChatOptions, tools: ToolDeclarations = NO_TOOLS
) -> RecordedRequest | None:
    """Return the request that is sent with these options, or `None` if they raise `UnsupportedOptionError`."""
    provider, transport = subject.serve(reply_of(subject.text, method) or Reply())
    outcome = await call_provider(provider, method, ProviderInput(options=options, tools=tools))
    if isinstance(outcome.error, UnsupportedOptionError) and not transport.requests:
        return None
    if outcome.error is not None:
        fail(
            f"{method}() got {_format_options(options)}, but raised {outcome.error!r} instead of UnsupportedOptionError"
        )
    return transport.last


def _format_options(options: ChatOptions) -> str:
    names = (
        "temperature",
        "top_p",
        "top_k",
        "max_tokens",
        "stop",
        "seed",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning",
    )
    return ", ".join([f"{name}={value!r}" for name in names if (value := getattr(options, name)) is not None])


@scenario("text")
async def options(subject: Subject) -> None:
    """The provider sends each option or raises `UnsupportedOptionError`. No option is ignored."""
    for method in subject.answer_methods:
        plain = await _capture_request(subject, method, ChatOptions())
        for given, words in VALUES:
            sent = await _capture_request(subject, method, given)
            if sent is not None and not SentBody(sent.body).contains(words):
                fail(f"the request of {method}() lacks {_format_options(given)}")
        for given in (*ZEROS, *CHOICES):
            sent = await _capture_request(subject, method, given)
            if sent is not None and plain is not None and sent.body == plain.body:
                fail(f"{method}() sends the same request with and without {_format_options(given)}")


@scenario("text")
async def instructions(subject: Subject) -> None:
    """The provider sends fixed instructions before the conversation's system texts, and changing ones after them."""
    fixed, stored, changing = "the fixed instructions", "a stored system text", "the changing instructions"
    given = ChatOptions(instructions=Instructions(fixed, changing))
    conversation = Messages.from_system(stored).user("a question")
    for method in subject.answer_methods:
        provider, transport = subject.serve(reply_of(subject.text, method) or Reply())
        (await call_provider(provider, method, ProviderInput(conversation, options=given))).result  # noqa: B018 - an error is raised
        sent = SentBody(transport.last.body)
        for text in (fixed, stored, changing):
            if sent.count(text) != 1:
                fail(f"the request of {method}() contains {text!r} {sent.count(text)} times instead of once")
        if not sent.position_of(fixed) < sent.position_of(stored) < sent.position_of(changing):
            fail(f"the request of {method}() has its system texts in another order than {fixed}, {stored}, {changing}")


@scenario("tools")
async def tool_choice(subject: Subject) -> None:
    """The provider sends `tool_choice` and `parallel_tool_calls`, or raises `UnsupportedOptionError`."""
    tools = declare_tools(subject.tapes.call, subject.tapes.no_arguments)
    choices = (
        ChatOptions(tool_choice="none"),
        ChatOptions(tool_choice="required"),
        ChatOptions(tool_choice=NamedTool(tools[0].name)),
        ChatOptions(parallel_tool_calls=False),
    )
    for method in subject.answer_methods:
        plain = await _capture_request(subject, method, ChatOptions(), tools)
        for given in choices:
            sent = await _capture_request(subject, method, given, tools)
            if sent is not None and plain is not None and sent.body == plain.body:
                fail(f"{method}() sends the same request with and without {_format_options(given)}")
        named = [ChatOptions(tool_choice=NamedTool(tool.name)) for tool in tools]
        bodies: dict[bytes, ChatOptions] = {}
        for given in (choices[1], *named):
            sent = await _capture_request(subject, method, given, tools)
            if sent is not None and (known := bodies.setdefault(sent.body, given)) is not given:
                fail(f"{method}() sends the same request for {_format_options(given)} and {_format_options(known)}")


@scenario("text")
async def timeout(subject: Subject) -> None:
    """The provider passes the option `timeout` to the transport as the idle timeout."""
    for method in subject.answer_methods:
        sent = await _capture_request(subject, method, ChatOptions(timeout=7.5))
        if sent is not None and sent.request.timeouts.idle != 7.5:
            fail(f"{method}() with timeout=7.5 passes idle={sent.request.timeouts.idle} to the transport")


@final
@dataclass(frozen=True)
class _ForeignOptions:
    """Provider-specific options that belong to another provider."""

    provider: str = ANOTHER


@scenario("text")
async def foreign_options(subject: Subject) -> None:
    """Options that belong to another provider raise `UnsupportedOptionError` before a request is sent."""
    for method in subject.answer_methods:
        if await _capture_request(subject, method, ChatOptions(extras=(_ForeignOptions(),))) is not None:
            fail(f"{method}() did not raise UnsupportedOptionError for options of another provider")
