"""Files with compiled WebAssembly modules. A command writes them in advance, and tasks only read them.

A compiled module is machine code, so it is loaded only from a file that no other user can write, and whose content has
the digest that was recorded when it was compiled.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

import wasmtime
from chat_core.errors import UsageError

from chat_pipeline._sandbox import first_line, make_engine

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def compiled_file(folder: Path, source: Path) -> Path:
    """Return the path of a compiled module, which depends on the digest of the module and the version of wasmtime.

    Args:
        folder: the folder of compiled modules.
        source: the module.

    Raises:
        OSError: the module cannot be read.
    """
    return folder / f"{_hash_file(source)[:32]}-wasmtime-{version('wasmtime')}.cwasm"


def compile_module(folder: Path, source: Path) -> str:
    """Compile a module, write it to its file in the folder, and return the digest of the file.

    Args:
        folder: the folder of compiled modules, which is created with access for the current user alone.
        source: the module.

    Raises:
        UsageError: the module cannot be compiled, or another user can write the folder.
        OSError: a file cannot be read or written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_private(folder)  # before the compilation, which can take minutes
    target = compiled_file(folder, source)
    try:
        data = bytes(wasmtime.Module(make_engine(), source.read_bytes()).serialize())
    except wasmtime.WasmtimeError as error:
        msg = f"the module {source} cannot be compiled: {first_line(error)}"
        raise UsageError(msg) from error
    digest = hashlib.sha256(data).hexdigest()
    # The digest is written last, so that a file without it is known to be incomplete.
    _write_module(target, data)
    _write_module(target.with_suffix(".sha256"), digest.encode())
    return digest


def find_compiled(folder: Path, source: Path) -> str | None:
    """Return the digest of a compiled module in a folder, or None if the module was not compiled completely.

    Args:
        folder: the folder of compiled modules.
        source: the module.

    Raises:
        UsageError: another user can write the compiled module, or it is not the one that was compiled.
        OSError: the module cannot be read.
    """
    file = compiled_file(folder, source)
    recorded = file.with_suffix(".sha256")
    if not (file.is_file() and recorded.is_file()):
        return None
    load_module(make_engine(), file, None)
    return recorded.read_text(encoding="ascii")


def load_module(engine: wasmtime.Engine, file: Path, digest: str | None) -> wasmtime.Module:
    """Load a compiled module from its file.

    Args:
        engine: engine of the module.
        file: the file.
        digest: the expected digest of the file. Default: the digest that was recorded in the folder.

    Raises:
        UsageError: the file is missing, another user can write it, or it is not the one that was compiled.
    """
    try:
        recorded = file.with_suffix(".sha256")
        for path in (file.parent, file) if digest else (file.parent, file, recorded):
            _require_private(path)
        expected = digest or recorded.read_text(encoding="ascii")
        before = _file_stamp(file)
        if _hash_file(file) != expected:
            msg = f"the compiled module {file} has another digest than expected: remove it, and compile it again"
            raise UsageError(msg)
        module = wasmtime.Module.deserialize_file(engine, str(file))
        after = _file_stamp(file)
    except FileNotFoundError as error:
        msg = f"there is no compiled module {file}: compile it first"
        raise UsageError(msg) from error
    except (OSError, UnicodeDecodeError) as error:
        msg = f"the compiled module {file} cannot be read: {error}"
        raise UsageError(msg) from error
    except wasmtime.WasmtimeError as error:
        msg = f"the compiled module {file} cannot be loaded: {first_line(error)}: remove it, and compile it again"
        raise UsageError(msg) from error
    if before != after:
        msg = f"the compiled module {file} was replaced while it was read"
        raise UsageError(msg)
    return module


def _require_private(path: Path) -> None:
    """Raise if another user owns a file or a folder, or may write it."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        msg = f"{path} must be a file or a folder, not a link"
        raise UsageError(msg)
    if status.st_uid != os.getuid() or status.st_mode & _OTHERS_WRITE:
        msg = (
            f"{path} must belong to the current user, and no other user may write it: a compiled module is machine code"
        )
        raise UsageError(msg)


def _file_stamp(file: Path) -> tuple[int, int, int, int]:
    status = file.lstat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _hash_file(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write_module(target: Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".tmp", delete=False) as stream:  # mode 0600
        stream.write(data)
    Path(stream.name).replace(target)
