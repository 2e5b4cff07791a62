"""The inbox in a real browser: two people at once, a page that was left open, a reload in the middle, the keyboard."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Literal

import pytest
from chat_core import FunctionCall
from chat_core.messages import Rejected
from playwright.sync_api import APIResponse, Browser, Page, Response, Route, expect

from .conftest import PATIENCE, Place

ANSWER = "Maria has her money."


@contextmanager
def page_of(chromium: Browser, *, scheme: Literal["dark", "light"] = "light", script: bool = True) -> Generator[Page]:
    """A page of a person's own browser. It fails where the page's script does, or breaks the policy of its contents."""
    context = chromium.new_context(
        color_scheme=scheme, java_script_enabled=script, viewport={"width": 1000, "height": 900}
    )
    context.set_default_timeout(PATIENCE)
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console", lambda message: errors.append(message.text) if "Content Security Policy" in message.text else None
    )
    try:
        yield page
        assert errors == []
    finally:
        context.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    with page_of(chromium) as page:
        yield page


def open_call(page: Page, address: str, conversation: str = "chat-17") -> None:
    """Go to a conversation, and wait until the page listens."""
    page.goto(f"{address}/conversations/{conversation}")
    expect(page.locator("html[data-listening=yes]")).to_be_attached()


def is_decision(response: Response) -> bool:
    return response.request.method == "POST"


def edit(page: Page) -> None:
    """Open the form with the arguments of every call."""
    for summary in page.get_by_text("Edit the arguments").all():
        summary.click()


def approve(page: Page) -> None:
    page.get_by_role("button", name="Approve").click()


def test_a_waiting_call_is_approved_and_the_answer_is_streamed(page: Page, place: Place) -> None:
    page.goto(place.serve("ana"))
    expect(page.get_by_role("heading", name="1 pending approval")).to_be_visible()
    page.get_by_role("link", name="transfer").click()
    expect(page.get_by_label("to", exact=True)).to_be_hidden()
    expect(page.get_by_text("Send money to somebody.")).to_be_visible()
    edit(page)
    expect(page.get_by_label("to", exact=True)).to_have_value("Maria")
    approve(page)

    expect(page.get_by_text("ana approved it")).to_be_visible()
    live = page.locator("#live")
    for words, text in ((1, "Maria"), (1, "Maria has"), (1, "Maria has her")):
        place.let(words)
        expect(live).to_have_text(text)
    place.let(1)
    expect(page.get_by_text(ANSWER)).to_be_visible()
    expect(live).to_have_count(0)
    expect(page.get_by_text("The model has answered.").first).to_be_visible()
    assert place.ledger == ["4000 to Maria, slow"]


def test_the_second_of_two_approvals_shows_who_decided(chromium: Browser, place: Place) -> None:
    place.let(4)
    ana, ben = place.serve("ana"), place.serve("ben")
    with page_of(chromium, script=False) as first, page_of(chromium, script=False) as second:
        first.goto(f"{ana}/conversations/chat-17")
        second.goto(f"{ben}/conversations/chat-17")
        approve(first)
        expect(first.get_by_text("ana approved it")).to_be_visible()
        approve(second)
        expect(second.get_by_role("alert").filter(has_text="ana approved transfer")).to_be_visible()
        expect(second.get_by_role("button", name="Approve")).to_have_count(0)

    # It has run before the first of the two pages is answered, or runs still.
    with page_of(chromium) as later:
        later.goto(f"{ana}/conversations/chat-17")
        expect(later.get_by_text(ANSWER)).to_be_visible()
    assert place.ledger == ["4000 to Maria, slow"]


def test_simultaneous_approvals_in_two_browsers_run_the_call_once(chromium: Browser, place: Place) -> None:
    place.let(4)
    ana, ben = place.serve("ana"), place.serve("ben")
    with page_of(chromium, script=False) as first, page_of(chromium, script=False) as second:
        first.goto(f"{ana}/conversations/chat-17")
        second.goto(f"{ben}/conversations/chat-17")
        with first.expect_response(is_decision) as one, second.expect_response(is_decision) as other:
            first.get_by_role("button", name="Approve").click(no_wait_after=True)
            second.get_by_role("button", name="Approve").click(no_wait_after=True)
        statuses = [one.value.status, other.value.status]
        assert sorted(statuses) == [303, 409]
        slower = first if statuses[0] == 409 else second
        expect(slower.get_by_role("alert").filter(has_text="approved transfer")).to_be_visible()

    with page_of(chromium) as later:
        later.goto(f"{ana}/conversations/chat-17")
        expect(later.get_by_text(ANSWER)).to_be_visible()
    assert place.ledger == ["4000 to Maria, slow"]


def test_an_open_page_shows_a_decision_of_another_process(page: Page, place: Place) -> None:
    open_call(page, place.serve("ana"))
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    place.decided_elsewhere("ben@example.com")

    expect(page.get_by_text("ben@example.com rejected it")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    expect(page.locator("#said")).to_contain_text("transfer rejected")
    assert place.ledger == []


@pytest.mark.parametrize("status", [422, 409])
def test_a_refused_form_shows_a_decision_of_another_process(page: Page, place: Place, status: int) -> None:
    place.ask("chat-18", *[FunctionCall("transfer", {"to": "Bob", "cents": 1}, id=f"call_{n}") for n in (1, 2)])
    address = place.serve("ana")
    open_call(page, address, "chat-18")
    call = page.locator(".card.waits").first
    deaf = [True] * (status == 409)  # the first page hears nothing of the decision
    if deaf:
        page.route("**/api/**", lambda route: route.abort() if deaf else route.continue_())
        page.reload()
        place.decided_elsewhere("ben@example.com", "chat-18")
    else:
        call.get_by_text("Edit the arguments").click()
        call.get_by_label("cents").fill("1.5")
    call.get_by_role("button", name="Approve").click()
    deaf.clear()
    expect(page.get_by_role("alert").first).to_be_visible()
    expect(page).to_have_url(f"{address}/conversations/chat-18")
    expect(page.locator("html[data-listening=yes]")).to_be_attached()
    responses: list[Response] = []
    page.on("response", lambda response: responses.append(response))  # noqa: PLW0108 - the driver sets attributes of it
    if status != 409:
        place.decided_elsewhere("ben@example.com", "chat-18")
    else:
        place.decided_elsewhere("ben@example.com", "chat-18", "call_2")

    expect(page.locator(".card").filter(has_text="ben@example.com rejected it")).to_have_count(
        2 if status == 409 else 1
    )
    assert {response.status for response in responses} == {200}
    page.reload()
    expect(page.get_by_text("ben@example.com rejected it").first).to_be_visible()
    assert place.ledger == []


def test_the_command_prints_a_url_that_signs_in(chromium: Browser, place: Place) -> None:
    with place.command() as address:
        origin = address.partition("/?")[0]
        with page_of(chromium) as stranger:
            answer = stranger.goto(origin)
            assert answer is not None
            assert answer.status == 401
        with page_of(chromium) as page:
            page.goto(address)
            expect(page.get_by_role("heading", name="1 pending approval")).to_be_visible()
            expect(page).to_have_url(f"{origin}/")
            page.get_by_role("link", name="transfer").click()
            expect(page.locator("html[data-listening=yes]")).to_be_attached()
            page.get_by_role("button", name="Reject").click()
            expect(page.get_by_text("ana rejected it")).to_be_visible()
            assert "startup_token" not in page.content()


def test_the_list_is_updated_by_changes_of_another_process(page: Page, place: Place) -> None:
    page.goto(place.serve("ana"))
    expect(page.locator("html[data-listening=yes]")).to_be_attached()
    place.ask("chat-18")
    expect(page.get_by_role("heading", name="2 pending approvals")).to_be_visible()
    place.decided_elsewhere("ben@example.com")

    expect(page.get_by_role("heading", name="1 pending approval")).to_be_visible()
    expect(page.get_by_role("link", name="transfer")).to_have_count(1)
    assert place.ledger == []


def test_a_form_in_use_is_kept_if_another_user_decides_another_call(page: Page, place: Place) -> None:
    calls = [FunctionCall("transfer", {"to": to, "cents": 1}, id=f"call_{n}") for n, to in enumerate("AB", 1)]
    place.ask("chat-18", *calls)
    open_call(page, place.serve("ana"), "chat-18")
    mine = page.locator(".card.waits").nth(1)
    mine.get_by_text("Edit the arguments").click()
    mine.get_by_label("cents", exact=True).fill("77")
    place.decided_elsewhere("ben@example.com", "chat-18")
    expect(page.get_by_text("ben@example.com rejected it")).to_be_visible()

    expect(page.get_by_label("cents", exact=True)).to_have_value("77")
    expect(page.get_by_label("cents", exact=True)).to_be_focused()
    assert place.ledger == []


def seen(page: Page, *, hidden: bool) -> None:
    """Set whether a page is visible."""
    page.evaluate(
        f"Object.defineProperty(document, 'hidden', {{ value: {str(hidden).lower()}, configurable: true }});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )


def test_hidden_pages_close_their_connections(page: Page, place: Place) -> None:
    address = place.serve("ana")
    others = [page.context.new_page() for _ in range(7)]  # a browser has six connections to a server
    for other in others:
        open_call(other, address)
        seen(other, hidden=True)
    open_call(page, address)
    place.decided_elsewhere("ben@example.com")
    expect(page.get_by_text("ben@example.com rejected it")).to_be_visible()
    seen(others[0], hidden=False)

    expect(others[0].get_by_text("ben@example.com rejected it")).to_be_visible()
    expect(others[0].locator("html[data-listening=yes]")).to_be_attached()
    assert not any(other.locator("html[data-listening=yes]").count() for other in others[1:])


def test_a_page_reconnects_after_its_event_stream_was_refused(page: Page, place: Place) -> None:
    refused: list[Route] = []

    def refuse(route: Route) -> None:
        refused.append(route)
        route.fulfill(status=502)

    page.route(lambda url: "/stream" in url, refuse, times=1)
    open_call(page, place.serve("ana"))
    place.decided_elsewhere("ben@example.com")

    expect(page.get_by_text("ben@example.com rejected it")).to_be_visible()
    assert len(refused) == 1


def test_an_open_form_is_accepted_after_the_cookie_changed(page: Page, place: Place) -> None:
    place.let(8)
    calls = [FunctionCall("transfer", {"to": to, "cents": 1}, id=f"call_{n}") for n, to in enumerate("AB", 1)]
    place.ask("chat-18", *calls)
    open_call(page, place.serve("ana"), "chat-18")
    edit(page)
    page.get_by_label("cents", exact=True).nth(1).fill("77")
    page.context.clear_cookies()
    place.decided_elsewhere("ben@example.com", "chat-18")
    expect(page.get_by_text("ben@example.com rejected it")).to_be_visible()
    page.get_by_role("button", name="Approve").press("Enter")  # a click on a button that has just moved is refused

    expect(page.get_by_text("ana approved it with other arguments")).to_be_visible()
    expect(page.get_by_text(ANSWER)).to_be_visible()
    assert place.ledger == ["77 to B, slow"]


def test_a_reload_during_a_stream_shows_the_current_text(chromium: Browser, page: Page, place: Place) -> None:
    address = place.serve("ana")
    open_call(page, address)
    approve(page)
    place.let(2)
    expect(page.locator("#live")).to_have_text("Maria has")
    page.reload()
    expect(page.locator("#live")).to_have_text("Maria has")
    with page_of(chromium) as other:
        open_call(other, address)
        place.let(1)
        expect(other.locator("#live")).to_have_text("Maria has her")
        expect(page.locator("#live")).to_have_text("Maria has her")

    page.goto("about:blank")
    place.let(1)
    with page_of(chromium) as another:
        another.goto(f"{address}/conversations/chat-17")
        expect(another.get_by_text(ANSWER)).to_be_visible()
    assert place.ledger == ["4000 to Maria, slow"]


def test_text_streamed_during_a_refresh_is_shown_once(page: Page, place: Place) -> None:
    address = place.serve("ana")
    open_call(page, address)
    approve(page)
    place.let(1)
    live, read_again = page.locator("#live"), "document.dispatchEvent(new Event('visibilitychange'))"
    expect(live).to_have_text("Maria")
    page.evaluate(read_again)
    number = str(page.request.get(f"{address}/api/conversations/chat-17").json()["place"]).rpartition("-")[2]
    expect(live).to_have_attribute("data-after", number)  # nothing happens now until the next word

    held: list[tuple[Route, APIResponse]] = []
    released = False

    def hold(route: Route) -> None:
        if released:
            route.continue_()
        else:
            held.append((route, route.fetch()))  # the page as it is now, which comes after the next word

    page.route(lambda url: "/conversations/" in url, hold)
    page.evaluate(read_again)
    for _ in range(PATIENCE // 10):
        if held:
            break
        page.wait_for_timeout(10)
    place.let(1)
    expect(live).to_have_text("Maria has")
    released = True  # an event of the stream may have requested the page once more
    for route, response in held:
        route.fulfill(response=response)
    place.let(1)

    expect(live).to_have_text("Maria has her")
    assert held


def test_a_call_is_edited_and_approved(page: Page, place: Place) -> None:
    place.let(4)
    open_call(page, place.serve("ana"))
    edit(page)
    page.get_by_label("to", exact=True).fill("Zoë & <b>Söhne</b>")
    page.get_by_label("cents", exact=True).fill("1.5")
    approve(page)
    expect(page.get_by_role("alert")).to_be_focused()
    expect(page.get_by_label("cents", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("to", exact=True)).to_have_value("Zoë & <b>Söhne</b>")
    page.get_by_label("cents", exact=True).fill("12345678901234567890")
    page.get_by_label("speed", exact=True).select_option("fast")
    approve(page)

    expect(page.get_by_text(ANSWER)).to_be_visible()
    assert place.ledger == ["12345678901234567890 to Zoë & <b>Söhne</b>, fast"]


def test_a_call_is_rejected_with_a_reason(page: Page, place: Place) -> None:
    place.let(4)
    open_call(page, place.serve("ana"))
    page.get_by_label("Reason, for the model").fill("not this month")
    page.get_by_role("button", name="Reject").click()

    expect(page.get_by_text(ANSWER)).to_be_visible()
    status = place.messages().tool("call_1").status
    assert isinstance(status, Rejected)
    assert status.reason == "not this month"
    assert place.ledger == []


def test_the_return_key_in_a_field_submits_no_decision(page: Page, place: Place) -> None:
    place.let(4)
    open_call(page, place.serve("ana"))
    edit(page)
    page.get_by_text("Add a note for the record").click()
    for label in ("Reason, for the model", "Note for the record", "cents"):
        page.get_by_label(label).press("Enter")
    page.get_by_role("button", name="Reject").click()

    expect(page.get_by_text("ana rejected it")).to_be_visible()
    expect(page.get_by_text(ANSWER)).to_be_visible()
    assert place.ledger == []


def press_until_focused(page: Page, name: str) -> None:
    """Press Tab until a button or a link of this name has the focus: it can be reached, and nothing holds the focus."""
    for _ in range(40):
        page.keyboard.press("Tab")
        told = page.evaluate("(document.activeElement.labels?.[0] || document.activeElement).textContent.trim()")
        if str(told).startswith(name):
            return
    pytest.fail(f"no way leads to {name!r} with the keyboard")


def test_a_call_can_be_decided_with_the_keyboard_only(page: Page, place: Place) -> None:
    place.let(4)
    page.goto(place.serve("ana"))
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    press_until_focused(page, "transfer")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    expect(page.locator(".card.waits")).to_be_focused()
    press_until_focused(page, "Edit the arguments")
    page.keyboard.press("Enter")
    press_until_focused(page, "cents")
    page.keyboard.press("Control+A")
    page.keyboard.type("3500")
    press_until_focused(page, "Approve")
    page.keyboard.press("Enter")

    expect(page.get_by_text(ANSWER)).to_be_visible()
    expect(page.locator(".card").filter(has_text="ana approved it")).to_be_focused()
    assert place.ledger == ["3500 to Maria, slow"]


def test_every_control_has_a_label_and_every_page_one_heading(page: Page, place: Place) -> None:
    address = place.serve("ana")
    for path in ("/", "/conversations/chat-17", "/nothing"):
        page.goto(f"{address}{path}")
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        expect(page.get_by_role("main")).to_have_count(1)
        nameless = page.evaluate(
            "[...document.querySelectorAll('input:not([type=hidden]), select, textarea, button:not([hidden]), a')]"
            ".filter((it) => !(it.labels?.length || it.ariaLabel || it.textContent.trim())).map((it) => it.outerHTML)"
        )
        assert nameless == []
        assert page.evaluate("document.documentElement.lang") == "en"


def luminance(colour: str) -> float:
    """Return the relative luminance of a color `rgb(…)`, as WCAG defines it."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


COLOURS = """
[...document.querySelectorAll('h1, h3, p, label, button, legend, .badge, dd, dt, .words, .meta, summary, pre')]
  .filter((it) => it.checkVisibility() && it.textContent.trim() && !it.closest('.unseen'))
  .map((it) => {
    let behind = it;
    while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)' && behind.parentElement)
      behind = behind.parentElement;
    return [it.textContent.trim(), getComputedStyle(it).color, getComputedStyle(behind).backgroundColor];
  })
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_sufficient_contrast(chromium: Browser, place: Place, scheme: Literal["light", "dark"]) -> None:
    place.let(4)
    with page_of(chromium, scheme=scheme) as page:
        address = place.serve("ana")
        for path in ("/", "/conversations/chat-17"):
            page.goto(f"{address}{path}")
            ground = luminance(str(page.evaluate("getComputedStyle(document.body).backgroundColor")))
            assert (ground < 0.1) == (scheme == "dark")
            for text, ink, paper in page.evaluate(COLOURS):
                bright, dim = sorted([luminance(ink), luminance(paper)], reverse=True)
                assert (bright + 0.05) / (dim + 0.05) >= 4.5, (text, ink, paper)


def test_a_call_can_be_decided_without_javascript(chromium: Browser, place: Place) -> None:
    with page_of(chromium, script=False) as page:
        page.goto(place.serve("ana"))
        page.get_by_role("link", name="transfer").click()
        edit(page)
        page.get_by_label("cents", exact=True).fill("3500")
        with page.expect_response(lambda response: "?done=call_1" in response.url):
            approve(page)
        expect(page.get_by_text("is responding")).to_be_visible()
        place.let(4)
        expect(page.get_by_text(ANSWER)).to_be_visible()  # the page reads itself again

    assert place.ledger == ["3500 to Maria, slow"]


def test_html_in_tool_arguments_is_escaped(page: Page, place: Place) -> None:
    evil = "<img src=x onerror='document.title=1'><script>document.title=2</script>"
    place.ask("chat-18", FunctionCall("transfer", {"to": evil, "cents": 1}, id="call_1"))
    open_call(page, place.serve("ana"), "chat-18")

    edit(page)
    expect(page.get_by_label("to", exact=True)).to_have_value(evil)
    assert page.evaluate("[document.images.length, document.scripts.length]") == [1, 1]
    expect(page).to_have_title("1 waiting · chat-18 · Inbox")


@pytest.mark.parametrize(("width", "scheme"), [(1000, "light"), (1000, "dark"), (390, "light")])
def test_axe_finds_no_violations_and_pages_fit(
    chromium: Browser, place: Place, width: int, scheme: Literal["dark", "light"]
) -> None:
    long, other = [
        FunctionCall("transfer", {"to": to, "cents": 1, "speed": "slow"}, id=f"call_{n}")
        for n, to in enumerate(("x" * 300, "Ben"), 1)
    ]
    place.ask("chat-18", long, other, request="first line\n" + "x" * 300)
    place.decided_elsewhere("ben@example.com")
    place.ask("chat-19")
    with page_of(chromium, scheme=scheme) as page:
        page.set_viewport_size({"width": width, "height": 800})
        address = place.serve("ana")

        def check() -> None:
            page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
            found = page.evaluate("axe.run()")
            assert [(item["id"], item["nodes"][0]["html"]) for item in found["violations"]] == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width

        page.goto(f"{address}/conversations/chat-18")
        edit(page)
        expect(page.locator(".request details")).to_have_count(2)
        check()
        page.goto(f"{address}/conversations/chat-17")
        expect(page.locator("pre.result.rejected")).to_be_visible()
        check()
        page.goto(address)
        check()
        for conversation in ("chat-18", "chat-19"):
            page.get_by_label(f"Select transfer in {conversation}").first.check()
        page.get_by_role("button", name="Approve selected").click()
        expect(page.get_by_role("heading", name="Approve 2 calls?")).to_be_visible()
        check()


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_several_calls_are_filtered_selected_and_approved(chromium: Browser, place: Place, script: bool) -> None:
    place.let(4)
    place.ask("chat-18", FunctionCall("transfer", {"to": "Ben", "cents": 7, "speed": "fast"}, id="call_1"))
    place.ask("chat-19")
    with page_of(chromium, script=script) as page:
        page.goto(place.serve("ana"))
        page.get_by_label("Search in tools").fill("ben")
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_role("heading", name="1 pending approval")).to_be_visible()
        page.get_by_role("link", name="Show all").click()
        for conversation in ("chat-17", "chat-18"):
            page.get_by_label(f"Select transfer in {conversation}").check()
        page.get_by_role("button", name="Approve selected").click()
        expect(page.locator("li.row")).to_have_count(2)
        page.get_by_role("button", name="Approve 2 calls").click()
        expect(page.get_by_role("heading", name="2 of 2 calls approved")).to_be_visible()
        page.get_by_role("link", name="chat-18").click()
        expect(page.get_by_text("ana approved it")).to_be_visible()
        expect(page.get_by_text(ANSWER)).to_be_visible()
        page.goto(page.url.replace("chat-18", "chat-17"))
        expect(page.get_by_text(ANSWER)).to_be_visible()

    assert sorted(place.ledger) == ["4000 to Maria, slow", "7 to Ben, fast"]


def test_a_selection_is_kept_if_another_call_is_decided(page: Page, place: Place) -> None:
    place.ask("chat-18")
    page.goto(place.serve("ana"))
    expect(page.locator("html[data-listening=yes]")).to_be_attached()
    page.get_by_label("Select transfer in chat-18").check()
    place.decided_elsewhere("ben@example.com")

    expect(page.get_by_role("heading", name="1 pending approval")).to_be_visible()
    expect(page.get_by_label("Select transfer in chat-18")).to_be_checked()


def test_times_are_local_with_utc_beside_them(chromium: Browser, place: Place) -> None:
    context = chromium.new_context(timezone_id="Asia/Tokyo", locale="en-US")
    try:
        page = context.new_page()
        page.goto(place.serve("ana"))
        pattern = re.compile(r"\w+ \d+, \d{4}, \d+:\d\d\s[AP]M \(\d{4}-\d\d-\d\d \d\d:\d\d UTC\)")
        shown = page.locator("time.at").first
        expect(shown).to_have_text(pattern)  # waits for the script of the page
        assert pattern.fullmatch(shown.inner_text())
    finally:
        context.close()
