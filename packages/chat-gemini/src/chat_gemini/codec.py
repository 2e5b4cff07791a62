"""The Gemini wire, without input or output: bodies to send, answers to read.

What a request says is in `encode.py`, `parts.py` and `schema.py`; what an answer says in `decode.py`, `answer.py`,
`calls.py` and `usage.py`; embeddings and counts are in `embeddings.py`.
"""

from __future__ import annotations

from chat_gemini.decode import StreamDecoder, decode
from chat_gemini.embeddings import decode_count, decode_embeddings, encode_count, encode_embeddings
from chat_gemini.encode import encode, encode_conversation, encode_tools
from chat_gemini.schema import InexpressibleError, json_form, openapi_form

__all__ = [
    "InexpressibleError",
    "StreamDecoder",
    "decode",
    "decode_count",
    "decode_embeddings",
    "encode",
    "encode_conversation",
    "encode_count",
    "encode_embeddings",
    "encode_tools",
    "json_form",
    "openapi_form",
]
