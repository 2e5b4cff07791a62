"""`Preset`, the description of a vendor: base URL, API key settings, dialect, abilities and their sources.

The presets of the known vendors are in `vendors.py`.
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
"""The environment variable of the API key for `DEFAULT_BASE_URL` or the URL in `BASE_URL_VARIABLE`."""
BASE_URL_VARIABLE: Final = "OPENAI_BASE_URL"
"""The environment variable of the base URL, as in the OpenAI SDK."""

# --- Abilities -----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class NoEmbeddings:
    """Marker for vendors without embeddings. The builder lacks `with_embeddings()` and the provider lacks `embed()`."""


@final
@dataclass(frozen=True, slots=True)
class FixedEmbeddings:
    """Marker for vendors whose embeddings have a fixed vector length for each model."""


@final
@dataclass(frozen=True, slots=True)
class SizedEmbeddings:
    """Marker for vendors whose embedding requests can set the vector length."""


Embeddings: TypeAlias = NoEmbeddings | FixedEmbeddings | SizedEmbeddings
EmbeddingsT_co = TypeVar("EmbeddingsT_co", bound=Embeddings, covariant=True)

# --- Sources -------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Source:
    """A vendor's documentation page that is the source for values in a preset.

    Attributes:
        title: the title of the page.
        url: the URL of the page.
        checked: the date on which the page was last compared with the preset.
        facts: the names of the fields, of the preset or of its dialect, that the page states.
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
"""The fields of a preset that state facts about the vendor and therefore need a source."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Preset(Generic[EmbeddingsT_co]):
    """Settings and documented facts for one vendor. The type parameter is the vendor's embeddings ability.

    Attributes:
        title: the display name of the vendor. The property `name` is the name used in code.
        dialect: the differences of the vendor's API from OpenAI's. The builder sets the model.
        base_url: the part of every URL before `/chat/completions`; `None` if each customer has a separate URL.
        base_url_variable: the environment variable that overrides the base URL.
        base_url_path: the path that follows the URL in that variable, unless the URL ends with it.
        own_server: whether the user runs the server. The key in the environment is then sent to any base URL.
        key_variables: the environment variables of the API key, in order of preference.
        key_needed: whether the server rejects requests without a key.
        key_header: the header of the key. In `authorization` the key is a bearer token.
        embeddings: the embeddings ability of the vendor.
        max_embedding_batch: the largest number of texts in one request for embeddings.
        hint: the advice in the error message if no connection can be made.
        error_patterns: regular expressions for the body of error responses, and their error classes.
        own_builder: the name of the builder class for this vendor; empty if `vendor_builder()` supports it.
        recorded: whether the preset is tested against recorded traffic of the vendor.
        notes: other differences, for the documentation.
        sources: the documentation pages that state these facts.
    """

    title: str
    dialect: Dialect
    base_url: str | None
    base_url_variable: str | None = None
    base_url_path: str = ""
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
        """The provider name in errors and metadata, which also marks the owner of opaque data in a conversation."""
        return self.dialect.provider

    @property
    def differences(self) -> Mapping[str, object]:
        """The dialect fields whose values differ from OpenAI's API, by name."""
        return {
            field.name: value
            for field in fields(Dialect)
            if field.init
            and field.name not in {"model", "provider"}
            and (value := getattr(self.dialect, field.name)) != field.default
        }

    @property
    def facts(self) -> tuple[str, ...]:
        """The names of the fields that state facts about the vendor."""
        defaults = (None, (), "authorization", NoEmbeddings())
        own_facts = [name for name in _FACTS if getattr(self, name) not in defaults]
        return (*own_facts, *self.differences)

    def source_of(self, fact: str) -> Source | None:
        """Return the documentation page that states the field named `fact`, or None if no page is known."""
        return next((source for source in self.sources if fact in source.facts), None)


AnyPreset: TypeAlias = Preset[Embeddings]
"""A preset with any embeddings ability."""

ANY_SERVER: Final = Preset(
    title="any server",
    dialect=Dialect(model="", provider=DEFAULT_PROVIDER),
    base_url=DEFAULT_BASE_URL,
    base_url_variable=BASE_URL_VARIABLE,
    key_variables=(API_KEY_VARIABLE,),
    embeddings=SizedEmbeddings(),
)
"""The preset of `CompletionsBuilder`."""
