"""The capabilities that each provider and transport claims, read from its conformance tests."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final

from chat_testing import Capabilities
from chat_testing.transport_conformance import TransportCapabilities

from .workspace import ROOT, tree_of

PROVIDERS: Final = {
    "Chat Completions": ("tests/conformance/test_completions.py",),
    "Claude": ("tests/conformance/test_claude.py",),
    "Gemini": ("tests/conformance/test_gemini.py",),
    "Vertex AI": ("tests/conformance/test_vertex.py",),
    "Responses": ("tests/conformance/test_responses.py",),
    "OpenAI": ("tests/conformance/test_responses.py", "tests/conformance/test_openai.py"),
    "llama.cpp": ("tests/conformance/test_llamacpp.py",),
}
TRANSPORTS: Final = {
    "httpx": ("transports/chat-transport-httpx/tests/test_conformance.py",),
    "aiohttp": ("tests/conformance/test_transport_aiohttp.py",),
    "websockets": ("transports/chat-transport-websockets/tests/test_conformance.py",),
    "asgi": ("transports/chat-transport-asgi/tests/test_kit.py",),
}


def claims(kind: type[Any], files: Iterable[str]) -> set[str]:
    """Return all capabilities that a test class of these files claims with `kind(…)`."""
    found: set[str] = set()
    for file in files:
        for node in ast.walk(tree_of(ROOT / file)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == kind.__name__:
                found |= _claimed(kind, node)
    return found


def _claimed(kind: type[Any], call: ast.Call) -> set[str]:
    said = {word.arg: word.value.value for word in call.keywords if isinstance(word.value, ast.Constant)}
    return {item.name for item in fields(kind) if said.get(item.name, item.default) is True}


def rows(kind: type[Any], columns: Mapping[str, Iterable[str]], told: Mapping[str, str]) -> list[list[str]]:
    """Return a row for each capability, described by `told`, with a mark for each column that claims it."""
    claimed = {name: claims(kind, files) for name, files in columns.items()}
    return [
        [told[item.name].rstrip("."), *("yes" if item.name in claimed[name] else "no" for name in columns)]
        for item in fields(kind)
    ]


KINDS: Final[Mapping[str, tuple[type[Any], Mapping[str, Iterable[str]]]]] = {
    "providers": (Capabilities, PROVIDERS),
    "transports": (TransportCapabilities, TRANSPORTS),
}
