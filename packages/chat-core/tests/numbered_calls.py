"""Tool calls whose only argument is their number."""

from __future__ import annotations

from chat_core import FunctionCall


def calls(name: str, count: int) -> list[FunctionCall]:
    return [FunctionCall(name, {"n": n}, id=f"call_{n}") for n in range(count)]
