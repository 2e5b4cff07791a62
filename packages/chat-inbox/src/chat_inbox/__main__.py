"""A command that serves an inbox on this machine: `python -m chat_inbox --store chats.db --chat app:chat`."""

from __future__ import annotations

import argparse
import getpass
import importlib
import socket
import sys
from collections.abc import Callable, Sequence
from typing import cast

import anyio
import uvicorn
from chat_core import AnyChat, Chat, ChatError, UsageError
from chat_store import SqliteStore

from chat_inbox.inbox import Inbox
from chat_inbox.token_sign_in import TokenSignIn


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line and serve an inbox until ctrl-C.

    Exits with a message if the chat cannot be imported, the name of the person is blank, the port cannot be opened or
    the store cannot be read.
    """
    options = _create_parser().parse_args(argv)
    try:
        chat = None if options.chat is None else import_chat(options.chat)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        sys.exit(f"--chat {options.chat}: {error}")
    try:
        sign_in = TokenSignIn(options.person)
    except UsageError as error:
        sys.exit(f"--person: {error}")
    try:
        listener = listen(options.port)
    except OSError as error:
        sys.exit(f"--port {options.port}: {error}")
    with listener:
        anyio.run(_serve_inbox, listener, options.store, chat, sign_in)


def _create_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="chat-inbox", description="Serve an inbox in which the waiting tool calls of a store can be decided."
    )
    parser.add_argument("--store", required=True, help="file of a SqliteStore, which is created if it does not exist")
    parser.add_argument("--chat", help="module:name of the chat that continues, or of a function that returns it")
    parser.add_argument(
        "--port", type=int, default=8470, help="port on 127.0.0.1; 0 chooses a free port (default: 8470)"
    )
    parser.add_argument(
        "--person", default=_default_person(), help="name under which decisions are recorded (default: your user name)"
    )
    return parser


def _default_person() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "somebody"


def import_chat(name: str) -> AnyChat:
    """Import the chat that `name` refers to, and return it.

    Args:
        name: `module:attribute`, where the attribute may be dotted. It refers to a chat, or to a function without
            parameters that returns a chat. The current directory is added to the import path.

    Raises:
        ValueError: `name` does not have this form.
        ImportError, AttributeError: the module or the attribute does not exist.
        TypeError: the object is not a chat.
    """
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        msg = f"expected MODULE:NAME, such as app.chats:support, not {name!r}"
        raise ValueError(msg)
    if "" not in sys.path:
        sys.path.insert(0, "")
    found: object = importlib.import_module(module)
    for step in attribute.split("."):
        found = getattr(found, step)
    if callable(found) and not isinstance(found, Chat):
        found = cast("Callable[[], object]", found)()
    if not isinstance(found, Chat):
        msg = f"expected a chat that ChatBuilder built, not {found!r}"
        raise TypeError(msg)
    return cast("AnyChat", found)


def listen(port: int) -> socket.socket:
    """Open a listening socket on 127.0.0.1.

    Args:
        port: port number; 0 lets the operating system choose a free port.

    Returns:
        The socket, which the caller closes. Connections queue up as soon as this function returns.

    Raises:
        OSError: the port is in use or out of range.
    """
    if not 0 <= port < 1 << 16:
        msg = f"the port must be a number from 0 to 65535, not {port}"
        raise OSError(msg)
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener


async def require_readable(store: SqliteStore, path: str) -> None:
    """Exit with a message unless a store can be read.

    Args:
        store: the store.
        path: path of its file, for the message.
    """
    try:
        await store.conversations(limit=1)
    except (OSError, ChatError) as error:
        sys.exit(f"--store {path}: {error}")


async def _serve_inbox(listener: socket.socket, path: str, chat: AnyChat | None, sign_in: TokenSignIn) -> None:
    async with SqliteStore(path) as store:
        await require_readable(store, path)
        inbox = sign_in.protect(
            Inbox(store, chat=chat, authenticate=sign_in.authenticate, may_decide=sign_in.may_decide)
        )
        # The sign-in checks the address of the socket. uvicorn must not replace this address by a proxy header.
        config = uvicorn.Config(inbox, log_level="warning", proxy_headers=False, server_header=False, ws="none")
        address = sign_in.address(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        print(f"The inbox is at {address} (ctrl-C ends it)", flush=True)  # noqa: T201 - the output of a command
        await uvicorn.Server(config).serve(sockets=[listener])
    if chat is not None:
        await chat.aclose()


if __name__ == "__main__":
    main()
