"""Vercel's UI message stream, version 1, which `useChat` of the AI SDK reads."""

from chat_streams.vercel.chunks import HEADERS
from chat_streams.vercel.encoder import VercelEncoder
from chat_streams.vercel.request import VercelRequest, apply_request, read_request
from chat_streams.vercel.ui_messages import stored_chunks, ui_messages

__all__ = [
    "HEADERS",
    "VercelEncoder",
    "VercelRequest",
    "apply_request",
    "read_request",
    "stored_chunks",
    "ui_messages",
]
