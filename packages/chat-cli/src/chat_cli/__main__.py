"""`python -m chat_cli`: the same as `chat`."""

from __future__ import annotations

from chat_cli.program import main

if __name__ == "__main__":
    main()
