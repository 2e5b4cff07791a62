"""The contract of a transport, clause by clause, in its own words."""

from __future__ import annotations

from typing import Final

CLAUSES: Final = {
    # chat_core.transport.protocol
    "moves": "A way to move bytes.",
    "shared": "Safe to share between tasks;",
    "loops": "it may be used from several event loops, one after another.",
    "whole": "Deliver a request and return the whole answer, whatever its status.",
    "not_whole": "TransportError: there was no whole answer.",
    "listens": "Deliver a request and listen to the answer.",
    "leaves": "Leaving the block closes the connection at once.",
    "cuts": "give the `EventStream` the batches of `framed()`, which cuts the body by `request.framing`;",
    "closes_below": "they close those when the block is left, so that nothing below stays open.",
    "no_answer": "TransportError: on entering, there was no answer",
    "refused": "or its status is not 2xx (with status, headers and body);",
    "broke": "while iterating, the connection broke.",
    "closes": "Close what this transport opened itself.",
    "keeps": "What was passed in stays open.",
    "twice": "Closing twice is allowed.",
    # chat_core.transport.values
    "silence": "`idle` is the longest silence, before the first byte and between any two.",
    "url": "the parts of the URL.",
    "headers": "in order, without those that belong to the connection.",
    "secrets": "They may hold secrets",
    "last": "whether an event ends the answer, for transports whose connection outlives it.",
    "arrives": "status, headers, and events by batch (all that one read brought) or one by one.",
    "raises": "The iteration raises `TransportError` when the connection breaks.",
    "ends": "It ends when the body does, cleanly; whether the answer was complete then is for the provider to say.",
    # chat_core.transport.framing
    "framing": "the bytes are not what the framing promises, an event is too long, or the framing shows a cut.",
}
"""Sentences of the documentation of `chat_core.transport`, or parts of them; of the protocol there is every one."""
