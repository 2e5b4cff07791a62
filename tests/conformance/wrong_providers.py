"""The faulty providers of the neighboring modules, each with the scenarios that detect its fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from .toy import Toy

ToyT = TypeVar("ToyT", bound=Toy)
CASES: Final[dict[type[Toy], set[str]]] = {}
"""The wrong providers, and the scenarios at which each of them must fail. They fail at no other one."""


def fails_at(*names: str) -> Callable[[type[ToyT]], type[ToyT]]:
    """Add a faulty provider."""

    def enter(kind: type[ToyT]) -> type[ToyT]:
        CASES[kind] = set(names)
        return kind

    return enter
