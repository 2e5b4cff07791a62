"""Forced tool choice: sent until the model has called, then relaxed to `auto`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal

import anyio
import pytest
from chat_core import (
    ChatBuilder,
    ChatOptions,
    Execute,
    FunctionCall,
    Messages,
    NamedTool,
    Paused,
    Reject,
    RequireApproval,
    Retry,
    ScopedCollection,
    ToolChoice,
    ToolCollection,
)
from chat_core.errors import RateLimitedError
from chat_core.messages import Turn
from chat_core.provider import OutputSchema, ProviderMeta, ProviderStream, ToolDeclarations
from chat_core.testing import Answer, ScriptedProvider
from chat_core.testing.scripted import Scripted
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.anyio

FORCED: list[ToolChoice] = ["required", NamedTool("pay")]
PAY = FunctionCall("pay", {"to": "Bo"})


def payer(paid: list[str]) -> ToolCollection[None]:
    tools = ToolCollection()

    @tools.tool
    async def pay(to: str) -> str:
        """Pay a person."""
        if to == "nobody":
            msg = "there is no such person"
            raise ValueError(msg)
        paid.append(to)
        return f"paid {to}"

    return tools


@dataclass
class Payment:
    """A structured answer."""

    cents: int


@dataclass
class ObedientModel:
    """Provider that calls a tool whenever it must, and answers with text otherwise."""

    calls: list[Scripted] = field(default_factory=list[Scripted])
    asked: list[object] = field(default_factory=list[object])
    metadata: ProviderMeta = field(default_factory=lambda: ProviderMeta("obedient", "m"))

    def _script(self, options: ChatOptions) -> ScriptedProvider:
        self.asked.append(options.tool_choice)
        must = options.tool_choice not in {"auto", "none", None}
        return ScriptedProvider((self.calls.pop(0) if self.calls else PAY) if must else "It is done.")

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        """Return the next answer."""
        return await self._script(options).complete(messages, tools, options, structured_output)

    def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Stream the next answer."""
        return self._script(options).stream(messages, tools, options, structured_output)


@pytest.mark.parametrize("choice", FORCED)
@pytest.mark.parametrize("streaming", [False, True], ids=["complete", "stream"])
async def test_a_forced_choice_makes_the_model_call_once_per_user_message(
    choice: ToolChoice, *, streaming: bool
) -> None:
    paid: list[str] = []
    model = ObedientModel()
    chat = ChatBuilder().with_model(model).with_tools(payer(paid)).with_options(ChatOptions(tool_choice=choice)).build()
    messages = Messages()
    for question in ("Pay Bo.", "Pay him again."):
        messages.user(question)
        if streaming:
            async with chat.stream(messages) as stream:
                async for _ in stream:
                    pass
            assert stream.response.text == "It is done."
        else:
            assert (await chat.complete(messages)).text == "It is done."
    assert paid == ["Bo", "Bo"]
    assert model.asked == [choice, "auto", choice, "auto"]


@pytest.mark.parametrize("choice", [None, "none", "auto"])
async def test_choices_that_are_not_forced_are_sent_with_every_request(choice: Literal["none", "auto"] | None) -> None:
    model = ScriptedProvider(PAY, "Done.")
    options = ChatOptions(tool_choice=choice)
    chat = ChatBuilder().with_model(model).with_tools(payer([])).with_options(options).build()
    await chat.complete(Messages.from_user("Pay Bo."))
    assert [call.options.tool_choice for call in model.asked] == [choice, choice]


@pytest.mark.parametrize(
    "failed",
    [
        FunctionCall("pay", {"cents": 3}),
        FunctionCall.parse("pay", '{"to": '),
        FunctionCall("unheard_of", {}),
        Answer([PAY], finish_reason="length"),
    ],
    ids=["arguments", "json", "name", "truncated"],
)
async def test_a_call_that_fails_before_it_runs_does_not_satisfy_a_forced_choice(failed: Scripted) -> None:
    paid: list[str] = []
    model = ObedientModel([failed])
    chat = ChatBuilder().with_model(model).with_tools(payer(paid)).build()
    await chat.complete(Messages.from_user("Pay Bo."), options=ChatOptions(tool_choice="required"))
    assert paid == ["Bo"]
    assert model.asked == ["required", "required", "auto"]


async def test_a_tool_that_raises_and_a_rejected_call_satisfy_a_forced_choice() -> None:
    model = ObedientModel([FunctionCall("pay", {"to": "nobody"})])
    options = ChatOptions(tool_choice="required")
    await (
        ChatBuilder()
        .with_model(model)
        .with_tools(payer([]))
        .build()
        .complete(Messages.from_user("Pay."), options=options)
    )
    rejecting = ScopedCollection(payer([]), lambda _call, _meta: Reject("no money"))
    await (
        ChatBuilder()
        .with_model(model)
        .with_scoped_tools(rejecting)
        .build()
        .complete(Messages.from_user("Pay."), options=options)
    )
    assert model.asked == ["required", "auto"] * 2


async def test_a_correction_of_a_structured_response_does_not_force_another_call() -> None:
    model = ScriptedProvider(PAY, "three", '{"cents": 3}')
    chat = ChatBuilder().with_model(model).with_tools(payer([])).with_structured_output(Payment).build()
    await chat.complete(Messages.from_user("Pay Bo."), options=ChatOptions(tool_choice="required"))
    assert [call.options.tool_choice for call in model.asked] == ["required", "auto", "auto"]


async def test_a_forced_choice_is_sent_once_in_a_conversation_without_user_messages() -> None:
    model = ObedientModel()
    chat = ChatBuilder().with_model(model).with_tools(payer([])).build()
    await chat.complete(Messages.from_system("Pay Bo."), options=ChatOptions(tool_choice="required"))
    assert model.asked == ["required", "auto"]


# --- Random histories ------------------------------------------------------------------------------------------------

Kind = Literal["good", "raises", "arguments", "json", "name", "truncated"]
SCRIPTS: Mapping[Kind, Scripted] = {
    "good": PAY,
    "raises": FunctionCall("pay", {"to": "nobody"}),
    "arguments": FunctionCall("pay", {"cents": 3}),
    "json": FunctionCall.parse("pay", '{"to": '),
    "name": FunctionCall("unheard_of", {}),
    "truncated": Answer([PAY], finish_reason="length"),
}
CALLED: tuple[Kind, ...] = ("good", "raises")
"""Calls that obey a forced choice: they reach the policy."""


@dataclass(frozen=True)
class Question:
    """A question and what happens until its answer.

    Attributes:
        calls: calls of the model, each after a forced request.
        policy: what the policy returns for every call.
        decision: what the approver does with a waiting call.
        busy: number of refused attempts before each response.
        stored: whether another process resumes the pause.
    """

    calls: list[Kind]
    policy: Literal["execute", "approve", "reject"]
    decision: Literal["approve", "edit", "reject", "cancel"]
    busy: int
    stored: bool


QUESTIONS = st.builds(
    Question,
    calls=st.lists(st.sampled_from([*SCRIPTS]), max_size=4).map(lambda kinds: [*kinds, "good"]),
    policy=st.sampled_from(["execute", "approve", "reject"]),
    decision=st.sampled_from(["approve", "edit", "reject", "cancel"]),
    busy=st.integers(0, 2),
    stored=st.booleans(),
)


class BusyModel(ObedientModel):
    """Obedient provider that refuses the first attempts of each request."""

    refused = 0
    busy = 0

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        """Raise, or return the next answer."""
        if self.refused < self.busy:
            self.refused += 1
            msg = "busy"
            raise RateLimitedError(msg)
        self.refused = 0
        return await super().complete(messages, tools, options, structured_output)


async def ask(messages: Messages, question: Question, choice: ToolChoice) -> tuple[Messages, list[object]]:
    """Run a question to its answer. Return the conversation and the tool choices that were sent."""
    actions = {"execute": Execute(), "approve": RequireApproval(), "reject": Reject("no money")}
    scope = ScopedCollection(payer([]), lambda _call, _meta: actions[question.policy])
    model = BusyModel([SCRIPTS[kind] for kind in question.calls])
    model.busy = question.busy
    builder = ChatBuilder().with_model(model).with_scoped_tools(scope).with_options(ChatOptions(tool_choice=choice))
    chat = builder.with_retry(Retry(times=2, base=0.0)).build()
    messages.user("Pay Bo.")
    for _ in range(6):
        if not isinstance(await chat.complete(messages), Paused):
            break
        for tool in messages.pending():
            if question.decision == "approve":
                tool.approve()
            elif question.decision == "edit":
                tool.approve(arguments={"to": "Ana"})
            elif question.decision == "reject":
                tool.reject()
            else:
                tool.cancel()
        if question.stored:
            messages = Messages.from_json(messages.to_json())
    return messages, model.asked


@given(st.lists(QUESTIONS, min_size=1, max_size=4), st.sampled_from(FORCED))
@settings(deadline=None, max_examples=60)
def test_a_forced_choice_is_sent_until_a_call_reaches_the_policy_in_any_history(
    questions: list[Question], choice: ToolChoice
) -> None:
    async def run() -> None:
        messages = Messages()
        for question in questions:
            messages, asked = await ask(messages, question, choice)
            forced = next(number for number, kind in enumerate(question.calls, 1) if kind in CALLED)
            assert asked == [choice] * forced + ["auto"]

    anyio.run(run)
