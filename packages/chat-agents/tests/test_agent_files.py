"""Agents are read from Markdown files, and mistakes are reported with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_helpers import call_find, call_pay
from chat_agents import Budget, read_agents
from chat_core import UsageError
from chat_core.testing import ScriptedProvider
from test_delegate_tool import Office, delegate, failure_of, result_of, run

CLERK = """---
name: clerk
description: "Finds: parcels."
# a comment
tools: find, pay
model: small
max_iterations: 3
---

You find parcels.

---
Be brief.
"""


def write(folder: Path, text: str, name: str = "clerk.md") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_an_agent_file_defines_every_field_of_an_agent(tmp_path: Path) -> None:
    small = ScriptedProvider()
    (found,) = read_agents(write(tmp_path, CLERK), models={"small": small}, budget=Budget(calls=7))
    assert (found.name, found.description, found.tools) == ("clerk", "Finds: parcels.", ["find", "pay"])
    assert found.instructions == "You find parcels.\n\n---\nBe brief."
    assert (found.model, found.max_turns, found.budget) == (small, 3, Budget(calls=7))


def test_an_agent_file_requires_only_a_name_and_a_description(tmp_path: Path) -> None:
    write(tmp_path, "---\nname: b\ndescription: B.\n---\n", "b.md")
    write(tmp_path, "\ufeff---\r\nname: a\r\ndescription: A.\r\ntools: []\r\n---\r\nHello.\r\n", "a.md")
    write(tmp_path, "no agent", "notes.txt")
    first, second = read_agents(tmp_path)
    assert (first.name, first.tools, first.instructions) == ("a", [], "Hello.")
    assert (second.name, second.tools, second.model, second.max_turns) == ("b", None, None, 10)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"clerk\.md:1: the file must begin"),
        ("---\nname: a\n", r"clerk\.md:2: the line '---' after the front matter is missing"),
        ("---\nname: a\n---\n", r"clerk\.md:1: the field description is missing"),
        ("---\nname: a\ncolor: red\n---\n", r"clerk\.md:3: expected a field"),
        ("---\nname: a\nname: b\n---\n", r"clerk\.md:3: the field name is repeated"),
        ("---\nname: a\ndescription: d\nmodel: big\n---\n", r"clerk\.md:4: the model 'big' is not in models"),
        ("---\nname: a\ndescription: d\ntools: x,,y\n---\n", r"clerk\.md:4: tools must be names"),
        ("---\nname: a\ndescription: d\nmax_iterations: 0\n---\n", r"clerk\.md:4: max_iterations"),
        (
            f"---\nname: a\ndescription: d\nmax_iterations: {'9' * 5_000}\n---\n",
            r"clerk\.md:4: max_iterations .* 9 digits",
        ),
    ],
)
def test_an_invalid_agent_file_is_reported_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_agents(write(tmp_path, text))


@pytest.mark.anyio
async def test_an_agent_from_a_file_has_its_turn_limit_and_tools(tmp_path: Path) -> None:
    loop = ScriptedProvider(*[call_find(f"P{number}") for number in range(9)], by_history=True)
    office = Office(*read_agents(write(tmp_path, CLERK), models={"small": loop}))
    session, _ = await run(office, delegate(), "Sorry.")
    assert failure_of(session).startswith("Subagent 'clerk' failed: it has no answer after 3 turns.")
    assert office.effects == ["find P0", "find P1"]


@pytest.mark.anyio
async def test_an_agent_from_a_file_cannot_use_unlisted_tools(tmp_path: Path) -> None:
    model = ScriptedProvider(call_pay(), "Done.", by_history=True)
    text = CLERK.replace("find, pay", "find")
    office = Office(*read_agents(write(tmp_path, text), models={"small": model}))
    session, _ = await run(office, delegate(), "Good.")
    assert office.effects == []
    assert result_of(session) == "## Result from 'clerk'\n\nDone."
