"""Ten tasks with several tool calls, solved by separate calls and by one program: requests and input tokens.

The model is scripted, so the table shows the cost of the protocol and not the ability of a model. Tokens are estimates
of this library. Run `python benchmarks/code_mode.py`; the guide docs/guides/code-mode.md contains the table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chat_core import (
    Chat,
    ChatBuilder,
    ChatResponse,
    Completed,
    Execute,
    FunctionCall,
    Messages,
    ScopedCollection,
    ToolCollection,
)
from chat_core.testing import ScriptedProvider
from chat_pipeline import code_tool

CITIES = ("Berlin", "Lisbon", "Oslo", "Rome", "Vienna")
OPEN = 7  # the only open order of a page
LAST = 5  # the last page


@dataclass(frozen=True)
class Job:
    """A task: the calls of each model turn, and a program that makes the same calls.

    Attributes:
        name: description of the task.
        turns: the calls, by turn.
        program: the program.
    """

    name: str
    turns: Sequence[Sequence[tuple[str, dict[str, object]]]]
    program: str


def order(number: int) -> tuple[str, dict[str, object]]:
    """Return a call of `order`."""
    return "order", {"number": number}


def weather(city: str) -> tuple[str, dict[str, object]]:
    """Return a call of `weather`."""
    return "weather", {"city": city}


JOBS = (
    Job("two orders, one after the other", [[order(1)], [order(2)]], "[await order(1), await order(2)]"),
    Job(
        "five orders at once",
        [[order(n) for n in range(5)]],
        "import asyncio\nawait asyncio.gather(*[order(n) for n in range(5)])",
    ),
    Job(
        "the sum of five orders",
        [[order(n)] for n in range(5)],
        "sum([(await order(n))['cents'] for n in range(5)])",
    ),
    Job(
        "the sum of twenty orders at once",
        [[order(n) for n in range(20)]],
        "import asyncio\nsum(o['cents'] for o in await asyncio.gather(*[order(n) for n in range(20)]))",
    ),
    Job(
        "the warmest of five cities",
        [[weather(city) for city in CITIES]],
        f"import asyncio\nfound = await asyncio.gather(*[weather(c) for c in {CITIES}])\n"
        "max(found, key=lambda w: w['c'])",
    ),
    Job(
        "an order, then its customer",
        [[order(3)], [("customer", {"id": "c3"})]],
        "o = await order(3)\nawait customer(o['customer'])",
    ),
    Job(
        "five orders, then their customers",
        [[order(n) for n in range(5)], [("customer", {"id": f"c{n}"}) for n in range(5)]],
        "import asyncio\nos = await asyncio.gather(*[order(n) for n in range(5)])\n"
        "[c['name'] for c in await asyncio.gather(*[customer(o['customer']) for o in os])]",
    ),
    Job(
        "pages of a list until the last",
        [[("page", {"number": n})] for n in range(6)],
        "n, found = 0, 0\nwhile True:\n    p = await page(n)\n    found += len(p['items'])\n"
        "    if p['last']: break\n    n += 1\nfound",
    ),
    Job(
        "one of twenty items of a page",
        [[("page", {"number": 0})], [order(7)]],
        "p = await page(0)\nawait order([i for i in p['items'] if i['open']][0]['number'])",
    ),
    Job(
        "order, customer, weather, message",
        [[order(4)], [("customer", {"id": "c4"})], [weather("Vienna")], [("send", {"to": "c4", "text": "19"})]],
        "o = await order(4)\nc = await customer(o['customer'])\nw = await weather(c['city'])\n"
        "await send(c['id'], str(w['c']))",
    ),
)


def scope() -> ScopedCollection[Any]:
    """Return the tools. Every call is allowed."""
    tools = ToolCollection[Any]()

    @tools.tool
    def order(number: int) -> dict[str, object]:
        """Return an order: number, cents, customer and its positions."""
        positions = [{"sku": f"A-{number}-{n}", "cents": 100 + n, "text": "a position of the order"} for n in range(5)]
        return {"number": number, "cents": 510, "customer": f"c{number}", "positions": positions}

    @tools.tool
    def customer(id: str) -> dict[str, object]:
        """Return a customer: id, name, city and address."""
        return {"id": id, "name": f"Customer {id}", "city": CITIES[int(id[1:]) % 5], "address": "12 Long Street"}

    @tools.tool
    def weather(city: str) -> dict[str, object]:
        """Return the temperature (c) of a city, and its forecast."""
        return {"city": city, "c": 15 + len(city), "forecast": [{"hour": h, "c": 15 + h % 7} for h in range(24)]}

    @tools.tool
    def page(number: int) -> dict[str, object]:
        """Return a page of open and closed orders: items and whether it is the last page."""
        items = [{"number": n, "open": n == OPEN, "text": "an order of the list"} for n in range(20)]
        return {"items": items, "last": number == LAST}

    @tools.tool
    def send(to: str, text: str) -> str:
        """Send a message to a customer."""
        return f"sent {text} to {to}"

    return ScopedCollection(tools, lambda _call, _meta: Execute())


async def measure(job: Job, *, code: bool) -> tuple[int, int]:
    """Run a task, and return the number of requests and the input tokens of all requests."""
    if code:
        model = ScriptedProvider(FunctionCall("run_code", {"program": job.program}), "done")
    else:
        model = ScriptedProvider(*[[FunctionCall(*call) for call in turn] for turn in job.turns], "done")
    used = code_tool(scope()) if code else scope()
    chat: Chat[ChatResponse, Any] = ChatBuilder().with_model(model).with_scoped_tools(used).build()
    messages = Messages.from_user(job.name)
    await chat.complete(messages)
    for turn in [turn for content in messages for turn in content.turns]:
        for tool in turn.tools:
            if not isinstance(tool.status, Completed):
                msg = f"{job.name}: {tool!r}"
                raise SystemExit(msg)
    tokens = 0
    for asked in model.asked:
        tokens += (await chat.count_tokens(asked.messages)).tokens
    return len(model.asked), tokens


async def main() -> None:
    """Print the table."""
    print("| task | requests, calls | requests, code | input tokens, calls | input tokens, code |")
    print("|---|---:|---:|---:|---:|")
    totals = [0, 0, 0, 0]
    for job in JOBS:
        plain, code = await measure(job, code=False), await measure(job, code=True)
        row = [plain[0], code[0], plain[1], code[1]]
        totals = [left + right for left, right in zip(totals, row, strict=True)]
        print(f"| {job.name} | {' | '.join(f'{value:,}' for value in row)} |")
    print(f"| all | {' | '.join(f'{value:,}' for value in totals)} |")


if __name__ == "__main__":
    asyncio.run(main())
