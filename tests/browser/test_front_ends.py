"""The pages of `docs/examples/front_ends` in a browser: ask, see the tool, approve, reload, see the end."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from chat_agents import Done, Text, to_sse_event
from chat_core import Usage
from playwright.sync_api import Browser, Page, expect

from .conftest import PATIENCE


@dataclass
class Served:
    """The address of the pages, one of them, and the gate of the answer after the approval."""

    address: str
    page: Page
    gate: Path

    def text(self) -> str:
        return self.page.locator("#messages").inner_text()


@pytest.fixture
def served(chromium: Browser, tmp_path: Path) -> Iterator[Served]:
    gate = tmp_path / "gate"
    gate.touch()
    command = [sys.executable, "-m", "tests.browser.front_ends_server", str(gate)]
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE)
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            page = context.new_page()
            errors: list[str] = []
            page.on("pageerror", lambda error: errors.append(str(error)))
            address = process.stdout.readline().strip()
            page.goto(f"{address}/agui")
            expect(page.get_by_role("status")).to_have_text("ready")
            yield Served(address, page, gate)
            assert errors == []
        finally:
            context.close()
            process.terminate()


def ask(page: Page, question: str = 'Run pay with {"to":"Maria","cents":4000}?') -> None:
    page.get_by_label("Message").fill("Please pay Maria 40 euros.")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".interrupt")).to_contain_text(question)


def test_a_call_is_approved_after_a_reload_during_the_run(served: Served) -> None:
    page = served.page
    ask(page)
    expect(page.locator(".tool")).to_have_text('pay {"to":"Maria","cents":4000}')

    page.reload()
    expect(page.locator(".interrupt")).to_have_count(1)
    expect(page.locator("p.assistant")).to_have_text("I will pay Maria.")

    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".tool")).to_contain_text("→ paid 4000 cents to Maria")
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("Another run")
    served.gate.write_text("open\n", encoding="utf-8")

    expect(page.locator("p.assistant").last).to_have_text("Maria has her money.")
    expect(page.get_by_role("status")).to_have_text("ready")
    assert served.text().count("Please pay Maria 40 euros.") == 1
    assert served.text().count("Maria has her money.") == 1


@pytest.mark.parametrize("name", ["openai", "plain"])
def test_openai_and_plain_pages_show_the_same_after_a_reload(served: Served, name: str) -> None:
    page = served.page
    page.goto(f"{served.address}/{name}")
    expect(page.get_by_role("status")).to_have_text("ready")
    ask(page, 'Run pay {"to":"Maria","cents":4000}?')
    expect(page.locator(".tool")).to_have_text('pay {"to":"Maria","cents":4000}')

    page.reload()
    expect(page.locator(".interrupt")).to_have_count(1)
    expect(page.locator("p.assistant")).to_have_text("I will pay Maria.")

    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".tool")).to_have_text('pay {"to":"Maria","cents":4000} → paid 4000 cents to Maria')
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("Another run")
    served.gate.write_text("open\n", encoding="utf-8")

    expect(page.locator("p.assistant").last).to_have_text("Maria has her money.")
    expect(page.get_by_role("status")).to_have_text("ready")
    assert served.text().count("Please pay Maria 40 euros.") == 1
    assert served.text().count("Maria has her money.") == 1


@pytest.mark.parametrize("name", ["openai", "plain"])
def test_openai_and_plain_pages_can_reject_a_call(served: Served, name: str) -> None:
    page = served.page
    served.gate.write_text("open\n", encoding="utf-8")
    page.goto(f"{served.address}/{name}")
    ask(page, 'Run pay {"to":"Maria","cents":4000}?')
    page.get_by_role("button", name="Reject").click()
    expect(page.locator("p.assistant").last).to_have_text("Maria has her money.")
    expect(page.get_by_role("status")).to_have_text("ready")


def test_the_event_source_of_a_browser_reads_random_agent_texts(chromium: Browser) -> None:
    source = random.Random(47)
    texts = ["".join(source.choices("\r\n\0:é😀 data\u2028", k=source.randint(1, 12))) for _ in range(100)]
    body = b"".join([to_sse_event(Text(text)) for text in texts]) + to_sse_event(Done("s-1", "answered", Usage()))
    page = chromium.new_page()
    try:
        page.route("**/page", lambda route: route.fulfill(content_type="text/html", body="<p>page"))
        page.route("**/events", lambda route: route.fulfill(content_type="text/event-stream", body=body))
        page.goto("http://front-end.test/page")
        received = page.evaluate("""() => new Promise((resolve) => {
            const source = new EventSource("events"), texts = [];
            source.addEventListener("text", ({ data }) => texts.push(data));
            source.addEventListener("done", () => { source.close(); resolve(texts); });
        })""")
    finally:
        page.close()

    assert received == [re.sub("\r\n|\r", "\n", text) for text in texts]


def test_arguments_are_edited_and_a_call_is_rejected(served: Served) -> None:
    page = served.page
    served.gate.write_text("open\n", encoding="utf-8")
    ask(page)
    page.get_by_label("Arguments").fill('{"to": "Maria", "cents": 5}')
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".tool")).to_contain_text("paid 5 cents to Maria")

    page.goto("about:blank")
    page.go_back()
    page.evaluate("location.hash = 'other'")
    page.reload()
    expect(page.get_by_role("status")).to_have_text("ready")
    ask(page)
    page.get_by_role("button", name="Reject").click()
    expect(page.locator(".tool")).to_contain_text("The pay call was rejected.")


def test_a_second_window_shows_the_decision_of_the_first(served: Served) -> None:
    page = served.page
    ask(page)
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_role("button", name="Reject")).to_be_visible()

    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".tool")).to_contain_text("→ paid 4000 cents to Maria")
    other.get_by_role("button", name="Reject").click()
    expect(other.get_by_role("alert")).not_to_be_empty()
    served.gate.write_text("open\n", encoding="utf-8")

    expect(other.locator(".tool")).to_have_text('pay {"to":"Maria","cents":4000} → paid 4000 cents to Maria')
    expect(other.locator("p.assistant").last).to_have_text("Maria has her money.")
    expect(other.locator(".interrupt")).to_have_count(0)
