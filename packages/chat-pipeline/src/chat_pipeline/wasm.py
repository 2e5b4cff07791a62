"""The runtime `wasm`, which executes WebAssembly modules in a sandbox. Install `chat-pipeline[wasm]` to use it.

A module is a program for WASI preview 1. It reads `{"config": …, "context": …}` from its standard input and writes
`{"status": "ok", "output": …}` or `{"status": "error", "error": "…"}` to its standard output. The host implements only
the functions for standard input and output, exit, an empty environment, a clock that never advances and a repeatable
random source. Every other function of WASI returns an error, so a module has no files, sockets or processes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from typing import ClassVar, final

import wasmtime
from chat_core import json
from chat_core.errors import UsageError
from chat_core.json import JsonValue

from chat_pipeline._sandbox import Sandbox, WasmLimits, first_line
from chat_pipeline._wasi import WasiHost
from chat_pipeline.errors import TaskError
from chat_pipeline.runtime import ANY, ConfigField, ConfigProblem, Runtime, TaskCall
from chat_pipeline.templates import has_expression

__all__ = ["Wasm", "WasmLimits"]


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
        self._sandbox = Sandbox(self._limits)
        self._lock = threading.Lock()

    def check(self, config: Mapping[str, JsonValue]) -> Iterator[ConfigProblem]:
        """Yield a problem if the configured module does not exist."""
        name = config.get("module")
        if isinstance(name, str) and not has_expression(name) and name not in self._sources:
            yield ("module",), self._unknown_module_message(name)

    async def run(self, call: TaskCall) -> JsonValue:
        """Execute the module, and return its output."""
        if call.text("module") not in self._sources:
            raise TaskError(self._unknown_module_message(call.text("module")))
        return await asyncio.to_thread(self._execute, call)

    def _unknown_module_message(self, name: str) -> str:
        return f"there is no module {name!r}; there are: {', '.join(map(repr, sorted(self._sources))) or 'none'}"

    def _execute(self, call: TaskCall) -> JsonValue:
        module = self._compile(call.text("module"))
        request = {"config": {"input": call.config.get("input")}, "context": dict(call.context)}
        host = WasiHost(
            json.dump_bytes(request), call.key.encode(), self._limits.stdout_bytes, self._limits.stderr_bytes
        )
        return self._sandbox.execute(module, host)

    def _compile(self, name: str) -> wasmtime.Module:
        with self._lock:
            if name not in self._compiled:
                try:
                    self._compiled[name] = wasmtime.Module(self._sandbox.engine, self._sources[name])
                except wasmtime.WasmtimeError as error:
                    msg = f"the module {name!r} cannot be compiled: {first_line(error)}"
                    raise TaskError(msg) from error
            return self._compiled[name]
