"""A graph as GraphML, JSON and SVG: complete, valid, and safe with any names."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from chat_memory import Entity, Graph, Relation, SqliteMemory, Statement
from chat_memory.graph_export import to_graphml, to_json, to_svg

pytestmark = pytest.mark.anyio
GRAPHML = "{http://graphml.graphdrawing.org/xmlns}"
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</svg><script>alert('\u202e1\x07')</script>&\"]]>"


async def graph_of(path: Path, center: str | None = "Ana") -> Graph:
    async with SqliteMemory(path / "memory.db") as memory:
        scope = memory.scope("ana")
        await scope.add_entity(Entity("Ana", "person"))
        await scope.relate(Relation("Ana", "lives in", "Berlin"))
        await scope.relate(Relation("Berlin", "part of", "Germany"))
        await scope.relate(Relation("Ana", "knows", HOSTILE))
        await scope.add(Statement("Ana", "lives in", "Berlin", f"Ana lives in Berlin {HOSTILE}"))
        return await scope.graph(center, depth=2)


async def test_graphml_contains_every_entity_relation_and_fact(tmp_path: Path) -> None:
    graph = await graph_of(tmp_path)
    root = ET.fromstring(to_graphml(graph))  # noqa: S314 - our own document
    nodes = {node.attrib["id"]: node for node in root.iter(f"{GRAPHML}node")}
    assert len(nodes) == 5
    edges = [(edge.attrib["source"], edge.attrib["target"]) for edge in root.iter(f"{GRAPHML}edge")]
    assert ("entity:berlin", "entity:germany") in edges
    fact = f"fact:{graph.facts[0].id}"
    assert {(fact, "entity:ana"), (fact, "entity:berlin")} <= set(edges)
    assert {end for edge in edges for end in edge} == set(nodes)
    keys = {key.attrib["id"] for key in root.iter(f"{GRAPHML}key")}
    assert {data.attrib["key"] for data in root.iter(f"{GRAPHML}data")} <= keys


async def test_json_contains_every_entity_relation_and_fact(tmp_path: Path) -> None:
    document = json.loads(to_json(await graph_of(tmp_path)))
    assert sorted(node["name"] for node in document["nodes"] if node["kind"] == "entity")[1:] == [
        "Ana",
        "Berlin",
        "Germany",
    ]
    labels = sorted(edge["label"] for edge in document["edges"])
    assert labels == ["knows", "lives_in", "mentions", "mentions", "part_of"]
    assert {edge["mentions"] for edge in document["edges"] if "mentions" in edge} == {1}


@pytest.mark.parametrize("center", ["Ana", None])
async def test_an_svg_shows_every_entity_and_contains_no_script(tmp_path: Path, center: str | None) -> None:
    graph = await graph_of(tmp_path, center)
    root = ET.fromstring(to_svg(graph))  # noqa: S314 - our own document
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags == {"svg", "title", "rect", "line", "text", "g", "circle"}
    assert len(list(root.iter(f"{SVG}circle"))) == len(graph.entities)
    assert len(list(root.iter(f"{SVG}line"))) == len(graph.relations)
    places = {(circle.attrib["cx"], circle.attrib["cy"]) for circle in root.iter(f"{SVG}circle")}
    assert len(places) == len(graph.entities)
    drawing = to_svg(graph)
    assert "\u202e" not in drawing
    assert "<script" not in drawing
    assert any("Ana lives in Berlin" in (title.text or "") for title in root.iter(f"{SVG}title"))


def test_an_empty_graph_can_be_exported() -> None:
    graph = Graph((), ())
    for document in (to_graphml(graph), to_svg(graph)):
        ET.fromstring(document)  # noqa: S314 - our own document
    assert json.loads(to_json(graph)) == {"nodes": [], "edges": []}
