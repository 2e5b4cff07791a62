"""Every way out of the sandbox that we know is closed: each named case tries one of them.

The cases of `FORBIDDEN`, `BOMBS` and `LIBRARY` are small modules, so they need no CPython. The cases of `PROGRAMS` run
in CPython, with `CHAT_CPYTHON=FOLDER` and the folder of `python -m chat_pipeline.cpython FOLDER`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from chat_core.errors import UsageError
from chat_pipeline import FileRead, FileWrite, Folder, TaskCall, TaskError, _sandbox
from chat_pipeline._compiled import compile_module, compiled_file, load_module
from chat_pipeline._sandbox import make_engine
from chat_pipeline.cpython import Cpython
from escape_targets import Targets
from wasm_modules import (
    A32,
    A512,
    EXIT,
    GOOD,
    I0,
    I64,
    LIMITS,
    PRINT,
    WASI,
    WRITE,
    StandIn,
    asking,
    call,
    execute,
    opening,
    other_code,
    placing,
    printing,
    program,
)

pytestmark = pytest.mark.anyio

FORBIDDEN = {
    "open /etc/passwd": opening("etc/passwd"),
    "first granted folder": asking("fd_prestat_get", "i32 i32", "(i32.const 3) (i32.const 32)"),
    "name of a folder": asking("fd_prestat_dir_name", "i32 i32 i32", "(i32.const 3) (i32.const 32) (i32.const 1)"),
    "list a folder": asking(
        "fd_readdir", "i32 i32 i32 i64 i32", f"(i32.const 3) (i32.const 1024) (i32.const 64) {I64} {A32}"
    ),
    "create a folder": placing("new", "path_create_directory", "i32 i32 i32", f"(i32.const 3) {A512} {{size}}"),
    "symbolic link": placing(
        "new", "path_symlink", "i32 i32 i32 i32 i32", f"{A512} {{size}} (i32.const 3) {A512} {{size}}"
    ),
    "read a link": placing(
        "link",
        "path_readlink",
        "i32 i32 i32 i32 i32 i32",
        f"(i32.const 3) {A512} {{size}} (i32.const 1024) (i32.const 64) {A32}",
    ),
    "rename": placing(
        "oldnew",
        "path_rename",
        "i32 i32 i32 i32 i32 i32",
        f"(i32.const 3) {A512} (i32.const 3) (i32.const 3) (i32.const 515) (i32.const 3)",
    ),
    "delete": placing("old", "path_unlink_file", "i32 i32 i32", f"(i32.const 3) {A512} {{size}}"),
    "delete a folder": placing("empty", "path_remove_directory", "i32 i32 i32", f"(i32.const 3) {A512} {{size}}"),
    "status of a file": placing(
        "etc/passwd", "path_filestat_get", "i32 i32 i32 i32 i32", f"(i32.const 3) {I0} {A512} {{size}} (i32.const 1024)"
    ),
    "accept a connection": asking("sock_accept", "i32 i32 i32", f"(i32.const 3) {I0} {A32}"),
    "send": asking("sock_send", "i32 i32 i32 i32 i32", f"(i32.const 3) {I0} (i32.const 1) {I0} {A32}"),
    "receive": asking("sock_recv", "i32 i32 i32 i32 i32 i32", f"(i32.const 3) {I0} (i32.const 1) {I0} {A32} {A32}"),
    "signal": asking("proc_raise", "i32", "(i32.const 9)"),
    "sleep": asking("poll_oneoff", "i32 i32 i32 i32", f"(i32.const 1024) (i32.const 2048) (i32.const 1) {A32}"),
    "resolution of the clock": asking("clock_res_get", "i32 i32", f"{I0} {A32}"),
    "write to another descriptor": asking("fd_write", "i32 i32 i32 i32", f"(i32.const 3) {I0} (i32.const 1) {I0}")
    .replace(WRITE, "")
    .replace("$write", "$ask"),
    "read another descriptor": asking("fd_read", "i32 i32 i32 i32", f"(i32.const 3) {I0} (i32.const 1) (i32.const 32)"),
    "read beyond the file": asking("fd_pread", "i32 i32 i32 i64 i32", f"{I0} {I0} (i32.const 1) {I64} (i32.const 32)"),
    "more random bytes than allowed": asking("random_get", "i32 i32", f"{I0} (i32.const 65537)"),
    "random bytes outside the memory": asking("random_get", "i32 i32", "(i32.const 65535) (i32.const 2)"),
    "environment outside the memory": asking("environ_sizes_get", "i32 i32", "(i32.const -1) (i32.const -4)"),
    "read into a wrong address": asking(
        "fd_read", "i32 i32 i32 i32", "(i32.const 0) (i32.const -8) (i32.const 1) (i32.const 32)"
    ),
    "too many buffers": asking(
        "fd_read", "i32 i32 i32 i32", "(i32.const 0) (i32.const 0) (i32.const 5000) (i32.const 32)"
    ),
}


@pytest.mark.parametrize("name", FORBIDDEN)
async def test_a_function_that_reaches_outside_returns_an_error_to_the_module(name: str) -> None:
    with pytest.raises(TaskError, match=r"the module exited with status (8|21|28|76)$"):
        await execute(FORBIDDEN[name])


ESCAPED = '{"status":"ok","output":"escaped"}'
BOMBS: dict[str, tuple[str | bytes, str]] = {
    "endless loop": (program("(loop $l (br $l))"), r"more than 50000000 instructions|exceeded 0\.3 seconds"),
    "endless recursion": (
        '(module (memory (export "memory") 1) (func $f (call $f)) (func (export "_start") (call $f)))',
        "the module was stopped",
    ),
    "large memory at the start": (program(PRINT, WRITE, data=ESCAPED, pages=17), "cannot be executed: .*memory"),
    "growing memory": (
        printing(
            ESCAPED,
            before="(if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then (call $exit (i32.const 12))))",
            imports=(EXIT,),
        ),
        "exited with status 12",
    ),
    "large table": (
        printing(ESCAPED).replace("(memory (export", "(table 200000 funcref) (memory (export", 1),
        "cannot be executed: .*table",
    ),
    "two memories": ('(module (memory 1) (memory 1) (func (export "_start")))', "cannot be"),
    "endless output": (
        program(f"(loop $l {PRINT} (br $l))", WRITE, data="x" * 1000),
        "more than 4096 bytes to its standard output",
    ),
    "endless error output": (
        program(
            f"(loop $l {PRINT.replace('(i32.const 1) (i32.const 0)', '(i32.const 2) (i32.const 0)')} (br $l))",
            WRITE,
            data="x" * 1000,
        ),
        "more than 1024 bytes to its standard error output",
    ),
    "answer of 4 GiB": (
        program(f"(i32.store (i32.const 4) (i32.const -1)) {PRINT}", WRITE),
        "wrote no JSON",
    ),
    "answer before an endless loop": (
        printing('{"status":"ok","output":1}', after="(loop $l (br $l))"),
        r"more than 50000000 instructions|exceeded 0\.3 seconds",
    ),
    "exit with an error": (
        printing('{"status":"ok","output":1}', after="(call $exit (i32.const 3))", imports=(EXIT,)),
        "exited with status 3",
    ),
    "crash after the answer": (printing('{"status":"ok","output":1}', after="(unreachable)"), "the module was stopped"),
    "no answer": (program(""), "wrote no JSON"),
    "half an answer": (printing('{"status":"ok"'), "wrote no JSON"),
    "two answers": (printing('{"status":"ok","output":1}{"status":"ok","output":2}'), "wrote no JSON"),
    "a list": (printing('["ok"]'), "the module must write"),
    "unknown status": (printing('{"status":"done","output":1}'), "the module must write"),
    "NaN": (printing('{"status":"ok","output":NaN}'), "the module must write|wrote no JSON"),
    "infinity": (printing('{"status":"ok","output":1e999}'), "the module must write|wrote no JSON"),
    "deep JSON": (printing('{"status":"ok","output":' + "[" * 1500 + "]" * 1500 + "}"), "wrote no JSON"),
    "huge JSON": (printing('{"status":"ok","output":[' + "0," * 2500 + "0]}"), "more than 4096 bytes"),
    "invalid UTF-8": (printing('{"status":"ok","output":"x"}').replace("\\78", "\\ff"), "wrote no JSON"),
    "unknown import": (
        '(module (import "host" "system" (func (param i32))) (func (export "_start")))',
        "cannot be executed",
    ),
    "wrong host types": (
        f'(module (import "{WASI}" "fd_write" (func (param i64) (result i64))) (func (export "_start")))',
        "cannot be executed: .*types",
    ),
    "memory of the host": (
        f'(module (import "{WASI}" "memory" (memory 1)) (func (export "_start")))',
        "cannot be executed",
    ),
    "no start function": ('(module (memory (export "memory") 1))', "no function _start"),
    "start is no function": ('(module (memory (export "_start") 1))', "no function _start"),
    "start with parameters": ('(module (func (export "_start") (param i32)))', "cannot be executed"),
    "no memory": (
        f'(module {WRITE} (func (export "_start") {PRINT}))',
        "wrote no JSON",
    ),
    "no module": ("this is no module", "cannot be compiled"),
    "compiled code": (b"\x7fELF" + b"\0" * 100, "cannot be compiled"),
}


@pytest.mark.parametrize("name", BOMBS)
async def test_a_module_that_does_too_much_or_answers_wrongly_fails_the_task(name: str) -> None:
    module, message = BOMBS[name]
    begin = time.monotonic()

    with pytest.raises((TaskError, UsageError), match=message):
        await execute(module)
    assert time.monotonic() - begin < 5


async def test_an_answer_after_the_deadline_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, LIMITS.seconds + 0.01])
    monkeypatch.setattr(_sandbox, "time", SimpleNamespace(monotonic=lambda: next(times)))

    with pytest.raises(TaskError, match=r"exceeded 0\.3 seconds"):
        await execute(printing('{"status":"ok","output":1}'))


HOST = '(import "host" "call" (func $ask (param i32 i32) (result i32)))'
PATHS: dict[str, tuple[str, dict[str, int]]] = {
    "parent of the folder": ("../etc/passwd", {}),
    "parent inside the path": ("python315.zip/../../etc/passwd", {}),
    "absolute path": ("/etc/passwd", {}),
    "other name": ("python315.zip.bak", {}),
    "empty name": ("", {}),
    "write the library": ("python315.zip", {"rights": 1 << 6}),
    "create a file": ("new", {"flags": 1}),
    "truncate the library": ("python315.zip", {"flags": 8}),
    "library as a folder": ("python315.zip", {"flags": 2}),
    "folder that was not granted": ("python315.zip", {"folder": 4}),
    "output as a folder": ("python315.zip", {"folder": 1}),
}
"""Paths that modules open, with the arguments that make the attempt."""
LIBRARY = {
    **{name: opening(path, **arguments) for name, (path, arguments) in PATHS.items()},
    "path outside the memory": opening("x").replace("(i32.const 512) (i32.const 1)", "(i32.const -2) (i32.const 8)"),
    "write to the folder": asking("fd_pwrite", "i32 i32 i32 i64 i32", f"(i32.const 3) {I0} {I0} {I64} {A32}"),
    "change a time": placing(
        "old",
        "path_filestat_set_times",
        "i32 i32 i32 i32 i64 i64 i32",
        f"(i32.const 3) {I0} {A512} {{size}} {I64} {I64} (i32.const 5)",
    ),
    "hard link": placing(
        "oldnew",
        "path_link",
        "i32 i32 i32 i32 i32 i32 i32",
        f"(i32.const 3) {I0} {A512} (i32.const 3) (i32.const 3) (i32.const 515) (i32.const 3)",
    ),
    "status of a parent": placing(
        "../secret", "path_filestat_get", "i32 i32 i32 i32 i32", f"(i32.const 3) {I0} {A512} {{size}} (i32.const 1024)"
    ),
    "call a tool of the host": asking("unused", "i32 i32", f"{I0} {I0}").replace(
        f'(import "{WASI}" "unused" (func $ask (param i32 i32) (result i32)))', HOST
    ),
}
"""Ways out of the folder of the standard library, by name."""


ERRORS = {
    "library as a folder": 54,
    "folder that was not granted": 8,
    "output as a folder": 8,
    "path outside the memory": 21,
    "write the library": 76,
    "create a file": 76,
    "truncate the library": 76,
    "write to the folder": 76,
    "change a time": 76,
    "hard link": 76,
    "call a tool of the host": 0xFFFFFFFF,
}
"""The errors of attempts other than 44, no such file."""


@pytest.mark.parametrize("name", LIBRARY)
async def test_nothing_outside_the_standard_library_can_be_reached(stand_in: StandIn, name: str) -> None:
    with pytest.raises(TaskError, match=rf"the module exited with status {ERRORS.get(name, 44)}$"):
        await stand_in.open(LIBRARY[name]).run(call(""))


def replace_content(file: Path) -> None:
    file.write_bytes(other_code(file))


def replace_by_link(file: Path) -> None:
    target = file.with_name("elsewhere.cwasm")
    file.rename(target)
    file.symlink_to(target)


def change_one_byte(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def shorten(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def record_nothing(file: Path) -> None:
    file.with_suffix(".sha256").unlink()


def record_no_digest(file: Path) -> None:
    file.with_suffix(".sha256").write_bytes(b"\xff" * 64)


POISONED: dict[str, tuple[Callable[[Path], None], str]] = {
    "code of another module": (replace_content, "has another digest than expected"),
    "changed byte": (change_one_byte, "has another digest than expected"),
    "half a file": (shorten, "has another digest than expected"),
    "symbolic link": (replace_by_link, "must be a file or a folder, not a link"),
    "file that a group can write": (lambda file: file.chmod(0o660), "no other user may write it"),
    "file that everybody can write": (lambda file: file.chmod(0o606), "no other user may write it"),
    "folder that everybody can write": (lambda file: file.parent.chmod(0o777), "no other user may write it"),
    "missing digest": (record_nothing, "there is no compiled module .*: compile it first"),
    "broken digest": (record_no_digest, "cannot be read"),
    "missing file": (lambda file: file.unlink(), "there is no compiled module .*: compile it first"),
}
"""Ways to give the runtime machine code that was not compiled from its module, by name."""


@pytest.mark.parametrize("name", POISONED)
def test_a_poisoned_cache_is_refused(tmp_path: Path, name: str) -> None:
    source = tmp_path / "module.wat"
    source.write_text(GOOD, encoding="utf-8")
    compile_module(tmp_path / "cache", source)
    file = compiled_file(tmp_path / "cache", source)
    change, message = POISONED[name]
    change(file)

    with pytest.raises(UsageError, match=message):
        load_module(make_engine(), file, None)


FILES = {
    "parent of the folder": "data/../secret.txt",
    "folder itself": "data/./in.txt",
    "parent without a folder": "../secret.txt",
    "absolute path": "/etc/passwd",
    "absolute path in the folder": "data//etc/passwd",
    "empty name in the folder": "data/",
    "folder as a file": "data",
    "empty path": "",
    "link to a file outside": "data/link.txt",
    "link to a file inside": "data/inner.txt",
    "link to the parent": "data/out/secret.txt",
    "link to another folder": "data/etc/passwd",
    "null character": "data/in.txt\0.png",
    "folder that was not granted": "other/in.txt",
    "file as a folder": "data/in.txt/x",
    "missing file": "data/missing.txt",
    "parent inside the path": "data/a/../../secret.txt",
    "surrogate": "data/\ud800",
}
"""Paths that a task without a grant for them reads or writes, by name."""


def touch(path: str) -> TaskCall:
    return TaskCall(
        run_id="run", task_id="task", config={"path": path, "content": "new"}, context={}, filesystem=("data",)
    )


@pytest.mark.parametrize("name", FILES)
async def test_nothing_outside_a_granted_folder_can_be_read(granted: Path, name: str) -> None:
    runtime = FileRead({"data": Folder(granted), "other": Folder(granted)})

    with pytest.raises(TaskError) as caught:
        await runtime.run(touch(FILES[name]))
    assert str(granted.parent) not in str(caught.value)


@pytest.mark.parametrize(
    "name", [name for name in FILES if name not in {"missing file", "link to a file outside", "link to a file inside"}]
)
async def test_nothing_outside_a_granted_folder_can_be_written(granted: Path, name: str) -> None:
    before = sorted(granted.parent.rglob("*"))

    with pytest.raises(TaskError):
        await FileWrite({"data": Folder(granted, writable=True), "other": Folder(granted)}).run(touch(FILES[name]))
    assert sorted(granted.parent.rglob("*")) == before
    assert (granted.parent / "secret.txt").read_text() == "secret"


PROGRAMS = {
    "file": ("open('/etc/passwd').read()", "FileNotFoundError|PermissionError"),
    "file over the library": ("open('/usr/local/lib/../../../etc/passwd').read()", "FileNotFoundError|PermissionError"),
    "write a file": ("open('FOLDER/x', 'w')", "FileNotFoundError|PermissionError"),
    "write the library": ("open('/usr/local/lib/python315.zip', 'wb')", "PermissionError"),
    "list the root": ("import os; os.listdir('/')", "FileNotFoundError|PermissionError"),
    "list the library": ("import os; os.listdir('/usr/local/lib')", "FileNotFoundError|PermissionError"),
    "symbolic link": ("import os; os.symlink('/etc', '/usr/local/lib/x')", "PermissionError|OSError"),
    "remove the library": ("import os; os.remove('/usr/local/lib/python315.zip')", "PermissionError|OSError"),
    "working folder": ("import os; os.chdir('/')", "FileNotFoundError|PermissionError|OSError"),
    "environment": ("import os; 1 / len({k for k in os.environ if k != 'PWD'})", "ZeroDivisionError"),
    "secret in the arguments": ("import sys; 1 / len(sys.argv[1:])", "ZeroDivisionError"),
    "socket": ("import socket; socket.create_connection(('127.0.0.1', PORT))", "Error"),
    "request": ("import urllib.request as r; r.urlopen('http://127.0.0.1:PORT/')", "URLError|Error"),
    "process": ("import subprocess; subprocess.run(['id'])", "Error"),
    "shell": ("import os; os.system('id')", "Error"),
    "fork": ("import os; os.fork()", "AttributeError"),
    "thread": ("import threading; threading.Thread(target=print).start()", "RuntimeError"),
    "signal": ("import os; os.kill(PID, 9)", "AttributeError"),
    "native code": ("import ctypes; ctypes.CDLL(None)", "Error"),
    "sleep": ("import time; time.sleep(60)", "Error|exceeded"),
    "tool of the host": ("from host import tools; tools.pay()", "Error"),
    "endless loop": ("while True: pass", "more than 3000000000 instructions|exceeded 10 seconds"),
    "memory": ("x = bytearray(1 << 30)", "MemoryError"),
    "growing memory": ("x = ['x']\nwhile True: x += x", "MemoryError|instructions|exceeded"),
    "recursion": ("def f(): f()\nf()", "RecursionError|was stopped"),
    "deep recursion": (
        "import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
        "was stopped|RecursionError|Error",
    ),
    "large output": ("'x' * 1_000_000", "more than 100000 bytes to its standard output"),
    "printed output": ("while True: print('x' * 1000)", "more than 10000 bytes to its standard error output"),
    "NaN": ("float('nan')", "ValueError"),
    "infinity": ("[1e999]", "ValueError"),
    "deep JSON": ("x = []\nfor _ in range(100_000): x = [x]\nx", "RecursionError|was stopped"),
    "not JSON": ("{1}", "TypeError"),
    "own answer": ("import os; os.write(1, b'{}')", "no JSON"),
    "exit": ("import os; os._exit(0)", "no JSON"),
    "exit with an exception": ("raise SystemExit(0)", "SystemExit"),
    "error of syntax": ("1 +", "SyntaxError"),
    "crash": ("import faulthandler; faulthandler._sigabrt()", "Error|was stopped|exited"),
    "huge number": ("10 ** 10 ** 9", "MemoryError|instructions|exceeded|ValueError"),
    "huge integer": ("str(10 ** 5000)", "ValueError"),
    "regular expression": ("import re; re.match('(a+)+$', 'a' * 64 + 'b')", "instructions|exceeded"),
}
"""Programs that try to leave the sandbox of CPython or to exhaust it, by name, with the failure of each.

`PORT`, `PID` and `FOLDER` stand for a server, a process and a folder of `escape_targets.py`.
"""


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_that_tries_to_escape_fails_the_task(cpython: Cpython, targets: Targets, name: str) -> None:
    program, message = PROGRAMS[name]
    with pytest.raises(TaskError, match=message):
        await cpython.run(call(targets.insert_addresses(program)))
    assert targets.reached() == []


def test_the_guide_states_the_number_of_escapes() -> None:
    after_the_deadline = 1
    tried = len(FORBIDDEN) + len(BOMBS) + len(LIBRARY) + len(POISONED) + len(FILES) + len(PROGRAMS)
    assert tried + after_the_deadline == 142
