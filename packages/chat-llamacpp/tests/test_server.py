from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_core.errors import TransportError
from chat_llamacpp.constrained import Constrained
from chat_llamacpp.decoding import Stopped
from chat_llamacpp.server import Server, Settings, load

ASKED = Constrained({"messages": []}, None, calls=False)
Answer = Callable[[dict[str, Any]], dict[str, Any]]


class FakeEngine:
    """Fake of llama.cpp's server that records bodies and returns scripted chunks."""

    def __init__(self, *chunks: dict[str, Any], error: Exception | None = None, embed: Answer | None = None) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self._chunks = chunks
        self._error = error
        self._embed = embed

    def handle_chat_completions(self, body: bytes, callback: Callable[[bytes], bool], /) -> None:
        self._remember(body)
        if self._error is not None:
            raise self._error
        for chunk in self._chunks:
            if callback(json.dumps(chunk).encode()):
                return

    def handle_embeddings(self, body: bytes, /) -> bytes:
        self._remember(body)
        assert self._embed is not None
        return json.dumps(self._embed(self.bodies[-1])).encode()

    def _remember(self, body: bytes) -> None:
        self.raw.append(body)
        self.bodies.append(json.loads(body))


def served(engine: FakeEngine, *, embedding: bool = False) -> Server:
    def load_it(_settings: Settings, _embedding: bool, _stopped: Stopped) -> FakeEngine:
        return engine

    return Server(Settings(Path("weights.gguf"), "tiny"), load_it, embedding=embedding)


def going() -> bool:
    return False


def chunks_of(server: Server, request: Constrained = ASKED, *, stop_after: int = 99) -> list[dict[str, Any]]:
    chunks: list[dict[str, Any]] = []

    def take(chunk: dict[str, Any]) -> bool:
        chunks.append(chunk)
        return len(chunks) >= stop_after

    server.chat(request, take, going)
    return chunks


def vector(body: dict[str, Any]) -> dict[str, Any]:
    (text,) = body["input"]
    return {"data": [{"index": 0, "embedding": [float(len(text))]}], "usage": {"prompt_tokens": len(text)}}


def embedded(server: Server, texts: object, stopped: Callable[[], bool] = going) -> list[dict[str, Any]]:
    chunks: list[dict[str, Any]] = []

    def take(chunk: dict[str, Any]) -> bool:
        chunks.append(chunk)
        return False

    server.embed({"model": "tiny", "input": texts}, take, stopped)
    return chunks


def test_every_chunk_is_passed_on() -> None:
    assert chunks_of(served(FakeEngine({"n": 1}, {"n": 2}))) == [{"n": 1}, {"n": 2}]


def test_the_receiver_of_the_chunks_can_stop_decoding() -> None:
    assert chunks_of(served(FakeEngine({"n": 1}, {"n": 2}, {"n": 3})), stop_after=2) == [{"n": 1}, {"n": 2}]


def test_a_cancelled_request_is_not_decoded() -> None:
    engine = FakeEngine({"n": 1})
    served(engine).chat(ASKED, lambda _chunk: False, lambda: True)

    assert engine.bodies == []


def test_a_schema_becomes_a_grammar() -> None:
    engine = FakeEngine()
    chunks_of(served(engine), Constrained({"messages": []}, {"type": "integer"}, calls=False))
    chunks_of(served(engine))

    assert "integer" in engine.bodies[0]["grammar"]
    assert "grammar" not in engine.bodies[1]


@pytest.mark.parametrize("error", [ValueError("no such thing"), RuntimeError("no such thing")])
def test_an_exception_before_decoding_becomes_an_error_chunk(error: Exception) -> None:
    (chunk,) = chunks_of(served(FakeEngine(error=error)))

    assert chunk == {"error": {"code": 400, "message": "no such thing", "type": "invalid_request_error"}}


def test_a_lone_surrogate_is_replaced() -> None:
    engine = FakeEngine()
    chunks_of(
        served(engine), Constrained({"messages": [{"role": "user", "content": "a\ud83db 😀"}]}, None, calls=False)
    )

    assert engine.bodies[0]["messages"][0]["content"] == "a\ufffdb 😀"


def test_texts_are_embedded_one_by_one_and_returned_in_order() -> None:
    engine = FakeEngine(embed=vector)
    (answer,) = embedded(served(engine, embedding=True), ["a", "bbb", "cc"])

    assert [body["input"] for body in engine.bodies] == [["a"], ["bbb"], ["cc"]]
    assert [(item["index"], item["embedding"]) for item in answer["data"]] == [(0, [1.0]), (1, [3.0]), (2, [2.0])]
    assert answer["usage"] == {"prompt_tokens": 6, "total_tokens": 6}
    assert answer["model"] == "tiny"


def test_a_single_text_may_be_passed_without_a_list() -> None:
    (answer,) = embedded(served(FakeEngine(embed=vector), embedding=True), "abc")

    assert [item["embedding"] for item in answer["data"]] == [[3.0]]


def test_embedding_can_be_stopped_between_two_texts() -> None:
    engine = FakeEngine(embed=vector)

    assert embedded(served(engine, embedding=True), ["a", "b", "c"], lambda: len(engine.bodies) >= 2) == []
    assert len(engine.bodies) == 2


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        (
            "input (9 tokens) is too large to process. increase the physical batch size",
            "exceed_context_size_error",
            r"input \(9 tokens\) is too large to process: raise .with_context\(\)",
        ),
        ("Pooling type 'none' is not OAI compatible.", "invalid_request_error", r"call .with_pooling\('mean'\)"),
        ("input must be a text", "invalid_request_error", "^input must be a text$"),
    ],
)
def test_a_text_that_cannot_be_embedded_returns_an_error_with_advice(said: str, kind: str, told: str) -> None:
    error = {"code": 400, "message": said, "type": "invalid_request_error"}
    (chunk,) = embedded(served(FakeEngine(embed=lambda _body: {"error": error}), embedding=True), ["a", "b"])

    assert chunk["error"]["type"] == kind
    assert re.search(told, chunk["error"]["message"])
    assert chunk["error"]["code"] == 400


def test_free_unloads_the_model() -> None:
    server = served(FakeEngine())
    assert not server.loaded
    chunks_of(server)
    assert server.loaded

    server.free(lambda _chunk: False, going)

    assert not server.loaded


def test_a_missing_weights_file_raises_with_status_404(tmp_path: Path) -> None:
    server = Server(Settings(tmp_path / "gone.gguf", "tiny"), load, embedding=False)

    with pytest.raises(TransportError, match=r"the file of the weights does not exist: '.*gone\.gguf'") as caught:
        chunks_of(server)

    assert (caught.value.kind, caught.value.status) == ("status", 404)


@pytest.mark.parametrize("weights", [b"", b"no weights" * 1000])
def test_an_invalid_weights_file_raises_with_status_400(weights: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(weights)

    with pytest.raises(TransportError, match=r"could not load 'broken\.gguf' .*complete GGUF file") as caught:
        chunks_of(Server(Settings(path, "tiny"), load, embedding=False))

    assert caught.value.status == 400
    assert json.loads(caught.value.body)["error"]["type"] == "model_not_loaded"


def test_a_missing_projector_raises_with_status_404(tmp_path: Path) -> None:
    weights = tmp_path / "tiny.gguf"
    weights.touch()
    settings = Settings(weights, "tiny", projector=tmp_path / "gone.gguf", files=("image",))

    with pytest.raises(TransportError, match=r"the file of the projector does not exist: '.*gone\.gguf'") as caught:
        chunks_of(Server(settings, load, embedding=False))

    assert caught.value.status == 404


def test_a_projector_is_loaded_only_for_chats_with_batches_large_enough_for_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.gguf").touch()
    settings = Settings(tmp_path / "tiny.gguf", "tiny", projector=tmp_path / "tiny.gguf", files=("image",))
    loaded: list[Any] = []
    monkeypatch.setattr("xllamacpp.Server", loaded.append)

    for embedding in (False, True):
        load(settings, embedding, going)
    load(replace(settings, batch=600), False, going)

    assert [params.mmproj.path for params in loaded] == [str(settings.projector), "", str(settings.projector)]
    assert [params.n_ubatch for params in loaded] == [512, settings.context, 600]


def test_a_file_that_the_projector_cannot_encode_returns_an_error_with_advice() -> None:
    error = RuntimeError(
        "audio input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
    )
    (chunk,) = chunks_of(served(FakeEngine(error=error)))

    assert chunk["error"]["message"].startswith("audio input is not supported: call .with_projector() on the builder")


def test_the_model_is_not_loaded_for_a_cancelled_request(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"no weights")
    server = Server(Settings(path, "tiny"), load, embedding=False)

    server.chat(ASKED, lambda _chunk: False, lambda: True)

    assert not server.loaded
