"""Public functions, methods and classes that are called with arguments of wrong types raise errors of this library."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import re
import socket
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, cast

import pytest

from .public_names import current_names
from .sample_values import MISSING, construct, hints_of, is_constructible, is_optional, parameters_of, sample
from .workspace import PACKAGES


def ignore(*_: object, **__: object) -> None:
    """Do nothing. Accept any arguments, so that no error comes from the callback itself."""


WRONG: Final[tuple[object, ...]] = (5, None, "\ud800", ignore, b"", [], object())
PATIENCE: Final = 0.3
"""Seconds after which a call that waits counts as accepted."""

KITS: Final = "kits for tests: an error of any kind fails the test"
CREATED: Final = "other functions of the library create these objects"
ENGINE: Final = "the engine calls these methods, with arguments that it has checked"
HOT: Final = "called for each chunk, event, turn or frame, where a check would take time"
CALLBACK: Final = "the error is that of the function that was passed"
UNCHECKED: Final[Mapping[str, str]] = {
    "chat_*.testing.*": KITS,
    "chat_testing.*": KITS,
    "chat_terminal.*": "the command reads the arguments of the process",
    "chat_*Provider": CREATED,
    "chat_*Embeddings": CREATED,
    "chat_core.engine.stream.ChatStream": CREATED,
    "chat_realtime.sessions.session.RealtimeSession": CREATED,
    "chat_router.candidate.Candidate.*": ENGINE,
    "chat_store.file_conversation.FileConversation": CREATED,
    "chat_*.response_error": ENGINE,
    "chat_router.budget.Budget.*": ENGINE,
    "chat_core.observer.log.LoggingObserver.*": ENGINE,
    "chat_core.wire.provider.TransportProvider.*": ENGINE,
    "chat_dbos.durable.WorkflowTiming.delay_after": ENGINE,
    "chat_otel.observer.OpenTelemetry.*": ENGINE,
    "chat_pipeline.*.run": ENGINE,
    "chat_service.request_log.JsonFormatter*": "the standard library defines these methods",
    "chat_service.request_log.RequestIdFilter*": "the standard library defines these methods",
    "chat_core.messages.content.Turn.encoded": HOT,
    "chat_core.messages.content.Turn.settled_from": HOT,
    "chat_core.messages.view.View.encoded": HOT,
    "chat_core.provider.ToolDeclarations.encoded": HOT,
    "chat_core.transport.*.feed": HOT,
    "chat_core.transport.framing.framed": HOT,
    "chat_responses.frames.ResponsesFrames.*": HOT,
    "chat_streams.plain.PlainEncoder.encode": HOT,
    "chat_core.middleware.Middleware.*": CALLBACK,
    "chat_streams.agui.agent.AGUI.run": CALLBACK,
    "chat_streams.openai.*Encoder": CALLBACK,
}
"""Callables that do not check their arguments, as patterns of names, with the reasons."""


@dataclass(frozen=True)
class Target:
    """A public function, method or class.

    Attributes:
        name: name of its module and its own name.
        call: the function, method or class.
        owner: the class of the instance that a method needs as its first argument.
    """

    name: str
    call: Callable[..., object]
    owner: type | None = None


def name_of(value: Callable[..., object]) -> str:
    """Return the module and the name of a function or a class."""
    return f"{value.__module__}.{value.__qualname__}"


def members(kind: type) -> Iterator[Target]:
    """Yield the public methods of a class, also those that it inherits from other classes of this workspace."""
    found: dict[str, object] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("chat_"):
            found |= vars(base)
    for name, member in found.items():
        if name.startswith("_"):
            continue
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function):
            bound = inspect.isfunction(member)
            call = cast("Callable[..., object]", function if bound else getattr(kind, name))
            yield Target(name_of(function), call, kind if bound else None)


def public_callables() -> dict[str, Target]:
    """Return the public callables by name. A method that several classes inherit is called on one of them."""
    found: dict[str, Target] = {}
    for package, names in current_names().items():
        front = importlib.import_module(package)
        for value in [getattr(front, name) for name in names]:
            if inspect.isfunction(value):
                found[name_of(value)] = Target(name_of(value), value)
            elif inspect.isclass(value) and is_constructible(value):
                found[name_of(value)] = Target(name_of(value), value)
                for target in members(value):
                    found.setdefault(target.name, target)
    return found


CALLABLES: Final = public_callables()
CHECKED: Final = {
    package.import_name: [
        target
        for name, target in CALLABLES.items()
        if name.startswith(f"{package.import_name}.") and not any(fnmatchcase(name, pattern) for pattern in UNCHECKED)
    ]
    for package in PACKAGES
}
"""The callables that check their arguments, by the distribution that defines them."""


def calls(target: Target) -> Iterator[tuple[str, list[object], dict[str, object]]]:
    """Yield a description, the positional and the named arguments of each call: one argument is wrong."""
    instance: list[object] = []
    if target.owner is not None:
        instance = [construct(target.owner)]
    parameters = parameters_of(target.call, bound=target.owner is not None)
    hints = hints_of(target.call)
    valid = {item.name: sample(hints.get(item.name, object)) for item in parameters if not is_optional(item)}
    is_variadic = any(item.kind is item.VAR_POSITIONAL for item in parameters)
    for wrong_one in parameters:
        for wrong in WRONG:
            positional, named = [*instance], dict[str, object]()
            for item in parameters:
                if item.kind is item.VAR_KEYWORD or (item is not wrong_one and item.name not in valid):
                    continue
                value = wrong if item is wrong_one or valid[item.name] is MISSING else valid[item.name]
                if item.kind is item.KEYWORD_ONLY or (item.kind is item.POSITIONAL_OR_KEYWORD and not is_variadic):
                    named[item.name] = value
                else:
                    positional.append(value)
            yield f"{target.name}({wrong_one.name}={wrong!r})", positional, named


async def finish(value: object) -> None:
    """Await a result, enter a context, and take the first item of a generator, so that the body of the call runs."""
    if inspect.isawaitable(value):
        value = await value
    if isinstance(value, AbstractAsyncContextManager):
        async with cast("AbstractAsyncContextManager[object]", value):
            return
    if isinstance(value, types.AsyncGeneratorType):
        await anext(cast("types.AsyncGeneratorType[object]", value), None)
    elif isinstance(value, types.GeneratorType):
        next(cast("types.GeneratorType[object, Any, Any]", value), None)
    elif isinstance(value, AbstractContextManager):
        with cast("AbstractContextManager[object]", value):
            return


def is_ours(error: BaseException, call: Callable[..., object]) -> bool:
    """Return whether a call may raise an error: it is an error of this library, or the docstring names it."""
    if type(error).__module__.startswith("chat_"):
        return True
    names = {kind.__name__ for kind in type(error).__mro__} - {"Exception", "BaseException", "object"}
    documented = inspect.getdoc(call) or ""
    return any(re.search(rf"\b{name}\b", documented) for name in names)


async def raw_errors(target: Target) -> list[str]:
    """Return descriptions of the calls of a target that raise an error that is not from this library."""
    found: list[str] = []
    for description, positional, named in calls(target):
        try:
            async with asyncio.timeout(PATIENCE):
                await finish(target.call(*positional, **named))
        except TimeoutError:
            continue
        except Exception as error:  # noqa: BLE001 - any error of another kind is a fault
            if not is_ours(error, target.call):
                found.append(f"{description}: {type(error).__name__}: {error}"[:300])
    return found


@pytest.fixture(autouse=True)
def no_effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*_: object, **__: object) -> None:
        msg = "there is no network in this test"
        raise OSError(msg)

    for name in ("connect", "connect_ex", "bind", "listen"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.chdir(tmp_path)
    handlers, level = logging.root.handlers.copy(), logging.root.level
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("package", sorted(CHECKED))
def test_wrong_arguments_raise_errors_of_this_library(package: str) -> None:
    async def run() -> list[str]:
        return [line for target in CHECKED[package] for line in await raw_errors(target)]

    assert asyncio.run(run()) == []


def test_a_raw_error_is_found() -> None:
    def length(value: str) -> int:
        """Return the length of a string."""
        return len(value)

    found = asyncio.run(raw_errors(Target("length", length)))
    assert found[0] == "length(value=5): TypeError: object of type 'int' has no len()"


@pytest.mark.filterwarnings("ignore")
def test_every_method_is_called_on_an_instance() -> None:
    owners = {target.owner for targets in CHECKED.values() for target in targets if target.owner is not None}
    assert [owner.__name__ for owner in owners if construct(owner) is MISSING] == []


def test_every_exception_is_needed() -> None:
    assert [pattern for pattern in UNCHECKED if not any(fnmatchcase(name, pattern) for name in CALLABLES)] == []
