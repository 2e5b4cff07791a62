"""The runtime `wasm`, which executes WebAssembly modules in a sandbox. Install `chat-pipeline[wasm]` to use it.

A module is a program for WASI preview 1. It reads `{"config": …, "context": …}` from its standard input and writes
`{"status": "ok", "output": …}` or `{"status": "error", "error": "…"}` to its standard output. The host implements only
the functions for standard input and output, exit, an empty environment, a clock that never advances and a repeatable
random source. Every other function of WASI returns an error, so a module has no files, sockets or processes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, cast, final

import wasmtime
from chat_core import json
from chat_core.errors import UsageError
from chat_core.json import JsonValue, is_finite

from chat_pipeline._wasi import Exited, OutputTooLargeError, WasiHost
from chat_pipeline.errors import TaskError
from chat_pipeline.runtime import ANY, ConfigField, ConfigProblem, Runtime, TaskCall
from chat_pipeline.templates import has_expression

_TICK: Final = 0.01
"""Interval in seconds at which the deadlines of running modules are checked."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WasmLimits:
    """Limits of one execution of a module.

    Attributes:
        seconds: maximum wall time, in seconds.
        fuel: approximate maximum number of executed instructions.
        memory_bytes: maximum size of the memory.
        table_elements: maximum number of elements of each table.
        stdout_bytes: maximum size of the standard output.
        stderr_bytes: maximum size of the standard error output.
        module_bytes: maximum size of a module.
    """

    seconds: float = 10.0
    fuel: int = 1_000_000_000
    memory_bytes: int = 64 * 1024 * 1024
    table_elements: int = 100_000
    stdout_bytes: int = 1024 * 1024
    stderr_bytes: int = 256 * 1024
    module_bytes: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
                msg = f"WasmLimits({name}=...) needs a number above 0, not {value!r}"
                raise UsageError(msg)


@final
class Wasm(Runtime):
    """The runtime `wasm`, which executes WebAssembly modules in a sandbox.

    Modules are compiled in this process at their first use and kept in memory. No compiled code is read from a file.

    Args:
        modules: modules by name, as WebAssembly or as text in the WAT format.
        limits: limits of each execution.

    Raises:
        UsageError: a module is too large.
    """

    name = "wasm"
    fields: ClassVar[Mapping[str, ConfigField]] = {"module": ConfigField(), "input": ConfigField(ANY, required=False)}

    def __init__(self, modules: Mapping[str, bytes | str], *, limits: WasmLimits | None = None) -> None:
        self._limits = limits or WasmLimits()
        for name, source in modules.items():
            if len(source) > self._limits.module_bytes:
                msg = f"the module {name!r} has more than {self._limits.module_bytes} bytes"
                raise UsageError(msg)
        self._sources = dict(modules)
        self._compiled: dict[str, wasmtime.Module] = {}
        config = wasmtime.Config()
        config.consume_fuel = True
        config.epoch_interruption = True
        self._engine = wasmtime.Engine(config)
        self._ticker = _Ticker(self._engine)
        self._lock = threading.Lock()

    def check(self, config: Mapping[str, JsonValue]) -> Iterator[ConfigProblem]:
        """Yield a problem if the configured module does not exist."""
        name = config.get("module")
        if isinstance(name, str) and not has_expression(name) and name not in self._sources:
            yield ("module",), self._unknown(name)

    async def run(self, call: TaskCall) -> JsonValue:
        """Execute the module, and return its output."""
        if call.text("module") not in self._sources:
            raise TaskError(self._unknown(call.text("module")))
        return await asyncio.to_thread(self._execute, call)

    def _unknown(self, name: str) -> str:
        return f"there is no module {name!r}; there are: {', '.join(map(repr, sorted(self._sources))) or 'none'}"

    def _execute(self, call: TaskCall) -> JsonValue:
        module = self._compile(call.text("module"))
        request = {"config": {"input": call.config.get("input")}, "context": dict(call.context)}
        host = WasiHost(
            json.dump_bytes(request), call.key.encode(), self._limits.stdout_bytes, self._limits.stderr_bytes
        )
        deadline = time.monotonic() + self._limits.seconds
        with self._ticker.running():
            self._instantiate(module, host)
        if time.monotonic() > deadline:
            raise TaskError(self._deadline_message())
        return _read_answer(bytes(host.stdout))

    def _compile(self, name: str) -> wasmtime.Module:
        with self._lock:
            if name not in self._compiled:
                try:
                    self._compiled[name] = wasmtime.Module(self._engine, self._sources[name])
                except wasmtime.WasmtimeError as error:
                    msg = f"the module {name!r} cannot be compiled: {_first_line(error)}"
                    raise TaskError(msg) from error
            return self._compiled[name]

    def _instantiate(self, module: wasmtime.Module, host: WasiHost) -> None:
        limits = self._limits
        with wasmtime.Store(self._engine) as store:
            store.set_limits(
                memory_size=limits.memory_bytes,
                table_elements=limits.table_elements,
                instances=1,
                tables=10,
                memories=1,
            )
            store.set_fuel(limits.fuel)
            store.set_epoch_deadline(max(1, round(limits.seconds / _TICK)))
            try:
                linker = host.linker(self._engine, module)
                exports = linker.instantiate(store, module).exports(store)
                start = exports.get("_start", None)
                if not isinstance(start, wasmtime.Func):
                    msg = "the module has no function _start"
                    raise TaskError(msg)
                start(store)
            except Exited as exit_:
                if exit_.code:
                    msg = f"the module exited with status {exit_.code}"
                    raise TaskError(msg) from None
            except OutputTooLargeError as error:
                raise TaskError(str(error)) from None
            except wasmtime.Trap as trap:
                raise TaskError(self._trap_message(trap)) from None
            except wasmtime.WasmtimeError as error:
                msg = f"the module cannot be executed: {_first_line(error)}"
                raise TaskError(msg) from None

    def _trap_message(self, trap: wasmtime.Trap) -> str:
        if trap.trap_code is wasmtime.TrapCode.INTERRUPT:
            return self._deadline_message()
        if trap.trap_code is wasmtime.TrapCode.OUT_OF_FUEL:
            return f"the module executed more than {self._limits.fuel} instructions"
        return f"the module was stopped: {_first_line(trap)}"

    def _deadline_message(self) -> str:
        return f"the module exceeded {self._limits.seconds:g} seconds"


@final
class _Ticker:
    """A thread that advances the epoch of an engine while modules are running, so that their deadlines take effect."""

    def __init__(self, engine: wasmtime.Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._active = 0
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Generator[None]:
        """Return a context manager that keeps the thread running."""
        with self._lock:
            self._active += 1
            if self._active == 1:
                self._stop = threading.Event()
                threading.Thread(target=self._tick, args=(self._stop,), daemon=True, name="wasm-deadlines").start()
        try:
            yield
        finally:
            with self._lock:
                self._active -= 1
                if not self._active:
                    self._stop.set()

    def _tick(self, stop: threading.Event) -> None:
        while not stop.wait(_TICK):
            self._engine.increment_epoch()


def _read_answer(data: bytes) -> JsonValue:
    try:
        answer = json.loads_limited(data)
    except ValueError as error:
        msg = "the module wrote no JSON to its standard output"
        raise TaskError(msg) from error
    if isinstance(answer, dict) and is_finite(cast("object", answer)):
        values = cast("dict[str, JsonValue]", answer)
        if values.get("status") == "ok":
            return values.get("output")
        if values.get("status") == "error" and isinstance(values.get("error"), str):
            msg = f"the module reported: {values['error']}"
            raise TaskError(msg)
    msg = 'the module must write {"status": "ok", "output": …} or {"status": "error", "error": "…"}'
    raise TaskError(msg)


def _first_line(error: Exception) -> str:
    """Return the cause of a wasmtime error, which is the last line of its message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
