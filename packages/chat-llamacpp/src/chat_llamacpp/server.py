"""llama.cpp's own server inside this process.

Everything here blocks: it runs in the thread of a `Worker`, and `transport.py` brings it to the event loop.
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

JSON: Final = Headers({"content-type": "application/json"})
_PIECE = 16 * 1024 * 1024
_LONE = re.compile("[\ud800-\udfff]")
# As `json.dumps` writes by default: calls look like the examples in the prompt, and no tokens are spent on blanks.
_LAYOUT: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """How a model is loaded.

    Attributes:
        path: of the weights, a GGUF file.
        alias: what answers call the model.
        context: tokens of prompt and answer together.
        threads: for decoding. On a machine with few cores one is fastest: more of them wait for each other.
        batch: tokens of a prompt that are read at once. A request cannot be stopped in the middle of one.
        pooling: how the vectors of a text's tokens become one; `None` where the weights say it.
    """

    path: Path
    alias: str
    context: int = 4096
    threads: int = 1
    batch: int = 128
    pooling: Pooling | None = None


class Engine(Protocol):
    """What is used of `xllamacpp.Server`. Bodies and answers are JSON."""

    def handle_chat_completions(self, body: bytes, callback: Callable[[bytes], bool], /) -> object:
        """Decode; a callback that returns `True` stops it."""
        ...

    def handle_embeddings(self, body: bytes, /) -> bytes:
        """Embed one text."""
        ...


Load: TypeAlias = Callable[[Settings, bool, Stopped], Engine | None]
"""Loads a model, for embeddings or for answers; nothing where it was stopped."""


@final
class Server:
    """One model, loaded when it is first needed. Its methods are for jobs of its `worker`, which take turns."""

    __slots__ = ("_embedding", "_engine", "_load", "_settings", "worker")

    def __init__(self, settings: Settings, load: Load, *, embedding: bool) -> None:
        self.worker = Worker()
        self._load = load
        self._settings = settings
        self._embedding = embedding
        self._engine: Engine | None = None

    @property
    def loaded(self) -> bool:
        """Whether there is something to be freed."""
        return self._engine is not None

    def chat(self, request: Constrained, take: Take, stopped: Stopped) -> None:
        """Decode an answer. Each chunk goes to `take`; a refusal is a chunk too, `{"error": …}`.

        Raises:
            TransportError: the model cannot be loaded.
        """
        engine = self._loaded(stopped)
        if engine is None or stopped():
            return
        try:
            body = _body({**request.body, **_grammar(request.schema)})
            engine.handle_chat_completions(body, lambda chunk: take(cast("Json", loads(chunk))))
        except (ValueError, RuntimeError) as error:  # what llama.cpp finds wrong before it begins
            take({"error": {"code": 400, "message": str(error), "type": "invalid_request_error"}})

    def embed(self, body: Json, take: Take, stopped: Stopped) -> None:
        """Embed texts, one by one, since nothing stops llama.cpp within one. One chunk: the answer, or a refusal.

        Raises:
            TransportError: the model cannot be loaded.
        """
        texts = cast("list[object]", body["input"] if isinstance(body.get("input"), list) else [body.get("input")])
        data: list[Json] = []
        tokens = 0
        for index, text in enumerate(texts):
            engine = self._loaded(stopped)
            if engine is None or stopped():
                return
            answer = cast("Json", loads(engine.handle_embeddings(_body({**body, "input": [text]}))))
            if "error" in answer:
                take({"error": _told(answer["error"])})
                return
            data.append({**answer["data"][0], "index": index})
            tokens += answer["usage"]["prompt_tokens"]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        take({"object": "list", "model": self._settings.alias, "data": data, "usage": usage})

    def free(self, _take: Take, _stopped: Stopped) -> None:
        """Free the model. The next request loads it again."""
        self._engine = None

    def _loaded(self, stopped: Stopped) -> Engine | None:
        if self._engine is None:
            self._engine = self._load(self._settings, self._embedding, stopped)
        return self._engine


def refused(status: int, error: Json) -> TransportError:
    """A refusal, in the shape of the Completions wire."""
    msg = f"llama.cpp refused the request: {error.get('message')}"
    return TransportError("status", msg, status=status, headers=JSON, body=dumps({"error": error}).encode())


def _body(body: Json) -> bytes:
    """A request as JSON. Half of a surrogate pair, which a broken stream leaves behind, is read as U+FFFD."""
    return _LONE.sub("\ufffd", dumps(body)).encode()


def _grammar(schema: Json | None) -> Json:
    if schema is None:
        return {}
    return {"grammar": _native().json_schema_to_grammar({**schema, "x-guidance": _LAYOUT})}


def _told(error: Json) -> Json:
    """A refusal to embed, in words that say what to do."""
    message = str(error.get("message"))
    if "too large to process" in message:
        message = f"{message.partition('.')[0]}: raise .with_context() on the builder, or cut the text"
        return {**error, "code": 400, "type": "exceed_context_size_error", "message": message}
    if "Pooling type" in message:
        return {
            **error,
            "message": f"{message}: call .with_pooling('mean') on the builder, or whatever suits the weights",
        }
    return error


def _read(path: Path, stopped: Stopped) -> bool:
    """Read a file, for the memory of the operating system. Whether it was read to its end."""
    with path.open("rb", buffering=0) as file:
        while not stopped():
            if not file.read(_PIECE):
                return True
    return False


def _native() -> Any:  # noqa: ANN401 - it has no types
    # 100 MB that only a request needs, and without types.
    import xllamacpp  # type: ignore[import-untyped] # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs]

    return xllamacpp


def load(settings: Settings, embedding: bool, stopped: Stopped) -> Engine | None:  # noqa: FBT001 - of the type `Load`
    """Load a model with llama.cpp.

    Raises:
        TransportError: there is no file, or it holds no weights that llama.cpp can load.
    """
    path = settings.path
    if not path.is_file():
        raise refused(404, {"message": f"there are no weights at {str(path)!r}", "type": "model_not_found"})
    # llama.cpp holds the interpreter while it loads, and with it the event loop: let it find the file in memory.
    if not _read(path, stopped):
        return None
    params = _params(settings, embedding=embedding)
    try:
        engine: Engine = _native().Server(params)
    except Exception as error:
        message = f"could not load {path.name!r}; is it a whole GGUF file, and is there memory for it? ({error})"
        raise refused(400, {"message": message, "type": "model_not_loaded"}) from error
    return engine


def _params(settings: Settings, *, embedding: bool) -> object:
    native = _native()
    params: Any = native.CommonParams()
    params.model.path = str(settings.path)
    params.model_alias = settings.alias
    params.n_ctx = settings.context
    params.n_parallel = 1
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    # A text is embedded in one piece, whatever its length.
    params.n_batch = params.n_ubatch = settings.context if embedding else settings.batch
    params.embedding = embedding
    if embedding and settings.pooling is not None:
        params.pooling_type = getattr(native.llama_pooling_type, f"LLAMA_POOLING_TYPE_{settings.pooling.upper()}")
    # Both double the time of loading. The one fits a model to the memory of graphics cards, the other spares the first
    # request a little of the time that it costs here.
    params.fit_params = params.warmup = False
    # The server inside opens a port, on loopback, that nothing here uses: any free one, under a key that nobody has.
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [secrets.token_hex(32)]
    params.verbosity = -1
    params.offline = True
    return cast("object", params)
