"""The functions of WASI preview 1 that modules may call. Every other WASI function returns an error."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, final

import wasmtime

NAMESPACE: Final = "wasi_snapshot_preview1"
_OK: Final = 0
_BAD_DESCRIPTOR: Final = 8
_FAULT: Final = 21
_INVALID: Final = 28
_NOT_CAPABLE: Final = 76
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


class _FaultError(Exception):
    """The module passed an address outside of its memory."""


@final
class WasiHost:
    """The WASI functions for one execution of a module.

    Args:
        stdin: content of the standard input.
        seed: seed of the random bytes. Each attempt of a task uses the same seed.
        stdout_bytes: maximum size of the standard output.
        stderr_bytes: maximum size of the standard error output.
    """

    def __init__(self, stdin: bytes, seed: bytes, stdout_bytes: int, stderr_bytes: int) -> None:
        self.stdout = bytearray()
        self._stderr_size = 0
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
        linker = wasmtime.Linker(engine)
        for needed in module.imports:
            name = needed.name or ""
            if needed.module != NAMESPACE or not isinstance(needed.type, wasmtime.FuncType):
                continue  # the instantiation reports this import
            if name == "proc_exit":
                linker.define_func(NAMESPACE, name, wasmtime.FuncType([wasmtime.ValType.i32()], []), _exit)
            elif name in self._functions:
                pattern, function = self._functions[name]
                kinds = [wasmtime.ValType.i64() if kind == "I" else wasmtime.ValType.i32() for kind in pattern]
                kind = wasmtime.FuncType(kinds, [wasmtime.ValType.i32()])
                linker.define_func(NAMESPACE, name, kind, self._guarded(function), access_caller=True)
            else:
                linker.define_func(NAMESPACE, name, needed.type, _refuse_with(needed.type))
        return linker

    @property
    def _functions(self) -> Mapping[str, tuple[str, _Function]]:
        """The available functions by name, with the types of their parameters: `i` for 32 bits, `I` for 64."""
        return {
            "args_get": ("ii", _return_ok),
            "args_sizes_get": ("ii", self._write_two_zeros),
            "environ_get": ("ii", _return_ok),
            "environ_sizes_get": ("ii", self._write_two_zeros),
            "clock_time_get": ("iIi", self._read_clock),
            "fd_close": ("i", self._close),
            "fd_fdstat_get": ("ii", self._describe),
            "fd_read": ("iiii", self._read),
            "fd_write": ("iiii", self._write),
            "random_get": ("ii", self._draw),
            "sched_yield": ("", _return_ok),
        }

    @staticmethod
    def _guarded(function: _Function) -> Callable[..., int]:
        def call(caller: wasmtime.Caller, *arguments: int) -> int:
            memory = caller.get("memory")
            if not isinstance(memory, wasmtime.Memory):
                return _FAULT
            try:
                return function(_Memory(caller, memory), *(value & 0xFFFFFFFF for value in arguments))
            except _FaultError:
                return _FAULT

        return call

    def _write_two_zeros(self, memory: _Memory, first: int, second: int) -> int:
        memory.write(first, bytes(4))
        memory.write(second, bytes(4))
        return _OK

    def _read_clock(self, memory: _Memory, _clock: int, _precision: int, target: int) -> int:
        memory.write(target, bytes(8))
        return _OK

    def _close(self, _memory: _Memory, descriptor: int) -> int:
        return _OK if descriptor in _STREAMS else _BAD_DESCRIPTOR

    def _describe(self, memory: _Memory, descriptor: int, target: int) -> int:
        if descriptor not in _STREAMS:
            return _BAD_DESCRIPTOR
        memory.write(target, bytes([_CHARACTER_DEVICE]) + bytes(23))
        return _OK

    def _read(self, memory: _Memory, descriptor: int, buffers: int, count: int, target: int) -> int:
        if descriptor != 0:
            return _BAD_DESCRIPTOR
        if count > _MAX_BUFFERS:
            return _INVALID
        total = 0
        for start, size in memory.buffers(buffers, count):
            chunk = self._stdin[:size]
            memory.write(start, bytes(chunk))
            self._stdin = self._stdin[size:]
            total += len(chunk)
        memory.write(target, total.to_bytes(4, "little"))
        return _OK

    def _write(self, memory: _Memory, descriptor: int, buffers: int, count: int, target: int) -> int:
        if descriptor not in self._limits:
            return _BAD_DESCRIPTOR
        if count > _MAX_BUFFERS:
            return _INVALID
        total = 0
        for start, size in memory.buffers(buffers, count):
            written = len(self.stdout) if descriptor == 1 else self._stderr_size
            if written + size > self._limits[descriptor]:
                stream = "standard output" if descriptor == 1 else "standard error output"
                msg = f"the module wrote more than {self._limits[descriptor]} bytes to its {stream}"
                raise OutputTooLargeError(msg)
            data = memory.read(start, size)
            if descriptor == 1:
                self.stdout += data
            else:
                self._stderr_size += size
            total += size
        memory.write(target, total.to_bytes(4, "little"))
        return _OK

    def _draw(self, memory: _Memory, target: int, size: int) -> int:
        if size > _MAX_RANDOM:
            return _INVALID
        self._drawn += 1
        memory.write(target, hashlib.shake_256(self._seed + self._drawn.to_bytes(8, "little")).digest(size))
        return _OK


@final
class _Memory:
    """The memory of a module. Every access checks the address."""

    def __init__(self, caller: wasmtime.Caller, memory: wasmtime.Memory) -> None:
        self._caller = caller
        self._memory = memory

    def read(self, start: int, size: int) -> bytes:
        self._check(start, size)
        return bytes(self._memory.read(self._caller, start, start + size))

    def write(self, start: int, data: bytes) -> None:
        self._check(start, len(data))
        if data:
            self._memory.write(self._caller, data, start)

    def buffers(self, start: int, count: int) -> list[tuple[int, int]]:
        """Return the address and the size of each buffer in a list of buffers."""
        table = self.read(start, 8 * count)
        words = [int.from_bytes(table[index : index + 4], "little") for index in range(0, len(table), 4)]
        found = list(zip(words[::2], words[1::2], strict=True))
        for address, size in found:
            self._check(address, size)
        return found

    def _check(self, start: int, size: int) -> None:
        if start + size > self._memory.data_len(self._caller):
            raise _FaultError


def _refuse_with(kind: wasmtime.FuncType) -> Callable[..., object]:
    """Return a function that answers every call with an error number."""
    results = len(kind.results)

    def refuse(*_arguments: object) -> object:
        return _NOT_CAPABLE if results == 1 else None

    return refuse


def _return_ok(_memory: _Memory, *_arguments: int) -> int:
    return _OK


def _exit(code: int) -> None:
    raise Exited(code & 0xFFFFFFFF)
