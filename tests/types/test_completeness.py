"""The check that every public symbol has a declared type covers every package, and reports what pyright reports."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def completeness() -> Any:
    spec = importlib.util.spec_from_file_location("completeness", HERE / "completeness.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def symbol(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "isTypeKnown": True, "isTypeAmbiguous": False, "diagnostics": [], **more}


def answer_with(monkeypatch: pytest.MonkeyPatch, report: object) -> None:
    output = subprocess.CompletedProcess[str]([], 1, json.dumps({"typeCompleteness": report}), "")

    def run(*_args: object, **_keywords: object) -> subprocess.CompletedProcess[str]:
        return output

    monkeypatch.setattr(subprocess, "run", run)


def test_every_distribution_is_verified(completeness: Any) -> None:
    declared = {file.parent.name.replace("-", "_") for file in ROOT.glob("*/*/pyproject.toml")}
    assert declared
    assert set(completeness.PACKAGES) == declared


@pytest.mark.parametrize("fault", [{"isTypeKnown": False}, {"isTypeAmbiguous": True}], ids=["unknown", "ambiguous"])
def test_a_symbol_without_a_known_type_is_reported_with_its_reason(
    completeness: Any,
    monkeypatch: pytest.MonkeyPatch,
    fault: dict[str, bool],
) -> None:
    wrong = symbol("chat_core.b", diagnostics=[{"message": "no annotation"}], **fault)
    answer_with(monkeypatch, {"symbols": [symbol("chat_core.a"), wrong]})
    assert completeness.verify("chat_core") == ["chat_core.b: no annotation"]


@pytest.mark.parametrize("report", [None, {"symbols": []}], ids=["no_report", "no_symbols"])
def test_a_package_that_pyright_does_not_find_is_reported(
    completeness: Any,
    monkeypatch: pytest.MonkeyPatch,
    report: object,
) -> None:
    answer_with(monkeypatch, report)
    [fault] = completeness.verify("chat_core")
    assert fault.startswith("chat_core was not found")
