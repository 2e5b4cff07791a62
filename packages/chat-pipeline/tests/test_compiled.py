"""Compiled modules are loaded only if no other user can have written them, and only unchanged."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from chat_core.errors import UsageError
from chat_pipeline._compiled import compile_module, compiled_file, load_module
from chat_pipeline._sandbox import make_engine
from wasm_modules import GOOD, OTHER, other_code


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "module.wat"
    source.write_text(GOOD, encoding="utf-8")
    return source


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def replace_with_digest(file: Path) -> None:
    data = other_code(file)
    file.write_bytes(data)
    file.with_suffix(".sha256").write_text(hashlib.sha256(data).hexdigest(), encoding="ascii")


def test_a_digest_of_the_application_refuses_a_cache_that_was_replaced_with_its_digest(
    source: Path, cache: Path
) -> None:
    digest = compile_module(cache, source)
    file = compiled_file(cache, source)
    load_module(make_engine(), file, digest)
    replace_with_digest(file)
    load_module(make_engine(), file, None)

    with pytest.raises(UsageError, match="has another digest than expected"):
        load_module(make_engine(), file, digest)


def test_a_compiled_module_is_written_for_the_current_user_and_found_by_the_digest_of_its_source(
    source: Path, cache: Path
) -> None:
    compile_module(cache, source)
    file = compiled_file(cache, source)

    assert (cache.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    assert hashlib.sha256(GOOD.encode()).hexdigest()[:32] in file.name
    source.write_text(OTHER, encoding="utf-8")
    assert compiled_file(cache, source) != file


def test_a_file_that_is_no_module_is_not_compiled(source: Path, cache: Path) -> None:
    source.write_text("no module", encoding="utf-8")

    with pytest.raises(UsageError, match="cannot be compiled"):
        compile_module(cache, source)
    assert list(cache.iterdir()) == []


def test_nothing_is_compiled_into_a_folder_that_others_can_write(
    source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_to_compile(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("wasmtime.Module.__init__", refuse_to_compile)
    cache.mkdir()
    cache.chmod(0o770)

    with pytest.raises(UsageError, match="no other user may write it"):
        compile_module(cache, source)


def test_code_of_another_engine_is_not_loaded(source: Path, cache: Path) -> None:
    cache.mkdir(mode=0o700)
    file = compiled_file(cache, source)
    file.write_bytes(b"\x7fELF" + bytes(100))
    file.chmod(0o600)

    with pytest.raises(UsageError, match="cannot be loaded"):
        load_module(make_engine(), file, hashlib.sha256(file.read_bytes()).hexdigest())
