"""The default transport of realtime sessions."""

from __future__ import annotations

from importlib import import_module

from chat_core import UsageError
from chat_core.transport import DuplexTransport


def duplex_transport(model: str) -> DuplexTransport:
    """Return a new transport from `chat-transport-websockets`. Sessions close their own connections.

    Args:
        model: name of the class that needs the transport, for the error message.

    Raises:
        UsageError: `chat-transport-websockets` is not installed.
    """
    # Optional: converse() needs no transport.
    try:
        module = import_module("chat_transport_websockets")
    except ImportError as error:
        msg = f"{model} needs a transport: install chat-realtime[websocket], or pass transport=…"
        raise UsageError(msg) from error
    transport: DuplexTransport = module.WebSocketTransport()
    return transport
