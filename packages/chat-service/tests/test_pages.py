"""The chat page and the documentation page, as they are served."""

from __future__ import annotations

import re
from typing import cast

import pytest
from chat_store import MemoryStore
from service_helpers import build_service, scripted, serving

pytestmark = pytest.mark.anyio
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_a_page_allows_only_its_own_files(store: MemoryStore, path: str) -> None:
    async with serving(build_service(store, scripted())) as client:
        reply = await client.as_user(None).get(path)
        files = re.findall(r'(?:src|href)="(static/[^"]+)"', reply.body.decode())
        found = [await client.as_user(None).get(f"/{file}") for file in files]

    assert (reply.status, reply.headers["content-security-policy"]) == (200, POLICY)
    assert len(files) >= 2
    assert all(file.status == 200 and "immutable" in file.headers["cache-control"] for file in found)
    assert re.findall(r"""<script>|\bstyle=|\bon[a-z]+=|(?:src|href)=["']?(?:https?:)?//""", reply.body.decode()) == []


async def test_a_file_of_another_version_is_not_kept(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        old = await client.get("/static/000000000000/chat.js")
        unknown = await client.get("/static/000000000000/chat.html")

    assert (old.status, old.headers["cache-control"]) == (200, "no-store")
    assert unknown.status == 404


async def test_the_documentation_page_lists_every_operation(store: MemoryStore) -> None:
    service = build_service(store, scripted())
    async with serving(service) as client:
        page = (await client.get("/docs")).body.decode()

    for path, operations in cast("dict[str, dict[str, object]]", service.openapi()["paths"]).items():
        for method in operations:
            assert f'<span class="method">{method.upper()}</span> <code>{path}</code>' in page
