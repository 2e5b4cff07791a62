"""An indexer that extracts passages, entities, facts, relations and a summary from stored conversations.

    indexer = Indexer(memory, ModelExtractor(model), scope=lambda meta: meta.owner)
    await store.close("chat-17", jobs=[index_job("chat-17")])
    await indexer.run_next(store)

The output of the extractor is stored before the facts that follow from it. After a crash, the next run therefore
continues and writes the same facts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias, cast
from uuid import uuid4

from chat_core.arguments import argument_error, require_callable, require_text, require_type, require_whole
from chat_core.clock import utc_now
from chat_core.errors import ChatError, UsageError
from chat_core.messages import Messages
from chat_core.model_texts import raised
from chat_store import ConversationStore, Job, UnknownConversationError
from chat_store.meta import ConversationMeta

from chat_memory.citations import SessionCitation
from chat_memory.extraction import (
    Certainty,
    EntityRecognizer,
    ExtractedFact,
    Extraction,
    Extractor,
    extraction_from_dict,
    extraction_to_dict,
)
from chat_memory.facts import (
    Candidate,
    Historical,
    Inserted,
    Outcome,
    Reinforced,
    Statement,
    Superseded,
    is_forgotten_record,
    normalize,
)
from chat_memory.graph import Entity, Relation
from chat_memory.memory import Memory, MemoryScope, require_memory
from chat_memory.passages import Passage
from chat_memory.recall import Recall
from chat_memory.transcript import TranscriptTurn, read_turns, split_turns

INDEX_JOB: Final = "index"
"""The kind of the jobs that `Indexer.run_next()` takes."""

_REPORT = "report"
_MAX_ERROR_CHARACTERS = 500
_Counts: TypeAlias = dict[str, int]


@dataclass(frozen=True, slots=True)
class StageError:
    """An error that occurred in one stage of indexing.

    Attributes:
        stage: "passages", "extract", "entities", "facts", "relations", "summary" or "embed".
        error: a description of the error.
        retry: whether the stage may succeed later.
    """

    stage: str
    error: str
    retry: bool = True


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The result of indexing a conversation.

    After a crash, the report of the next run includes the rows that the interrupted run stored.

    Attributes:
        entities_stored: entities that were mentioned.
        facts_inserted: facts that became current.
        facts_reinforced: statements that support a fact which was already current.
        facts_superseded: facts that were replaced by a fact that became current.
        facts_candidates: facts that contradict a fact of a stronger source.
        facts_historical: facts about the past.
        relationships_stored: relations that were mentioned.
        summary_stored: whether a summary of the whole conversation is stored.
        errors: the errors of all stages.
        version: the version of the extractor.
        turns: number of turns, counted from the beginning, that are indexed completely.
    """

    entities_stored: int = 0
    facts_inserted: int = 0
    facts_reinforced: int = 0
    facts_superseded: int = 0
    facts_candidates: int = 0
    facts_historical: int = 0
    relationships_stored: int = 0
    summary_stored: bool = False
    errors: Sequence[StageError] = ()
    version: str = ""
    turns: int = 0

    @property
    def complete(self) -> bool:
        """Whether no stage needs to run again."""
        return not any(error.retry for error in self.errors)


class IncompleteIndexError(ChatError):
    """The indexing of a conversation is incomplete, because a stage failed that may succeed later.

    Attributes:
        report: the stored report.
    """

    def __init__(self, report: IndexReport) -> None:
        failed = "; ".join(f"{error.stage}: {error.error}" for error in report.errors if error.retry)
        super().__init__(f"the conversation is not indexed completely: {failed}")
        self.report = report


def index_job(conversation: str, *, key: str | None = None, at: datetime | None = None, max_attempts: int = 8) -> Job:
    """Return a job that indexes a conversation, for `store.close(id, jobs=[index_job(id)])`.

    Args:
        conversation: the id of the conversation.
        key: jobs with the same key are queued once. Default: a new key. A second job indexes only turns that
            are not indexed yet.
        at: the earliest time at which the job runs. Default: now.
        max_attempts: the maximum number of attempts.
    """
    return Job(INDEX_JOB, key or f"{conversation}/{uuid4().hex}", at=at, max_attempts=max_attempts)


async def queue_idle(
    store: ConversationStore, idle: timedelta, *, now: Callable[[], datetime] = utc_now, max_attempts: int = 8
) -> int:
    """Queue a job for each open conversation that was inactive for some time. Call this function periodically.

    Several processes may call it: after each activity, a conversation is queued only once.

    Args:
        store: the store of the conversations.
        idle: minimum time since the last activity.
        now: returns the current time.
        max_attempts: maximum number of attempts of each job.

    Returns:
        The number of inactive conversations.
    """
    require_type("store", store, ConversationStore, "a store, such as SqliteStore(...)")
    require_type("idle", idle, timedelta, "a timedelta, such as timedelta(minutes=10)")
    found = 0
    for meta in await store.conversations(state="open"):
        if meta.last_active is not None and now() - meta.last_active >= idle:
            key = f"{meta.id}/{meta.last_active.isoformat()}"
            try:
                await store.apply(meta.id, jobs=[index_job(meta.id, key=key, max_attempts=max_attempts)])
            except UnknownConversationError:  # deleted since then
                continue
            found += 1
    return found


@dataclass(slots=True)
class _Run:
    """State of one `Indexer.index()` call: the turns that it indexes, its counts and its errors.

    Attributes:
        rows: the scope. Its writes fail if a fact from the conversation is forgotten during the run.
        forgotten: the indexes of turns from which facts were forgotten before the run.
    """

    rows: MemoryScope
    conversation: str
    version: str
    records: Mapping[str, Mapping[str, object]]
    chunks: Sequence[Sequence[TranscriptTurn]]
    forgotten: Collection[object]
    extractions: list[Extraction] = field(default_factory=list[Extraction])
    counts: _Counts = field(default_factory=dict[str, int])
    errors: list[StageError] = field(default_factory=list[StageError])
    summarized: bool = False

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def fail(self, stage: str, error: Exception | str) -> None:
        retry = not isinstance(error, (UsageError, str))
        text = error if isinstance(error, str) else raised(error)
        self.errors.append(StageError(stage, text[:_MAX_ERROR_CHARACTERS], retry))


class Indexer:
    """An indexer that processes a conversation in stages: passages, extract, entities, facts, relations and summary.

    A failed stage is reported, and the next stage runs. If a conversation was indexed before, only turns that were
    added since then are indexed.

    Args:
        memory: the memory that receives the knowledge.
        extractor: object that extracts knowledge and writes summaries.
        scope: function that returns the name of the scope for a conversation.
        recognizer: object that finds entities without a language model. If it fails, the extractor's entities are used.
        recall: object that computes vectors of the new texts, if it has an embedder.
        chunk_characters: maximum number of characters of the transcript in one request. A longer turn is not split.
    """

    def __init__(
        self,
        memory: Memory,
        extractor: Extractor,
        *,
        scope: Callable[[ConversationMeta], str | None],
        recognizer: EntityRecognizer | None = None,
        recall: Recall | None = None,
        chunk_characters: int = 24_000,
    ) -> None:
        require_memory(memory)
        if not callable(getattr(extractor, "extract", None)):
            raise argument_error("extractor", "an extractor, such as ModelExtractor(model)", extractor)
        require_callable("scope", scope, "a function of a ConversationMeta, such as lambda meta: meta.owner")
        if recall is not None:
            require_type("recall", recall, Recall, "a Recall, or None")
        require_whole("chunk_characters", chunk_characters, 1)
        self._memory = memory
        self._extractor = extractor
        self._scope = scope
        self._recognizer = recognizer
        self._recall = recall
        self._chunk_characters = chunk_characters

    async def run_next(self, store: ConversationStore) -> IndexReport | None:
        """Take the next indexing job of a store, index its conversation, and return the report.

        Return None if there is no indexing job.

        Raises:
            IncompleteIndexError: a stage failed. The store tries the job again later.
            UsageError: the conversation has no scope.
        """
        async with store.take_job(INDEX_JOB) as job:
            if job is None:
                return None
            meta = await store.meta(job.conversation)
            scope = self._scope(meta)
            if scope is None:
                msg = f"conversation {meta.id!r} cannot be indexed: the function scope() returned None for it"
                raise UsageError(msg)
            report = await self.index(scope, meta.id, (await store.load(meta.id)).messages)
            if not report.complete:
                raise IncompleteIndexError(report)
            return report

    async def index(self, scope: str, conversation: str, messages: Messages) -> IndexReport:
        """Index the turns of a conversation that were not indexed before, and return the stored report.

        Args:
            scope: the name of the scope.
            conversation: the id of the conversation.
            messages: messages of the conversation.
        """
        require_text(scope=scope, conversation=conversation)
        require_type("messages", messages, Messages, "Messages")
        rows = self._memory.scope(scope)
        records = await rows.records(conversation)
        version = self._extractor.version + (f" {self._recognizer.version}" if self._recognizer else "")
        before = _stored_report(records, version)
        forgotten = _forgotten_turns(records)
        turns = [turn for turn in read_turns(messages) if turn.index >= before.turns and turn.index not in forgotten]
        if not turns:
            return before
        chunks = _split_turns(records, version, turns, self._chunk_characters)
        run = _Run(rows.unless_forgotten(conversation, records), conversation, version, records, chunks, forgotten)
        await self._run_stage(run, "passages", self._add_passages)
        await self._run_stage(run, "extract", self._extract_chunks)
        for extraction in run.extractions:
            for problem in extraction.problems:
                run.fail("extract", problem)
        await self._run_stage(run, "entities", self._add_entities)
        await self._run_stage(run, "facts", self._add_facts)
        await self._run_stage(run, "relations", self._add_relations)
        await self._run_stage(run, "summary", self._summarize_chunks)
        if self._recall is not None:
            await self._run_stage(run, "embed", self._embed_documents)
        report = _merge_reports(before, run, turns[-1].index + 1)
        document = {**asdict(report), "indexed": asdict(report if report.complete else before)}
        await rows.put_record(conversation, _REPORT, document, replace=True)
        return report

    async def report(self, scope: str, conversation: str) -> IndexReport | None:
        """Return the report of the last run for a conversation, or None if it was never indexed.

        Args:
            scope: the name of the scope.
            conversation: the id of the conversation.
        """
        document = (await self._memory.scope(scope).records(conversation)).get(_REPORT)
        return None if document is None else _report_from_dict(document)

    async def _run_stage(self, run: _Run, name: str, stage: Callable[[_Run], Awaitable[None]]) -> None:
        try:
            await stage(run)
        except Exception as error:  # noqa: BLE001 - it is reported, and the other stages run
            run.fail(name, error)

    async def _add_passages(self, run: _Run) -> None:
        for chunk in run.chunks:
            await run.rows.add_passages(
                [
                    Passage(turn.text, run.conversation, turn.index, speaker=turn.speaker, said_at=turn.said_at)
                    for turn in chunk
                ]
            )

    async def _extract_chunks(self, run: _Run) -> None:
        for chunk in run.chunks:
            name = _record_name("extraction", run.version, chunk)
            document = run.records.get(name)
            if document is None:
                # The first record of a name stays, so that two workers write the same facts.
                output = {
                    **_range_fields(run.version, chunk),
                    "output": extraction_to_dict(await self._extract_chunk(chunk)),
                }
                document = await run.rows.put_record(run.conversation, name, output)
            run.extractions.append(extraction_from_dict(cast("Mapping[str, object]", document["output"])))

    async def _extract_chunk(self, chunk: Sequence[TranscriptTurn]) -> Extraction:
        recognized, problems = Extraction(), list[str]()
        if self._recognizer is not None:
            try:
                recognized = await self._recognizer.recognize([turn.text for turn in chunk])
            except Exception as error:  # noqa: BLE001 - the entities of the extractor are used
                problems.append(f"the recognizer failed: {raised(error)}"[:_MAX_ERROR_CHARACTERS])
        found = await self._extractor.extract(chunk, [entity.name for entity in recognized.entities])
        return replace(
            found,
            entities=recognized.entities or found.entities,
            relations=recognized.relations or found.relations,
            problems=[*problems, *found.problems],
        )

    async def _add_entities(self, run: _Run) -> None:
        found: dict[str, Entity] = {}
        for item in (item for extraction in run.extractions for item in extraction.entities):
            try:
                entity = Entity(item.name, item.type, {"context": item.context} if item.context else {})
                await run.rows.add_entity(entity)
            except UsageError as error:
                run.fail("entities", error)
                continue
            found[entity.id] = entity
        run.count("entities_stored", len(found))

    async def _add_facts(self, run: _Run) -> None:
        # A failed extraction ends the list of extractions early.
        for chunk, extraction in zip(run.chunks, run.extractions, strict=False):
            for fact in extraction.facts:
                try:
                    turn, certainty = _cite_turn(chunk, fact)
                    if turn.index in run.forgotten or fact.turn in run.forgotten:
                        continue
                    outcome = await run.rows.add(_create_statement(run.conversation, turn, certainty, fact))
                except UsageError as error:
                    run.fail("facts", error)
                    continue
                _count_outcome(run, outcome)

    async def _add_relations(self, run: _Run) -> None:
        found: set[tuple[str, str, str]] = set()
        for chunk, extraction in zip(run.chunks, run.extractions, strict=False):
            for item in extraction.relations:
                try:
                    relation = Relation(item.source, item.label, item.target)
                    await run.rows.relate(relation, key=f"{run.conversation} {chunk[0].index}")
                except UsageError as error:
                    run.fail("relations", error)
                    continue
                found.add((normalize(item.source), normalize(item.label), normalize(item.target)))
        run.count("relationships_stored", len(found))

    async def _summarize_chunks(self, run: _Run) -> None:
        earlier = await run.rows.documents(conversation=run.conversation, kind="summary")
        summary = earlier[0].text if earlier else ""
        for chunk in run.chunks:
            name = _record_name("summary", run.version, chunk)
            document = run.records.get(name)
            if document is None:
                text = (await self._extractor.summarize(chunk, summary)).replace("\0", "").strip()
                document = await run.rows.put_record(run.conversation, name, {"text": text})
            summary = str(document["text"])
        if summary:
            last = run.chunks[-1][-1]
            await run.rows.add_passages([Passage(summary, run.conversation, 0, "summary", None, last.said_at)])
            run.summarized = True

    async def _embed_documents(self, run: _Run) -> None:
        if self._recall is not None:
            await self._recall.embed(run.rows.name)


def _cite_turn(chunk: Sequence[TranscriptTurn], fact: ExtractedFact) -> tuple[TranscriptTurn, Certainty]:
    """Return the source turn and the certainty of a fact.

    A fact from a model's turn is inferred, whatever the extractor reports. The same applies to a fact whose turn is
    unknown, because there is no evidence that the user stated it.
    """
    cited = next((turn for turn in chunk if turn.index == fact.turn), None)
    if cited is None or cited.speaker == "model":
        return cited or chunk[-1], "inferred"
    return cited, fact.certainty


def _create_statement(conversation: str, turn: TranscriptTurn, certainty: Certainty, fact: ExtractedFact) -> Statement:
    return Statement(
        fact.subject,
        fact.predicate,
        fact.object,
        source=certainty,
        said_at=turn.said_at,
        citation=SessionCitation(conversation, turn.index, turn.said_at),
    )


def _forgotten_turns(records: Mapping[str, Mapping[str, object]]) -> set[object]:
    """Return the indexes of the turns from which facts were forgotten."""
    return {record.get("turn") for name, record in records.items() if is_forgotten_record(name)} - {None}


def _count_outcome(run: _Run, outcome: Outcome) -> None:
    match outcome:
        case Inserted():
            run.count("facts_inserted")
        case Reinforced():
            run.count("facts_reinforced")
        case Superseded(_, replaced):
            run.count("facts_inserted")
            run.count("facts_superseded", len(replaced))
        case Candidate():
            run.count("facts_candidates")
        case Historical():
            run.count("facts_historical")


def _split_turns(
    records: Mapping[str, Mapping[str, object]], version: str, turns: Sequence[TranscriptTurn], characters: int
) -> list[list[TranscriptTurn]]:
    """Split turns into chunks for the extractor. Chunks that an interrupted run has processed stay the same."""
    ranges = sorted(
        (cast("int", item["first"]), cast("int", item["last"]))
        for item in records.values()
        if item.get("version") == version and "output" in item and cast("int", item["first"]) >= turns[0].index
    )
    known = [[turn for turn in turns if first <= turn.index <= last] for first, last in ranges]
    end = ranges[-1][1] if ranges else -1
    return [chunk for chunk in known if chunk] + list(split_turns([t for t in turns if t.index > end], characters))


def _record_name(kind: str, version: str, chunk: Sequence[TranscriptTurn]) -> str:
    return f"{kind} {chunk[0].index}-{chunk[-1].index} {version}"


def _range_fields(version: str, chunk: Sequence[TranscriptTurn]) -> dict[str, object]:
    return {"version": version, "first": chunk[0].index, "last": chunk[-1].index}


def _stored_report(records: Mapping[str, Mapping[str, object]], version: str) -> IndexReport:
    """Return the stored report of earlier runs, or an empty report."""
    document = records.get(_REPORT, {}).get("indexed")
    if document is None:
        return IndexReport(version=version)
    report = _report_from_dict(cast("Mapping[str, object]", document))
    return report if report.version == version else IndexReport(version=version)


def _report_from_dict(document: Mapping[str, object]) -> IndexReport:
    known = {item.name for item in fields(IndexReport)}
    values: dict[str, Any] = {name: value for name, value in document.items() if name in known}
    values["errors"] = tuple(StageError(**item) for item in cast("list[dict[str, Any]]", document["errors"]))
    return IndexReport(**values)


def _merge_reports(before: IndexReport, run: _Run, turns: int) -> IndexReport:
    """Return the report of a run, combined with the counts of earlier runs."""
    counts: dict[str, Any] = {name: getattr(before, name) + number for name, number in run.counts.items()}
    report = replace(before, **counts, summary_stored=run.summarized, errors=tuple(run.errors))
    return replace(report, turns=turns) if report.complete else report
