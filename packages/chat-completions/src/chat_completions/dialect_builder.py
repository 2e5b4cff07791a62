"""Builder methods for the dialect, the request format of a Chat Completions server."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, Self

from chat_core.messages import FinishReason
from chat_core.wire.connection import require_finish_reasons

from chat_completions.options import Dialect, ReasoningReplay, ReasoningStyle


class DialectBuilder:
    """Base class for builders with a dialect, which the subclass stores."""

    __slots__ = ()

    @property
    @abstractmethod
    def _dialect(self) -> Dialect:
        """The dialect as configured so far."""

    @property
    @abstractmethod
    def _default_dialect(self) -> Dialect:
        """The dialect of the vendor's preset."""

    @abstractmethod
    def _with_dialect(self, dialect: Dialect) -> Self:
        """Return a copy of this builder with `dialect`."""

    def with_reasoning(
        self,
        *,
        style: ReasoningStyle | None = None,
        replay: ReasoningReplay = "as-received",
        field: Literal["reasoning_content", "reasoning"] | None = None,
    ) -> Self:
        """Set how reasoning is requested and how it is sent back.

        Args:
            style: the request field: `effort` sends `reasoning_effort`; `object` sends `reasoning`, which also accepts
                a token budget; `thinking` sends `reasoning_effort`, or `thinking` to turn reasoning off. `None` uses
                the vendor's style.
            replay: whether reasoning is sent back to the model that produced it.
            field: the message field for reasoning that the caller wrote. `None` uses the vendor's field, if any.
        """
        default = self._default_dialect
        return self._with_dialect(self._dialect.with_reasoning(default, style=style, replay=replay, field=field))

    def with_strict(self, *, output: bool = True, tools: bool = False, rewrite: bool | None = None) -> Self:
        """Set which schemas the server enforces.

        Args:
            output: whether it enforces the schema of a structured output.
            tools: whether it enforces the schemas of tools.
            rewrite: whether schemas are rewritten into the supported subset. `None` uses the vendor's setting.
        """
        default = self._default_dialect
        return self._with_dialect(self._dialect.with_strict(default, output=output, tools=tools, rewrite=rewrite))

    def with_url_files(self, *kinds: Literal["image", "video", "document"]) -> Self:
        """Set the kinds of files that may be sent as a URL, which the server downloads.

        Files of other kinds must be sent as bytes.

        Args:
            kinds: kinds that replace the vendor's default. Most servers download images and videos.
        """
        return self._with_dialect(replace(self._dialect, url_files=kinds))

    def with_joined_messages(self) -> Self:
        """Join consecutive messages of one role, for servers and chat templates that require alternating roles.

        Text is separated by an empty line. Tool results are not joined.
        """
        return self._with_dialect(replace(self._dialect, join_messages=True))

    def with_assistant_after_tools(self) -> Self:
        """Send a short assistant message between tool results and a user message, as models of Mistral require."""
        return self._with_dialect(replace(self._dialect, assistant_after_tools=True))

    def with_system_first(self) -> Self:
        """Send all system messages at the beginning, for servers and chat templates that accept none later.

        A system message that you add in the middle of a conversation changes the beginning of the next request. The
        server then cannot use its prompt cache for that request.
        """
        return self._with_dialect(replace(self._dialect, system_first=True))

    def with_finish_reasons(self, reasons: Mapping[str, FinishReason]) -> Self:
        """Set the meaning of finish reasons that only this server sends. Calls run after `stop` and `tool_calls` only.

        Args:
            reasons: the meaning of each finish reason, such as `{"max_time": "length"}`.

        Raises:
            UsageError: a meaning is not one of `FinishReason`.
        """
        added = require_finish_reasons("with_finish_reasons", reasons)
        return self._with_dialect(replace(self._dialect, finish_reasons=(*self._dialect.finish_reasons, *added)))
