"""What a provider claims, and what became of each claim."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, cast, final

from chat_core.errors import UsageError

from chat_testing.conformance.tapes import ProviderTapes, Tape


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a provider claims. A scenario of what is not claimed is not run, and is reported as such.

    Attributes:
        text: it answers in words.
        json: its whole answers are JSON objects, to which a later server may add fields.
        stream: it streams.
        tools: it calls tools.
        parallel_tools: several calls stand in one answer.
        call_ids: calls have ids on the wire, which results name.
        argument_text: the wire carries arguments as text, which may be broken.
        structured: it answers by a schema.
        reasoning: it tells what the model thought.
        reasoning_replay: what was thought goes back with the next request.
        files: users may send files.
        usage: the server counts tokens.
        waits: the server may say how long to wait.
        request_ids: refusals have an id of the request.
        stream_errors: the server may say in mid-stream that it failed.
        embeddings: it turns texts into vectors.

    Raises:
        UsageError: a claim makes no sense without another one.
    """

    text: bool = True
    json: bool = True
    stream: bool = False
    tools: bool = False
    parallel_tools: bool = False
    call_ids: bool = False
    argument_text: bool = False
    structured: bool = False
    reasoning: bool = False
    reasoning_replay: bool = False
    files: bool = False
    usage: bool = False
    waits: bool = False
    request_ids: bool = False
    stream_errors: bool = False
    embeddings: bool = False

    def __post_init__(self) -> None:
        for claim, base in REQUIRED_CLAIMS.items():
            if getattr(self, claim) and not getattr(self, base):
                msg = f"{claim}=True needs {base}=True: one is nothing without the other"
                raise UsageError(msg)

    @property
    def claimed(self) -> frozenset[str]:
        """The names of the claims that are made."""
        return frozenset([name for name in CLAIMS if getattr(self, name)])


CLAIMS: Final = tuple([item.name for item in fields(Capabilities)])
"""Everything that can be claimed."""

REQUIRED_CLAIMS: Final = {
    "stream": "text",
    "tools": "text",
    "parallel_tools": "tools",
    "call_ids": "tools",
    "argument_text": "tools",
    "structured": "text",
    "reasoning": "text",
    "reasoning_replay": "reasoning",
    "files": "text",
    "stream_errors": "stream",
}
"""Claims that make no sense without another one."""

REQUIRED_TAPES: Final = {
    "text": ("text", "refusals"),
    "stream": ("noise", "malformed"),
    "tools": ("call", "mixed", "no_arguments"),
    "parallel_tools": ("parallel",),
    "argument_text": ("broken_arguments",),
    "structured": ("structured",),
    "reasoning": ("reasoning",),
    "files": ("files",),
    "stream_errors": ("failure",),
    "embeddings": ("embeddings", "refusals"),
}
"""The tapes without which a claim cannot be looked at."""


def list_inconsistencies(capabilities: Capabilities, tapes: ProviderTapes) -> list[str]:
    """What is wrong with claims and tapes, a sentence each: a claim without its tape, or a tape without its claim."""
    said: list[str] = []
    claimed = capabilities.claimed
    for name in dict.fromkeys([name for names in REQUIRED_TAPES.values() for name in names]):
        about = [claim for claim, names in REQUIRED_TAPES.items() if name in names]
        made = [claim for claim in about if claim in claimed]
        if made and not getattr(tapes, name):
            said.append(f"{made[0]} is claimed, and there is no tape {name!r} to show it by")
        elif getattr(tapes, name) and not made and name != "malformed":
            said.append(f"there is a tape {name!r}, and {about[0]} is not claimed")
    said += _list_incomplete_tapes(capabilities, tapes)
    return said


def _list_incomplete_tapes(capabilities: Capabilities, tapes: ProviderTapes) -> list[str]:
    said: list[str] = []
    for name in (item.name for item in fields(ProviderTapes)):
        value: object = getattr(tapes, name)
        for tape in cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,):
            if isinstance(tape, Tape):
                lacks = _list_missing_replies(capabilities, tape)
                if name == "broken_arguments" and tape.stream is not None:
                    # Some wires have arguments as text only where they are streamed.
                    lacks = [what for what in lacks if tape.whole is not None]
                said += [f"the tape {name!r} {what}" for what in lacks]
    return said + [sentence for sentence, wrong in _check_claims(capabilities, tapes) if wrong]


def _check_claims(capabilities: Capabilities, tapes: ProviderTapes) -> list[tuple[str, bool]]:
    """What would be looked at with tapes that cannot show it."""
    claims, refusals = capabilities, tapes.refusals
    text, reasoning, parallel = tapes.text or Tape(), tapes.reasoning or Tape(), tapes.parallel or Tape()
    return [
        ("the tape 'text' says nothing", claims.text and not text.text),
        ("usage is claimed, and the tape 'text' costs nothing", claims.usage and claims.text and not text.usage),
        (
            "the stream of the tape 'text' needs three chunks before its end may be missing, to be cut between",
            claims.stream and text.stream is not None and len(text.stream.chunks) - text.tail < 3,  # noqa: PLR2004 - as it says
        ),
        (
            "tools is claimed, and the tape 'mixed' does not say in `order` what came first",
            claims.tools and tapes.mixed is not None and not tapes.mixed.order[1:],
        ),
        (
            "reasoning_replay is claimed, and the tape 'reasoning' does not say in `echo` what must go back",
            claims.reasoning_replay and not reasoning.echo,
        ),
        (
            "parallel_tools is claimed, and the tape 'parallel' has fewer than two calls",
            claims.parallel_tools and not parallel.calls[1:],
        ),
        (
            "waits is claimed, and no refusal of the tapes asks for one",
            claims.waits and all(refusal.wait is None for refusal in refusals),
        ),
        (
            "request_ids is claimed, and no refusal of the tapes has one",
            claims.request_ids and all(refusal.request_id is None for refusal in refusals),
        ),
        (
            "the refusals need one that may be tried again and one that may not",
            {refusal.retryable for refusal in refusals} != {True, False},
        ),
    ]


def _list_missing_replies(capabilities: Capabilities, tape: Tape) -> list[str]:
    lacks: list[str] = []
    if tape.whole is None:
        lacks.append("has no whole answer")
    if capabilities.stream and tape.stream is None:
        lacks.append("has no stream, and stream is claimed")
    if not capabilities.stream and tape.stream is not None:
        lacks.append("has a stream, and stream is not claimed")
    return lacks
