"""The configuration of the command, from TOML files, environment variables and options, with each value's origin.

A later layer overrides an earlier one, key by key: built-in defaults, the file of the user, the file of the project,
environment variables, and options of the command.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, cast, final

from chat_core import UsageError

from chat_service.config_keys import KEYS, ConfigKey, Value, find_key, suggest_key
from chat_service.settings import ServiceSettings

PROJECT_FILE: Final = "chat-service.toml"
ENVIRONMENT_PREFIX: Final = "CHAT_SERVICE_"
DIRECTORY_VARIABLE: Final = "CHAT_SERVICE_CONFIG_DIR"
_TABLE: Final = re.compile(r"\s*\[+\s*([^\]]+?)\s*\]+")
_ASSIGNMENT: Final = re.compile(r"""\s*((?:[\w.\- ]|"[^"]*"|'[^']*')+?)\s*=""")
_QUOTES: Final = ('"""', "'''")


class ConfigError(UsageError):
    """The configuration cannot be used. The message lists every problem with its file and line, variable or option."""


@final
@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A value of the configuration.

    Attributes:
        key: definition of the key.
        name: dotted name of the key.
        value: the value.
        origin: where the value is set: a file with a line, a variable, an option, or `default`.
        shadowed: origins of the values that this value overrides.
    """

    key: ConfigKey
    name: str
    value: Value
    origin: str
    shadowed: tuple[str, ...] = ()


@final
class Config:
    """The effective configuration.

    Args:
        values: the values, by dotted name.
        problems: descriptions of all problems, each with its origin.
    """

    def __init__(self, values: Mapping[str, ConfigValue], problems: list[str]) -> None:
        self._values = dict(values)
        self.problems: tuple[str, ...] = tuple(problems)

    @classmethod
    def load(
        cls,
        options: Mapping[str, object] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> Config:
        """Read the configuration. Problems do not raise an error until `require_valid()` is called.

        Args:
            options: values of command options, by dotted name. `None` values are ignored.
            environment: environment variables. Default: those of the process.
            directory: the directory with the file of the project. Default: the working directory.
        """
        variables = os.environ if environment is None else environment
        layers = _Layers()
        layers.add_file(user_file(variables))
        layers.add_file((directory or Path()) / PROJECT_FILE)
        layers.add_environment(variables)
        for name, value in (options or {}).items():
            if value is not None:
                layers.set(name, value, f"--{name.rpartition('.')[2]}")
        layers.check_profiles()
        return cls(layers.values, layers.problems)

    def require_valid(self) -> Config:
        """Return this configuration if it has no problems.

        Raises:
            ConfigError: the configuration has problems.
        """
        if self.problems:
            raise ConfigError("\n".join(self.problems))
        return self

    def get(self, name: str) -> Any:  # noqa: ANN401 - the type depends on the key
        """Return a value, or `None` if it is not set.

        Args:
            name: dotted name of the key.
        """
        found = self._values.get(name)
        return None if found is None else found.value

    def values(self) -> list[ConfigValue]:
        """Return all values, sorted by name."""
        return [self._values[name] for name in sorted(self._values)]

    def service_settings(self) -> ServiceSettings:
        """Return the settings of the service."""
        return ServiceSettings(**{field.name: self.get(f"server.{field.name}") for field in fields(ServiceSettings)})

    def profile(self) -> str:
        """Return the dotted name of the model's table: `llm`, or `llm.NAME` if the value of `agent.llm` is `NAME`."""
        name = self.get("agent.llm")
        return "llm" if name is None else f"llm.{name}"


@final
class _Layers:
    """The values and problems that are collected while the layers of a configuration are read.

    Attributes:
        values: values read so far, by dotted name.
        problems: problems found so far.
    """

    def __init__(self) -> None:
        self.values: dict[str, ConfigValue] = {
            key.name: ConfigValue(key, key.name, key.default, "default") for key in KEYS if "*" not in key.name
        }
        self.problems: list[str] = []

    def set(self, name: str, value: object, origin: str) -> None:
        """Set a value, or record a problem."""
        key = find_key(name)
        if key is None:
            self.problems.append(f"{origin}: unknown key {name}{suggest_key(name)}")
            return
        if problem := key.problem(value):
            self.problems.append(f"{origin}: {name} {problem}")
            return
        before = self.values.get(name)
        shadowed = () if before is None else (*before.shadowed, before.origin)
        stored = tuple(cast("list[str]", value)) if key.kind == "texts" else cast("Value", value)
        self.values[name] = ConfigValue(key, name, stored, origin, shadowed)

    def add_file(self, path: Path) -> None:
        """Add the values of a TOML file, if the file exists."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            self.problems.append(f"{path}: the file cannot be read: {error}")
            return
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            self.problems.append(f"{path}: the file is not TOML: {error}")
            return
        lines = find_lines(text)
        for name, value in _flatten(document):
            key = find_key(name)
            if key is not None and key.is_secret and is_readable_by_others(path):
                self.problems.append(
                    f"{path}:{lines.get(name, 1)}: {name} is a secret, and others can read this file: "
                    "run chmod 600, or store the secret with `secret set`"
                )
                continue
            self.set(name, value, f"{path}:{lines.get(name, 1)}")

    def add_environment(self, variables: Mapping[str, str]) -> None:
        """Add the values of environment variables. Secrets are read when they are used."""
        for variable in sorted(variables):
            if not variable.startswith(ENVIRONMENT_PREFIX) or variable == DIRECTORY_VARIABLE:
                continue
            name = self._name_of(variable)
            key = find_key(name)
            if key is None:
                self.problems.append(f"{variable}: this variable sets no known key{suggest_key(name)}")
            elif not key.is_secret:
                self.set(name, _parse_variable(variables[variable], key), variable)

    def _name_of(self, variable: str) -> str:
        """Return the dotted name of the key that an environment variable sets."""
        names = [key.name for key in KEYS if "*" not in key.name] + [*self.values]
        profiles = {name.split(".")[1] for name in self.values if name.count(".") == 2}  # noqa: PLR2004 - `llm.NAME.key`
        names += [key.name.replace("*", profile) for key in KEYS if "*" in key.name for profile in profiles]
        found = next((name for name in names if variable_name(name) == variable), None)
        return found or variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".", 1)

    def check_profiles(self) -> None:
        """Record a problem if `agent.llm` names a profile without a model."""
        profile = self.values["agent.llm"]
        if profile.value is not None and f"llm.{profile.value}.model" not in self.values:
            models = [name.split(".")[1] for name in self.values if name.count(".") == 2 and name.endswith(".model")]  # noqa: PLR2004 - `llm.NAME.key`
            known = ", ".join(sorted(models)) or "none"
            self.problems.append(
                f"{profile.origin}: agent.llm is {profile.value!r}, but no table [llm.{profile.value}] has a model; "
                f"known profiles: {known}"
            )


def user_file(environment: Mapping[str, str]) -> Path:
    """Return the path of the configuration file of the user.

    Args:
        environment: environment variables.
    """
    if directory := environment.get(DIRECTORY_VARIABLE):
        return Path(directory) / "config.toml"
    base = environment.get("XDG_CONFIG_HOME") or environment.get("APPDATA")
    return (Path(base) if base else Path.home() / ".config") / "chat-service" / "config.toml"


def variable_name(name: str) -> str:
    """Return the environment variable that sets a key.

    Args:
        name: dotted name of the key.
    """
    return ENVIRONMENT_PREFIX + re.sub(r"\W", "_", name).upper()


def is_readable_by_others(path: Path) -> bool:
    """Return whether other users of this machine can read a file.

    On Windows, file modes do not show this: return False.

    Args:
        path: path of the file.
    """
    return os.name == "posix" and bool(path.stat().st_mode & 0o077)


def find_lines(text: str) -> dict[str, int]:
    """Return the line of each key of a TOML text, by dotted name.

    Args:
        text: a valid TOML text.
    """
    found: dict[str, int] = {}
    table, closing = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        if closing:
            closing = "" if closing in line else closing
            continue
        if match := _TABLE.match(line):
            table = _remove_quotes(match[1]) + "."
            found.setdefault(table[:-1], number)
        elif match := _ASSIGNMENT.match(line):
            found.setdefault(table + _remove_quotes(match[1]), number)
        closing = next((quote for quote in _QUOTES if line.count(quote) == 1), "")
    return found


def _remove_quotes(name: str) -> str:
    return ".".join([part.strip().strip("\"'") for part in name.split(".")])


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(cast("Mapping[str, object]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _parse_variable(text: str, key: ConfigKey) -> object:
    """Convert the text of an environment variable to the type of its key. A malformed number stays a string."""
    if key.kind == "texts":
        return [item.strip() for item in text.split(",") if item.strip()]
    if key.kind == "text":
        return text
    try:
        return int(text) if key.kind == "integer" else float(text)
    except ValueError:
        return text
