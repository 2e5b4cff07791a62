"""An entity recognizer that uses a spaCy pipeline.

    recognizer = SpacyRecognizer(spacy.load("en_core_web_sm"))
    indexer = Indexer(memory, extractor, scope=lambda meta: meta.owner, recognizer=recognizer)

The extra `pip install "chat-memory[spacy]"` installs spaCy without a model. Install a model for your language, or add
rules to an empty pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from threading import Lock
from typing import Any, Final, Protocol, final

from chat_core.concurrency import finish_in_thread

from chat_memory.extraction import ExtractedEntity, Extraction

SPACY_LABELS: Final[Mapping[str, str]] = {
    "PERSON": "person",
    "PER": "person",
    "ORG": "organization",
    "GPE": "place",
    "LOC": "place",
    "FAC": "place",
    "PRODUCT": "tool",
    "LANGUAGE": "language",
    "EVENT": "event",
    "WORK_OF_ART": "work",
}
"""Entity types by the labels of spaCy's models for European languages. Labels of numbers and dates are left out."""


class SpacyEntity(Protocol):
    """Protocol for the attributes of a `spacy.tokens.Span` that are used."""

    @property
    def text(self) -> str:
        """The text of the entity."""
        ...

    @property
    def label_(self) -> str:
        """The name of the entity's label."""
        ...


class SpacyDocument(Protocol):
    """Protocol for the attributes of a `spacy.tokens.Doc` that are used."""

    @property
    def ents(self) -> Sequence[SpacyEntity]:
        """The entities of the document."""
        ...


class SpacyPipeline(Protocol):
    """Protocol for the attributes and methods of a `spacy.language.Language` that are used."""

    @property
    def meta(self) -> dict[str, Any]:
        """Metadata of the pipeline, such as its name and version."""
        ...

    def pipe(self, texts: Iterable[str], /) -> Iterator[SpacyDocument]:
        """Yield the processed document for each text."""
        ...


@final
class SpacyRecognizer:
    """Recognizer that finds entities with a spaCy pipeline. Calls run in a worker thread, one at a time.

    Args:
        pipeline: a loaded spaCy pipeline. Do not modify it afterwards.
        labels: maps spaCy labels to entity types. Entities with other labels are ignored.
    """

    def __init__(self, pipeline: SpacyPipeline, *, labels: Mapping[str, str] = SPACY_LABELS) -> None:
        self._pipeline = pipeline
        self._labels = dict(labels)
        self._lock = Lock()

    @property
    def version(self) -> str:
        """Implement `EntityRecognizer.version`: the name, the version and the components of the pipeline."""
        meta = self._pipeline.meta
        parts = [meta.get("pipeline"), meta.get("labels"), sorted(self._labels.items())]
        digest = sha256(repr(parts).encode()).hexdigest()[:8]
        return f"spacy {meta.get('lang')} {meta.get('name')} {meta.get('version')} {digest}"

    async def recognize(self, texts: Sequence[str], /) -> Extraction:
        """Implement `EntityRecognizer.recognize()`."""
        return await finish_in_thread(lambda: self._recognize(texts))

    def _recognize(self, texts: Sequence[str]) -> Extraction:
        with self._lock:
            found = [
                (entity.text.strip(), self._labels[entity.label_])
                for document in self._pipeline.pipe(texts)
                for entity in document.ents
                if entity.label_ in self._labels and entity.text.strip()
            ]
        return Extraction([ExtractedEntity(name, kind) for name, kind in dict.fromkeys(found)])
