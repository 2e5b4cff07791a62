"""The sandbox in which WebAssembly modules are executed, with limits of time, instructions, memory and output."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, cast, final

import wasmtime
from chat_core import json
from chat_core.errors import UsageError
from chat_core.json import JsonValue, is_finite

from chat_pipeline._wasi import Exited, OutputTooLargeError, WasiHost
from chat_pipeline.errors import TaskError

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
class Sandbox:
    """An engine that executes modules in this process.

    Args:
        limits: limits of each execution.
    """

    def __init__(self, limits: WasmLimits) -> None:
        self._limits = limits
        self.engine: wasmtime.Engine = make_engine()
        self._ticker = _Ticker(self.engine)

    def execute(self, module: wasmtime.Module, host: WasiHost, start: str = "_start") -> JsonValue:
        """Execute a module, and return the output that it wrote as its answer.

        Args:
            module: a module of this engine.
            host: the WASI functions of this execution.
            start: name of the exported function to call.

        Raises:
            TaskError: the module failed or exceeded a limit, or its answer is invalid.
        """
        deadline = time.monotonic() + self._limits.seconds
        with self._ticker.running():
            self._instantiate(module, host, start)
        if time.monotonic() > deadline:
            raise TaskError(self._deadline_message())
        return _read_answer(bytes(host.stdout))

    def _instantiate(self, module: wasmtime.Module, host: WasiHost, start: str) -> None:
        limits = self._limits
        with wasmtime.Store(self.engine) as store:
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
                linker = host.linker(self.engine, module)
                exports = linker.instantiate(store, module).exports(store)
                function = exports.get(start, None)
                if not isinstance(function, wasmtime.Func):
                    msg = f"the module has no function {start}"
                    raise TaskError(msg)
                if function(store):  # the status of CPython
                    msg = "the module ended with an error"
                    raise TaskError(msg)
            except Exited as exit_:
                if exit_.code:
                    msg = f"the module exited with status {exit_.code}"
                    raise TaskError(msg) from None
            except OutputTooLargeError as error:
                raise TaskError(str(error)) from None
            except wasmtime.Trap as trap:
                raise TaskError(self._trap_message(trap)) from None
            except wasmtime.WasmtimeError as error:
                msg = f"the module cannot be executed: {first_line(error)}"
                raise TaskError(msg) from None

    def _trap_message(self, trap: wasmtime.Trap) -> str:
        if trap.trap_code is wasmtime.TrapCode.INTERRUPT:
            return self._deadline_message()
        if trap.trap_code is wasmtime.TrapCode.OUT_OF_FUEL:
            return f"the module executed more than {self._limits.fuel} instructions"
        return f"the module was stopped: {first_line(trap)}"

    def _deadline_message(self) -> str:
        return f"the module exceeded {self._limits.seconds:g} seconds"


def make_engine() -> wasmtime.Engine:
    """Return an engine whose modules can be limited in time and instructions."""
    config = wasmtime.Config()
    config.consume_fuel = True
    config.epoch_interruption = True
    return wasmtime.Engine(config)


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
                threading.Thread(
                    target=self._advance_epoch, args=(self._stop,), daemon=True, name="wasm-deadlines"
                ).start()
        try:
            yield
        finally:
            with self._lock:
                self._active -= 1
                if not self._active:
                    self._stop.set()

    def _advance_epoch(self, stop: threading.Event) -> None:
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


def first_line(error: Exception) -> str:
    """Return the cause of a wasmtime error, which is the last line of its message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
