"""The arithmetic and the tables of the benchmark, and one row with real processes. No test checks a time."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the modules of the benchmark on the import path for one test, because other tests have modules of the same
    name.
    """
    names = {file.stem for file in FOLDER.glob("*.py")}
    others = {name: sys.modules.pop(name) for name in names & sys.modules.keys()}
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    yield
    for name in names & sys.modules.keys():
        del sys.modules[name]
    sys.modules.update(others)


def module(name: str) -> Any:
    return importlib.import_module(name)


def row(name: str) -> Any:
    return next(row for row in module("rows").ROWS if row.name == name)


def pair(baseline: float, ours: float, grown: float = 0.0) -> tuple[Any, Any]:
    sample = module("measure").Sample
    return sample(baseline), sample(ours, 10.0, 10.0 + grown)


def result(name: str, *, beyond: int | None = None, **ours: float) -> Any:
    told = module("measure").Measured("chat", **{"ratio": 1.0, "low": 0.9, "high": 1.1, "us": 1.0, "pairs": 3} | ours)
    return module("report").Result(row(name), [told], 0.5, beyond)


def test_the_reported_ratio_is_the_median_of_the_paired_ratios() -> None:
    # The machine was ten times slower for two of the pairs: that is in both halves of each.
    pairs = [pair(1.0, 2.0), pair(10.0, 10.0), pair(1.0, 3.0), pair(10.0, 25.0), pair(1.0, 1.0)]

    told = module("measure").summed_up("chat", pairs, units=10)

    assert (told.ratio, told.low, told.high, told.pairs) == (2.0, 1.0, 2.5, 5)
    assert told.us == pytest.approx(3.0 / 10 * 1e6)


def test_the_reported_growth_is_the_median_and_never_negative() -> None:
    pairs = [pair(1.0, 1.0, 5.0), pair(1.0, 1.0, -3.0), pair(1.0, 1.0, 7.0)]

    assert module("measure").summed_up("chat", pairs, units=1).grown == 5.0


def test_one_pair_has_no_spread() -> None:
    told = module("measure").summed_up("chat", [pair(2.0, 3.0)], units=1)

    assert (told.low, told.ratio, told.high) == (1.5, 1.5, 1.5)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("call", {"ratio": 1.15}, {"ratio": 1.16}),
        ("crowd", {"ratio": 1.0, "grown": 20.0}, {"ratio": 1.0, "grown": 20.1}),
        ("crowd", {"ratio": 1.0, "grown": 1.0}, {"ratio": 1.1, "grown": 1.0}),
        ("read", {"us": 4.0}, {"us": 4.1}),
        ("import", {"ratio": 1.4, "beyond": 150}, {"ratio": 1.4, "beyond": 151}),
        ("call", {"ratio": 1.0}, {"failure": "gone"}),
    ],
)
def test_a_row_is_met_if_all_of_its_targets_are_met(name: str, good: dict[str, Any], bad: dict[str, Any]) -> None:
    assert result(name, **good).met
    assert not result(name, **bad).met


def test_the_readme_table_has_the_httpx_rows_that_have_targets() -> None:
    results = [result("call", ratio=1.021), result("import"), result("parser"), result("read")]

    assert module("report").readme(results).splitlines()[2:] == [
        "| a call, not streamed | 1.02 | 0.90 to 1.10 | ≤ 1.15 |"
    ]


def test_a_missed_target_is_marked_and_headings_are_complete() -> None:
    text = module("report").page([result("call", ratio=1.3), result("call-claude", ratio=1.0)], "Here.")

    assert "| a call, not streamed | 1.30 **(not yet)** | ≤ 1.15 |  |" in text
    assert "| the same, Anthropic Messages | 1.00 | ≤ 1.15 |  |" in text
    assert "### A call, Anthropic Messages" in text


def test_every_heading_is_unique_and_complete() -> None:
    text = module("report").page([result(row.name) for row in module("rows").ROWS], "Here.")
    headings = [line for line in text.splitlines() if line.startswith("#")]

    assert "### A stream of 2,000 text events, Gemini" in headings
    assert "### A tool loop on a history of 2,000 messages" in headings
    assert "### A tool loop of 50 steps of 4 parallel calls" in headings
    assert len({*headings}) == len(module("rows").ROWS)
    assert not [heading for heading in headings if "the same" in heading.lower()]


def test_a_row_with_a_reference_is_compared_with_the_same_run() -> None:
    fifty = dataclasses.replace(result("loop50", ratio=0.954), limit=0.951)

    assert fifty.met
    assert not dataclasses.replace(fifty, limit=0.94).met
    assert "| 0.95 | ≤ 1.1, ≤ 0.95, which 10 steps reached in this run |  |" in module("report").page([fifty], "Here.")


def test_a_wire_row_also_has_a_target_over_aiohttp() -> None:
    told, measured = result("stream-gemini", ratio=0.9), module("measure").Measured

    def beside(**fast: Any) -> Any:
        return dataclasses.replace(told, measured=[*told.measured, measured("chat-aiohttp", **fast)])

    assert beside(ratio=0.4).met
    assert not beside(ratio=0.41).met
    assert not beside(failure="gone").met
    text = module("report").page([beside(ratio=0.41)], "Here.")
    assert "| 0.90, 0.41 over aiohttp **(not yet)** | ≤ 1, ≤ 0.4 over aiohttp |  |" in text


def test_a_peer_that_was_not_measured_is_listed_in_both_tables() -> None:
    told = result("call")
    told = dataclasses.replace(told, measured=[*told.measured, module("measure").Measured("litellm", failure="no way")])
    text = module("report").page([told], "Here.")

    assert "| ≤ 1.15 | litellm not measured |" in text
    assert "| litellm | not measured: no way | | | |" in text


def test_checkpoints_are_reported_and_a_missing_store_has_a_reason() -> None:
    checkpoints, measured = module("checkpoints"), module("measure").Measured
    costs = {name: checkpoints.Summary(1200, 1000, 1500) for name in ("wall per call", "cpu per call")}
    rows = [
        checkpoints.Row("SQLite", 1000, 20, 60, costs, 3),
        checkpoints.Row("PostgreSQL", 0, 20, 0, {}, 0, "no server"),
    ]
    assert [checkpoints.Row.from_dict(json.loads(json.dumps(row.to_dict()))) for row in rows] == rows
    found = [measured("SQLite with 1,000 messages", us=1200), measured("PostgreSQL", failure="not measured: no server")]
    told = module("report").Result(row("checkpoints"), found, 0.5, table=checkpoints.table(rows))

    text = module("report").page([told], "Here.")

    assert "| SQLite with 1,000 messages 1,200 µs, PostgreSQL not measured: no server | reported |  |" in text
    assert "| SQLite | 1,000 | 1,200 (1,000 to 1,500) | 1,200 (1,000 to 1,500) |" in text
    assert "| PostgreSQL |  | not measured: no server |  |" in text


def test_text_outside_the_markers_of_a_page_is_kept() -> None:
    put = module("report").put

    assert put("a <!-- measured --> old <!-- end --> z", "new") == "a <!-- measured -->\n\nnew\n\n<!-- end --> z"
    with pytest.raises(ValueError, match="no <!-- measured -->"):
        put("nothing to write between", "new")


def test_remeasured_rows_replace_only_their_rows_on_the_page() -> None:
    report = module("report")
    first, second = result("call"), result("stream")
    whole = report.put("a <!-- measured --> <!-- end --> z", report.page([first, second], "Measured once."))
    better = [dataclasses.replace(second.measured[0], ratio=0.25), *second.measured[1:]]

    page = report.with_remeasured_rows(
        whole, [dataclasses.replace(second, measured=better)], ["call", "stream"], "Measured again: `stream`."
    )

    expected = report.page(
        [first, dataclasses.replace(second, measured=better)], "Measured once.\n\nMeasured again: `stream`."
    )
    assert page == report.put(whole, expected)
    with pytest.raises(ValueError, match="2 rows of 3"):
        report.with_remeasured_rows(whole, [second], ["call", "stream", "loop"], "")


def test_the_plot_has_a_bar_for_each_measured_client() -> None:
    measured = module("measure").Measured
    told = result("call")
    others = [measured("openai", 2.5), measured("litellm", failure="it is not there")]
    told = module("report").Result(told.row, [*told.measured, *others], 0.5)

    drawn = module("report").plot({"call": told})

    assert drawn.count("<rect") == 2
    assert ">2.50<" in drawn
    assert "litellm" not in drawn


def test_a_failing_client_is_reported_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = module("measure")
    monkeypatch.setattr(measure, "ENVIRONMENTS", ROOT / "there-is-no-such-folder")
    real = measure.pairs_of

    def pairs_of(who: str, asked: Any, port: str, count: int) -> Any:
        return [pair(1.0, 2.0)] if who == "chat" else real(who, asked, port, count)

    def once(_row: Any, _of_a_peer: Any) -> int:
        return 1

    monkeypatch.setattr(measure, "pairs_of", pairs_of)
    asked = dataclasses.replace(row("call"), ours=("chat",), peers=("openai",), baseline="anthropic")
    ours, openai = measure.measured(asked, "1", once, math.inf, peers=True)

    assert (ours.ratio, ours.failure) == (2.0, "")
    assert openai.failure == "anthropic is not installed"


def test_no_client_is_started_after_the_time_limit() -> None:
    def never(_row: Any, _of_a_peer: Any) -> int:
        raise AssertionError

    told = module("measure").measured(row("call"), "1", never, -math.inf, peers=True)

    assert {item.failure for item in told} == {"the time of the whole run was over"}
    assert len(told) == len(row("call").ours) + len(row("call").peers)


def test_invalid_output_of_a_client_raises_benchmark_error(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = module("measure")

    def ask(_self: object) -> str:
        return "give me a key"

    monkeypatch.setattr(measure.Client, "ask", ask)
    with (
        measure.Client("chat", "call", "completions", "1") as client,
        pytest.raises(measure.BenchmarkError, match="the client printed 'give"),
    ):
        client.slot()


def test_a_process_that_writes_much_to_stderr_does_not_block() -> None:
    code = "import sys; sys.stderr.write('x' * 1_000_000); input(); print('done')"
    with module("measure").Process(sys.executable, "-c", code) as process:
        assert process.ask() == "done"


def test_a_failing_import_is_reported_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    importing = module("importing")
    begun = {"chat": "import json", "raw-httpx2": "print('hello'); raise SystemExit('no such thing')"}
    monkeypatch.setattr(importing, "BEGUN", begun)
    monkeypatch.setattr(importing, "PYDANTIC", "import ast")

    def once(_row: Any, _of_a_peer: Any) -> int:
        return 1

    asked = dataclasses.replace(row("import"), ours=("chat", "raw-httpx2"), peers=())

    (ours, other), beyond = importing.measured(asked, once, math.inf, peers=True)

    assert (ours.failure, ours.pairs) == ("", 1)
    assert other.failure == "no such thing"
    assert isinstance(beyond, int)


def test_the_last_error_output_of_a_process_is_in_the_exception() -> None:
    measure = module("measure")
    with (
        measure.Process(sys.executable, "-c", "raise SystemExit('no money left')") as process,
        pytest.raises(measure.BenchmarkError, match="no money left"),
    ):
        process.ask()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["call", "loop", "big", "deltas2000"])
def test_a_quick_run_measures_real_processes_and_keeps_the_page(name: str) -> None:
    page = ROOT / "docs" / "performance.md"
    before = page.read_bytes()
    command = [sys.executable, str(FOLDER / "bench.py"), "--quick", "--no-peers", "--json", name]

    answer = subprocess.run(command, check=False, capture_output=True, text=True)

    assert answer.returncode == 0, answer.stderr
    (told,) = json.loads(answer.stdout)
    assert told["name"] == name
    assert [item["who"] for item in told["measured"]] == list(row(name).ours)
    assert [(item["failure"], item["pairs"], item["ratio"] > 0) for item in told["measured"]] == [
        ("", 3, True) for _ in row(name).ours
    ]
    assert page.read_bytes() == before


def test_every_peer_named_by_a_row_exists() -> None:
    named = {name for row in module("rows").ROWS for name in row.peers if row.kind != "import"}

    assert {*row("import").ours, *row("import").peers} <= module("importing").BEGUN.keys()
    assert named <= module("peers").PEERS.keys()
