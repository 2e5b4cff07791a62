"""Benchmark of import cost in fresh interpreters: CPU seconds above an interpreter without imports, and modules loaded.

For this library and pydantic, only the import is measured. For the others, a client is created as well, because some
libraries defer many of their imports until then.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from measure import PATIENCE, BenchmarkError, Measured, Sample, each, python_of, summed_up
from rows import Row

CODE: Final = "{}\nimport sys; print(len(sys.modules))"
PYDANTIC: Final = "import pydantic"
BEGUN: Final = {
    "chat": "import chat_core",
    "chat-provider": """
from chat_completions import CompletionsBuilder
from chat_core import ChatBuilder
ChatBuilder().with_model(CompletionsBuilder().with_model("m").with_base_url("http://127.0.0.1:1").build()).build()
""",
    "httpx2": "import httpx2; httpx2.AsyncClient()",
    "anthropic": "import anthropic; anthropic.AsyncAnthropic(api_key='k')",
    "openai": "import openai; openai.AsyncOpenAI(api_key='k')",
    "google-genai": "from google import genai; genai.Client(api_key='k')",
    "langchain-openai": "from langchain_openai import ChatOpenAI; ChatOpenAI(model='m', api_key='k')",
    "pydantic-ai": """
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
Agent(OpenAIChatModel("m", provider=OpenAIProvider(api_key="k")))
""",
    "openai-agents": """
from agents import Agent, OpenAIChatCompletionsModel
from openai import AsyncOpenAI
Agent(name="a", model=OpenAIChatCompletionsModel(model="m", openai_client=AsyncOpenAI(api_key="k")))
""",
    # litellm has no client object. Without this variable it downloads a price list on import.
    "litellm": "import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'; from litellm import acompletion",
}
"""First lines of a program that uses each library."""


def imported(python: str, code: str, compiled: Path) -> tuple[float, int]:
    """Run `code` in a fresh interpreter. Return its CPU seconds and the number of modules loaded.

    Bytecode is cached in the folder `compiled`, regardless of the environment's settings. Otherwise compilation would
    dominate the cost for packages installed without bytecode.

    Raises:
        BenchmarkError: the code failed or timed out.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [python, "-c", CODE.format(code)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(compiled)
    try:
        answer = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    except subprocess.TimeoutExpired as error:
        msg = "the program printed nothing in time"
        raise BenchmarkError(msg) from error
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if answer.returncode:
        last = answer.stderr.strip().splitlines()[-1:] or ["the program printed nothing in time"]
        raise BenchmarkError(last[0][:200])
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # The code may print output of its own before the number.
    return spent, int(answer.stdout.split()[-1])


def pairs_of(who: str, count: int, compiled: Path) -> tuple[list[tuple[Sample, Sample]], int]:
    """Measure the import of `who` against pydantic in the same environment, `count` times.

    Both costs exclude that of an empty interpreter.

    Returns:
        The paired samples, and how many more modules `who` loads than pydantic.

    Raises:
        BenchmarkError: `who` is not installed, or an import failed.
    """
    python = python_of(who)
    if python is None:
        msg = f"{who} is not installed"
        raise BenchmarkError(msg)
    pairs: list[tuple[Sample, Sample]] = []
    beyond = 0
    codes = ("", PYDANTIC, BEGUN[who])
    for code in codes:
        imported(python, code, compiled)  # fills the bytecode cache
    for _ in range(count):
        (nothing, _), (pydantic, theirs), (core, ours) = [imported(python, code, compiled) for code in codes]
        pairs.append((Sample(pydantic - nothing), Sample(core - nothing)))
        beyond = ours - theirs
    return pairs, beyond


def measured(
    row: Row, count: Callable[[Row, bool], int], until: float, *, peers: bool
) -> tuple[list[Measured], int | None]:
    """Measure each import of the row. Return also how many more modules the first one loads than pydantic."""
    modules: dict[str, int] = {}

    def one(who: str) -> Measured:
        pairs, modules[who] = pairs_of(who, count(row, who in row.peers), Path(folder))
        return summed_up(who, pairs, row.units)

    with TemporaryDirectory() as folder:
        found = each(row, one, until, peers=peers)
    return found, modules.get(row.ours[0])
