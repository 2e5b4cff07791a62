"""Templates escape, and files are kept by browsers until they are other ones."""

from __future__ import annotations

import re

import pytest
from chat_inbox.render import get_environment
from inbox_helpers import Client
from jinja2 import UndefinedError

pytestmark = pytest.mark.anyio


def test_whatever_stands_in_a_page_is_escaped() -> None:
    assert get_environment().from_string("{{ text }}").render(text="<b>&\"'") == "&lt;b&gt;&amp;&#34;&#39;"
    assert get_environment().autoescape is True


def test_a_name_that_is_not_there_is_no_empty_text() -> None:
    with pytest.raises(UndefinedError):
        get_environment().from_string("{{ nothing }}").render()


async def test_files_are_kept_for_ever_under_an_address_of_their_own(client: Client) -> None:
    page = (await client.get("/")).text
    addresses = re.findall(r'"(/static/[0-9a-f]{12}/[\w.]+)"', page)

    assert {address.rpartition("/")[2] for address in addresses} == {"icon.svg", "inbox.css", "inbox.js"}
    for address in addresses:
        answer = await client.get(address)
        assert answer.status == 200
        assert "immutable" in answer.headers["cache-control"]
    assert (await client.get("/static/0/..%2finbox.py")).status == 404
    assert (await client.get("/static/0/none.js")).status == 404


async def test_no_page_names_another_site(client: Client) -> None:
    page = (await client.get("/conversations/chat-17")).text
    for address in re.findall(r'(?:src|href|action)="([^"]*)"', page):
        assert address.startswith(("/", "#"))


async def test_a_file_of_another_release_is_not_kept(client: Client) -> None:
    answer = await client.get("/static/000000000000/inbox.js")

    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"
