"""Authentication, CSRF tokens and security headers."""

from __future__ import annotations

import pytest
from chat_inbox import Inbox
from chat_inbox.security import MAX_BODY_BYTES, MAX_FORM_BYTES, FormTokens
from chat_store import MemoryStore
from inbox_helpers import Client, anyone, by_header, form_for, messages_of

pytestmark = pytest.mark.anyio
PAGE = "/conversations/chat-17"


async def test_security_headers_are_set_on_every_response(client: Client) -> None:
    for path in ("/", PAGE, "/nothing", "/api/waiting", "/openapi.json"):
        headers = (await client.get(path)).headers
        policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


async def test_pages_have_no_inline_script_or_style(client: Client) -> None:
    for path in ("/", PAGE):
        page = (await client.get(path)).text
        assert page.count("<script") == 1
        assert "<style" not in page
        assert " style=" not in page
        assert " on" not in page.replace(" on ", " ").replace(" one", " ")


async def test_form_cookie_is_http_only_and_same_site_and_set_once(client: Client) -> None:
    told = (await client.get(PAGE)).headers["set-cookie"]

    assert "HttpOnly" in told
    assert "SameSite=lax" in told
    assert "set-cookie" not in (await client.get(PAGE)).headers


async def test_origin_header_is_checked_if_sec_fetch_site_is_missing(client: Client, store: MemoryStore) -> None:
    action, client.site = f"{PAGE}/resume", None
    kind = "application/x-www-form-urlencoded"
    for origin in ("http://elsewhere.example", "null"):
        answer = await client.request("POST", action, b"", content_type=kind, origin=origin)
        assert answer.status == 403
        assert "a page of another site" in answer.text
    own = await client.request("POST", action, b"", content_type=kind, origin="http://127.0.0.1:8000")
    assert "This form has expired or belongs to another user" in own.text
    assert len((await messages_of(store)).pending()) == 1


async def test_oversized_body_returns_413(client: Client) -> None:
    kind = "application/x-www-form-urlencoded"
    # A form encodes a byte of a text with up to three characters.
    long = await client.request("POST", f"{PAGE}/resume", b"a" * (MAX_BODY_BYTES * 3), content_type=kind)
    too_long = await client.request("POST", f"{PAGE}/resume", b"a" * (MAX_FORM_BYTES + 1), content_type=kind)

    assert (long.status, too_long.status) == (403, 413)


def test_form_token_depends_on_secret_cookie_and_person() -> None:
    tokens = {
        FormTokens(secret).sign(cookie, person)
        for secret in (b"1", b"2")
        for cookie in ("a", "b")
        for person in ("x", "y")
    }

    assert len(tokens) == 8


async def test_forms_of_another_process_are_accepted_if_it_has_the_same_secret(store: MemoryStore) -> None:
    secret = b"s" * 32
    one, other = [Inbox(store, authenticate=by_header, may_decide=anyone, secret=secret) for _ in range(2)]
    client = Client(one)
    form = form_for(await client.get(PAGE))
    client.app = other

    assert (await client.submit(form, "Reject")).status == 303


async def test_malformed_origin_is_treated_as_cross_site(client: Client) -> None:
    for origin in ("http://[", "[", "http://127.0.0.1:8000/x"):
        assert (await client.request("POST", f"{PAGE}/decide", b"", origin=origin)).status == 403


async def test_form_with_too_many_fields_returns_413(client: Client) -> None:
    kind = "application/x-www-form-urlencoded"

    assert (await client.request("POST", f"{PAGE}/decide", b"a=&" * 20_000, content_type=kind)).status == 413
