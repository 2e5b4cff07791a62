"""The WASI functions of one read-only folder whose files are in the memory of the host.

CPython reads its standard library from such a folder. No function opens a file of the host, so no path leads out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, final

from chat_pipeline._wasi_memory import BAD_DESCRIPTOR, INVALID, NO_ENTRY, NOT_CAPABLE, NOT_DIRECTORY, OK, Memory

FOLDER: Final = 3
"""Descriptor of the folder."""
_DIRECTORY: Final = 3
_REGULAR_FILE: Final = 4
_MAX_PATH: Final = 4096
_MAX_OPEN: Final = 256
_MAX_CHUNK: Final = 1024 * 1024
_WRITING: Final = 1 << 6
_READ_RIGHTS: Final = 1 << 1 | 1 << 2 | 1 << 5 | 1 << 13 | 1 << 14 | 1 << 18 | 1 << 21
"""Read, seek, tell, open, list, and the status of files and paths."""
_TOO_MANY_FILES: Final = 33
_CHANGES: Final = 0b1101
"""The flags of `path_open` that create or truncate a file."""

Function: TypeAlias = Callable[..., int]


@final
class ReadOnlyFolder:
    """One folder and its open files.

    Args:
        path: path of the folder for the module.
        files: content of the files by name.
    """

    def __init__(self, path: str, files: Mapping[str, bytes | memoryview]) -> None:
        self._path = path.encode()
        self._files = {name.encode(): memoryview(data) for name, data in files.items()}
        self._open: dict[int, tuple[memoryview, int]] = {}

    @property
    def functions(self) -> Mapping[str, tuple[str, Function]]:
        """The functions by name, with the types of their parameters: `i` for 32 bits, `I` for 64."""
        return {
            "fd_prestat_get": ("ii", self._describe_folder),
            "fd_prestat_dir_name": ("iii", self._name_folder),
            "path_open": ("iiiiiIIii", self._open_file),
            "path_filestat_get": ("iiiii", self._path_status),
            "fd_filestat_get": ("ii", self._status),
            "fd_pread": ("iiiIi", self._read_at),
            "fd_seek": ("iIii", self._seek),
            "fd_tell": ("ii", self._tell),
        }

    def close(self, descriptor: int) -> int:
        """Close a file."""
        return OK if self._open.pop(descriptor, None) is not None or descriptor == FOLDER else BAD_DESCRIPTOR

    def describe(self, memory: Memory, descriptor: int, target: int) -> int:
        """Write the type and the rights of a descriptor."""
        if descriptor != FOLDER and descriptor not in self._open:
            return BAD_DESCRIPTOR
        kind = _DIRECTORY if descriptor == FOLDER else _REGULAR_FILE
        rights = _READ_RIGHTS.to_bytes(8, "little")
        memory.write(target, bytes([kind]) + bytes(7) + rights + rights)
        return OK

    def read(self, memory: Memory, descriptor: int, buffers: list[tuple[int, int]], target: int) -> int:
        """Read from the position of a file."""
        if descriptor not in self._open:
            return BAD_DESCRIPTOR
        data, position = self._open[descriptor]
        total = _fill(memory, data, position, buffers)
        self._open[descriptor] = (data, position + total)
        memory.write(target, total.to_bytes(4, "little"))
        return OK

    def _describe_folder(self, memory: Memory, descriptor: int, target: int) -> int:
        if descriptor != FOLDER:
            return BAD_DESCRIPTOR
        memory.write(target, bytes(4) + len(self._path).to_bytes(4, "little"))
        return OK

    def _name_folder(self, memory: Memory, descriptor: int, target: int, size: int) -> int:
        if descriptor != FOLDER:
            return BAD_DESCRIPTOR
        if size < len(self._path):
            return INVALID
        memory.write(target, self._path)
        return OK

    def _open_file(  # noqa: PLR0917 - the parameters of WASI
        self,
        memory: Memory,
        folder: int,
        _lookup: int,
        path: int,
        size: int,
        flags: int,
        rights: int,
        _inherited: int,
        _descriptor_flags: int,
        target: int,
    ) -> int:
        if folder != FOLDER:
            return BAD_DESCRIPTOR
        name = memory.read(path, min(size, _MAX_PATH))
        if flags & _CHANGES or (rights & _WRITING and name in self._files):
            return NOT_CAPABLE
        if name not in self._files:
            return NO_ENTRY
        if flags & 2:
            return NOT_DIRECTORY
        if len(self._open) >= _MAX_OPEN:
            return _TOO_MANY_FILES
        number = next(number for number in range(FOLDER + 1, FOLDER + 2 + _MAX_OPEN) if number not in self._open)
        self._open[number] = (self._files[name], 0)
        memory.write(target, number.to_bytes(4, "little"))
        return OK

    def _path_status(self, memory: Memory, folder: int, _lookup: int, path: int, size: int, target: int) -> int:
        if folder != FOLDER:
            return BAD_DESCRIPTOR
        name = memory.read(path, min(size, _MAX_PATH))
        if name in {b"", b"."}:
            memory.write(target, _file_status(_DIRECTORY, 0))
        elif name in self._files:
            memory.write(target, _file_status(_REGULAR_FILE, len(self._files[name])))
        else:
            return NO_ENTRY
        return OK

    def _status(self, memory: Memory, descriptor: int, target: int) -> int:
        if descriptor == FOLDER:
            memory.write(target, _file_status(_DIRECTORY, 0))
        elif descriptor in self._open:
            memory.write(target, _file_status(_REGULAR_FILE, len(self._open[descriptor][0])))
        else:
            return BAD_DESCRIPTOR
        return OK

    def _read_at(  # noqa: PLR0917 - the parameters of WASI
        self, memory: Memory, descriptor: int, buffers: int, count: int, offset: int, target: int
    ) -> int:
        if descriptor not in self._open:
            return BAD_DESCRIPTOR
        total = _fill(memory, self._open[descriptor][0], offset, memory.buffers(buffers, count))
        memory.write(target, total.to_bytes(4, "little"))
        return OK

    def _seek(self, memory: Memory, descriptor: int, offset: int, whence: int, target: int) -> int:
        if descriptor not in self._open:
            return BAD_DESCRIPTOR
        data, position = self._open[descriptor]
        signed = offset - (1 << 64) if offset >= 1 << 63 else offset
        start = {0: 0, 1: position, 2: len(data)}.get(whence)
        if start is None or not 0 <= start + signed < 1 << 63:
            return INVALID
        self._open[descriptor] = (data, start + signed)
        memory.write(target, (start + signed).to_bytes(8, "little"))
        return OK

    def _tell(self, memory: Memory, descriptor: int, target: int) -> int:
        if descriptor not in self._open:
            return BAD_DESCRIPTOR
        memory.write(target, self._open[descriptor][1].to_bytes(8, "little"))
        return OK


def _fill(memory: Memory, data: memoryview, position: int, buffers: list[tuple[int, int]]) -> int:
    """Copy a part of a file into buffers, and return its size. A large read is partial, as POSIX allows."""
    total = 0
    for start, size in buffers:
        chunk = data[position + total : position + total + min(size, _MAX_CHUNK - total)]
        memory.write(start, bytes(chunk))
        total += len(chunk)
    return total


def _file_status(kind: int, size: int) -> bytes:
    return bytes(16) + bytes([kind]) + bytes(7) + (1).to_bytes(8, "little") + size.to_bytes(8, "little") + bytes(24)
