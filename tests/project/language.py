"""Checks of the project's language: plain words, usual openings, documented parameters, American spelling.

Run it to see what breaks a rule, worst package first::

    python -m tests.project.language [PATH ...]

The word lists record habits that this project once had. They catch a relapse; they do not make a text good.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from .workspace import ROOT, kept_files, tree_of

Kind: TypeAlias = Literal["docstring", "comment", "error", "page"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

MOST_UNUSUAL: Final = 2.0
"""Unusual words per 1,000 words that a kind of text may have. httpx, anyio, trio and structlog have 0.3 to 1.7."""
MOST_QUESTIONS: Final = 0.02
"""Share of docstrings that may open with a question word."""
UNUSUAL: Final = re.compile(
    r"\b(whoever|whatever|wherever|nobody|somebody|told|tells?|says?|said|comes? to|has come|what came|in the place of|"
    r"anew|at hand|stands?|is none|are none|looked? at|goes on|go on|going on|let go|beside|as far as|so many|"
    r"by itself|without a word|in words|meanwhile|of its own accord|none of (?:ours|its))\b",
    re.IGNORECASE,
)
QUESTION: Final = re.compile(r"(What|Who|Whoever|Where|How|Why|When)\b")
BRITISH: Final = re.compile(
    r"\b(behaviour|colour|favour|honour|neighbour|judgement|catalogue|artefact|centre|licence|"
    r"(?:author|normal|organ|recogn|serial|initial|summar|optim|synchron|custom|final)is(?:e|es|ed|ing|ation))\b",
    re.IGNORECASE,
)
OPAQUE_NAMES: Final = frozenset(
    {"told", "kept", "stated", "said", "mend", "halves", "anew", "whoever", "taken", "gone"}
)
"""Words that name no action and no value: no function, class or parameter is called by one of them."""


@dataclass(frozen=True)
class Text:
    """A piece of prose: its kind, the file and line where it begins, and the words without code."""

    kind: Kind
    file: Path
    line: int
    prose: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: {self.kind}"


def checked_files() -> list[Path]:
    """Return the Python and Markdown files whose language is checked: tests, locks and the changelog are not."""
    return [file for file in kept_files() if file.suffix in {".py", ".md"} and not _is_exempt(file.relative_to(ROOT))]


def _is_exempt(file: Path) -> bool:
    return "tests" in file.parts or file.parts[0] == "requirements" or file.name == "CHANGELOG.md"


def texts_of(file: Path) -> Iterator[Text]:
    """Yield the docstrings, comments and error messages of a Python file, or the prose of a page."""
    if file.suffix == ".md":
        yield Text("page", file, 1, _without_code(file.read_text(encoding="utf-8")))
        return
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Module | ast.ClassDef | Function):
            if text := ast.get_docstring(node):
                yield Text("docstring", file, getattr(node, "lineno", 1), text)
        elif isinstance(node, ast.Raise | ast.Assign) and (message := _message_of(node)):
            yield Text("error", file, node.lineno, message)
    for token in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield Text("comment", file, token.start[0], token.string.lstrip("# "))


def _without_code(page: str) -> str:
    return re.sub(r"```.*?```|`[^`]*`|<!--.*?-->|<[^>]*>|\]\([^)]*\)", " ", page, flags=re.DOTALL)


def _message_of(node: ast.Raise | ast.Assign) -> str:
    raised = isinstance(node, ast.Raise) or ast.unparse(node.targets[0]) == "msg"
    strings = ast.walk(node) if raised else ()
    return " ".join(part.value for part in strings if isinstance(part, ast.Constant) and isinstance(part.value, str))


def unusual_per_thousand(texts: Iterable[Text]) -> float:
    """Return how many unusual words the texts have in 1,000 words."""
    listed = list(texts)
    words = sum(len(text.prose.split()) for text in listed)
    return 1000 * sum(len(UNUSUAL.findall(text.prose)) for text in listed) / max(words, 1)


def questions(texts: Iterable[Text]) -> list[Text]:
    """Return the docstrings that open with a question word."""
    return [text for text in texts if text.kind == "docstring" and QUESTION.match(text.prose)]


def undocumented(file: Path) -> Iterator[str]:
    """Yield the public functions with two or more parameters whose docstring leaves one of them out.

    An implementation may refer to the documented method of its protocol instead: "Implement `Transport.send`."
    """
    if any(part.startswith("_") and part != "__init__.py" for part in file.parts[file.parts.index("src") :]):
        return
    for function, owner in _public_functions(tree_of(file)):
        named = [item.arg for item in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
        parameters = [name for name in named[owner != "" :] if not name.startswith("_")]
        text = ast.get_docstring(function) or ""
        missing = [
            name for name in parameters if not re.search(rf"`\**{name}\b|^\s*\**{name}(?:, \w+)*: ", text, re.MULTILINE)
        ]
        if len(parameters) > 1 and missing and not re.match(r"Implement `[\w.]+(?:\(\))?`", text):
            name = f"{owner}.{function.name}" if owner else function.name
            yield f"{file.relative_to(ROOT)}:{function.lineno}: {name} does not document {', '.join(missing)}"


def _public_functions(tree: ast.Module) -> Iterator[tuple[Function, str]]:
    for node in tree.body:
        if isinstance(node, Function) and _is_documented(node):
            yield node, ""
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for item in node.body:
                if isinstance(item, Function) and _is_documented(item):
                    static = any(ast.unparse(decorator) == "staticmethod" for decorator in item.decorator_list)
                    yield item, "" if static else node.name


def _is_documented(function: Function) -> bool:
    decorators = {ast.unparse(decorator).split(".")[-1] for decorator in function.decorator_list}
    return not function.name.startswith("_") and not decorators & {"overload", "override"}


def opaque_names(file: Path) -> Iterator[str]:
    """Yield the functions, classes and parameters whose name a reader cannot guess."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.arg | ast.ClassDef | Function):
            name = node.arg if isinstance(node, ast.arg) else node.name
            if name.strip("_").lower() in OPAQUE_NAMES:
                yield f"{file.relative_to(ROOT)}:{node.lineno}: {name}"


def main(paths: list[str]) -> int:
    """Print what breaks a rule in some files, or in all; return how many findings there are."""
    roots = [Path(path).resolve() for path in paths] or [ROOT]
    files = [file for file in checked_files() if any(root in (file, *file.parents) for root in roots)]
    texts = [text for file in files for text in texts_of(file)]
    sources = [file for file in files if "src" in file.parts]
    found = [f"{text}: {word}" for text in texts for word in UNUSUAL.findall(text.prose)]
    found += [f"{text}: opens with a question word" for text in questions(texts)]
    found += [f"{text}: British spelling {word}" for text in texts for word in BRITISH.findall(text.prose)]
    found += [line for file in sources for line in (*undocumented(file), *opaque_names(file))]
    for kind in KINDS:
        found.append(f"{kind}: {unusual_per_thousand(t for t in texts if t.kind == kind):.1f} unusual words in 1,000")
    sys.stdout.write("\n".join(found) + "\n")
    return len(found) - len(KINDS)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
