"""Secrets of the configuration. Each use reads them again from the keyring, an environment variable, or a file."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, Final, Protocol, cast, final

import anyio.to_thread
from chat_core import UsageError

from chat_service.config import Config, variable_name

SERVICE: Final = "chat-service"
"""Name of the service under which secrets are stored in the keyring."""
_LOG: Final = logging.getLogger("chat_service")
_REFUSED_BACKENDS: Final = ("keyring.backends.fail", "keyring.backends.null", "keyrings.alt")
"""Modules of keyring backends that store nothing, or that store secrets in plain text."""


class SecretError(UsageError):
    """A secret is missing or cannot be stored. The message never contains the secret."""


class Keyring(Protocol):
    """Protocol for the keyring backend functions that this module uses."""

    def get_password(self, service: str, username: str) -> str | None:
        """Return a stored secret, or `None`.

        Args:
            service: name of the service.
            username: name of the secret.
        """
        ...

    def set_password(self, service: str, username: str, password: str) -> None:
        """Store a secret.

        Args:
            service: name of the service.
            username: name of the secret.
            password: the secret.
        """
        ...


def find_keyring() -> tuple[Keyring | None, str]:
    """Return the operating system's keyring with its module name, or `None` with the reason why there is none."""
    try:
        keyring: Any = import_module("keyring")  # an optional dependency
    except ImportError:
        return None, "the package keyring is not installed: run `pip install chat-service[keyring]`"
    backend = keyring.get_keyring()
    module = type(backend).__module__
    if module.startswith(_REFUSED_BACKENDS):
        return None, f"this machine has no keyring that protects secrets: {module} stores nothing, or plain text"
    return cast("Keyring", backend), module


@final
class Secrets:
    """The secrets of a configuration. Each read accesses the sources again, so a secret can be replaced at any time.

    Args:
        load: function that reads the configuration.
        environment: environment variables. Default: those of the process.
        find: function that returns the keyring, or `None` with a reason. Default: `find_keyring`.
    """

    def __init__(
        self,
        load: Callable[[], Config] = Config.load,
        *,
        environment: Mapping[str, str] | None = None,
        find: Callable[[], tuple[Keyring | None, str]] | None = None,
    ) -> None:
        self._load = load
        self._environment = os.environ if environment is None else environment
        self._find = find or find_keyring
        self._warned: set[str] = set()

    def __repr__(self) -> str:
        return "Secrets(...)"

    def read(self, name: str) -> tuple[str, str] | None:
        """Return a secret with its origin, or `None` if no source contains it. This function blocks.

        Args:
            name: dotted name of the key.
        """
        backend, reason = self._find()
        if backend is not None:
            try:
                found = backend.get_password(SERVICE, name)
            except Exception as error:  # noqa: BLE001 - a backend may raise anything, such as for a locked keyring
                self._warn(f"the keyring {reason} cannot be read: {type(error).__name__}")
            else:
                if found:
                    return found, "keyring"
        variable = variable_name(name)
        if value := self._environment.get(variable):
            return value, variable
        for item in self._load().values():
            if item.name == name and isinstance(item.value, str):
                self._warn(f"{item.origin}: {name} is stored in plain text: store it with `secret set {name}`")
                return item.value, item.origin
        return None

    def store(self, name: str, value: str) -> None:
        """Store a secret in the keyring. This function blocks.

        Args:
            name: dotted name of the key.
            value: the secret.

        Raises:
            SecretError: there is no keyring that protects secrets, or it refused the secret.
        """
        backend, reason = self._find()
        if backend is None:
            msg = f"{name} was not stored: {reason}; set the environment variable {variable_name(name)} instead"
            raise SecretError(msg)
        try:
            backend.set_password(SERVICE, name, value)
        except Exception as error:  # noqa: BLE001 - a backend may raise anything, even with the secret in its text
            msg = f"{name} was not stored: the keyring {reason} raised {type(error).__name__}"
            raise SecretError(msg) from None

    def getter(self, name: str) -> Callable[[], Awaitable[str]]:
        """Return an async function that reads a secret, to call before each request to a model.

        Args:
            name: dotted name of the key.
        """

        async def get() -> str:
            found = await anyio.to_thread.run_sync(self.read, name)
            if found is None:
                msg = f"the secret {name} is not set any more: store it with `secret set {name}`"
                raise SecretError(msg)
            return found[0]

        return get

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _LOG.warning("%s", text)
