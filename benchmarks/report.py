"""Reports of benchmark results: Markdown tables for the page and the README, JSON, and a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from math import log10
from typing import Any, Final

from measure import Measured
from rows import Row

NAMES: Final = {
    "chat": "this library",
    "chat-httpx": "this library, over httpx",
    "chat-httpx2": "this library, over an httpx2 client that is passed in",
    "chat-aiohttp": "this library, over aiohttp",
    "chat-provider": "this library, a chat and its provider made",
    "chat-values": "an injected value",
    "chat-instructions": "an instructions function",
    "chat-context": "a context policy",
    "chat-middleware": "a middleware",
    "chat-outputs": "tool outputs",
    "chat-jobs": "a job",
    "chat-posts": "posted input",
    "chat-agent": "an agent",
    "chat-router": "a router",
    "chat-talk": "a talk",
    "raw-by-hand": "writing by hand",
    "raw-httpx": "raw httpx",
    "raw-httpx2": "raw httpx2",
    "bytes-httpx": "raw httpx, bytes counted only",
    "sockets": "sockets by hand",
    "openai": "openai",
    "openai-responses": "openai",
    "pydantic-ai-direct": "pydantic-ai, direct",
    "pydantic-ai": "pydantic-ai, agent",
    "openai-agents": "openai-agents",
}
"""Display names of clients in the tables. A client without an entry appears under its own name."""

BEGIN: Final = "<!-- measured -->"
END: Final = "<!-- end -->"


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one row.

    Attributes:
        load: system load average over the last minute, taken when the row ended.
        beyond: the number of modules that our import loads beyond the baseline, for the row of imports.
        limit: the ratio measured in the same run for the row named in `row.like`.
        table: the lines of a custom table that replaces the default one.
        at: the time at which the row ended.
    """

    row: Row
    measured: Sequence[Measured]
    load: float
    beyond: int | None = None
    limit: float | None = None
    table: Sequence[str] = ()
    at: str = ""
    measurement: Measured = field(init=False)

    def __post_init__(self) -> None:
        # The target applies to the first client.
        object.__setattr__(self, "measurement", self.measured[0])

    @property
    def fastest(self) -> Measured | None:
        """Result of this library over aiohttp, or None if the row has no target for it."""
        found = [item for item in self.measured if item.who == FASTEST and self.row.fastest is not None]
        return found[0] if found else None

    @property
    def met(self) -> bool:
        """Whether the result meets all targets of the row."""
        row, ours = self.row, self.measurement
        return (
            not ours.failure
            and (row.target is None or ours.ratio <= row.target)
            # Compare with the precision of the report.
            and (self.limit is None or round(ours.ratio, 2) <= round(self.limit, 2))
            and _within(self.fastest, row.fastest)
            and (row.most_us is None or ours.us <= row.most_us)
            and (row.most_mb is None or ours.grown <= row.most_mb)
            and (self.beyond is None or self.beyond <= MODULES)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON-compatible dict."""
        measured = [asdict(item) for item in self.measured]
        return {"name": self.row.name, "target": self.row.target, "met": self.met, "load": self.load} | {
            "beyond": self.beyond,
            "limit": self.limit,
            "table": list(self.table),
            "measured": measured,
        }


def _within(fastest: Measured | None, target: float | None) -> bool:
    return target is None or (fastest is not None and not fastest.failure and fastest.ratio <= target)


FASTEST: Final = "chat-aiohttp"
MODULES: Final = 150
"""Maximum number of modules that our import may load beyond those of pydantic."""


def name_of(who: str) -> str:
    """Return the display name of a client."""
    return NAMES.get(who, who)


def number(value: float) -> str:
    """Format a ratio or a number of microseconds with about three significant digits."""
    if value >= 100:  # noqa: PLR2004 - three digits are enough
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"  # noqa: PLR2004 - as above


def targets_of(result: Result) -> str:
    """Describe the targets of a row."""
    row = result.row
    words = [f"≤ {row.target:g}"] if row.target is not None else []
    if row.linear is not None:
        words[-1] += f" (linear would be {row.linear:g})"
    if result.limit is not None:
        words.append(f"≤ {number(result.limit)}, which 10 steps reached in this run")
    if row.fastest is not None:
        words.append(f"≤ {row.fastest:g} over aiohttp")
    if row.most_us is not None:
        words.append(f"≤ {row.most_us:g} µs a {row.unit}")
    if row.most_mb is not None:
        words.append(f"≤ {row.most_mb:g} MB")
    if row.kind == "import":
        words.append(f"≤ {MODULES} modules beyond it")
    return ", ".join(words) or "reported"


def reached(result: Result) -> str:
    """Describe the values measured for the targets of a row."""
    row, ours = result.row, result.measurement
    if ours.failure:
        return f"failed: {ours.failure}"
    if row.kind == "checkpoints":
        return ", ".join([f"{item.who} {item.failure or f'{number(item.us)} µs'}" for item in result.measured])
    if row.baseline == "chat":
        return ", ".join([f"{name_of(item.who)} {item.failure or number(item.ratio)}" for item in result.measured])
    words = [number(ours.ratio)] if row.target is not None else []
    if fastest := result.fastest:
        words.append(f"{fastest.failure or number(fastest.ratio)} over aiohttp")
    if row.most_us is not None:
        words.append(f"{number(ours.us)} µs")
    if row.most_mb is not None:
        words.append(f"{ours.grown:.0f} MB")
    if result.beyond is not None:
        words.append(f"{result.beyond} modules beyond it")
    return ", ".join(words)


def readme(results: Sequence[Result]) -> str:
    """Return the Markdown table of the README."""
    lines = ["| work | ratio to raw httpx, median | interquartile range | target |", "|---|---|---|---|"]
    for result in results:
        ours, row = result.measurement, result.row
        if row.kind == "ratio" and row.baseline == "raw-httpx" and row.target is not None:
            spread = f"{number(ours.low)} to {number(ours.high)}"
            lines.append(f"| {row.what} | {number(ours.ratio)} | {spread} | ≤ {row.target:g} |")
    return "\n".join(lines)


def page(results: Sequence[Result], circumstances: str) -> str:
    """Return the summary table and a section per row, in Markdown."""
    lines = [circumstances, "", "| work | result | target | other libraries |", "|---|---|---|---|"]
    lines += [_row(result) for result in results]
    for result in results:
        lines += ["", *_section(result)]
    return "\n".join(lines)


def _row(result: Result) -> str:
    others = [item for item in result.measured if item.who in result.row.peers]
    peers = ", ".join([f"{name_of(item.who)} {_briefly(item, result.row)}" for item in others])
    mark = "" if result.met else " **(not yet)**"
    return f"| {result.row.what} | {reached(result)}{mark} | {targets_of(result)} | {peers} |"


def _briefly(item: Measured, row: Row) -> str:
    if item.failure:
        return "not measured"
    return f"{number(item.us)} µs" if row.most_us is not None else number(item.ratio)


def _section(result: Result) -> list[str]:
    row = result.row
    # Headings are read without the row above, so they need the full title.
    title = row.heading or row.what
    ended = [f"Measured at {result.at} UTC. The load of the machine was {result.load:.1f}.", ""] if result.at else []
    note = [row.note, ""] if row.note else []
    if result.table:
        return [f"### {title[0].upper()}{title[1:]}", "", *note, *ended, *result.table]
    unit = {"growth": "the smaller one", "import": "pydantic"}.get(row.kind, name_of(row.baseline))
    memory = row.most_mb is not None
    titles = f"client | ratio to {unit}, median | interquartile range | pairs | CPU time of one {row.unit}"
    lines = [
        f"### {title[0].upper()}{title[1:]}",
        "",
        *note,
        *ended,
        f"| {titles} |{' memory |' if memory else ''}",
        f"|---|---|---|---|---|{'---|' if memory else ''}",
    ]
    for item in result.measured:
        grown = f" {item.grown:.0f} MB |" if memory else ""
        spread = f"{number(item.low)} to {number(item.high)}"
        cells = f"{number(item.ratio)} | {spread} | {item.pairs} | {number(item.us)} µs |{grown}"
        if item.failure:
            cells = f"not measured: {item.failure} | | | |{' |' if memory else ''}"
        lines.append(f"| {name_of(item.who)} | {cells}")
    return lines


def put(text: str, generated: str) -> str:
    """Replace the text between the markers of a page.

    Raises:
        ValueError: the page has no markers.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        msg = f"the page has no {BEGIN} … {END} to write between"
        raise ValueError(msg)
    return f"{before}{begin}\n\n{generated}\n\n{end}{after}"


def with_remeasured_rows(text: str, results: Sequence[Result], order: Sequence[str], note: str) -> str:
    """Replace the remeasured rows in a page.

    Args:
        text: the page.
        results: the results of the remeasured rows.
        order: the names of all rows, in the order of the page.
        note: a note on the new measurement, inserted above the summary table.

    Returns:
        The updated page.

    Raises:
        ValueError: the page does not contain all rows.
    """
    before, begin, rest = text.partition(BEGIN)
    generated, end, after = rest.partition(END)
    summary, *sections = generated.strip().split("\n\n### ")
    header, line, table = summary.partition("\n|---|---|---|---|\n")
    rows = table.split("\n")
    if not end or len(rows) != len(order) or len(sections) != len(order):
        msg = f"the page has {len(rows)} rows of {len(order)}: measure all of them first"
        raise ValueError(msg)
    for result in results:
        place = order.index(result.row.name)
        rows[place] = _row(result)
        sections[place] = "\n".join(_section(result)).removeprefix("### ")
    head, _, titles = header.rpartition("\n\n")
    summary = f"{head}\n\n{note}\n\n{titles}{line}" + "\n".join(rows)
    return f"{before}{begin}\n\n" + "\n\n### ".join([summary, *sections]) + f"\n\n{end}{after}"


# --- The plot ------------------------------------------------------------------------------------------

PLOTTED: Final = ("call", "stream", "loop", "history")
WIDTH: Final = 760
LEFT: Final = 230
BAR: Final = 15
SCALE: Final = (WIDTH - LEFT - 70) / 3.0
"""Pixels per factor of ten. The axis runs from 0.1 to 100."""


def plot(results: Mapping[str, Result]) -> str:
    """Return an SVG bar chart of the rows in `PLOTTED`, on a logarithmic scale.

    The colors are legible on light and dark backgrounds.
    """
    body: list[str] = []
    y = 10
    for name in PLOTTED:
        if name not in results:
            continue
        result = results[name]
        y += 24
        body.append(f'<text x="0" y="{y}" class="t">{escape(result.row.what)}</text>')
        y += 8
        for item in sorted(result.measured, key=lambda item: item.ratio):
            if not item.failure:
                body += _bar(item, y)
                y += BAR + 5
    height = y + 30
    lines = [_line(power, height) for power in (-1, 0, 1, 2)]
    style = (
        "text{font:12px sans-serif;fill:#777}.t{font-weight:bold;font-size:13px}.o{fill:#2a9d8f}.p{fill:#e9a23b}"
        "line{stroke:#999;stroke-width:.5}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    title = "<title>CPU time compared with a hand-written client, on a logarithmic scale</title>"
    return "\n".join([head, title, f"<style>{style}</style>", *lines, *body, "</svg>", ""])


def _place(ratio: float) -> float:
    return LEFT + SCALE * (log10(min(max(ratio, 0.1), 100.0)) + 1)


def _bar(item: Measured, y: int) -> list[str]:
    end = _place(item.ratio)
    kind = "o" if item.who.startswith("chat") else "p"
    return [
        f'<text x="{LEFT - 6}" y="{y + 12}" text-anchor="end">{escape(name_of(item.who))}</text>',
        f'<rect x="{LEFT}" y="{y}" width="{max(end - LEFT, 1):.0f}" height="{BAR}" class="{kind}"/>',
        f'<text x="{end + 5:.0f}" y="{y + 12}">{number(item.ratio)}</text>',
    ]


def _line(power: int, height: int) -> str:
    x = _place(10.0**power)
    line = f'<line x1="{x:.0f}" x2="{x:.0f}" y1="18" y2="{height - 20}"/>'
    return f'{line}<text x="{x:.0f}" y="{height - 6}" text-anchor="middle">{10.0**power:g} times</text>'
