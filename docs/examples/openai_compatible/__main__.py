"""The approval next door, with a model behind any address that speaks Chat Completions.

    export CHAT_API_KEY=...                             # where the server wants a key
    python docs/examples/openai_compatible --url http://localhost:8080/v1 --model qwen3
    python docs/examples/openai_compatible --url http://localhost:8080/v1 --model qwen3 ask "Pay 500 cents to Bo."
    python docs/examples/openai_compatible --url http://localhost:8080/v1 --model qwen3 decide

What is different is one function, `hosted()` in ../approval/models.py. What is stored is the same: a pause that began
with one model may end with another.
"""

from __future__ import annotations

import argparse
import runpy
from pathlib import Path

APPROVAL = Path(__file__).parent.parent / "approval"


def main() -> None:
    """Require a URL, then run the approval example with the same arguments."""
    parser = argparse.ArgumentParser(
        prog="openai_compatible", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", required=True, help="the part before /chat/completions")
    parser.add_argument("--model", required=True, help="the name that the server knows its model by")
    parser.epilog = "everything else: python docs/examples/approval --help"
    parser.parse_known_args()
    runpy.run_path(str(APPROVAL), run_name="__main__")


if __name__ == "__main__":
    main()
