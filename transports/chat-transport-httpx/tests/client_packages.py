"""The packages whose clients the tests pass in: httpx, and httpx2 in the workspace."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

PACKAGES: Final[list[Any]] = [import_module(name) for name in ("httpx", "httpx2") if find_spec(name) is not None]
NAMES: Final = [package.__name__ for package in PACKAGES]
