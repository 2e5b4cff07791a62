"""Script that tests wheels: each one alone, in an environment with only its dependencies and the test tools.

`python .ci/wheels.py FOLDER [NAME …]` tests the named packages of the workspace, or all of them, with the wheels in
FOLDER.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent import futures
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "requirements"
REPORTS = ROOT / ".nox" / "reports"
PACKAGES = {file.parent.name: file.parent.relative_to(ROOT) for file in ROOT.glob("*/*/pyproject.toml")}
EXTRAS = {
    "chat-claude": "[bedrock]",
    "chat-core": "[prices]",
    "chat-memory": "[embedder,postgres,spacy]",
    "chat-pipeline": "[code,wasm]",
    "chat-realtime": "[testing]",
    "chat-router": "[prices]",
    "chat-service": "[keyring,workflows]",
    "chat-store": "[postgres]",
    "chat-transport-httpx": "[http2]",
}
"""Extras that the tests of a wheel need."""


def main(wheels: Path, names: list[str]) -> int:
    """Test the named packages, or all, on every core. Return the exit status."""
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder, futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        longest_first = names or sorted(PACKAGES, key=_number_of_tests, reverse=True)
        runs = {pool.submit(_test_alone, name, Path(folder) / name, wheels): name for name in longest_first}
        for run in futures.as_completed(runs):
            passed, output = run.result()
            print(f"{runs[run]}: alone\n{output}", flush=True)
            failed += [] if passed else [runs[run]]
    if failed:
        print(f"failed alone: {', '.join(failed)}")
    return len(failed)


def _number_of_tests(name: str) -> int:
    files = (ROOT / PACKAGES[name] / "tests").rglob("test_*.py")
    return sum(file.read_text(encoding="utf-8").count("\ndef test_") for file in files)


def _wheels_for_tests(name: str) -> list[str]:
    """Return the wheels that the tests of a package need: its own with extras, and those that only the tests import."""
    tests = [file.read_text(encoding="utf-8") for file in (ROOT / PACKAGES[name] / "tests").rglob("*.py")]
    others = ("chat-testing", "chat-store", "chat-claude", "chat-completions", "chat-gemini", "chat-openai")
    imported = [other for other in others if any(f"from {other.replace('-', '_')}" in text for text in tests)]
    imported += ["chat-store[postgres]"] if any("from chat_store.postgres" in text for text in tests) else []
    return [f"{name}{EXTRAS.get(name, '')}", *(other for other in imported if not other.startswith(name))]


def _test_alone(name: str, folder: Path, wheels: Path) -> tuple[bool, str]:
    """Return whether every command for one wheel succeeded, and their combined output."""
    source = PACKAGES[name]
    tests = folder / source / "tests"
    shutil.copytree(ROOT / source / "tests", tests)
    # Some tests check pages against the code, so the docs are copied. The source packages are not.
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / source / "README.md", folder / source)
    for file in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / file, folder)
    python = str(folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")
    install = ("uv", "pip", "install", "--quiet", f"--python={python}")
    # The lock only constrains versions. The metadata of the wheel selects the packages.
    wheel = (f"--find-links={wheels}", f"--constraint={LOCKS / 'runtime.txt'}")
    # Pin the version: none of these packages is released, and the index may have another project of the name.
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    locks = ("tests", "model") if name == "chat-llamacpp" else ("tests",)
    commands = [
        ("uv", "venv", "--quiet", f"--python={sys.executable}", str(folder / "venv")),
        (*install, *wheel, f"{name}=={version}"),
        (python, "-c", f"from {name.replace('-', '_')} import *"),
        (*install, *wheel, *(f"{wheel_name}=={version}" for wheel_name in _wheels_for_tests(name))),
        (*install, "--require-hashes", "--no-deps", *(f"--requirement={LOCKS / lock}.txt" for lock in locks)),
        (python, "-m", "pytest", "--quiet", f"--junit-xml={REPORTS / f'package-{name}.xml'}", str(tests)),
    ]
    env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    recordings = ROOT.parent / "shared" / "wire"
    if recordings.is_dir():
        env.setdefault("CHAT_WIRE_DIR", str(recordings))
    output = ""
    for command in commands:
        done = subprocess.run(  # noqa: S603 - the commands above
            command, cwd=folder, env=env, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        output += done.stdout
        if done.returncode:
            return False, f"{output}{shlex.join(command)} failed with status {done.returncode}"
    return True, output.rstrip()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
