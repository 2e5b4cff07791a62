"""The inbox in a real browser: what is edited is what runs, and a page that is out of date says so."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from chat_core import FunctionCall
from playwright.sync_api import Browser, Page, Route, expect

from .conftest import Place
from .test_inbox import ANSWER, approve, edit, open_call, page_of


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    with page_of(chromium) as page:
        yield page


@pytest.fixture
def booking(place: Place) -> Place:
    """A store in which a reservation in `chat-18` waits, without its optional arguments."""
    place.let(4)
    place.ask("chat-18", FunctionCall("book", {"room": "blue"}, id="call_1"))
    return place


def state(page: Page, name: str) -> str:
    return page.get_by_label(f"{name}: value or none").input_value()


@pytest.mark.parametrize("name", ["until", "seats"])
def test_a_half_typed_value_is_not_dropped(page: Page, booking: Place, name: str) -> None:
    open_call(page, booking.serve("ana"), "chat-18")
    edit(page)
    field = page.get_by_label(name, exact=True)
    field.focus()
    page.keyboard.type("1" if name == "until" else "1e")
    page.get_by_text("Edit the arguments").click()
    approve(page)

    expect(field).to_be_focused()
    assert booking.ledger == []
    field.fill("2030-01-31" if name == "until" else "3")
    approve(page)
    expect(page.get_by_text(ANSWER)).to_be_visible()
    assert booking.ledger == ["blue until 2030-01-31, None seats" if name == "until" else "blue until None, 3 seats"]


def test_a_typed_value_is_used_unless_it_is_left_out_on_purpose(page: Page, booking: Place) -> None:
    open_call(page, booking.serve("ana"), "chat-18")
    edit(page)
    seats = page.get_by_label("seats", exact=True)
    assert state(page, "seats") == "absent"
    seats.fill("3")
    assert state(page, "seats") == "value"
    seats.fill("")
    assert state(page, "seats") == "absent"
    seats.fill("3")
    page.get_by_label("until", exact=True).fill("2030-01-31")
    page.get_by_label("seats: value or none").select_option("absent")
    approve(page)

    expect(page.get_by_text(ANSWER)).to_be_visible()
    assert booking.ledger == ["blue until 2030-01-31, None seats"]


def test_going_back_restores_no_edit(page: Page, booking: Place) -> None:
    open_call(page, booking.serve("ana"), "chat-18")
    edit(page)
    page.get_by_label("seats: value or none").select_option("null")
    page.get_by_role("link", name="Pending approvals").click()
    expect(page.get_by_role("heading", name="2 pending approvals")).to_be_visible()
    page.go_back()
    expect(page.get_by_text("Edit the arguments")).to_be_visible()

    assert state(page, "seats") == "absent"


def test_fields_are_readable_on_a_phone(page: Page, booking: Place) -> None:
    page.set_viewport_size({"width": 320, "height": 700})
    open_call(page, booking.serve("ana"), "chat-18")
    edit(page)
    box = page.get_by_label("until", exact=True).bounding_box()

    assert box is not None
    assert box["width"] > 200


def refuse_updates(page: Page, address: str, status: int) -> list[int]:
    """Answer requests for a conversation with a status, until the returned list is cleared."""
    statuses = [status]
    page.route(address, lambda route: route.fulfill(status=statuses[0]) if statuses else route.continue_())
    return statuses


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "You may not see this page any more: load it again to sign in."),
        (404, "This page no longer exists."),
        (502, "The page could not be updated, and may be out of date."),
    ],
)
def test_a_page_that_cannot_be_updated_says_so(page: Page, place: Place, status: int, message: str) -> None:
    address = place.serve("ana")
    open_call(page, address)
    refuse_updates(page, f"{address}/conversations/chat-17", status)
    place.decided_elsewhere("ben@example.com")
    alert = page.locator("#said.alert")
    expect(alert).to_be_visible()

    assert alert.inner_text() == message


def test_a_page_is_updated_again_after_an_error_of_the_server(page: Page, place: Place) -> None:
    address = place.serve("ana")
    open_call(page, address)
    statuses = refuse_updates(page, f"{address}/conversations/chat-17", 502)
    place.decided_elsewhere("ben@example.com")
    expect(page.locator("#said.alert")).to_be_visible()
    statuses.clear()
    expect(page.get_by_text("ben@example.com rejected it")).to_be_visible()

    assert page.locator("#said.alert").count() == 0


def test_a_page_names_the_person_who_is_signed_in(page: Page, place: Place) -> None:
    place.ask("chat-18", *[FunctionCall("transfer", {"to": "Bob", "cents": 1}, id=f"call_{n}") for n in (1, 2)])
    ana, ben = place.serve("ana"), place.serve("ben")
    open_call(page, ana, "chat-18")
    other = page.request.get(f"{ben}/conversations/chat-18")
    page.route(f"{ana}/conversations/chat-18", lambda route: route.fulfill(response=other))
    shown = page.locator(".who")
    assert shown.inner_text() == "You are ana"
    place.decided_elsewhere("carl@example.com", "chat-18")
    expect(shown).not_to_have_text("You are ana")

    assert shown.inner_text() == "You are ben"


def change_versions(page: Page, address: str) -> None:
    """Change the versions of all calls in the pages that the script reads, and let it read its page."""

    def change(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, body=re.sub(r"\b\d+-[0-9a-f]{16}\b", "9-0123456789abcdef", response.text()))

    page.route(address, change)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_what_was_written_moves_into_the_form_of_a_changed_call(page: Page, place: Place) -> None:
    address = place.serve("ana")
    open_call(page, address)
    page.get_by_text("Add a note for the record").click()
    page.get_by_label("Note for the record").fill("asked Maria")
    edit(page)
    page.get_by_label("cents", exact=True).fill("77")
    reason = page.get_by_label("Reason, for the model")
    reason.fill("not this month")
    change_versions(page, f"{address}/conversations/chat-17")
    lost = page.get_by_role("alert")
    expect(lost).to_contain_text("Your edits of transfer were dropped: the call has changed.\ncents: 77")

    expect(page.get_by_label("cents", exact=True)).to_have_value("4000")
    expect(reason).to_have_value("not this month")
    expect(page.get_by_label("Note for the record")).to_be_visible()
    expect(page.get_by_label("Note for the record")).to_have_value("asked Maria")
    page.get_by_role("button", name="Dismiss").click()
    expect(lost).to_be_hidden()


def test_a_reason_stays_readable_if_another_user_has_decided(chromium: Browser, page: Page, place: Place) -> None:
    address = place.serve("ana")
    open_call(page, address)
    page.get_by_label("Reason, for the model").fill("not this month")
    with page_of(chromium, script=False) as plain:
        plain.goto(f"{address}/conversations/chat-17")
        plain.get_by_label("Reason, for the model").fill("not this month")
        place.decided_elsewhere("ben@example.com")
        plain.get_by_role("button", name="Reject").click()
        expect(plain.get_by_role("alert").filter(has_text="You wrote: not this month")).to_be_visible()

    expect(page.get_by_text("This was not sent, because the call has changed: not this month")).to_be_visible()


def test_edits_of_a_refused_form_stay_readable_if_another_user_decides(
    chromium: Browser, page: Page, place: Place
) -> None:
    address = place.serve("ana")
    with page_of(chromium, script=False) as plain:
        open_call(page, address)
        plain.goto(f"{address}/conversations/chat-17")
        for each in (page, plain):
            edit(each)
            each.get_by_label("to", exact=True).fill("Mira")
            each.get_by_label("cents", exact=True).fill("2.5")
            approve(each)
            expect(each.get_by_role("alert").first).to_contain_text("Nothing was decided yet")
        place.decided_elsewhere("ben@example.com")
        lost = page.locator("#lost")
        expect(lost).to_contain_text("Your edits of transfer were dropped: the call has changed.\nto: Mira\ncents: 2.5")
        approve(plain)
        alert = plain.get_by_role("alert").filter(has_text="ben@example.com rejected transfer")
        expect(alert).to_contain_text("You edited: to: Mira\nYou edited: cents: 2.5", use_inner_text=True)


def test_a_decision_of_this_page_reports_no_lost_edits(page: Page, place: Place) -> None:
    place.let(4)
    open_call(page, place.serve("ana"))
    edit(page)
    page.get_by_label("cents", exact=True).fill("77")
    approve(page)
    expect(page.get_by_text(ANSWER)).to_be_visible()

    expect(page.locator("#lost")).to_be_hidden()


def test_an_approval_with_a_reason_is_not_stored_and_keeps_the_reason(page: Page, place: Place) -> None:
    place.let(4)
    open_call(page, place.serve("ana"))
    reason = page.get_by_label("Reason, for the model")
    reason.fill("not this month")
    approve(page)
    expect(page.get_by_role("alert").first).to_contain_text("the model receives a reason only if you reject")
    expect(reason).to_have_value("not this month")
    assert place.ledger == []
    reason.fill("")
    approve(page)
    expect(page.get_by_text(ANSWER)).to_be_visible()

    assert place.ledger == ["4000 to Maria, slow"]


def test_a_selection_that_is_dropped_is_named(page: Page, place: Place) -> None:
    place.ask("chat-18")
    address = place.serve("ana")
    page.goto(address)
    expect(page.locator("html[data-listening=yes]")).to_be_attached()
    for conversation in ("chat-17", "chat-18"):
        page.get_by_label(f"Select transfer in {conversation}").check()
    place.decided_elsewhere("ben@example.com")
    lost = page.locator("#lost")
    expect(lost).to_contain_text("transfer in chat-17 is no longer selected")
    expect(page.get_by_label("Select transfer in chat-18")).to_be_checked()
    change_versions(page, f"{address}/")
    expect(lost).to_contain_text("transfer in chat-18 is no longer selected")

    expect(page.get_by_label("Select transfer in chat-18")).not_to_be_checked()


def test_filters_list_the_tools_of_new_calls_and_keep_a_choice(page: Page, place: Place) -> None:
    place.decided_elsewhere("ben@example.com")
    page.goto(place.serve("ana"))
    expect(page.locator("html[data-listening=yes]")).to_be_attached()
    expect(page.get_by_label("Tool", exact=True)).to_have_count(0)
    place.ask("chat-18")
    page.get_by_label("Tool", exact=True).select_option("transfer")
    place.ask("chat-19", FunctionCall("book", {"room": "blue"}, id="call_1"))
    options = page.get_by_label("Tool", exact=True).locator("option")
    expect(options).to_have_text(["all tools", "book", "transfer"])

    expect(page.get_by_label("Tool", exact=True)).to_have_value("transfer")


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_going_back_after_a_decision_about_several_calls_sends_no_form(
    chromium: Browser, place: Place, script: bool
) -> None:
    place.let(4)
    with page_of(chromium, script=script) as page:
        page.goto(place.serve("ana"))
        page.get_by_label("Select transfer in chat-17").check()
        page.get_by_role("button", name="Approve selected").click()
        page.get_by_role("button", name="Approve 1 call").click()
        expect(page.get_by_role("heading", name="1 of 1 call approved")).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name="1 of 1 call approved")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="Nothing to approve")).to_be_visible()
        expect(page.get_by_text("ana approved transfer")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name=re.compile("pending"))).to_be_visible()
    assert place.ledger == ["4000 to Maria, slow"]


def test_edits_are_announced_until_they_are_undone(page: Page, place: Place) -> None:
    place.let(4)
    open_call(page, place.serve("ana"))
    edited = page.get_by_text("You have edited the arguments")
    expect(edited).to_be_hidden()
    edit(page)
    cents = page.get_by_label("cents", exact=True)
    cents.fill("77")
    page.get_by_text("Edit the arguments").click()
    expect(edited).to_be_visible()
    edit(page)
    cents.fill("4000")
    expect(edited).to_be_hidden()
    cents.fill("1.5")
    approve(page)
    expect(page.get_by_role("alert").first).to_be_visible()

    expect(edited).to_be_visible()


def test_a_click_on_a_button_that_has_just_moved_decides_nothing(page: Page, place: Place) -> None:
    place.ask("chat-18", *[FunctionCall("transfer", {"to": "Bob", "cents": n}, id=f"call_{n}") for n in (1, 2)])
    address = place.serve("ana")
    open_call(page, address, "chat-18")
    # The click comes in the same task in which the change is shown.
    click = "button.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true, detail: 1}))"
    page.evaluate(
        "new MutationObserver(() => { const button = document.querySelector('.card.waits button[value=approve]');"
        f" {click}; }}).observe(document.getElementById('said'), {{childList: true}})"
    )
    place.decided_elsewhere("ben@example.com", "chat-18")
    expect(page.locator("#lost")).to_contain_text("The page changed as you clicked, so nothing was sent.")

    assert page.url == f"{address}/conversations/chat-18"
    assert place.ledger == []


def test_the_way_back_leads_to_the_list_with_its_filters(page: Page, place: Place) -> None:
    place.let(4)
    address = place.serve("ana")
    page.goto(f"{address}/?tool=transfer&sort=newest")
    page.get_by_role("link", name="transfer").click()
    approve(page)
    expect(page.get_by_text(ANSWER)).to_be_visible()
    expect(page.get_by_text("Approved.")).to_be_visible()
    expect(page).not_to_have_url(re.compile("done"))
    page.get_by_role("link", name="Pending approvals").click()

    expect(page).to_have_url(f"{address}/?tool=transfer&sort=newest")


@pytest.mark.parametrize("length", [1900, 2100])
def test_values_are_expanded_where_a_decision_is_made(page: Page, place: Place, length: int) -> None:
    place.ask("chat-18", FunctionCall("transfer", {"to": "to\n" + "x" * length, "cents": 1}, id="call_1"))
    address = place.serve("ana")
    page.goto(f"{address}/?conversation=chat-18")
    text = page.locator("dd pre")
    expect(text).to_be_hidden()
    page.get_by_label("Select transfer in chat-18").check()
    page.get_by_role("button", name="Approve selected").click()
    expect(text).to_be_visible(visible=length < 2000)
    open_call(page, address, "chat-18")
    expect(text).to_be_visible(visible=length < 2000)


def test_a_reason_is_sent_again_for_a_call_that_was_refused(page: Page, place: Place) -> None:
    place.ask("chat-18")
    page.goto(place.serve("ana"))
    for conversation in ("chat-17", "chat-18"):
        page.get_by_label(f"Select transfer in {conversation}").check()
    page.get_by_role("button", name="Reject selected").click()
    page.get_by_label("Reason, for the model").fill("not this month")
    place.decided_elsewhere("ben@example.com")
    page.locator("input[name='call:chat-18/call_1']").evaluate("input => input.value = '0-0'")
    page.get_by_role("button", name="Reject 2 calls").click()
    expect(page.get_by_role("heading", name="0 of 2 calls rejected")).to_be_visible()
    expect(page.get_by_text("Your reason: not this month")).to_be_visible()
    page.get_by_role("button", name="Reject the call that can still be decided").click()
    expect(page.get_by_label("Reason, for the model")).to_have_value("not this month")
    page.get_by_role("button", name="Reject 1 call").click()

    expect(page.get_by_role("heading", name="1 of 1 call rejected")).to_be_visible()
