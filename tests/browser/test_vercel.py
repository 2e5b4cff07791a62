"""The page of the documentation for Vercel's protocol, with the npm package `ai` in a browser, without a build step."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.servers.processes import HOW, Child

from .conftest import PATIENCE


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server that offers the page and the npm packages that it imports."""
    module = os.environ.get("CHAT_AI")
    if not module or not Path(module).is_file():
        pytest.fail(f"CHAT_AI does not name the npm package ai: {HOW}", pytrace=False)
    with Child([sys.executable, "-m", "tests.servers.vercel_server", str(Path(module).parents[2])]) as child:
        yield child.until(r"serving (http://\S+)")


def test_a_call_is_approved_and_a_reload_during_the_run_resumes_it(chromium: Browser, address: str) -> None:
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE)
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        page.goto(f"{address}/resumed/")
        expect(page.get_by_role("status")).to_have_text("ready")
        page.get_by_label("Message").fill("Please pay Maria.")
        page.get_by_role("button", name="Send").click()
        expect(page.locator(".tool")).to_contain_text('pay({"cents":7,"to":"Maria"}): approval-requested')

        page.get_by_role("button", name="Approve").click()
        expect(page.locator(".tool")).to_contain_text("paid 7 to Maria")

        page.reload()
        expect(page.locator(".tool")).to_contain_text("paid 7 to Maria")
        expect(page.locator(".text")).to_have_text(["Please pay Maria.", "I will pay."])
        expect(page.get_by_role("status")).to_have_text("streaming")

        page.request.post(f"{address}/resumed/open")
        expect(page.locator(".text")).to_have_text(["Please pay Maria.", "I will pay.", "It is paid."])
        expect(page.get_by_role("status")).to_have_text("ready")
        assert errors == []
    finally:
        context.close()
