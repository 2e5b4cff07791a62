"""The commands `config show`, `config check` and `secret set`."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import Any

from chat_service.config import Config
from chat_service.config_keys import ConfigKey, Value, find_key, suggest_key
from chat_service.secret_values import SecretError, Secrets


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands to a parser.

    Args:
        parser: the parser of `python -m chat_service`.
    """
    commands: Any = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    config = commands.add_parser("config", help="show or check the configuration").add_subparsers(
        dest="action", required=True
    )
    show = config.add_parser("show", help="print each key with its value")
    show.add_argument("--origin", action="store_true", help="also print where each value is set")
    config.add_parser("check", help="report everything that is wrong in the configuration")
    secret = commands.add_parser("secret", help="store a secret").add_subparsers(dest="action", required=True)
    store = secret.add_parser("set", help="read a secret from the terminal or standard input, and store it")
    store.add_argument("name", help="key of the secret, such as llm.api_key")


def run_command(options: argparse.Namespace) -> int:
    """Run a command, and return its exit status.

    Args:
        options: the parsed command line.
    """
    if options.command == "secret":
        return _store_secret(options.name)
    config = Config.load()
    for problem in config.problems:
        _print(problem, file=sys.stderr)
    if options.action == "check":
        if not config.problems:
            _print("The configuration is valid.")
        return 1 if config.problems else 0
    _show(config, with_origin=options.origin)
    return 1 if config.problems else 0


def _show(config: Config, *, with_origin: bool) -> None:
    secrets = Secrets(lambda: config)
    for item in config.values():
        value, origin = _format(item.key, item.value), item.origin
        if item.key.is_secret:
            found = secrets.read(item.name)
            value, origin = ("(set)", found[1]) if found else ("(not set)", "default")
        overridden = f", overrides {', '.join(item.shadowed)}" if item.shadowed else ""
        _print(f"{item.name} = {value}{f'  # {origin}{overridden}' if with_origin else ''}")


def _format(key: ConfigKey, value: Value) -> str:
    if value is None:
        return "(not set)"
    return repr(list(value)) if key.kind == "texts" and isinstance(value, tuple) else repr(value)


def _store_secret(name: str) -> int:
    key = find_key(name)
    if key is None or not key.is_secret or "*" in name:
        text = f"{name} is not a secret" if key else f"there is no key {name}{suggest_key(name)}"
        _print(f"{text}. Secrets are llm.api_key, llm.PROFILE.api_key and server.secret.", file=sys.stderr)
        return 1
    value = getpass.getpass(f"{name}: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not value:
        _print(f"{name} was not stored: the value is empty.", file=sys.stderr)
        return 1
    try:
        Secrets().store(name, value)
    except SecretError as error:
        _print(str(error), file=sys.stderr)
        return 1
    _print(f"{name} is stored in the keyring.")
    return 0


def _print(text: str, **options: Any) -> None:  # noqa: ANN401 - the options of print()
    print(text, flush=True, **options)  # noqa: T201 - the output of a command
