"""A module in the sandbox computes an output, and every way out of the sandbox is closed."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from chat_core.errors import UsageError
from chat_core.json import JsonValue
from chat_pipeline import TaskCall, TaskError
from chat_pipeline.wasm import Wasm, WasmLimits

pytestmark = pytest.mark.anyio

LIMITS = WasmLimits(seconds=0.3, fuel=50_000_000, memory_bytes=1024 * 1024, stdout_bytes=4096, stderr_bytes=1024)
WASI = "wasi_snapshot_preview1"
WRITE = f'(import "{WASI}" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))'
READ = f'(import "{WASI}" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))'
EXIT = f'(import "{WASI}" "proc_exit" (func $exit (param i32)))'


def escaped(text: str) -> str:
    return "".join(f"\\{byte:02x}" for byte in text.encode())


def program(body: str, *imports: str, data: str = "", pages: int = 1) -> str:
    """Return a module whose `_start` has this body. `data` is at address 64, and a buffer with it at address 0."""
    size = len(data.encode())
    return f"""(module {" ".join(imports)}
      (memory (export "memory") {pages})
      (data (i32.const 0) "\\40\\00\\00\\00{"".join(f"{chr(92)}{byte:02x}" for byte in size.to_bytes(4, "little"))}")
      (data (i32.const 64) "{escaped(data)}")
      (func (export "_start") {body}))"""


PRINT = "(drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16)))"


def printing(data: str, *, before: str = "", after: str = "", imports: tuple[str, ...] = ()) -> str:
    return program(f"{before} {PRINT} {after}", WRITE, *imports, data=data)


async def execute(module: str | bytes, value: JsonValue = None, *, limits: WasmLimits = LIMITS) -> JsonValue:
    config: dict[str, JsonValue] = {"module": "m", "input": value}
    call = TaskCall(run_id="r", task_id="t", config=config, context={"input": 1, "tasks": {}})
    return await Wasm({"m": module}, limits=limits).run(call)


# A module that copies its standard input into the output: {"status":"ok","output":<stdin>}
ECHO = f"""(module {WRITE} {READ}
  (memory (export "memory") 4)
  (data (i32.const 1024) "{escaped('{"status":"ok","output":')}")
  (data (i32.const 2048) "{escaped("}")}")
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 4096)) (i32.store (i32.const 4) (i32.const 65536))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 32)))
    (i32.store (i32.const 0) (i32.const 1024)) (i32.store (i32.const 4) (i32.const 24))
    (i32.store (i32.const 8) (i32.const 4096)) (i32.store (i32.const 12) (i32.load (i32.const 32)))
    (i32.store (i32.const 16) (i32.const 2048)) (i32.store (i32.const 20) (i32.const 1))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 3) (i32.const 32)))))"""


async def test_a_module_reads_its_input_and_the_context_of_the_task() -> None:
    assert await execute(ECHO, {"a": [1, "ä"]}) == {
        "config": {"input": {"a": [1, "ä"]}},
        "context": {"input": 1, "tasks": {}},
    }


async def test_a_module_is_executed_again_from_its_beginning() -> None:
    wasm = Wasm({"m": ECHO}, limits=LIMITS)
    calls = [TaskCall(run_id="r", task_id="t", config={"module": "m", "input": value}, context={}) for value in (1, 2)]

    assert [await wasm.run(call) for call in calls] == [
        {"config": {"input": 1}, "context": {}},
        {"config": {"input": 2}, "context": {}},
    ]


async def test_an_error_of_a_module_fails_the_task() -> None:
    with pytest.raises(TaskError, match="the module reported: no items"):
        await execute(printing('{"status":"error","error":"no items"}'))


async def test_an_exit_with_status_zero_is_a_success() -> None:
    module = printing('{"status":"ok","output":7}', after="(call $exit (i32.const 0))", imports=(EXIT,))

    assert await execute(module) == 7


def asking(name: str, parameters: str, arguments: str) -> str:
    """Return a module that calls a function of WASI, and exits with its error number, or reports success."""
    imported = f'(import "{WASI}" "{name}" (func $ask (param {parameters}) (result i32)))'
    ask = f"(local $error i32) (local.set $error (call $ask {arguments}))"
    check = "(if (local.get $error) (then (call $exit (local.get $error))))"
    return printing('{"status":"ok","output":"escaped"}', before=f"{ask} {check}", imports=(imported, EXIT))


I0, I64 = "(i32.const 0)", "(i64.const 0)"
FORBIDDEN = {
    "open /etc/passwd": asking(
        "path_open",
        "i32 i32 i32 i32 i32 i64 i64 i32 i32",
        f"(i32.const 3) {I0} (i32.const 64) (i32.const 11) {I0} (i64.const -1) (i64.const -1) {I0} (i32.const 32)",
    ),
    "first granted folder": asking("fd_prestat_get", "i32 i32", "(i32.const 3) (i32.const 32)"),
    "name of a folder": asking("fd_prestat_dir_name", "i32 i32 i32", "(i32.const 3) (i32.const 32) (i32.const 9)"),
    "list a folder": asking("fd_readdir", "i32 i32 i32 i64 i32", f"(i32.const 3) {I0} {I0} {I64} (i32.const 32)"),
    "create a folder": asking("path_create_directory", "i32 i32 i32", f"(i32.const 3) {I0} (i32.const 4)"),
    "symbolic link": asking(
        "path_symlink", "i32 i32 i32 i32 i32", f"{I0} (i32.const 4) (i32.const 3) {I0} (i32.const 4)"
    ),
    "read a link": asking("path_readlink", "i32 i32 i32 i32 i32 i32", f"(i32.const 3) {I0} {I0} {I0} {I0} {I0}"),
    "rename": asking("path_rename", "i32 i32 i32 i32 i32 i32", f"(i32.const 3) {I0} {I0} (i32.const 3) {I0} {I0}"),
    "delete": asking("path_unlink_file", "i32 i32 i32", f"(i32.const 3) {I0} (i32.const 4)"),
    "delete a folder": asking("path_remove_directory", "i32 i32 i32", f"(i32.const 3) {I0} (i32.const 4)"),
    "status of a file": asking("path_filestat_get", "i32 i32 i32 i32 i32", f"(i32.const 3) {I0} {I0} {I0} {I0}"),
    "accept a connection": asking("sock_accept", "i32 i32 i32", f"(i32.const 3) {I0} {I0}"),
    "send": asking("sock_send", "i32 i32 i32 i32 i32", f"(i32.const 3) {I0} {I0} {I0} {I0}"),
    "receive": asking("sock_recv", "i32 i32 i32 i32 i32 i32", f"(i32.const 3) {I0} {I0} {I0} {I0} {I0}"),
    "signal": asking("proc_raise", "i32", "(i32.const 9)"),
    "sleep": asking("poll_oneoff", "i32 i32 i32 i32", f"{I0} {I0} (i32.const 1) {I0}"),
    "resolution of the clock": asking("clock_res_get", "i32 i32", f"{I0} {I0}"),
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


BOMBS: dict[str, tuple[str | bytes, str]] = {
    "endless loop": (program("(loop $l (br $l))"), r"more than 50000000 instructions|exceeded 0\.3 seconds"),
    "endless recursion": (
        '(module (memory (export "memory") 1) (func $f (call $f)) (func (export "_start") (call $f)))',
        "the module was stopped",
    ),
    "large memory at the start": (program("", pages=17), "cannot be executed: .*memory"),
    "growing memory": (
        program("(if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then (call $exit (i32.const 12))))", EXIT),
        "exited with status 12",
    ),
    "large table": ('(module (table 200000 funcref) (func (export "_start")))', "cannot be executed: .*table"),
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

    with pytest.raises(TaskError, match=message):
        await execute(module)
    assert time.monotonic() - begin < 5


async def test_more_than_fifty_escapes_are_tried() -> None:
    assert len(FORBIDDEN) + len(BOMBS) >= 50


async def test_the_time_limit_holds_if_there_is_fuel_left() -> None:
    limits = WasmLimits(seconds=0.1, fuel=10**15)
    begin = time.monotonic()

    with pytest.raises(TaskError, match=r"exceeded 0\.1 seconds"):
        await execute(program("(loop $l (br $l))"), limits=limits)
    assert time.monotonic() - begin < 3


async def test_a_module_sees_an_empty_environment_and_a_clock_that_stands_still() -> None:
    imports = (
        f'(import "{WASI}" "environ_sizes_get" (func $environ (param i32 i32) (result i32)))',
        f'(import "{WASI}" "args_sizes_get" (func $args (param i32 i32) (result i32)))',
        f'(import "{WASI}" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))',
        EXIT,
    )
    ask = """(i64.store (i32.const 1000) (i64.const -1)) (i64.store (i32.const 1008) (i64.const -1))
      (i64.store (i32.const 1016) (i64.const -1))
      (drop (call $environ (i32.const 1000) (i32.const 1004))) (drop (call $args (i32.const 1008) (i32.const 1012)))
      (drop (call $clock (i32.const 0) (i64.const 1) (i32.const 1016)))
      (if (i64.ne (i64.or (i64.load (i32.const 1000)) (i64.or (i64.load (i32.const 1008)) (i64.load (i32.const 1016))))
        (i64.const 0)) (then (call $exit (i32.const 1))))"""

    assert await execute(printing('{"status":"ok","output":"empty"}', before=ask, imports=imports)) == "empty"


async def test_random_bytes_are_the_same_in_each_attempt_of_a_task_and_differ_between_tasks() -> None:
    draw = f'(import "{WASI}" "random_get" (func $draw (param i32 i32) (result i32)))'
    # Writes one random byte as a number from 0 to 99 into the output.
    digits = """(drop (call $draw (i32.const 512) (i32.const 4)))
      (i32.store (i32.const 512) (i32.rem_u (i32.load (i32.const 512)) (i32.const 900000000)))
      (i32.store (i32.const 512) (i32.add (i32.load (i32.const 512)) (i32.const 100000000)))
      (local $i i32) (local.set $i (i32.const 96))"""
    body = (
        digits.replace("(local $i i32)", "")
        + """
      (loop $l
        (i32.store8 (local.get $i) (i32.add (i32.const 48) (i32.rem_u (i32.load (i32.const 512)) (i32.const 10))))
        (i32.store (i32.const 512) (i32.div_u (i32.load (i32.const 512)) (i32.const 10)))
        (local.set $i (i32.sub (local.get $i) (i32.const 1)))
        (br_if $l (i32.gt_u (local.get $i) (i32.const 87))))"""
    )
    module = program(f"(local $i i32) {body} {PRINT}", WRITE, draw, data='{"status":"ok","output":000000000}')
    wasm = Wasm({"m": module}, limits=LIMITS)
    calls = [TaskCall(run_id=run, task_id="t", config={"module": "m"}, context={}) for run in ("r", "r", "s")]
    first, again, other = [await wasm.run(call) for call in calls]

    assert first == again
    assert first != other


async def test_several_modules_run_at_the_same_time_with_their_own_limits() -> None:
    good, bad = printing('{"status":"ok","output":1}'), program("(loop $l (br $l))")
    wasm = Wasm({"good": good, "bad": bad}, limits=LIMITS)
    calls = [
        TaskCall(run_id="r", task_id=name, config={"module": name}, context={})
        for name in ("bad", "good", "bad", "good")
    ]
    results = await asyncio.gather(*(wasm.run(call) for call in calls), return_exceptions=True)

    assert [type(result) for result in results] == [TaskError, int, TaskError, int]
    assert "wasm-deadlines" not in {thread.name for thread in threading.enumerate() if not thread.daemon}


def test_an_unknown_module_is_a_problem_of_the_file() -> None:
    assert list(Wasm({"m": ECHO}).check({"module": "x"})) == [(("module",), "there is no module 'x'; there are: 'm'")]
    assert list(Wasm({"m": ECHO}).check({"module": "{{ input }}"})) == []


async def test_a_module_whose_name_is_computed_must_exist() -> None:
    with pytest.raises(TaskError, match=r"there is no module '\.\./m'"):
        await Wasm({"m": ECHO}).run(TaskCall(run_id="r", task_id="t", config={"module": "../m"}, context={}))


def test_limits_and_sizes_are_checked() -> None:
    with pytest.raises(UsageError, match=r"WasmLimits\(fuel=...\) needs a number above 0"):
        WasmLimits(fuel=0)
    with pytest.raises(UsageError, match="the module 'm' has more than 10 bytes"):
        Wasm({"m": "x" * 11}, limits=WasmLimits(module_bytes=10))
