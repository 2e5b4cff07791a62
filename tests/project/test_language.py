"""The language of sources and pages: plain words, usual openings, documented parameters, American spelling."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import language
from .language import KINDS, Kind, Text

FILES = language.checked_files()
TEXTS = [text for file in FILES for text in language.texts_of(file)]
SOURCES = [file for file in FILES if "src" in file.parts]


@pytest.mark.parametrize("kind", KINDS)
def test_unusual_words_are_rare(kind: Kind) -> None:
    texts = [text for text in TEXTS if text.kind == kind]

    assert texts
    assert language.unusual_per_thousand(texts) <= language.MOST_UNUSUAL


def test_docstrings_do_not_open_with_a_question_word() -> None:
    docstrings = [text for text in TEXTS if text.kind == "docstring"]

    assert len(language.questions(TEXTS)) <= language.MOST_QUESTIONS * len(docstrings)


def test_spelling_is_american() -> None:
    assert [f"{text}: {word}" for text in TEXTS for word in language.BRITISH.findall(text.prose)] == []


def test_public_functions_document_their_parameters() -> None:
    assert [line for file in SOURCES for line in language.undocumented(file)] == []


def test_private_names_are_descriptive() -> None:
    assert [line for file in SOURCES for line in language.opaque_names(file)] == []


def test_every_kind_of_text_is_collected(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""A module."""\n# Because.\ndef f():\n    """Return."""\n    raise ValueError("no")\n')
    page = tmp_path / "page.md"
    page.write_text("Words, `code` and\n```python\ncode\n```\n")

    texts = [(text.kind, text.line, text.prose.split()) for file in (module, page) for text in language.texts_of(file)]

    assert sorted(texts) == [
        ("comment", 2, ["Because."]),
        ("docstring", 1, ["A", "module."]),
        ("docstring", 3, ["Return."]),
        ("error", 5, ["no"]),
        ("page", 1, ["Words,", "and"]),
    ]


def test_unusual_words_questions_and_british_spelling_are_found() -> None:
    texts = [
        Text("docstring", Path(), 1, "What was told."),
        Text("comment", Path(), 2, "Two plain words."),
    ]

    assert language.unusual_per_thousand(texts) == 1000 / 6
    assert language.questions(texts) == texts[:1]
    assert language.BRITISH.findall("the behaviour") == ["behaviour"]


SOURCE = '''
def plain(one, two):
    """Add `one` to `two`."""
def listed(one, two):
    """Add.

    Args:
        one: a number.
        two: another.
    """
def bare(one, two):
    """Add them."""
class Sender:
    def send(self, one, two):
        """Implement `Transport.send`."""
    def told(self, one):
        """Return it."""
'''


def test_an_undocumented_parameter_and_an_opaque_name_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language, "ROOT", tmp_path)
    module = tmp_path / "src" / "module.py"
    module.parent.mkdir()
    module.write_text(SOURCE)

    assert list(language.undocumented(module)) == ["src/module.py:11: bare does not document one, two"]
    assert list(language.opaque_names(module)) == ["src/module.py:16: told"]
