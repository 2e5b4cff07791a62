"""Template escaping and caching of static files."""

from __future__ import annotations

import re

import pytest
from chat_inbox.render import get_environment
from inbox_helpers import Client
from jinja2 import UndefinedError

pytestmark = pytest.mark.anyio


def test_template_values_are_escaped() -> None:
    assert get_environment().from_string("{{ text }}").render(text="<b>&\"'") == "&lt;b&gt;&amp;&#34;&#39;"
    assert get_environment().autoescape is True


def test_invisible_characters_in_template_values_are_shown_as_escapes() -> None:
    template = get_environment().from_string(
        "{% macro m(x) %}<b>{{ x }}</b>{% endmacro %}{{ text }}{{ m(text) }}{{ n }}"
    )

    assert (
        template.render(text="a\u3164\u202e\r\n<", n=3) == r"a\u3164\u202e" "\n&lt;" r"<b>a\u3164\u202e" "\n&lt;</b>3"
    )


def test_undefined_template_variable_raises() -> None:
    with pytest.raises(UndefinedError):
        get_environment().from_string("{{ nothing }}").render()


async def test_static_files_have_versioned_urls_and_are_cached_as_immutable(client: Client) -> None:
    page = (await client.get("/")).text
    addresses = re.findall(r'"(/static/[0-9a-f]{12}/[\w.]+)"', page)

    assert {address.rpartition("/")[2] for address in addresses} == {"icon.svg", "inbox.css", "inbox.js"}
    for address in addresses:
        answer = await client.get(address)
        assert answer.status == 200
        assert "immutable" in answer.headers["cache-control"]
    assert (await client.get("/static/0/..%2finbox.py")).status == 404
    assert (await client.get("/static/0/none.js")).status == 404


async def test_pages_do_not_link_to_other_sites(client: Client) -> None:
    page = (await client.get("/conversations/chat-17")).text
    for address in re.findall(r'(?:src|href|action)="([^"]*)"', page):
        assert address.startswith(("/", "#"))


async def test_static_file_of_another_version_is_not_cached(client: Client) -> None:
    answer = await client.get("/static/000000000000/inbox.js")

    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"
