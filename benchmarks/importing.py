"""What an import costs, in fresh interpreters: seconds of CPU over one that imports nothing, and modules."""

from __future__ import annotations

import resource
import subprocess
import sys

from measure import Measured, Sample, summed_up

CODE = "import sys{}; print(len(sys.modules))"


def imported(module: str) -> tuple[float, int]:
    """The CPU of a process that imports a module, and how many modules it has then."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = CODE.format(f", {module}" if module else "")
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, int(answer.stdout)


def measured(count: int) -> tuple[Measured, int]:
    """Our import beside pydantic's, each over that of nothing; and how many modules ours has beyond pydantic's."""
    pairs: list[tuple[Sample, Sample]] = []
    beyond = 0
    for module in ("chat_core", "pydantic"):
        imported(module)  # what is compiled is compiled by then
    for _ in range(count):
        (nothing, _), (pydantic, theirs), (core, ours) = map(imported, ("", "pydantic", "chat_core"))
        pairs.append((Sample(pydantic - nothing), Sample(core - nothing)))
        beyond = ours - theirs
    return summed_up("chat", pairs, 1), beyond
