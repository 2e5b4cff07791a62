"""Builders for known vendors. Each builder starts from a preset and offers only the vendor's features.

`groq("…")` is short for `vendor_builder(GROQ).with_model("…").build()`. A builder without a model has no `build()`,
and the provider of a vendor without embeddings has no `embed()`. Type checkers reject both, and at run time the error
names the missing step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Self, TypeAlias, final, overload

from chat_core.arguments import require_type
from chat_core.errors import UsageError

from chat_completions.client import CompletionsChatProvider, CompletionsProvider
from chat_completions.presets import AnyPreset, Embeddings, FixedEmbeddings, NoEmbeddings, Preset, SizedEmbeddings
from chat_completions.settings import Addressable, Adjustable, Settings, provider_arguments
from chat_completions.vendors import HUGGINGFACE

Routing: TypeAlias = Literal["fastest", "cheapest", "preferred"]

# --- Shared methods -------------------------------------------------------------------------------------


class VendorState(Adjustable):
    """Base class for all vendor builders, with or without a model."""

    __slots__ = ()

    def with_description(self, description: str) -> Self:
        """Set the provider's description, which routers and logs show."""
        return self._with(replace(self._settings, description=description))

    def _missing_method_hint(self, name: str) -> str | None:
        """Return a hint for the missing method `name`, or None if no state of the builder has this method."""
        title = self._settings.preset.title
        if name == "build":
            return "build() needs a model: call .with_model('…') first"
        if name == "with_model":
            return f"the model is already set to {self._settings.dialect.model!r}: create a new builder for another one"
        if name == "with_embeddings":
            return f"{title} has no embeddings on this API: use a model of another vendor"
        return None


class WithSizedEmbeddings(VendorState):
    """Base class for the builders of vendors whose embedding requests can set the vector length."""

    __slots__ = ()

    def with_embeddings(self, *, dimensions: int | None = None, max_batch: int | None = None) -> Self:
        """Set the limits of embedding requests.

        Args:
            dimensions: the length of the vectors. `None` uses the default of the model.
            max_batch: the largest number of texts in one request. `None` uses the vendor's limit.

        Raises:
            UsageError: a number is less than 1.
        """
        return self._with(self._settings.with_embeddings(dimensions, max_batch))


class WithFixedEmbeddings(VendorState):
    """Base class for the builders of vendors whose embedding models have a fixed vector length."""

    __slots__ = ()

    def with_embeddings(self, *, max_batch: int | None = None) -> Self:
        """Set the largest number of texts in one embedding request. `None` uses the vendor's limit."""
        return self._with(self._settings.with_embeddings(None, max_batch))


# --- Vendors that are described by a preset ---------------------------------------------------------------


@final
class ChatVendorBuilder(VendorState, Addressable):
    """A builder for a vendor without embeddings. Call `with_model()` before `build()`."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyChatVendorBuilder:
        """Set the model. `model` is the vendor's name for it."""
        return ReadyChatVendorBuilder(self._settings.for_model(model))


@final
class ReadyChatVendorBuilder(VendorState, Addressable):
    """A builder for a vendor without embeddings, after the model has been set."""

    __slots__ = ()

    def build(self) -> CompletionsChatProvider:
        """Return a provider with the settings of this builder.

        Raises:
            UsageError: the base URL is invalid, a required key is missing, or no transport is installed.
        """
        return CompletionsChatProvider(**provider_arguments(self._settings))


@final
class FixedVendorBuilder(WithFixedEmbeddings, Addressable):
    """A builder for a vendor whose embeddings have a fixed length. Call `with_model()` before `build()`."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyFixedVendorBuilder:
        """Set the model. `model` is the vendor's name for it."""
        return ReadyFixedVendorBuilder(self._settings.for_model(model))


@final
class ReadyFixedVendorBuilder(WithFixedEmbeddings, Addressable):
    """A builder for a vendor whose embeddings have a fixed length, after the model has been set."""

    __slots__ = ()

    def build(self) -> CompletionsProvider:
        """Return a provider with the settings of this builder.

        Raises:
            UsageError: the base URL is invalid, a required key is missing, or no transport is installed.
        """
        return CompletionsProvider(**provider_arguments(self._settings))


@final
class SizedVendorBuilder(WithSizedEmbeddings, Addressable):
    """A builder for a vendor whose embeddings have a configurable length. Call `with_model()` before `build()`."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadySizedVendorBuilder:
        """Set the model. `model` is the vendor's name for it."""
        return ReadySizedVendorBuilder(self._settings.for_model(model))


@final
class ReadySizedVendorBuilder(WithSizedEmbeddings, Addressable):
    """A builder for a vendor whose embeddings have a configurable length, after the model has been set."""

    __slots__ = ()

    def build(self) -> CompletionsProvider:
        """Return a provider with the settings of this builder.

        Raises:
            UsageError: the base URL is invalid, a required key is missing, or no transport is installed.
        """
        return CompletionsProvider(**provider_arguments(self._settings))


@overload
def vendor_builder(preset: Preset[NoEmbeddings]) -> ChatVendorBuilder: ...
@overload
def vendor_builder(preset: Preset[FixedEmbeddings]) -> FixedVendorBuilder: ...
@overload
def vendor_builder(preset: Preset[SizedEmbeddings]) -> SizedVendorBuilder: ...
@overload
def vendor_builder(preset: AnyPreset) -> ChatVendorBuilder | FixedVendorBuilder | SizedVendorBuilder: ...
def vendor_builder(preset: Preset[Embeddings]) -> ChatVendorBuilder | FixedVendorBuilder | SizedVendorBuilder:
    """Return a builder for the models of one vendor, such as `vendor_builder(GROQ)`.

    Args:
        preset: one of the presets of this package, or a `Preset` of your own.

    Raises:
        UsageError: the vendor has a separate builder class, such as `OllamaBuilder`, or `preset` is not a `Preset`.
    """
    require_type("preset", preset, Preset, "a Preset, such as GROQ")
    if preset.own_builder:
        msg = f"{preset.title} has its own builder: use {preset.own_builder}()"
        raise UsageError(msg)
    settings = Settings.for_preset(preset)
    if isinstance(preset.embeddings, NoEmbeddings):
        return ChatVendorBuilder(settings)
    if isinstance(preset.embeddings, FixedEmbeddings):
        return FixedVendorBuilder(settings)
    return SizedVendorBuilder(settings)


# --- Hugging Face --------------------------------------------------------------------------------------


class _HuggingFace(VendorState):
    """Base class with methods that choose which inference provider serves a Hugging Face model."""

    __slots__ = ()

    def with_routing(self, routing: Routing) -> Self:
        """Choose the fastest provider, the cheapest provider, or the first one in the preferences of your account."""
        return self._with_suffix(routing)

    def with_inference_provider(self, name: str) -> Self:
        """Route requests only to the inference provider with this name."""
        return self._with_suffix(name)

    def _with_suffix(self, name: str) -> Self:
        """Return a builder that appends `:name` to the model's name, which tells the router how to pick a provider."""
        settings = self._settings
        if not isinstance(name, str) or not name or ":" in name:
            msg = f"expected the name of an inference provider such as 'groq', not {name!r}"
            raise UsageError(msg)
        if ":" in settings.dialect.model:
            msg = f"the model {settings.dialect.model!r} already names its provider: remove the part after the colon"
            raise UsageError(msg)
        return self._with(replace(settings, suffix=f":{name}"))


@final
class HuggingFaceBuilder(_HuggingFace, Addressable):
    """A builder for models served through Hugging Face's router. The default API key is read from `HF_TOKEN`."""

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings.for_preset(HUGGINGFACE))

    def with_model(self, model: str) -> ReadyHuggingFaceBuilder:
        """Set the model, such as `openai/gpt-oss-20b`. A suffix such as `:fastest` is allowed."""
        settings = self._settings.for_model(model)
        if settings.suffix and ":" in model:
            msg = (
                f"the model {model!r} names a provider, but {settings.suffix[1:]!r} is already set: remove one of them"
            )
            raise UsageError(msg)
        return ReadyHuggingFaceBuilder(settings)


@final
class ReadyHuggingFaceBuilder(_HuggingFace, Addressable):
    """A builder for models served through Hugging Face's router, after the model has been set."""

    __slots__ = ()

    def build(self) -> CompletionsChatProvider:
        """Return a provider with the settings of this builder.

        Raises:
            UsageError: the base URL is invalid, the key is missing, or no transport is installed.
        """
        return CompletionsChatProvider(**provider_arguments(self._settings))
