"""Encodings of a run for front ends, and the input that front ends send back."""

from __future__ import annotations

from chat_streams.agui import AGUI, AGUIEncoder, AGUIRequest
from chat_streams.client_input import (
    AppliedInput,
    ClientInput,
    DecisionAction,
    PostedCall,
    PostedDecision,
    PostedMessage,
    PostedResult,
    apply_input,
    conversation_id,
)
from chat_streams.encoding import EventEncoder, Send, encode_run, send_failure, send_run
from chat_streams.errors import ClientInputError, ErrorCode, RunFailedError, describe_error
from chat_streams.open_waits import Decider, StoredMessages, open_waits, wait_key
from chat_streams.plain import PlainEncoder
from chat_streams.plain_request import PlainDecision, PlainRequest, apply_plain_request, read_plain_request
from chat_streams.shown_messages import ShownMessage, message_id, shown_messages

__all__ = [
    "AGUI",
    "AGUIEncoder",
    "AGUIRequest",
    "AppliedInput",
    "ClientInput",
    "ClientInputError",
    "Decider",
    "DecisionAction",
    "ErrorCode",
    "EventEncoder",
    "PlainDecision",
    "PlainEncoder",
    "PlainRequest",
    "PostedCall",
    "PostedDecision",
    "PostedMessage",
    "PostedResult",
    "RunFailedError",
    "Send",
    "ShownMessage",
    "StoredMessages",
    "apply_input",
    "apply_plain_request",
    "conversation_id",
    "describe_error",
    "encode_run",
    "message_id",
    "open_waits",
    "read_plain_request",
    "send_failure",
    "send_run",
    "shown_messages",
    "wait_key",
]
