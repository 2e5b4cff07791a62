"""`Router`, a provider that combines several models. It has the methods that all of its models have."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Protocol, Self, cast, final, overload

from chat_core import (
    Attempt,
    ChatError,
    ChatOptions,
    ChatProvider,
    CompletionProvider,
    EmbeddingsProvider,
    EmbeddingsResponse,
    Messages,
    OutputSchema,
    ProviderMeta,
    ProviderStream,
    StreamProvider,
    ToolDeclarations,
    Turn,
    UsageError,
)
from chat_core.arguments import argument_error, require_type
from chat_core.provider import FIRST_ATTEMPT, NO_TOOLS, require_embeddings_request, require_request

from chat_router.abilities import united_meta
from chat_router.accounts import require_distinct_accounts
from chat_router.breaker import Breaker
from chat_router.budget import Budget
from chat_router.candidate import Candidate, create_candidates
from chat_router.errors import FALLBACK_ERRORS
from chat_router.request import Strategy
from chat_router.selection import Selected, Selector
from chat_router.streams import RoutedStreamContext


class CompletionEmbeddingsProvider(CompletionProvider, EmbeddingsProvider, Protocol):
    """Protocol for a provider that completes conversations and computes embeddings."""


class ChatEmbeddingsProvider(ChatProvider, EmbeddingsProvider, Protocol):
    """Protocol for a provider that completes and streams conversations and computes embeddings."""


_BREAKER = Breaker()
_NO_MESSAGES = Messages()


class Router:
    """Several models as one provider. `Router([…])` returns the subclass with the methods that all models have.

    A router chooses a model for each request. It does not retry: if a model fails with an error that may not occur with
    another model, the engine of the chat asks the router again, within the retries of the chat, and the router chooses
    another model. A router does not close its models.
    """

    __slots__ = ("_attempt", "_metadata", "_selector")

    _attempt: Attempt
    _metadata: ProviderMeta
    _selector: Selector

    @overload
    def __new__(
        cls,
        models: Sequence[ChatEmbeddingsProvider],
        choose: Strategy | None = None,
        *,
        breaker: Breaker = ...,
        budget: Budget | None = None,
        fallback_errors: tuple[type[ChatError], ...] = ...,
    ) -> ChatEmbeddingsRouter: ...
    @overload
    def __new__(
        cls,
        models: Sequence[ChatProvider],
        choose: Strategy | None = None,
        *,
        breaker: Breaker = ...,
        budget: Budget | None = None,
        fallback_errors: tuple[type[ChatError], ...] = ...,
    ) -> ChatRouter: ...
    @overload
    def __new__(
        cls,
        models: Sequence[CompletionEmbeddingsProvider],
        choose: Strategy | None = None,
        *,
        breaker: Breaker = ...,
        budget: Budget | None = None,
        fallback_errors: tuple[type[ChatError], ...] = ...,
    ) -> CompletionEmbeddingsRouter: ...
    @overload
    def __new__(
        cls,
        models: Sequence[CompletionProvider],
        choose: Strategy | None = None,
        *,
        breaker: Breaker = ...,
        budget: Budget | None = None,
        fallback_errors: tuple[type[ChatError], ...] = ...,
    ) -> CompletionRouter: ...
    @overload
    def __new__(
        cls,
        models: Sequence[EmbeddingsProvider],
        choose: Strategy | None = None,
        *,
        breaker: Breaker = ...,
        budget: Budget | None = None,
        fallback_errors: tuple[type[ChatError], ...] = ...,
    ) -> EmbeddingsRouter: ...
    def __new__(
        cls,
        models: Sequence[CompletionProvider | EmbeddingsProvider],
        choose: Strategy | None = None,
        *,
        breaker: Breaker = _BREAKER,
        budget: Budget | None = None,
        fallback_errors: tuple[type[ChatError], ...] = FALLBACK_ERRORS,
    ) -> Any:
        """Create a router of the subclass with the methods that all models have.

        Args:
            models: the models, in order of preference. A router can contain routers.
            choose: strategy that orders the models for a request. Default: the given order.
            breaker: settings of the circuit breakers.
            budget: limit of the costs of a run or a conversation.
            fallback_errors: classes of errors after which another model is tried, in addition to retryable errors.

        Raises:
            UsageError: there are no models, they have no method in common, two accounts have the same provider name, a
                budget is set and the price of a model is unknown, or an argument has the wrong type.
        """
        _require_settings(choose, budget, fallback_errors)
        self = object.__new__(_kind_of(models))
        metas = [model.metadata for model in models]
        candidates = create_candidates(models, metas, breaker)
        require_distinct_accounts(_expand_routers(candidates))
        if budget is not None:
            budget.require_prices(candidates)
        self._attempt = FIRST_ATTEMPT
        self._metadata = united_meta(metas)
        self._selector = Selector(candidates, choose, breaker, budget, fallback_errors)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({[item.name for item in self.candidates]})"

    @property
    def metadata(self) -> ProviderMeta:
        """The name `router`, the names of the models, and the abilities that at least one model has."""
        return self._metadata

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The models with their current health and latency."""
        return self._selector.candidates

    def with_attempt(self, attempt: Attempt, /) -> Self:
        """Implement `AttemptAware.with_attempt`: return a router that avoids the models that have failed.

        Args:
            attempt: number of the attempt, and the errors of earlier attempts.
        """
        require_type("attempt", attempt, Attempt, "an Attempt")
        router = object.__new__(type(self))
        router._metadata = self._metadata
        router._selector = self._selector
        router._attempt = attempt
        return router


class CompletionRouter(Router):
    """A router of models that complete conversations."""

    __slots__ = ()

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Implement `CompletionProvider.complete`: choose a model and return its turn.

        Raises:
            ChatError: the model failed, or no model is available.
        """
        require_request(messages, tools, options, structured_output)
        selector, attempt = self._selector, self._attempt
        selected = selector.select_at_once(options, attempt)
        if selected is None:
            selected = await selector.select(messages, tools, options, structured_output, attempt)
        try:
            model: Any = selected.model()
            turn: Turn = await model.complete(messages, tools, selected.options(options), structured_output)
        except BaseException as error:
            selected.end(error)
            raise
        selected.measure()
        selected.succeed()
        return turn


class ChatRouter(CompletionRouter):
    """A router of models that complete and stream conversations."""

    __slots__ = ()

    def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Implement `StreamProvider.stream`: choose a model and open its stream.

        Raises:
            ChatError: the model failed, or no model is available; raised when the block is entered.
        """
        require_request(messages, tools, options, structured_output)
        select = partial(
            self._selector.select, messages, tools, options, structured_output, self._attempt, streamed=True
        )

        def open_stream(selected: Selected) -> AbstractAsyncContextManager[ProviderStream]:
            model = cast("StreamProvider", selected.model())
            return model.stream(messages, tools, selected.options(options), structured_output)

        return RoutedStreamContext(select, open_stream)


class EmbeddingsRouter(Router):
    """A router of servers that provide the same embedding model."""

    __slots__ = ()

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Implement `EmbeddingsProvider.embed`: choose a server and return its vectors.

        Raises:
            UsageError: the models differ, so that their vectors cannot be compared. Nothing is sent.
            ChatError: the chosen server failed, or no server is available.
        """
        require_embeddings_request(texts, options)
        require_equal_models(self.candidates)
        selected = await self._selector.select(_NO_MESSAGES, NO_TOOLS, options, None, self._attempt, texts=texts)
        try:
            model = cast("EmbeddingsProvider", selected.model())
            response = await model.embed(texts, selected.options(options))
        except BaseException as error:
            selected.end(error)
            raise
        selected.measure()
        selected.succeed()
        return response


class CompletionEmbeddingsRouter(CompletionRouter, EmbeddingsRouter):
    """A router of models that complete conversations and compute embeddings."""

    __slots__ = ()


@final
class ChatEmbeddingsRouter(ChatRouter, CompletionEmbeddingsRouter):
    """A router of models that complete and stream conversations and compute embeddings."""

    __slots__ = ()


def require_equal_models(candidates: Sequence[Candidate]) -> None:
    """Check that all candidates are the same embedding model. Vectors of two models cannot be compared.

    Args:
        candidates: models of a router.

    Raises:
        UsageError: two of the models have different names or dimensions.
    """
    first = candidates[0]
    for item in candidates:
        if (item.meta.model, item.meta.dimensions) != (first.meta.model, first.meta.dimensions):
            msg = (
                f"a router embeds with equal models only, because vectors of different models cannot be compared: "
                f"{first.name} (dimensions={first.meta.dimensions}) and {item.name} (dimensions={item.meta.dimensions})"
            )
            raise UsageError(msg)


def _expand_routers(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates. Inner routers are replaced by their own candidates."""
    leaves: list[Candidate] = []
    for item in candidates:
        leaves += _expand_routers(item.model.candidates) if isinstance(item.model, Router) else [item]
    return leaves


def _require_settings(choose: object, budget: object, fallback_errors: object) -> None:
    """Raise `UsageError` unless the arguments of a router have the right types."""
    if choose is not None and (isinstance(choose, type) or not callable(choose)):
        raise argument_error("choose", "a strategy, such as ByKeyword(), or None", choose)
    if budget is not None:
        require_type("budget", budget, Budget, "a Budget, such as Budget(session=Decimal('0.50')), or None")
    expected = "a tuple of error classes, such as (*FALLBACK_ERRORS, InvalidRequestError)"
    require_type("fallback_errors", fallback_errors, tuple, expected)
    for kind in cast("tuple[object, ...]", fallback_errors):
        if not (isinstance(kind, type) and issubclass(kind, ChatError)):
            raise argument_error("fallback_errors", expected, fallback_errors)


def _kind_of(models: Sequence[object]) -> type[Router]:
    """Return the router class that has the methods that all models have."""
    if not isinstance(models, Sequence) or isinstance(models, str) or not models:
        msg = f"Router() needs a list of models, not {models!r}"
        raise UsageError(msg)
    completes, streams, embeds = [
        all(isinstance(model, protocol) for model in models)
        for protocol in cast("tuple[Any, ...]", (CompletionProvider, StreamProvider, EmbeddingsProvider))
    ]
    if completes and streams:
        return ChatEmbeddingsRouter if embeds else ChatRouter
    if completes:
        return CompletionEmbeddingsRouter if embeds else CompletionRouter
    if embeds:
        require_equal_models(create_candidates(models, [model.metadata for model in cast("Any", models)], _BREAKER))
        return EmbeddingsRouter
    names = ", ".join([type(model).__name__ for model in models])
    msg = f"Router() needs models that all complete conversations, or all embed texts, not {names}"
    raise UsageError(msg)
