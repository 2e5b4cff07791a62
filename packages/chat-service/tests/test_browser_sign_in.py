"""Sign-in of browsers with a cookie."""

from __future__ import annotations

import pytest
from chat_store import MemoryStore
from service_helpers import ANA, build_service, scripted, serving

pytestmark = pytest.mark.anyio


async def test_the_cookie_of_a_valid_token_authenticates_requests(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        browser = client.as_user(None)
        reply = await browser.post("/sign-in", {"token": ANA})
        cookie, *attributes = reply.headers["set-cookie"].split("; ")
        answer = await browser.post("/api/v1/chat", {"message": "Hello."}, cookie=cookie)
        signed_out = await browser.post("/sign-out", {}, cookie=cookie)

    assert (reply.status, answer.status, answer.json["response"]) == (204, 200, "Good morning.")
    assert ANA not in cookie
    assert {"HttpOnly", "SameSite=lax"} <= {*attributes}
    assert "Max-Age=0" in signed_out.headers["set-cookie"]


@pytest.mark.parametrize(("token", "status"), [("wrong", 401), ("", 401), (5, 400), ("a\nb", 400), ("é", 400)])
async def test_an_invalid_token_sets_no_cookie(store: MemoryStore, token: object, status: int) -> None:
    async with serving(build_service(store, scripted())) as client:
        reply = await client.as_user(None).post("/sign-in", {"token": token})

    assert (reply.status, "set-cookie" in reply.headers) == (status, False)


@pytest.mark.parametrize("value", ["wrong", "d3Jvbmc=", "=", "\u00ff", ""])
async def test_an_invalid_cookie_is_refused(store: MemoryStore, value: str) -> None:
    async with serving(build_service(store, scripted())) as client:
        browser = client.as_user(None)
        cookie = f"chat_service_token_{client.port}={value}"
        assert (await browser.get("/api/v1/sessions", cookie=cookie)).status == 401


async def test_a_page_of_another_site_cannot_use_the_cookie_to_change_something(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        browser = client.as_user(None)
        cookie = (await browser.post("/sign-in", {"token": ANA})).headers["set-cookie"].split("; ")[0]
        reply = await browser.post("/api/v1/sessions", {}, cookie=cookie, origin="http://evil.example.org")

    assert reply.status == 403


async def test_a_header_takes_precedence_over_the_cookie(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        cookie = (await client.post("/sign-in", {"token": ANA})).headers["set-cookie"].split("; ")[0]
        assert (await client.as_user("wrong").get("/api/v1/sessions", cookie=cookie)).status == 401
