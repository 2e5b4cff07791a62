"""The runtime `wasm`, which executes WebAssembly modules in a sandbox. Install `chat-pipeline[wasm]` to use it.

A module is a program for WASI preview 1. It reads `{"config": …, "context": …}` from its standard input and writes
`{"status": "ok", "output": …}` or `{"status": "error", "error": "…"}` to its standard output. The host implements only
the functions for standard input and output, exit, an empty environment, a clock that never advances and a repeatable
random source. Every other function of WASI returns an error, so a module has no files, sockets or processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import ClassVar, final

from chat_core import json
from chat_core.arguments import require_type
from chat_core.errors import UsageError
from chat_core.json import JsonValue

if find_spec("wasmtime") is None:
    _msg = "the runtime 'wasm' needs wasmtime: run pip install 'chat-pipeline[wasm]'"
    raise UsageError(_msg)

import wasmtime

from chat_pipeline._sandbox import Sandbox, WasmLimits, first_line
from chat_pipeline._wasi import WasiHost
from chat_pipeline.errors import TaskError
from chat_pipeline.runtime import ANY, ConfigField, ConfigProblem, Runtime, TaskCall
from chat_pipeline.templates import has_expression

__all__ = ["Wasm", "WasmLimits"]


@final
class Wasm(Runtime):
    """The runtime `wasm`, which executes WebAssembly modules in a sandbox.

    Modules are compiled when the runtime is created, which takes seconds for modules of several megabytes. Therefore,
    create it when the program starts. A task never compiles, and no compiled code is read from a file.

    Args:
        modules: modules by name, as WebAssembly or as text in the WAT format.
        limits: limits of each execution.

    Raises:
        UsageError: a module is too large or cannot be compiled, or an argument has a wrong type.
    """

    name = "wasm"
    fields: ClassVar[Mapping[str, ConfigField]] = {"module": ConfigField(), "input": ConfigField(ANY, required=False)}

    def __init__(self, modules: Mapping[str, bytes | str], *, limits: WasmLimits | None = None) -> None:
        self._limits = limits if limits is not None else WasmLimits()
        require_type("limits", self._limits, WasmLimits, "WasmLimits")
        require_type("modules", modules, Mapping, "a mapping of names to modules")
        self._sandbox = Sandbox(self._limits)
        self._modules = {name: self._compile(name, source) for name, source in modules.items()}

    def check(self, config: Mapping[str, JsonValue]) -> Iterator[ConfigProblem]:
        """Yield a problem if the configured module does not exist."""
        name = config.get("module")
        if isinstance(name, str) and not has_expression(name) and name not in self._modules:
            yield ("module",), self._unknown_module_message(name)

    async def run(self, call: TaskCall) -> JsonValue:
        """Execute the module, and return its output."""
        if call.text("module") not in self._modules:
            raise TaskError(self._unknown_module_message(call.text("module")))
        return await asyncio.to_thread(self._execute, call)

    def _unknown_module_message(self, name: str) -> str:
        return f"there is no module {name!r}; there are: {', '.join(map(repr, sorted(self._modules))) or 'none'}"

    def _execute(self, call: TaskCall) -> JsonValue:
        request = {"config": {"input": call.config.get("input")}, "context": dict(call.context)}
        host = WasiHost(
            json.dump_bytes(request), call.key.encode(), self._limits.stdout_bytes, self._limits.stderr_bytes
        )
        return self._sandbox.execute(self._modules[call.text("module")], host)

    def _compile(self, name: str, source: bytes | str) -> wasmtime.Module:
        require_type(f"the module {name!r}", source, (bytes, str), "bytes or a string")
        if len(source) > self._limits.module_bytes:
            msg = f"the module {name!r} has more than {self._limits.module_bytes} bytes"
            raise UsageError(msg)
        try:
            return wasmtime.Module(self._sandbox.engine, source)
        except wasmtime.WasmtimeError as error:
            msg = f"the module {name!r} cannot be compiled: {first_line(error)}"
            raise UsageError(msg) from error
