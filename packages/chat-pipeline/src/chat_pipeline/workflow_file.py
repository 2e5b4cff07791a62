"""A parser for workflow files, which reports all problems of a file at once, with their lines."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast, final

from chat_core.arguments import require_path, require_text
from chat_core.errors import UsageError
from chat_core.json import JsonValue, find_fault, is_deeper

from chat_pipeline._graph import sort_tasks
from chat_pipeline._toml_lines import find_lines, line_of
from chat_pipeline.definition import RETRY_DELAY_MS, RUN_SECONDS, TASK_SECONDS, Task, Workflow
from chat_pipeline.errors import Problem, WorkflowFileError
from chat_pipeline.runtime import Runtime, check_config
from chat_pipeline.schedule import MissedRuns, Schedule
from chat_pipeline.templates import ROOTS, TemplateSyntaxError, parse_template, texts_of

MAX_BYTES: Final = 1024 * 1024
"""Maximum size of a workflow file."""
MAX_TASKS: Final = 10_000
"""Maximum number of tasks of a workflow."""
MAX_RETRIES: Final = 100
"""Maximum value of `retry_attempts`."""
MAX_SECONDS: Final = 86_400.0
"""Maximum value of `timeout_secs`."""
MAX_LEVELS: Final = 64
"""Maximum nesting of a workflow file."""

_NAME: Final = re.compile(r"[a-z0-9_-]{1,64}\Z")
_EVENT: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_TASK_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}\Z")
_TOML_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)\Z| \(at end of document\)\Z")
_LONG_NUMBER: Final = re.compile(r"(?<![0-9_])[0-9][0-9_]{4000,}")
_HINTS: Final = {
    "Invalid value": "; a text needs quotation marks",
    "Invalid statement": "; a line is a table such as [workflow], or KEY = VALUE",
    "Cannot overwrite a value": ": the same key occurs twice",
}
"""What to do about messages of tomllib that do not say it."""
_TASK_KEYS: Final = (
    "id",
    "runtime",
    "config",
    "dependencies",
    "retry_attempts",
    "retry_delay_ms",
    "timeout_secs",
    "capabilities",
)


def load_workflow(path: Path | str, runtimes: Mapping[str, Runtime]) -> Workflow:
    """Read and check a workflow file.

    Args:
        path: the file.
        runtimes: the available runtimes by name.

    Raises:
        WorkflowFileError: the file has problems, or it is too large.
        OSError: the file cannot be read.
    """
    require_path("path", path)
    with Path(path).open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    return parse_workflow(data.decode(errors="replace"), runtimes, file=str(path))


def parse_workflow(text: str, runtimes: Mapping[str, Runtime], *, file: str = "workflow.toml") -> Workflow:
    """Check the TOML text of a workflow, and return the workflow.

    Args:
        text: the TOML text.
        runtimes: the available runtimes by name.
        file: name of the file for error messages.

    Raises:
        WorkflowFileError: the text has problems. The error lists all of them.
    """
    require_text(text=text)
    text = text.removeprefix("\ufeff")  # some editors on Windows begin each file with this mark
    document = _parse_toml(text, file)
    reader = _Reader(text, document, runtimes)
    workflow = reader.read()
    if workflow is None:
        raise WorkflowFileError(file, reader.problems)
    return workflow


def _parse_toml(text: str, file: str) -> dict[str, Any]:
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise WorkflowFileError(file, [Problem(1, f"the file is larger than {MAX_BYTES} bytes")])
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _TOML_LINE.search(str(error))
        line = int(found[1]) if found and found[1] else text.count("\n") + 1
        message = _TOML_LINE.sub("", str(error))
        raise WorkflowFileError(file, [Problem(line, message + _HINTS.get(message, ""))]) from error
    except ValueError as error:  # only from int()
        found = _LONG_NUMBER.search(text)
        line = text.count("\n", 0, found.start()) + 1 if found else 1
        raise WorkflowFileError(file, [Problem(line, "a number has too many digits")]) from error
    except RecursionError:
        document = None
    if document is None or is_deeper(document, MAX_LEVELS):
        raise WorkflowFileError(file, [Problem(1, f"the file is nested more than {MAX_LEVELS} levels deep")])
    return document


@final
class _Reader:
    """A reader of one workflow file, which collects the problems of the file."""

    def __init__(self, text: str, document: dict[str, Any], runtimes: Mapping[str, Runtime]) -> None:
        self.problems: list[Problem] = []
        self._text = text
        self._document = document
        self._lines = find_lines(text)
        self._runtimes = runtimes

    def read(self) -> Workflow | None:
        """Return the workflow, or None if there are problems."""
        self._check_keys((), self._document, ("workflow",))
        at = ("workflow",)
        table = self._read_table((), self._document, "workflow")
        if not isinstance(self._document.get("workflow"), dict):
            if "workflow" not in self._document:
                self._report(at, 'the table [workflow] is missing: begin with [workflow] and name = "NAME"')
            return None
        self._check_keys(at, table, ("name", "description", "tasks", "runtime", "schedule", "triggers"))
        name = self._text_of(at, table, "name", _NAME, "1 to 64 lowercase letters, digits, '-' or '_'")
        description = self._text_of(at, table, "description", None, "")
        limits = self._read_table(at, table, "runtime")
        self._check_keys((*at, "runtime"), limits, ("timeout_secs", "max_retries"))
        retries = self._read_number((*at, "runtime"), limits, "max_retries", 0, (0, MAX_RETRIES), whole=True)
        seconds = self._read_number((*at, "runtime"), limits, "timeout_secs", RUN_SECONDS, (0.001, MAX_SECONDS))
        tasks = self._read_tasks(table, int(retries))
        ordered = self._check_graph(tasks)
        schedule = self._read_schedule(at, table)
        triggers = self._read_table(at, table, "triggers")
        self._check_keys((*at, "triggers"), triggers, ("on_event",))
        allowed = "1 to 64 letters, digits, '.', '-' or '_'"
        event = self._text_of((*at, "triggers"), triggers, "on_event", _EVENT, allowed) if triggers else ""
        if self.problems:
            return None
        return Workflow(
            name=name,
            description=description,
            tasks=tuple(ordered),
            timeout_secs=seconds,
            source=self._text,
            schedule=schedule,
            on_event=event or None,
        )

    def _read_schedule(self, at: tuple[str | int, ...], table: Mapping[str, Any]) -> Schedule | None:
        values = self._read_table(at, table, "schedule")
        at = (*at, "schedule")
        self._check_keys(at, values, ("cron", "timezone", "missed"))
        if not values:
            return None
        if "cron" not in values:
            self._report(
                at, "'cron' is missing; it has 5 fields (minute hour day month weekday), such as '30 7 * * 1-5'"
            )
            return None
        texts = {key: self._text_of(at, values, key, None, "") for key in ("cron", "timezone", "missed")}
        try:
            return Schedule(
                texts["cron"], texts["timezone"] or "UTC", cast("MissedRuns", texts["missed"] or "run-once")
            )
        except UsageError as error:
            key = next(key for key in texts if f"'{key}'" in str(error))
            self._report((*at, key) if key in values else at, str(error))
            return None

    def _report(self, path: tuple[str | int, ...], message: str) -> None:
        self.problems.append(Problem(line_of(self._lines, path), message))

    # --- Values -----------------------------------------------------------------------------------------------------

    def _check_keys(self, at: tuple[str | int, ...], table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                self._report((*at, key), f"unknown key {key!r}; known keys: {', '.join(known)}")

    def _read_table(self, at: tuple[str | int, ...], parent: Mapping[str, Any], key: str) -> dict[str, Any]:
        value = parent.get(key)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        if value is not None:
            self._report((*at, key), f"{key!r} must be a table, not {_describe_type(value)}")
        return {}

    def _text_of(
        self,
        at: tuple[str | int, ...],
        table: Mapping[str, Any],
        key: str,
        pattern: re.Pattern[str] | None,
        allowed: str,
    ) -> str:
        value = table.get(key, "")
        if not isinstance(value, str):
            self._report((*at, key), f"{key!r} must be a string, not {_describe_type(value)}")
            return ""
        if pattern is not None and key not in table:
            self._report(at, f"{key!r} is missing; it consists of {allowed}")
        elif pattern is not None and not pattern.match(value):
            self._report((*at, key), f"{key!r} must consist of {allowed}, not {value!r}")
        return value

    def _read_number(
        self,
        at: tuple[str | int, ...],
        table: Mapping[str, Any],
        key: str,
        default: float,
        limits: tuple[float, float],
        *,
        whole: bool = False,
    ) -> float:
        value = table.get(key, default)
        low, high = limits
        types = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, types) or not low <= value <= high:
            kind = "an integer" if whole else "a number"
            self._report((*at, key), f"{key!r} must be {kind} from {low:.10g} to {high:.10g}, not {_describe(value)}")
            return default
        return value

    def _read_texts(self, at: tuple[str | int, ...], table: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = table.get(key, [])
        if not isinstance(value, list):
            self._report((*at, key), f"{key!r} must be a list of strings, not {_describe_type(value)}")
            return ()
        items = cast("list[object]", value)
        for index, item in enumerate(items):
            if not isinstance(item, str):
                self._report((*at, key, index), f"{key!r} must be a list of strings, not {_describe_type(item)}")
            elif item in items[:index]:
                self._report((*at, key, index), f"{item!r} is listed twice")
        return tuple(item for item in items if isinstance(item, str))

    # --- Tasks ------------------------------------------------------------------------------------------------------

    def _read_tasks(self, table: Mapping[str, Any], retries: int) -> dict[int, Task]:
        """Return the tasks by their position in the file."""
        tasks = table.get("tasks", [])
        items = cast("list[object]", tasks) if isinstance(tasks, list) else []
        if not items or not all(isinstance(item, dict) for item in items):
            self._report(("workflow", "tasks"), "a workflow needs at least one [[workflow.tasks]]")
            return {}
        if len(items) > MAX_TASKS:
            self._report(("workflow", "tasks"), f"a workflow can have at most {MAX_TASKS} tasks")
            return {}
        return {
            index: self._read_task(index, cast("dict[str, Any]", item), retries) for index, item in enumerate(items)
        }

    def _read_task(self, index: int, table: Mapping[str, Any], retries: int) -> Task:
        at = ("workflow", "tasks", index)
        self._check_keys(at, table, _TASK_KEYS)
        task_id = self._text_of(at, table, "id", _TASK_ID, "1 to 64 letters, digits, '-' or '_'")
        if task_id in ROOTS:
            self._report((*at, "id"), f"a task cannot have the id {task_id!r}, which has a meaning in templates")
        attempts = int(self._read_number(at, table, "retry_attempts", retries, (0, MAX_RETRIES), whole=True))
        delay = int(self._read_number(at, table, "retry_delay_ms", RETRY_DELAY_MS, (0, MAX_SECONDS * 1000), whole=True))
        if "retry_delay_ms" in table and not attempts:
            self._report((*at, "retry_delay_ms"), "'retry_delay_ms' has no effect without 'retry_attempts'")
        capabilities = self._read_table(at, table, "capabilities")
        self._check_keys((*at, "capabilities"), capabilities, ("filesystem", "network"))
        config = self._read_config(at, table)
        runtime = self._find_runtime(at, table)
        task = Task(
            id=task_id,
            runtime=runtime.name if runtime else "",
            config=runtime.prepare(config) if runtime and self._check_config(at, runtime, config) else {},
            dependencies=self._read_texts(at, table, "dependencies"),
            retry_attempts=attempts,
            retry_delay_ms=delay,
            timeout_secs=self._read_number(at, table, "timeout_secs", TASK_SECONDS, (0.001, MAX_SECONDS)),
            filesystem=self._read_texts((*at, "capabilities"), capabilities, "filesystem"),
            network=self._read_flag((*at, "capabilities"), capabilities, "network"),
        )
        if runtime:
            self._check_capabilities(at, runtime, task)
        return task

    def _read_flag(self, at: tuple[str | int, ...], table: Mapping[str, Any], key: str) -> bool:
        value = table.get(key, False)
        if not isinstance(value, bool):
            self._report((*at, key), f"{key!r} must be true or false, not {_describe(value)}")
        return value is True

    def _find_runtime(self, at: tuple[str | int, ...], table: Mapping[str, Any]) -> Runtime | None:
        name = self._text_of(at, table, "runtime", None, "")
        known = ", ".join(sorted(self._runtimes))
        if "runtime" not in table:
            self._report(at, f"'runtime' is missing; this pipeline has: {known}")
        elif name not in self._runtimes:
            self._report((*at, "runtime"), f"unknown runtime {name!r}; this pipeline has: {known}")
        return self._runtimes.get(name)

    def _read_config(self, at: tuple[str | int, ...], table: Mapping[str, Any]) -> dict[str, JsonValue]:
        config = self._read_table(at, table, "config")
        if fault := find_fault(config):
            where = next((path for path, value in _iterate_values(config) if find_fault(value)), ())
            self._report((*at, "config", *where), f"config{fault}, which is not JSON; write dates as texts")
            return {}
        return cast("dict[str, JsonValue]", config)

    def _check_config(self, at: tuple[str | int, ...], runtime: Runtime, config: Mapping[str, JsonValue]) -> bool:
        found = [*check_config(runtime.fields, config), *runtime.check(config)]
        for path, message in found:
            self._report((*at, "config", *path), message)
        return not found

    def _check_capabilities(self, at: tuple[str | int, ...], runtime: Runtime, task: Task) -> None:
        where = (*at, "capabilities")
        if task.network and not runtime.uses_network:
            self._report((*where, "network"), f"the runtime {runtime.name!r} does not use the network")
        if runtime.uses_network and not task.network:
            self._report(at, f"the runtime {runtime.name!r} needs capabilities = {{ network = true }}")
        if task.filesystem and runtime.folders is None:
            self._report((*where, "filesystem"), f"the runtime {runtime.name!r} does not use files")
        elif runtime.folders is not None:
            if not task.filesystem:
                self._report(at, f"the runtime {runtime.name!r} needs capabilities = {{ filesystem = [a folder] }}")
            for index, folder in enumerate(task.filesystem):
                if folder not in runtime.folders:
                    known = ", ".join(sorted(runtime.folders)) or "none"
                    self._report((*where, "filesystem", index), f"unknown folder {folder!r}; granted folders: {known}")

    # --- Graph ------------------------------------------------------------------------------------------------------

    def _check_graph(self, tasks: Mapping[int, Task]) -> list[Task]:
        """Report problems of ids, dependencies and references, and return the tasks in dependency order."""
        by_id = self._index_tasks(tasks)
        ordered, cycle = sort_tasks({tasks[index].id: tasks[index].dependencies for index in by_id.values()})
        if cycle:
            path = ("workflow", "tasks", by_id[cycle[0]], "dependencies")
            self._report(path, f"the dependencies form a cycle: {' -> '.join([*cycle, cycle[0]])}")
        found = [tasks[by_id[task_id]] for task_id in ordered]
        ancestors: dict[str, frozenset[str]] = {}
        for task in found:
            known = [item for item in task.dependencies if item in ancestors]
            ancestors[task.id] = frozenset(known).union(*(ancestors[item] for item in known))
            self._check_references(by_id[task.id], task, ancestors[task.id], by_id)
        for task_id in by_id.keys() - ancestors.keys():  # these tasks depend on the cycle
            self._check_references(by_id[task_id], tasks[by_id[task_id]], frozenset(by_id), by_id)
        return found

    def _index_tasks(self, tasks: Mapping[int, Task]) -> dict[str, int]:
        """Return the index of the first task with each id. Report repeated ids and unknown dependencies."""
        by_id: dict[str, int] = {}
        for index, task in tasks.items():
            first = by_id.setdefault(task.id, index)
            if task.id and first != index:
                line = line_of(self._lines, ("workflow", "tasks", first))
                self._report(
                    ("workflow", "tasks", index, "id"), f"a task with the id {task.id!r} exists in line {line}"
                )
        for index, task in tasks.items():
            for position, item in enumerate(task.dependencies):
                if item not in by_id:
                    self._report(("workflow", "tasks", index, "dependencies", position), f"unknown task {item!r}")
        return by_id

    def _check_references(self, index: int, task: Task, ancestors: frozenset[str], known: Mapping[str, int]) -> None:
        """Report templates that cannot be parsed, or that use the output of a task which is not a dependency."""
        for path, text in texts_of(dict(task.config)):
            where = ("workflow", "tasks", index, "config", *path)
            try:
                expressions = parse_template(text).expressions
            except TemplateSyntaxError as error:
                self._report(where, str(error))
                continue
            for expression in expressions:
                if expression.task is None or expression.task in ancestors:
                    continue
                if expression.task in known:
                    hint = f"the task {expression.task!r}, which is not among its dependencies"
                else:
                    hint = f"the unknown task {expression.task!r}"
                self._report(where, f"{{{{ {expression.text} }}}} reads {hint}")


def _iterate_values(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], object]]:
    """Yield each value that is not a table or a list, with its path."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from _iterate_values(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            yield from _iterate_values(item, (*path, index))
    else:
        yield path, value


def _describe(value: object) -> str:
    """Return a value as it is written in an error."""
    try:
        return repr(value)
    except ValueError:  # TOML allows hexadecimal numbers with more digits than Python writes in decimal
        return "a number with too many digits"


def _describe_type(value: object) -> str:
    names: dict[type, str] = {
        str: "a string",
        int: "an integer",
        bool: "a boolean",
        float: "a number",
        list: "a list",
        dict: "a table",
    }
    return names.get(type(value), f"a {type(value).__name__}")
