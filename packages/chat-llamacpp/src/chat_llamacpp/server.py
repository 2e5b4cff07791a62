"""The llama.cpp server, running inside this process.

All functions here block. They run in the thread of a `Worker`; `transport.py` calls them from an event loop.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, final

from chat_core.errors import TransportError
from chat_core.json import dumps, loads
from chat_core.transport import Headers
from chat_core.wire.shapes import Json

from chat_llamacpp.constrained import Constrained
from chat_llamacpp.decoding import Stopped, Take
from chat_llamacpp.worker import Worker

Pooling: TypeAlias = Literal["mean", "cls", "last"]
MediaKind: TypeAlias = Literal["image", "audio"]

JSON: Final = Headers({"content-type": "application/json"})
_READ_SIZE = 16 * 1024 * 1024
_PROJECTOR_BATCH: Final = 512
"""Minimum batch size with a projector, the default of llama.cpp. It aborts the process if an image needs more tokens
than a batch has, because some models decode an image in one batch."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# The layout of `json.dumps` by default: calls look like the examples in the prompt and need few whitespace tokens.
_LAYOUT: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """Settings for loading a model.

    Attributes:
        path: GGUF file of the weights.
        alias: model name in responses.
        context: maximum number of tokens of prompt and response together.
        threads: number of decoding threads. One is fastest on machines with few cores.
        batch: number of prompt tokens that are processed at once. A request cannot be stopped within a batch.
        pooling: method that combines the vectors of tokens into one. None: the method declared by the weights.
        projector: GGUF file of the encoder for images or audio (`mmproj`). None: the model reads only text.
        files: kinds of files that the projector encodes.
    """

    path: Path
    alias: str
    context: int = 4096
    threads: int = 1
    batch: int = 128
    pooling: Pooling | None = None
    projector: Path | None = None
    files: tuple[MediaKind, ...] = ()


class Engine(Protocol):
    """Interface with the methods of `xllamacpp.Server` that this module calls."""

    def handle_chat_completions(self, body: bytes, callback: Callable[[bytes], bool], /) -> object:
        """Generate a chat response, and call a function with each chunk of it.

        Args:
            body: request as JSON.
            callback: receives each chunk as JSON. Generation stops when the callback returns True.
        """
        ...

    def handle_embeddings(self, body: bytes, /) -> bytes:
        """Return the embedding response for one text. Request and response are JSON."""
        ...


Load: TypeAlias = Callable[[Settings, bool, Stopped], Engine | None]
"""Function that loads a model, for embeddings if the second argument is True. Returns None if it was stopped."""


@final
class Server:
    """A local model, loaded on the first request. Its methods must run in the thread of its `worker`."""

    __slots__ = ("_embedding", "_engine", "_load", "_settings", "worker")

    def __init__(self, settings: Settings, load: Load, *, embedding: bool) -> None:
        self.worker: Worker = Worker()
        self._load = load
        self._settings = settings
        self._embedding = embedding
        self._engine: Engine | None = None

    @property
    def loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._engine is not None

    def chat(self, request: Constrained, take: Take, stopped: Stopped) -> None:
        """Generate a chat response, and call a function with each chunk of it.

        Args:
            request: request and the schema of the response.
            take: receives each chunk. An error of llama.cpp is passed as the chunk `{"error": …}`.
            stopped: checked after loading the model.

        Raises:
            TransportError: the model cannot be loaded.
        """
        engine = self._load_engine(stopped)
        if engine is None or stopped():
            return
        try:
            body = _dump_body({**request.body, **_grammar_fields(request.schema)})
            engine.handle_chat_completions(body, lambda chunk: take(cast("Json", loads(chunk))))
        except (ValueError, RuntimeError) as error:  # llama.cpp rejects the request before generating
            message = _explain_chat_error(str(error))
            take({"error": {"code": 400, "message": message, "type": "invalid_request_error"}})

    def embed(self, body: Json, take: Take, stopped: Stopped) -> None:
        """Embed the texts of a request one by one, so that the work can be stopped between two texts.

        Args:
            body: embedding request. `input` is a string or a list of strings.
            take: receives one chunk: the response, or `{"error": …}`.
            stopped: checked before each text. A stopped request produces no chunk.

        Raises:
            TransportError: the model cannot be loaded.
        """
        texts = cast("list[object]", body["input"] if isinstance(body.get("input"), list) else [body.get("input")])
        data: list[Json] = []
        tokens = 0
        for index, text in enumerate(texts):
            engine = self._load_engine(stopped)
            if engine is None or stopped():
                return
            response = cast("Json", loads(engine.handle_embeddings(_dump_body({**body, "input": [text]}))))
            if "error" in response:
                take({"error": _explain_embedding_error(response["error"])})
                return
            data.append({**response["data"][0], "index": index})
            tokens += response["usage"]["prompt_tokens"]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        take({"object": "list", "model": self._settings.alias, "data": data, "usage": usage})

    def free(self, _take: Take, _stopped: Stopped) -> None:
        """Free the model. The next request loads it again."""
        self._engine = None

    def _load_engine(self, stopped: Stopped) -> Engine | None:
        if self._engine is None:
            self._engine = self._load(self._settings, self._embedding, stopped)
        return self._engine


def status_error(status: int, error: Json) -> TransportError:
    """Return a transport error whose body has the error format of the Chat Completions API.

    Args:
        status: HTTP status code.
        error: error object of the API, with `message` and `type`.
    """
    msg = f"llama.cpp rejected the request: {error.get('message')}"
    return TransportError("status", msg, status=status, headers=JSON, body=dumps({"error": error}).encode())


def _dump_body(body: Json) -> bytes:
    """Serialize a request as JSON. Replace lone surrogates, which a broken stream may contain, with U+FFFD."""
    return _LONE_SURROGATE.sub("\ufffd", dumps(body)).encode()


def _grammar_fields(schema: Json | None) -> Json:
    if schema is None:
        return {}
    return {"grammar": _import_xllamacpp().json_schema_to_grammar({**schema, "x-guidance": _LAYOUT})}


def _explain_chat_error(message: str) -> str:
    """Return the message of a rejected request, with a remedy if a file needs another projector."""
    problem, hint, _ = message.partition(" - hint: ")
    return f"{problem}: call .with_projector() on the builder with a projector for such files" if hint else message


def _explain_embedding_error(error: Json) -> Json:
    """Return an embedding error, with a remedy in its message if the cause is known."""
    message = str(error.get("message"))
    if "too large to process" in message:
        message = f"{message.partition('.')[0]}: raise .with_context() on the builder, or shorten the text"
        return {**error, "code": 400, "type": "exceed_context_size_error", "message": message}
    if "Pooling type" in message:
        return {
            **error,
            "message": f"{message}: call .with_pooling('mean') on the builder, or the method in the model card",
        }
    return error


def _cache_file(path: Path, stopped: Stopped) -> bool:
    """Read a file into the page cache of the operating system. Return False if stopped before the end of the file."""
    with path.open("rb", buffering=0) as file:
        while not stopped():
            if not file.read(_READ_SIZE):
                return True
    return False


def _import_xllamacpp() -> Any:  # noqa: ANN401 - the module has no type annotations
    # Imported late: the module takes 100 MB and only requests need it.
    import xllamacpp  # type: ignore[import-untyped] # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - no types, slow to import

    return xllamacpp


def load(settings: Settings, embedding: bool, stopped: Stopped) -> Engine | None:  # noqa: FBT001 - signature of `Load`
    """Load a model with llama.cpp.

    Args:
        settings: file and options of the model.
        embedding: whether the model is used for embeddings instead of chat.
        stopped: checked while the file is read.

    Returns:
        The loaded model, or None if stopped.

    Raises:
        TransportError: the file does not exist, or llama.cpp cannot load it.
    """
    path = settings.path
    projector = None if embedding else settings.projector
    for name, file in (("weights", path), ("projector", projector)):
        if file is None:
            continue
        if not file.is_file():
            message = f"the file of the {name} does not exist: {str(file)!r}"
            raise status_error(404, {"message": message, "type": "model_not_found"})
        # llama.cpp holds the GIL, which blocks the event loop, while it reads the file: cache the file first.
        if not _cache_file(file, stopped):
            return None
    params = _engine_params(settings, embedding=embedding)
    try:
        engine: Engine = _import_xllamacpp().Server(params)
    except Exception as error:
        names = repr(path.name) if projector is None else f"{path.name!r} with the projector {projector.name!r}"
        message = f"could not load {names} ({error}); check that it is a complete GGUF file and fits into memory"
        raise status_error(400, {"message": message, "type": "model_not_loaded"}) from error
    return engine


def _engine_params(settings: Settings, *, embedding: bool) -> object:
    native = _import_xllamacpp()
    params: Any = native.CommonParams()
    params.model.path = str(settings.path)
    params.model_alias = settings.alias
    params.n_ctx = settings.context
    params.n_parallel = 1
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    # An embedding needs the complete text in one batch.
    params.n_batch = params.n_ubatch = settings.context if embedding else settings.batch
    params.embedding = embedding
    if settings.projector is not None and not embedding:
        params.mmproj.path = str(settings.projector)
        params.n_batch = params.n_ubatch = max(settings.batch, _PROJECTOR_BATCH)
    if embedding and settings.pooling is not None:
        params.pooling_type = getattr(native.llama_pooling_type, f"LLAMA_POOLING_TYPE_{settings.pooling.upper()}")
    # Each of these steps doubles the loading time. `fit_params` fits a model to GPU memory; `warmup` only makes the
    # first request faster.
    params.fit_params = params.warmup = False
    # The embedded server listens on a loopback port that is not used here: bind any free port and set a random key.
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [secrets.token_hex(32)]
    params.verbosity = -1
    params.offline = True
    return cast("object", params)
