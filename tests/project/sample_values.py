"""Valid values for the parameters of public functions, made from their annotations."""

from __future__ import annotations

import collections.abc
import enum
import inspect
import types
import typing
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, cast

import chat_core
import typing_extensions
from chat_agents import AgentEngine, AgentFlow, BackgroundAgents, Delegation, Handoff, PromptFlow, SubAgent
from chat_batches import Batches
from chat_claude import ClaudeBuilder, ClaudeProvider
from chat_completions import (
    GROQ,
    MISTRAL,
    TOGETHER,
    ChatVendorBuilder,
    CompletionsBuilder,
    CompletionsProvider,
    Endpoint,
    FixedVendorBuilder,
    HuggingFaceBuilder,
    OllamaBuilder,
    ReadyChatVendorBuilder,
    ReadyFixedVendorBuilder,
    ReadyHuggingFaceBuilder,
    ReadyOllamaBuilder,
    ReadySizedVendorBuilder,
    SizedVendorBuilder,
    vendor_builder,
)
from chat_core.approvals import ApprovalKeys, owner_may_decide
from chat_core.batches import BatchProvider
from chat_core.engine.subchat_report import InnerChat
from chat_core.testing import MockTransport, ScriptedProvider
from chat_core.tools import FunctionTool, ToolOptions, declare, execute_all
from chat_core.transport import Event, EventStream, Headers, Transport
from chat_dbos import DurableChats
from chat_gemini import GeminiBuilder, GeminiProvider
from chat_inbox import Inbox
from chat_openai import (
    AllOf,
    AnyOf,
    ApprovalFor,
    AzureBuilder,
    AzureEndpointBuilder,
    ClientToolSearch,
    CodeInterpreter,
    McpTools,
    NativeTool,
    OpenAIBuilder,
    OpenAICompletionsBuilder,
    OpenAICompletionsProvider,
    OpenAIEmbeddings,
    OpenAIEmbeddingsBuilder,
    OpenAIProvider,
    OpenAIResponsesBuilder,
    OpenRouterBuilder,
    OpenRouterCompletionsBuilder,
    OpenRouterProvider,
    ReadyAzureBuilder,
    ReadyAzureCompletionsBuilder,
    ReadyAzureResponsesBuilder,
    ReadyOpenAIBuilder,
    ReadyOpenAICompletionsBuilder,
    ReadyOpenAIResponsesBuilder,
    ReadyOpenRouterBuilder,
    ReadyOpenRouterCompletionsBuilder,
    RemoteMcp,
    Where,
)
from chat_pipeline import AgentRuntime, Pipelines, Schedule, WorkflowFolder
from chat_realtime import TalkInput, converse
from chat_realtime.sessions import GeminiLive, OpenAIRealtime, RealtimeModel, RealtimeSession, connect
from chat_responses import ResponsesBuilder, ResponsesProvider
from chat_router import Budget, ChatEmbeddingsRouter, Price, Router
from chat_service import Service
from chat_store import ConversationStore, MemoryStore
from chat_vertex import MetadataServer, TokenSource, VertexKeyBuilder

MISSING: Final = object()
"""Stands for a value that cannot be made."""

_DEEPEST = 6
_URL = "http://server.invalid"


def _ignore(*_: object, **__: object) -> None: ...


def _provider() -> ScriptedProvider:
    return ScriptedProvider(["text"] * 9)


def _chat_builder() -> chat_core.ReadyChatBuilder[Any]:
    return chat_core.ChatBuilder().with_model(_provider())


def _azure() -> AzureEndpointBuilder:
    return AzureBuilder().with_endpoint("https://account.openai.azure.com").with_api_key("key")


def _openai() -> ReadyOpenAIBuilder:
    return OpenAIBuilder().with_api_key("key").with_model("model")


def _openrouter() -> ReadyOpenRouterBuilder:
    return OpenRouterBuilder().with_api_key("key").with_model("model")


def _claude() -> ClaudeProvider:
    builder = ClaudeBuilder().with_api_key("key").with_transport(MockTransport())
    return builder.with_model("model").with_max_tokens(5).build()


def _batches() -> Batches:
    return Batches(chat_core.ChatBuilder().with_model(model := _claude()).build(), model)


def _background_agents() -> BackgroundAgents[Any]:
    agents = [SubAgent(name="agent", description="text", instructions="text")]
    flow = PromptFlow("flow", "text", (), delegation=Delegation(agents=agents, background=MemoryStore()))
    return AgentEngine(_provider()).background(flow)


async def _no_events() -> AsyncIterator[Sequence[Event]]:
    for _ in ():
        yield _


def _echo(text: str) -> str:
    return text


async def _refuse(_: object) -> None:
    return None


KNOWN: Final[Mapping[Any, Callable[[], object]]] = {
    str: lambda: "text",
    int: lambda: 1,
    float: lambda: 1.0,
    bool: lambda: True,
    bytes: lambda: b"{}",
    object: lambda: "text",
    Any: lambda: "text",
    type: lambda: str,
    datetime: lambda: datetime.now(UTC),
    timedelta: lambda: timedelta(seconds=1),
    Path: lambda: Path("file"),
    cast("object", collections.abc.Callable): lambda: _ignore,
    chat_core.CompletionProvider: _provider,
    chat_core.StreamProvider: _provider,
    chat_core.ChatProvider: _provider,
    chat_core.EmbeddingsProvider: _provider,
    Transport: MockTransport,
    chat_core.Action: chat_core.Execute,
    chat_core.Withhold: chat_core.RequireApproval,
    chat_core.ToolScope: lambda: chat_core.ScopedCollection(chat_core.ToolCollection(), execute_all),
    chat_core.ApprovalKeys: lambda: ApprovalKeys("key", {"key": b"k" * 32}, may_decide=owner_may_decide),
    chat_core.StructuredOutput: lambda: chat_core.StructuredOutput(int),
    chat_core.Chat: lambda: _chat_builder().build(),
    chat_core.StreamingChat: lambda: _chat_builder().build(),
    chat_core.ReadyChatBuilder: _chat_builder,
    AgentFlow: lambda: PromptFlow("flow", "text"),
    Handoff: lambda: Handoff(PromptFlow("flow", "text"), "text"),
    BackgroundAgents: _background_agents,
    BatchProvider: _claude,
    Batches: _batches,
    ConversationStore: MemoryStore,
    FunctionTool: lambda: declare(_echo, ToolOptions(name="tool")),
    InnerChat: lambda: _chat_builder().build().as_tool(name="tool", description="text").definitions()[0],
    EventStream: lambda: EventStream(200, Headers(), _no_events()),
    DurableChats: lambda: DurableChats(MemoryStore(), {}, name="sample chats"),
    Pipelines: lambda: Pipelines(name="sample workflows"),
    WorkflowFolder: lambda: WorkflowFolder(Pipelines(name="sample workflows"), Path()),
    AgentRuntime: lambda: AgentRuntime(MemoryStore(), {}),
    Schedule: lambda: Schedule("30 7 * * 1-5"),
    Inbox: lambda: Inbox(MemoryStore(), authenticate=_refuse, may_decide=owner_may_decide),
    Service: lambda: Service(
        AgentEngine(_provider()),
        PromptFlow("flow", "text"),
        MemoryStore(),
        authenticate=_refuse,
        may_decide=owner_may_decide,
    ),
    TalkInput: lambda: converse(_chat_builder().build(), chat_core.Messages()).split()[0],
    RealtimeModel: lambda: OpenAIRealtime("model", api_key="key"),
    RealtimeSession: lambda: connect(
        OpenAIRealtime("model", api_key="key"), _chat_builder().build(), chat_core.Messages()
    ),
    ChatEmbeddingsRouter: lambda: Router([_provider()]),
    chat_core.ChatStream: lambda: _chat_builder().build().stream(chat_core.Messages.from_user("text")),
    NativeTool: CodeInterpreter,
    AllOf: lambda: AllOf(Where("key", "eq", "text")),
    AnyOf: lambda: AnyOf(Where("key", "eq", "text")),
    McpTools: lambda: McpTools(read_only=True),
    ApprovalFor: lambda: ApprovalFor(always=McpTools(read_only=True)),
    RemoteMcp: lambda: RemoteMcp(server_label="label", server_url=_URL),
    ClientToolSearch: lambda: ClientToolSearch(parameters={"type": "object"}),
    ChatVendorBuilder: lambda: vendor_builder(GROQ),
    FixedVendorBuilder: lambda: vendor_builder(MISTRAL),
    SizedVendorBuilder: lambda: vendor_builder(TOGETHER),
    ReadyChatVendorBuilder: lambda: vendor_builder(GROQ).with_model("model"),
    ReadyFixedVendorBuilder: lambda: vendor_builder(MISTRAL).with_model("model"),
    ReadySizedVendorBuilder: lambda: vendor_builder(TOGETHER).with_model("model"),
    ReadyHuggingFaceBuilder: lambda: HuggingFaceBuilder().with_model("model"),
    ReadyOllamaBuilder: lambda: OllamaBuilder().with_model("model"),
    AzureEndpointBuilder: _azure,
    ReadyAzureBuilder: lambda: _azure().with_model("model"),
    ReadyAzureCompletionsBuilder: lambda: _azure().with_model("model").with_completions(),
    ReadyAzureResponsesBuilder: lambda: _azure().with_model("model").with_store(),
    OpenAICompletionsBuilder: lambda: OpenAIBuilder().with_completions(),
    OpenAIEmbeddingsBuilder: lambda: OpenAIBuilder().with_embeddings(model="model"),
    OpenAIResponsesBuilder: lambda: OpenAIBuilder().with_store(),
    OpenRouterCompletionsBuilder: lambda: OpenRouterBuilder().with_completions(),
    ReadyOpenAIBuilder: _openai,
    ReadyOpenAICompletionsBuilder: lambda: _openai().with_completions(),
    ReadyOpenAIResponsesBuilder: lambda: _openai().with_store(),
    ReadyOpenRouterBuilder: _openrouter,
    ReadyOpenRouterCompletionsBuilder: lambda: _openrouter().with_completions(),
    Endpoint: lambda: Endpoint(_URL, {}),
    GeminiLive: lambda: GeminiLive("model", api_key="key"),
    OpenAIRealtime: lambda: OpenAIRealtime("model", api_key="key"),
    Price: lambda: Price(input=1, output=1),
    Budget: lambda: Budget(session=Decimal(1)),
    TokenSource: lambda: TokenSource(MetadataServer(), MockTransport()),
    VertexKeyBuilder: lambda: VertexKeyBuilder("key"),
    ClaudeProvider: _claude,
    OpenAIProvider: lambda: _openai().build(),
    OpenRouterProvider: lambda: _openrouter().build(),
    OpenAICompletionsProvider: lambda: _openai().with_completions().build(),
    OpenAIEmbeddings: lambda: OpenAIBuilder().with_embeddings(model="model").with_api_key("key").build(),
    GeminiProvider: lambda: GeminiBuilder().with_api_key("key").with_model("model").build(),
    ResponsesProvider: lambda: ResponsesBuilder().with_base_url(_URL).with_model("model").build(),
    CompletionsProvider: lambda: CompletionsBuilder().with_base_url(_URL).with_model("model").build(),
}
"""Makes a value of a type whose constructor alone does not make a useful one."""

_hints: dict[Any, Mapping[str, Any]] = {}


def parameters_of(call: Callable[..., object], *, bound: bool) -> list[inspect.Parameter]:
    """Return the parameters of a function or a class.

    Args:
        call: the function or class.
        bound: whether to leave out the first parameter, `self`.
    """
    try:
        return [*inspect.signature(call).parameters.values()][bound:]
    except ValueError:  # a class without a signature
        return []


def hints_of(call: Callable[..., object]) -> Mapping[str, Any]:
    """Return the types of the parameters of a function or a class, by name."""
    if call not in _hints:
        function = inspect.unwrap(getattr(call, "__func__", call))
        source = cast("Any", function).__init__ if inspect.isclass(function) else function
        try:
            _hints[call] = typing.get_type_hints(source)
        except (NameError, TypeError):  # a name that is imported for type checkers only
            _hints[call] = {}
    return _hints[call]


def is_optional(parameter: inspect.Parameter) -> bool:
    """Return whether a call may omit a parameter."""
    return parameter.default is not parameter.empty or parameter.kind in {
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    }


def is_constructible(kind: type) -> bool:
    """Return whether a class of this workspace has instances that are no error, member of an enum or protocol."""
    return (
        kind.__module__.startswith("chat_")
        and not issubclass(kind, (BaseException, enum.Enum))
        and not getattr(cast("object", kind), "_is_protocol", False)
    )


def sample(kind: Any, depth: int = 0) -> object:
    """Return a value of a type, or `MISSING`.

    Args:
        kind: the type, as in an annotation.
        depth: number of types whose fields this value is a part of.
    """
    origin, items = typing.get_origin(kind), typing.get_args(kind)
    found: object = MISSING
    if depth > _DEEPEST:
        pass
    elif kind is None or kind is types.NoneType:
        found = None
    elif isinstance(kind, typing_extensions.TypeAliasType):
        found = sample(kind.__value__, depth)
    elif isinstance(kind, (typing.TypeVar, typing_extensions.TypeVar)):
        found = sample(kind.__bound__ or (*kind.__constraints__, str)[0], depth)
    elif origin in {typing.Annotated, typing.Final, typing.ClassVar}:
        found = sample(items[0], depth)
    elif origin in {typing.Literal, typing_extensions.Literal}:
        found = items[0]
    elif origin in {typing.Union, types.UnionType}:
        values = (sample(item, depth + 1) for item in items)
        found = next((value for value in values if value is not MISSING), MISSING)
    elif inspect.isclass(origin or kind) or (origin or kind) in KNOWN:
        found = _sample_of_class(origin or kind, items, depth)
    return found


def _sample_of_class(base: Any, items: tuple[Any, ...], depth: int) -> object:
    if base in KNOWN or is_constructible(base):
        return construct(base, depth + 1)
    if issubclass(base, enum.Enum):
        return next(iter(base))
    if getattr(base, "_is_protocol", False):
        return MISSING
    if issubclass(base, (collections.abc.Mapping, collections.abc.Set)):
        return dict[str, object]() if issubclass(base, collections.abc.Mapping) else frozenset[str]()
    if base in {list, tuple} or issubclass(list, base):
        item = sample(items[0], depth + 1) if items else "text"
        values = [] if item is MISSING else [item]
        return tuple(values) if base is tuple else values
    return MISSING


def construct(kind: Any, depth: int = 0) -> object:
    """Return an instance of a class, made with the required arguments, or `MISSING`.

    Args:
        kind: the class.
        depth: as for `sample()`.
    """
    if inspect.isabstract(kind) and kind not in KNOWN:
        return MISSING
    try:
        if kind in KNOWN:
            known: object = KNOWN[kind]()
            return known
        required = {
            parameter: sample(hints_of(kind).get(parameter.name, object), depth)
            for parameter in parameters_of(kind, bound=False)
            if not is_optional(parameter)
        }
        if MISSING in required.values():
            return MISSING
        named = {
            parameter.name: value
            for parameter, value in required.items()
            if parameter.kind is not parameter.POSITIONAL_ONLY
        }
        return kind(*[value for parameter, value in required.items() if parameter.name not in named], **named)
    except Exception:  # noqa: BLE001 - values that fit the annotations and not each other
        return MISSING
