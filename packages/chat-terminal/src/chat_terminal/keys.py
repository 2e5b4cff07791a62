"""API keys that the user has stored for `chat`, in a file that only this user can read."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Final, cast, final

import click

KEYS_VARIABLE: Final = "CHAT_KEYS"
"""Environment variable with the path of the key file. Default: `keys.json` in the application directory."""


@final
class KeyFile:
    """A JSON file with API keys by vendor name, such as `openai`.

    Args:
        path: the file; None selects the file that `CHAT_KEYS` names, or the default.
    """

    def __init__(self, path: Path | None = None) -> None:
        named = os.environ.get(KEYS_VARIABLE)
        self.path: Path = path or (Path(named) if named else Path(click.get_app_dir("chat-core")) / "keys.json")

    def names(self) -> list[str]:
        """Return the vendor names with a stored key, sorted.

        Raises:
            click.ClickException: the file cannot be read, or other users can read it.
        """
        return sorted(self._load())

    def get(self, vendor: str) -> str | None:
        """Return the stored key of a vendor, or None.

        Args:
            vendor: vendor name.

        Raises:
            click.ClickException: the file cannot be read, or other users can read it.
        """
        return self._load().get(vendor)

    def set(self, vendor: str, key: str) -> None:
        """Store a key, and replace the previous key of the vendor.

        Args:
            vendor: vendor name.
            key: API key to store.

        Raises:
            click.ClickException: the file cannot be read, or other users can read it.
        """
        self._save({**self._load(), vendor: key})

    def remove(self, vendor: str) -> bool:
        """Remove the key of a vendor, and return whether there was one.

        Args:
            vendor: vendor name.

        Raises:
            click.ClickException: the file cannot be read, or other users can read it.
        """
        keys = self._load()
        if vendor not in keys:
            return False
        del keys[vendor]
        self._save(keys)
        return True

    def _load(self) -> dict[str, str]:
        try:
            with self.path.open(encoding="utf-8") as file:
                mode = os.fstat(file.fileno()).st_mode
                if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                    msg = f"other users can access the keys in {self.path}: run chmod 600 {self.path}"
                    raise click.ClickException(msg)
                keys: object = json.load(file)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            # The text of a JSON error could contain a key.
            reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
            msg = f"the keys in {self.path} cannot be read: {reason}"
            raise click.ClickException(msg) from None
        if not isinstance(keys, dict) or not all(
            isinstance(key, str) for key in cast("dict[str, object]", keys).values()
        ):
            msg = f"the keys in {self.path} cannot be read: it must be a JSON object of texts"
            raise click.ClickException(msg)
        return cast("dict[str, str]", keys)

    def _save(self, keys: dict[str, str]) -> None:
        """Replace the file atomically. It is never readable by other users."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(keys, file, indent=2)
            file.write("\n")
        temporary.replace(self.path)
