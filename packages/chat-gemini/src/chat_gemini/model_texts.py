"""Texts of this package that a model receives or that a stored conversation contains.

The texts are part of the package's behavior: stored conversations repeat them, and prompts are tuned to them. The test
of this module checks their exact bytes.
"""

from __future__ import annotations

from typing import Final

ARGUMENTS_TRUNCATED: Final = "the arguments were cut: the server said that more of them would follow"
"""Value of `FunctionCall.problem` for a call whose last piece of arguments is missing."""

OUTPUT_TOOL: Final = "Gives the final answer. Call it once, when the answer is known, and say nothing beside."
"""Description of the tool whose arguments are the structured output."""
