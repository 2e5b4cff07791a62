"""Commands about vendors: `chat models`, `chat keys` and `chat embed`."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from typing import Final

import anyio
import chat_core
import click
from chat_core import ChatBuilder, UsageError
from chat_core.models import installed
from chat_core.wire.connection import MissingKeyError

from chat_terminal.command_words import require_no_key
from chat_terminal.inputs import read_piped_input
from chat_terminal.keys import KeyFile
from chat_terminal.models import COMPLETIONS, LOCAL, build_embedder

_NAME_WIDTH: Final = 24


@click.command(help="List the vendors whose models can be named with --model, and where their keys come from.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def models(*, as_json: bool) -> int:
    """Print each vendor with the source of its key, and return the exit code. No request is sent.

    Args:
        as_json: whether to print one JSON object per vendor.
    """
    stored = KeyFile().names()
    for vendor in installed():
        ready, detail = anyio.run(_describe_vendor, vendor, stored)
        if as_json:
            click.echo(json.dumps({"vendor": vendor, "ready": ready, "detail": detail}, ensure_ascii=False))
        else:
            name = LOCAL if vendor == LOCAL else f"{vendor}:NAME"
            click.echo(f"{'✔' if ready else '✖'} {name:{_NAME_WIDTH}} {detail}")
    return 0


async def _describe_vendor(vendor: str, stored: Collection[str]) -> tuple[bool, str]:
    """Return whether the models of a vendor can be used now, and where the key comes from or what is missing."""
    if vendor == LOCAL:
        return True, "a small model in this process, without a key; local:FILE.gguf for other weights"
    if vendor == COMPLETIONS:
        return True, "any Chat Completions server, with --base-url; key in CHAT_API_KEY"
    try:
        provider = chat_core.model(f"{vendor}:model")
    except MissingKeyError as error:
        if vendor in stored:
            return True, "stored key"
        return False, f"no key: chat keys set {vendor}, or set {' or '.join(error.variables)}"
    except UsageError as error:
        return False, str(error).partition(": ")[0]
    close = getattr(provider, "aclose", None)
    if close is not None:
        await close()
    return True, "ready: its settings come from the environment, or need no key"


@click.group(help="Store API keys, in a file that only you can read.")
def keys() -> None:
    """Manage stored API keys."""


@keys.command("set", help="Store the key of a vendor, such as openai. The key is typed or piped, and never printed.")
@click.argument("vendor")
def set_key(vendor: str) -> int:
    """Store the key of a vendor, and return the exit code.

    Args:
        vendor: vendor name.
    """
    known = [name for name in installed() if name not in (LOCAL, COMPLETIONS)]
    if vendor not in known:
        msg = f"there is no such vendor with a key; the vendors are {', '.join(known)}"  # the argument may be a key
        raise click.UsageError(msg)
    prompted = sys.stdin.isatty()
    key = (click.prompt("Key", hide_input=True, err=True) if prompted else sys.stdin.readline()).strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        msg = "a key must be visible ASCII characters without spaces; nothing was stored"
        raise click.UsageError(msg)
    KeyFile().set(vendor, key)
    return 0


@keys.command("list", help="List the vendors with a stored key.")
def list_keys() -> int:
    """Print the names of the stored keys, and return the exit code."""
    for name in KeyFile().names():
        click.echo(name)
    return 0


@keys.command("remove", help="Remove the stored key of a vendor.")
@click.argument("vendor")
def remove_key(vendor: str) -> int:
    """Remove the stored key of a vendor, and return the exit code.

    Args:
        vendor: vendor name.
    """
    if not KeyFile().remove(vendor):
        msg = f"there is no stored key of {vendor!r}; `chat keys list` lists them"
        raise click.UsageError(msg)
    return 0


@keys.command("path", help="Print the path of the file with the keys.")
def print_key_path() -> int:
    """Print the path of the key file, and return the exit code."""
    click.echo(KeyFile().path)
    return 0


@click.command(help="Compute the embedding of a text, and print it as a JSON list of numbers.")
@click.argument("words", nargs=-1)
@click.option("--model", "-m", required=True, help="Embedding model: VENDOR:NAME or python:MODULE:NAME.")
def embed(*, words: tuple[str, ...], model: str) -> int:
    """Print the embedding of a text, and return the exit code.

    Args:
        words: words of the text. Without words, the piped input is the text.
        model: name of the embedding model.
    """
    require_no_key(words)
    text = " ".join(words) or read_piped_input(sys.stdin)
    if not text:
        msg = 'there is no text: chat embed --model VENDOR:NAME "a text", or pipe it'
        raise click.UsageError(msg)
    vector = anyio.run(_embed, model, text)
    click.echo(json.dumps(vector))
    return 0


async def _embed(model: str, text: str) -> list[float]:
    chat = ChatBuilder().with_model(build_embedder(model)).with_embeddings().build()
    try:
        answer = await chat.embed([text])
    finally:
        await chat.aclose()
    return list(answer.vectors[0])


COMMANDS: Final = (models, keys, embed)
"""The commands of this module, for the group `chat`."""
