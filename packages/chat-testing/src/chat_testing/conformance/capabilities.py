"""Capabilities that a provider claims, and checks that its recorded responses match these claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, cast, final

from chat_core.errors import UsageError

from chat_testing.conformance.tapes import ProviderTapes, Tape


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Capabilities that a provider claims to have. Scenarios that need an unclaimed capability are not run.

    Attributes:
        text: returns text responses.
        json: complete responses are JSON objects. The scenarios add unknown fields to them.
        stream: supports streaming.
        tools: supports tool calls.
        parallel_tools: a response may have several calls.
        call_ids: the API has call ids, which results refer to.
        failure_marks: the API marks the results of failed calls, apart from their text.
        argument_text: the API sends arguments as text, which may be invalid JSON.
        structured: supports structured output.
        reasoning: returns the model's reasoning.
        reasoning_replay: sends reasoning back with the next request.
        files: users may send files.
        usage: the server reports token usage.
        waits: the server may specify how long to wait before a retry.
        request_ids: error responses have a request id.
        stream_errors: the server may report an error inside a stream.
        embeddings: supports embeddings.

    Raises:
        UsageError: a claimed capability requires another capability that is not claimed.
    """

    text: bool = True
    json: bool = True
    stream: bool = False
    tools: bool = False
    parallel_tools: bool = False
    call_ids: bool = False
    failure_marks: bool = False
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
                msg = f"{claim}=True requires {base}=True"
                raise UsageError(msg)

    @property
    def claimed(self) -> frozenset[str]:
        """Names of the claimed capabilities."""
        return frozenset([name for name in CLAIMS if getattr(self, name)])


CLAIMS: Final = tuple([item.name for item in fields(Capabilities)])
"""Names of all capabilities."""

REQUIRED_CLAIMS: Final = {
    "stream": "text",
    "tools": "text",
    "parallel_tools": "tools",
    "call_ids": "tools",
    "failure_marks": "tools",
    "argument_text": "tools",
    "structured": "text",
    "reasoning": "text",
    "reasoning_replay": "reasoning",
    "files": "text",
    "stream_errors": "stream",
}
"""Capabilities that need another capability."""

REQUIRED_TAPES: Final[Mapping[str, tuple[str, ...]]] = {
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
"""Tapes that are needed to check a capability."""


def list_inconsistencies(capabilities: Capabilities, tapes: ProviderTapes) -> list[str]:
    """Return an error message for each claim without a matching tape, and for each tape without a matching claim.

    Args:
        capabilities: the claims of the provider.
        tapes: the tapes of the provider.
    """
    problems: list[str] = []
    claimed = capabilities.claimed
    for name in dict.fromkeys([name for names in REQUIRED_TAPES.values() for name in names]):
        claims_of_tape = [claim for claim, names in REQUIRED_TAPES.items() if name in names]
        active_claims = [claim for claim in claims_of_tape if claim in claimed]
        if active_claims and not getattr(tapes, name):
            problems.append(f"{active_claims[0]} is claimed, but there is no tape {name!r} to check it with")
        elif getattr(tapes, name) and not active_claims and name != "malformed":
            problems.append(f"there is a tape {name!r}, but {claims_of_tape[0]} is not claimed")
    problems += _list_incomplete_tapes(capabilities, tapes)
    return problems


def _list_incomplete_tapes(capabilities: Capabilities, tapes: ProviderTapes) -> list[str]:
    """Return an error message for each tape that lacks data which the claimed capabilities require."""
    problems: list[str] = []
    for name in (item.name for item in fields(ProviderTapes)):
        value: object = getattr(tapes, name)
        for tape in cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,):
            if isinstance(tape, Tape):
                missing = _list_missing_replies(capabilities, tape)
                if name == "broken_arguments" and tape.stream is not None:
                    # Some APIs send arguments as text only in streams.
                    missing = [problem for problem in missing if tape.whole is not None]
                problems += [f"the tape {name!r} {problem}" for problem in missing]
    return problems + [sentence for sentence, wrong in _check_claims(capabilities, tapes) if wrong]


def _check_claims(capabilities: Capabilities, tapes: ProviderTapes) -> list[tuple[str, bool]]:
    """Return an error message for each possible defect of the tapes, paired with whether the defect is present."""
    claims, refusals = capabilities, tapes.refusals
    text, reasoning, parallel = tapes.text or Tape(), tapes.reasoning or Tape(), tapes.parallel or Tape()
    return [
        ("the tape 'text' has no text", claims.text and not text.text),
        ("usage is claimed, but the tape 'text' has no usage", claims.usage and claims.text and not text.usage),
        (
            "the stream of the tape 'text' needs at least three chunks before its `tail`, to be truncated there",
            claims.stream and text.stream is not None and len(text.stream.chunks) - text.tail < 3,
        ),
        (
            "tools is claimed, but the tape 'mixed' has no `order`, the types of its parts",
            claims.tools and tapes.mixed is not None and not tapes.mixed.order[1:],
        ),
        (
            "reasoning_replay is claimed, but the tape 'reasoning' has no `echo`, the texts to send back",
            claims.reasoning_replay and not reasoning.echo,
        ),
        (
            "parallel_tools is claimed, but the tape 'parallel' has fewer than two calls",
            claims.parallel_tools and not parallel.calls[1:],
        ),
        (
            "waits is claimed, but no refusal of the tapes has a `wait`",
            claims.waits and all(refusal.wait is None for refusal in refusals),
        ),
        (
            "request_ids is claimed, but no refusal of the tapes has a `request_id`",
            claims.request_ids and all(refusal.request_id is None for refusal in refusals),
        ),
        (
            "the refusals need at least one retryable and one non-retryable error",
            {refusal.retryable for refusal in refusals} != {True, False},
        ),
    ]


def _list_missing_replies(capabilities: Capabilities, tape: Tape) -> list[str]:
    """Return a message for each reply that a tape lacks, or that it has without a matching claim."""
    missing: list[str] = []
    if tape.whole is None:
        missing.append("has no complete response in `whole`")
    if capabilities.stream and tape.stream is None:
        missing.append("has no `stream`, but stream is claimed")
    if not capabilities.stream and tape.stream is not None:
        missing.append("has a `stream`, but stream is not claimed")
    return missing
