"""The record of a vendor: its address, its key, its dialect, its abilities, and the source of each of these facts.

A preset is data, and the builders only read it. The presets of the known vendors are in `vendors.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from typing import Final, Generic, Literal, TypeAlias, TypeVar, final

from chat_completions.errors import ErrorPatterns
from chat_completions.options import DEFAULT_PROVIDER, Dialect

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"
API_KEY_VARIABLE: Final = "OPENAI_API_KEY"
"""The variable of the key for the default base URL. The key is never sent to another server."""

# --- Abilities -----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class NoEmbeddings:
    """The vendor has no embeddings on this wire: its builder has no `with_embeddings()`, its provider no `embed()`."""


@final
@dataclass(frozen=True, slots=True)
class FixedEmbeddings:
    """The vendor has embeddings, and the model fixes the length of their vectors."""


@final
@dataclass(frozen=True, slots=True)
class SizedEmbeddings:
    """The vendor has embeddings, and a request may choose the length of their vectors."""


Embeddings: TypeAlias = NoEmbeddings | FixedEmbeddings | SizedEmbeddings
EmbeddingsT_co = TypeVar("EmbeddingsT_co", bound=Embeddings, covariant=True)

# --- Sources -------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Source:
    """A page of a vendor's documentation that states facts of a preset.

    Attributes:
        title: The title of the page.
        url: Its address.
        checked: The date on which the page was last compared with the preset.
        facts: The names of the fields, of the preset or of its dialect, that the page states.
    """

    title: str
    url: str
    checked: date
    facts: tuple[str, ...]


# --- Presets -------------------------------------------------------------------------------------------

_FACTS: Final = (
    "base_url",
    "base_url_variable",
    "key_variables",
    "key_header",
    "embeddings",
    "error_patterns",
    "notes",
)
"""The fields of a preset that state something about the vendor. The others follow from them or are ours."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Preset(Generic[EmbeddingsT_co]):
    """What is known about one vendor, generic in its embeddings.

    Attributes:
        title: The vendor's name for people. Programs use `name`, the provider name of the dialect.
        dialect: How the vendor differs from OpenAI on the wire. The builder fills in the model.
        base_url: The part of every URL before `/chat/completions`; `None` where each customer has its own.
        base_url_variable: The environment variable that overrides the base URL.
        own_server: Whether the server is run by the caller, so that the key is sent to any base URL.
        key_variables: The environment variables that are searched for the key, in this order.
        key_needed: Whether requests without a key are refused.
        key_header: The header that carries the key; in `authorization` it is a bearer token.
        embeddings: Whether the vendor has embeddings, and whether their length can be chosen.
        max_embedding_batch: The largest number of texts in one request for embeddings.
        hint: What to do when nothing listens at the base URL; part of the error message.
        error_patterns: Patterns in the body of a refusal, and the error class each of them means at this vendor alone.
        own_builder: The name of the builder class for what only this vendor has; empty where there is none.
        recorded: Whether the preset is tested against recorded traffic of the vendor.
        notes: Other differences, for the reader.
        sources: The pages that state these facts; see `source_of`.
    """

    title: str
    dialect: Dialect
    base_url: str | None
    base_url_variable: str | None = None
    own_server: bool = False
    key_variables: tuple[str, ...] = ()
    key_needed: bool = True
    key_header: Literal["authorization", "api-key"] = "authorization"
    embeddings: EmbeddingsT_co
    max_embedding_batch: int = 2048
    hint: str = ""
    error_patterns: ErrorPatterns = ()
    own_builder: str = ""
    recorded: bool = True
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()

    @property
    def name(self) -> str:
        """The vendor's name in errors and metadata, and the owner of its opaque data in a history."""
        return self.dialect.provider

    @property
    def differences(self) -> Mapping[str, object]:
        """The fields in which the dialect differs from OpenAI's, with their values."""
        return {
            field.name: value
            for field in fields(Dialect)
            if field.init
            and field.name not in {"model", "provider"}
            and (value := getattr(self.dialect, field.name)) != field.default
        }

    @property
    def facts(self) -> tuple[str, ...]:
        """The names of the fields that state something about the vendor, each of which has a source."""
        defaults = (None, (), "authorization", NoEmbeddings())
        stated = [name for name in _FACTS if getattr(self, name) not in defaults]
        return (*stated, *self.differences)

    def source_of(self, fact: str) -> Source | None:
        """Return the page that states `fact`, or None where no page is known and recorded traffic is all there is."""
        return next((source for source in self.sources if fact in source.facts), None)


AnyPreset: TypeAlias = Preset[Embeddings]
"""A preset of any vendor, where its abilities do not matter."""

ANY_SERVER: Final = Preset(
    title="any server",
    dialect=Dialect(model="", provider=DEFAULT_PROVIDER),
    base_url=DEFAULT_BASE_URL,
    key_variables=(API_KEY_VARIABLE,),
    embeddings=SizedEmbeddings(),
)
"""The preset that `CompletionsBuilder` begins with."""
