"""Script that sums the pytest reports of a folder.

It prints a line per report, the seconds of the tests of each folder, the skip reasons, and then `N passed, N failed`.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET


def count(report: Path) -> tuple[int, int, int]:
    """Return the numbers of passed, failed and skipped tests in one pytest report. Errors count as failed."""
    suites = ET.parse(report).getroot().iter("testsuite")  # noqa: S314 - the file was written by pytest
    attributes = [suite.attrib for suite in suites]
    total, failed, errors, skipped = (
        sum(int(a[name]) for a in attributes) for name in ("tests", "failures", "errors", "skipped")
    )
    return total - failed - errors - skipped, failed + errors, skipped


def reasons(report: Path) -> Counter[str]:
    """Return the number of skipped tests and modules for each skip reason."""
    skipped = ET.parse(report).getroot().iter("skipped")  # noqa: S314 - as above
    return Counter(element.get("message") or "" for element in skipped)


def durations(report: Path) -> Counter[str]:
    """Return the milliseconds that the tests of each folder, such as `tests/wire`, took in one pytest report."""
    found: Counter[str] = Counter()
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - as above
        folder = "/".join(case.get("classname", "").split(".")[:2])
        found[folder] += round(1000 * float(case.get("time", 0)))
    return found


def main() -> int:
    """Print the sums and the skip reasons. Return 1 if a test failed or none passed, otherwise 0."""
    counts = {report.stem: count(report) for report in sorted(Path(sys.argv[1]).glob("*.xml"))}
    for name, (passed, failed, skipped) in counts.items():
        print(f"{name:32} {passed:6} passed {failed:4} failed {skipped:4} skipped")
    spent = sum((durations(report) for report in Path(sys.argv[1]).glob("*.xml")), Counter[str]())
    for folder, time in spent.most_common():
        if seconds := round(time / 1000):
            print(f"{folder:40} {seconds:6} s")
    why = sum((reasons(report) for report in Path(sys.argv[1]).glob("*.xml")), Counter[str]())
    for reason, times in why.most_common():
        print(f"skipped {times} times: {reason}")
    passed, failed, skipped = (sum(column) for column in zip(*counts.values(), strict=True)) if counts else (0, 0, 0)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
