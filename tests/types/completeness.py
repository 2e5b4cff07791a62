"""Every public symbol of every distribution has a declared type: `pyright --verifytypes` reports 100%.

    python completeness.py [IMPORT_NAME ...]

Without a declared type, checkers infer one, each in its own way, and a user without strict settings gets `Any`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(marker.parent.name for marker in ROOT.glob("*/*/src/*/py.typed"))
PARALLEL = 2


def verify(package: str) -> list[str]:
    """Return the symbols of a package whose type is missing or unknown, with the reason."""
    scripts = Path(sys.executable).parent
    # With --verifytypes, pyright ignores --pythonpath and takes the interpreter of PATH.
    environment = {**os.environ, "PATH": os.pathsep.join([str(scripts), os.environ.get("PATH", "")])}
    command = ["pyright", "--outputjson", "--ignoreexternal", "--verifytypes", package]
    with tempfile.TemporaryDirectory() as folder:  # away from this repository's configuration
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    report = json.loads(run.stdout[run.stdout.index("{") :]).get("typeCompleteness")
    if not report or not report["symbols"]:
        return [f"{package} was not found: {run.stdout[-500:]}{run.stderr[-500:]}"]
    return [
        f"{symbol['name']}: {' '.join(item['message'] for item in symbol['diagnostics'])}"
        for symbol in report["symbols"]
        if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]
    ]


def main() -> int:
    """Verify the packages, and print the symbols without a type."""
    packages = sys.argv[1:] or PACKAGES
    with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
        results = dict(zip(packages, pool.map(verify, packages), strict=True))
    for package, faults in results.items():
        print(f"{package:<28}{'complete' if not faults else f'{len(faults)} symbols without a known type'}")
    print(*[fault for faults in results.values() for fault in faults], sep="\n")
    return 1 if any(results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
