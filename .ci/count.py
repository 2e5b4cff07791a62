"""Adds up what the reports of a folder say: a line for each, and at the end `N passed, N failed`."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET


def count(report: Path) -> tuple[int, int, int]:
    """How many tests passed, failed and were skipped, as one report of pytest tells it."""
    suites = ET.parse(report).getroot().iter("testsuite")  # noqa: S314 - pytest wrote it a moment ago
    attributes = [suite.attrib for suite in suites]
    total, failed, errors, skipped = (
        sum(int(a[name]) for a in attributes) for name in ("tests", "failures", "errors", "skipped")
    )
    return total - failed - errors - skipped, failed + errors, skipped


def main() -> int:
    """Print the sums; fail where a test failed or none ran."""
    counts = {report.stem: count(report) for report in sorted(Path(sys.argv[1]).glob("*.xml"))}
    for name, (passed, failed, skipped) in counts.items():
        print(f"{name:32} {passed:6} passed {failed:4} failed {skipped:4} skipped")
    passed, failed, skipped = (sum(column) for column in zip(*counts.values(), strict=True)) if counts else (0, 0, 0)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
