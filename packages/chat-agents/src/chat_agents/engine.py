"""`AgentEngine`, which runs flows on sessions with a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Generic, cast, final

from chat_core import (
    ChatBuilder,
    ChatProvider,
    ChatResponse,
    Messages,
    Middleware,
    Part,
    Paused,
    ReadyChatBuilder,
    StreamingChat,
    Text,
    Tool,
    ToolScope,
    Turn,
    UsageError,
)
from chat_core.arguments import require_items, require_type
from chat_core.messages import Content
from chat_core.messages.storable import find_turn_fault
from typing_extensions import TypeVar

from chat_agents.background import BackgroundAgents
from chat_agents.config import AgentConfig
from chat_agents.delegate_tool import MAX_KEPT_RESULT, delegate_tools
from chat_agents.delegation import Delegation
from chat_agents.flow import AgentFlow, require_flow
from chat_agents.handoff import Handoff
from chat_agents.limits import DelegationLimits
from chat_agents.rounds import RoundLimit
from chat_agents.run import AgentRun, RunSettings, append_message, require_message
from chat_agents.session import AgentSession
from chat_agents.tool_sources import drop_duplicate_tools

PauseT = TypeVar("PauseT", bound=Paused)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True)

_CACHED_FLOWS = 64
_MANY_STEPS = 10_000
_SPARE_STEPS = 16
"""Model calls of a run in addition to its rounds, for responses that the provider paused and for posted input."""


@final
class _FlowKey:
    """A cache key for a flow, compared by identity, because a flow that is a dataclass may not be hashable."""

    __slots__ = ("flow",)

    def __init__(self, flow: AgentFlow[Paused]) -> None:
        self.flow = flow

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FlowKey) and other.flow is self.flow

    def __hash__(self) -> int:
        return id(self.flow)


@final
@dataclass(frozen=True, slots=True)
class _FlowChats(Generic[PauseT_co]):
    """The chats of one flow.

    Attributes:
        builder: the builder of the chat of `AgentRun`.
        without_instructions: the chat that `AgentRun` uses. The run evaluates the instructions itself.
        with_instructions: the chat that `AgentEngine.chat()` returns.
        background: the agents that work in the background, if the flow has any.
        next_flows: the flows to which this flow can hand over.
    """

    builder: ReadyChatBuilder[ChatProvider, ChatResponse, PauseT_co]
    without_instructions: StreamingChat[ChatResponse, PauseT_co]
    with_instructions: StreamingChat[ChatResponse, PauseT_co]
    background: BackgroundAgents[PauseT_co] | None
    next_flows: Sequence[AgentFlow[PauseT_co]]


@final
class AgentEngine:
    """An engine that runs flows on sessions. One engine serves any number of sessions and flows at the same time."""

    def __init__(self, model: ChatProvider, config: AgentConfig | None = None) -> None:
        """Create the engine.

        Args:
            model: a provider that streams. The engine does not close it.
            config: settings of the engine.

        Raises:
            UsageError: the model cannot stream, or `config` is not an `AgentConfig`.
        """
        if not isinstance(model, ChatProvider):
            msg = f"AgentEngine() needs a model that streams, not {model!r}"
            raise UsageError(msg)
        self._model = model
        self._config = AgentConfig() if config is None else config
        require_type("config", self._config, AgentConfig, "an AgentConfig, such as AgentConfig(max_tool_rounds=3)")
        self._limit = RoundLimit(self._config.max_tool_rounds, closing_answer=self._config.closing_answer)
        # The encoded declarations of a flow's tools are cached in its chat. A cache of flows without a size limit would
        # keep every flow alive, because the tools of a chat may refer to its flow.
        self._find_chats = lru_cache(maxsize=_CACHED_FLOWS)(self._build_chats)

    def __repr__(self) -> str:
        return f"AgentEngine({self._model.metadata.name}/{self._model.metadata.model})"

    @property
    def config(self) -> AgentConfig:
        """The settings of this engine."""
        return self._config

    def chat(self, flow: AgentFlow[PauseT], /) -> StreamingChat[ChatResponse, PauseT]:
        """Return a chat with the instructions, tools and limits of a flow.

        Use it with an API that takes a chat, such as the protocols of chat-streams, dry runs and direct tool calls. Its
        events are those of chat-core.

        Args:
            flow: the flow to convert.

        Raises:
            UsageError: two tools of the flow have the same name, a method of the flow returns a wrong value, or the
                flow has a `Handoff`, which a chat of one flow cannot follow.
        """
        chats = self._chats_of(flow)
        if chats.next_flows:
            msg = (
                f"the flow {flow.name!r} has a Handoff, which chat() does not follow: use run(), or pass a flow "
                "without a Handoff"
            )
            raise UsageError(msg)
        return chats.with_instructions

    def run(
        self,
        flow: AgentFlow[PauseT],
        session: AgentSession,
        message: str | Sequence[Part | str] | None = None,
        *,
        inject: Mapping[Any, object] | None = None,
        sources: Sequence[ToolScope[PauseT]] = (),
    ) -> AgentRun[PauseT]:
        """Return a run of a flow on a session, for use as `async with engine.run(…) as run: async for event in run`.

        Nothing happens before the block is entered. A run can pause only if the type of the flow includes `Paused`.

        Args:
            flow: the flow with which the session was opened, or the flow to which the session was handed over. After a
                handoff, the run always uses the latter flow.
            session: the session, which no other run may use at the same time.
            message: user message, a text or parts. `None` continues after a pause or an interrupted run. If the
                model has answered, a stored session yields the answer again, and a session in memory is refused.
            inject: values by type, for `Injected` parameters of tools.
            sources: further tools for this run, such as those of an MCP server that the user has connected. If the flow
                or an earlier source has a tool of the same name, the tool is left out, and a warning is logged. Agents
                of the flow do not get these tools. A run that continues after a pause needs the sources of the calls
                that wait.

        Raises:
            UsageError: the flow has no name, the message is empty, or an argument is not valid. When the block is
                entered: the session belongs to another flow.
        """
        require_flow(flow)
        require_type("session", session, AgentSession, "an AgentSession, such as AgentSession(flow='support')")
        content = None if message is None else _to_content(message)
        return AgentRun(self._run_settings(flow, sources), session, content, inject)

    def add_message(
        self, flow: AgentFlow[PauseT], messages: Messages, message: str | Sequence[Part | str], /
    ) -> tuple[Turn, Sequence[Tool]]:
        """Append a user message to the messages of a session, as `run()` does.

        Use it to store the message yourself, for example with a job in one `ConversationStore.apply()`. A later
        `run(flow, session)` without a message responds to it.

        Args:
            flow: the flow of the session.
            messages: messages of a snapshot of the stored session. They are changed.
            message: user message, a text or parts.

        Returns:
            The new turn, and the calls of an earlier run that the message has cancelled.

        Raises:
            PendingToolsError: calls wait or have been decided.
            UsageError: the message is empty or contains values that are not parts.
        """
        require_flow(flow)
        require_type("messages", messages, Messages, "the Messages of a session")
        content = _to_content(message)
        require_message(messages, content, flow.interrupted())
        return content.turns[0], append_message(messages, content)

    def background(self, flow: AgentFlow[PauseT], /) -> BackgroundAgents[PauseT]:
        """Return the agents of a flow that work in the background, to run, list and cancel them.

        Args:
            flow: a flow whose `delegation()` has a store for background agents.

        Raises:
            UsageError: the flow has no background agents.
        """
        background = self._chats_of(flow).background
        if background is None:
            msg = f"the flow {flow.name!r} has no background agents: return Delegation(…, background=store)"
            raise UsageError(msg)
        return background

    def _run_settings(self, flow: AgentFlow[PauseT], sources: Sequence[ToolScope[PauseT]]) -> RunSettings[PauseT]:
        def find(name: str) -> RunSettings[PauseT]:
            return self._run_settings(self._find_flow(flow, name), sources)

        chats = self._chats_of(flow)
        chat = chats.without_instructions
        if sources:
            builder = chats.builder
            names = [name for scope in chat.tools.scopes for name in scope.names()]
            for scope in drop_duplicate_tools(sources, names):
                builder = builder.with_scoped_tools(scope)
            chat = builder.build()
        return RunSettings(flow, chat, self._config, self._limit, find)

    def _find_flow(self, flow: AgentFlow[PauseT], name: str) -> AgentFlow[PauseT]:
        """Return the flow named `name` to which `flow` can hand over, directly or through other flows.

        Raises:
            UsageError: there is no such flow.
        """
        found = [flow]
        for candidate in found:
            if candidate.name == name:
                return candidate
            known = {item.name for item in found}
            found += [item for item in self._chats_of(candidate).next_flows if item.name not in known]
        msg = (
            f"the session was handed over to the flow {name!r}, but {flow.name!r} has no Handoff that leads to it: "
            f"run {name!r}, or add the Handoff"
        )
        raise UsageError(msg)

    def _chats_of(self, flow: AgentFlow[PauseT]) -> _FlowChats[PauseT]:
        require_flow(flow)
        return cast("_FlowChats[PauseT]", self._find_chats(_FlowKey(cast("AgentFlow[Paused]", flow))))

    def _build_chats(self, key: _FlowKey) -> _FlowChats[Paused]:
        flow = key.flow
        steps = self._config.max_tool_rounds + _SPARE_STEPS
        builder = self._new_builder(flow, self._model, self._limit).with_max_steps(steps)
        memory, scope_of = self._config.memory, self._config.memory_scope
        if memory is not None and scope_of is not None:
            builder = builder.with_memory(memory, scope=scope_of)
        scopes, delegation = flow.scopes(), flow.delegation()
        tools = "a list of tool scopes, such as [ScopedCollection(tools, policy)]"
        require_items(f"the result of scopes() of {flow.name!r}", scopes, ToolScope, tools)
        if delegation is not None:
            require_type(f"the result of delegation() of {flow.name!r}", delegation, Delegation, "a Delegation or None")
        for scope in scopes:
            builder = builder.with_scoped_tools(scope)
        background = None
        if delegation is not None:
            builder = builder.with_max_kept_data(MAX_KEPT_RESULT)
            own = [scope for scope in scopes if not isinstance(scope, Handoff)]
            agents = delegate_tools(flow.name, delegation, own, partial(self._new_agent_builder, flow))
            for scope in agents.scopes:
                builder = builder.with_scoped_tools(scope)
            if delegation.background is not None:
                background = BackgroundAgents(flow.name, delegation, delegation.background, agents.chats)
        with_instructions = builder.with_instructions(flow.instructions).build()
        next_flows = [scope.flow for scope in scopes if isinstance(scope, Handoff)]
        return _FlowChats(builder, builder.build(), with_instructions, background, next_flows)

    def _new_agent_builder(
        self, flow: AgentFlow[PauseT], model: ChatProvider | None, limits: DelegationLimits
    ) -> ReadyChatBuilder[ChatProvider, ChatResponse, PauseT]:
        # The limits of the delegation end the run, not the number of steps.
        return self._new_builder(flow, model or self._model, limits).with_max_steps(_MANY_STEPS)

    def _new_builder(
        self, flow: AgentFlow[PauseT], model: ChatProvider, middleware: Middleware
    ) -> ReadyChatBuilder[ChatProvider, ChatResponse, PauseT]:
        config = self._config
        base = (
            ChatBuilder()
            .with_model(model)
            .with_options(config.options)
            .with_retry(config.retry)
            .with_middleware(middleware)
        )
        if config.context is not None:
            base = base.with_context(config.context)
        if config.tool_timeout is not None:
            base = base.with_tool_timeout(config.tool_timeout)
        if config.max_result_bytes is not None:
            base = base.with_max_result_bytes(config.max_result_bytes)
        for observer in config.observers:
            base = base.with_observer(observer)
        return base.with_interrupted(flow.interrupted())


def _to_content(message: str | Sequence[Part | str]) -> Content:
    """Convert a user message to a `Content`.

    Raises:
        UsageError: the message is empty, is not a text or a sequence of texts and parts, or contains an invalid part.
    """
    given = cast("object", message)
    if not isinstance(given, (str, Sequence)):
        msg = f"the message must be a string or a list of strings and parts, not {given!r}"
        raise UsageError(msg)
    content = Content.of("user", *((message,) if isinstance(message, str) else message))
    turn = content.turns[0]
    if fault := find_turn_fault(turn):
        msg = f"the message is not valid: {fault.where}{fault.message}"
        raise UsageError(msg)
    if all(isinstance(part, Text) and not part.text.strip() for part in turn.parts):
        msg = "the message is empty: pass a string, or None to continue without a message"
        raise UsageError(msg)
    return content
