"""Conversations in files that several tests write, read and damage."""

from __future__ import annotations

from pathlib import Path

from chat_core.messages import Messages
from chat_store import FileConversation


def content_of(path: Path) -> bytes:
    return path.read_bytes()


def overwrite(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def remove(path: Path) -> None:
    path.unlink()


def names_in(directory: Path) -> list[str]:
    return sorted([path.name for path in directory.iterdir()])


async def store(path: Path, messages: Messages) -> None:
    async with FileConversation.create(path, messages):
        pass


async def stored(path: Path) -> Messages:
    async with FileConversation.open(path) as conversation:
        return conversation.messages
