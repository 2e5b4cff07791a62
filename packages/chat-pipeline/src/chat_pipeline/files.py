"""The runtimes `file_read` and `file_write`, which use only granted folders.

Each part of a path is opened relative to its parent folder, without following symbolic links. Therefore, even a link
that another process creates at the same time is not followed.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, final

from chat_core import json
from chat_core.arguments import require_text, require_type
from chat_core.errors import UsageError
from chat_core.json import JsonValue

from chat_pipeline.errors import TaskError
from chat_pipeline.runtime import ANY, ConfigField, ConfigProblem, Runtime, TaskCall
from chat_pipeline.templates import has_expression

MAX_FILE_BYTES: Final = 1024 * 1024
"""Default maximum size of a file that is read or written."""

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@final
@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that tasks may use.

    Attributes:
        path: the folder. It must exist.
        writable: whether tasks may write files in it.
        max_bytes: maximum size of a file that is read or written.
    """

    path: Path | str
    writable: bool = False
    max_bytes: int = MAX_FILE_BYTES


class _FileRuntime(Runtime):
    """Base class of the runtimes `file_read` and `file_write`."""

    def __init__(self, folders: Mapping[str, Folder]) -> None:
        require_type("folders", folders, Mapping, "a mapping of names to folders")
        for name, folder in folders.items():
            require_text(name=name)
            require_type(f"folders[{name!r}]", folder, Folder, "a Folder, such as Folder('reports')")
            if not name or "/" in name or name in {".", ".."}:
                msg = f"the name of a folder must be a part of a path, not {name!r}"
                raise UsageError(msg)
        self._folders = dict(folders)

    @property
    def folders(self) -> frozenset[str]:
        """Names of the granted folders."""
        return frozenset(self._folders)

    def check(self, config: Mapping[str, JsonValue]) -> Iterator[ConfigProblem]:
        """Yield a problem if the path is invalid or refers to a file outside its folder."""
        require_type("config", config, Mapping, "a mapping of keys to values")
        path = config.get("path")
        if isinstance(path, str) and not has_expression(path):
            try:
                split_path(path)
            except TaskError as error:
                yield ("path",), str(error)

    def _find(self, call: TaskCall) -> tuple[Folder, list[str]]:
        """Return the folder that a task uses, and the parts of the path inside this folder."""
        name, *parts = split_path(call.text("path"))
        folder = self._folders.get(name)
        if folder is None or name not in call.filesystem:
            granted = ", ".join(sorted(call.filesystem))
            msg = f"the folder {name!r} is not granted to the task; granted folders: {granted}"
            raise TaskError(msg)
        return folder, parts


@final
class FileRead(_FileRuntime):
    """The runtime `file_read`, which reads a UTF-8 text file.

    Args:
        folders: the granted folders by name. A path in a workflow begins with the name of a folder.
    """

    name = "file_read"
    fields: ClassVar[Mapping[str, ConfigField]] = {"path": ConfigField()}

    async def run(self, call: TaskCall) -> JsonValue:
        """Return the path, the content and the number of bytes of a file."""
        folder, parts = self._find(call)
        data = await asyncio.to_thread(_read_file, folder, parts)
        try:
            content = data.decode()
        except UnicodeDecodeError as error:
            msg = f"{call.text('path')!r} is not text in UTF-8"
            raise TaskError(msg) from error
        return {"path": call.text("path"), "content": content, "bytes": len(data)}


@final
class FileWrite(_FileRuntime):
    """The runtime `file_write`, which replaces a whole file, so a repeated attempt has the same result.

    A string is written unchanged, and any other value as JSON. Missing folders in the path are created.

    Args:
        folders: the granted folders by name. Tasks can write only to folders with `writable=True`.
    """

    name = "file_write"
    fields: ClassVar[Mapping[str, ConfigField]] = {"path": ConfigField(), "content": ConfigField(ANY)}

    def __init__(self, folders: Mapping[str, Folder]) -> None:
        super().__init__(folders)
        self._folders = {name: folder for name, folder in self._folders.items() if folder.writable}

    async def run(self, call: TaskCall) -> JsonValue:
        """Write the file, and return its path and the number of bytes."""
        folder, parts = self._find(call)
        content = call.config["content"]
        data = content.encode(errors="replace") if isinstance(content, str) else json.dump_bytes(content)
        if len(data) > folder.max_bytes:
            msg = f"the content has {len(data)} bytes, more than the limit of {folder.max_bytes}"
            raise TaskError(msg)
        await asyncio.to_thread(_write_file, folder, parts, data, call.key)
        return {"path": call.text("path"), "bytes_written": len(data)}


def split_path(path: str) -> list[str]:
    """Split a path from a workflow into the name of a folder and the parts of the path inside this folder.

    Raises:
        TaskError: the path is absolute, names no file, has a part such as `..`, or cannot be encoded.
    """
    parts = path.split("/")
    if len(parts) < 2 or any(part in {"", ".", ".."} or "\0" in part for part in parts):  # noqa: PLR2004 - an area and a name
        msg = f"{path!r} must be FOLDER/FILE with the name of a granted folder and without '.', '..' or '//'"
        raise TaskError(msg)
    try:
        path.encode()
    except UnicodeEncodeError as error:
        msg = f"{path!r} has a character that cannot be part of a path"
        raise TaskError(msg) from error
    return parts


def _read_file(folder: Folder, parts: list[str]) -> bytes:
    with _translate_os_errors("/".join(parts)), _open_parent(folder, parts, create=False) as parent:
        # O_NONBLOCK: opening a named pipe must not wait for a writer.
        descriptor = os.open(parts[-1], _READ_FLAGS, dir_fd=parent)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                msg = f"{'/'.join(parts)!r} is not a regular file"
                raise TaskError(msg)
            data = stream.read(folder.max_bytes + 1)
    if len(data) > folder.max_bytes:
        msg = f"{'/'.join(parts)!r} has more than {folder.max_bytes} bytes"
        raise TaskError(msg)
    return data


def _write_file(folder: Folder, parts: list[str], data: bytes, key: str) -> None:
    temporary = f".{key.replace('/', '.')}.tmp"
    with _translate_os_errors("/".join(parts)), _open_parent(folder, parts, create=True) as parent:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)  # left by an attempt that was killed
        descriptor = os.open(temporary, _CREATE_FLAGS, 0o666, dir_fd=parent)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(descriptor)
        try:
            os.rename(temporary, parts[-1], src_dir_fd=parent, dst_dir_fd=parent)  # a link is replaced
        except OSError:
            os.unlink(temporary, dir_fd=parent)
            raise
        os.fsync(parent)


@contextmanager
def _open_parent(folder: Folder, parts: list[str], *, create: bool) -> Generator[int]:
    """Open the parent folder of a file, part by part, and yield the descriptor of this folder."""
    current = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=current)
            parent, current = current, os.open(part, _FOLDER_FLAGS, dir_fd=current)
            os.close(parent)
        yield current
    finally:
        os.close(current)


@contextmanager
def _translate_os_errors(path: str) -> Generator[None]:
    """Convert `OSError` to `TaskError`.

    The message contains `path` from the workflow, and not the path on this machine.
    """
    try:
        yield
    except OSError as error:
        msg = f"{path!r} cannot be used: {os.strerror(error.errno or 0)}"
        raise TaskError(msg) from error
