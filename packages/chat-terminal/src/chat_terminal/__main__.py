"""Entry point of `python -m chat_terminal`, which runs the `chat` command."""

from __future__ import annotations

from chat_terminal.program import main

if __name__ == "__main__":
    main()
