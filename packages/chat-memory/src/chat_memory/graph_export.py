"""Export of a graph as GraphML, as JSON and as an SVG drawing.

Names and texts are escaped, and characters that XML does not allow are replaced. None of the formats contains scripts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from html import escape
from math import cos, pi, sin

from chat_core.json import dumps

from chat_memory.facts import normalize
from chat_memory.graph import Graph, Neighbor

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]")
_KEYS = ("kind", "name", "type", "text", "distance", "label", "mentions")
_RING = 150
"""Distance between two rings of the drawing."""
_MARGIN = 90
_MAX_LABEL = 28


def to_json(graph: Graph) -> str:
    """Return a graph as a JSON object with `nodes` and `edges`. Facts are nodes with an edge to each linked entity."""
    nodes, edges = _nodes_and_edges(graph)
    return dumps({"nodes": list(nodes.values()), "edges": edges})


def to_graphml(graph: Graph) -> str:
    """Return a graph as a GraphML document, which tools such as Gephi, yEd and networkx read."""
    nodes, edges = _nodes_and_edges(graph)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">']
    lines += [f'  <key id="{key}" for="all" attr.name="{key}" attr.type="string"/>' for key in _KEYS]
    lines.append('  <graph id="memory" edgedefault="directed">')
    for id, node in nodes.items():
        lines += [f'    <node id="{_escape_xml(id)}">', *_data_elements(node), "    </node>"]
    for edge in edges:
        ends = f'source="{_escape_xml(str(edge["source"]))}" target="{_escape_xml(str(edge["target"]))}"'
        lines += [f"    <edge {ends}>", *_data_elements(edge), "    </edge>"]
    return "\n".join([*lines, "  </graph>", "</graphml>", ""])


def to_svg(graph: Graph) -> str:
    """Return an SVG drawing of a graph.

    The first entity is in the center, and the other entities are on rings by their distance.

    Current facts are listed in the tooltip of their entities. The drawing has no scripts, links or external resources.
    """
    places = _layout_entities(graph)
    radius = max([1, *(entity.distance for entity in graph.entities)]) * _RING + _MARGIN
    size = 2 * radius
    texts: dict[str, list[str]] = defaultdict(list)
    for fact in graph.facts:
        for entity in graph.links.get(fact.id, ()):
            texts[entity].append(fact.text)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-radius} {-radius} {size} {size}" width="{size}"',
        f'  height="{size}" font-family="sans-serif" font-size="12">',
        f"  <title>{len(graph.entities)} entities, {len(graph.relations)} relations</title>",
        f'  <rect x="{-radius}" y="{-radius}" width="{size}" height="{size}" fill="#ffffff"/>',
    ]
    for relation in graph.relations:
        (x1, y1), (x2, y2) = places[normalize(relation.source)], places[normalize(relation.target)]
        lines += [
            f'  <line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="#9aa5b1"/>',
            f'  <text x="{(x1 + x2) / 2:.0f}" y="{(y1 + y2) / 2 - 4:.0f}" fill="#52606d" text-anchor="middle">',
            f"    {_format_label(relation.label)}</text>",
        ]
    for item in graph.entities:
        lines += _draw_node(item, places[item.entity.id], texts[item.entity.id])
    return "\n".join([*lines, "</svg>", ""])


def _nodes_and_edges(graph: Graph) -> tuple[dict[str, dict[str, object]], list[dict[str, object]]]:
    """Return the nodes by id, and the edges."""
    nodes: dict[str, dict[str, object]] = {}
    for item in graph.entities:
        entity = item.entity
        nodes[f"entity:{entity.id}"] = {
            "id": f"entity:{entity.id}",
            "kind": "entity",
            "name": entity.name,
            "type": entity.type,
            "distance": item.distance,
        }
    for fact in graph.facts:
        id = f"fact:{fact.id}"
        nodes[id] = {"id": id, "kind": "fact", "name": fact.text, "type": fact.source, "text": fact.text}
    edges: list[dict[str, object]] = [
        {
            "source": f"entity:{normalize(relation.source)}",
            "target": f"entity:{normalize(relation.target)}",
            "type": relation.type,
            "label": relation.label,
            "mentions": relation.mentions,
        }
        for relation in graph.relations
    ]
    for linked, entities in graph.links.items():
        for name in entities:
            edge = {"source": f"fact:{linked}", "target": f"entity:{name}", "type": "MENTIONS", "label": "mentions"}
            edges.append({**edge})
    return nodes, edges


def _data_elements(element: Mapping[str, object]) -> list[str]:
    shown = [(key, element[key]) for key in _KEYS if element.get(key) is not None]
    return [f'      <data key="{key}">{_escape_xml(str(value))}</data>' for key, value in shown]


def _layout_entities(graph: Graph) -> dict[str, tuple[float, float]]:
    """Return the coordinates of each entity. Entities with the same distance are spread evenly on a ring."""
    rings: dict[int, list[str]] = defaultdict(list)
    for item in graph.entities:
        rings[item.distance].append(item.entity.id)
    places: dict[str, tuple[float, float]] = {}
    for distance, ids in rings.items():
        # Several entities without a distance, as in a drawing of all entities, are on a ring, too.
        radius = max(distance, 1) * _RING if distance or len(ids) > 1 else 0
        for number, id in enumerate(ids):
            angle = 2 * pi * number / len(ids) - pi / 2
            places[id] = (radius * cos(angle), radius * sin(angle))
    return places


def _draw_node(item: Neighbor, place: tuple[float, float], texts: list[str]) -> list[str]:
    x, y = place
    fill = "#2f6fde" if item.distance == 0 else "#ffb020" if item.distance == 1 else "#c6cdd5"
    tooltip = "\n".join([f"{item.entity.name} ({item.entity.type})", *texts])
    return [
        f'  <g><title>{_escape_xml(tooltip)}</title><circle cx="{x:.0f}" cy="{y:.0f}" r="12" fill="{fill}"/>',
        f'    <text x="{x:.0f}" y="{y + 28:.0f}" text-anchor="middle">{_format_label(item.entity.name)}</text></g>',
    ]


def _format_label(text: str) -> str:
    return _escape_xml(text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 1]}…")


def _escape_xml(text: str) -> str:
    """Escape a text for XML, and replace control and direction characters."""
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))
