"""Generates the tables of the reference pages from the code: the text between two comments.

    <!-- written from the code: events -->
    …
    <!-- end -->

`python -m tests.project.reference` updates the pages. A test compares the pages with the code.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import chat_core
from chat_completions import CompletionsBuilder, CompletionsOptions
from chat_core import (
    ChatBuilder,
    ChatError,
    ChatOptions,
    Done,
    EmbeddingsBuilder,
    ProgressEvent,
    ProviderError,
    ReadyChatBuilder,
    Retry,
    ToolCollection,
    TransportError,
    errors,
)
from chat_llamacpp import LlamaCppBuilder
from chat_llamacpp.builder import ReadyLlamaCppBuilder
from chat_testing import SCENARIOS, Capabilities, Scenario
from chat_testing.transport_conformance import TRANSPORT_SCENARIOS, TransportCapabilities, TransportScenario
from chat_transport_httpx import HttpxTransport
from docstring_parser import DocstringStyle, parse

from .capabilities import KINDS, rows

PAGES: Final = Path(__file__).resolve().parents[2] / "docs" / "reference"
PART: Final = re.compile(
    r"(?P<begin><!-- written from the code: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)
Rows = Iterable[Iterable[str]]


def error_classes() -> list[type[Exception]]:
    """Return the error classes, in the order of the module."""
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    return [kind for kind in found if kind.__module__ == errors.__name__]


def summary(thing: object) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def words(thing: object) -> dict[str, str]:
    """Return the description of each attribute or argument in a docstring, by name."""
    told: dict[str, str] = {}
    for item in parse(inspect.getdoc(thing) or "", DocstringStyle.GOOGLE).params:
        for name in item.arg_name.split(", "):
            told[name] = " ".join((item.description or "").split())
    return told


def table(columns: str, rows: Rows) -> str:
    """Return a table in Markdown. `columns` contains the column names, separated by bars."""
    names = columns.split("|")
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    head, *lines = [f"| {' | '.join(line)} |" for line in (names, *cells)]
    return "\n".join([head, f"|{'---|' * len(names)}", *lines])


def code(text: object) -> str:
    return f"`{text}`"


# --- Errors -----------------------------------------------------------------------------------------------------


def tree() -> str:
    """Return the class tree in the docstring of the module."""
    _, _, drawn = (errors.__doc__ or "").partition("\n\n")
    return f"```text\n{drawn.strip()}\n```"


def error_table() -> str:
    return table(
        "error|base class|retryable|meaning",
        [
            (
                f"[`{kind.__name__}`](#{kind.__name__.lower()})",
                ", ".join(code(base.__name__) for base in kind.__bases__),
                "yes" if getattr(kind, "retryable", False) else "",
                summary(kind),
            )
            for kind in error_classes()
        ],
    )


def attributes_of(*kinds: type[Exception]) -> Callable[[], str]:
    def write() -> str:
        rows = [(code(kind.__name__), code(name), text) for kind in kinds for name, text in words(kind).items()]
        return table("class|attribute|meaning", rows)

    return write


# --- Fields and arguments -----------------------------------------------------------------------------------------


def fields_of(kind: type[Any]) -> Callable[[], str]:
    """Return the fields of a dataclass."""

    def write() -> str:
        told = words(kind)
        rows = [
            (code(item.name), code(item.type), _default(item), told.get(item.name, ""))
            for item in dataclasses.fields(kind)
        ]
        return table("field|type|default|meaning", rows)

    return write


def _default(item: dataclasses.Field[Any]) -> str:
    if item.default is not dataclasses.MISSING:
        return code(repr(item.default)) if not callable(item.default) else ""
    return "" if item.default_factory is dataclasses.MISSING else code(repr(item.default_factory()))


def arguments_of(function: Callable[..., Any]) -> Callable[[], str]:
    """Return the named arguments of a function or a class."""

    def write() -> str:
        told = words(function)
        rows = [
            (code(item.name), code(item.annotation), code(repr(item.default)), told.get(item.name, ""))
            for item in inspect.signature(function).parameters.values()
            if item.kind is inspect.Parameter.KEYWORD_ONLY
        ]
        return table("argument|type|default|meaning", rows)

    return write


def methods_of(*kinds: type[Any]) -> Callable[[], str]:
    """Return the `with_…` methods of builders, without repetitions."""

    def write() -> str:
        found: Mapping[str, Any] = {
            name: value
            for kind in kinds
            for base in reversed(kind.__mro__)
            for name, value in vars(base).items()
            if name.startswith("with") and callable(value)
        }
        return table("method|meaning", [(code(_call(name, value)), summary(value)) for name, value in found.items()])

    return write


def _call(name: str, method: Callable[..., Any]) -> str:
    parameters = [
        item.replace(annotation=inspect.Parameter.empty) for item in inspect.signature(method).parameters.values()
    ]
    return f"{name}{inspect.Signature(parameters[1:])}"


# --- Events ---------------------------------------------------------------------------------------------------------


def event_table() -> str:
    kinds: list[type[Any]] = [*get_args(ProgressEvent), chat_core.Paused, Done]
    return table(
        "event|fields|meaning",
        [
            (
                code(kind.__name__),
                ", ".join(code(f"{item.name}: {item.type}") for item in dataclasses.fields(kind) if item.init),
                summary(kind),
            )
            for kind in kinds
        ],
    )


# --- Capabilities ---------------------------------------------------------------------------------------------------


def capabilities_of(what: str) -> Callable[[], str]:
    def write() -> str:
        kind, columns = KINDS[what]
        return table(
            "|".join(["capability", *columns]),
            rows(kind, columns, {name: text.partition(". ")[0] for name, text in words(kind).items()}),
        )

    return write


# --- Conformance ----------------------------------------------------------------------------------------------------


def scenarios_of(scenarios: Iterable[Scenario | TransportScenario]) -> Callable[[], str]:
    def write() -> str:
        return table(
            "scenario|requirement|needs",
            [
                (code(item.name), f"{item.promise}.", ", ".join(map(code, sorted(item.needs))) or "-")
                for item in scenarios
            ],
        )

    return write


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "tree": tree,
    "errors": error_table,
    "attributes": attributes_of(ChatError, ProviderError, errors.InvalidResponseError, TransportError),
    "events": event_table,
    "chat-options": fields_of(ChatOptions),
    "completions-options": fields_of(CompletionsOptions),
    "retry": fields_of(Retry),
    "builder": methods_of(ChatBuilder, ReadyChatBuilder, EmbeddingsBuilder),
    "completions-builder": methods_of(CompletionsBuilder),
    "llamacpp-builder": methods_of(LlamaCppBuilder, ReadyLlamaCppBuilder),
    "tool": arguments_of(ToolCollection.tool),
    "httpx": arguments_of(HttpxTransport),
    "capabilities-of-providers": capabilities_of("providers"),
    "capabilities-of-transports": capabilities_of("transports"),
    "claims-of-providers": fields_of(Capabilities),
    "claims-of-transports": fields_of(TransportCapabilities),
    "scenarios-of-providers": scenarios_of(SCENARIOS),
    "scenarios-of-transports": scenarios_of(TRANSPORT_SCENARIOS),
}


def written(text: str) -> str:
    """Return the text of a page with updated tables."""
    return PART.sub(lambda found: f"{found['begin']}\n{PARTS[found['name']]()}\n\n{found['end']}", text)


if __name__ == "__main__":
    for page in sorted(PAGES.glob("*.md")):
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
