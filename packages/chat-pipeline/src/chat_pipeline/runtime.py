"""The base class of runtimes, and the two runtimes that every pipeline has: `passthrough` and `transform`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final, TypeAlias, cast, final

from chat_core.arguments import require_text, require_type
from chat_core.json import JsonValue

from chat_pipeline.errors import TaskError
from chat_pipeline.templates import TemplateSyntaxError, has_expression, parse_expression

ConfigProblem: TypeAlias = tuple[tuple[str | int, ...], str]
"""The path of a value in a task's configuration, and a description of the problem with this value."""

TEXT: Final = "a string"
INTEGER: Final = "an integer"
TABLE: Final = "a table"
ANY: Final = "a value"
_TYPES: Final[Mapping[str, type]] = {TEXT: str, INTEGER: int, TABLE: dict, ANY: object}


@final
@dataclass(frozen=True, slots=True)
class ConfigField:
    """A key of a runtime's configuration.

    Attributes:
        kind: `"a string"`, `"an integer"`, `"a table"` or `"a value"`.
        required: whether the key must be present.
        choices: the allowed strings. Empty if every string is allowed.
    """

    kind: str = TEXT
    required: bool = True
    choices: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCall:
    """One execution of a task.

    Attributes:
        run_id: id of the run.
        task_id: id of the task.
        config: configuration of the task, in which templates are replaced by their values.
        context: the input of the run and the outputs of the task's dependencies: `{"input": …, "tasks": {id: {"output":
            …}}}`.
        filesystem: names of the folders that the task may use.
        owner: the user who started the run, or None.
    """

    run_id: str
    task_id: str
    config: Mapping[str, JsonValue]
    context: Mapping[str, JsonValue]
    filesystem: tuple[str, ...] = ()
    owner: str | None = None

    @property
    def key(self) -> str:
        """A key that is unique to this task of this run, and the same in every attempt."""
        return f"{self.run_id}/{self.task_id}"

    def text(self, name: str) -> str:
        """Return a string of the configuration, or an empty string if the configuration lacks the key."""
        require_text(name=name)
        return cast("str", self.config.get(name, ""))


@final
@dataclass(frozen=True, slots=True)
class Waiting:
    """The result of a task that waits, for example for an approval.

    Attributes:
        until: time at which the task must be tried again even without a decision, or None.
    """

    until: datetime | None = None


class Runtime(ABC):
    """Base class of runtimes, which execute tasks. A workflow can use only the runtimes that are passed to `Pipelines`.

    If a worker dies during an attempt, the attempt is repeated. Therefore, `run()` must be idempotent, or pass
    `TaskCall.key` to a system that ignores repeated requests with the same key.
    """

    name: ClassVar[str]
    """Name of the runtime in workflow files."""
    fields: ClassVar[Mapping[str, ConfigField]] = {}
    """The keys of the configuration."""
    uses_network: ClassVar[bool] = False
    """Whether tasks of this runtime need the capability `network`."""

    @property
    def folders(self) -> frozenset[str] | None:
        """Names of the folders that tasks may use, or None if the runtime uses no files."""
        return None

    def check(self, config: Mapping[str, JsonValue]) -> Iterator[ConfigProblem]:
        """Yield the problems of a configuration in a workflow file. Keys and types are checked separately.

        Args:
            config: the configuration. Its strings may be templates.
        """
        del config
        yield from ()

    def prepare(self, config: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the configuration whose templates are evaluated before `run()`.

        Args:
            config: the checked configuration from the file.
        """
        return config

    @abstractmethod
    async def run(self, call: TaskCall) -> JsonValue | Waiting:
        """Execute a task. Return its output, or `Waiting` if it waits for a decision.

        Raises:
            TaskError: the task failed.
        """

    async def end_waiting(self, run_id: str, task_id: str) -> None:
        """Close what a task waits for, because its run was cancelled. By default, nothing is done.

        Args:
            run_id: id of the run.
            task_id: id of the task, which may belong to another runtime.
        """
        del run_id, task_id


def check_config(
    fields: Mapping[str, ConfigField], config: Mapping[str, JsonValue], *, rendered: bool = False
) -> Iterator[ConfigProblem]:
    """Yield a problem for each unknown or missing key, and for each wrong value.

    Args:
        fields: the keys that the runtime knows.
        config: the configuration.
        rendered: whether templates were replaced by their values. If not, values with templates are not checked.
    """
    for key in config:
        if key not in fields:
            known = ", ".join(sorted(fields)) or "none"
            yield (key,), f"unknown key {key!r} in config; known keys: {known}"
    for key, expected in fields.items():
        if key not in config:
            if expected.required:
                yield (), f"config needs the key {key!r}"
            continue
        value = config[key]
        if not rendered and has_expression(value):
            continue
        if not isinstance(value, _TYPES[expected.kind]) or (expected.kind == INTEGER and isinstance(value, bool)):
            yield (key,), f"{key!r} in config must be {expected.kind}, not {type(value).__name__}"
        elif expected.choices and value not in expected.choices:
            yield (key,), f"{key!r} in config must be one of {', '.join(expected.choices)}, not {value!r}"


@final
class Passthrough(Runtime):
    """The runtime `passthrough`, which returns the input of the run and the outputs of all dependencies."""

    name = "passthrough"

    async def run(self, call: TaskCall) -> JsonValue:
        """Return the context of the task."""
        return dict(call.context)


@final
class Transform(Runtime):
    """The runtime `transform`, which computes its output from the outputs of other tasks.

    The configuration has exactly one of three keys: `path` is an expression without braces, `template` is a text with
    expressions, and `mappings` is a table of expressions. The output has the type of its expression.
    """

    name = "transform"
    fields: ClassVar[Mapping[str, ConfigField]] = {
        "path": ConfigField(ANY, required=False),
        "template": ConfigField(ANY, required=False),
        "mappings": ConfigField(TABLE, required=False),
    }

    def check(self, config: Mapping[str, JsonValue]) -> Iterator[ConfigProblem]:
        """Yield a problem if not exactly one key is present, and for each invalid expression."""
        require_type("config", config, Mapping, "a mapping of keys to values")
        if len(config.keys() & self.fields.keys()) != 1:
            yield (), "config needs exactly one of the keys 'path', 'template' and 'mappings'"
        if not isinstance(config.get("template", ""), str):
            yield ("template",), f"'template' in config must be a string, not {type(config['template']).__name__}"
        mappings = config.get("mappings", {})
        expressions: list[tuple[tuple[str, ...], JsonValue]] = [(("path",), config.get("path", '""'))]
        if isinstance(mappings, dict):
            expressions += [(("mappings", key), value) for key, value in mappings.items()]
        for path, value in expressions:
            if not isinstance(value, str):
                yield path, f"{path[-1]!r} must be an expression, such as fetch.output.items"
                continue
            try:
                parse_expression(value)
            except TemplateSyntaxError as error:
                yield path, str(error)

    def prepare(self, config: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return a configuration in which the expressions are templates."""
        require_type("config", config, Mapping, "a mapping of keys to values")
        mappings = config.get("mappings")
        if isinstance(mappings, dict):
            return {"mappings": {key: f"{{{{ {value} }}}}" for key, value in mappings.items()}}
        return {"path": f"{{{{ {config['path']} }}}}"} if "path" in config else config

    async def run(self, call: TaskCall) -> JsonValue:
        """Return the value of the only key in the configuration."""
        return next(iter(call.config.values()))


def require_config(runtime: Runtime, config: Mapping[str, JsonValue]) -> None:
    """Raise if a configuration has a problem after its templates were replaced.

    Args:
        runtime: the runtime of the task.
        config: the configuration, with the values of its templates.

    Raises:
        TaskError: the configuration has a problem.
    """
    problems = [message for _, message in check_config(runtime.fields, config, rendered=True)]
    if problems:
        raise TaskError("; ".join(problems))
