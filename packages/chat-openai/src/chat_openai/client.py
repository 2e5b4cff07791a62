"""Providers that add the options configured in their builder to every request of a wrapped provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import fields, replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, final
from urllib.parse import quote

from chat_completions import CompletionsOptions, CompletionsProvider
from chat_core.arguments import require_type
from chat_core.batches import Batch, BatchItem, BatchRequest, BatchStatus, add_cursor, require_batch
from chat_core.errors import UnsupportedOptionError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions, ProviderOptions
from chat_core.provider import (
    NO_TOOLS,
    Abilities,
    Attempt,
    EmbeddingsResponse,
    OutputSchema,
    ProviderMeta,
    ProviderStream,
    ToolDeclarations,
)
from chat_core.transport.values import Request
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.shapes import is_mapping, parse_id
from chat_responses import BackgroundResponse, ResponsesOptions, ResponsesProvider

from chat_openai.batches import (
    PAGE_SIZE,
    decode_files,
    decode_item,
    decode_list,
    decode_status,
    encode_batch,
    encode_lines,
    encode_upload,
)

Extras: TypeAlias = ResponsesOptions | CompletionsOptions


WireT = TypeVar("WireT", bound=ResponsesProvider | CompletionsProvider)


class _WrappedProvider(Generic[WireT]):
    """Base class for this package's providers, which forward requests to a wrapped provider."""

    __slots__ = ("_wire",)

    def __init__(self, wire: WireT) -> None:
        self._wire = wire

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._wire!r})"

    @property
    def metadata(self) -> ProviderMeta:
        """The provider's name, model, description and limits."""
        return self._wire.metadata

    @property
    def endpoint(self) -> Endpoint:
        """The base URL and headers of every request."""
        return self._wire.endpoint

    def with_metadata(self, *, abilities: Abilities | None = None, data: Mapping[str, object] | None = None) -> Self:
        """Return a copy of this provider with other metadata.

        Both providers share one transport, so close only one of them.

        Args:
            abilities: abilities of the model. Default: unchanged.
            data: application data for `ProviderMeta.data`. Default: unchanged.
        """
        return self._with_wire(self._wire.with_metadata(abilities=abilities, data=data))

    def with_provider_name(self, name: str) -> Self:
        """Return a copy of this provider with another name, such as one that includes an account: `"openai-eu"`.

        Encrypted reasoning and ids of stored responses in a conversation belong to the provider with this name, and are
        not sent to other providers. Both providers share one transport, so close only one of them.

        Args:
            name: the new name, also used in errors and metadata.

        Raises:
            UsageError: `name` is empty.
        """
        return self._with_wire(self._wire.with_provider_name(name))

    def _with_wire(self, wire: object) -> Self:
        clone = copy(self)
        object.__setattr__(clone, "_wire", wire)
        return clone

    async def aclose(self) -> None:
        """Close the transport if this provider created it. Repeated calls have no effect."""
        await self._wire.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _ChatProvider(_WrappedProvider[WireT]):
    """Base class for the chat providers."""

    __slots__ = ("_extras",)

    def __init__(self, wire: WireT, extras: Extras | None = None) -> None:
        """Wrap `wire` and merge `extras` into the options of every request, whose own values take precedence."""
        super().__init__(wire)
        self._extras = extras

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Implement `CompletionProvider.complete`: send one request and return the model's turn with pending tools.

        Raises:
            ChatError: the request failed. The error contains the usage that the server reported, if any.
        """
        return await self._wire.complete(messages, tools, self._with_extras(options), structured_output)

    def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Implement `StreamProvider.stream`: send one request and stream its response.

        Exiting the context manager closes the connection, even before the end of the stream.

        Raises:
            ChatError: on entry, if the request is rejected.
        """
        return self._wire.stream(messages, tools, self._with_extras(options), structured_output)

    def _with_extras(self, options: ChatOptions) -> ChatOptions:
        require_type("options", options, ChatOptions, "ChatOptions, such as ChatOptions()")
        extras = self._extras
        return options if extras is None else replace(options, extras=merge_extras(options.extras, extras))


class _BatchingProvider(_ChatProvider[WireT]):
    """Base class for the chat providers with the Batch API of OpenAI."""

    __slots__ = ()

    BATCH_URL: ClassVar[str]

    def encode_batch_request(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> BatchRequest:
        """Implement `BatchProvider.encode_batch_request`.

        Raises:
            UsageError: the request cannot be encoded, or it asks for a background response.
        """
        merged = self._with_extras(options)
        if any(isinstance(extra, ResponsesOptions) and (extra.background or extra.resume) for extra in merged.extras):
            msg = "batches do not support background responses: remove `background` and `resume` from ResponsesOptions"
            raise UnsupportedOptionError(msg)
        return BatchRequest(self._wire.encode_request(messages, tools, merged, structured_output))

    async def submit_batch(self, requests: Sequence[BatchRequest], *, name: str) -> Batch:
        """Implement `BatchProvider.submit_batch`: upload the requests and create the batch.

        Raises:
            ChatError: the batch was rejected, or it is unknown whether the server has received it.
        """
        require_batch(requests, name)
        body, content_type = encode_upload(encode_lines(requests, name, self.BATCH_URL), name)
        upload = self.endpoint.request("/files", body, None, stream=False)
        headers = tuple([(key, content_type if key == "content-type" else value) for key, value in upload.headers])
        read = partial(parse_id, provider=self.metadata.name)
        file_id = await self._wire.fetch_decoded(replace(upload, headers=headers), read)
        request = self.endpoint.request("/batches", encode_batch(file_id, name, self.BATCH_URL), None, stream=False)
        return Batch(await self._wire.fetch_decoded(request, read), name)

    async def find_batch(
        self, requests: Sequence[BatchRequest], *, name: str, size: int, since: datetime
    ) -> Batch | None:
        """Implement `BatchProvider.find_batch`: search the list of batches for the name in the metadata.

        Raises:
            ChatError: the request failed.
        """
        del requests, size, since
        cursor: str | None = ""
        cursors: set[str] = set()
        while cursor is not None:
            after = f"&after={quote(cursor, safe='')}" if cursor else ""
            request = self._get(f"/batches?limit={PAGE_SIZE}{after}")
            batches, cursor = await self._wire.fetch_decoded(request, partial(decode_list, provider=self.metadata.name))
            for id_, found in batches:
                if found == name:
                    return Batch(id_, name)
            add_cursor(cursors, cursor, self.metadata.name)
        return None

    async def batch_status(self, batch: Batch) -> BatchStatus:
        """Implement `BatchProvider.batch_status`.

        Raises:
            ChatError: the request failed.
        """
        read = partial(decode_status, provider=self.metadata.name)
        return await self._wire.fetch_decoded(self._get(_batch_path(batch)), read)

    @asynccontextmanager
    async def batch_results(self, batch: Batch) -> AsyncGenerator[AsyncIterator[BatchItem], None]:
        """Implement `BatchProvider.batch_results`: stream the lines of the output file and of the error file.

        Raises:
            ChatError: the results cannot be read.
        """
        provider, wire = self.metadata.name, self._wire
        read = partial(decode_item, provider=provider, decode=wire.decode_response, response_error=wire.response_error)
        files = await wire.fetch_decoded(self._get(_batch_path(batch)), partial(decode_files, provider=provider))
        requests = [self._get(f"/files/{quote(id_, safe='')}/content", stream=True) for id_ in files]
        async with AsyncExitStack() as stack:
            yield _FileItems([partial(wire.open_lines, request, read) for request in requests], stack)

    async def cancel_batch(self, batch: Batch) -> None:
        """Implement `BatchProvider.cancel_batch`.

        Raises:
            ChatError: the request failed.
        """
        await self._wire.fetch(self.endpoint.request(f"{_batch_path(batch)}/cancel", b"", None, stream=False))

    def _get(self, path: str, *, stream: bool = False) -> Request:
        return self.endpoint.request(path, b"", None, stream=stream, framing="json-lines", method="GET")


def _batch_path(batch: Batch) -> str:
    require_type("batch", batch, Batch, "a Batch, such as BatchHandle.batch")
    return f"/batches/{quote(batch.id, safe='')}"


@final
class _FileItems:
    """Iterator over the lines of several files, which are opened one after the other.

    Args:
        files: functions that open the files.
        stack: the stack that closes the open file.
    """

    __slots__ = ("_files", "_items", "_stack")

    def __init__(
        self,
        files: Sequence[Callable[[], AbstractAsyncContextManager[AsyncIterator[BatchItem]]]],
        stack: AsyncExitStack,
    ) -> None:
        self._files = list(files)
        self._stack = stack
        self._items: AsyncIterator[BatchItem] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BatchItem:
        while True:
            if self._items is not None:
                async for item in self._items:
                    return item
                self._items = None
                await self._stack.aclose()
            if not self._files:
                raise StopAsyncIteration
            self._items = await self._stack.enter_async_context(self._files.pop(0)())


@final
class OpenAIProvider(_BatchingProvider[ResponsesProvider]):
    """Provider for a model on OpenAI or Azure OpenAI, using the Responses API.

    Instances are created by `OpenAIBuilder`, `AzureBuilder`, `openai()` or `azure()`. They are immutable and safe to
    share between tasks. Exiting the `async with` block closes the default transport. A transport that was passed to the
    builder stays open.
    """

    __slots__ = ()

    BATCH_URL: ClassVar[str] = "/v1/responses"

    async def count_tokens(
        self,
        messages: Messages,
        tools: ToolDeclarations = NO_TOOLS,
        options: ChatOptions = ChatOptions(),  # noqa: B008 - immutable
        structured_output: OutputSchema | None = None,
    ) -> int:
        """Return the number of input tokens that a request would use, without running the model.

        Args:
            messages: the conversation to send.
            tools: the tools of the request. The native tools of the builder are also counted.
            options: settings of the request, such as `temperature`.
            structured_output: the schema of the output, if the response is structured.

        Raises:
            ChatError: the server rejected the request or returned no count.
        """
        return await self._wire.count_tokens(messages, tools, self._with_extras(options), structured_output)

    async def cancel_response(self, response: BackgroundResponse | str) -> None:
        """Cancel a background response that the server has not finished.

        Args:
            response: the response, or its id.

        Raises:
            ChatError: the request failed.
        """
        await self._wire.cancel_response(response)

    def with_attempt(self, attempt: Attempt, /) -> Self:
        """Implement `AttemptAware.with_attempt`: wait for the background response that the last attempt has started."""
        return self._with_wire(self._wire.with_attempt(attempt))


@final
class OpenAICompletionsProvider(_BatchingProvider[CompletionsProvider]):
    """Provider for a model on OpenAI or Azure OpenAI, using the Chat Completions API.

    Instances are created by `OpenAIBuilder` or `AzureBuilder`. They are immutable and safe to share between tasks.
    Exiting the `async with` block closes the default transport. A transport that was passed to the builder stays open.
    """

    __slots__ = ()

    BATCH_URL: ClassVar[str] = "/v1/chat/completions"


@final
class OpenRouterProvider(_ChatProvider[ResponsesProvider | CompletionsProvider]):
    """Provider for a model on OpenRouter, using the Responses API or the Chat Completions API.

    Instances are created by `OpenRouterBuilder` or `openrouter()`. They are immutable and safe to share between tasks.
    Exiting the `async with` block closes the default transport. A transport that was passed to the builder stays open.
    """

    __slots__ = ()


@final
class OpenAIEmbeddings(_WrappedProvider[CompletionsProvider]):
    """Embeddings provider for OpenAI, Azure OpenAI or OpenRouter.

    Instances are built by the builder that `with_embeddings()` returns.
    """

    __slots__ = ()

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Implement `EmbeddingsProvider.embed`: send one request and return one vector per text, in order.

        Raises:
            ChatError: the request failed. The error contains the usage that the server reported, if any.
        """
        return await self._wire.embed(texts, options)


def merge_extras(run_extras: Sequence[ProviderOptions], defaults: Extras) -> tuple[ProviderOptions, ...]:
    """Return the provider options of a run, with default values added from the builder.

    Args:
        run_extras: the options of the run. At most one of them has the class of `defaults`.
        defaults: the options configured in the builder. Values of the run take precedence. Tuples and mappings are
            merged.
    """
    options_class = type(defaults)
    own_extras: ProviderOptions | None = None
    others: list[ProviderOptions] = []
    for extra in run_extras:
        if isinstance(extra, options_class):
            own_extras = extra
        else:
            others.append(extra)
    return (*others, defaults if own_extras is None else _merge_fields(own_extras, defaults))


def _merge_fields(own_extras: Any, defaults: Extras) -> Any:  # noqa: ANN401 - the class of the defaults
    changes: dict[str, object] = {}
    for item in fields(defaults):
        default: Any = getattr(defaults, item.name)
        own: Any = getattr(own_extras, item.name)
        if default in (None, ()) or item.name == "provider":
            continue
        if own is None:
            changes[item.name] = default
        elif isinstance(default, tuple):
            changes[item.name] = default + tuple([entry for entry in own if entry not in default])
        elif is_mapping(default):
            changes[item.name] = {**default, **own}
    return replace(own_extras, **changes)
