"""Conformance scenarios for embeddings."""

from __future__ import annotations

from chat_core.errors import InvalidResponseError
from chat_core.options import ChatOptions
from chat_core.provider import EmbeddingsResponse

from chat_testing.conformance.scenario import scenario
from chat_testing.conformance.subject import EXACT, SentBody, Subject, require_embeddings
from chat_testing.errors import fail


async def _embed_tape(subject: Subject) -> tuple[EmbeddingsResponse, SentBody, int]:
    tape = subject.tapes.embeddings
    if tape is None:  # pragma: no cover - every claimed ability has its tape
        raise AssertionError
    provider, transport = subject.serve(tape.reply)
    response = await require_embeddings(provider).embed(tape.texts, ChatOptions())
    return response, SentBody(transport.last.body), len(transport.requests)


@scenario("embeddings")
async def embeddings(subject: Subject) -> None:
    """The provider sends all texts unchanged in one request, and returns the vectors in the order of the texts."""
    tape = subject.tapes.embeddings
    response, sent, requests = await _embed_tape(subject)
    if tape is None or requests != 1:
        fail(f"embed() made {requests} requests instead of one")
    if missing := [text for text in tape.texts if not sent.contains(text)]:
        fail(f"embed() does not send {missing}")
    texts = [f"{number}{EXACT * 20}" for number in range(len(tape.texts))]
    provider, transport = subject.serve(tape.reply)
    await require_embeddings(provider).embed(texts, ChatOptions())
    if not all(map(SentBody(transport.last.body).contains, texts)):
        fail(f"embed() does not send a text of {len(texts[0])} characters unchanged. It begins with {texts[0][:50]!r}")
    if response.vectors != tape.vectors:
        fail(f"the server sent the vectors {tape.vectors}, but embed() returned {response.vectors}")


@scenario("embeddings", "usage")
async def embeddings_usage(subject: Subject) -> None:
    """The response of `embed()` has the token usage that the server reported."""
    tape = subject.tapes.embeddings
    response, _, _ = await _embed_tape(subject)
    if tape is not None and response.usage != tape.usage:
        fail(f"the server reported {tape.usage!r}, but embed() returned {response.usage!r}")


@scenario("embeddings")
async def embeddings_timeout(subject: Subject) -> None:
    """The provider passes the option `timeout` of `embed()` to the transport as the idle timeout."""
    tape = subject.tapes.embeddings
    if tape is None:  # pragma: no cover - every claimed ability has its tape
        return
    provider, transport = subject.serve(tape.reply)
    await require_embeddings(provider).embed(tape.texts, ChatOptions(timeout=7.5))
    if (idle := transport.last.request.timeouts.idle) != 7.5:
        fail(f"embed() with timeout=7.5 passes idle={idle} to the transport")


@scenario("embeddings")
async def embeddings_missing(subject: Subject) -> None:
    """A response that lacks a vector raises `InvalidResponseError`."""
    tape = subject.tapes.embeddings
    if tape is None:  # pragma: no cover - every claimed ability has its tape
        return
    provider, _ = subject.serve(tape.short)
    try:
        response = await require_embeddings(provider).embed(tape.texts, ChatOptions())
    except InvalidResponseError:
        return
    fail(f"embed() returned {len(response.vectors)} vectors for {len(tape.texts)} texts")
