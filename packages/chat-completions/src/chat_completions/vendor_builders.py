"""Builders for vendors of this wire: each begins with what is known of its vendor, and offers what that vendor has.

`GroqBuilder().with_model("…").build()`; and `groq("…")` is short for it. A builder without a model cannot build, and
one of a vendor without embeddings makes a provider that does not embed: neither type-checks, and both are told in words
at run time too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, NoReturn, Self, TypeAlias, final

from chat_core.errors import UsageError

from chat_completions._settings import Addressable, Adjustable, Settings, absent, parts_of
from chat_completions.client import CompletionsChatProvider, CompletionsProvider
from chat_completions.presets import (
    CEREBRAS,
    DEEPSEEK,
    FIREWORKS,
    GROQ,
    HUGGINGFACE,
    LITELLM,
    LLAMACPP,
    MISTRAL,
    OLLAMA_CLOUD,
    OPENAI,
    OPENROUTER,
    PERPLEXITY,
    TOGETHER,
    VLLM,
    XAI,
    Preset,
)

Routing: TypeAlias = Literal["fastest", "cheapest", "preferred"]

# --- States --------------------------------------------------------------------------------------------


class Vendor(Adjustable):
    """A builder of one vendor, in any state."""

    __slots__ = ()

    def with_description(self, description: str) -> Self:
        """Describe the provider in words of your own, for a router or a log."""
        return self._with(replace(self._settings, description=description))

    def _why_not(self, name: str) -> str | None:
        """Why this builder does not have what others have."""
        title = self._settings.preset.title
        if name == "build":
            return f"build() needs a model: call {type(self).__name__}().with_model('…') first"
        if name == "with_model":
            return f"it has its model, {self._settings.dialect.model!r}: begin anew for another one"
        if name == "with_embeddings":
            return f"{title} has no embeddings on this wire: build a model of another vendor for them"
        return None

    if not TYPE_CHECKING:  # pragma: no branch

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                absent(self, name, {})
            absent(self, name, {name: self._why_not(name)})


class VendorBuilder(Vendor):
    """A builder of one vendor that has no model yet."""

    __slots__ = ()

    preset: ClassVar[Preset]
    """What is known of the vendor."""

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings.of(type(self).preset))


class Sized(Vendor):
    """What can be said of vectors whose length can be chosen."""

    __slots__ = ()

    def with_embeddings(self, *, dimensions: int | None = None, max_batch: int | None = None) -> Self:
        """Say how long the vectors of `embed()` are, and how many texts one request may hold."""
        return self._with(self._settings.embedding(dimensions, max_batch))


class Fixed(Vendor):
    """What can be said of vectors whose length the model fixes."""

    __slots__ = ()

    def with_embeddings(self, *, max_batch: int | None = None) -> Self:
        """Say how many texts one request of `embed()` may hold."""
        return self._with(self._settings.embedding(None, max_batch))


@final
class ReadyChatVendor(Vendor, Addressable):
    """A builder with a model, of a vendor that has no embeddings."""

    __slots__ = ()

    def build(self) -> CompletionsChatProvider:
        """The provider.

        Raises:
            UsageError: the base URL is none, a key is missing where one is needed, or there is no transport.
        """
        return CompletionsChatProvider(**parts_of(self._settings))


@final
class ReadySizedVendor(Sized, Addressable):
    """A builder with a model, of a vendor whose vectors can be of any length."""

    __slots__ = ()

    def build(self) -> CompletionsProvider:
        """The provider.

        Raises:
            UsageError: the base URL is none, a key is missing where one is needed, or there is no transport.
        """
        return CompletionsProvider(**parts_of(self._settings))


@final
class ReadyFixedVendor(Fixed, Addressable):
    """A builder with a model, of a vendor whose vectors have the length that the model fixes."""

    __slots__ = ()

    def build(self) -> CompletionsProvider:
        """The provider.

        Raises:
            UsageError: the base URL is none, a key is missing where one is needed, or there is no transport.
        """
        return CompletionsProvider(**parts_of(self._settings))


class ChatVendor(VendorBuilder, Addressable):
    """A builder of a vendor that has no embeddings. It needs a model."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyChatVendor:
        """Ask for `model`, by the vendor's name for it."""
        return ReadyChatVendor(self._settings.for_model(model))


class SizedVendor(VendorBuilder, Sized, Addressable):
    """A builder of a vendor whose vectors can be of any length. It needs a model."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadySizedVendor:
        """Ask for `model`, by the vendor's name for it."""
        return ReadySizedVendor(self._settings.for_model(model))


class FixedVendor(VendorBuilder, Fixed, Addressable):
    """A builder of a vendor whose vectors have the length that the model fixes. It needs a model."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyFixedVendor:
        """Ask for `model`, by the vendor's name for it."""
        return ReadyFixedVendor(self._settings.for_model(model))


# --- Vendors that differ in their presets alone --------------------------------------------------------


@final
class CerebrasBuilder(ChatVendor):
    """Builds models of Cerebras. The key is in `CEREBRAS_API_KEY`."""

    __slots__ = ()
    preset = CEREBRAS


@final
class DeepSeekBuilder(ChatVendor):
    """Builds models of DeepSeek. The key is in `DEEPSEEK_API_KEY`.

    A structured answer is asked for as JSON, its schema in words: DeepSeek enforces none.
    """

    __slots__ = ()
    preset = DEEPSEEK


@final
class FireworksBuilder(SizedVendor):
    """Builds models of Fireworks. The key is in `FIREWORKS_API_KEY`."""

    __slots__ = ()
    preset = FIREWORKS


@final
class GroqBuilder(ChatVendor):
    """Builds models of Groq. The key is in `GROQ_API_KEY`."""

    __slots__ = ()
    preset = GROQ


@final
class LiteLLMBuilder(SizedVendor):
    """Builds models behind a LiteLLM proxy: at `LITELLM_PROXY_API_BASE`, with the key in `LITELLM_PROXY_API_KEY`."""

    __slots__ = ()
    preset = LITELLM


@final
class LlamaCppServerBuilder(FixedVendor):
    """Builds the model of a llama.cpp server, on this machine where nothing else is said."""

    __slots__ = ()
    preset = LLAMACPP


@final
class MistralBuilder(SizedVendor):
    """Builds models of Mistral. The key is in `MISTRAL_API_KEY`."""

    __slots__ = ()
    preset = MISTRAL


@final
class OllamaCloudBuilder(ChatVendor):
    """Builds models in Ollama's cloud. The key is in `OLLAMA_API_KEY`."""

    __slots__ = ()
    preset = OLLAMA_CLOUD


@final
class OpenAIBuilder(SizedVendor):
    """Builds models of OpenAI on this wire. The key is in `OPENAI_API_KEY`."""

    __slots__ = ()
    preset = OPENAI


@final
class PerplexityBuilder(ChatVendor):
    """Builds models of Perplexity, which search the web and call no tools. The key is in `PERPLEXITY_API_KEY`."""

    __slots__ = ()
    preset = PERPLEXITY


@final
class TogetherBuilder(FixedVendor):
    """Builds models of Together. The key is in `TOGETHER_API_KEY`."""

    __slots__ = ()
    preset = TOGETHER


@final
class VLLMBuilder(SizedVendor):
    """Builds models of a vLLM server, on this machine where nothing else is said."""

    __slots__ = ()
    preset = VLLM


@final
class XAIBuilder(ChatVendor):
    """Builds models of xAI. The key is in `XAI_API_KEY`."""

    __slots__ = ()
    preset = XAI


# --- Vendors that have something of their own ----------------------------------------------------------


class _Routed(Vendor):
    """Who serves a model of Hugging Face."""

    __slots__ = ()

    def with_routing(self, routing: Routing) -> Self:
        """Let the fastest or the cheapest provider serve the model, or the first of those that your account prefers."""
        return self._served_by(routing)

    def with_inference_provider(self, name: str) -> Self:
        """Let the provider of this name serve the model, and no other."""
        return self._served_by(name)

    def _served_by(self, name: str) -> Self:
        settings = self._settings
        if not name or ":" in name:
            msg = f"a provider is named like 'groq', not {name!r}"
            raise UsageError(msg)
        if ":" in settings.dialect.model:
            msg = f"{settings.dialect.model!r} says already what serves it: leave out what is behind the colon"
            raise UsageError(msg)
        return self._with(replace(settings, suffix=f":{name}"))


@final
class HuggingFaceBuilder(VendorBuilder, _Routed, Addressable):
    """Builds models that are served through Hugging Face's router. The key is in `HF_TOKEN`."""

    __slots__ = ()
    preset = HUGGINGFACE

    def with_model(self, model: str) -> ReadyHuggingFaceBuilder:
        """Ask for `model`, such as `openai/gpt-oss-20b`; `:fastest` and the like may stand behind it."""
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
        """The provider.

        Raises:
            UsageError: the base URL is none, a key is missing where one is needed, or there is no transport.
        """
        return CompletionsChatProvider(**parts_of(self._settings))


class _Attributed(Sized):
    """What OpenRouter is told of an application."""

    __slots__ = ()

    def with_app(self, title: str, url: str | None = None) -> Self:
        """Name the application that asks, and its page, without which OpenRouter's statistics do not have it."""
        headers = {"x-openrouter-title": title} | ({} if url is None else {"http-referer": url})
        return self.with_headers(headers)


@final
class OpenRouterBuilder(VendorBuilder, _Attributed, Addressable):
    """Builds models that are served through OpenRouter. The key is in `OPENROUTER_API_KEY`."""

    __slots__ = ()
    preset = OPENROUTER

    def with_model(self, model: str) -> ReadyOpenRouterBuilder:
        """Ask for `model`, such as `openai/gpt-oss-20b`."""
        return ReadyOpenRouterBuilder(self._settings.for_model(model))


@final
class ReadyOpenRouterBuilder(_Attributed, Addressable):
    """An `OpenRouterBuilder` with a model."""

    __slots__ = ()

    def build(self) -> CompletionsProvider:
        """The provider.

        Raises:
            UsageError: the base URL is none, a key is missing where one is needed, or there is no transport.
        """
        return CompletionsProvider(**parts_of(self._settings))
