"""Script that prints the changed files and the packages to test for them, as one line of JSON.

`python .ci/changes.py` compares the working tree with the main branch. `python .ci/changes.py --ci` compares with the
newest commit at least a day older than HEAD: in CI the change has landed, and a fresh clone has no other branch. The
environment variable CHAT_SINCE selects another commit.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

ROOT = Path(__file__).resolve().parents[1]
SINCE = "CHAT_SINCE"
"""Environment variable with the commit to compare with."""
DAY = 24 * 60 * 60


@dataclass(frozen=True)
class Changes:
    """Differences between the working tree and a commit.

    Attributes:
        base: Hash of the commit, or None if no commit was found, as in a shallow clone.
        files: Changed files, including deleted ones, relative to the root of the workspace.
        packages: Names of the packages with a changed file.
        dependents: Names of the packages with changed sources, and of all packages that depend on them.
    """

    base: str | None
    files: list[str]
    packages: list[str]
    dependents: list[str]


def git(root: Path, *words: str) -> str | None:
    """Run git in `root` and return its stripped output, or None if it fails."""
    done = subprocess.run(["git", *words], cwd=root, check=False, capture_output=True, text=True)  # noqa: S603, S607 - fixed arguments
    return done.stdout.strip() if done.returncode == 0 else None


def commit_of(root: Path, name: str) -> str | None:
    """Return the hash of the commit `name`, or None if there is no such commit."""
    return git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") or None


def base_of_branch(root: Path) -> str | None:
    """Return the commit at which HEAD left `main` or `origin/main`, or HEAD if it is part of both."""
    for main in ("main", "origin/main"):
        if (
            commit_of(root, main)
            and (base := git(root, "merge-base", "HEAD", main))
            and base != commit_of(root, "HEAD")
        ):
            return base
    return commit_of(root, "HEAD")


def base_of_last_day(root: Path) -> str | None:
    """Return the newest commit at least a day older than HEAD, or None if the history is too short."""
    latest = git(root, "log", "-1", "--format=%ct")
    return git(root, "rev-list", "-1", f"--before={int(latest) - DAY}", "HEAD") or None if latest else None


def changed_files(root: Path, base: str) -> list[str]:
    """List files that differ from the commit `base`, including uncommitted and new files that git does not ignore."""
    differing = git(root, "diff", "--name-only", "--no-renames", "-z", base) or ""
    new = git(root, "ls-files", "--others", "--exclude-standard", "-z") or ""
    return sorted({name for name in f"{differing}\0{new}".split("\0") if name})


def dependencies(root: Path) -> dict[str, set[str]]:
    """Return the workspace packages that each package lists in its pyproject.toml or imports in its tests.

    Every list in pyproject.toml counts, because the build hook that adds the version has its own dependency lists.
    """
    files = [file for folder in ("packages", "transports") for file in sorted(root.glob(f"{folder}/*/pyproject.toml"))]
    found: dict[str, set[str]] = {}
    for file in files:
        lines = strings_in_lists(tomllib.loads(file.read_text(encoding="utf-8")))
        found[file.parent.name] = {re.split(r"[^\w-]", line, maxsplit=1)[0] for line in lines}
        for test in file.parent.glob("tests/**/*.py"):
            imported = re.findall(r"^\s*(?:from|import) (\w+)", test.read_text(encoding="utf-8"), re.MULTILINE)
            found[file.parent.name] |= {name.replace("_", "-") for name in imported}
    return {name: (names & found.keys()) - {name} for name, names in found.items()}


def strings_in_lists(value: object) -> Iterator[str]:
    """Yield every string that is an element of a list, at any depth of `value`."""
    if isinstance(value, dict):
        for inner in cast("dict[str, object]", value).values():
            yield from strings_in_lists(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            if isinstance(inner, str):
                yield inner
            else:
                yield from strings_in_lists(inner)


def dependents(needs: dict[str, set[str]], names: set[str]) -> set[str]:
    """Return the packages `names` and all packages that depend on them, directly or indirectly."""
    found = set(names)
    while more := {name for name, needed in needs.items() if needed & found} - found:
        found |= more
    return found


def changes(root: Path, *, ci: bool) -> Changes:
    """Compare the working tree with the commit in CHAT_SINCE, or with the default for `ci`."""
    if since := os.environ.get(SINCE):
        base = commit_of(root, since)
        if base is None:
            sys.exit(f"{SINCE}={since}: there is no such commit; name one that is in this clone")
    else:
        base = base_of_last_day(root) if ci else base_of_branch(root)
    files = changed_files(root, base) if base else []
    needs = dependencies(root)
    # packages/NAME/FOLDER/…
    inside = [parts for parts in (Path(file).parts for file in files) if len(parts) > 2 and parts[1] in needs]  # noqa: PLR2004 - as above
    sources = {name for _, name, folder, *_ in inside if folder in {"src", "pyproject.toml"}}
    return Changes(base, files, sorted({parts[1] for parts in inside}), sorted(dependents(needs, sources)))


def main() -> None:
    """Print the changes of this workspace as JSON."""
    print(json.dumps(asdict(changes(ROOT, ci="--ci" in sys.argv[1:]))))


if __name__ == "__main__":
    main()
