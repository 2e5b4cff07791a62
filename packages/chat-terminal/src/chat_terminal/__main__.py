"""Entry point of `python -m chat_terminal`, the same as `chat`."""

from __future__ import annotations

from chat_terminal.program import main

if __name__ == "__main__":
    main()
