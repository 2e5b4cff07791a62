"""Which files a change touches, and which packages have to be tested for it, as JSON on one line.

`python .ci/changes.py` compares the working tree with the main branch, `python .ci/changes.py --ci` with the last
commit that is a day older than HEAD: in CI the change has landed, and a fresh clone has no other branch. The variable
CHAT_SINCE names another commit to compare with.
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
"""The variable that names the commit to compare with."""
DAY = 24 * 60 * 60


@dataclass(frozen=True)
class Changes:
    """What differs from a commit.

    Attributes:
        base: the commit; None where none was found, as in a shallow clone.
        files: the files that differ, from the root of the workspace; deleted ones are among them.
        packages: names of the packages with a changed file.
        dependents: names of all packages whose tests a changed source may break, the changed ones included.
    """

    base: str | None
    files: list[str]
    packages: list[str]
    dependents: list[str]


def git(root: Path, *words: str) -> str | None:
    """Return what git prints, or None where it fails."""
    done = subprocess.run(["git", *words], cwd=root, check=False, capture_output=True, text=True)  # noqa: S603, S607 - our own words
    return done.stdout.strip() if done.returncode == 0 else None


def commit_of(root: Path, name: str) -> str | None:
    """Return the hash of a commit, or None where there is no such commit."""
    return git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") or None


def base_of_branch(root: Path) -> str | None:
    """Return the commit at which HEAD left the main branch; on the main branch itself, HEAD or what was pushed."""
    for main in ("main", "origin/main"):
        if (
            commit_of(root, main)
            and (base := git(root, "merge-base", "HEAD", main))
            and base != commit_of(root, "HEAD")
        ):
            return base
    return commit_of(root, "HEAD")


def base_of_last_day(root: Path) -> str | None:
    """Return the newest commit that is a day older than HEAD, or None where the history does not reach that far."""
    latest = git(root, "log", "-1", "--format=%ct")
    return git(root, "rev-list", "-1", f"--before={int(latest) - DAY}", "HEAD") or None if latest else None


def changed_files(root: Path, base: str) -> list[str]:
    """List the files that differ from a commit: committed, uncommitted, and new ones that git does not ignore."""
    differing = git(root, "diff", "--name-only", "--no-renames", "-z", base) or ""
    new = git(root, "ls-files", "--others", "--exclude-standard", "-z") or ""
    return sorted({name for name in f"{differing}\0{new}".split("\0") if name})


def dependencies(root: Path) -> dict[str, set[str]]:
    """Return the packages that each package of the workspace names in its pyproject.toml, or imports in its tests.

    A name may be in any list of pyproject.toml: the build hook that fills in the version has lists of its own.
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
    """Yield every string that is an element of a list, at any depth of a TOML document."""
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
    """Return these packages and all that depend on one of them, directly or not."""
    found = set(names)
    while more := {name for name, needed in needs.items() if needed & found} - found:
        found |= more
    return found


def changes(root: Path, *, ci: bool) -> Changes:
    """Compare the working tree of a workspace with the commit that CHAT_SINCE names, or with the default."""
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
    """Print the changes of this workspace."""
    print(json.dumps(asdict(changes(ROOT, ci="--ci" in sys.argv[1:]))))


if __name__ == "__main__":
    main()
