"""The chat page of a service in a real browser: streams, approvals, sessions, two windows, a reload, and axe."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from chat_core.approvals.display import has_invisible
from playwright.sync_api import Browser, BrowserContext, Page, expect

from .conftest import PATIENCE, run_server

ANSWER = [
    "# Rivers\n\nThe **Loire** is ",
    "the *longest* river of France:\n\n- it is 1,006 km long\n",
    "- it ends in the Atlantic",
]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PAYMENT: list[object] = ["I will pay Maria.", {"to": "Maria", "cents": 4000}]
HOSTILE = (
    '<script>document.title = "owned"</script> <img src=x onerror="document.title = \'owned\'">\n\n'
    "[run](javascript:document.title='owned') ![pixel](http://127.0.0.1:1/pixel.png)\n\n"
    "```html\n<b>bold</b>\n```\n\n| a | b |\n|---|---|\n| 1 | <i>2</i> |\n"
)


class Served:
    """A service in a process of its own, and the windows of its users."""

    def __init__(self, chromium: Browser, folder: Path, stack: ExitStack) -> None:
        self._chromium = chromium
        self._folder = folder
        self._stack = stack
        self._address = ""
        self.errors: list[str] = []

    @property
    def payments(self) -> list[str]:
        path = self._folder / "ledger"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def start(self, *script: list[object], pieces: int = 100) -> None:
        """Start the service with the answers of the model, of which the first pieces may be sent."""
        (self._folder / "gate").write_text("piece\n" * pieces, encoding="utf-8")
        paths = [str(self._folder / name) for name in ("sessions.db", "ledger", "gate")]
        self._address = self._stack.enter_context(run_server("service_server", *paths, json.dumps(script)))

    def let(self, pieces: int) -> None:
        """Let the model send more pieces."""
        with (self._folder / "gate").open("a", encoding="utf-8") as gate:
            gate.write("piece\n" * pieces)

    def browser(self, user: str | None = "ana", **options: Any) -> BrowserContext:
        """Return a browser that is signed in as a user."""
        context = self._stack.enter_context(
            self._chromium.new_context(viewport={"width": 1100, "height": 800}, **options)
        )
        context.set_default_timeout(PATIENCE)
        if user is not None:
            value = base64.urlsafe_b64encode(f"token-of-{user}".encode()).decode()
            name = f"chat_service_token_{urlsplit(self._address).port}"
            context.add_cookies(
                [{"name": name, "value": value, "url": self._address, "httpOnly": True, "sameSite": "Lax"}]
            )
        return context

    def window(self, context: BrowserContext, path: str = "/") -> Page:
        """Open a window, which collects errors of scripts and violations of the Content-Security-Policy."""
        page = context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._check_address(request.url))
        page.on("console", lambda message: self._check_message(message.text))
        page.goto(f"{self._address}{path}")
        return page

    def _check_address(self, url: str) -> None:
        if not url.startswith(f"{self._address}/"):
            self.errors.append(f"a request to {url}")

    def _check_message(self, text: str) -> None:
        if "Content Security Policy" in text:
            self.errors.append(text)


@pytest.fixture
def served(chromium: Browser, tmp_path: Path) -> Iterator[Served]:
    with ExitStack() as stack:
        served = Served(chromium, tmp_path, stack)
        yield served
        assert served.errors == []


def words(text: str) -> int:
    """Return the number of pieces in which the scripted model sends a text."""
    return len(text.split(" "))


def ask(page: Page, text: str) -> None:
    """Send a message with the keyboard, as soon as the last run has ended."""
    expect(page.locator("#send")).to_be_visible()
    page.get_by_label("Message").fill(text)
    page.get_by_label("Message").press("Enter")


def assert_accessible(page: Page) -> None:
    """Check a page with axe."""
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("rules => axe.run({runOnly: rules})", RULES)
    assert [(item["id"], [node["html"] for node in item["nodes"]]) for item in found["violations"]] == []


def test_markdown_streams_and_a_reload_continues_the_answer(served: Served) -> None:
    served.start([*ANSWER], pieces=words(ANSWER[0]))
    page = served.window(served.browser())
    ask(page, "Which river is the longest?")
    expect(page.get_by_role("heading", name="Rivers")).to_be_visible()
    expect(page.locator(".markdown strong")).to_have_text("Loire")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    assert "?session=" in page.url

    served.let(words(ANSWER[1]))
    expect(page.locator(".markdown li")).to_have_text(["it is 1,006 km long"])
    page.reload()
    expect(page.locator(".markdown li")).to_have_text(["it is 1,006 km long"])
    served.let(words(ANSWER[2]))
    expect(page.locator(".markdown li")).to_have_text(["it is 1,006 km long", "it ends in the Atlantic"])
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("The answer is complete.")
    expect(page.locator(".user")).to_have_count(1)
    expect(page.locator(".model")).to_have_count(1)


def test_a_call_is_edited_and_approved_and_a_second_window_follows(served: Served) -> None:
    served.start(PAYMENT, ["It is ", "paid."])
    context = served.browser()
    page = served.window(context)
    ask(page, "Pay Maria 40 euros.")
    card = page.locator("form.card")
    expect(card.get_by_role("heading")).to_have_text("pay waits for your approval")
    expect(page.locator(".tool .badge")).to_have_text("waiting")
    other = served.window(context, f"/?{urlsplit(page.url).query}")
    expect(other.locator("form.card")).to_be_visible()
    expect(other.locator("body[data-watching=yes]")).to_be_attached()

    card.get_by_label("cents").fill("many")
    card.get_by_role("button", name="Approve").click()
    expect(card.locator(".error")).to_have_text("cents must be a number.")
    card.get_by_label("cents").fill("3000")
    card.get_by_role("button", name="Approve").click()
    for window in (page, other):
        expect(window.get_by_text("It is paid.")).to_be_visible()
        expect(window.locator("form.card")).to_have_count(0)
        expect(window.locator(".tool .badge")).to_have_text("done")
        expect(window.get_by_text("1 note recalled from memory")).to_be_visible()
    page.get_by_text("1 note recalled from memory").click()
    expect(page.locator(".recalled li")).to_have_text("ana pays Maria in euros. (an earlier session)")
    assert served.payments == ["3000 to Maria"]


def test_recalled_notes_are_shown_below_their_message_as_plain_text(served: Served) -> None:
    served.start(["Hello."], ["In euros."], ["I know it."])
    context = served.browser()
    page = served.window(context)
    for question, answer in (
        ("Hi.", "Hello."),
        ("In what do I Pay?", "In euros."),
        ("And as the page says?", "I know it."),
    ):
        ask(page, question)
        expect(page.locator(".model .markdown").last).to_have_text(answer)
    expect(page.locator(".recalled summary")).to_have_text(["1 note recalled from memory"] * 2)
    page.reload()
    expect(page.locator("body[data-ready=yes]")).to_be_attached()
    notes = page.locator(".recalled")
    expect(notes).to_have_count(2)
    expect(page.locator(".user + .recalled")).to_have_count(2)
    expect(page.locator(".user").first.locator("xpath=following-sibling::*[1]")).to_have_class("model")
    notes.last.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(notes.last.locator("li")).to_be_visible()
    expect(notes.locator("li")).to_have_text(
        [
            "ana pays Maria in euros. (an earlier session)",
            "<img src=x onerror=\"document.title = 'owned'\"> [run](javascript:1) (a page)",
        ]
    )
    assert notes.locator("img, a").count() == 0
    assert page.title() != "owned"
    assert_accessible(page)
    other = served.window(served.browser("bo"), f"/?{urlsplit(page.url).query}")
    expect(other.locator(".recalled")).to_have_count(0)


def test_arguments_that_the_tool_refuses_are_reported_in_the_form(served: Served) -> None:
    served.start([{"to": "Maria", "cents": 4000}], ["Then not."])
    page = served.window(served.browser())
    ask(page, "Pay Maria 40 euros.")
    card = page.locator("form.card")
    card.get_by_label("cents").fill("1.5")
    card.get_by_role("button", name="Approve").click()
    expect(card.locator(".error")).to_contain_text("'pay' does not accept these arguments")
    card.get_by_label("Reason").fill("Too much.")
    card.get_by_role("button", name="Reject").click()
    expect(page.get_by_text("Then not.")).to_be_visible()
    expect(page.locator(".tool .badge")).to_have_text("failed")
    assert served.payments == []


def test_an_approved_call_keeps_every_argument_that_is_not_edited(served: Served) -> None:
    call = {"to": "Maria\r\nLopez", "cents": 1234567890123456789, "urgent": False}
    served.start([call], [call], ["It is paid."])
    page = served.window(served.browser())
    ask(page, "Pay Maria.")
    sent: list[dict[str, Any]] = []
    for badges in (1, 2):
        expect(page.locator(".tool .badge")).to_have_count(badges)
        expect(page.get_by_label("cents")).to_have_value("1234567890123456789")
        if badges == 2:
            page.get_by_label("cents").fill("1234567890123456787")
        with page.expect_request("**/decisions") as request:
            page.get_by_role("button", name="Approve").click()
        sent += json.loads(request.value.post_data or "")["decisions"]
    expect(page.get_by_text("It is paid.")).to_be_visible()
    assert [decision["arguments"] for decision in sent] == [call, call]
    assert [decision.get("edited_arguments") for decision in sent] == [None, {**call, "cents": 1234567890123456787}]


def test_the_approval_form_warns_of_every_invisible_character(served: Served) -> None:
    served.start([{"to": "Bo\u3164", "cents": 5}])
    page = served.window(served.browser())
    ask(page, "Pay Bo.")
    expect(page.locator("form.card .why")).to_contain_text('"Bo\\u{3164}"')
    found: list[int] = page.evaluate(
        """async source => {
            const { reveal } = await import(source.replace("chat.js", "transcript.js"));
            const codes = Array.from({ length: 0x110000 }, (_, code) => code);
            return codes.filter(code => reveal(String.fromCodePoint(code)) !== String.fromCodePoint(code));
        }""",
        page.locator("script[src*='chat.js']").evaluate("script => script.src"),
    )
    assert found == [code for code in range(0x110000) if has_invisible(chr(code))]


def test_text_of_a_model_is_never_html_and_loads_nothing(served: Served) -> None:
    served.start([HOSTILE])
    page = served.window(served.browser())
    ask(page, "Show me <b>something</b>.")
    expect(page.locator(".user .words")).to_have_text("Show me <b>something</b>.")
    expect(page.locator(".markdown pre")).to_have_text("<b>bold</b>")
    expect(page.locator(".markdown td")).to_have_text(["1", "<i>2</i>"])
    expect(page.locator(".markdown")).to_contain_text('<script>document.title = "owned"</script>')
    assert page.locator(".markdown a").evaluate_all("links => links.map(link => link.href)") == [
        "http://127.0.0.1:1/pixel.png"
    ]
    assert page.locator(".markdown img, .markdown script, .markdown b").count() == 0
    assert "owned" not in page.title()


def test_text_with_very_many_markdown_marks_is_shown_as_plain_text(served: Served) -> None:
    texts = {
        "backticks": " ".join(["`" * length for length in range(1, 190)]),
        "heading": f"# a{' ' * 3_000}x",
        "link": f"[x]({' ' * 19_000}",
        "table": f"|a|\n|-|\n{'|' * 200_000}",
        "blocks": "a\n\n" * 150_000,
    }
    served.start()
    page = served.window(served.browser(None))
    formatted: list[str] = page.evaluate(
        """async ([source, texts]) => {
            const { showMarkdown } = await import(source.replace("chat.js", "markdown.js"));
            return Object.entries(texts).filter(([, text]) => {
                const element = document.createElement("div");
                showMarkdown(element, text);
                return element.querySelector("a, code, td") !== null || !element.textContent;
            }).map(([name]) => name);
        }""",
        [page.locator("script[src*='chat.js']").evaluate("script => script.src"), texts],
    )
    assert formatted == []


def test_sessions_are_listed_renamed_and_closed(served: Served) -> None:
    served.start(["Good morning."])
    page = served.window(served.browser())
    ask(page, "Hello.")
    expect(page.get_by_text("Good morning.")).to_be_visible()
    page.get_by_role("button", name="New session").click()
    expect(page.get_by_role("heading", name="New session")).to_be_visible()
    ask(page, "Hello again.")
    sessions = page.get_by_role("navigation").get_by_role("listitem")
    expect(sessions).to_have_text(["Hello again.", "Hello."])

    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Title").fill("Greetings")
    page.get_by_label("Title").press("Enter")
    expect(page.get_by_role("heading", name="Greetings")).to_be_visible()
    page.get_by_role("link", name="Hello.", exact=True).click()
    expect(page.locator(".user")).to_have_text(["YouHello."])
    page.get_by_role("button", name="Close", exact=True).click()
    page.get_by_role("button", name="Close the session").click()
    expect(sessions).to_have_text(["Greetings"])
    assert sessions.count() == 1
    page.go_back()
    expect(page.get_by_role("alert")).to_contain_text("There is no such session")


def test_a_run_is_stopped_and_tried_again(served: Served) -> None:
    served.start(["One ", "two."], pieces=1)
    page = served.window(served.browser())
    ask(page, "Count.")
    expect(page.locator(".markdown")).to_have_text("One")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("alert")).to_contain_text("The run was cancelled.")
    served.let(10)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".markdown").last).to_have_text("One two.")
    assert page.locator(".user").count() == 1  # the message was not sent again


def test_a_second_session_event_rebuilds_the_shown_session(served: Served) -> None:
    served.start(["Good morning."])
    context = served.browser()
    address = served.window(context).url.rstrip("/")
    sent = context.request.post(
        f"{address}/api/v1/chat/stream", data={"message": "Hello."}, headers={"Origin": address}
    )
    begin = sent.text().partition("\n\n")[0] + "\n\n"
    (session,) = context.request.get(f"{address}/api/v1/sessions").json()["sessions"]
    old = {"messages": [{"role": "user", "content": "Old."}]}
    window = context.new_page()
    window.route("**/messages", lambda route: route.fulfill(json=old), times=1)
    window.route("**/api/v1/runs/*/events", lambda route: route.fulfill(body=begin * 2), times=1)
    window.goto(f"{address}/?session={session['id']}")
    expect(window.locator(".model")).to_have_text(["AnswerGood morning."])
    expect(window.locator(".user .words")).to_have_text(["Hello."])


def test_a_browser_signs_in_with_a_token_and_signs_out(served: Served) -> None:
    served.start(["Good morning."])
    context = served.browser(None)
    page = served.window(context)
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("This token is not valid.")
    page.get_by_label("Token").fill("token-of-ana")
    page.get_by_role("button", name="Sign in").click()
    ask(page, "Hello.")
    expect(page.get_by_text("Good morning.")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert context.cookies() == []


def test_a_call_is_approved_by_another_user_in_the_inbox(served: Served) -> None:
    served.start(PAYMENT, ["It is paid."])
    page = served.window(served.browser())
    ask(page, "Pay Maria 40 euros.")
    expect(page.locator("form.card")).to_be_visible()
    expect(page.locator("body[data-watching=yes]")).to_be_attached()
    inbox = served.window(served.browser("bo"), "/inbox/")
    inbox.get_by_role("link", name="pay").click()
    inbox.get_by_role("button", name="Approve").click()
    expect(inbox.get_by_text("bo approved it")).to_be_visible()
    expect(page.get_by_text("It is paid.")).to_be_visible()
    assert served.payments == ["4000 to Maria"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1100), ("dark", 390)])
def test_axe_finds_no_violations(served: Served, scheme: Literal["dark", "light"], width: int) -> None:
    served.start([*ANSWER], PAYMENT, ["It is paid."])
    context = served.browser(color_scheme=scheme)
    page = served.window(context)
    page.set_viewport_size({"width": width, "height": 800})
    ask(page, "Which river is the longest?")
    expect(page.get_by_text("Atlantic")).to_be_visible()
    ask(page, "Pay Maria 40 euros.")
    expect(page.locator("form.card")).to_be_visible()
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if width < 500:
        page.get_by_role("button", name="Sessions").click()
        expect(page.get_by_role("navigation")).to_be_visible()
        assert_accessible(page)
    page.goto(f"{page.url.partition('?')[0]}docs")
    expect(page.get_by_role("heading", name="/api/v1/chat/stream")).to_be_visible()
    assert_accessible(page)
    signed_out = served.window(served.browser(None, color_scheme=scheme))
    expect(signed_out.get_by_label("Token")).to_be_visible()
    assert_accessible(signed_out)
