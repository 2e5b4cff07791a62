"""The functions of WASI preview 1 that modules may call. Every other WASI function returns an error."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, final

import wasmtime

from chat_pipeline._wasi_files import ReadOnlyFolder
from chat_pipeline._wasi_memory import BAD_DESCRIPTOR, FAULT, INVALID, NOT_CAPABLE, OK, FaultError, Memory

NAMESPACE: Final = "wasi_snapshot_preview1"
_MAX_BUFFERS: Final = 1024
_MAX_RANDOM: Final = 65_536
_CHARACTER_DEVICE: Final = 2
_STREAMS: Final = range(3)

_Function: TypeAlias = Callable[..., int]


class Exited(Exception):  # noqa: N818 - the regular end of a program
    """The module called `proc_exit`."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class OutputTooLargeError(Exception):
    """The module wrote more output than its limits allow."""


@final
class WasiHost:
    """The WASI functions for one execution of a module.

    Args:
        stdin: content of the standard input.
        seed: seed of the random bytes. Each attempt of a task uses the same seed.
        stdout_bytes: maximum size of the standard output.
        stderr_bytes: maximum size of the standard error output.
        arguments: the command line of the module.
        folder: the only folder that the module can read.
        refused: imported functions outside of WASI, as pairs of module and name, with the result of each call.
    """

    def __init__(
        self,
        stdin: bytes,
        seed: bytes,
        stdout_bytes: int,
        stderr_bytes: int,
        *,
        arguments: Sequence[str] = (),
        folder: ReadOnlyFolder | None = None,
        refused: Mapping[tuple[str, str], int] | None = None,
    ) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._arguments = [argument.encode() + b"\0" for argument in arguments]
        self._folder = folder
        self._refused = refused or {}
        self._folder_functions: Mapping[str, tuple[str, _Function]] = folder.functions if folder is not None else {}
        self._stdin = memoryview(stdin)
        self._seed = hashlib.sha256(seed).digest()
        self._drawn = 0
        self._limits = {1: stdout_bytes, 2: stderr_bytes}

    def linker(self, engine: wasmtime.Engine, module: wasmtime.Module) -> wasmtime.Linker:
        """Return a linker with the functions that a module imports.

        Args:
            engine: engine of the module.
            module: module whose imports are defined.
        """
        linker, functions = wasmtime.Linker(engine), self._functions
        for needed in module.imports:
            name, kind = needed.name or "", needed.type
            if not isinstance(kind, wasmtime.FuncType):
                continue  # the instantiation reports this import
            if needed.module != NAMESPACE:
                if (result := self._refused.get((needed.module, name))) is not None:
                    linker.define_func(needed.module, name, kind, _refuse_with(kind, result))
            elif name == "proc_exit":
                linker.define_func(NAMESPACE, name, wasmtime.FuncType([wasmtime.ValType.i32()], []), _exit)
            elif name in functions:
                pattern, function = functions[name]
                guarded = self._guarded(function, pattern)
                linker.define_func(NAMESPACE, name, _function_type(pattern), guarded, access_caller=True)
            else:
                linker.define_func(NAMESPACE, name, kind, _refuse_with(kind))
        return linker

    @property
    def _functions(self) -> Mapping[str, tuple[str, _Function]]:
        """The available functions by name, with the types of their parameters: `i` for 32 bits, `I` for 64."""
        return {
            "args_get": ("ii", self._write_arguments),
            "args_sizes_get": ("ii", self._write_argument_sizes),
            "environ_get": ("ii", _return_ok),
            "environ_sizes_get": ("ii", self._write_two_zeros),
            "clock_time_get": ("iIi", self._read_clock),
            "fd_close": ("i", self._close),
            "fd_fdstat_get": ("ii", self._describe),
            "fd_read": ("iiii", self._read),
            "fd_write": ("iiii", self._write),
            "random_get": ("ii", self._draw),
            "sched_yield": ("", _return_ok),
            **self._folder_functions,
        }

    @staticmethod
    def _guarded(function: _Function, pattern: str) -> Callable[..., int]:
        masks = [0xFFFFFFFFFFFFFFFF if kind == "I" else 0xFFFFFFFF for kind in pattern]

        def call(caller: wasmtime.Caller, *arguments: int) -> int:
            memory = caller.get("memory")
            if not isinstance(memory, wasmtime.Memory):
                return FAULT
            try:
                return function(
                    Memory(caller, memory), *[value & mask for value, mask in zip(arguments, masks, strict=True)]
                )
            except FaultError:
                return FAULT

        return call

    def _write_arguments(self, memory: Memory, pointers: int, target: int) -> int:
        for argument in self._arguments:
            memory.write(pointers, target.to_bytes(4, "little"))
            memory.write(target, argument)
            pointers, target = pointers + 4, target + len(argument)
        return OK

    def _write_argument_sizes(self, memory: Memory, count: int, size: int) -> int:
        memory.write(count, len(self._arguments).to_bytes(4, "little"))
        memory.write(size, sum(map(len, self._arguments)).to_bytes(4, "little"))
        return OK

    def _write_two_zeros(self, memory: Memory, first: int, second: int) -> int:
        memory.write(first, bytes(4))
        memory.write(second, bytes(4))
        return OK

    def _read_clock(self, memory: Memory, _clock: int, _precision: int, target: int) -> int:
        memory.write(target, bytes(8))
        return OK

    def _close(self, _memory: Memory, descriptor: int) -> int:
        if descriptor in _STREAMS:
            return OK
        return BAD_DESCRIPTOR if self._folder is None else self._folder.close(descriptor)

    def _describe(self, memory: Memory, descriptor: int, target: int) -> int:
        if descriptor not in _STREAMS:
            return BAD_DESCRIPTOR if self._folder is None else self._folder.describe(memory, descriptor, target)
        memory.write(target, bytes([_CHARACTER_DEVICE]) + bytes(23))
        return OK

    def _read(self, memory: Memory, descriptor: int, buffers: int, count: int, target: int) -> int:
        if count > _MAX_BUFFERS:
            return INVALID
        if descriptor != 0:
            if self._folder is None:
                return BAD_DESCRIPTOR
            return self._folder.read(memory, descriptor, memory.buffers(buffers, count), target)
        total = 0
        for start, size in memory.buffers(buffers, count):
            chunk = self._stdin[:size]
            memory.write(start, bytes(chunk))
            self._stdin = self._stdin[size:]
            total += len(chunk)
        memory.write(target, total.to_bytes(4, "little"))
        return OK

    def _write(self, memory: Memory, descriptor: int, buffers: int, count: int, target: int) -> int:
        if descriptor not in self._limits:
            return BAD_DESCRIPTOR
        if count > _MAX_BUFFERS:
            return INVALID
        total = 0
        for start, size in memory.buffers(buffers, count):
            stream = self.stdout if descriptor == 1 else self.stderr
            if len(stream) + size > self._limits[descriptor]:
                name = "standard output" if descriptor == 1 else "standard error output"
                msg = f"the module wrote more than {self._limits[descriptor]} bytes to its {name}"
                raise OutputTooLargeError(msg)
            stream += memory.read(start, size)
            total += size
        memory.write(target, total.to_bytes(4, "little"))
        return OK

    def _draw(self, memory: Memory, target: int, size: int) -> int:
        if size > _MAX_RANDOM:
            return INVALID
        self._drawn += 1
        memory.write(target, hashlib.shake_256(self._seed + self._drawn.to_bytes(8, "little")).digest(size))
        return OK


def _function_type(pattern: str) -> wasmtime.FuncType:
    """Return the type of a function that returns an error number, see `WasiHost._functions`."""
    kinds = [wasmtime.ValType.i64() if kind == "I" else wasmtime.ValType.i32() for kind in pattern]
    return wasmtime.FuncType(kinds, [wasmtime.ValType.i32()])


def _refuse_with(kind: wasmtime.FuncType, result: int = NOT_CAPABLE) -> Callable[..., object]:
    """Return a function that answers every call with an error number."""
    results = len(kind.results)

    def refuse(*_arguments: object) -> object:
        return result if results == 1 else None

    return refuse


def _return_ok(_memory: Memory, *_arguments: int) -> int:
    return OK


def _exit(code: int) -> None:
    raise Exited(code & 0xFFFFFFFF)
