"""Contract of a transport, as sentences from the documentation that the scenarios check."""

from __future__ import annotations

from typing import Final

CLAUSES: Final = {
    # chat_core.transport.protocol
    "moves": "Protocol for objects that send requests to a server and return its responses.",
    "shared": "A transport is safe to share between tasks.",
    "loops": "It may be used from several event loops, one after another.",
    "limits": (
        "It limits the size of received bodies and streams after decompression, and has an option for each limit."
    ),
    "whole": "Send a request and return the complete response, with any status.",
    "not_whole": "TransportError: no complete response arrived.",
    "address": "UsageError: the host or the path contains a control character. Nothing was sent.",
    "listens": "Send a request and stream the events of its response.",
    "leaves": "Exiting the context closes the stream at once.",
    "cuts": "pass the batches of `framed()`, which parses the body by `request.framing`, to the `EventStream`.",
    "closes_below": "They close these batches on exit, which closes the body too.",
    "no_answer": "TransportError: on entry, no response arrived,",
    "refused": "or its status is not 2xx. The error for a status has the status, headers and body of the response.",
    "broke": "During iteration, the connection broke.",
    "closes": "Close the connections that this transport opened.",
    "keeps": "A client or session that the caller passed in stays open.",
    "twice": "May be called more than once.",
    # chat_core.transport.values
    "silence": "idle: seconds without any received data, before the first byte or between two bytes;",
    "url": "host: the host, with a port unless it is the default port of the scheme.",
    "headers": "the headers, in order, without those of the connection.",
    "secrets": "They may hold secrets",
    "last": "function that returns whether an event is the last one of its response.",
    "arrives": "`batches()` yields the events of each read together; iterating the stream yields them one by one.",
    "raises": "Iteration raises `TransportError` if the connection breaks.",
    "ends": "It stops when the body ends; the provider decides whether the response is complete.",
    # chat_core.transport.framing
    "framing": "the data violates the framing, an event exceeds the limit, or the body is truncated.",
}
"""Sentences, or parts of them, from the documentation of `chat_core.transport`. All sentences of `Transport` occur."""
