"""The chats: thin faces over the engine, one for each set of things that a model can do.

`Chat` alone is `Chat[ChatResponse, Never]`: it answers in text and never pauses. A chat keeps nothing of a
conversation, so one serves any number of them at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Never, Self, TypeAlias, final

from typing_extensions import TypeVar

from chat_core.conversation import Conversation
from chat_core.embed import embed
from chat_core.engine.plan import ChatPlan, Settings
from chat_core.engine.run import complete
from chat_core.engine.stream import ChatStream
from chat_core.engine.subchat import ChatTool
from chat_core.errors import UsageError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import EmbeddingsProvider, EmbeddingsResponse
from chat_core.response import ChatResponse, Paused
from chat_core.tools.chat_tools import ChatTools

if TYPE_CHECKING:
    from types import TracebackType

    from chat_core.blocking import (  # circular: chat.blocking is made of a chat
        BlockingChat,
        BlockingEmbeddingsChat,
        BlockingStreamingChat,
    )

OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)


class _Closing(ABC):
    """An async context manager that ends in `aclose()`."""

    __slots__ = ()

    @abstractmethod
    async def aclose(self) -> None:
        """Close what is underneath."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        await self.aclose()


class Chat(_Closing, Generic[OutT_co, PauseT_co]):
    """Completes conversations."""

    __slots__ = ("_plan",)

    def __init__(self, plan: ChatPlan[OutT_co, PauseT_co], /) -> None:
        """Chats are made by `ChatBuilder`."""
        self._plan = plan

    async def complete(
        self, messages: Messages | Conversation, *, options: ChatOptions | None = None
    ) -> OutT_co | PauseT_co:
        """Run until there is an answer or, where the chat's type says that it can pause, until something must wait.

        The answer, and everything that happened on the way to it, has then been pushed to `messages`. `options` are for
        this run, over those of the chat.

        Raises:
            ChatError: the run failed. `messages` is valid and holds what was finished.
        """
        _require_run("complete()", messages, options)
        return await complete(self._plan, messages, options)

    def as_tool(self, *, name: str, description: str) -> ChatTool[PauseT_co]:
        """This chat as a tool for `with_scoped_tools()` of another one, which pauses where this one does."""
        return ChatTool(self._plan, name, description)

    @property
    def tools(self) -> ChatTools[PauseT_co]:
        """The tools of this chat, and the scopes that decide about their calls."""
        return self._plan.tools

    @property
    def blocking(self) -> BlockingChat[OutT_co, PauseT_co]:
        """The same chat for callers without an event loop."""
        from chat_core.blocking import BlockingChat  # noqa: PLC0415  # circular: as above

        return BlockingChat(self)

    async def aclose(self) -> None:
        """Close the model, where it can be closed."""
        await _close(self._plan.model)


@final
class StreamingChat(Chat[OutT_co, PauseT_co]):
    """A chat whose model can also stream."""

    __slots__ = ()

    def stream(
        self, messages: Messages | Conversation, *, options: ChatOptions | None = None
    ) -> ChatStream[OutT_co, PauseT_co]:
        """The events of a run: `async with chat.stream(messages) as stream`. Leaving the block closes the connection.

        Nothing is sent before the block is entered. `options` are for this run, over those of the chat.
        """
        _require_run("stream()", messages, options)
        return ChatStream(self._plan, messages, options)

    @property
    def blocking(self) -> BlockingStreamingChat[OutT_co, PauseT_co]:
        """The same chat for callers without an event loop."""
        from chat_core.blocking import BlockingStreamingChat  # noqa: PLC0415  # circular: as above

        return BlockingStreamingChat(self)


@final
class EmbeddingsChat(_Closing):
    """Turns texts into vectors."""

    __slots__ = ("_model", "_settings")

    def __init__(self, model: EmbeddingsProvider, settings: Settings, /) -> None:
        """Chats are made by `ChatBuilder`."""
        self._model = model
        self._settings = settings

    async def embed(self, texts: Sequence[str], *, options: ChatOptions | None = None) -> EmbeddingsResponse:
        """One vector per text, in the order of the texts, in as many requests as the provider's limit makes of them.

        Raises:
            UsageError: `texts` is not a list of strings.
            ChatError: a request failed for good; `usage` is of everything that was paid before.
        """
        _require_options("embed()", options)
        defaults = self._settings.options
        return await embed(self._model, texts, options.over(defaults) if options else defaults, self._settings)

    @property
    def blocking(self) -> BlockingEmbeddingsChat:
        """The same chat for callers without an event loop."""
        from chat_core.blocking import BlockingEmbeddingsChat  # noqa: PLC0415  # circular: as above

        return BlockingEmbeddingsChat(self)

    async def aclose(self) -> None:
        """Close the model, where it can be closed."""
        await _close(self._model)


AnyChat: TypeAlias = Chat[object, Paused]
"""Every chat that completes is one: any output, and perhaps a pause."""


async def _close(model: object) -> None:
    close = getattr(model, "aclose", None)
    if close is not None:
        await close()


def _require_run(method: str, messages: object, options: object) -> None:
    if not isinstance(messages, (Messages, Conversation)):
        hint = f": Messages.from_user({messages!r})" if isinstance(messages, str) else ""
        msg = f"{method} needs Messages or a Conversation, not {messages!r}{hint}"
        raise UsageError(msg)
    _require_options(method, options)


def _require_options(method: str, options: object) -> None:
    if options is not None and not isinstance(options, ChatOptions):
        msg = f"{method} needs ChatOptions, not {options!r}"
        raise UsageError(msg)
