"""The texts that a model receives, or that enter a stored conversation, written by this package.

They are part of its behavior: stored conversations repeat them, and prompts are tuned to them. The test of this module
has their exact bytes.
"""

from __future__ import annotations

from typing import Final

ARGUMENTS_TRUNCATED: Final = "the arguments were cut: the server said that more of them would follow"
"""Problem of a call whose last piece is missing."""
