"""The memory of a module as functions of WASI preview 1 use it, and the error numbers that they return."""

from __future__ import annotations

from typing import Final, final

import wasmtime

OK: Final = 0
BAD_DESCRIPTOR: Final = 8
FAULT: Final = 21
INVALID: Final = 28
NO_ENTRY: Final = 44
NOT_DIRECTORY: Final = 54
NOT_CAPABLE: Final = 76


class FaultError(Exception):
    """The module passed an address outside of its memory."""


@final
class Memory:
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
            raise FaultError
