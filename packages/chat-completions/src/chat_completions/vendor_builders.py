"""Builders for the vendors of this wire: each starts from a preset, and offers what the vendor has.

`vendor_builder(GROQ).with_model("…").build()`; `groq("…")` is short for it. A builder without a model has no `build()`,
and the provider of a vendor without embeddings has no `embed()`. Type checkers reject both, and at run time the error
says what is missing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Self, TypeAlias, final, overload

from chat_core.errors import UsageError

from chat_completions.client import CompletionsChatProvider, CompletionsProvider
from chat_completions.presets import AnyPreset, Embeddings, FixedEmbeddings, NoEmbeddings, Preset, SizedEmbeddings
from chat_completions.settings import Addressable, Adjustable, Settings, provider_arguments
from chat_completions.vendors import HUGGINGFACE

Routing: TypeAlias = Literal["fastest", "cheapest", "preferred"]

# --- What the states have in common ---------------------------------------------------------------------


class VendorState(Adjustable):
    """A builder of one vendor, in any state."""

    __slots__ = ()

    def with_description(self, description: str) -> Self:
        """Describe the provider, for a router or a log."""
        return self._with(replace(self._settings, description=description))

    def _missing_method_hint(self, name: str) -> str | None:
        """Return why `name` is unavailable in this state, or None if no state has it."""
        title = self._settings.preset.title
        if name == "build":
            return "build() needs a model: call .with_model('…') first"
        if name == "with_model":
            return f"it has its model, {self._settings.dialect.model!r}: begin anew for another one"
        if name == "with_embeddings":
            return f"{title} has no embeddings on this wire: build a model of another vendor for them"
        return None


class WithSizedEmbeddings(VendorState):
    """The method for embeddings of a vendor that lets a request choose the length of vectors."""

    __slots__ = ()

    def with_embeddings(self, *, dimensions: int | None = None, max_batch: int | None = None) -> Self:
        """Set the length of the vectors of `embed()`, and the largest number of texts in one request."""
        return self._with(self._settings.with_embeddings(dimensions, max_batch))


class WithFixedEmbeddings(VendorState):
    """The method for embeddings of a vendor whose models fix the length of vectors."""

    __slots__ = ()

    def with_embeddings(self, *, max_batch: int | None = None) -> Self:
        """Set the largest number of texts in one request of `embed()`."""
        return self._with(self._settings.with_embeddings(None, max_batch))


# --- Vendors that differ in their presets alone ----------------------------------------------------------


@final
class ChatVendorBuilder(VendorState, Addressable):
    """A builder of a vendor without embeddings. It needs a model."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyChatVendorBuilder:
        """Use `model`, by the vendor's name for it."""
        return ReadyChatVendorBuilder(self._settings.for_model(model))


@final
class ReadyChatVendorBuilder(VendorState, Addressable):
    """A `ChatVendorBuilder` with a model."""

    __slots__ = ()

    def build(self) -> CompletionsChatProvider:
        """Build the provider.

        Raises:
            UsageError: The base URL is invalid, a required key is missing, or no transport is installed.
        """
        return CompletionsChatProvider(**provider_arguments(self._settings))


@final
class FixedVendorBuilder(WithFixedEmbeddings, Addressable):
    """A builder of a vendor with embeddings whose length the model fixes. It needs a model."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyFixedVendorBuilder:
        """Use `model`, by the vendor's name for it."""
        return ReadyFixedVendorBuilder(self._settings.for_model(model))


@final
class ReadyFixedVendorBuilder(WithFixedEmbeddings, Addressable):
    """A `FixedVendorBuilder` with a model."""

    __slots__ = ()

    def build(self) -> CompletionsProvider:
        """Build the provider.

        Raises:
            UsageError: The base URL is invalid, a required key is missing, or no transport is installed.
        """
        return CompletionsProvider(**provider_arguments(self._settings))


@final
class SizedVendorBuilder(WithSizedEmbeddings, Addressable):
    """A builder of a vendor with embeddings whose length can be chosen. It needs a model."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadySizedVendorBuilder:
        """Use `model`, by the vendor's name for it."""
        return ReadySizedVendorBuilder(self._settings.for_model(model))


@final
class ReadySizedVendorBuilder(WithSizedEmbeddings, Addressable):
    """A `SizedVendorBuilder` with a model."""

    __slots__ = ()

    def build(self) -> CompletionsProvider:
        """Build the provider.

        Raises:
            UsageError: The base URL is invalid, a required key is missing, or no transport is installed.
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
    """Start building a model of the preset's vendor: `vendor_builder(GROQ)`.

    Args:
        preset: One of the presets of this package, or a `Preset` of your own.

    Raises:
        UsageError: The vendor has a builder of its own, with what only this vendor has.
    """
    if preset.own_builder:
        msg = f"{preset.title} has a builder of its own: begin with {preset.own_builder}()"
        raise UsageError(msg)
    settings = Settings.of(preset)
    if isinstance(preset.embeddings, NoEmbeddings):
        return ChatVendorBuilder(settings)
    if isinstance(preset.embeddings, FixedEmbeddings):
        return FixedVendorBuilder(settings)
    return SizedVendorBuilder(settings)


# --- Hugging Face --------------------------------------------------------------------------------------


class _Routed(VendorState):
    """The choice of the provider that serves a model of Hugging Face."""

    __slots__ = ()

    def with_routing(self, routing: Routing) -> Self:
        """Route to the fastest or the cheapest provider, or to the first one in the preferences of your account."""
        return self._with_suffix(routing)

    def with_inference_provider(self, name: str) -> Self:
        """Route to the provider of this name, and to no other."""
        return self._with_suffix(name)

    def _with_suffix(self, name: str) -> Self:
        """Append `name` to the model's name, where the router reads it."""
        settings = self._settings
        if not name or ":" in name:
            msg = f"a provider is named like 'groq', not {name!r}"
            raise UsageError(msg)
        if ":" in settings.dialect.model:
            msg = f"{settings.dialect.model!r} says already what serves it: leave out what is behind the colon"
            raise UsageError(msg)
        return self._with(replace(settings, suffix=f":{name}"))


@final
class HuggingFaceBuilder(_Routed, Addressable):
    """Builds models that are served through Hugging Face's router. The key is in `HF_TOKEN`."""

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings.of(HUGGINGFACE))

    def with_model(self, model: str) -> ReadyHuggingFaceBuilder:
        """Use `model`, such as `openai/gpt-oss-20b`; a suffix such as `:fastest` is allowed."""
        settings = self._settings.for_model(model)
        if settings.suffix and ":" in model:
            msg = f"{model!r} says what serves it, and so did {settings.suffix[1:]!r} before: leave one out"
            raise UsageError(msg)
        return ReadyHuggingFaceBuilder(settings)


@final
class ReadyHuggingFaceBuilder(_Routed, Addressable):
    """A `HuggingFaceBuilder` with a model."""

    __slots__ = ()

    def build(self) -> CompletionsChatProvider:
        """Build the provider.

        Raises:
            UsageError: The base URL is invalid, the key is missing, or no transport is installed.
        """
        return CompletionsChatProvider(**provider_arguments(self._settings))
