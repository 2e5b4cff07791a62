"""The attempts of `test_escapes.py` work if the grant or the limit that stops them is lifted.

An attempt that fails for another reason, such as a wrong address, would show nothing about the sandbox.
"""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import wasmtime
from chat_core import json
from chat_core.json import JsonValue
from chat_pipeline import FileRead, FileWrite, Folder, _sandbox
from chat_pipeline._compiled import compile_module, compiled_file, load_module
from chat_pipeline._sandbox import Sandbox, make_engine
from chat_pipeline._wasi import WasiHost
from chat_pipeline._wasi_files import ReadOnlyFolder
from chat_pipeline._wasi_memory import Memory
from chat_pipeline.cpython import Cpython
from chat_pipeline.wasm import WasmLimits
from escape_targets import Targets
from test_escapes import BOMBS, FILES, FORBIDDEN, LIBRARY, PATHS, PROGRAMS, touch
from wasm_modules import EXIT, GOOD, LIMITS, PRINT, WASI, WRITE, call, execute, opening, other_code, printing, program

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


# --- Sockets and signals: a WASI that grants them to the modules of the attempts ------------------------------------


def run_with_function(module: str, name: str, function: Callable[..., int]) -> object:
    """Run a module with one function of WASI in addition to output and exit, and return its answer."""
    engine, output = wasmtime.Engine(), bytearray()

    def write(memory: Memory, _descriptor: int, buffers: int, count: int, _target: int) -> int:
        output.extend(b"".join(memory.read(*buffer) for buffer in memory.buffers(buffers, count)))
        return 0

    def with_memory(function: Callable[..., int]) -> Callable[..., int]:
        def call_function(caller: wasmtime.Caller, *arguments: int) -> int:
            memory = caller["memory"]
            assert isinstance(memory, wasmtime.Memory)
            return function(Memory(caller, memory), *arguments)

        return call_function

    def exit_(_memory: Memory, number: int) -> int:
        pytest.fail(f"the module exited with status {number}")

    compiled, linker = wasmtime.Module(engine, module), wasmtime.Linker(engine)
    functions: dict[str, Callable[..., int]] = {"fd_write": write, "proc_exit": exit_, name: function}
    for needed in compiled.imports:
        assert isinstance(needed.type, wasmtime.FuncType)
        host_function = with_memory(functions[str(needed.name)])
        linker.define_func(WASI, str(needed.name), needed.type, host_function, access_caller=True)
    with wasmtime.Store(engine) as store:
        start = linker.instantiate(store, compiled).exports(store)["_start"]
        assert isinstance(start, wasmtime.Func)
        start(store)
    return json.loads_limited(bytes(output))


def test_a_module_accepts_a_connection_if_its_host_grants_a_socket(targets: Targets) -> None:
    accepted: list[socket.socket] = []

    def accept(memory: Memory, _descriptor: int, _flags: int, target: int) -> int:
        accepted.append(targets.listener.accept()[0])
        memory.write(target, accepted[0].fileno().to_bytes(4, "little"))
        return 0

    with socket.create_connection(targets.listener.getsockname(), timeout=30) as client:
        answer = run_with_function(FORBIDDEN["accept a connection"], "sock_accept", accept)
        with accepted[0]:
            assert accepted[0].getpeername() == client.getsockname()
    assert answer == {"status": "ok", "output": "escaped"}


def test_a_module_sends_if_its_host_grants_a_socket() -> None:
    ours, peer = socket.socketpair()

    def send(memory: Memory, _descriptor: int, buffers: int, count: int, _flags: int, target: int) -> int:
        (data,) = [memory.read(*buffer) for buffer in memory.buffers(buffers, count)]
        memory.write(target, ours.send(data).to_bytes(4, "little"))
        return 0

    with ours, peer:
        answer = run_with_function(FORBIDDEN["send"], "sock_send", send)
        assert json.loads_limited(peer.recv(1000)) == answer == {"status": "ok", "output": "escaped"}


def test_a_module_receives_if_its_host_grants_a_socket() -> None:
    ours, peer = socket.socketpair()

    def receive(memory: Memory, _descriptor: int, buffers: int, count: int, _flags: int, target: int, _out: int) -> int:
        ((address, size),) = memory.buffers(buffers, count)
        data = ours.recv(size)
        memory.write(address, data)
        memory.write(target, len(data).to_bytes(4, "little"))
        return 0

    with ours, peer:
        # The buffer of the attempt is the text of its answer.
        peer.send(b'{"status":"ok","output":"receive"}')
        answer = run_with_function(FORBIDDEN["receive"], "sock_recv", receive)
    assert answer == {"status": "ok", "output": "receive"}


def test_a_module_sends_a_signal_if_its_host_grants_it(targets: Targets) -> None:
    def send_signal(_memory: Memory, number: int) -> int:
        targets.process.send_signal(number)
        return 0

    assert run_with_function(FORBIDDEN["signal"], "proc_raise", send_signal) == {"status": "ok", "output": "escaped"}
    assert targets.process.wait(30) == -9


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


async def test_an_answer_before_the_deadline_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, LIMITS.seconds - 0.01])
    monkeypatch.setattr(_sandbox, "time", SimpleNamespace(monotonic=lambda: next(times)))

    assert await execute(printing('{"status":"ok","output":1}')) == 1


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


# --- Programs: they work in CPython without a sandbox, or within the limits of the sandbox ---------------------------

HARMLESS: dict[str, dict[str, str]] = {
    "file": {},
    "file over the library": {},
    "write a file": {},
    "write the library": {"/usr/local/lib": "FOLDER"},
    "list the root": {},
    "list the library": {"/usr/local/lib": "FOLDER"},
    "symbolic link": {"/usr/local/lib": "FOLDER"},
    "remove the library": {"/usr/local/lib": "FOLDER"},
    "working folder": {},
    "environment": {},
    "secret in the arguments": {},
    "process": {},
    "shell": {},
    "fork": {},
    "thread": {},
    "native code": {},
    "sleep": {"60": "0.01"},
    "large output": {},
    "own answer": {},
}
"""Programs that have no effect outside of a folder, by name, with the replacements that make them so."""
WITHIN_THE_LIMITS: dict[str, tuple[str, JsonValue]] = {
    "file": ("open('/usr/local/lib/python315.zip', 'rb').read(2).decode()", "PK"),
    "endless loop": ("for _ in range(1000): pass\n'end'", "end"),
    "memory": ("x = bytearray(1 << 24)\nlen(x)", 1 << 24),
    "growing memory": ("x = ['x']\nfor _ in range(10): x += x\nlen(x)", 1024),
    "recursion": ("def f(n): return n and f(n - 1)\nf(100)", 0),
    "large output": ("'x' * 90_000", "x" * 90_000),
    "printed output": ("for _ in range(5): print('x' * 1000)\n'end'", "end"),
    "NaN": ("float('1.5')", 1.5),
    "infinity": ("[1e99]", [1e99]),
    "deep JSON": ("x = []\nfor _ in range(3): x = [x]\nx", [[[[]]]]),
    "not JSON": ("[1]", [1]),
    "own answer": ("import os; os.write(2, b'{}')", 2),
    "huge number": ("10 ** 10", 10**10),
    "huge integer": ("str(10 ** 50)", str(10**50)),
    "regular expression": ("import re; re.match('(a+)+$', 'a' * 8 + 'b') is None", True),
}
"""Programs that do the same as those of `PROGRAMS` within the limits, by name, with their result."""


def start_without_sandbox(program: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", f"exec({program!r}, {{}})", "argument"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("name", HARMLESS)
def test_a_program_that_fails_in_the_sandbox_works_without_it(targets: Targets, name: str) -> None:
    program = PROGRAMS[name][0]
    for old, new in HARMLESS[name].items():
        assert old in program
        program = program.replace(old, new)
    process = start_without_sandbox(targets.insert_addresses(program))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    changing = {"write a file": ["folder"], "symbolic link": ["folder"], "remove the library": ["folder"]}
    assert targets.reached() == changing.get(name, [])


@pytest.mark.parametrize("name", ["socket", "request"])
def test_a_program_without_a_sandbox_connects_to_the_server(targets: Targets, name: str) -> None:
    targets.listener.settimeout(60)
    process = start_without_sandbox(targets.insert_addresses(PROGRAMS[name][0]))
    with targets.listener.accept()[0] as connection:
        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


def test_a_program_without_a_sandbox_ends_another_process(targets: Targets) -> None:
    process = start_without_sandbox(targets.insert_addresses(PROGRAMS["signal"][0]))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert targets.process.wait(60) == -9
    assert targets.reached() == ["process"]


@pytest.mark.parametrize("name", WITHIN_THE_LIMITS)
async def test_a_program_that_does_the_same_within_the_limits_returns(cpython: Cpython, name: str) -> None:
    program, expected = WITHIN_THE_LIMITS[name]
    assert name in PROGRAMS
    assert await cpython.run(call(program)) == expected
