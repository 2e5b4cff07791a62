"""Tool definitions that run a chat as a tool of another chat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Generic, TypeAlias, final

from typing_extensions import TypeVar

from chat_core import model_texts
from chat_core.engine.checkpoint import Checkpoint
from chat_core.engine.plan import ChatPlan
from chat_core.engine.run import Run
from chat_core.engine.subchat_report import OBSERVERS, InnerChat, InnerEvent, InnerHalt, InnerPause, InnerUsage
from chat_core.engine.tasks import RunTaskGroup
from chat_core.errors import InterruptedToolsError, PendingToolsError, PolicyError, ToolMissingError
from chat_core.events import Done
from chat_core.messages import Grants, Messages
from chat_core.provider import StreamProvider, ToolDeclaration
from chat_core.response import ChatResponse, Paused, StructuredResponse
from chat_core.tools.chat_tools import ChatTools
from chat_core.tools.context import ToolContext
from chat_core.tools.definition import InvalidArgumentsError
from chat_core.tools.result import ToolOutput
from chat_core.tools.scope import FixedScope

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Paused)

ReportFunction: TypeAlias = Callable[[Any, Messages], ToolOutput]
"""A function of the final response and the conversation of an inner chat that returns the output of the tool call."""

_PARAMETERS: Mapping[str, object] = {
    "type": "object",
    "properties": {"request": {"type": "string", "description": model_texts.SUBCHAT_REQUEST}},
    "required": ["request"],
    "additionalProperties": False,
}


@final
class ChatTool(FixedScope[PauseT_co], Generic[PauseT_co]):
    """A chat that another chat can call as a tool.

    If the inner chat pauses, the outer chat pauses too. The pause contains the paths of the waiting inner calls.
    """

    __slots__ = ()

    def __init__(
        self, plan: ChatPlan[object, PauseT_co], name: str, description: str, output: ReportFunction | None = None
    ) -> None:
        declaration = ToolDeclaration(name, description, _PARAMETERS)
        super().__init__((_ChatDefinition(plan, declaration, output),))


@final
class _ChatDefinition(InnerChat, Generic[PauseT_co]):
    """Definition of a tool that runs a chat."""

    __slots__ = ("_declaration", "_output", "_plan")

    def __init__(
        self, plan: ChatPlan[object, PauseT_co], declaration: ToolDeclaration, output: ReportFunction | None
    ) -> None:
        self._plan = plan
        self._declaration = declaration
        self._output = output

    @property
    def declaration(self) -> ToolDeclaration:
        return self._declaration

    @property
    def tools(self) -> ChatTools[PauseT_co]:
        return self._plan.tools

    def validate(self, arguments: Mapping[str, object], /) -> Mapping[str, object]:
        """Check that the only argument is `request` and that it is a string, and return the arguments."""
        request = arguments.get("request")
        if not isinstance(request, str) or len(arguments) != 1:
            raise InvalidArgumentsError(model_texts.subchat_arguments(dict(arguments)))
        return arguments

    def begin(self, arguments: Mapping[str, object], /) -> Messages:
        """Implement `InnerChat.begin`: return a conversation with the request as its user message."""
        return Messages.from_user(str(arguments["request"]))

    async def run(self, arguments: Mapping[str, object], context: ToolContext, /) -> object:
        """Run the chat outside of a tool pass, without storing its messages."""
        checkpoint = Checkpoint(context.inner or self.begin(arguments))
        return await self.run_inside(context, checkpoint.begin_as(context.run, Grants()))

    async def run_inside(self, context: ToolContext, checkpoint: Checkpoint, /) -> object:
        """Implement `InnerChat.run_inside`: run or resume the chat, and return its output, pause or halt."""
        run = Run(
            self._plan,
            checkpoint,
            None,
            streaming=isinstance(self._plan.model, StreamProvider),
            observers=OBSERVERS.get(),
            name=self._declaration.name,
        )
        try:
            # The outer run renews the lease, so no task of the inner run has to be cancelled.
            async with RunTaskGroup(cancel_on_exit=False) as group, aclosing(run.events(group)) as events:
                async for event in events:
                    if not isinstance(event, (Done, Paused)):
                        context.report(InnerEvent(event))
        except (InterruptedToolsError, PendingToolsError, PolicyError, ToolMissingError) as error:
            return InnerHalt(error, checkpoint.messages)
        finally:
            context.report(InnerUsage(run.usage))
        last = run.last
        assert last is not None  # noqa: S101 - a run that does not raise sets it
        if isinstance(last, Done):
            if self._output is not None:
                return self._output(last.response, checkpoint.messages)
            return _output_text(last.response)
        return InnerPause(last, checkpoint.messages)


def _output_text(output: object) -> str:
    if isinstance(output, ChatResponse):
        return output.text
    return output.raw if isinstance(output, StructuredResponse) else str(output)
