"""The transport protocol, its request and response values, and parsers that split bodies into events.

A transport that wraps another transport is a middleware; `LoggingTransport` is an example.
"""

from __future__ import annotations

from chat_core.transport.aws_events import AwsEvents
from chat_core.transport.duplex import DuplexConnection, DuplexTransport
from chat_core.transport.framing import Framer, framed, framer
from chat_core.transport.json_array import JsonArray
from chat_core.transport.json_lines import JsonLines
from chat_core.transport.limits import MAX_BODY_BYTES, MAX_ERROR_BYTES, MAX_EVENT_BYTES, MAX_STREAM_BYTES
from chat_core.transport.logging import LoggingTransport
from chat_core.transport.middleware import Outcome, TransportExchange, TransportMiddleware
from chat_core.transport.protocol import Transport
from chat_core.transport.sse import SseParser
from chat_core.transport.values import (
    Event,
    EventStream,
    Framing,
    Headers,
    Request,
    Response,
    Scheme,
    Timeouts,
    never_last,
    redact,
)

__all__ = [
    "MAX_BODY_BYTES",
    "MAX_ERROR_BYTES",
    "MAX_EVENT_BYTES",
    "MAX_STREAM_BYTES",
    "AwsEvents",
    "DuplexConnection",
    "DuplexTransport",
    "Event",
    "EventStream",
    "Framer",
    "Framing",
    "Headers",
    "JsonArray",
    "JsonLines",
    "LoggingTransport",
    "Outcome",
    "Request",
    "Response",
    "Scheme",
    "SseParser",
    "Timeouts",
    "Transport",
    "TransportExchange",
    "TransportMiddleware",
    "framed",
    "framer",
    "never_last",
    "redact",
]
