"""A module in the sandbox computes an output within its limits."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import sys
import threading
import time
from typing import cast

import pytest
import wasmtime
from chat_core.errors import UsageError
from chat_pipeline import TaskCall, TaskError
from chat_pipeline.wasm import Wasm, WasmLimits
from wasm_modules import EXIT, LIMITS, PRINT, READ, WASI, WRITE, escaped, execute, printing, program

pytestmark = pytest.mark.anyio

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


async def test_the_time_limit_holds_if_there_is_fuel_left() -> None:
    limits = WasmLimits(seconds=0.1, fuel=10**15)
    begin = time.monotonic()

    with pytest.raises(TaskError, match=r"exceeded 0\.1 seconds"):
        await execute(program("(loop $l (br $l))"), limits=limits)
    assert time.monotonic() - begin < 3


async def test_a_module_has_an_empty_environment_and_a_fixed_clock() -> None:
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


async def test_modules_are_compiled_when_the_runtime_is_created_and_not_in_a_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wasm = Wasm({"m": ECHO}, limits=LIMITS)
    monkeypatch.delattr(wasmtime, "Module")

    assert await wasm.run(TaskCall(run_id="r", task_id="t", config={"module": "m", "input": 1}, context={})) == {
        "config": {"input": 1},
        "context": {},
    }


def test_the_default_limits_are_those_of_the_documentation() -> None:
    assert dataclasses.asdict(WasmLimits()) == {
        "seconds": 10.0, "fuel": 1_000_000_000, "memory_bytes": 64 * 1024**2, "table_elements": 100_000,
        "stdout_bytes": 1024**2, "stderr_bytes": 256 * 1024, "module_bytes": 16 * 1024**2,
    }  # fmt: skip


def test_limits_and_modules_are_checked() -> None:
    with pytest.raises(UsageError, match="the module 'm' cannot be compiled: "):
        Wasm({"m": "(module"})
    with pytest.raises(UsageError, match="the module 'm' must be bytes or a string"):
        Wasm({"m": cast("str", 5)})
    with pytest.raises(UsageError, match="modules must be a mapping"):
        Wasm(cast("dict[str, str]", [ECHO]))
    with pytest.raises(UsageError, match=r"WasmLimits\(fuel=...\) needs a number above 0"):
        WasmLimits(fuel=0)
    with pytest.raises(UsageError, match="the module 'm' has more than 10 bytes"):
        Wasm({"m": "x" * 11}, limits=WasmLimits(module_bytes=10))


def test_an_import_without_the_extra_names_it() -> None:
    program = """
import sys
from chat_core import UsageError
sys.modules["wasmtime"] = None
try:
    import chat_pipeline.wasm
except UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "the runtime 'wasm' needs wasmtime: run pip install 'chat-pipeline[wasm]'\n"
