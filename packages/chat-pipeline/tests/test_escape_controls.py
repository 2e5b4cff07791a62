"""The attempts of `test_escapes.py` work if the grant or the limit that stops them is lifted.

An attempt that fails for another reason, such as a wrong address, would show nothing about the sandbox. The attempts
with sockets and signals have no such test, because no implementation of WASI here grants them.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
import wasmtime
from chat_core.json import JsonValue
from chat_pipeline import FileRead, FileWrite, Folder
from chat_pipeline._compiled import compile_module, compiled_file, load_module
from chat_pipeline._sandbox import Sandbox, make_engine
from chat_pipeline._wasi import WasiHost
from chat_pipeline._wasi_files import ReadOnlyFolder
from chat_pipeline.wasm import WasmLimits
from test_escapes import BOMBS, FILES, FORBIDDEN, LIBRARY, PATHS, PROGRAMS, touch
from wasm_modules import EXIT, GOOD, LIMITS, PRINT, WRITE, execute, opening, other_code, printing, program

pytestmark = pytest.mark.anyio

# --- Functions of WASI: the WASI of wasmtime grants what ours refuses ------------------------------------------------

GRANTED = [
    "open /etc/passwd",
    "first granted folder",
    "name of a folder",
    "list a folder",
    "create a folder",
    "symbolic link",
    "read a link",
    "rename",
    "delete",
    "delete a folder",
    "status of a file",
    "sleep",
    "resolution of the clock",
]


def run_with_grants(module: str, root: Path) -> str:
    """Run a module with the WASI of wasmtime and a writable root folder, and return what it printed."""
    for name in ("etc", "empty"):
        (root / name).mkdir(parents=True)
    for name in ("etc/passwd", "old"):
        (root / name).write_text("secret", encoding="utf-8")
    (root / "link").symlink_to("old")
    engine, config, output = wasmtime.Engine(), wasmtime.WasiConfig(), root.parent / "output"
    config.preopen_dir(str(root), "/")
    config.stdout_file = str(output)
    with wasmtime.Store(engine) as store:
        store.set_wasi(config)
        linker = wasmtime.Linker(engine)
        linker.define_wasi()
        start = linker.instantiate(store, wasmtime.Module(engine, module)).exports(store)["_start"]
        assert isinstance(start, wasmtime.Func)
        start(store)
    return output.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "module",
    [
        *(pytest.param(FORBIDDEN[name], id=name) for name in GRANTED),
        pytest.param(LIBRARY["change a time"], id="change a time"),
        pytest.param(LIBRARY["hard link"], id="hard link"),
    ],
)
def test_a_forbidden_function_succeeds_in_a_wasi_with_grants(tmp_path: Path, module: str) -> None:
    assert "escaped" in run_with_grants(module, tmp_path / "root")


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("more random bytes than allowed", "(i32.const 0) (i32.const 65537)", "(i32.const 1024) (i32.const 16)"),
        ("random bytes outside the memory", "(i32.const 65535) (i32.const 2)", "(i32.const 65535) (i32.const 1)"),
        ("environment outside the memory", "(i32.const -1) (i32.const -4)", "(i32.const 1024) (i32.const 1028)"),
        ("read into a wrong address", "(i32.const -8) (i32.const 1)", "(i32.const 2048) (i32.const 1)"),
        ("too many buffers", "(i32.const 0) (i32.const 5000)", "(i32.const 2048) (i32.const 1)"),
        ("write to another descriptor", "(i32.const 3) (i32.const 0)", "(i32.const 2) (i32.const 0)"),
        ("read another descriptor", "(i32.const 3) (i32.const 0)", "(i32.const 0) (i32.const 2048)"),
    ],
)
async def test_a_function_with_allowed_arguments_succeeds(name: str, wrong: str, right: str) -> None:
    assert FORBIDDEN[name].count(wrong) == 1
    # Attempts without output of their own must only end without an error.
    try:
        assert await execute(FORBIDDEN[name].replace(wrong, right)) == "escaped"
    except Exception as error:
        if name != "write to another descriptor":
            raise
        assert "wrote no JSON" in str(error)  # noqa: PT017 - the module writes to its error output


# --- Limits: the same module returns with a higher limit, or does the same a few times -------------------------------

LIFTED = {
    "large memory at the start": WasmLimits(memory_bytes=2 * 1024**2),
    "growing memory": WasmLimits(memory_bytes=2 * 1024**2),
    "large table": WasmLimits(table_elements=200_000),
    "huge JSON": WasmLimits(stdout_bytes=8192),
}
COUNT = "(local.set $n (i32.add (local.get $n) (i32.const 1)))"
ANSWER = '{"status":"ok","output":"escaped"}'
FEW = {
    "loop": program(f"(local $n i32) (loop $l {COUNT} (br_if $l (i32.lt_u (local.get $n) (i32.const 1000)))) {PRINT}",
                    WRITE, data=ANSWER),
    "recursion": program(f"(call $f (i32.const 100)) {PRINT}", WRITE, data=ANSWER).replace(
        "(func (export", "(func $f (param $n i32) (if (local.get $n) (then (call $f (i32.sub (local.get $n) "
        "(i32.const 1)))))) (func (export", 1),
    "error output": printing(ANSWER, before=PRINT.replace("$write (i32.const 1)", "$write (i32.const 2)")),
    "exit": printing(ANSWER, after="(call $exit (i32.const 0))", imports=(EXIT,)),
    "deep JSON": printing('{"status":"ok","output":' + "[" * 100 + "]" * 100 + "}"),
    "number": printing('{"status":"ok","output":1e99}'),
}  # fmt: skip


@pytest.mark.parametrize("name", LIFTED)
async def test_a_module_beyond_a_limit_returns_with_a_higher_limit(name: str) -> None:
    assert await execute(BOMBS[name][0], limits=LIFTED[name])


@pytest.mark.parametrize("name", FEW)
async def test_a_module_that_does_the_same_within_the_limits_returns(name: str) -> None:
    assert await execute(FEW[name])


# --- The library of CPython: a folder that contains the path opens it ------------------------------------------------


def run_in_folder(module: str, files: dict[str, bytes], host_result: int = -1) -> JsonValue:
    sandbox = Sandbox(LIMITS)
    host = WasiHost(b"", b"", 4096, 1024, folder=ReadOnlyFolder("/lib", files), refused={("host", "call"): host_result})
    return sandbox.execute(wasmtime.Module(sandbox.engine, module), host)


@pytest.mark.parametrize("path", sorted({path for path, _ in PATHS.values()}))
def test_a_path_is_opened_if_the_folder_contains_it(path: str) -> None:
    assert run_in_folder(opening(path), {path: b"abcd"}) == "escaped"


def test_the_status_of_a_path_and_a_call_of_the_host_succeed_if_they_are_granted() -> None:
    assert run_in_folder(LIBRARY["status of a parent"], {"../secret": b"abcd"}) == "escaped"
    assert run_in_folder(LIBRARY["call a tool of the host"], {}, host_result=0) == "escaped"


# --- Compiled modules: without the change, or with the digest of the change, they are loaded -------------------------


def test_a_compiled_module_is_loaded_without_a_change_and_other_code_with_its_digest(tmp_path: Path) -> None:
    source = tmp_path / "module.wat"
    source.write_text(GOOD, encoding="utf-8")
    compile_module(tmp_path / "cache", source)
    file, engine = compiled_file(tmp_path / "cache", source), make_engine()
    found = [load_module(engine, file, None)]
    code = other_code(file)
    file.unlink()  # the loaded module is mapped from the old file
    file.write_bytes(code)
    file.chmod(0o600)
    found.append(load_module(engine, file, hashlib.sha256(file.read_bytes()).hexdigest()))

    results: list[object] = []
    for module in found:
        with wasmtime.Store(engine) as store:
            store.set_fuel(1000)
            store.set_epoch_deadline(1)
            run = wasmtime.Instance(store, module, []).exports(store)["run"]
            assert isinstance(run, wasmtime.Func)
            results.append(run(store))
    assert results == [7, 8]


# --- Files: the paths lead to files, and grants open them ------------------------------------------------------------

REACHING = [
    "parent of the folder",
    "folder itself",
    "parent without a folder",
    "absolute path",
    "absolute path in the folder",
    "link to a file outside",
    "link to a file inside",
    "link to the parent",
    "link to another folder",
    "parent inside the path",
]
"""Attempts that would read a file without the checks of the runtime."""


@pytest.mark.parametrize("name", REACHING)
def test_a_path_leads_to_a_file_if_it_is_not_checked(granted: Path, name: str) -> None:
    path = FILES[name].removeprefix("data/")
    assert (granted / path).read_text(encoding="utf-8")


async def test_a_folder_that_is_granted_is_read_and_written(granted: Path) -> None:
    folders = {"other": Folder(granted, writable=True)}
    task = touch("other/in.txt")
    assert not (granted / "missing.txt").exists()
    for runtime in (FileRead(folders), FileWrite(folders)):
        call = type(task)(run_id="r", task_id="t", config=task.config, context={}, filesystem=("data", "other"))
        assert await runtime.run(call)
    assert (granted / "in.txt").read_text() == "new"


# --- Programs: they work in CPython without a sandbox ----------------------------------------------------------------

HARMLESS = [
    "file",
    "file over the library",
    "list the root",
    "working folder",
    "environment",
    "process",
    "shell",
    "thread",
    "native code",
    "large output",
]


def test_programs_that_fail_in_the_sandbox_work_without_it() -> None:
    programs = [PROGRAMS[name][0] for name in HARMLESS]
    check = "import sys\nfor text in sys.argv[1:]: exec(text, {})"
    done = subprocess.run(
        [sys.executable, "-c", check, *programs], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
