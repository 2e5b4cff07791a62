"""The keys of the configuration: their names, types, defaults and ranges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias, cast, final

from chat_service.settings import MAX_SECONDS, ServiceSettings, least_number

Value: TypeAlias = str | int | float | tuple[str, ...] | None
Kind: TypeAlias = Literal["text", "integer", "number", "texts"]
_KINDS: Final[dict[str, Kind]] = {"str": "text", "int": "integer", "float": "number", "tuple[str, ...]": "texts"}
_NAMES: Final[dict[Kind, str]] = {
    "text": "a string",
    "integer": "a whole number",
    "number": "a number",
    "texts": "an array of strings",
}
_TYPES: Final[dict[str, tuple[type, ...]]] = {"text": (str,), "integer": (int,), "number": (int, float)}


@final
@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A key of the configuration.

    Attributes:
        name: dotted name. The part `*` matches any name, such as the name of a profile.
        kind: type of the value.
        default: value if the key is not set.
        least: smallest valid number, or the smallest number of characters of a text.
        most: largest valid number, or `None` for no limit.
        is_secret: whether the value is a secret, which is never shown.
        choices: the valid values of a text. Without choices, every text is valid.
    """

    name: str
    kind: Kind
    default: Value = None
    least: float = 0
    most: float | None = None
    is_secret: bool = False
    choices: tuple[str, ...] = ()

    def matches(self, name: str) -> bool:
        """Return whether a dotted name refers to this key.

        Args:
            name: the dotted name.
        """
        return name.count(".") == self.name.count(".") and fnmatchcase(name, self.name)

    def problem(self, value: object) -> str | None:
        """Return the reason why a value is invalid for this key, or `None` if it is valid.

        The reason never contains a secret value.

        Args:
            value: the value from a TOML file or an environment variable.
        """
        if not self._has_type(value):
            return f"must be {_NAMES[self.kind]}{self._quote(value)}"
        if self.kind in {"integer", "number"}:
            number = cast("float", value)
            if not self.least <= number <= (number if self.most is None else self.most):
                end = "" if self.most is None else f" and at most {self.most:.12g}"
                return f"must be at least {self.least:g}{end}{self._quote(value)}"
        if self.kind == "text" and len(cast("str", value).strip()) < self.least:
            return "must not be empty"
        if self.choices and value not in self.choices:
            return f"must be {' or '.join(self.choices)}{self._quote(value)}"
        return None

    def _has_type(self, value: object) -> bool:
        if self.kind == "texts":
            return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value))
        if isinstance(value, bool):
            return False
        return isinstance(value, _TYPES[self.kind])

    def _quote(self, value: object) -> str:
        return "" if self.is_secret else f", not {value!r}"


def _server_keys() -> Iterable[ConfigKey]:
    for field in fields(ServiceSettings):
        assert field.default is not MISSING  # noqa: S101 - every setting has a default
        kind = _KINDS[str(field.type)]
        least = least_number(field) if kind in {"integer", "number"} else 0
        most = MAX_SECONDS if kind == "number" else None
        yield ConfigKey(f"server.{field.name}", kind, cast("Value", field.default), least, most)


SECRET_KEY: Final = "server.secret"  # noqa: S105 - the name of a key
"""Name of the secret that signs exports and the forms of the inbox."""
KEYS: Final[tuple[ConfigKey, ...]] = (
    ConfigKey("llm.model", "text", "local"),
    ConfigKey("llm.base_url", "text"),
    ConfigKey("llm.api_key", "text", is_secret=True),
    ConfigKey("llm.*.model", "text"),
    ConfigKey("llm.*.base_url", "text"),
    ConfigKey("llm.*.api_key", "text", is_secret=True),
    ConfigKey("agent.llm", "text"),
    ConfigKey("agent.system_prompt", "text", "You are a helpful assistant."),
    ConfigKey("agent.max_iterations", "integer", 25),
    ConfigKey("agent.max_tokens", "integer", least=1),
    ConfigKey("server.port", "integer", 8080, most=65535),
    ConfigKey("server.person", "text", "owner", least=1),
    ConfigKey("server.store", "text", "sessions.db", least=1),
    ConfigKey(SECRET_KEY, "text", is_secret=True),
    ConfigKey("log.format", "text", "text", choices=("text", "json")),
    ConfigKey("log.level", "text", "warning", choices=("debug", "info", "warning", "error")),
    *_server_keys(),
)
"""All keys of the configuration."""


def find_key(name: str) -> ConfigKey | None:
    """Return the key with a dotted name, or `None` if there is no such key.

    Args:
        name: the dotted name.
    """
    return next((key for key in KEYS if key.matches(name)), None)


def suggest_key(name: str) -> str:
    """Return a hint for an error message about an unknown key. It suggests the most similar key.

    Args:
        name: the unknown dotted name.
    """
    names = {key.name: key.name for key in KEYS}
    parts = name.split(".")
    if len(parts) == 3 and parts[0] == "llm":  # noqa: PLR2004 - the name of a profile is part of the suggestion
        names |= {key.name.replace("*", parts[1]): key.name for key in KEYS if "*" in key.name}
    found = get_close_matches(name, names, n=1)
    return f": did you mean {found[0]}?" if found else ": `config show` lists the keys"
