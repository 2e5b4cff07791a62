"""The `chat` command: ask a model from a terminal, with files, tools, approvals and sessions."""

from chat_terminal.program import main

__all__ = ["main"]
