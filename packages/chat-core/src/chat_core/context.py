"""Context policies, which reduce requests for conversations that are too long or too expensive to send in full.

A policy is called before each request of a run. It keeps the current view, chooses a shorter view for the rest of the
run, or returns a summary that is stored with the conversation. The history keeps every turn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, cast, final

from chat_core import model_texts
from chat_core.arguments import argument_error, require_number, require_text, require_type, require_whole
from chat_core.errors import ChatError, ContextLengthError, InvalidResponseError, UsageError
from chat_core.json import dumps
from chat_core.messages import File, Messages, Part, Role, Text, Tool, Turn, View
from chat_core.messages.token_estimate import estimate_text, estimate_turn
from chat_core.messages.view import RESULT_CHARACTERS, elide_results, is_long
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, CompletionProvider
from chat_core.run_context import NO_RUN, RunContext

SUMMARY_TOKENS = 1_000
"""Number of tokens that `Summarize` reserves for the summary when it chooses the turns to keep."""


@final
@dataclass(frozen=True, slots=True)
class ContextSize:
    """The size of the next model request in tokens.

    Attributes:
        tokens: tokens of the request: the view, the instructions, the tool declarations and the output schema.
        exact: whether `tokens` is the provider's count for its last response in the same view, plus an estimate for
            the tokens added since then. If False, the whole number is an estimate, which is usually too high.
        of_view: the part of `tokens` that belongs to the view. A policy can reduce only this part.
        step: number of the request in the run, from 1.
        refused: whether the provider has just refused this request as too long. The run fails if the policy does not
            choose a shorter view.
        run: context of the run: its conversation, owner and values.
    """

    tokens: int
    exact: bool
    of_view: int
    step: int = 1
    refused: bool = False
    run: RunContext = NO_RUN


@final
@dataclass(frozen=True, slots=True)
class Summarized:
    """A context policy's decision to store a summary turn in the conversation.

    Attributes:
        turn: a turn with `by="engine"`, one part from `View.summary()`, and the metadata of the summarizing model.
    """

    turn: Turn


ContextChoice: TypeAlias = Summarized | View | None
"""Choice of a context policy: a summary to store, a view for the rest of the run, or no change."""


class ContextPolicy(Protocol):
    """Protocol for a function that chooses the contents of the next request. Set by `with_context()`."""

    def __call__(self, view: View, size: ContextSize, /) -> ContextChoice | Awaitable[ContextChoice]:
        """Return a summary to store, a shorter view, or `None` to keep the current view.

        Args:
            view: the turns that the request would contain.
            size: the size of the request. `size.run` is the context of the run.

        Raises:
            ContextLengthError: the conversation cannot be reduced enough. The run fails before the request is sent.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class Window:
    """Context policy that sends only the end of a long conversation, and shortens long tool results if necessary.

    With `at` and `keep`, a view of up to `at` tokens remains unchanged. A longer view is replaced by a view that begins
    later and has at most `keep` tokens. If the last user message and the turns after it are still too large, tool
    results are shortened, oldest first. A request that cannot be reduced to `at` tokens is not sent.

    With `messages`, a run begins with at most this number of turns, if the view can begin at a user message.

    Attributes:
        at: size in tokens above which the view is reduced.
        keep: size in tokens to which the view is reduced.
        messages: number of turns above which a run begins with a shorter view.
        result_characters: maximum number of characters of a shortened tool result.

    Raises:
        UsageError: neither `messages` nor both `at` and `keep` are given, or `keep` is larger than `at`.
    """

    at: int | None = None
    keep: int | None = None
    messages: int | None = field(default=None, kw_only=True)
    result_characters: int = field(default=RESULT_CHARACTERS, kw_only=True)

    def __post_init__(self) -> None:
        if self.messages is None and (self.at is None or self.keep is None):
            msg = "Window() needs a limit: pass Window(at=…, keep=…) in tokens, or Window(messages=…)"
            raise UsageError(msg)
        if self.messages is not None and (type(self.messages) is not int or self.messages < 1):
            msg = f"messages of Window() must be a whole number of at least 1, not {self.messages!r}"
            raise UsageError(msg)
        _require_characters(self.result_characters)
        if self.at is not None and self.keep is not None:
            _require_limits("Window", self.at, self.keep)

    def __call__(self, view: View, size: ContextSize, /) -> View | None:
        """Return a shorter view, or `None` to keep the current view."""
        if self.at is not None and self.keep is not None:
            return _shorten_view(view, size, self.at, self.keep, self.result_characters)
        if size.refused:
            return _fit_view(view, size, size.tokens // 2, self.result_characters)
        assert self.messages is not None  # noqa: S101 - checked when the policy was made
        if size.step > 1 or (excess := len(view.turns) - self.messages) <= 0:
            return None
        offsets = view.boundaries()
        place = bisect_left(offsets, excess, key=view.count_before)
        return View(offsets[place], elided=view.elided) if place < len(offsets) else None


@final
@dataclass(frozen=True, slots=True)
class Summarize:
    """Context policy that asks a model to summarize the first part of a long conversation.

    The summary is stored with the conversation, and its token usage is added to the usage of the run. If the model
    fails, or if the request would still be larger than `at` with its summary, the view is reduced for the rest of the
    run as by `Window(at, keep)`, and observers receive a warning.

    Attributes:
        model: model that writes the summary. A small model is sufficient.
        at: size in tokens above which the conversation is summarized.
        keep: size in tokens to which the conversation is reduced.
        options: options of the request for the summary.
        instructions: instructions for the model that writes the summary.
        result_characters: maximum number of characters of a shortened tool result, in the text to summarize and in
            requests that must be reduced without a summary.

    Raises:
        UsageError: `keep` is larger than `at`.
    """

    model: CompletionProvider
    at: int
    keep: int
    options: ChatOptions = field(default_factory=ChatOptions, kw_only=True)
    instructions: str = field(default=model_texts.SUMMARY_REQUEST, kw_only=True)
    result_characters: int = field(default=RESULT_CHARACTERS, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.model, type) or not isinstance(cast("object", self.model), CompletionProvider):
            raise argument_error("model", "a provider that can complete", self.model)
        if not isinstance(self.options, ChatOptions):
            raise argument_error("options", "ChatOptions", self.options)
        require_text(instructions=self.instructions)
        _require_limits("Summarize", self.at, self.keep)
        _require_characters(self.result_characters)

    def __call__(self, view: View, size: ContextSize, /) -> ContextChoice | Awaitable[ContextChoice]:
        """Return a summary to store, a shorter view, or `None` to keep the current view."""
        if size.tokens <= self.at and not size.refused:
            return None
        return self.summarize(view, size, self.keep // 2 if size.refused else self.keep)

    def summarize(self, view: View, size: ContextSize, keep: int) -> ContextChoice | Awaitable[ContextChoice]:
        """Ask for a summary that reduces the view to about `keep` tokens, even if its size is below `at`.

        If a request with a summary cannot have `at` tokens or fewer, the choice is that of `Window(at, keep)`.

        Args:
            view: the turns that the request would contain.
            size: the size of the request.
            keep: size in tokens to which the request is reduced, in place of the `keep` of this policy.

        Raises:
            ContextLengthError: the view cannot be reduced to `at` tokens.
            UsageError: an argument has a wrong type.
        """
        require_type("view", view, View, "a View, such as messages.view()")
        require_type("size", size, ContextSize, "a ContextSize")
        require_number("keep", keep)
        room = keep - (size.tokens - size.of_view) - SUMMARY_TOKENS
        offset = _first_fitting_offset(view, view.boundaries(summarized=True), room)
        if offset is None or self._room_for_summary(view, size, offset) < _estimate_summary(""):
            return _shorten_view(view, size, self.at, self.keep, self.result_characters)
        return self._request_summary(view, size, offset)

    async def _request_summary(self, view: View, size: ContextSize, offset: int) -> ContextChoice:
        request = Messages.from_user(
            f"{self.instructions}\n\n{_format_transcript(view.turns_before(offset), self.result_characters)}"
        )
        try:
            turn = await self.model.complete(request, NO_TOOLS, self.options, None)
            text = turn.text.strip()
            if turn.finish_reason not in {"stop", None} or not text:
                msg = f"the model wrote no complete summary (finish reason: {turn.finish_reason})"
                raise InvalidResponseError(msg, partial=turn)
            if (room := self._room_for_summary(view, size, offset)) < (tokens := _estimate_summary(text)):
                # A stored summary is part of the following requests, so none of them could be sent.
                msg = f"the model wrote a summary of about {tokens} tokens, but at={self.at} leaves room for {room}"
                raise InvalidResponseError(msg, partial=turn)
        except ChatError as error:
            fallback = _shorten_view(view, size, self.at, self.keep, self.result_characters)
            if fallback is None:
                raise
            fallback.cause = error
            return fallback
        return Summarized(Turn([view.summary(text, offset)], by="engine", metadata=turn.metadata))

    def _room_for_summary(self, view: View, size: ContextSize, offset: int) -> int:
        """Return how many tokens the turn with a summary of the turns before `offset` may have.

        The number is negative if the turns from `offset` on do not fit.
        """
        results = {tool.id for tool in view.tools_from(offset) if is_long(tool, self.result_characters)}
        rest = View(offset, elided=results | set(view.elided), result_characters=self.result_characters)
        limit = self.at - (size.tokens - size.of_view)
        if size.refused:  # the new view must be smaller, although its size is below `at`
            limit = min(limit, view.tokens)
        return limit - view.tokens_of(rest, summarized=True)


def _estimate_summary(text: str) -> int:
    return estimate_turn(Turn([Text(model_texts.summary(text))]))


def _require_limits(name: str, at: int, keep: int) -> None:
    for value in cast("tuple[object, object]", (at, keep)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise argument_error(name, "created with whole numbers of tokens as at and keep", value)
    if not 0 < keep <= at:
        msg = f"{name}(at={at}, keep={keep}): both must be positive, and keep at most as large as at"
        raise UsageError(msg)


def _require_characters(number: object) -> None:
    require_whole("result_characters", number, 0)


def _shorten_view(view: View, size: ContextSize, at: int, keep: int, characters: int) -> View | None:
    if size.refused:
        return _fit_view(view, size, keep // 2, characters)
    if size.tokens <= at:
        return None
    other = size.tokens - size.of_view
    last = view.last_offset
    if last in view.boundaries() and view.tokens_from(last) + other <= at:
        # The last response was requested with this view: the provider has it in its prompt cache.
        return View(last, elided=view.elided, result_characters=characters)
    reduced = _fit_view(view, size, keep, characters)
    left = view.tokens_of(reduced) + other if reduced is not None else size.tokens
    if left > at:
        msg = (
            f"the last message with its results has about {left} tokens, but the limit of the context policy is {at}: "
            "shorten the message or the results, or raise the limit"
        )
        raise ContextLengthError(msg)
    return reduced


def _fit_view(view: View, size: ContextSize, keep: int, characters: int) -> View | None:
    """Return the longest view of at most `keep` tokens, or the shortest possible view.

    Return `None` if no view is shorter than the current view.
    """
    room = keep - (size.tokens - size.of_view)
    offset = _first_fitting_offset(view, view.boundaries(), room)
    reduced = View(view.offset if offset is None else offset, elided=view.elided, result_characters=characters)
    tokens = view.tokens_of(reduced)
    elided = set(view.elided)
    for tool in view.tools_from(reduced.offset) if tokens > room else ():
        if tokens <= room:
            break
        if tool.id not in elided and is_long(tool, characters):
            elided.add(tool.id)
            tokens -= estimate_text(tool.result_text()) - characters
    reduced = View(reduced.offset, elided=elided, result_characters=characters)
    unchanged = reduced.offset == view.offset and reduced.elided == view.elided
    return None if unchanged else reduced


def _first_fitting_offset(view: View, offsets: Sequence[int], room: int) -> int | None:
    """Return the lowest offset from which the view has at most `room` tokens, or the highest offset if none fits.

    Return `None` if `offsets` is empty.
    """
    if not offsets:
        return None
    place = bisect_left(offsets, -room, key=lambda offset: -view.tokens_from(offset))
    return offsets[min(place, len(offsets) - 1)]


# --- Texts for summaries ---------------------------------------------------------------------------------------


def _format_transcript(turns: Sequence[tuple[Role, Turn]], characters: int) -> str:
    """Serialize turns as lines of JSON, so that no text can imitate another message. Tool results are shortened."""
    lines: list[dict[str, object]] = []
    for role, turn in turns:
        shortened = elide_results(turn, {tool.id for tool in turn.tools}, characters)
        lines += [line for part in shortened.parts if (line := _transcript_entry(role, part))]
    return "\n".join([dumps(line) for line in lines])


def _transcript_entry(role: Role, part: Part) -> dict[str, object]:
    match part:
        case Text(text):
            return {role: text} if text else {}
        case Tool():
            return {"call": part.name, "arguments": part.call.text, "result": part.result_text()}
        case File(mime):
            return {role: model_texts.file_note(part.name, mime)}
        case _:
            return {}
