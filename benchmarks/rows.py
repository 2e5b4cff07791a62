"""Rows of the benchmark: the work measured, its baseline and its targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from work import UNITS

RAW: Final = "raw-httpx"
CHAT_PEERS: Final = (
    "openai",
    "langchain-openai",
    "pydantic-ai-direct",
    "pydantic-ai",
    "openai-agents",
    "litellm",
)
LOOP_PEERS: Final = ("openai", "langchain-openai", "pydantic-ai", "openai-agents", "litellm")
IMPORTED: Final = (
    "httpx2",
    "anthropic",
    "openai",
    "google-genai",
    "langchain-openai",
    "pydantic-ai",
    "openai-agents",
    "litellm",
)
LIMITS: Final = {"litellm": "peers-litellm"}
"""Lock names of peers that conflict with the other peers' dependencies."""

Kind: TypeAlias = Literal["ratio", "growth", "import", "checkpoints", "encoders", "router"]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table.

    Attributes:
        name: the name on the command line.
        what: the title in the summary table.
        heading: the title of the section, or an empty string to use `what`.
        work: the name of the work; for a row of `growth`, the smaller of two.
        unit: the name of one unit of work, such as `event`.
        target: the maximum ratio of the first client in `ours`; `None` if the ratio has no target.
        wire: the name of the wire format.
        baseline: the client that the others are compared with.
        ours: clients of this library; the target applies to the first.
        peers: clients of other libraries.
        kind: how the row is measured.
        larger: for a row of `growth`, the name of the larger work.
        like: the name of another row whose ratio in the same run is an upper limit as well.
        fastest: the maximum ratio of this library over aiohttp, or `None`.
        linear: the ratio of a row of `growth` if the cost were linear in the amount of work.
        most_us: the maximum CPU time per unit in microseconds, or `None`.
        most_mb: the maximum memory growth in megabytes, or `None`.
        slots: the number of pairs for clients of this library, and for peers.
        fresh: whether each slot runs in a new process.
        note: an explanation printed above the table.
    """

    name: str
    what: str
    work: str
    unit: str
    target: float | None
    wire: str = "completions"
    baseline: str = RAW
    ours: tuple[str, ...] = ("chat",)
    peers: tuple[str, ...] = ()
    kind: Kind = "ratio"
    larger: str = ""
    heading: str = ""
    like: str = ""
    fastest: float | None = None
    linear: float | None = None
    most_us: float | None = None
    most_mb: float | None = None
    slots: tuple[int, int] = (31, 9)
    fresh: bool = False
    note: str = ""

    @property
    def units(self) -> int:
        """Number of units in one slot."""
        return UNITS[self.work]


ROWS: Final = (
    Row(
        "call",
        "a call, not streamed",
        "call",
        "call",
        1.15,
        ours=("chat", "chat-httpx", "chat-httpx2"),
        peers=CHAT_PEERS,
    ),
    Row(
        "call-claude",
        "the same, Anthropic Messages",
        "call",
        "call",
        1.15,
        "claude",
        ours=("chat", "chat-aiohttp"),
        peers=("anthropic",),
        heading="A call, Anthropic Messages",
    ),
    Row(
        "call-gemini",
        "the same, Gemini",
        "call",
        "call",
        1.15,
        "gemini",
        ours=("chat", "chat-aiohttp"),
        peers=("google-genai",),
        heading="A call, Gemini",
    ),
    Row(
        "call-responses",
        "the same, Responses",
        "call",
        "call",
        1.15,
        "responses",
        ours=("chat", "chat-aiohttp"),
        peers=("openai-responses",),
        heading="A call, Responses",
    ),
    Row(
        "stream",
        "a stream of 2,000 text events, Chat Completions",
        "stream",
        "event",
        1.0,
        ours=("chat", "chat-httpx", "chat-httpx2", "bytes-httpx", "sockets"),
        peers=CHAT_PEERS,
    ),
    Row(
        "stream-claude",
        "the same, Anthropic Messages",
        "stream",
        "event",
        1.0,
        "claude",
        ours=("chat", "chat-aiohttp"),
        peers=("anthropic",),
        heading="A stream of 2,000 text events, Anthropic Messages",
        fastest=0.4,
    ),
    Row(
        "stream-gemini",
        "the same, Gemini",
        "stream",
        "event",
        1.0,
        "gemini",
        ours=("chat", "chat-aiohttp"),
        peers=("google-genai",),
        heading="A stream of 2,000 text events, Gemini",
        fastest=0.4,
    ),
    Row(
        "stream-responses",
        "the same, Responses",
        "stream",
        "event",
        1.0,
        "responses",
        ours=("chat", "chat-aiohttp"),
        peers=("openai-responses",),
        heading="A stream of 2,000 text events, Responses",
        fastest=0.4,
    ),
    Row("fast-call", "a call, over aiohttp", "call", "call", 0.5, ours=("chat-aiohttp", "sockets")),
    Row("fast-stream", "a stream of 2,000 text events, over aiohttp", "stream", "event", 0.4, ours=("chat-aiohttp",)),
    Row(
        "crowd",
        "200 streams at once, of 200 events each",
        "crowd",
        "event",
        1.0,
        ours=("chat", "chat-aiohttp"),
        peers=("openai", "pydantic-ai", "litellm"),
        most_mb=20,
        slots=(4, 2),
        fresh=True,
    ),
    Row(
        "crowd-claude",
        "the same, Anthropic Messages",
        "crowd",
        "event",
        1.0,
        "claude",
        ours=("chat", "chat-aiohttp"),
        peers=("anthropic",),
        most_mb=20,
        slots=(3, 2),
        fresh=True,
        heading="200 streams at once, of 200 events each, Anthropic Messages",
    ),
    Row(
        "crowd-httpx2",
        "the same, over httpx2 and compared with it",
        "crowd",
        "event",
        1.25,
        baseline="raw-httpx2",
        ours=("chat-httpx2",),
        most_mb=20,
        slots=(4, 2),
        fresh=True,
        heading="200 streams at once, of 200 events each, over httpx2 and compared with it",
        peers=("openai",),
    ),
    Row(
        "crowd-1000",
        "1,000 streams at once, of 20 events each, compared with httpx2",
        "crowd1000",
        "event",
        1.1,
        baseline="raw-httpx2",
        ours=("chat", "chat-httpx2", "chat-aiohttp"),
        most_mb=50,
        slots=(4, 2),
        fresh=True,
    ),
    Row(
        "loop",
        "a tool loop of 10 steps of 4 parallel calls",
        "loop10",
        "request",
        1.1,
        ours=("chat", "chat-httpx", "chat-httpx2", "chat-aiohttp"),
        peers=LOOP_PEERS,
    ),
    Row(
        "loop50",
        "the same, 50 steps",
        "loop50",
        "request",
        1.1,
        ours=("chat", "chat-aiohttp"),
        peers=LOOP_PEERS,
        slots=(21, 3),
        heading="A tool loop of 50 steps of 4 parallel calls",
        like="loop",
    ),
    Row(
        "history",
        "a tool loop on a history of 1,000 messages",
        "history1000",
        "request",
        0.6,
        ours=("chat", "chat-httpx", "chat-httpx2", "chat-aiohttp"),
        peers=LOOP_PEERS,
        slots=(31, 5),
    ),
    Row(
        "history2000",
        "the same, 2,000 messages",
        "history2000",
        "request",
        0.6,
        ours=("chat", "chat-aiohttp"),
        slots=(21, 3),
        heading="A tool loop on a history of 2,000 messages",
        peers=("openai",),
    ),
    Row(
        "seams",
        "a tool loop of 10 steps with one more seam, compared with the loop without it",
        "loop10",
        "request",
        None,
        baseline="chat",
        ours=("chat-values", "chat-instructions", "chat-context", "chat-middleware", "chat-outputs"),
        slots=(31, 0),
        note="Each seam is used as in its guide: a value that the tool receives, a function that returns instructions, "
        "a context policy that has nothing to cut, a middleware that forwards each request, and results that change "
        "the state.",
    ),
    Row(
        "seams-stored",
        "a tool loop of a conversation in a `MemoryStore`, as a job or on posted input, compared with one without",
        "stored10",
        "request",
        None,
        baseline="chat",
        ours=("chat-jobs", "chat-posts"),
        slots=(31, 0),
    ),
    Row(
        "agent-loop",
        "a streamed tool loop of 10 steps by an agent, compared with a chat",
        "streamed10",
        "request",
        1.15,
        baseline="chat",
        ours=("chat-agent",),
        slots=(31, 0),
    ),
    Row(
        "agent-stream",
        "a stream of 2,000 text events by an agent, compared with a chat",
        "stream",
        "event",
        1.1,
        baseline="chat",
        ours=("chat-agent",),
        slots=(31, 0),
    ),
    Row(
        "encoders",
        "a run encoded for a front end, compared with writing its bytes by hand",
        "encoders",
        "event",
        1.5,
        baseline="raw-by-hand",
        ours=("AG-UI",),
        kind="encoders",
        slots=(200, 0),
        note="The slowest encoder comes first, and the target applies to it.",
    ),
    Row(
        "router",
        "a call of a router of two models, over a call of the chosen model",
        "router",
        "call",
        None,
        ours=("Router",),
        kind="router",
        slots=(20, 0),
        most_us=5,
        note="The model answers without any work. The time is the median of the differences of the pairs. The limit "
        "applies to a router without a strategy, which comes first.",
    ),
    Row(
        "router-stream",
        "a stream of 2,000 text events of a router, compared with a chat of one model",
        "stream",
        "event",
        1.2,
        baseline="chat",
        ours=("chat-router",),
        slots=(31, 0),
    ),
    Row(
        "talk-stream",
        "a stream of 2,000 text events in a talk, compared with a chat",
        "stream",
        "event",
        None,
        baseline="chat",
        ours=("chat-talk",),
        slots=(31, 0),
    ),
    Row(
        "deltas",
        "one tool call in 16,000 pieces, compared with one in 1,000",
        "deltas1000",
        "stream",
        20,
        ours=("chat", RAW),
        kind="growth",
        larger="deltas16000",
        slots=(7, 3),
        linear=16,
        peers=("openai",),
    ),
    Row(
        "deltas2000",
        "one tool call in 2,000 pieces, compared with one in 500",
        "deltas500",
        "stream",
        5,
        peers=("openai", "langchain-openai"),
        kind="growth",
        larger="deltas2000",
        slots=(7, 2),
        linear=4,
    ),
    Row(
        "parser",
        "events of 150 bytes in chunks of 4 KiB, compared with openai's decoder",
        "parser",
        "event",
        0.2,
        baseline="openai",
        slots=(21, 0),
    ),
    Row(
        "big",
        "an event of 10 MB in pieces of 1 KiB, compared with one of 1 MB",
        "big1",
        "event",
        16,
        kind="growth",
        larger="big10",
        slots=(11, 0),
        linear=10,
    ),
    Row(
        "import",
        "`import chat_core`, compared with `import pydantic`",
        "import",
        "import",
        1.4,
        ours=("chat", "chat-provider"),
        peers=IMPORTED,
        kind="import",
        slots=(11, 3),
        note="This library and pydantic are only imported; the others also create a client, as in their documentation. "
        "Each is compared with the pydantic of its own environment. All modules are compiled.",
    ),
    Row(
        "read",
        "1,000 messages from JSON, compared with `json.loads` of plain dicts",
        "read",
        "message",
        None,
        peers=("pydantic-ai",),
        most_us=4,
    ),
    Row(
        "write",
        "1,000 messages to JSON, compared with `json.dumps` of plain dicts",
        "write",
        "message",
        None,
        peers=("pydantic-ai",),
        most_us=2.5,
    ),
    Row(
        "resume",
        "a request on a history of 1,000 messages that is read from JSON before it",
        "resume",
        "request",
        None,
        ours=("chat", "chat-httpx", "chat-aiohttp"),
    ),
    Row(
        "checkpoints",
        "a checkpoint for every step of a tool call, SQLite and PostgreSQL",
        "checkpoints",
        "call",
        None,
        ours=(),
        kind="checkpoints",
        slots=(11, 0),
        note="A store writes each step before its effect: three durable writes for a tool call (the turn with "
        "the call, the start of the call, its result). The table shows the cost in addition to the same "
        "run on plain messages, in microseconds: the median and the interquartile range of the paired "
        "differences. Each write is committed to disk. For PostgreSQL, only the CPU time of the client is "
        "counted.",
    ),
)
"""All rows, in the order in which they are measured and reported."""
