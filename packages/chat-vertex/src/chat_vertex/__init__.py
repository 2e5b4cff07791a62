"""Gemini and Claude on Google Cloud, with access tokens that are renewed automatically."""

from __future__ import annotations

from chat_vertex.builder import VertexBuilder, VertexKeyBuilder, vertex_claude, vertex_embedder, vertex_gemini
from chat_vertex.credentials import (
    AuthorizedUser,
    Credentials,
    MetadataServer,
    ServiceAccount,
    credentials_from_file,
    credentials_from_json,
)
from chat_vertex.tokens import TokenSource

__all__ = [
    "AuthorizedUser",
    "Credentials",
    "MetadataServer",
    "ServiceAccount",
    "TokenSource",
    "VertexBuilder",
    "VertexKeyBuilder",
    "credentials_from_file",
    "credentials_from_json",
    "vertex_claude",
    "vertex_embedder",
    "vertex_gemini",
]
