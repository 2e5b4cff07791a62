"""A chat library for any provider and any transport, whose types reject invalid configurations.

Start with `ChatBuilder` and `Messages`. Transports are in `chat_core.transport`, and fakes for tests are in
`chat_core.testing`.

Each name is imported on first use, so that a program that only reads stored conversations does not load the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chat_core.approvals import (
        ApprovalChoice,
        ApprovalKeys,
        ApprovalRefusedError,
        BoundApproval,
        DryRun,
        DryRunCall,
        dry_run,
    )
    from chat_core.ask import ask
    from chat_core.batches import Batch, BatchItem, BatchOutcome, BatchProvider, BatchRequest, BatchState, BatchStatus
    from chat_core.builder import ChatBuilder, EmbeddingsBuilder, ReadyChatBuilder
    from chat_core.chat import AnyChat, Chat, EmbeddingsChat, StreamingChat
    from chat_core.context import ContextChoice, ContextPolicy, ContextSize, Summarize, Summarized, Window
    from chat_core.conversation import Conversation
    from chat_core.engine.plan import AfterHook, Hook, InstructionFunction
    from chat_core.engine.retry import Retry, RetryAttempt, RetryStrategy
    from chat_core.engine.stream import ChatStream
    from chat_core.engine.subchat import ChatTool
    from chat_core.engine.subchat_report import InnerChat, InnerFailure, InnerHalt, InnerPause, InnerUsage
    from chat_core.errors import (
        AuthenticationError,
        BatchCancelledError,
        BatchExpiredError,
        BatchInDoubtError,
        ChatError,
        ConflictError,
        ContentFilteredError,
        ContextLengthError,
        ConversationBusyError,
        IllegalTransitionError,
        InterruptedToolsError,
        InvalidDocumentError,
        InvalidRequestError,
        InvalidResponseError,
        LeaseLostError,
        MaxStepsExceededError,
        NetworkError,
        NewerVersionError,
        NotFoundError,
        OverloadedError,
        PendingToolsError,
        PermissionDeniedError,
        PolicyError,
        ProviderError,
        QuotaExceededError,
        RateLimitedError,
        RefusalError,
        RequestTimeoutError,
        ServerError,
        StreamTruncatedError,
        ToolMissingError,
        TransportError,
        UnsupportedOptionError,
        UnsupportedPartError,
        UsageError,
    )
    from chat_core.events import (
        AttemptReset,
        Compacted,
        Compacting,
        Done,
        FilePart,
        NestedEvent,
        ProgressEvent,
        ReasoningDelta,
        StepFinished,
        StreamEvent,
        StructuredDelta,
        StructuredPart,
        TextDelta,
        ToolCall,
        ToolCallDelta,
        ToolData,
        ToolProgress,
        ToolResult,
        ToolStarted,
        event_schema,
    )
    from chat_core.live_input import LiveInput
    from chat_core.messages import (
        Approved,
        Completed,
        Content,
        Data,
        Decision,
        Embedding,
        Failed,
        File,
        FinishReason,
        FunctionCall,
        Interrupted,
        Messages,
        Opaque,
        Part,
        Pending,
        ProviderPart,
        Reasoning,
        Recalled,
        RecalledNote,
        Rejected,
        Rewind,
        Role,
        Running,
        Structured,
        Summary,
        Suspended,
        Text,
        Tool,
        ToolStatus,
        Turn,
        View,
    )
    from chat_core.messages.function_call import CallContext
    from chat_core.middleware import Middleware, OpenStream, ProviderRequest, Send, TurnStream
    from chat_core.models import UnknownModelError, embedder, model
    from chat_core.options import ChatOptions, Instructions, NamedTool, ProviderOptions, ReasoningEffort, ToolChoice
    from chat_core.output import OutputSpec, StructuredOutput, TextOutput
    from chat_core.provider import (
        Abilities,
        Attempt,
        AttemptAware,
        ChatProvider,
        CompletionProvider,
        Delta,
        EmbeddingsProvider,
        EmbeddingsResponse,
        OutputSchema,
        ProviderMeta,
        ProviderStream,
        StreamProvider,
        TokenCount,
        TokenCounter,
        ToolDeclaration,
        ToolDeclarations,
    )
    from chat_core.recall import RecallSource
    from chat_core.response import ChatResponse, Delivery, Paused, PauseReason, StructuredResponse, Wait, WaitKind
    from chat_core.run_context import Injected, RunContext, ValueFactory, Values
    from chat_core.tools.action import Action, Defer, Execute, Reject, RequireApproval, Schedule, Strategy, Withhold
    from chat_core.tools.client_tools import ClientTools
    from chat_core.tools.collection import Handler, ToolCollection
    from chat_core.tools.context import ToolContext
    from chat_core.tools.definition import InvalidArgumentsError, ToolDefinition, ToolScope
    from chat_core.tools.result import ToolOutput
    from chat_core.tools.scope import ScopedCollection
    from chat_core.usage import Metadata, Usage

__all__ = [
    "Abilities",
    "Action",
    "AfterHook",
    "AnyChat",
    "ApprovalChoice",
    "ApprovalKeys",
    "ApprovalRefusedError",
    "Approved",
    "Attempt",
    "AttemptAware",
    "AttemptReset",
    "AuthenticationError",
    "Batch",
    "BatchCancelledError",
    "BatchExpiredError",
    "BatchInDoubtError",
    "BatchItem",
    "BatchOutcome",
    "BatchProvider",
    "BatchRequest",
    "BatchState",
    "BatchStatus",
    "BoundApproval",
    "CallContext",
    "Chat",
    "ChatBuilder",
    "ChatError",
    "ChatOptions",
    "ChatProvider",
    "ChatResponse",
    "ChatStream",
    "ChatTool",
    "ClientTools",
    "Compacted",
    "Compacting",
    "Completed",
    "CompletionProvider",
    "ConflictError",
    "Content",
    "ContentFilteredError",
    "ContextChoice",
    "ContextLengthError",
    "ContextPolicy",
    "ContextSize",
    "Conversation",
    "ConversationBusyError",
    "Data",
    "Decision",
    "Defer",
    "Delivery",
    "Delta",
    "Done",
    "DryRun",
    "DryRunCall",
    "Embedding",
    "EmbeddingsBuilder",
    "EmbeddingsChat",
    "EmbeddingsProvider",
    "EmbeddingsResponse",
    "Execute",
    "Failed",
    "File",
    "FilePart",
    "FinishReason",
    "FunctionCall",
    "Handler",
    "Hook",
    "IllegalTransitionError",
    "Injected",
    "InnerChat",
    "InnerFailure",
    "InnerHalt",
    "InnerPause",
    "InnerUsage",
    "InstructionFunction",
    "Instructions",
    "Interrupted",
    "InterruptedToolsError",
    "InvalidArgumentsError",
    "InvalidDocumentError",
    "InvalidRequestError",
    "InvalidResponseError",
    "LeaseLostError",
    "LiveInput",
    "MaxStepsExceededError",
    "Messages",
    "Metadata",
    "Middleware",
    "NamedTool",
    "NestedEvent",
    "NetworkError",
    "NewerVersionError",
    "NotFoundError",
    "Opaque",
    "OpenStream",
    "OutputSchema",
    "OutputSpec",
    "OverloadedError",
    "Part",
    "PauseReason",
    "Paused",
    "Pending",
    "PendingToolsError",
    "PermissionDeniedError",
    "PolicyError",
    "ProgressEvent",
    "ProviderError",
    "ProviderMeta",
    "ProviderOptions",
    "ProviderPart",
    "ProviderRequest",
    "ProviderStream",
    "QuotaExceededError",
    "RateLimitedError",
    "ReadyChatBuilder",
    "Reasoning",
    "ReasoningDelta",
    "ReasoningEffort",
    "RecallSource",
    "Recalled",
    "RecalledNote",
    "RefusalError",
    "Reject",
    "Rejected",
    "RequestTimeoutError",
    "RequireApproval",
    "Retry",
    "RetryAttempt",
    "RetryStrategy",
    "Rewind",
    "Role",
    "RunContext",
    "Running",
    "Schedule",
    "ScopedCollection",
    "Send",
    "ServerError",
    "StepFinished",
    "Strategy",
    "StreamEvent",
    "StreamProvider",
    "StreamTruncatedError",
    "StreamingChat",
    "Structured",
    "StructuredDelta",
    "StructuredOutput",
    "StructuredPart",
    "StructuredResponse",
    "Summarize",
    "Summarized",
    "Summary",
    "Suspended",
    "Text",
    "TextDelta",
    "TextOutput",
    "TokenCount",
    "TokenCounter",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolChoice",
    "ToolCollection",
    "ToolContext",
    "ToolData",
    "ToolDeclaration",
    "ToolDeclarations",
    "ToolDefinition",
    "ToolMissingError",
    "ToolOutput",
    "ToolProgress",
    "ToolResult",
    "ToolScope",
    "ToolStarted",
    "ToolStatus",
    "TransportError",
    "Turn",
    "TurnStream",
    "UnknownModelError",
    "UnsupportedOptionError",
    "UnsupportedPartError",
    "Usage",
    "UsageError",
    "ValueFactory",
    "Values",
    "View",
    "Wait",
    "WaitKind",
    "Window",
    "Withhold",
    "ask",
    "dry_run",
    "embedder",
    "event_schema",
    "model",
]

_HOMES = {
    "approvals": "ApprovalChoice ApprovalKeys ApprovalRefusedError BoundApproval DryRun DryRunCall dry_run",
    "ask": "ask",
    "batches": "Batch BatchItem BatchOutcome BatchProvider BatchRequest BatchState BatchStatus",
    "builder": "ChatBuilder EmbeddingsBuilder ReadyChatBuilder",
    "chat": "AnyChat Chat EmbeddingsChat StreamingChat",
    "conversation": "Conversation",
    "engine.subchat": "ChatTool",
    "engine.subchat_report": "InnerChat InnerFailure InnerHalt InnerPause InnerUsage",
    "engine.plan": "AfterHook Hook InstructionFunction",
    "engine.retry": "Retry RetryAttempt RetryStrategy",
    "engine.stream": "ChatStream",
    "errors": (
        "AuthenticationError BatchCancelledError BatchExpiredError BatchInDoubtError ChatError ConflictError "
        "ContentFilteredError ContextLengthError ConversationBusyError IllegalTransitionError "
        "InterruptedToolsError InvalidDocumentError InvalidRequestError InvalidResponseError LeaseLostError "
        "MaxStepsExceededError NetworkError NewerVersionError NotFoundError OverloadedError PendingToolsError "
        "PermissionDeniedError PolicyError ProviderError QuotaExceededError RateLimitedError RefusalError "
        "RequestTimeoutError ServerError StreamTruncatedError ToolMissingError TransportError "
        "UnsupportedOptionError UnsupportedPartError UsageError"
    ),
    "events": (
        "AttemptReset Compacted Compacting Done FilePart NestedEvent ProgressEvent ReasoningDelta StepFinished "
        "StreamEvent StructuredDelta StructuredPart TextDelta ToolCall ToolCallDelta ToolData ToolProgress ToolResult "
        "ToolStarted event_schema"
    ),
    "context": "ContextChoice ContextPolicy ContextSize Summarize Summarized Window",
    "live_input": "LiveInput",
    "messages": (
        "Approved Completed Content Data Decision Embedding Failed File FinishReason FunctionCall Messages Opaque "
        "Part Pending ProviderPart Reasoning Rejected Role Running Structured Suspended Text Tool ToolStatus "
        "Turn Interrupted Recalled RecalledNote Rewind Summary View"
    ),
    "messages.function_call": "CallContext",
    "middleware": "Middleware OpenStream ProviderRequest Send TurnStream",
    "models": "UnknownModelError embedder model",
    "options": "ChatOptions Instructions NamedTool ProviderOptions ReasoningEffort ToolChoice",
    "output": "OutputSpec StructuredOutput TextOutput",
    "provider": (
        "Abilities Attempt AttemptAware ChatProvider CompletionProvider Delta EmbeddingsProvider EmbeddingsResponse "
        "OutputSchema ProviderMeta ProviderStream StreamProvider TokenCount TokenCounter ToolDeclaration "
        "ToolDeclarations"
    ),
    "recall": "RecallSource",
    "response": "ChatResponse Delivery PauseReason Paused StructuredResponse Wait WaitKind",
    "run_context": "Injected RunContext ValueFactory Values",
    "tools.action": "Action Defer Execute Reject RequireApproval Schedule Strategy Withhold",
    "tools.client_tools": "ClientTools",
    "tools.collection": "Handler ToolCollection",
    "tools.context": "ToolContext",
    "tools.definition": "InvalidArgumentsError ToolDefinition ToolScope",
    "tools.result": "ToolOutput",
    "tools.scope": "ScopedCollection",
    "usage": "Metadata Usage",
}
"""Map from each submodule to the public names that it defines, separated by spaces."""


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names.split():
            value: object = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
