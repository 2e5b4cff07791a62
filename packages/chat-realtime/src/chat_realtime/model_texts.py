"""Texts that models receive about tool calls that the user interrupted."""

from __future__ import annotations

from typing import Final

INTERRUPTED_WHILE_RUNNING: Final = "The user interrupted this call while it was running. It may have taken effect."
INTERRUPTED_BEFORE_START: Final = "The user interrupted this call before it started. It had no effect."
INTERRUPTED_CHAT: Final = "The user interrupted this call while it was running. Parts of it may have taken effect."
