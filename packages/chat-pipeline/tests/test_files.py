"""Tasks read and write files only in granted folders, even if a workflow names other paths."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_core.json import JsonValue
from chat_pipeline import FileRead, FileWrite, Folder, TaskCall, TaskError

pytestmark = pytest.mark.anyio


def call(path: str, content: JsonValue = "new") -> TaskCall:
    config: dict[str, JsonValue] = {"path": path, "content": content}
    return TaskCall(run_id="run", task_id="task", config=config, context={}, filesystem=("data",))


async def test_a_file_is_read_with_its_size_in_bytes(granted: Path) -> None:
    output = await FileRead({"data": Folder(granted)}).run(call("data/in.txt"))

    assert output == {"path": "data/in.txt", "content": "hällo", "bytes": 6}


async def test_a_written_file_replaces_the_earlier_one_and_creates_folders(granted: Path) -> None:
    runtime = FileWrite({"data": Folder(granted, writable=True)})

    assert await runtime.run(call("data/a/b/c.txt", "ä")) == {"path": "data/a/b/c.txt", "bytes_written": 2}
    await runtime.run(call("data/a/b/c.txt", {"x": [1]}))
    assert (granted / "a/b/c.txt").read_text() == '{"x":[1]}'
    assert list((granted / "a/b").iterdir()) == [granted / "a/b/c.txt"]


async def test_a_deep_path_needs_few_descriptors(granted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    rename = os.rename

    def count(source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        counts.append(len(list(Path("/dev/fd").iterdir())))
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", count)
    runtime = FileWrite({"data": Folder(granted, writable=True)})
    for depth in (1, 50):
        await runtime.run(call(f"data/{'a/' * depth}x.txt"))

    assert counts[0] == counts[1]


async def test_writing_to_a_symbolic_link_replaces_the_link_and_not_its_target(granted: Path) -> None:
    await FileWrite({"data": Folder(granted, writable=True)}).run(call("data/link.txt"))

    assert (granted / "link.txt").read_text() == "new"
    assert not (granted / "link.txt").is_symlink()
    assert (granted.parent / "secret.txt").read_text() == "secret"


async def test_a_folder_is_read_only_unless_it_is_writable(granted: Path) -> None:
    assert FileWrite({"data": Folder(granted), "w": Folder(granted, writable=True)}).folders == {"w"}
    assert FileRead({"data": Folder(granted), "w": Folder(granted, writable=True)}).folders == {"data", "w"}


async def test_a_named_pipe_or_a_folder_is_not_read(granted: Path) -> None:
    os.mkfifo(granted / "pipe")
    (granted / "folder").mkdir()

    for name in ("pipe", "folder"):
        with pytest.raises(TaskError, match=name):
            await FileRead({"data": Folder(granted)}).run(call(f"data/{name}"))


async def test_the_size_of_files_is_limited(granted: Path) -> None:
    (granted / "exact").write_bytes(b"x" * 10)
    (granted / "large").write_bytes(b"x" * 11)
    runtime = FileRead({"data": Folder(granted, max_bytes=10)})

    assert await runtime.run(call("data/exact")) == {"path": "data/exact", "content": "x" * 10, "bytes": 10}
    with pytest.raises(TaskError, match="more than 10 bytes"):
        await runtime.run(call("data/large"))
    with pytest.raises(TaskError, match="11 bytes, more than the limit of 10"):
        await FileWrite({"data": Folder(granted, writable=True, max_bytes=10)}).run(call("data/new", "x" * 11))
    assert not (granted / "new").exists()


async def test_a_file_that_is_not_text_is_refused(granted: Path) -> None:
    (granted / "image").write_bytes(b"\xff\xfe")

    with pytest.raises(TaskError, match="not text in UTF-8"):
        await FileRead({"data": Folder(granted)}).run(call("data/image"))


async def test_a_temporary_file_of_a_killed_attempt_is_replaced(granted: Path) -> None:
    (granted / ".run.task.tmp").write_text("half")
    await FileWrite({"data": Folder(granted, writable=True)}).run(call("data/new.txt", "whole"))

    assert (granted / "new.txt").read_text() == "whole"
    assert not (granted / ".run.task.tmp").exists()


def test_the_name_of_a_folder_is_one_part_of_a_path(granted: Path) -> None:
    for name in ("", "a/b", ".", ".."):
        with pytest.raises(UsageError, match="part of a path"):
            FileRead({name: Folder(granted)})


@pytest.mark.parametrize("runtime", [FileRead, FileWrite])
def test_the_folders_are_a_mapping_of_names_to_folders(runtime: Any) -> None:
    with pytest.raises(UsageError, match="name must be a string"):
        runtime({1: 2})
    with pytest.raises(UsageError, match=r"folders\['a'\] must be a Folder"):
        runtime({"a": 1})
