"""Helpers of the inbox tests: a chat, an in-process ASGI client, and a parser of HTML forms."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from typing import Annotated, Any, Literal, cast
from urllib.parse import unquote, urlencode

import anyio
from chat_core import (
    ChatBuilder,
    ChatResponse,
    FunctionCall,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    Wait,
)
from chat_core.approvals import Principal
from chat_core.messages import Messages
from chat_core.testing import ScriptedProvider
from chat_core.testing.scripted import Scripted
from chat_store import ConversationStore, MemoryStore
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Send

WAIT = 60
"""Timeout in seconds for events that must happen."""
CALL = FunctionCall("transfer", {"to": "Maria", "cents": 4000}, id="call_1")
OTHER = FunctionCall("transfer", {"to": "Ben", "cents": 900}, id="call_2")
ANSWER = "Maria has her money."


class Item(BaseModel):
    name: str
    cents: int


class Bank:
    """Chat whose only tool requires approval, and the effects of that tool."""

    def __init__(self, *script: Scripted, expires_in: timedelta | None = None) -> None:
        self.paid: list[str] = []
        self.tools = ToolCollection()
        self.tools.tool(self.transfer)
        self.expires_in = expires_in
        self.model = ScriptedProvider(*(script or (CALL, ANSWER)), by_history=True)
        scope = ScopedCollection(self.tools, self.policy)
        self.chat: StreamingChat[ChatResponse, Paused] = (
            ChatBuilder()
            .with_model(self.model)
            .with_scoped_tools(scope)
            .with_interrupted(RequireApproval())
            .with_retry(0)
            .build()
        )

    def transfer(
        self,
        to: str,
        cents: Annotated[int, Field(gt=0)],
        purpose: str | None = None,
        speed: Literal["slow", "fast"] = "slow",
        items: list[Item] | None = None,
    ) -> str:
        """Send money to somebody."""
        del purpose, speed, items
        self.paid.append(f"{cents} to {to}")
        return f"sent {cents} cents to {to}"

    def policy(self, call: FunctionCall, meta: object) -> RequireApproval:
        del call, meta
        return RequireApproval(expires_in=self.expires_in)

    async def ask(
        self, store: ConversationStore, conversation: str = "chat-17", person: str | None = "ana@example.com"
    ) -> None:
        """Run the chat until a call waits for approval."""
        async with store.open(conversation, person=person) as opened:
            opened.messages.user("Please pay Maria.")
            await self.chat.complete(opened)


async def messages_of(store: ConversationStore, conversation: str = "chat-17") -> Messages:
    return (await store.load(conversation)).messages


async def until_condition(
    store: ConversationStore, conversation: str, condition: Callable[[Messages], bool]
) -> Messages:
    """Wait until the stored conversation satisfies a condition, and return it."""
    cursor: str | None = None
    with anyio.fail_after(WAIT):
        while True:
            cursor = (await store.changes(cursor, wait_seconds=1)).cursor
            messages = await messages_of(store, conversation)
            if condition(messages):
                return messages


async def until_answered(store: ConversationStore, conversation: str = "chat-17") -> str:
    """Wait until the conversation ends with a model turn without calls, and return its text."""

    def answered(messages: Messages) -> bool:
        last = messages.last
        return last is not None and last.role == "model" and not last.turns[-1].tools

    return (await until_condition(store, conversation, answered))[-1].turns[-1].text


def later(**terms: float) -> datetime:
    return datetime.now(UTC) + timedelta(**terms)


async def by_header(request: Request) -> str | None:
    """Authenticate by the header `x-person`."""
    return request.headers.get("x-person")


def anyone(_principal: Principal, _wait: Wait, /) -> bool:
    """Let every authenticated person decide."""
    return True


def only_ana(principal: Principal, _wait: Wait, /) -> bool:
    """Let one person decide."""
    return principal.name == "ana@example.com"


# --- A client ---------------------------------------------------------------------------------------------------------


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def forms(self) -> list[Form]:
        return forms_of(self.text)


@dataclass
class Event:
    name: str
    data: Any
    id: str


@dataclass
class Client:
    """In-process client of an ASGI application, used as a browser or a program."""

    app: ASGIApp
    person: str | None = "ana"
    address: tuple[str, int] = ("127.0.0.1", 5000)
    host: str = "127.0.0.1:8000"
    site: str | None = "same-origin"
    cookies: dict[str, str] = field(default_factory=dict[str, str])

    def scope(self, method: str, url: str, headers: Mapping[str, str]) -> MutableMapping[str, Any]:
        path, _, query = url.partition("#")[0].partition("?")
        sent = {"host": self.host, **headers}
        if self.person is not None:
            sent.setdefault("x-person", self.person)
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "client": self.address,
            "server": ("127.0.0.1", 8000),
            "state": {},
        }

    async def _serve(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    async def request(self, method: str, url: str, /, body: bytes = b"", **headers: str) -> Answer:
        """Send a request. Underscores in header names become hyphens."""
        sent = [{"type": "http.request", "body": body, "more_body": False}]
        start: dict[str, Any] = {}
        chunks: list[bytes] = []

        async def receive() -> Message:
            if sent:
                return sent.pop()
            await anyio.sleep_forever()
            raise AssertionError

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                chunks.append(message.get("body", b""))

        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.app(self.scope(method, url, named), receive, send)
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        if "set-cookie" in found:
            self.cookies |= {name: morsel.value for name, morsel in SimpleCookie(found["set-cookie"]).items()}
        return Answer(start["status"], found, b"".join(chunks))

    async def get(self, url: str, **headers: str) -> Answer:
        return await self.request("GET", url, b"", **headers)

    async def post(self, url: str, content: object, **headers: str) -> Answer:
        """Send JSON, as a program does."""
        return await self.request("POST", url, json.dumps(content).encode(), content_type="application/json", **headers)

    async def submit(self, form: Form, button: str = "", **fields: str) -> Answer:
        """Submit a form like a browser, with some fields edited."""
        sent = {**form.fields, **{form.names[label]: value for label, value in fields.items()}, **form.button(button)}
        body = urlencode({name: value.replace("\n", "\r\n") for name, value in sent.items()})
        if form.method == "get":
            return await self.get(f"{form.action}?{body}")
        kind, site = "application/x-www-form-urlencoded", self.site
        if site is None:
            return await self.request("POST", form.action, body.encode(), content_type=kind)
        return await self.request("POST", form.action, body.encode(), content_type=kind, sec_fetch_site=site)

    @asynccontextmanager
    async def follow(self, url: str, **headers: str) -> AsyncGenerator[AsyncIterator[Event]]:
        """Open an event stream until the context exits."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        source, events = anyio.create_memory_object_stream[bytes](1000)
        left = anyio.Event()

        async def receive() -> Message:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                assert message["status"] == 200
            else:
                await source.send(message.get("body", b""))

        with source, events:
            async with anyio.create_task_group() as group:
                group.start_soon(self._serve, self.scope("GET", url, named), receive, send)
                with anyio.fail_after(WAIT):
                    assert (await events.receive()).startswith(b": listening")
                    async with aclosing(_events(events)) as parsed:
                        yield parsed
                    left.set()


async def _events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Event]:
    async for chunk in chunks:
        fields = dict(
            cast("list[tuple[str, str]]", [line.split(": ", 1) for line in chunk.decode().split("\n") if line])
        )
        if "event" in fields:
            yield Event(fields["event"], json.loads(fields["data"]), fields["id"])


async def until(events: AsyncIterator[Event], name: str) -> Event:
    """Return the next event with this name."""
    async for event in events:
        if event.name == name:
            return event
    raise AssertionError


# --- Forms ------------------------------------------------------------------------------------------------------------


@dataclass
class Form:
    """Parsed HTML form: the fields it submits, its checkboxes, and the labels of its fields and buttons."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict[str, str])
    names: dict[str, str] = field(default_factory=dict[str, str])
    options: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    buttons: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    boxes: dict[str, str] = field(default_factory=dict[str, str])
    invalid: set[str] = field(default_factory=set[str])

    def button(self, label: str) -> dict[str, str]:
        if not label:
            return {}
        name, value = self.buttons[label]
        return {name: value} if name else {}

    def choose(self, label: str, option: str) -> dict[str, str]:
        """Return the field value that selects an option."""
        return {label: self.options[self.names[label]][option]}


class _Reader(HTMLParser):
    """Parser of HTML forms, limited to the elements that the templates use."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._form: Form | None = None
        self._text: list[str] | None = None
        self._name = ""
        self._value = ""
        self._ids: dict[str, str] = {}
        self._labels: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = Form(attributes["action"], attributes.get("method", "get"))
            self.forms.append(self._form)
        if self._form is None:
            return
        self._begin(tag, attributes, self._form)

    def _begin(self, tag: str, attributes: dict[str, str], form: Form) -> None:
        name = attributes.get("name", "")
        if "id" in attributes:
            self._ids[attributes["id"]] = name
        if attributes.get("aria-invalid") == "true":
            form.invalid.add(name)
        match tag:
            case "input":
                checkbox = attributes.get("type") == "checkbox"
                (form.boxes if checkbox else form.fields)[name] = attributes.get("value", "")
            case "select":
                self._name = name
                form.names.setdefault(attributes.get("aria-label", ""), name)
            case "option":
                self._text, self._value = [], attributes["value"]
                form.fields.setdefault(self._name, attributes["value"])
                if "selected" in attributes:
                    form.fields[self._name] = attributes["value"]
            case "textarea":
                self._name, self._text = name, []
            case "button":
                self._text, self._name, self._value = [], name, attributes.get("value", "")
            case "label":
                self._text, self._value = [], attributes["for"]
            case _:
                pass

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        form = self._form
        if form is None:
            return
        text = "".join(self._text or [])
        match tag:
            case "form":
                for name, label in self._labels:
                    form.names.setdefault(label, self._ids[name])
                self._labels, self._form = [], None
            case "textarea":
                form.fields[self._name] = text.removeprefix("\n")
            case "option":
                form.options.setdefault(self._name, {})[text.strip()] = self._value
            case "button":
                form.buttons[text.strip()] = (self._name, self._value)
            case "label":
                self._labels.append((self._value, text.strip()))
            case _:
                return
        self._text = None


def forms_of(page: str) -> list[Form]:
    """Return the forms of a page."""
    reader = _Reader()
    reader.feed(page.replace("\r\n", "\n").replace("\r", "\n"))
    reader.close()
    return reader.forms


def form_for(answer: Answer, call: str = "call_1") -> Form:
    """Return the form of a call."""
    (form,) = [form for form in answer.forms if form.fields.get("call") == call]
    return form


def store() -> MemoryStore:
    return MemoryStore()
